//! `TcpListener` and `TcpStream`.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use network_example::{LONG, connection, listener, read_pattern, write_pattern};

#[test]
fn echo() {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, from) = listener.accept().unwrap();
        let mut line = [0; 64];
        let count = stream.read(&mut line).unwrap();
        stream.write_all(&line[..count]).unwrap();
        from
    });
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"there and back").unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"there and back");
    assert_eq!(server.join().unwrap(), client.local_addr().unwrap());
}

#[test]
fn addresses() {
    let listener = listener();
    let at = listener.local_addr().unwrap();
    assert_ne!(at.port(), 0);
    let client = TcpStream::connect(at).unwrap();
    let (server, from) = listener.accept().unwrap();
    assert_eq!(client.peer_addr().unwrap(), at);
    assert_eq!(server.local_addr().unwrap(), at);
    assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
    assert_eq!(from, client.local_addr().unwrap());
    assert_eq!(client.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
    assert_ne!(client.local_addr().unwrap().port(), at.port());
}

#[test]
fn sixty_four_mebibytes_arrive_as_they_were() {
    const COUNT: u64 = 64 << 20;
    let (mut client, mut server) = connection();
    let writer = thread::spawn(move || {
        write_pattern(&mut client, COUNT).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    assert_eq!(read_pattern(&mut server).unwrap(), COUNT);
    writer.join().unwrap();
}

#[test]
fn both_directions_at_once() {
    const COUNT: u64 = 4 << 20;
    let (client, server) = connection();
    let ends: Vec<_> = [client, server]
        .into_iter()
        .flat_map(|end| {
            let (mut reader, mut writer) = (end.try_clone().unwrap(), end);
            let reads = thread::spawn(move || assert_eq!(read_pattern(&mut reader).unwrap(), COUNT));
            let writes = thread::spawn(move || {
                write_pattern(&mut writer, COUNT).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            [reads, writes]
        })
        .collect();
    for end in ends {
        end.join().unwrap();
    }
}

#[test]
fn two_hundred_connections_at_once() {
    const COUNT: usize = 200;
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || (0..COUNT).map(|_| listener.accept().unwrap().0).collect::<Vec<_>>());
    let mut clients: Vec<TcpStream> = (0..COUNT).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut servers = server.join().unwrap();
    for (index, client) in clients.iter_mut().enumerate() {
        client.write_all(&(index as u32).to_le_bytes()).unwrap();
    }
    // Each accepted connection receives the number of its client, and sends it back.
    let mut seen = vec![false; COUNT];
    for server in &mut servers {
        let mut number = [0; 4];
        server.read_exact(&mut number).unwrap();
        server.write_all(&number).unwrap();
        assert!(!std::mem::replace(&mut seen[u32::from_le_bytes(number) as usize], true));
    }
    for (index, client) in clients.iter_mut().enumerate() {
        let mut number = [0; 4];
        client.read_exact(&mut number).unwrap();
        assert_eq!(u32::from_le_bytes(number) as usize, index);
    }
}

#[test]
fn a_thousand_connections_one_after_another() {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for _ in 0..1000 {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"x").unwrap();
        }
    });
    for _ in 0..1000 {
        let mut all = Vec::new();
        TcpStream::connect(address).unwrap().read_to_end(&mut all).unwrap();
        assert_eq!(all, b"x");
    }
    server.join().unwrap();
}

#[test]
fn one_half_ends() {
    let (mut client, mut server) = connection();
    client.write_all(b"all I have to say").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    let mut heard = String::new();
    server.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "all I have to say");
    // The other direction stays open.
    server.write_all(b"I see").unwrap();
    drop(server);
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "I see");
}

