//! The network: the card, its driver and the TCP/IP service, with the host as the other side.
//!
//! The host reaches the machine through QEMU's user network, whose TCP is not ours. Where a test needs a bad wire, a
//! second QEMU without a machine is that network, and the test passes the frames between the two ([`wire`]).

mod example;
mod floods;
mod frames;
mod ipv6;
mod link;
mod machine;
mod rules;
mod tools;
mod wire;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result, anyhow, bail};

use super::{Context, Test, TestArgs, expect, expect_part};
pub use machine::user_network;
use machine::{Back, Machine, digest_of};
use wire::Faults;
use xtask_build::devices::Model;
use xtask_common::threads::Watcher;
use xtask_run::Capture;

/// Bytes of a transfer.
const LEN: usize = 8 << 20;

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let mut tests = floods::tests(args);
    tests.extend([
        Test::one("network.service-dies", service_dies),
        Test::one("network.host-to-system", host_to_system),
        Test::one("network.system-to-host", system_to_host),
        Test::one("network.last-bytes", last_bytes),
        Test::one("network.interfaces", interfaces),
        Test::one("network.ping", ping),
        Test::one("network.options", options),
        Test::one("network.static-names", static_names),
        Test::one("network.datagrams", datagrams),
        Test::one("network.many-connections", many_connections),
        Test::one("network.driver-dies", |context| driver_dies(context, Model::VirtioNetPci, Back::User, "virtio-net")),
        Test::one("network.e1000e", e1000e),
        Test::one("network.e1000e-dies", |context| driver_dies(context, Model::E1000e, Back::User, "e1000e")),
        Test::one("network.link", |context| link::cable(context, Model::VirtioNetPci, Back::User)),
        Test::one("network.link-e1000e", |context| link::cable(context, Model::E1000e, Back::User)),
        Test::one("network.switch", over_switch),
        Test::one("network.switch-driver-dies", |context| {
            driver_dies(context, Model::VirtioNetPci, Back::Switch, "virtio-net")
        }),
        Test::one("network.switch-dies", switch_dies),
        Test::one("network.switch-link", |context| link::cable(context, Model::VirtioNetPci, Back::Switch)),
        Test::one("network.bad-wire", bad_wire),
        Test::one("network.streams", streams),
        Test::one("network.hostile-frames", |context| hostile_frames(context, Model::VirtioNetPci)),
        Test::one("network.e1000e-hostile-frames", |context| hostile_frames(context, Model::E1000e)),
        Test::one("network.names", names),
        Test::one("network.groups", groups),
        Test::one("network.rules", rules::parts),
        Test::one("network.no-network", rules::all_or_none),
        Test::one("network.fetch", tools::fetch),
        Test::one("network.nc", tools::nc),
        Test::one("example.http-server", example::http_server),
        Test::one("network.ipv6", ipv6::user_network),
        Test::one("network.ipv6-two-machines", ipv6::two_machines),
    ]);
    tests
}

fn service_dies(context: &Context<'_>) -> Result<()> {
    let capture = Capture::new(context.built()?, Path::new("network-check"));
    let (stdout, stderr) = super::drivers::output(&capture, 0)?;
    expect_part("standard output", &stdout, "as it should be")?;
    expect("how often its end was told", &stderr.matches("the service network ended (-1024)").count(), &1)
}

/// The next line of the machine's. No more bytes follow it yet.
fn line(stream: &TcpStream) -> Result<String> {
    let mut said = String::new();
    BufReader::new(stream).read_line(&mut said)?;
    Ok(said.trim().to_owned())
}

/// Transfers `len` bytes in both directions over one connection.
fn transfer(machine: &Machine, len: usize) -> Result<()> {
    transfer_over(machine.connect()?, len)
}

fn transfer_over(mut stream: TcpStream, len: usize) -> Result<()> {
    writeln!(stream, "source {len}")?;
    let got = network_tests::digest(&mut stream, len).context("from the machine")?;
    expect("the bytes from the machine", &got, &digest_of(len)?)?;
    writeln!(stream, "sink {len}")?;
    network_tests::bytes(len).try_for_each(|part| stream.write_all(&part)).context("to the machine")?;
    expect("the bytes to the machine", &line(&stream)?, &digest_of(len)?)
}

