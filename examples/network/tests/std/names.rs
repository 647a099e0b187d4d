//! `ToSocketAddrs`.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

fn resolved(name: impl ToSocketAddrs) -> Vec<SocketAddr> {
    name.to_socket_addrs().unwrap().collect()
}

#[test]
fn numbers() {
    assert_eq!(resolved("127.0.0.1:80"), ["127.0.0.1:80".parse().unwrap()]);
    assert_eq!(resolved("[::1]:80"), ["[::1]:80".parse().unwrap()]);
    assert_eq!(resolved(("10.0.0.1", 7)), ["10.0.0.1:7".parse().unwrap()]);
}

#[test]
fn localhost() {
    let addresses = resolved("localhost:1234");
    assert!(addresses.contains(&"127.0.0.1:1234".parse().unwrap()), "{addresses:?}");
    assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 1234), "{addresses:?}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    TcpStream::connect(("localhost", listener.local_addr().unwrap().port())).unwrap();
}

#[test]
fn what_is_no_name() {
    assert!("nobody.invalid:80".to_socket_addrs().is_err());
    assert!("localhost".to_socket_addrs().is_err());
    assert!("localhost:port".to_socket_addrs().is_err());
    assert!(TcpStream::connect("nobody.invalid:80").is_err());
}
