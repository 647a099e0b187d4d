//! Code shared by the tests of the network.
#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// A timeout that only a hung operation exceeds.
pub const LONG: Duration = Duration::from_secs(60);

/// A listener on a port that the system chooses.
pub fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free")
}

/// Two ends of a connection: the connecting one, and the accepted one.
pub fn connection() -> (TcpStream, TcpStream) {
    let listener = listener();
    let client = TcpStream::connect(listener.local_addr().unwrap()).expect("somebody listens");
    let (server, _) = listener.accept().expect("somebody connected");
    for end in [&client, &server] {
        end.set_read_timeout(Some(LONG)).unwrap();
    }
    (client, server)
}

/// Bytes from `start` on of a pattern whose period does not match any buffer size.
pub fn pattern(start: u64, bytes: &mut [u8]) {
    for (byte, at) in bytes.iter_mut().zip(start..) {
        *byte = (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    }
}

/// Writes this many bytes of the pattern.
///
/// # Errors
/// Errors of the writer.
pub fn write_pattern(to: &mut impl Write, count: u64) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut done = 0;
    while done < count {
        let part = buffer.len().min((count - done) as usize);
        pattern(done, &mut buffer[..part]);
        to.write_all(&buffer[..part])?;
        done += part as u64;
    }
    Ok(())
}

/// Reads to the end, comparing with the pattern; returns the number of bytes.
///
/// # Errors
/// Errors of the reader.
pub fn read_pattern(from: &mut impl Read) -> std::io::Result<u64> {
    let (mut buffer, mut expected) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut done = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(done);
        }
        pattern(done, &mut expected[..count]);
        assert!(buffer[..count] == expected[..count], "other bytes than were sent, from byte {done} on");
        done += count as u64;
    }
}

/// Sends datagrams until an error says that nobody receives them.
pub fn sends_until_refused(socket: &UdpSocket) {
    let start = Instant::now();
    loop {
        match socket.send(b"anybody?") {
            Ok(_) => assert!(start.elapsed() < LONG, "the error does not come"),
            Err(error) => return assert_eq!(error.kind(), ErrorKind::ConnectionRefused),
        }
        thread::sleep(Duration::from_millis(1));
    }
}
