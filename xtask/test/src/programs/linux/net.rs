//! Linux' network card at a port of the system's switch: Linuxes reach each other, and one that is killed leaves the other
//! alone.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use description::switch::{Port, PortKind};

use super::{capture, ended, expect_part, run};
use crate::network::user_network;
use crate::programs::text;
use crate::wrong::{said, tool};
use crate::{Context, Test, expect};
use xtask_build::Built;
use xtask_build::devices::{Devices, Model};
use xtask_common::threads::Watcher;
use xtask_run::linux::{self, Guest, InTheShell};
use xtask_run::session::End;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("linux.net", two),
        Test::one("linux.net-card", card),
        Test::one("linux.net-outside", outside),
        Test::one("linux.net-refused", refused),
        Test::one("linux.net-switch-ends", switch_ends),
    ]
}

/// What writes the file that is sent.
const CONTENT: &str = "seq 150000";

/// The sum of the file, computed on the host.
fn sum() -> Result<String> {
    let output = std::process::Command::new("sh").args(["-c", &format!("{CONTENT} | sha256sum")]).output();
    Ok(text(&output.context("cannot start sha256sum")?.stdout).trim().to_owned())
}

/// The script of the Linux that receives: a file; a stream, of which it says when it has much of it; another file.
/// Its own input does not end before the other's does, so that `nc` does not close first.
const RECEIVER: &str = "ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up\n\
    mkfifo /tmp/nothing; exec 9<>/tmp/nothing\n\
    nc -l -p 5000 <&9 | sha256sum\n\
    nc -l -p 5001 <&9 | { head -c 300000 | wc -c; cat >/dev/null; } &\n\
    nc -l -p 5002 <&9 | sha256sum\n\
    cat /sys/class/net/eth0/address; exit 6\n";

/// The script of one that sends.
fn sender(port: u16) -> String {
    let sends = match port {
        5001 => "yes | nc 10.0.0.1 5001".to_owned(),
        _ => format!("{CONTENT} >/tmp/file; until nc 10.0.0.1 {port} </tmp/file 2>/dev/null; do sleep 0.1; done"),
    };
    format!(
        "ip addr add 10.0.0.2/24 dev eth0; ip link set eth0 up\n\
         until ping -c 1 -W 1 10.0.0.1 >/dev/null; do :; done\n\
         ping -c 3 -W 5 10.0.0.1 | grep -o '3 packets received'\n{sends}; exit 5\n"
    )
}

/// Two Linuxes in the system's shell: they reach each other, and a file comes over TCP as it was. The sender is killed
/// while it sends; the receiver goes on, and gets the file of the next one at that port.
fn two(context: &Context<'_>) -> Result<()> {
    let script = "linux --memory 64 --net switch/linux-1 <receiver >/tmp/received & receiver=$!\n\
                  linux --memory 64 --net switch/linux-2 <sender-5000; echo code $?\n\
                  linux --memory 64 --net switch/linux-2 <sender-5001 >/tmp/sent & sender=$!\n\
                  until [ \"$(tail -n 1 /tmp/received)\" = 300000 ]; do sleep 0.1; done; kill $sender; wait $sender\n\
                  linux --memory 64 --net switch/linux-2 <sender-5002; echo code $?\n\
                  wait $receiver; echo code $?; cat /tmp/received";
    let linux = linux::made(context.paths, &context.ui)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).context("cannot write a file");
    write("receiver", RECEIVER)?;
    [5000, 5001, 5002].into_iter().try_for_each(|port| write(&format!("sender-{port}"), &sender(port)))?;
    let shell = InTheShell { devices: with_switch(), ..InTheShell::new(script, folder.path()) };
    let done = shell.capture(context.paths, context.built_with_shell()?, &linux)?;
    let errors = format!("{}\n{}", text(&done.stderr()), done.warnings.join("\n"));
    let (output, sum) = (text(&done.stdout()), sum()?);
    let sent = "3 packets received\ncode 5\n";
    let received = format!("{sum}\n300000\n{sum}\n02:00:00:00:01:01\n");
    if output != format!("{sent}{sent}code 6\n{received}") || done.end != End::Exit(0) {
        bail!("the output is\n{output}\n{errors}");
    }
    // Each end of a service is told there.
    match errors.lines().find(|line| line.starts_with("init: ")) {
        Some(line) => bail!("{line}\n{output}"),
        None => Ok(()),
    }
}

fn with_switch() -> Devices {
    Devices { switch: true, ..Devices::default() }
}

/// The card of a Linux that the machine was booted for, and that it can be given back and taken again.
fn card(context: &Context<'_>) -> Result<()> {
    let script = "driver=/sys/bus/platform/drivers/virtio-uml; cat /sys/class/net/eth0/address\n\
                  for times in 1 2 3; do echo virtio-uml.0 >$driver/unbind; [ -e /sys/class/net/eth0 ] && exit 8\n\
                  echo virtio-uml.0 >$driver/bind || exit 9; done; cat /sys/class/net/*/address";
    let done = run(context, &["sh", "-c", script], |guest| guest.ports = vec!["linux-2".into()])?;
    ended(&done, 0)?;
    let expected = "02:00:00:00:01:02\n02:00:00:00:01:02\n00:00:00:00:00:00\n";
    expect("the output", &text(&done.output), &expected.into())
}