/// The card's driver ended this often, by being killed or by itself. A new one would hide that.
fn driver_ended(often: usize, stderr: &str) -> Result<()> {
    expect("how often the driver ended", &stderr.matches("the service net0 ended").count(), &often)
}

fn host_to_system(context: &Context<'_>) -> Result<()> {
    let (_, stderr) = Machine::run(context, Back::User, |machine| transfer(machine, 2 * LEN))?;
    driver_ended(0, &stderr)
}

/// Runs the program as a client of a server on the host, which it reaches at 10.0.2.2.
fn client(context: &Context<'_>, args: &[&str]) -> Result<String> {
    let mut capture = machine::capture(context, args)?;
    capture.devices.network = Some(machine::user_network(Model::VirtioNetPci));
    Ok(super::drivers::output(&capture, 0)?.0)
}

/// The program `ip`, with each card and without one, and `getifaddrs`.
fn interfaces(context: &Context<'_>) -> Result<()> {
    let mut capture = Capture::new(context.built()?, Path::new("ip"));
    let lo = "lo    127.0.0.1/8, ::1/128, MTU 65535\n";
    expect("without a card", &super::drivers::output(&capture, 0)?.0.as_str(), &lo)?;
    // QEMU names an IPv6 name server if the host has one.
    let card = "net0  10.0.2.15/24, hardware address 52:54:00:12:34:56, MTU 1500\n      \
                fe80::5054:ff:fe12:3456/64, fec0::5054:ff:fe12:3456/64\n      gateway 10.0.2.2, fe80::2\n      \
                name servers 10.0.2.3";
    for model in Model::ALL {
        capture.devices.network = Some(machine::user_network(model));
        let (stdout, _) = super::drivers::output(&capture, 0)?;
        expect_part(model.name(), &stdout, &format!("{lo}{card}"))?;
    }
    // The same by C's functions.
    let program = crate::c::program(context, "headers")?;
    let mut capture = Capture::new(context.built()?, &program);
    capture.args = vec!["interfaces_".to_owned()];
    capture.devices.network = Some(machine::user_network(Model::default()));
    let (stdout, _) = super::drivers::output(&capture, 0)?;
    let passed = "test interfaces_of_the_loopback ... ok\nthere is a card\ntest interfaces_of_the_card ... ok\n";
    expect("by C's functions", &stdout.as_str(), &passed)
}

/// Runs the program `ping` behind QEMU's user network; returns its output.
fn run_ping(context: &Context<'_>, args: &[&str], code: i64) -> Result<(String, String)> {
    let mut capture = Capture::new(context.built()?, Path::new("ping"));
    capture.args = args.iter().map(ToString::to_string).collect();
    capture.devices.network = Some(machine::user_network(Model::default()));
    super::drivers::output(&capture, code)
}

/// The program `ping`: the loopback, QEMU's gateway, a host that is not there.
fn ping(context: &Context<'_>) -> Result<()> {
    let run = |args: &[&str], code: i64| Ok::<_, anyhow::Error>(run_ping(context, args, code)?.0);
    for (host, size, bytes) in [("127.0.0.1", "56", 64), ("::1", "0", 8), ("10.0.2.2", "1000", 1008)] {
        let stdout = run(&["-c", "3", "-s", size, host], 0)?;
        for sequence in 1..=3 {
            expect_part(host, &stdout, &format!("{bytes} bytes from {host}: icmp_seq={sequence} time="))?;
        }
        expect_part(host, &stdout, "3 packets transmitted, 3 received, 0% packet loss, time ")?;
        expect_part(host, &stdout, "rtt min/avg/max = ")?;
    }
    let stdout = run(&["-c", "1", "-W", "20", "10.0.2.77"], 1)?;
    expect_part("a host that is not there", &stdout, "icmp_seq=1 Destination Host Unreachable")?;
    expect_part("a host that is not there", &stdout, "1 packets transmitted, 0 received, +1 errors, 100% packet loss")?;
    run(&["-c", "0", "127.0.0.1"], 2).map(drop)
}

