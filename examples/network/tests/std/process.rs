//! Sockets of several processes. The tests start their own program again, with the name of one of the parts below.

use std::env;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use network_example::{LONG, listener};

const ADDRESS: &str = "NETWORK_EXAMPLE_ADDRESS";

/// Starts a part in a separate process.
fn start(part: &str, address: &str) -> Child {
    let name = format!("process::{part}");
    Command::new(env::current_exe().unwrap())
        .args(["--exact", &name, "--ignored", "--nocapture", "--test-threads=1"])
        .env(ADDRESS, address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn connect() -> TcpStream {
    TcpStream::connect(env::var(ADDRESS).expect("this is a part of another test")).unwrap()
}

#[test]
#[ignore = "a part of other tests"]
fn writes_for_ever() {
    let mut stream = connect();
    loop {
        if stream.write_all(&[1; 1000]).is_err() {
            return;
        }
    }
}

#[test]
#[ignore = "a part of other tests"]
fn reads_nothing() {
    let _stream = connect();
    loop {
        thread::sleep(LONG);
    }
}

#[test]
#[ignore = "a part of other tests"]
fn listens() {
    let listener = listener();
    println!("\nlistens at {}", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        stream.write_all(line.to_uppercase().as_bytes()).unwrap();
    }
}

#[test]
#[ignore = "a part of other tests"]
fn sends_to_nobody() {
    use std::os::fd::AsFd;
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    (0..3).for_each(|_| network_example::sends_until_refused(&socket.try_clone().unwrap().into()));
}

/// Both processes learn of errors of a socket that they share.
#[test]
fn errors_of_a_shared_socket() {
    use std::os::fd::OwnedFd;
    let gone = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(gone).unwrap();
    network_example::sends_until_refused(&socket);
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "process::sends_to_nobody", "--ignored", "--nocapture", "--test-threads=1"])
        .stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())))
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    network_example::sends_until_refused(&socket);
}

#[test]
fn killed_while_it_writes() {
    let listener = listener();
    let mut child = start("writes_for_ever", &listener.local_addr().unwrap().to_string());
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = [0; 1000];
    stream.read_exact(&mut buffer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // Its data written before the end still arrives, followed by the end.
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert!(rest.iter().all(|byte| *byte == 1));
}

#[test]
fn killed_before_it_reads() {
    let listener = listener();
    let mut child = start("reads_nothing", &listener.local_addr().unwrap().to_string());
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(&[1; 1000]).unwrap();
    thread::sleep(Duration::from_millis(50));
    child.kill().unwrap();
    child.wait().unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(stream.write(&[1; 8]).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_server_in_another_process() {
    let mut child = start("listens", "");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("listens at ").map(str::to_owned));
    let address = address.expect("it says where");
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"loud\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "LOUD\n");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(TcpStream::connect(&address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_socket_becomes_a_childs_input() {
    use std::os::fd::OwnedFd;
    let (mut client, server) = network_example::connection();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "process::repeats", "--ignored", "--nocapture", "--test-threads=1"])
        .stdin(Stdio::from(OwnedFd::from(server.try_clone().unwrap())))
        .stdout(Stdio::from(OwnedFd::from(server)))
        .spawn()
        .unwrap();
    client.write_all(b"say it again\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).unwrap();
    assert!(all.contains("<say it again>"), "{all}");
    assert!(child.wait().unwrap().success());
}

#[test]
#[ignore = "a part of other tests"]
fn repeats() {
    for line in std::io::stdin().lines() {
        println!("<{}>", line.unwrap());
    }
}
