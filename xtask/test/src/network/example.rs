//! The example `http-server`, as the README has it.

use std::io::{BufRead, BufReader, Read, Write};
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
    run.args(["--net", &format!("user,hostfwd=tcp:127.0.0.1:{port}-:80")]);
    run.arg(target.join(cargo::PROGRAM_TARGET).join("debug/http-server"));
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start this tool")?;
    let asked = (|| {
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        expect("the server's first line", &line.as_str(), &"serving at 0.0.0.0:80\n")?;
        ask(port, "GET /hello/you", "", "Hello, you.\n")?;
        ask(port, "POST /length", "twelve bytes", "12 bytes\n")?;
        ask(port, "GET /", "", "Hello from Zircon on seL4.\n")
    })();
    // The server has no end.
    kill_process(Pid::from_child(&child), Signal::TERM).context("cannot end this tool")?;
    let ended = child.wait_with_output()?;
    asked.with_context(|| wrong::said(&ended))?;
    expect("the exit code", &(ended.status.code(), wrong::said(&ended)), &(Some(143), String::new()))
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