#[test]
fn reading_can_be_ended() {
    let (mut client, _server) = connection();
    client.shutdown(Shutdown::Read).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn shutdown_wakes_who_reads() {
    let (client, _server) = connection();
    let mut reader = client.try_clone().unwrap();
    let reads = thread::spawn(move || reader.read(&mut [0; 8]).unwrap());
    thread::sleep(Duration::from_millis(50));
    client.shutdown(Shutdown::Both).unwrap();
    assert_eq!(reads.join().unwrap(), 0);
}

#[test]
fn nobody_listens() {
    let address = listener().local_addr().unwrap();
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(TcpStream::connect_timeout(&address, LONG).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn nowhere_to_go() {
    // A network reserved for documentation.
    let begin = Instant::now();
    let error = TcpStream::connect_timeout(&"192.0.2.1:9".parse().unwrap(), Duration::from_millis(200)).unwrap_err();
    // The result depends on the network, but comes in time.
    assert!(begin.elapsed() < LONG, "{error}");
}

#[test]
fn a_port_is_in_use() {
    let first = listener();
    let error = TcpListener::bind(first.local_addr().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, first.local_addr().unwrap().port()));
    assert_eq!(TcpListener::bind(any).unwrap_err().kind(), ErrorKind::AddrInUse);
    // A closed listener frees its port at once, even if its connections still exist.
    let client = TcpStream::connect(first.local_addr().unwrap()).unwrap();
    let (server, _) = first.accept().unwrap();
    let address = first.local_addr().unwrap();
    drop(first);
    TcpListener::bind(address).unwrap();
    drop((client, server));
}

#[test]
fn an_address_of_another_host() {
    assert_eq!(TcpListener::bind("192.0.2.1:0").unwrap_err().kind(), ErrorKind::AddrNotAvailable);
}

#[test]
fn the_first_address_that_can_be_had() {
    let taken = listener();
    let addresses = [taken.local_addr().unwrap(), "127.0.0.1:0".parse().unwrap()];
    let second = TcpListener::bind(&addresses[..]).unwrap();
    let gone = listener().local_addr().unwrap();
    let stream = TcpStream::connect(&[gone, second.local_addr().unwrap()][..]).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), second.local_addr().unwrap());
}

#[test]
fn every_address_of_the_loop() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let stream = TcpStream::connect(("127.1.2.3", port)).unwrap();
    let (server, _) = listener.accept().unwrap();
    assert_eq!(server.local_addr().unwrap().ip(), Ipv4Addr::new(127, 1, 2, 3));
    assert_eq!(stream.peer_addr().unwrap().ip(), Ipv4Addr::new(127, 1, 2, 3));
    // The unspecified address means this machine.
    TcpStream::connect(("0.0.0.0", port)).unwrap();
    listener.accept().unwrap();
}

