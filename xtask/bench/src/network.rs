//! `bench network`: what the network costs, in instructions, over the machine's own loop and over its card; with
//! `--peers`, beside Debian's kernel in the same machine, with the same program.
//!
//! The program [`PROGRAM`] (tests/bench) measures. What is behind the card is here:
//!
//! 1. A wire, at which QEMU's user network has the other end. Through it the machine reaches a server of the host.
//! 2. A machine on that wire, which answers datagrams ([`answer`]). It is this program itself, so that nothing else has
//!    to be fast or punctual.
//!
//! Idle time is left out, so a slow host changes a figure only as far as it changes how many frames come at a time.

use std::fs;
use std::io::BufReader;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench::{BURST, SINK, SOURCE, WIRE, serve};
use xtask_build::cargo::{self, Build};
use xtask_build::devices::{Devices, Model, Network};
use xtask_build::{BuildOptions, setup};
use xtask_common::paths::Paths;
use xtask_common::threads::Watcher;
use xtask_common::ui::Ui;
use xtask_run::args::Accel;
use xtask_run::session::End as Ended;
use xtask_run::wire::{ETHERNET, End, IP, UDP, UDP_NUMBER, UserNetwork, next, reply};
use xtask_run::{Capture, qemu};

use super::operations::Figure;
use super::{commit, peers, program};
use crate::args::NetworkArgs;

/// Our kernel.
pub(crate) const KERNEL: &str = "seL4 5.0.0, release";
/// The measuring program.
const PROGRAM: &str = "network-costs";
/// Memory of either machine in bytes.
const MEMORY: u64 = 1 << 30;
/// The hardware address of the machine on the wire.
const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 9];
/// Datagrams that it sends at a time, at most.
const MOST: u16 = 256;
/// Bytes of a datagram of its, at most.
const LONGEST: u16 = 1472;
/// The modules of Linux that drive the card.
const MODULES: [&str; 8] = [
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
];

/// What is behind the card. It ends with this value.
struct Behind {
    network: Network,
    port: u16,
    _user: UserNetwork,
    _folder: tempfile::TempDir,
}

impl Behind {
    fn start(capture: Option<&Path>) -> Result<Behind> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        let port = listener.local_addr()?.port();
        Watcher::none().start("server", move || -> Result<()> {
            for stream in listener.incoming() {
                let stream = stream?;
                // The machine ends without closing its connections.
                Watcher::none().start("connection", move || serve(stream))?;
            }
            Ok(())
        })?;
        let folder = qemu::runtime_folder()?;
        let [near, far] = ["near", "far"].map(|name| folder.path().join(name));
        let sockets = (UnixListener::bind(&near)?, UnixListener::bind(&far)?);
        Watcher::none().start("wire", move || -> Result<()> {
            let ((near, _), (far, _)) = (sockets.0.accept()?, sockets.1.accept()?);
            let (to_near, to_far) = (End::new(near.try_clone()?), End::new(far.try_clone()?));
            let back = to_near.clone();
            Watcher::none().start("wire", move || pass(far, |frame| to_near.put(frame)))?;
            Ok(pass(near, |frame| match answer(frame) {
                Some(answers) => back.put_all(&answers.iter().map(Vec::as_slice).collect::<Vec<_>>()),
                None => to_far.put(frame),
            })?)
        })?;
        let netdev = format!("stream,server=off,addr.type=unix,addr.path={}", near.display());
        let capture = capture.map(Path::to_path_buf);
        let network = Network { model: Model::default(), netdev, mac: None, capture, monitor: None };
        Ok(Behind { network, port, _user: UserNetwork::start(&far, "")?, _folder: folder })
    }
}

/// Takes frames until the other side ends.
fn pass(from: UnixStream, mut take: impl FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut from = BufReader::with_capacity(1 << 20, from);
    loop {
        take(&next(&mut from)?)?;
    }
}

/// What the machine on the wire answers. `None`: the frame is not for it.
fn answer(frame: &[u8]) -> Option<Vec<Vec<u8>>> {
    let wire = WIRE.octets();
    match frame.get(12..14)? {
        // A question for its hardware address (ARP).
        [8, 6] if frame.get(20..22)? == [0, 1] && frame.get(38..42)? == wire => {
            let (asks, its) = (frame.get(22..28)?, frame.get(28..32)?);
            Some(vec![[asks, &MAC, &[8, 6], frame.get(14..20)?, &[0, 2], &MAC, &wire, asks, its].concat()])
        }
        [8, 0] if frame.get(ETHERNET + 16..ETHERNET + 20)? == wire => {
            let of_udp = frame.get(ETHERNET)? == &0x45 && frame.get(ETHERNET + 9)? == &UDP_NUMBER;
            let (port, data) = (frame.get(ETHERNET + IP + 2..)?.first_chunk()?, frame.get(ETHERNET + IP + UDP..)?);
            Some(match (of_udp, u16::from_be_bytes(*port), data) {
                (true, SOURCE, [a, b, c, d, ..]) => {
                    let (count, len) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
                    let datagram = reply(frame, &vec![5; usize::from(len.min(LONGEST))]);
                    vec![datagram; usize::from(count.min(MOST))]
                }
                (true, SINK, [1, ..]) => vec![reply(frame, &[1])],
                _ => Vec::new(),
            })
        }
        _ => None,
    }
}