/// Sends back what comes over one connection, at a port of the host's that it returns.
fn echo_one() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on the host")?;
    let port = listener.local_addr()?.port();
    Watcher::none().start("echo", move || {
        if let Ok((stream, _)) = listener.accept() {
            let _ = std::io::copy(&mut &stream, &mut &stream);
        }
    })?;
    Ok(port)
}

/// Options of a connection over the card: a C program, and a server on the host that sends back what it gets.
fn options(context: &Context<'_>) -> Result<()> {
    let port = echo_one()?;
    let program = crate::c::program(context, "headers")?;
    let mut capture = Capture::new(context.built()?, &program);
    capture.args = vec!["card_".to_owned()];
    capture.variables = vec![("ECHO_PORT".to_owned(), port.to_string())];
    capture.devices.network = Some(machine::user_network(Model::default()));
    let (stdout, _) = super::drivers::output(&capture, 0)?;
    expect("standard output", &stdout.as_str(), &"there is a server\ntest card_tcp_options ... ok\n")
}

/// Names of hosts in the service's arguments, without a card.
fn static_names(context: &Context<'_>) -> Result<()> {
    let mut built = context.built()?.clone();
    let service = built.services.iter_mut().find(|known| known.service.name == "network");
    let arguments = &mut service.context("there is no network service")?.service.arguments;
    arguments.extend(["host=static.example=127.0.0.5", "host=other.example=192.0.2.7"].map(str::to_owned));
    let run = |name: &str, code: i64| {
        let mut capture = Capture::new(&built, Path::new("ping"));
        capture.args = ["-c", "1", name].map(str::to_owned).into();
        super::drivers::output(&capture, code)
    };
    expect_part("a name", &run("Static.example", 0)?.0, "PING Static.example (127.0.0.5) 56(84) bytes of data.\n")?;
    expect_part("an address without a way", &run("other.example", 2)?.1, "ping: Network is unreachable")?;
    expect_part("another name", &run("example", 2)?.1, "Try again")
}

/// Serves one client: sends it bytes and takes some, and tells both sums. Returns that of what it took.
fn serve_one(listener: &TcpListener, len: usize) -> Result<String> {
    let (stream, _) = listener.accept()?;
    let mut from = BufReader::new(stream.try_clone()?);
    let mut to = stream;
    let mut line = String::new();
    from.read_line(&mut line)?;
    expect("the first line", &line.trim(), &format!("source {len}").as_str())?;
    network_tests::bytes(len).try_for_each(|part| to.write_all(&part))?;
    line.clear();
    from.read_line(&mut line)?;
    expect("the second line", &line.trim(), &format!("sink {len}").as_str())?;
    let got = network_tests::digest(&mut from, len)?;
    writeln!(to, "{got}")?;
    Ok(got)
}

fn system_to_host(context: &Context<'_>) -> Result<()> {
    transfers(context, "127.0.0.1", "10.0.2.2")
}

/// A program transfers bytes to a server at `here` on the host, which it reaches at `there`, and back.
fn transfers(context: &Context<'_>, here: &str, there: &str) -> Result<()> {
    let listener = TcpListener::bind(format!("{here}:0")).with_context(|| format!("cannot listen at {here}"))?;
    let server = format!("{there}:{}", listener.local_addr()?.port());
    let served = Watcher::none().start("server", move || serve_one(&listener, LEN))?;
    let stdout = client(context, &["fetch", &server, &LEN.to_string()])?;
    let sum = digest_of(LEN)?;
    expect("standard output", &stdout.as_str(), &format!("{server} {sum} {sum}\n").as_str())?;
    expect("the bytes from the machine", &served.join()??, &sum)
}

/// A program ends right after its last write, and the machine with it: the host gets all bytes, and their end.
fn last_bytes(context: &Context<'_>) -> Result<()> {
    // Fewer than the data socket and the connection's buffer hold, so no write waits.
    const LEN: usize = 300_000;
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on the host")?;
    let server = format!("10.0.2.2:{}", listener.local_addr()?.port());
    let served = Watcher::none().start("server", move || -> Result<String> {
        let (mut stream, _) = listener.accept()?;
        let sum = network_tests::digest(&mut stream, LEN)?;
        expect("what comes behind the last byte", &stream.read(&mut [0])?, &0)?;
        Ok(sum)
    })?;
    client(context, &["send", &server, &LEN.to_string()])?;
    expect("the bytes from the machine", &served.join()??, &digest_of(LEN)?)
}

