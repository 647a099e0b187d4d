//! IPv6 on the card: QEMU's user network, which advertises fec0::/64 and reaches the host as fec0::2, and another machine
//! on the same network.

use std::io::Write;
use std::net::TcpListener;

use anyhow::{Context as _, Result};

use super::machine::{self, Back, Machine, digest_of};
use super::{LEN, client, line, run_ping, send_back, serve_one, transfers};
use crate::drivers::output;
use crate::{Context, expect, expect_part};
use xtask_build::devices::Model;
use xtask_common::threads::Watcher;
use xtask_run::qemu::runtime_folder;

/// The link-local address that a machine has by QEMU's usual hardware address.
const LOCAL: &str = "fe80::5054:ff:fe12:3456";

/// Addresses, echoes, connections and datagrams.
pub fn user_network(context: &Context<'_>) -> Result<()> {
    let ping = |args: &[&str], code: i64| run_ping(context, args, code);
    for host in ["fec0::2", "fe80::2%net0", &format!("{LOCAL}%2")] {
        let (stdout, _) = ping(&["-c", "2", "-s", "1000", host], 0)?;
        let ip = host.split('%').next().unwrap_or_default();
        expect_part(host, &stdout, &format!("PING {host} ({ip}) 1000(1048) bytes of data."))?;
        expect_part(host, &stdout, &format!("1008 bytes from {ip}: icmp_seq=2 time="))?;
        expect_part(host, &stdout, "2 packets transmitted, 2 received, 0% packet loss, time ")?;
    }
    let (stdout, _) = ping(&["-c", "1", "-W", "20", "fec0::77"], 1)?;
    expect_part("a host that is not there", &stdout, "icmp_seq=1 Destination Host Unreachable")?;
    for (host, says) in [
        ("fe80::2", "ping: Invalid argument"),
        ("fe80::2%lo", "ping: Invalid argument"),
        ("fe80::2%eth0", "Name does not resolve"),
        ("fec0::2%net0", "Name does not resolve"),
    ] {
        expect_part(host, &ping(&["-c", "1", host], 2)?.1, says)?;
    }
    transfers(context, "[::1]", "[fec0::2]")?;
    let port = send_back("[::1]:0")?;
    let stdout = client(context, &["datagrams", &format!("[fec0::2]:{port}"), "500"])?;
    expect("standard output", &stdout.as_str(), &"500 datagrams came back\n")
}

/// A running machine transfers bytes to the host and back over IPv6.
pub fn from_machine(machine: &Machine, len: usize) -> Result<()> {
    let listener = TcpListener::bind("[::1]:0").context("cannot listen on the host over IPv6")?;
    let port = listener.local_addr()?.port();
    let served = Watcher::none().start("server", move || serve_one(&listener, len))?;
    let mut stream = machine.connect()?;
    writeln!(stream, "fetch [fec0::2]:{port} {len}")?;
    let sum = digest_of(len)?;
    expect("the machine", &line(&stream)?, &format!("[fec0::2]:{port} {sum} {sum}"))?;
    expect("the bytes from the machine", &served.join()??, &sum)
}

/// Two machines on one network: one serves, and the other is its client, by the link-local address and by that of the
/// advertised prefix. With the server's hardware address, the client finds its address taken and has no IPv6.
pub fn two_machines(context: &Context<'_>) -> Result<()> {
    let folder = runtime_folder()?;
    let socket = folder.path().join("other");
    Machine::run(context, Back::Beside(socket.clone()), |server| {
        let mut control = server.connect()?;
        writeln!(control, "datagrams 8")?;
        expect("an answer", &line(&control)?.as_str(), &"waiting")?;
        let run = |args: &[&str], mac: Option<&str>, code: i64| {
            let mut capture = machine::capture(context, args)?;
            let netdev = format!("stream,server=off,addr.type=unix,addr.path={}", socket.display());
            let mut network = machine::network(Model::E1000e, netdev, None);
            network.mac = mac.map(str::to_owned);
            capture.devices.network = Some(network);
            output(&capture, code)
        };
        const OTHER: Option<&str> = Some("52:54:00:12:34:57");
        let (sum, len) = (digest_of(LEN / 4)?, (LEN / 4).to_string());
        let prefixed = LOCAL.replace("fe80", "fec0");
        for ip in [&format!("{LOCAL}%2"), &prefixed] {
            let (stdout, _) = run(&["fetch", &format!("[{ip}]:7"), &len], OTHER, 0)?;
            expect(ip, &stdout.as_str(), &format!("[{ip}]:7 {sum} {sum}\n").as_str())?;
            let (stdout, _) = run(&["datagrams", &format!("[{ip}]:8"), "200"], OTHER, 0)?;
            expect(ip, &stdout.as_str(), &"200 datagrams came back\n")?;
        }
        let (_, stderr) = run(&["fetch", &format!("[{prefixed}]:7"), &len], None, 1)?;
        expect_part("with the same hardware address", &stderr, "NetworkUnreachable")
    })?;
    Ok(())
}
