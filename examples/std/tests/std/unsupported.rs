//! What answers `Unsupported`, at once.

use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::time::{Duration, Instant};

fn unsupported<T>(act: impl FnOnce() -> io::Result<T>) {
    let start = Instant::now();
    let error = act().err().expect("it succeeded");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
}

pub fn unix_listener() {
    unsupported(|| UnixListener::bind("/tmp/listener"));
}

pub fn unix_datagram() {
    unsupported(|| UnixDatagram::bind("/tmp/datagram"));
}
