//! The programs `nc` and `fetch`, with the host as the other side.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{LEN, machine};
use crate::drivers::output;
use crate::{Context, expect, expect_part};
use xtask_build::devices::Model;
use xtask_common::threads::Watcher;
use xtask_run::{Capture, PATIENCE};

/// A program of the shell's, in a machine with this network.
fn capture<'a>(context: &'a Context<'_>, program: &'a str, args: &[&str], net: String) -> Result<Capture<'a>> {
    let mut capture = Capture::new(context.built_with_shell()?, Path::new(program));
    capture.args = args.iter().map(ToString::to_string).collect();
    capture.devices.network = Some(machine::network(Model::default(), net, None));
    Ok(capture)
}

/// A web server on the host; returns its port. The content of `/long` is [`LEN`] bytes.
fn web_server() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on the host")?;
    let port = listener.local_addr()?.port();
    Watcher::none().start("web", move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that goes away early is no fault here.
            let _ = serve(&stream);
        }
    })?;
    Ok(port)
}

fn serve(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, header, content) = match path {
        "/long" => ("200 OK", "X-Hostile: \u{9b}2Jbye", network_tests::bytes(LEN).flatten().collect()),
        "/moved" => ("302 Found", "Location: /hello", Vec::new()),
        "/hello" => ("200 OK", "X: y", b"hello\n".to_vec()),
        _ => ("404 Not Found", "X: y", b"nothing\n".to_vec()),
    };
    let len = content.len();
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len}\r\n{header}\r\n\r\n")?;
    if request.starts_with("HEAD") { Ok(()) } else { stream.write_all(&content) }
}

pub fn fetch(context: &Context<'_>) -> Result<()> {
    let at = format!("10.0.2.2:{}", web_server()?);
    let run = |args: &[&str], code: i64| output(&capture(context, "fetch", args, "user".into())?, code);
    expect("a redirection", &run(&[&format!("{at}/moved")], 0)?.0.as_str(), &"hello\n")?;
    let head = format!("HTTP/1.1 200 OK\nconnection: close\ncontent-length: {LEN}\nx-hostile: \\u{{9b}}2Jbye\n");
    expect("a head", &run(&["-I", &format!("http://{at}/long")], 0)?.0, &head)?;
    let (stdout, stderr) = run(&[&format!("{at}/nothing")], 22)?;
    expect("nothing", &stdout.as_str(), &"")?;
    expect_part("nothing", &stderr, "fetch: the server's answer is 404 Not Found")?;
    expect_part("TLS", &run(&["https://10.0.2.2/"], 1)?.1, "https: not supported (there is no TLS); use http://")?;
    let script = format!("fetch -o /tmp/long {at}/long && sha256sum /tmp/long; fetch {at}/long | wc -c");
    let (stdout, _) = output(&capture(context, "sh", &["-c", &script], "user".into())?, 0)?;
    expect("a file, and a pipe", &stdout, &format!("{}  /tmp/long\n{LEN}\n", machine::digest_of(LEN)?))
}

/// A connection in both directions at once, a listener, and datagrams.
pub fn nc(context: &Context<'_>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on the host")?;
    let port = listener.local_addr()?.port().to_string();
    let echo = Watcher::none().start("echo", move || -> Result<u64> {
        let (stream, _) = listener.accept()?;
        // The end comes when the machine has sent all.
        Ok(std::io::copy(&mut &stream, &mut &stream)?)
    })?;
    let sent: Vec<u8> = network_tests::bytes(LEN / 4).flatten().collect();
    let mut client = capture(context, "nc", &["10.0.2.2", &port], "user".into())?;
    client.input = sent.clone();
    let outcome = client.run()?;
    expect("the end of a client", &outcome.end.exit_code(), &0)?;
    if outcome.stdout() != sent {
        bail!("a client: {} bytes came back of {}, or others", outcome.stdout().len(), sent.len());
    }
    expect("the bytes that the host has seen", &echo.join()??, &(sent.len() as u64))?;
    listens(context)?;
    let socket = UdpSocket::bind("127.0.0.1:0").context("cannot bind on the host")?;
    let port = socket.local_addr()?.port().to_string();
    Watcher::none().start("datagrams", move || -> Result<()> {
        let mut bytes = [0; 2048];
        let (count, from) = socket.recv_from(&mut bytes)?;
        socket.send_to(&bytes[..count].to_ascii_uppercase(), from)?;
        Ok(())
    })?;
    let mut datagrams = capture(context, "nc", &["-u", "10.0.2.2", &port], "user".into())?;
    // Datagrams have no end.
    (datagrams.input, datagrams.until_first_output) = (b"hello\n".to_vec(), true);
    expect("datagrams", &datagrams.run()?.stdout(), &b"HELLO\n".to_vec())
}

fn listens(context: &Context<'_>) -> Result<()> {
    let port = machine::free_port()?;
    let net = format!("user,hostfwd=tcp:127.0.0.1:{port}-:7");
    let mut server = capture(context, "nc", &["-l", "7"], net)?;
    server.input = b"from the machine\n".to_vec();
    let (said, stdout) = beside(&server, || {
        let mut stream = connection(port)?;
        stream.write_all(b"from the host\n").ok()?;
        stream.shutdown(std::net::Shutdown::Write).ok()?;
        // Nothing: QEMU has taken the connection, but nobody listens yet.
        let mut said = String::new();
        stream.read_to_string(&mut said).ok().filter(|len| *len > 0)?;
        Some(said)
    })?;
    expect("what a listener sends", &said.as_str(), &"from the machine\n")?;
    expect("what a listener receives", &stdout.as_str(), &"from the host\n")
}

/// A connection to a port of the machine that the host forwards. It reads as long as a machine may take.
pub fn connection(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

/// Runs a machine, and tries something until it succeeds or the machine has ended. Returns what it came to, and the
/// machine's output, which ends with success.
fn beside(capture: &Capture<'_>, attempt: impl Fn() -> Option<String>) -> Result<(String, String)> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let runs = scope.spawn(|| {
            let outcome = output(capture, 0);
            over.store(true, Ordering::Relaxed);
            outcome
        });
        let (start, mut came) = (Instant::now(), None);
        while came.is_none() && start.elapsed() < PATIENCE && !over.load(Ordering::Relaxed) {
            came = attempt();
            if came.is_none() {
                thread::sleep(Duration::from_millis(100));
            }
        }
        let said = runs.join().unwrap_or_else(|_| bail!("the machine's thread failed"))?;
        Ok((came.with_context(|| format!("no answer; the machine printed {said:?}"))?, said.0))
    })
}
