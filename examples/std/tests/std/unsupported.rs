//! Operations that return `Unsupported`, at once.

use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

fn unsupported<T>(act: impl FnOnce() -> io::Result<T>) {
    let start = Instant::now();
    let error = act().err().expect("it succeeded");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
}

pub fn groups() {
    let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    unsupported(|| socket.join_multicast_v6(&Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0));
    unsupported(|| socket.leave_multicast_v6(&Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0));
}
