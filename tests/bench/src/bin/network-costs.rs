//! What the network costs, in instructions, over the machine's own loop and over its card.
//!
//! `./hafnon bench network` runs this program in a machine whose clock counts instructions: a nanosecond is one. It runs
//! on Linux as well, for comparison. Time in which the processor was idle is left out, so a figure is all that the
//! machine did: driver, service, program and kernel.
//!
//! `network-costs measure PORT NAME…` measures, and prints a line for each operation: `figure NAME instructions MEAN MIN MAX
//! SAMPLES`. PORT is that of the host's server, which is [`serve`]. On the card's network there is also a machine [`WIRE`]
//! that answers datagrams. `network-costs serve` is the other side of the operations over the loop.
//!
//! `network-costs steps PORT RATE…` asks the wire for bursts of frames of 1,514 bytes at these rates, in Mb/s, for a second
//! each. For each rate it prints `step RATE RECEIVED BUSY EACH`: Mb/s that it received, how busy the processor was in per
//! cent, and instructions for each frame.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
#[cfg(target_os = "fuchsia")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bench::{BURST, SINK, SOURCE, WIRE, WRITE, serve};

/// Where the other side of the loop listens, with TCP and UDP.
const LOOP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7);
/// The host.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// Bytes of a datagram that fills a frame of 1,514 bytes.
const FULL: usize = 1472;

/// How long the processor was idle since the machine's start.
#[cfg(target_os = "fuchsia")]
fn idle() -> io::Result<Duration> {
    use abi::{ZX_INFO_CPU_STATS, zx_info_cpu_stats_t};
    use zx::{Handle, Info, Resource};

    /// Type and argument of the start handle (`PA_USER0`) with the resource for statistics.
    const STATISTICS: (u32, u16) = (0xf0, 3);
    static RESOURCE: OnceLock<Option<Resource>> = OnceLock::new();

    let resource = RESOURCE
        .get_or_init(|| zx::startup::take(STATISTICS.0, STATISTICS.1).map(|handle: Handle| Resource::from(handle)));
    let stats = resource
        .as_ref()
        .ok_or_else(|| io::Error::other("there is no resource"))?
        .info_record::<zx_info_cpu_stats_t>(ZX_INFO_CPU_STATS);
    let stats = stats.map_err(|status| io::Error::other(format!("ZX_INFO_CPU_STATS: {status}")))?;
    Ok(Duration::from_nanos(stats.idle_time.max(0) as u64))
}

/// How long the processor was idle since the machine's start.
#[cfg(not(target_os = "fuchsia"))]
fn idle() -> io::Result<Duration> {
    let text = std::fs::read_to_string("/proc/timer_list")?;
    let nanos = text.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name.trim() == ".idle_sleeptime").then(|| rest.split_whitespace().next()?.parse().ok())?
    });
    nanos.map(Duration::from_nanos).ok_or_else(|| io::Error::other("/proc/timer_list has no idle_sleeptime"))
}

/// Measures `count` rounds after a quarter as many; a round is `items` operations.
fn measure(name: &str, count: u32, items: u32, mut round: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..count.div_ceil(4) {
        round()?;
    }
    let (mut sum, mut min, mut max) = (0.0_f64, f64::INFINITY, 0.0_f64);
    // Some rounds are one sample, so that reading the idle time does not matter.
    let samples = 8;
    for _ in 0..samples {
        let before = idle()?;
        let start = Instant::now();
        for _ in 0..count.div_ceil(samples) {
            round()?;
        }
        let all = start.elapsed();
        let busy = all.saturating_sub(idle()?.saturating_sub(before));
        let each = busy.as_nanos() as f64 / f64::from(count.div_ceil(samples) * items);
        (sum, min, max) = (sum + each, min.min(each), max.max(each));
    }
    println!("figure {name} instructions {:.2} {min:.0} {max:.0} {samples}", sum / f64::from(samples));
    Ok(())
}