/// A server of the host's that answers each request with so many bytes, and says what was asked.
fn server(bytes: usize) -> Result<(u16, Receiver<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot bind a port")?;
    let port = listener.local_addr()?.port();
    let (asked, asks) = mpsc::channel();
    // If it fails, the machine sees its connection close.
    Watcher::none().start("server", move || {
        for mut stream in listener.incoming().flatten() {
            let mut line = String::new();
            let mut lines = BufReader::new(&stream);
            let _ = lines.read_line(&mut line);
            let mut rest = String::new();
            while lines.read_line(&mut rest).is_ok_and(|count| count > 2) {
                rest.clear();
            }
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            let body: Vec<u8> = (0..bytes).map(|at| (at * 7 / 3) as u8).collect();
            let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            let _ = asked.send(format!("{} {:?}", line.trim(), sent.map_err(|error| error.kind())));
        }
    })?;
    Ok((port, asks))
}

/// Linux and the host: Linux gets an address and a name server from the network behind the machine's
/// card, and fetches from the host. Either card carries it.
fn outside(context: &Context<'_>) -> Result<()> {
    const BYTES: usize = 3_000_000;
    for model in [Model::VirtioNetPci, Model::E1000e] {
        let (port, asks) = server(BYTES)?;
        let script = format!(
            "grep nameserver /etc/resolv.conf; wget -q -O - http://10.0.2.2:{port}/file | wc -c\n\
             ip addr show dev eth0 | grep -o 'inet 10.0.2.[0-9]*'; exit 7"
        );
        let done = run(context, &["sh", "-c", &script], |guest| {
            guest.ports = vec!["linux-1".into()];
            guest.network = Some(user_network(model));
        })?;
        ended(&done, 7)?;
        expect("what was asked", &asks.recv_timeout(Duration::from_secs(1))?.as_str(), &"GET /file HTTP/1.1 Ok(())")?;
        let output = text(&done.output);
        expect_part("the output", &output, &format!("nameserver 10.0.2.3\n{BYTES}\ninet 10.0.2."))?;
    }
    Ok(())
}

/// A build whose switch has a port that is nobody's.
fn with_other_port(built: &Built) -> Result<Built> {
    let mut built = built.clone();
    let port = Port::new("others", PortKind::Guest, Some("02:00:00:00:01:09"), None).map_err(anyhow::Error::msg)?;
    let switch =
        built.services.iter_mut().find(|entry| entry.service.name == "switch").context("there is no switch")?;
    switch.service.arguments.push(port.to_argument());
    Ok(built)
}

/// Ports that a Linux cannot have: a line that says so, and a code over 0.
fn refused(context: &Context<'_>) -> Result<()> {
    let script = "linux --net switch/nothing -- true; echo code $?; linux --net switch/others -- true; echo code $?\n\
                  linux --net linux-1 -- true; echo code $?; linux --net switch/a:b -- true; echo code $?\n\
                  linux --net switch/linux-1 --net switch/linux-1 -- true; echo code $?";
    let linux = linux::made(context.paths, &context.ui)?;
    let built = with_other_port(context.built_with_shell()?)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let boot = |script: &str, devices| {
        let shell = InTheShell { devices, ..InTheShell::new(script, folder.path()) };
        shell.capture(context.paths, &built, &linux)
    };
    let done = boot(script, with_switch())?;
    let errors = text(&done.stderr());
    expect("the codes", &text(&done.stdout()), &"code 1\ncode 1\ncode 2\ncode 2\ncode 1\n".into())?;
    for name in ["nothing", "others"] {
        let line = format!("may not have a port {name}, or there is none of that name; it may have: linux-1, linux-2");
        expect_part("standard error", &errors, &line)?;
    }
    expect_part("standard error", &errors, "the port linux-1 is taken")?;
    let none = boot("linux --net switch/linux-1 -- true", Devices::default())?;
    expect_part("standard error", &text(&none.stderr()), "this machine has no switch")?;
    expect("its end", &none.end, &End::Exit(1))?;
    let mut guest = Guest::new(&["true"]);
    guest.ports = vec!["nothing".into()];
    let done = capture(context, &linux, &guest)?;
    ended(&done, 1)?;
    expect_part("standard error", &done.errors, "there is none of that name")?;
    let output = tool(context)?.args(["linux", "--net", "linux-1"]).output().context("cannot start this tool")?;
    expect("the exit code", &output.status.code(), &Some(2))?;
    expect_part("the message", &said(&output), "a network card is at a port of the switch: switch/PORT")
}

/// The switch is killed: Linux goes on without its card, and the next one has a card at the next switch.
fn switch_ends(context: &Context<'_>) -> Result<()> {
    let script = "linux --memory 64 --net switch/linux-1 <watcher >/tmp/said & linux=$!\n\
                  until [ -s /tmp/said ]; do sleep 0.1; done; kill net-switch; wait $linux; echo code $?; cat /tmp/said\n\
                  linux --memory 64 --net switch/linux-1 -- cat /sys/class/net/eth0/address";
    let watcher = "ip link set eth0 up; echo here; while [ -e /sys/class/net/eth0 ]; do sleep 0.1; done; exit 3\n";
    let linux = linux::made(context.paths, &context.ui)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    fs::write(folder.path().join("watcher"), watcher).context("cannot write a file")?;
    let shell = InTheShell { devices: with_switch(), ..InTheShell::new(script, folder.path()) };
    let done = shell.capture(context.paths, context.built_with_shell()?, &linux)?;
    let output = text(&done.stdout());
    if output != "code 3\nhere\n02:00:00:00:01:01\n" {
        bail!("the output is\n{output}\n{}", text(&done.stderr()));
    }
    Ok(())
}