#[test]
fn version_six() {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), Ipv6Addr::LOCALHOST);
    assert_eq!(from, client.local_addr().unwrap());
    client.write_all(b"six").unwrap();
    let mut three = [0; 3];
    server.read_exact(&mut three).unwrap();
    assert_eq!(&three, b"six");
    // It does not accept IPv4.
    let four = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()));
    assert_eq!(TcpStream::connect(four).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn version_four_comes_to_six() {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let (server, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    assert_eq!(server.peer_addr().unwrap().port(), client.local_addr().unwrap().port());
    TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
    assert_eq!(listener.accept().unwrap().1.ip(), Ipv6Addr::LOCALHOST);
}

#[test]
fn reading_times_out() {
    let (mut client, _server) = connection();
    let short = Duration::from_millis(48);
    client.set_read_timeout(Some(short)).unwrap();
    // Systems round it up to the resolution of their clocks.
    assert!((short..short * 2).contains(&client.read_timeout().unwrap().unwrap()));
    let begin = Instant::now();
    let error = client.read(&mut [0; 8]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    assert!(begin.elapsed() >= Duration::from_millis(40));
    assert!(client.set_read_timeout(Some(Duration::ZERO)).is_err());
    client.set_read_timeout(None).unwrap();
    assert_eq!(client.read_timeout().unwrap(), None);
}

#[test]
fn writing_times_out() {
    let (mut client, mut server) = connection();
    client.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(client.write_timeout().unwrap() >= Some(Duration::from_millis(100)));
    let block = vec![7; 1 << 20];
    let mut sent = 0;
    let error = loop {
        match client.write(&block) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "nothing stops the writer");
    };
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    // No received byte is lost.
    drop(client);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = server.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        sent -= count;
    }
    assert_eq!(sent, 0);
}

#[test]
fn without_waiting() {
    let listener = listener();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = loop {
        match listener.accept() {
            Ok((server, _)) => break server,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    };
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let block = vec![7; 1 << 20];
    let mut sent = 0;
    // A full buffer keeps draining into the next one for a while.
    for _ in 0..10 {
        loop {
            match client.write(&block) {
                Ok(count) => sent += count,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    let mut buffer = vec![0; 1 << 20];
    while sent > 0 {
        sent -= server.read(&mut buffer).unwrap();
    }
    client.set_nonblocking(false).unwrap();
    server.write_all(b"x").unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 1);
}

#[test]
fn connecting_in_time() {
    let listener = listener();
    let client = TcpStream::connect_timeout(&listener.local_addr().unwrap(), LONG).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(b"x").unwrap();
    // It blocks again.
    assert_eq!((&client).read(&mut [0; 8]).unwrap(), 1);
    assert!(client.take_error().unwrap().is_none());
}

#[test]
fn peeking() {
    let (mut client, mut server) = connection();
    client.write_all(b"look").unwrap();
    let mut four = [0; 4];
    while server.peek(&mut four).unwrap() < 4 {}
    assert_eq!(&four, b"look");
    four = [0; 4];
    server.read_exact(&mut four).unwrap();
    assert_eq!(&four, b"look");
}

#[test]
fn several_buffers_at_once() {
    let (mut client, mut server) = connection();
    let count = client.write_vectored(&[IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two")]).unwrap();
    assert_eq!(count, 7);
    let mut seven = [0; 7];
    server.read_exact(&mut seven).unwrap();
    assert_eq!(&seven, b"one two");
}

#[test]
fn clones_are_the_same_socket() {
    let (client, mut server) = connection();
    let mut clone = client.try_clone().unwrap();
    assert_eq!(clone.local_addr().unwrap(), client.local_addr().unwrap());
    drop(client);
    clone.write_all(b"x").unwrap();
    assert_eq!(server.read(&mut [0; 8]).unwrap(), 1);
    drop(clone);
    assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
    let listener = listener();
    let clone = listener.try_clone().unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let _client = TcpStream::connect(address).unwrap();
    clone.accept().unwrap();
}

#[test]
fn options() {
    let (client, _server) = connection();
    for on in [true, false] {
        client.set_nodelay(on).unwrap();
        assert_eq!(client.nodelay().unwrap(), on);
    }
    client.set_ttl(33).unwrap();
    assert_eq!(client.ttl().unwrap(), 33);
    let listener = listener();
    listener.set_ttl(34).unwrap();
    assert_eq!(listener.ttl().unwrap(), 34);
    assert!(listener.take_error().unwrap().is_none());
}

#[test]
fn closing_with_unread_data_sends_a_reset() {
    let (mut client, server) = connection();
    client.write_all(b"nobody reads this").unwrap();
    // The data must have arrived.
    assert!(server.peek(&mut [0; 1]).unwrap() > 0);
    drop(server);
    let error = loop {
        match client.read(&mut [0; 8]) {
            Ok(count) => assert_ne!(count, 0, "the end instead of an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // The error is reported once.
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn writing_to_nobody() {
    let (mut client, server) = connection();
    drop(server);
    // The first write may succeed; the peer's answer to it is a reset.
    let error = loop {
        if let Err(error) = client.write(b"anybody?") {
            break error;
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
}

#[test]
fn connections_of_a_closed_listener() {
    let listener = listener();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    drop(listener);
    client.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn many_threads_accept() {
    let listener = std::sync::Arc::new(listener());
    let address = listener.local_addr().unwrap();
    let servers: Vec<_> = (0..4)
        .map(|_| {
            let listener = listener.clone();
            thread::spawn(move || {
                for _ in 0..10 {
                    listener.accept().unwrap().0.write_all(b"x").unwrap();
                }
            })
        })
        .collect();
    for _ in 0..40 {
        assert_eq!(TcpStream::connect(address).unwrap().read(&mut [0; 8]).unwrap(), 1);
    }
    for server in servers {
        server.join().unwrap();
    }
}