/// The other side of datagrams: acknowledges the last one of each burst, which begins with a one.
fn acknowledge(socket: &UdpSocket) -> io::Result<()> {
    let mut bytes = [0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut bytes)?;
        if len > 0 && bytes[0] == 1 {
            socket.send_to(&[1], from)?;
        }
    }
}

/// A stream to a server, which does this.
fn stream(address: SocketAddrV4, what: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    writeln!(stream, "{what}")?;
    Ok(stream)
}

/// A byte there and back.
fn echo(name: &str, address: SocketAddrV4) -> io::Result<()> {
    let (mut stream, mut byte) = (stream(address, "echo")?, [3]);
    measure(name, 1024, 1, || {
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)
    })
}

/// 64 KiB to the other side, which acknowledges them with a byte. Several are on their way.
fn send(name: &str, address: SocketAddrV4) -> io::Result<()> {
    let (mut stream, bytes, mut answers) = (stream(address, "sink")?, vec![7; WRITE], [0; 16]);
    measure(name, 32, 16, || {
        (0..16).try_for_each(|_| stream.write_all(&bytes))?;
        stream.read_exact(&mut answers)
    })
}

/// 64 KiB from the other side, for a byte. Several are on their way.
fn receive(name: &str, address: SocketAddrV4) -> io::Result<()> {
    let (mut stream, mut bytes) = (stream(address, "source")?, vec![0; WRITE]);
    measure(name, 32, 16, || {
        stream.write_all(&[1; 16])?;
        (0..16).try_for_each(|_| stream.read_exact(&mut bytes))
    })
}

/// Datagrams to an address, each burst acknowledged. Reading has no time limit: the clock jumps over idle time, and would
/// be at any limit before the other side has answered.
fn send_datagrams(name: &str, address: SocketAddrV4, len: usize) -> io::Result<()> {
    let (socket, mut bytes, mut answer) = (UdpSocket::bind("0.0.0.0:0")?, vec![0; len], [0; 16]);
    socket.connect(address)?;
    measure(name, 256, BURST as u32, || {
        for number in 1..=BURST {
            bytes[0] = u8::from(number == BURST);
            socket.send(&bytes)?;
        }
        socket.recv(&mut answer).map(drop)
    })
}

/// Datagrams from the wire: one asks for a burst.
fn receive_datagrams(name: &str, len: usize) -> io::Result<()> {
    let (socket, mut bytes) = (UdpSocket::bind("0.0.0.0:0")?, [0; 2048]);
    socket.connect((WIRE, SOURCE))?;
    let question = [(BURST as u16).to_be_bytes(), (len as u16).to_be_bytes()].concat();
    measure(name, 256, BURST as u32, || {
        socket.send(&question)?;
        for _ in 0..BURST {
            let received = socket.recv(&mut bytes)?;
            if received != len {
                return Err(io::Error::other(format!("a datagram of {received} bytes")));
            }
        }
        Ok(())
    })
}

/// Seconds in which nothing happens, with this many connections to the host.
fn idle_seconds(name: &str, host: SocketAddrV4, connections: usize) -> io::Result<()> {
    let mut open = Vec::new();
    for _ in 0..connections {
        let (mut stream, mut byte) = (stream(host, "echo")?, [3]);
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        open.push(stream);
    }
    measure(name, 8, 1, || {
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    })
}

