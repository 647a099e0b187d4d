//! What both sides of the network's benchmark know: the program `network-costs` in the machine, and `./hafnon bench network`
//! on the host.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// The address of the machine at the wire that answers datagrams.
pub const WIRE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 9);
/// Its port that sends as many datagrams as asked for: two numbers of two bytes, the higher byte first, are their count
/// and their length.
pub const SOURCE: u16 = 9;
/// Its port that answers each datagram that begins with a one.
pub const SINK: u16 = 10;
/// Datagrams in a burst.
pub const BURST: usize = 32;
/// Bytes of a write to a stream.
pub const WRITE: usize = 64 << 10;

/// The other side of a stream. The first line says what it does: `sink` sends a byte for each [`WRITE`] bytes, `source`
/// sends that many for each byte, and `echo` sends back each byte.
///
/// # Errors
/// The stream fails.
pub fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut from = BufReader::with_capacity(WRITE, stream.try_clone()?);
    let (mut to, mut line, mut bytes) = (stream, String::new(), vec![7; WRITE]);
    from.read_line(&mut line)?;
    let (takes, gives) = match line.trim() {
        "sink" => (WRITE, 1),
        "source" => (1, WRITE),
        "echo" => (1, 1),
        other => return Err(io::Error::other(format!("no such line: {other}"))),
    };
    loop {
        match from.read_exact(&mut bytes[..takes]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        to.write_all(&bytes[..gives])?;
    }
}
