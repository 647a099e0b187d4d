//! Tries each way to the network, and prints what came of it. The system's description has a rule for this program.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// A port where this program may listen; not at the next one.
const PORT: u16 = 7000;

fn told<T: Debug>(what: &str, result: io::Result<T>) {
    match result {
        Ok(_) => println!("{what}: ok"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => println!("{what}: denied"),
        Err(error) => println!("{what}: {:?}", error.kind()),
    }
}

/// Tries all. `server` is where it may connect to: a server on the host that echoes.
pub fn all(server: &str) -> io::Result<()> {
    let server: SocketAddr = server.parse().map_err(io::Error::other)?;
    let other = SocketAddr::new(server.ip(), server.port() ^ 1);
    told("a connection", echo(server));
    told("a connection elsewhere", TcpStream::connect(other));
    told("one that does not block", TcpStream::connect_timeout(&other, Duration::from_secs(60)));
    told("one to the loopback", TcpStream::connect((Ipv4Addr::UNSPECIFIED, PORT)));
    told("one by IPv6", TcpStream::connect((Ipv6Addr::LOCALHOST, PORT)));
    told("one by a mapped address", TcpStream::connect((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), PORT)));
    told("a listener", TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)));
    told("a listener elsewhere", TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT + 1)));
    told("a listener by IPv6", TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT + 1)));
    told("a listener at any port", TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)));
    told("datagrams at another port", UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT + 1)));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    told("a datagram", socket.send_to(b"hello", server));
    told("a datagram elsewhere", socket.send_to(b"hello", other));
    told("connected datagrams", socket.connect(other));
    socket.set_broadcast(true)?;
    told("a broadcast", socket.send_to(b"hello", (Ipv4Addr::BROADCAST, server.port())));
    told("a group", socket.join_multicast_v4(&Ipv4Addr::new(239, 1, 2, 3), &Ipv4Addr::UNSPECIFIED));
    told("a datagram to a group", socket.send_to(b"hello", (Ipv4Addr::new(239, 1, 2, 3), PORT)));
    told("a name", ("host.example", 80).to_socket_addrs());
    // What this program starts has its rule.
    let ping = Command::new("/boot/bin/ping").args(["-c", "1", &server.ip().to_string()]).output()?;
    print!("a child's echo request: {}", String::from_utf8_lossy(&ping.stderr));
    io::stdout().flush()?;
    let child = Command::new(std::env::current_exe()?).args(["one", &other.to_string()]).status()?;
    if child.success() { Ok(()) } else { Err(io::Error::other("the child failed")) }
}

/// Tries one connection.
pub fn one(server: &str) {
    told("a child's connection", TcpStream::connect(server));
}

/// Tries to make sockets, and to look up a name.
pub fn sockets() {
    told("a stream", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    told("datagrams", UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    told("a name", ("host.example", 80).to_socket_addrs());
}

fn echo(server: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(b"hello")?;
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes)?;
    if &bytes == b"hello" { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}
