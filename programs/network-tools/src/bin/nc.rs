//! `nc`: standard input to a socket, and the socket to standard output, both at the same time.
//!
//! It ends as BSD's `nc -N` does. The end of the input ends the sending direction of a connection. A client ends when
//! both directions have ended, a listener when its peer has sent all. Datagrams have no end: `-w` sets one.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use network_tools::{Arguments, visible};

const USAGE: &str = "usage: nc [-u] [-w SECONDS] HOST PORT | nc -l [-u] [-w SECONDS] [ADDRESS] PORT
  -l  listen, and serve one peer    -u  datagrams    -w  end when so long nothing comes or goes";

/// Bytes that are read at a time.
const PIECE: usize = 16 << 10;
/// Bytes of a datagram at most: it fits into a frame of Ethernet, with room for headers of other networks.
const DATAGRAM: usize = 1400;
/// How often a listener whose peer has sent all looks whether its own last piece is sent.
const SOON: Duration = Duration::from_millis(10);
/// Bytes of a datagram that comes at most.
const LONGEST: usize = 1 << 16;

/// A connection, or datagrams to and from one peer.
trait Peer: Send + Sync + 'static {
    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize>;
    fn send(&self, bytes: &[u8]) -> io::Result<()>;
    /// Nothing more is sent.
    fn finish(&self);
    /// Whether receiving this many bytes is the end. Datagrams have none.
    fn ends_with(&self, received: usize) -> bool;
    fn piece(&self) -> usize;
}

impl Peer for TcpStream {
    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut stream = self;
        stream.read(bytes)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self;
        stream.write_all(bytes)
    }

    fn finish(&self) {
        // If the connection is over, there is nothing to end.
        let _ = self.shutdown(Shutdown::Write);
    }

    fn ends_with(&self, received: usize) -> bool {
        received == 0
    }

    fn piece(&self) -> usize {
        PIECE
    }
}

impl Peer for UdpSocket {
    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.recv(bytes)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        UdpSocket::send(self, bytes).map(drop)
    }

    fn finish(&self) {}

    fn ends_with(&self, _received: usize) -> bool {
        false
    }

    fn piece(&self) -> usize {
        DATAGRAM
    }
}

/// What the sending direction has done, in bytes.
#[derive(Default)]
struct Traffic {
    /// Read from the input.
    read: AtomicU64,
    /// Sent.
    moved: AtomicU64,
}

impl Traffic {
    fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Whether all that was read is sent.
    fn is_sent(&self) -> bool {
        self.read.load(Ordering::SeqCst) == self.moved.load(Ordering::SeqCst)
    }
}