/// Measures; prints a table.
///
/// # Errors
/// Something does not build or boot, or an operation fails.
pub fn measure(paths: &Paths, args: &NetworkArgs) -> Result<()> {
    let ui = Ui::new(false);
    let work = Work { words: [&["measure".to_string()], args.names.as_slice()].concat(), accel: Accel::Counting };
    let text = ours(paths, &ui, &work, args.pcap.as_deref())?;
    let ours = peers::figures(&text, &(commit(paths), KERNEL.into(), options(work.accel)))?;
    let linux = if args.peers {
        let (text, kernel) = linux(paths, &ui, &work)?;
        let figures = peers::figures(&text, &(commit(paths), kernel, options(work.accel)))?;
        figures.into_iter().map(|figure| Figure { name: format!("linux_{}", figure.name), ..figure }).collect()
    } else {
        Vec::new()
    };
    println!("instructions of the whole machine without its idle time; datagrams in bursts of {BURST}");
    println!("{:<24} {:>10} {:>9} {:>9} {:>9} {:>6}", "operation", "mean", "min", "max", "linux", "times");
    for figure in &ours {
        let beside = linux.iter().find(|other| other.name == format!("linux_{}", figure.name));
        let times = beside.map_or(String::new(), |other| format!("{:.2}", figure.mean / other.mean));
        let shown = beside.map_or("-".into(), |other| format!("{:.0}", other.mean));
        let Figure { name, mean, min, max, .. } = figure;
        println!("{name:<24} {mean:>10.0} {min:>9.0} {max:>9.0} {shown:>9} {times:>6}");
    }
    match &args.json {
        Some(file) => super::operations::write(file, &[ours, linux].concat()),
        None => Ok(()),
    }
}

/// What the operations are.
const OPERATIONS: [(&str, &str); 12] = [
    ("loop_tcp_echo", "a byte to another program and back, TCP on the loopback"),
    ("loop_tcp_65536", "64 KiB to another program, TCP on the loopback, acknowledged by a byte"),
    ("loop_udp_1400", "a datagram of 1,400 bytes to another program, loopback"),
    ("card_tcp_echo", "a byte to the host and back, TCP"),
    ("card_tcp_send_65536", "64 KiB to the host, TCP, acknowledged by a byte"),
    ("card_tcp_receive_65536", "64 KiB from the host, TCP, for a byte"),
    ("card_udp_send_1472", "a frame of 1,514 bytes sent, from the program's call to the card"),
    ("card_udp_receive_1472", "a frame of 1,514 bytes received, from the card to the program"),
    ("card_udp_send_22", "the same with frames of 64 bytes"),
    ("card_udp_receive_22", "the same with frames of 64 bytes"),
    ("idle_second", "a second in which all programs sleep"),
    ("idle_second_500", "the same with 500 connections to the host"),
];

/// The table of the figures in the tree.
pub fn table(figures: &[Figure]) -> String {
    let mut out = String::new();
    if let Some(first) = figures.first() {
        out.push_str(&format!("Measured at {}; {}.\n\n", first.commit, first.options));
    }
    out.push_str("| operation | Hafnon | Linux | times | |\n|---|--:|--:|--:|---|\n");
    let mean = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.mean);
    for (name, what) in OPERATIONS {
        if let (Some(ours), Some(linux)) = (mean(name), mean(&format!("linux_{name}"))) {
            out.push_str(&format!("| `{name}` | {ours:.0} | {linux:.0} | {:.2} | {what} |\n", ours / linux));
        }
    }
    out
}

/// What the measuring program does.
pub(crate) struct Work {
    /// Its arguments.
    pub words: Vec<String>,
    /// How its machine executes instructions.
    pub accel: Accel,
}