/// Receives frames at this rate in Mb/s.
fn step(rate: u64) -> io::Result<()> {
    const BITS: u64 = 1514 * 8;
    const WARM_UP: Duration = Duration::from_millis(200);
    const TIME: Duration = Duration::from_secs(1);
    let (socket, mut bytes) = (UdpSocket::bind("0.0.0.0:0")?, [0; 2048]);
    socket.connect((WIRE, SOURCE))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let question = [(BURST as u16).to_be_bytes(), (FULL as u16).to_be_bytes()].concat();
    let interval = Duration::from_nanos(BURST as u64 * BITS * 1000 / rate);
    let (asks, start, over) = (socket.try_clone()?, Instant::now(), Arc::new(AtomicBool::new(false)));
    let ends = over.clone();
    let asking = std::thread::spawn(move || -> io::Result<()> {
        let mut next = start;
        while !ends.load(Ordering::Relaxed) {
            asks.send(&question)?;
            next += interval;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(())
    });
    let mut frames = 0_u64;
    let mut began: Option<(Instant, Duration)> = None;
    while start.elapsed() < WARM_UP + TIME {
        match socket.recv(&mut bytes) {
            Ok(_) => frames += 1,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        if began.is_none() && start.elapsed() >= WARM_UP {
            (began, frames) = (Some((Instant::now(), idle()?)), 0);
        }
    }
    let (began, idle_before) = began.ok_or_else(|| io::Error::other("the step was too short"))?;
    let all = began.elapsed();
    let busy = all.saturating_sub(idle()?.saturating_sub(idle_before)).as_secs_f64();
    over.store(true, Ordering::Relaxed);
    asking.join().map_err(|_| io::Error::other("the asking thread failed"))??;
    let received = (frames * BITS) as f64 / all.as_secs_f64() / 1e6;
    println!(
        "step {rate} {received:.1} {:.1} {:.0}",
        100.0 * busy / all.as_secs_f64(),
        busy * 1e9 / frames.max(1) as f64
    );
    Ok(())
}

/// Measures these operations, or all. The host's server listens at `port`.
fn all(port: u16, wanted: &[String]) -> io::Result<()> {
    let this = std::env::args().next().unwrap_or_default();
    let mut child = Command::new(this).arg("serve").stdout(Stdio::piped()).spawn()?;
    let mut ready = String::new();
    BufReader::new(child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?).read_line(&mut ready)?;
    let host = SocketAddrV4::new(HOST, port);
    type Operation<'a> = (&'a str, &'a dyn Fn(&str) -> io::Result<()>);
    let operations: [Operation<'_>; 12] = [
        ("loop_tcp_echo", &|name| echo(name, LOOP)),
        ("loop_tcp_65536", &|name| send(name, LOOP)),
        ("loop_udp_1400", &|name| send_datagrams(name, LOOP, 1400)),
        ("card_tcp_echo", &|name| echo(name, host)),
        ("card_tcp_send_65536", &|name| send(name, host)),
        ("card_tcp_receive_65536", &|name| receive(name, host)),
        ("card_udp_send_1472", &|name| send_datagrams(name, SocketAddrV4::new(WIRE, SINK), FULL)),
        ("card_udp_receive_1472", &|name| receive_datagrams(name, FULL)),
        ("card_udp_send_22", &|name| send_datagrams(name, SocketAddrV4::new(WIRE, SINK), 22)),
        ("card_udp_receive_22", &|name| receive_datagrams(name, 22)),
        // The last ones: much is cleaned up after them.
        ("idle_second", &|name| idle_seconds(name, host, 0)),
        ("idle_second_500", &|name| idle_seconds(name, host, 500)),
    ];
    for (name, operation) in operations {
        if wanted.is_empty() || wanted.iter().any(|wanted| name.starts_with(wanted.as_str())) {
            operation(name).map_err(|error| io::Error::other(format!("{name}: {error}")))?;
        }
    }
    child.kill()?;
    child.wait().map(drop)
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((what, [port, names @ ..])) if what == "measure" => all(port.parse().map_err(io::Error::other)?, names),
        Some((what, [_, rates @ ..])) if what == "steps" => {
            rates.iter().try_for_each(|rate| step(rate.parse::<u64>().map_err(io::Error::other)?.max(1)))
        }
        Some((what, [])) if what == "serve" => {
            let (listener, socket) = (TcpListener::bind(LOOP)?, UdpSocket::bind(LOOP)?);
            println!("ready");
            std::thread::spawn(move || acknowledge(&socket));
            listener.incoming().try_for_each(|stream| serve(stream?))
        }
        _ => Err(io::Error::other("usage: network-costs measure PORT NAME… | steps PORT RATE… | serve")),
    }
}