/// Sends the input until its end.
fn send_all(peer: &impl Peer, mut input: impl Read, traffic: &Traffic) -> io::Result<()> {
    let mut bytes = vec![0; peer.piece()];
    loop {
        match input.read(&mut bytes) {
            Ok(0) => {
                peer.finish();
                return Ok(());
            }
            Ok(count) => {
                traffic.read.fetch_add(count as u64, Ordering::SeqCst);
                peer.send(&bytes[..count])?;
                traffic.moved.fetch_add(count as u64, Ordering::SeqCst);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Why nothing more is received.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The peer has sent all.
    Peer,
    /// Nothing has moved for a time.
    Idle,
}

/// Writes what is received until its end, or until nothing has moved for a time: the socket's read timeout.
fn receive_all(peer: &impl Peer, mut output: impl Write, traffic: &Traffic) -> io::Result<End> {
    let mut bytes = vec![0; LONGEST];
    let mut before = traffic.moved();
    loop {
        match peer.receive(&mut bytes) {
            Ok(count) if peer.ends_with(count) => return Ok(End::Peer),
            Ok(count) => {
                output.write_all(&bytes[..count])?;
                output.flush()?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                // The other direction may have moved something.
                let now = traffic.moved();
                if now == before {
                    return Ok(End::Idle);
                }
                before = now;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Both directions. `waits`: the end of what is received ends the other direction only when all that was read is sent,
/// and not before the end of the input.
fn serve(peer: impl Peer, waits: bool, limit: Option<Duration>) -> Result<(), String> {
    let (peer, traffic) = (Arc::new(peer), Arc::new(Traffic::default()));
    let (done, sent) = mpsc::channel();
    thread::spawn({
        let (peer, traffic) = (peer.clone(), traffic.clone());
        move || {
            let sent = send_all(&*peer, io::stdin().lock(), &traffic);
            match &sent {
                // Nothing may come that would end the other direction.
                Err(error) if !is_gone(error) => {
                    eprintln!("nc: {error}");
                    std::process::exit(1)
                }
                // The other thread may not wait for it.
                _ => drop(done.send(sent)),
            }
        }
    });
    let end = receive_all(&*peer, io::stdout().lock(), &traffic).map_err(|error| error.to_string())?;
    if end == End::Idle {
        return Ok(());
    }
    let limit = limit.unwrap_or(Duration::MAX);
    let (mut before, mut last) = (traffic.moved(), Instant::now());
    let sent = loop {
        if !waits && traffic.is_sent() {
            return Ok(());
        }
        let left = limit.saturating_sub(last.elapsed());
        match sent.recv_timeout(if waits { left } else { left.min(SOON) }) {
            Err(RecvTimeoutError::Timeout) => match traffic.moved() {
                now if now != before => (before, last) = (now, Instant::now()),
                _ if last.elapsed() >= limit => return Ok(()),
                _ => {}
            },
            Err(RecvTimeoutError::Disconnected) => return Err("a thread failed".to_owned()),
            Ok(sent) => break sent,
        }
    };
    match sent {
        Err(error) if !is_gone(&error) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Whether the peer has closed, and needs nothing more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// The addresses of a host's port.
fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs().map_err(|error| format!("{}: {error}", visible(host)))?;
    Ok(found.collect())
}

/// The first address with which something succeeds, or the last error.
fn first<T>(addresses: &[SocketAddr], with: impl Fn(SocketAddr) -> io::Result<T>) -> Result<T, String> {
    let mut last = "no address".to_owned();
    for address in addresses {
        match with(*address) {
            Ok(made) => return Ok(made),
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err(last)
}

fn connect(to: &[SocketAddr], limit: Option<Duration>) -> Result<(), String> {
    let stream = first(to, |address| match limit {
        Some(limit) => TcpStream::connect_timeout(&address, limit),
        None => TcpStream::connect(address),
    })?;
    stream.set_read_timeout(limit).map_err(|error| error.to_string())?;
    serve(stream, true, limit)
}

fn listen(at: &[SocketAddr], limit: Option<Duration>) -> Result<(), String> {
    // One peer, and no other can connect meanwhile.
    let (stream, _) = first(at, |address| TcpListener::bind(address)?.accept())?;
    stream.set_read_timeout(limit).map_err(|error| error.to_string())?;
    serve(stream, false, limit)
}

fn datagrams(to: &[SocketAddr], limit: Option<Duration>) -> Result<(), String> {
    let socket = first(to, |address| {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        Ok(socket)
    })?;
    socket.set_read_timeout(limit).map_err(|error| error.to_string())?;
    serve(socket, false, limit)
}

/// Datagrams with the peer that sends the first one.
fn listen_for_datagrams(at: &[SocketAddr], limit: Option<Duration>) -> Result<(), String> {
    let socket = first(at, UdpSocket::bind)?;
    let begin = || -> io::Result<()> {
        let mut bytes = vec![0; LONGEST];
        let (count, from) = socket.recv_from(&mut bytes)?;
        socket.connect(from)?;
        let mut output = io::stdout().lock();
        output.write_all(&bytes[..count])?;
        output.flush()?;
        socket.set_read_timeout(limit)
    };
    begin().map_err(|error| error.to_string())?;
    serve(socket, false, limit)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let limit = arguments.seconds('w')?;
    let port = |text: &str| match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{}: a port is a number from 1 to 65535", visible(text))),
    };
    let (listens, datagram) = (arguments.has('l'), arguments.has('u'));
    match (arguments.words.as_slice(), listens, datagram) {
        ([at], true, false) => listen(&addresses("0.0.0.0", port(at)?)?, limit),
        ([host, at], true, false) => listen(&addresses(host, port(at)?)?, limit),
        ([at], true, true) => listen_for_datagrams(&addresses("0.0.0.0", port(at)?)?, limit),
        ([host, at], true, true) => listen_for_datagrams(&addresses(host, port(at)?)?, limit),
        ([host, at], false, false) => connect(&addresses(host, port(at)?)?, limit),
        ([host, at], false, true) => datagrams(&addresses(host, port(at)?)?, limit),
        _ => Err(USAGE.to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse(std::env::args().skip(1), "lu", "w");
    match arguments.and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("nc: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn both_directions_and_their_ends() {
        let (near, far) = pair();
        let traffic = Traffic::default();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
        // The other side echoes, so both directions must move at the same time.
        let echo = thread::spawn(move || io::copy(&mut &far, &mut &far).map(|_| far.finish()));
        let mut output = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| send_all(&near, sent.as_slice(), &traffic).unwrap());
            receive_all(&near, &mut output, &traffic).unwrap();
        });
        echo.join().unwrap().unwrap();
        assert!(output == sent);
        assert_eq!((traffic.moved(), traffic.is_sent()), (sent.len() as u64, true));
    }

    #[test]
    fn an_output_that_is_gone_ends_it() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (near, far) = pair();
        Peer::send(&far, b"hello").unwrap();
        let ended = receive_all(&near, Gone, &Traffic::default());
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn datagrams_keep_their_borders() {
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        one.connect(other.local_addr().unwrap()).unwrap();
        send_all(&one, [7; 3000].as_slice(), &Traffic::default()).unwrap();
        let mut bytes = [0; 4000];
        let sizes: Vec<usize> = (0..3).map(|_| other.recv(&mut bytes).unwrap()).collect();
        assert_eq!(sizes, [1400, 1400, 200]);
    }
}