/// Runs the program on this system. Returns its output.
pub(crate) fn ours(paths: &Paths, ui: &Ui, work: &Work, pcap: Option<&Path>) -> Result<String> {
    setup::for_booting(ui)?;
    let mut built = xtask_build::build(paths, ui, BuildOptions::default())?;
    // It may read how long the processor was idle.
    built.trusted.push(PROGRAM.into());
    let program = program(paths, ui, PROGRAM)?;
    let behind = Behind::start(pcap)?;
    let mut capture = Capture::new(&built, Path::new(PROGRAM));
    capture.programs = vec![(PROGRAM.into(), program)];
    capture.accel = work.accel;
    capture.memory = MEMORY;
    capture.devices.network = Some(behind.network.clone());
    capture.timeout = Duration::from_secs(1800);
    capture.args = arguments(behind.port, work);
    let step = ui.step("measuring");
    let outcome = capture.run()?;
    drop(step);
    let (stdout, stderr) = (outcome.stdout(), outcome.stderr());
    let (text, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if outcome.end != Ended::Exit(0) {
        bail!("the benchmark ended with {:?}:\n{text}{errors}", outcome.end);
    }
    Ok(text.into_owned())
}

/// Runs the program on Debian's kernel. Returns its output, and the kernel's version.
pub(crate) fn linux(paths: &Paths, ui: &Ui, work: &Work) -> Result<(String, String)> {
    setup::for_building(ui)?;
    let folder = paths.out.join("peers");
    let (kernel, version) = setup::linux(ui, &folder.join("linux"))?;
    let files = folder.join("network-initramfs");
    fs::write(&files, archive(paths, ui, &folder)?).context("cannot write Linux' first files")?;
    let behind = Behind::start(None)?;
    let devices = Devices { network: Some(behind.network.clone()), ..Devices::default() };
    let step = ui.step("measuring Linux");
    let text = peers::boot_with(&kernel, &files, MEMORY, work.accel, devices, &arguments(behind.port, work))?;
    drop(step);
    if !text.lines().any(|line| line.trim() == "ended with 0") {
        bail!("the benchmark failed on Linux:\n{text}");
    }
    Ok((text, format!("Linux {version} (Debian, cloud), mitigations off")))
}

/// The machine's options.
pub(crate) fn options(accel: Accel) -> String {
    let sleep = if accel == Accel::Counting { "off" } else { "on" };
    format!("QEMU TCG, one processor without ERMS, {} MiB, -icount shift=0,sleep={sleep}", MEMORY >> 20)
}

/// The measuring program's arguments: the host's port is the second.
fn arguments(port: u16, work: &Work) -> Vec<String> {
    let mut words = work.words.clone();
    words.insert(1.min(words.len()), port.to_string());
    words
}

/// The first files of Linux.
fn archive(paths: &Paths, ui: &Ui, folder: &Path) -> Result<Vec<u8>> {
    let init = folder.join("network-init");
    peers::gcc(paths, &init, &["-static"], &["network.c"])?;
    let modules = folder.join("linux/lib/modules");
    let version = fs::read_dir(&modules).context("Linux' package has no modules")?.next();
    let version = version.context("Linux' package has no modules")??.path();
    let module = |name: &&str| -> (String, PathBuf) {
        let file = Path::new(name).with_extension("ko");
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (format!("modules/{name}"), version.join("kernel").join(file))
    };
    let mut files: Vec<(String, PathBuf)> = MODULES.iter().map(module).collect();
    files.push(("init".into(), init));
    files.push(("network-costs".into(), host_program(paths, ui)?));
    let read = |(name, file): (String, PathBuf)| -> Result<(String, Vec<u8>)> {
        Ok((name, fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?))
    };
    let files = files.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    peers::pack(&["dev", "proc", "modules"], &files)
}

/// The measuring program for Linux, without shared libraries.
fn host_program(paths: &Paths, ui: &Ui) -> Result<PathBuf> {
    let made = Build::new(
        "building the benchmark for Linux",
        "--release --locked --target x86_64-unknown-linux-gnu -p bench --bin network-costs",
    )
    .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
    .run(paths, ui)?;
    Ok(cargo::program(&made, PROGRAM)?.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame to the machine on the wire.
    fn datagram(port: u16, data: &[u8]) -> Vec<u8> {
        let [high, low] = port.to_be_bytes();
        let udp = [&[4, 1, high, low, 0, (UDP + data.len()) as u8, 0, 0], data].concat();
        xtask_run::wire::frame(&[1; 12], UDP_NUMBER, [10, 0, 2, 15], WIRE.octets(), &udp)
    }

    #[test]
    fn datagrams_are_answered() {
        let answers = answer(&datagram(SOURCE, &[0, 3, 0, 100])).unwrap();
        assert_eq!(answers.iter().map(Vec::len).collect::<Vec<_>>(), [ETHERNET + IP + UDP + 100; 3]);
        assert_eq!(answer(&datagram(SOURCE, &[255, 255, 255, 255])).unwrap().len(), usize::from(MOST));
        assert_eq!(answer(&datagram(SINK, &[1, 2])).unwrap().len(), 1);
        assert_eq!(answer(&datagram(SINK, &[0, 2])).unwrap().len(), 0);
        assert_eq!(answer(&datagram(SINK, &[])).unwrap().len(), 0);
    }

    #[test]
    fn a_table_of_both() {
        let text = table(&[Figure::of("card_tcp_echo", 300.0), Figure::of("linux_card_tcp_echo", 200.0)]);
        assert!(
            text.ends_with("| `card_tcp_echo` | 300 | 200 | 1.50 | a byte to the host and back, TCP |\n"),
            "{text}"
        );
    }

    #[test]
    fn frames_for_others_are_passed_on() {
        let mut other = datagram(SINK, &[1]);
        other[ETHERNET + 19] = 2;
        assert_eq!(answer(&other), None);
        for len in 0..other.len() {
            let _ = answer(&other[..len]);
        }
    }
}
