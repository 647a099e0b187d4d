//! `UdpSocket`.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6, UdpSocket};
use std::thread;
use std::time::Duration;

use network_example::LONG;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

#[test]
fn there_and_back() {
    let (a, b) = (socket(), socket());
    assert_eq!(a.send_to(b"hello", b.local_addr().unwrap()).unwrap(), 5);
    let mut buffer = [0; 64];
    let (count, from) = b.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..count], from), (&b"hello"[..], a.local_addr().unwrap()));
    b.send_to(b"you too", from).unwrap();
    assert_eq!(a.recv_from(&mut buffer).unwrap(), (7, b.local_addr().unwrap()));
}

#[test]
fn connected() {
    let (a, b, stranger) = (socket(), socket(), socket());
    assert_eq!(a.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
    a.connect(b.local_addr().unwrap()).unwrap();
    assert_eq!(a.peer_addr().unwrap(), b.local_addr().unwrap());
    // Only datagrams from its peer are received.
    stranger.send_to(b"psst", a.local_addr().unwrap()).unwrap();
    b.send_to(b"hello", a.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 64];
    assert_eq!(a.recv(&mut buffer).unwrap(), 5);
    assert_eq!(a.send(b"hi").unwrap(), 2);
    assert_eq!(b.recv_from(&mut buffer).unwrap(), (2, a.local_addr().unwrap()));
}

#[test]
fn without_an_address() {
    let unconnected = socket();
    let error = unconnected.send(b"to whom?").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(89), "{error}");
}

#[test]
fn each_is_one() {
    let (a, b) = (socket(), socket());
    let to = b.local_addr().unwrap();
    for length in [0, 1, 100, 0, 1000] {
        assert_eq!(a.send_to(&vec![length as u8; length], to).unwrap(), length);
    }
    for length in [0, 1, 100, 0, 1000] {
        let mut buffer = [0; 2000];
        assert_eq!(b.recv(&mut buffer).unwrap(), length);
        assert!(buffer[..length].iter().all(|byte| *byte == length as u8));
    }
    // The bytes that do not fit are lost.
    a.send_to(b"long", to).unwrap();
    a.send_to(b"next", to).unwrap();
    let mut two = [0; 2];
    assert_eq!((b.recv(&mut two).unwrap(), &two), (2, b"lo"));
    assert_eq!((b.recv(&mut two).unwrap(), &two), (2, b"ne"));
}

#[test]
fn the_longest() {
    let (a, b) = (socket(), socket());
    let most = vec![5; 65_507];
    assert_eq!(a.send_to(&most, b.local_addr().unwrap()).unwrap(), most.len());
    let mut buffer = vec![0; 70_000];
    assert_eq!(b.recv(&mut buffer).unwrap(), most.len());
    assert_eq!(buffer[..most.len()], most);
    let error = a.send_to(&vec![5; 65_508], b.local_addr().unwrap()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(90), "{error}");
}

