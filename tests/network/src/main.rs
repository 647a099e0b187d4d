//! A server that the tests of the network talk to, and a client of a server on the host. Both speak the same lines:
//!
//! - `sink N`: it reads N bytes, and answers with their SHA-256;
//! - `source N`: it sends N bytes, as [`network_tests::bytes`] makes them;
//! - `echo`: it sends back what it gets;
//! - `kill NAME N MS`: it kills the service with that name N times, after as many milliseconds each;
//! - `killed`: how often it has done so;
//! - `links`: how often it has seen that the card had no link; the first time it begins to look;
//! - `memory NAME`: the bytes of memory that only the service with that name uses;
//! - `look-up NAME`: the host's addresses;
//! - `fetch ADDRESS N`: as a client it asks the server at this address for N bytes and sends it as many;
//! - `datagrams PORT`: from then on it sends back what datagrams it gets at this port, over IPv6 and IPv4;
//! - `group IP`: it joins this multicast group, says something there, and tells who answers what;
//! - `exit N`: it ends.
#![forbid(unsafe_code)]

mod links;
mod rules;
mod tasks;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::process::exit;
use std::thread;
use std::time::Duration;

use network_tests::{bytes, digest};

/// The port of groups.
const GROUP_PORT: u16 = 7000;

fn serve(stream: TcpStream) -> io::Result<()> {
    let mut from = BufReader::with_capacity(64 << 10, stream.try_clone()?);
    let mut to = stream;
    let mut line = String::new();
    while from.read_line(&mut line)? > 0 {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0_usize);
        match words.first().copied() {
            Some("sink") => writeln!(to, "{}", digest(&mut from, number(1))?)?,
            Some("source") => bytes(number(1)).try_for_each(|part| to.write_all(&part))?,
            Some("echo") => return io::copy(&mut from, &mut to).map(drop),
            Some("kill") => {
                let name = words.get(1).copied().unwrap_or_default().to_owned();
                let (times, pause) = (number(2), number(3));
                thread::spawn(move || tasks::kill(&name, times, pause));
                writeln!(to, "killing")?;
            }
            Some("killed") => writeln!(to, "{}", tasks::killed())?,
            Some("links") => writeln!(to, "{}", links::lost())?,
            Some("memory") => writeln!(to, "{}", tasks::memory(words.get(1).copied().unwrap_or_default()))?,
            Some("look-up") => writeln!(to, "{}", look_up(line["look-up".len()..].trim()))?,
            Some("fetch") => {
                let fetched = fetch(words.get(1).copied().unwrap_or_default(), number(2));
                writeln!(to, "{}", fetched.unwrap_or_else(|error| error.to_string()))?;
            }
            Some("datagrams") => {
                let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, number(1) as u16))?;
                thread::spawn(move || send_back(&socket));
                writeln!(to, "waiting")?;
            }
            Some("group") => {
                let said = words.get(1).map_or_else(|| Err(io::ErrorKind::InvalidInput.into()), |ip| group(ip));
                writeln!(to, "{}", said.unwrap_or_else(|error| error.to_string()))?;
            }
            Some("exit") => exit(number(1) as i32),
            _ => writeln!(to, "no such line")?,
        }
        line.clear();
    }
    Ok(())
}

/// The addresses of a host, or why there are none.
fn look_up(name: &str) -> String {
    match (name, 0).to_socket_addrs() {
        Ok(found) => found.map(|address| address.ip().to_string()).collect::<Vec<_>>().join(" "),
        Err(error) if error.to_string().contains("Name does not resolve") => "no such name".into(),
        Err(error) if error.to_string().contains("Try again") => "no answer".into(),
        Err(error) => error.to_string(),
    }
}

/// Says something in a group, without hearing itself, and returns the first answer. What is said is said again, as on
/// any network a datagram can be lost.
fn group(ip: &str) -> io::Result<String> {
    let group: IpAddr = ip.parse().map_err(io::Error::other)?;
    let any: IpAddr = if group.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, GROUP_PORT))?;
    match group {
        IpAddr::V4(group) => {
            socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?;
            socket.set_multicast_loop_v4(false)?;
        }
        IpAddr::V6(group) => {
            socket.join_multicast_v6(&group, 0)?;
            socket.set_multicast_loop_v6(false)?;
        }
    }
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut buffer = [0; 100];
    for _ in 0..10 {
        socket.send_to(b"who is there", (group, GROUP_PORT))?;
        if let Ok((count, from)) = socket.recv_from(&mut buffer) {
            match group {
                IpAddr::V4(group) => socket.leave_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?,
                IpAddr::V6(group) => socket.leave_multicast_v6(&group, 0)?,
            }
            return Ok(format!("{}: {}", from.ip(), String::from_utf8_lossy(&buffer[..count])));
        }
    }
    Ok("nobody".into())
}

/// Sends datagrams back to their senders.
fn send_back(socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    while let Ok((count, from)) = socket.recv_from(&mut buffer) {
        let _ = socket.send_to(&buffer[..count], from);
    }
}

/// Asks a server for bytes, and sends it some. Returns the sums of both.
fn fetch(address: &str, len: usize) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    writeln!(stream, "source {len}")?;
    let got = digest(&mut stream, len)?;
    writeln!(stream, "sink {len}")?;
    bytes(len).try_for_each(|part| stream.write_all(&part))?;
    let mut said = String::new();
    BufReader::new(&stream).read_line(&mut said)?;
    Ok(format!("{} {got} {}", stream.peer_addr()?, said.trim()))
}

/// Sends datagrams, and prints what comes back.
fn datagrams(address: &str, count: usize) -> io::Result<()> {
    // An IPv6 header is longer.
    let (any, longest) = if address.starts_with('[') { ("[::]:0", 1452) } else { ("0.0.0.0:0", 1472) };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    let mut buffer = [0; 2048];
    for number in 0..count {
        let sent = vec![number as u8; 1 + number * (longest - 1) / count.max(2)];
        socket.send(&sent)?;
        let received = socket.recv(&mut buffer)?;
        if buffer[..received] != sent {
            return Err(io::Error::other(format!("datagram {number} came back changed")));
        }
    }
    println!("{count} datagrams came back");
    Ok(())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", address] => {
            let listener = TcpListener::bind(address)?;
            println!("serving");
            for stream in listener.incoming() {
                let stream = stream?;
                thread::spawn(move || {
                    if let Err(error) = serve(stream) {
                        println!("a connection ended: {error}");
                    }
                });
            }
            Ok(())
        }
        ["fetch", address, len] => {
            println!("{}", fetch(address, len.parse().map_err(io::Error::other)?)?);
            Ok(())
        }
        ["send", address, len] => {
            let mut stream = TcpStream::connect(address)?;
            bytes(len.parse().map_err(io::Error::other)?).try_for_each(|part| stream.write_all(&part))
        }
        ["datagrams", address, count] => datagrams(address, count.parse().map_err(io::Error::other)?),
        ["rules", server] => rules::all(server),
        ["one", server] => {
            rules::one(server);
            Ok(())
        }
        ["sockets"] => {
            rules::sockets();
            Ok(())
        }
        _ => Err(io::Error::other(
            "usage: network-peer serve ADDRESS | fetch ADDRESS BYTES | send ADDRESS BYTES | datagrams ADDRESS COUNT | rules ADDRESS | sockets",
        )),
    }
}