/// Sends datagrams back, from a port of the host's that it returns.
fn send_back(at: &str) -> Result<u16> {
    let socket = UdpSocket::bind(at).context("cannot bind on the host")?;
    let port = socket.local_addr()?.port();
    // It ends with this process.
    Watcher::none().start("echo", move || {
        let mut buffer = [0; 2048];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..count], from);
        }
    })?;
    Ok(port)
}

fn datagrams(context: &Context<'_>) -> Result<()> {
    let port = send_back("127.0.0.1:0")?;
    let stdout = client(context, &["datagrams", &format!("10.0.2.2:{port}"), "500"])?;
    expect("standard output", &stdout.as_str(), &"500 datagrams came back\n")
}

/// Connections that are open at the same time, each with bytes of its own.
fn many_connections(context: &Context<'_>) -> Result<()> {
    const CONNECTIONS: usize = 300;
    Machine::run(context, Back::User, |machine| {
        let mut streams = Vec::new();
        for number in 0..CONNECTIONS {
            let mut stream = machine.connect().with_context(|| format!("connection {number}"))?;
            // QEMU's network takes one connection of the host's at a time. The next one would wait for a second.
            writeln!(stream, "killed")?;
            expect("an answer", &line(&stream)?.as_str(), &"0")?;
            writeln!(stream, "echo")?;
            streams.push(stream);
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            write!(stream, "this is {number:04}")?;
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let mut bytes = [0; 12];
            stream.read_exact(&mut bytes).with_context(|| format!("connection {number}"))?;
            expect("an echo", &String::from_utf8_lossy(&bytes).as_ref(), &format!("this is {number:04}").as_str())?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The same transfers over Intel's card.
fn e1000e(context: &Context<'_>) -> Result<()> {
    let (_, stderr) = Machine::run_with(context, Model::E1000e, Back::User, |machine| transfer(machine, 2 * LEN))?;
    driver_ended(0, &stderr)
}

/// The driver is killed five times during a transfer. The connection lives, and no byte is wrong.
fn driver_dies(context: &Context<'_>, model: Model, back: Back, driver: &str) -> Result<()> {
    let stderr = killed_five_times(context, model, back, (driver, "net0"))?;
    driver_ended(5, &stderr)
}

/// Transfers while a service's program is killed five times.
fn killed_five_times(
    context: &Context<'_>,
    model: Model,
    back: Back,
    (program, service): (&str, &str),
) -> Result<String> {
    let (stdout, stderr) = Machine::run_with(context, model, back, |machine| {
        let mut control = machine.connect()?;
        writeln!(control, "kill {program} 5 300")?;
        expect("an answer", &line(&control)?.as_str(), &"killing")?;
        // Until all five are over.
        let mut killed = String::new();
        for _ in 0..20 {
            transfer(machine, 2 * LEN)?;
            writeln!(control, "killed")?;
            killed = line(&control)?;
            if killed == "5" {
                return Ok(());
            }
        }
        bail!("it was killed {killed} times, expected 5")
    })?;
    expect_part("standard output", &stdout, &format!("killed {program} 5 times"))?;
    let told = stderr.matches(&format!("the service {service} ended (-1024)")).count();
    expect("how often its end was told", &told, &5)?;
    Ok(stderr)
}

/// The service and the card are at the system's switch.
fn over_switch(context: &Context<'_>) -> Result<()> {
    let (_, stderr) = Machine::run(context, Back::Switch, |machine| transfer(machine, 2 * LEN))?;
    driver_ended(0, &stderr)
}

/// The switch is killed: connections live, and the card's driver notices only that its client has gone.
fn switch_dies(context: &Context<'_>) -> Result<()> {
    let stderr = killed_five_times(context, Model::VirtioNetPci, Back::Switch, ("net-switch", "switch"))?;
    driver_ended(0, &stderr)
}

/// Frames are lost, come twice, or overtake others.
fn bad_wire(context: &Context<'_>) -> Result<()> {
    for (faults, len) in [
        (Faults { lost: 1, twice: 1, early: 5, ..Faults::default() }, LEN / 2),
        (Faults { lost: 10, twice: 10, early: 20, changed: 5, ..Faults::default() }, LEN / 8),
    ] {
        let passed = Machine::run(context, Back::Wire(faults), |machine| transfer(machine, len));
        passed.and_then(|(_, stderr)| driver_ended(0, &stderr)).with_context(|| format!("{faults:?}"))?;
    }
    Ok(())
}

/// 64 transfers at a time, over a wire that loses, repeats and swaps one frame of a hundred.
fn streams(context: &Context<'_>) -> Result<()> {
    const STREAMS: usize = 64;
    let faults = Faults { lost: 10, twice: 10, early: 10, ..Faults::default() };
    let (_, stderr) = Machine::run(context, Back::Wire(faults), |machine| {
        let mut open = Vec::new();
        for _ in 0..STREAMS {
            let mut stream = machine.connect()?;
            // QEMU's network takes one connection of the host's at a time.
            writeln!(stream, "killed")?;
            expect("an answer", &line(&stream)?.as_str(), &"0")?;
            open.push(stream);
        }
        thread::scope(|scope| {
            let running: Vec<_> =
                open.into_iter().map(|stream| scope.spawn(|| transfer_over(stream, LEN / 64))).collect();
            running.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a stream's thread failed"))?)
        })
    })?;
    driver_ended(0, &stderr)
}

/// Frames of all kinds of nonsense come in beside those of a connection. Some are longer than a buffer: QEMU's cards drop
/// these, so no driver sees one. What the e1000e's driver does with such a frame is in the unit tests of its ring.
fn hostile_frames(context: &Context<'_>, model: Model) -> Result<()> {
    let faults = Faults { changed: wire::NONSENSE, ..Faults::default() };
    let (_, stderr) = Machine::run_with(context, model, Back::Wire(faults), |machine| {
        transfer(machine, LEN / 4)?;
        ipv6::from_machine(machine, LEN / 4)
    })?;
    driver_ended(0, &stderr)
}

/// Names of hosts: an alias, a name that does not exist, truncated answers that are asked for again over TCP, a server
/// that does not answer. Forged answers come first.
fn names(context: &Context<'_>) -> Result<()> {
    let faults = Faults { names: true, ..Faults::default() };
    Machine::run(context, Back::Wire(faults), |machine| {
        let mut stream = machine.connect()?;
        for (name, says) in [
            ("host.example", "fec0::99 10.0.2.99"),
            ("HOST.example.", "fec0::99 10.0.2.99"),
            ("far.example", "10.0.2.98 2001:db8::98"),
            ("nobody.example", "no such name"),
            ("no name", "no such name"),
            ("long.example", "10.0.2.98"),
            ("reset.example", "no answer"),
            ("localhost", "::1 127.0.0.1"),
            ("10.0.2.7", "10.0.2.7"),
            ("silent.example", "no answer"),
        ] {
            writeln!(stream, "look-up {name}")?;
            expect(name, &line(&stream)?.as_str(), &says)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Multicast groups over each card: a socket hears what another host says there.
fn groups(context: &Context<'_>) -> Result<()> {
    let faults = Faults { groups: true, ..Faults::default() };
    for model in Model::ALL {
        let heard = Machine::run_with(context, model, Back::Wire(faults), |machine| {
            let mut stream = machine.connect()?;
            // One whose report has a sum that carries twice.
            for group in ["239.1.2.3", "239.255.250.0"] {
                writeln!(stream, "group {group}")?;
                expect(group, &line(&stream)?.as_str(), &"10.0.2.99: I am")?;
            }
            for group in ["ff02::4d:1", "ff05::4d:1"] {
                writeln!(stream, "group {group}")?;
                expect(group, &line(&stream)?.as_str(), &"fe80::63: I am")?;
            }
            Ok(())
        });
        heard.with_context(|| model.name().to_owned())?;
    }
    Ok(())
}