#[test]
fn peeking() {
    let (a, b) = (socket(), socket());
    a.send_to(b"look", b.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(b.peek(&mut buffer).unwrap(), 4);
    assert_eq!(b.peek_from(&mut buffer).unwrap(), (4, a.local_addr().unwrap()));
    assert_eq!(b.recv(&mut buffer).unwrap(), 4);
    b.set_nonblocking(true).unwrap();
    assert_eq!(b.peek(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn nobody_is_there() {
    let gone = socket().local_addr().unwrap();
    let a = socket();
    a.connect(gone).unwrap();
    a.send(b"anybody?").unwrap();
    assert_eq!(a.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // The error is reported once.
    a.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!(matches!(a.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    // An unconnected socket gets no such error.
    let b = socket();
    b.send_to(b"anybody?", gone).unwrap();
    b.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!(matches!(b.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
}

/// Each socket learns once of each of its errors, and of no other's, whichever was first.
#[test]
fn sending_to_nobody() {
    let gone = socket().local_addr().unwrap();
    let [a, b, other] = [socket(), socket(), socket()];
    let there = socket();
    other.connect(there.local_addr().unwrap()).unwrap();
    for socket in [&a, &b] {
        socket.connect(gone).unwrap();
    }
    for _ in 0..3 {
        network_example::sends_until_refused(&a);
        network_example::sends_until_refused(&b);
        other.send(b"somebody").unwrap();
        assert_eq!(there.recv(&mut [0; 16]).unwrap(), 8);
    }
}

#[test]
fn timeouts() {
    let a = socket();
    a.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!(a.read_timeout().unwrap() >= Some(Duration::from_millis(20)));
    assert!(matches!(a.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    a.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!(a.write_timeout().unwrap() >= Some(Duration::from_millis(20)));
    a.set_nonblocking(true).unwrap();
    assert_eq!(a.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn in_use() {
    let a = socket();
    assert_eq!(UdpSocket::bind(a.local_addr().unwrap()).unwrap_err().kind(), ErrorKind::AddrInUse);
    let address = a.local_addr().unwrap();
    drop(a);
    UdpSocket::bind(address).unwrap();
}

#[test]
fn version_six() {
    let a = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let b = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    b.set_read_timeout(Some(LONG)).unwrap();
    a.send_to(b"six", b.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(b.recv_from(&mut buffer).unwrap(), (3, a.local_addr().unwrap()));
}

#[test]
fn version_four_comes_to_six() {
    let both = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    both.set_read_timeout(Some(LONG)).unwrap();
    let port = both.local_addr().unwrap().port();
    let four = socket();
    four.send_to(b"x", (Ipv4Addr::LOCALHOST, port)).unwrap();
    let (_, from) = both.recv_from(&mut [0; 8]).unwrap();
    assert_eq!(from.ip(), Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    both.send_to(b"y", from).unwrap();
    assert_eq!(four.recv_from(&mut [0; 8]).unwrap().1.port(), port);
}

#[test]
fn broadcast_has_to_be_wished() {
    let a = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    assert!(!a.broadcast().unwrap());
    let b = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    b.set_read_timeout(Some(LONG)).unwrap();
    let to = (Ipv4Addr::new(127, 255, 255, 255), b.local_addr().unwrap().port());
    assert_eq!(a.send_to(b"all", to).unwrap_err().kind(), ErrorKind::PermissionDenied);
    a.set_broadcast(true).unwrap();
    assert!(a.broadcast().unwrap());
    a.send_to(b"all", to).unwrap();
    assert_eq!(b.recv(&mut [0; 8]).unwrap(), 3);
}

#[test]
fn options() {
    let a = socket();
    a.set_ttl(42).unwrap();
    assert_eq!(a.ttl().unwrap(), 42);
    a.set_multicast_loop_v4(false).unwrap();
    assert!(!a.multicast_loop_v4().unwrap());
    a.set_multicast_ttl_v4(3).unwrap();
    assert_eq!(a.multicast_ttl_v4().unwrap(), 3);
    let six = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    six.set_multicast_loop_v6(false).unwrap();
    assert!(!six.multicast_loop_v6().unwrap());
}

/// A member of a group on the loopback.
#[test]
fn groups() {
    let group = Ipv4Addr::new(239, 255, 77, 1);
    let member = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    member.set_read_timeout(Some(LONG)).unwrap();
    member.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
    let again = member.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
    // The interface is that of the sender's address.
    let sender = socket();
    sender.send_to(b"all", (group, member.local_addr().unwrap().port())).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(member.recv_from(&mut bytes).unwrap(), (3, sender.local_addr().unwrap()));
    assert_eq!(&bytes[..3], b"all");
    member.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
    let again = member.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrNotAvailable);
    let wrong = member.join_multicast_v4(&Ipv4Addr::LOCALHOST, &Ipv4Addr::LOCALHOST).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidInput);
}

/// The same over IPv6. The interface is told by its number, and an address of the network names it, too.
#[test]
fn groups_v6() {
    const LOOPBACK: u32 = 1;
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x4d, 1);
    let member = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    member.set_read_timeout(Some(LONG)).unwrap();
    member.join_multicast_v6(&group, LOOPBACK).unwrap();
    let again = member.join_multicast_v6(&group, LOOPBACK).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
    // Linux' loopback has no route to groups of IPv6.
    if cfg!(target_os = "fuchsia") {
        let sender = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        let to = SocketAddrV6::new(group, member.local_addr().unwrap().port(), 0, LOOPBACK);
        sender.send_to(b"all", to).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(member.recv_from(&mut bytes).unwrap(), (3, sender.local_addr().unwrap()));
        assert_eq!(&bytes[..3], b"all");
    }
    member.leave_multicast_v6(&group, LOOPBACK).unwrap();
    let again = member.leave_multicast_v6(&group, LOOPBACK).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrNotAvailable);
    let wrong = member.join_multicast_v6(&Ipv6Addr::LOCALHOST, LOOPBACK).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidInput);
}

#[test]
fn clones_share() {
    let (a, b) = (socket(), socket());
    let clone = b.try_clone().unwrap();
    let reads = thread::spawn(move || clone.recv(&mut [0; 8]).unwrap());
    a.send_to(b"clone", b.local_addr().unwrap()).unwrap();
    assert_eq!(reads.join().unwrap(), 5);
}

#[test]
fn a_thousand_in_turn() {
    let (a, b) = (socket(), socket());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    let echo = thread::spawn(move || {
        for _ in 0..1000 {
            let mut number = [0; 4];
            b.recv(&mut number).unwrap();
            b.send(&number).unwrap();
        }
    });
    for number in 0..1000u32 {
        a.send(&number.to_le_bytes()).unwrap();
        let mut back = [0; 4];
        a.recv(&mut back).unwrap();
        assert_eq!(u32::from_le_bytes(back), number);
    }
    echo.join().unwrap();
}
