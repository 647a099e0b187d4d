//! Measures the speed of the loopback device: bytes through one connection, round trips over TCP and UDP, new
//! connections.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::thread;
use std::time::Instant;

use network_example::{connection, listener};

fn main() {
    const MIB: usize = 64;
    let (mut client, mut server) = connection();
    let writer = thread::spawn(move || {
        let block = vec![1; 64 << 10];
        for _ in 0..MIB * 16 {
            client.write_all(&block).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
    });
    let begin = Instant::now();
    let mut buffer = vec![0; 256 << 10];
    while server.read(&mut buffer).unwrap() > 0 {}
    let rate = MIB as f64 / begin.elapsed().as_secs_f64();
    writer.join().unwrap();
    println!("TCP: {rate:.0} MiB/s through one connection");

    const TRIPS: u32 = 2000;
    let (mut client, mut server) = connection();
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while server.read(&mut byte).unwrap() > 0 {
            server.write_all(&byte).unwrap();
        }
    });
    let begin = Instant::now();
    for _ in 0..TRIPS {
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
    println!("TCP: {:.1} us there and back", begin.elapsed().as_micros() as f64 / f64::from(TRIPS));
    drop(client);
    echo.join().unwrap();

    let (a, b) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    let echo = thread::spawn(move || {
        for _ in 0..TRIPS {
            b.recv(&mut [0; 8]).unwrap();
            b.send(b"x").unwrap();
        }
    });
    let begin = Instant::now();
    for _ in 0..TRIPS {
        a.send(b"x").unwrap();
        a.recv(&mut [0; 8]).unwrap();
    }
    println!("UDP: {:.1} us there and back", begin.elapsed().as_micros() as f64 / f64::from(TRIPS));
    echo.join().unwrap();

    const CONNECTIONS: u32 = 500;
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for _ in 0..CONNECTIONS {
            drop(listener.accept().unwrap());
        }
    });
    let begin = Instant::now();
    for _ in 0..CONNECTIONS {
        let mut client = TcpStream::connect(address).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
    println!("TCP: {:.0} us for a connection", begin.elapsed().as_micros() as f64 / f64::from(CONNECTIONS));
    server.join().unwrap();
}
