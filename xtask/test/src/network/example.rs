//! The example `http-server`, as the README has it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::machine;
use super::tools::connection;
use crate::{Context, expect, wrong};
use xtask_build::cargo;
use xtask_common::words::tail;
use xtask_run::PATIENCE;

/// The web server of the README, built and run as there, and asked by a client on the host.
pub fn http_server(context: &Context<'_>) -> Result<()> {
    context.built()?;
    let target = context.paths.out.join("packages/target");
    let mut build = wrong::tool(context)?;
    build.args(["cargo", "build", "--locked", "--target-dir"]).arg(&target);
    let made = build.current_dir(context.paths.workspace.join("examples/http-server")).output();
    let made = made.context("cannot start this tool")?;
    if !made.status.success() {
        bail!("it does not build: {}", tail(&wrong::said(&made), 20));
    }
    let port = machine::free_port()?;
    let mut run = wrong::tool(context)?;
    run.args(["run", "--timeout", &PATIENCE.as_secs().to_string()]);
    run.args(["--net", &format!("user,hostfwd=tcp:127.0.0.1:{port}-:80"), "--mem", "1G"]);
    run.arg(target.join(cargo::PROGRAM_TARGET).join("debug/http-server"));
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start this tool")?;
    let asked = (|| {
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        expect("the server's first line", &line.as_str(), &"serving at 0.0.0.0:80\n")?;
        ask(port, "GET /hello/you", "", "Hello, you.\n")?;
        ask(port, "POST /length", "twelve bytes", "12 bytes\n")?;
        ask(port, "GET /", "", "Hello from Zircon on seL4.\n")?;
        ask_over_many(port)
    })();
    // The server has no end.
    kill_process(Pid::from_child(&child), Signal::TERM).context("cannot end this tool")?;
    let ended = child.wait_with_output()?;
    asked.with_context(|| wrong::said(&ended))?;
    expect("the exit code", &(ended.status.code(), wrong::said(&ended)), &(Some(143), String::new()))
}

/// Connections that stay, with a request on each, and then with one on all at the same time, twice.
fn ask_over_many(port: u16) -> Result<()> {
    const CONNECTIONS: usize = 500;
    let send = |stream: &BufReader<TcpStream>, name: &str| {
        write!(stream.get_ref(), "GET /hello/{name} HTTP/1.1\r\nHost: a\r\n\r\n")
    };
    let mut streams = Vec::new();
    for number in 0..CONNECTIONS {
        let stream = connection(port).with_context(|| format!("connection {number}"))?;
        let mut stream = BufReader::new(stream);
        // QEMU's network takes one connection of the host's at a time.
        send(&stream, "first")?;
        hear(&mut stream, "first").with_context(|| format!("connection {number}"))?;
        streams.push(stream);
    }
    for round in 0..2 {
        let name = |number: usize| format!("{round}-{number}");
        for (number, stream) in streams.iter().enumerate() {
            send(stream, &name(number))?;
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            hear(stream, &name(number)).with_context(|| format!("connection {number}"))?;
        }
    }
    Ok(())
}

/// Reads an answer to a request for this name, behind which the connection stays.
fn hear(stream: &mut BufReader<TcpStream>, name: &str) -> Result<()> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    expect("the status", &line.as_str(), &"HTTP/1.1 200 OK\r\n")?;
    let mut len = 0;
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            bail!("the connection has ended");
        }
        if let Some(number) = line.strip_prefix("content-length:") {
            len = number.trim().parse()?;
        }
    }
    let mut content = vec![0; len];
    stream.read_exact(&mut content)?;
    expect("the content", &String::from_utf8_lossy(&content).as_ref(), &format!("Hello, {name}.\n").as_str())
}

/// Sends a request, and compares the answer's content.
fn ask(port: u16, request: &str, content: &str, says: &str) -> Result<()> {
    let mut stream = connection(port).context("cannot connect to the machine")?;
    let len = content.len();
    write!(stream, "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n{content}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    expect(request, &(head.lines().next(), body), &(Some("HTTP/1.1 200 OK"), says))
}
