//! Asks a host for echoes, and prints how long they take.
//!
//! `ping [-c COUNT] [-s SIZE] [-W SECONDS] HOST`. Exit code 0: there was an answer. 1: there was none. 2: anything else.
#![forbid(unsafe_code)]
// On the build host only its tests use the rest.
#![cfg_attr(not(target_os = "fuchsia"), allow(dead_code))]

use std::net::{IpAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

/// Bytes of the header of an echo message.
const HEADER: usize = 8;
/// Bytes of an IPv4 header, and of an IPv6 header.
const IP_HEADERS: [usize; 2] = [20, 40];
/// Limit on the data of a request in bytes.
const SIZE_MAX: usize = 65_507 - HEADER;

/// The command line.
#[derive(Clone, Debug, PartialEq)]
struct Options {
    /// Number of requests; without it, there is no end.
    count: Option<u64>,
    /// Bytes of data in a request.
    size: usize,
    /// How long the last request waits for its answer.
    timeout: Duration,
    /// The host's name or address.
    host: String,
}

const USAGE: &str = "usage: ping [-c COUNT] [-s SIZE] [-W SECONDS] HOST";

fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { count: None, size: 56, timeout: Duration::from_secs(10), host: String::new() };
    let mut hosts = Vec::new();
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let Some(letters) = argument.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            hosts.push(argument);
            continue;
        };
        let Some(letter) = letters.chars().next() else { return Err(USAGE.to_owned()) };
        if !matches!(letter, 'c' | 's' | 'W') {
            return Err(format!("-{letter} is no option\n{USAGE}"));
        }
        // The value follows the letter, or is the next argument.
        let value = match &letters[letter.len_utf8()..] {
            "" => arguments.next().ok_or_else(|| format!("-{letter} needs a value\n{USAGE}"))?,
            value => value.to_owned(),
        };
        let wrong = |range: &str| format!("-{letter} {value}: expected {range}");
        match letter {
            'c' => {
                let count = value.parse().ok().filter(|count| *count > 0);
                options.count = Some(count.ok_or_else(|| wrong("a number above 0"))?);
            }
            's' => {
                let size = value.parse().ok().filter(|size| *size <= SIZE_MAX);
                options.size = size.ok_or_else(|| wrong("0 to 65499"))?;
            }
            _ => {
                let seconds = value.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
                options.timeout = Duration::from_secs_f64(seconds.ok_or_else(|| wrong("0.001 to 86400 seconds"))?);
            }
        }
    }
    options.host = match <[String; 1]>::try_from(hosts) {
        Ok([host]) => host,
        Err(_) => return Err(USAGE.to_owned()),
    };
    Ok(options)
}

/// What came of the requests.
#[derive(Clone, Debug, Default)]
struct Statistics {
    sent: u64,
    received: u64,
    duplicates: u64,
    errors: u64,
    /// Sum, minimum and maximum of the round-trip times.
    times: Option<[Duration; 3]>,
}

impl Statistics {
    fn add(&mut self, time: Duration) {
        self.received += 1;
        let [sum, least, most] = self.times.unwrap_or([Duration::ZERO, time, time]);
        self.times = Some([sum + time, least.min(time), most.max(time)]);
    }

    fn lines(&self, host: &str, elapsed: Duration) -> String {
        let more = |count: u64, what: &str| if count > 0 { format!(", +{count} {what}") } else { String::new() };
        let lost = (self.sent.saturating_sub(self.received) * 100).checked_div(self.sent).unwrap_or(0);
        let mut lines = format!(
            "--- {host} ping statistics ---\n{} packets transmitted, {} received{}{}, {lost}% packet loss, time {}ms\n",
            self.sent,
            self.received,
            more(self.duplicates, "duplicates"),
            more(self.errors, "errors"),
            elapsed.as_millis()
        );
        if let Some([sum, least, most]) = self.times {
            let [least, average, most] = [least, sum.div_f64(self.received.max(1) as f64), most].map(milliseconds);
            lines += &format!("rtt min/avg/max = {least}/{average}/{most} ms\n");
        }
        lines
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}

/// The data of a request: every byte has its place as its value.
fn data(size: usize) -> impl Iterator<Item = u8> {
    (0..size).map(|at| at as u8)
}

/// An echo request. The service writes identifier and checksum.
fn request(to: IpAddr, sequence: u16, size: usize) -> Vec<u8> {
    let kind = if to.is_ipv4() { 8 } else { 128 };
    let [high, low] = sequence.to_be_bytes();
    [kind, 0, 0, 0, 0, 0, high, low].into_iter().chain(data(size)).collect()
}

/// The sequence number of an answer, and whether its data is that of the request. `None`: it is no answer.
fn answer(message: &[u8], size: usize) -> Option<(u16, bool)> {
    let (header, bytes) = message.split_first_chunk::<HEADER>()?;
    let is_same = bytes.iter().copied().eq(data(size));
    matches!(header[0], 0 | 129).then_some((u16::from_be_bytes([header[6], header[7]]), is_same))
}

#[cfg(target_os = "fuchsia")]
mod here {
    use std::collections::HashMap;
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use network_protocol::{
        Choice, DATAGRAM_MAX, ERROR, Error, Family, HEADER, Kind, LONGEST, Reply, Request, SERVICE, decode_header,
        encode_header,
    };
    use zx::{AsHandleRef, Channel, Handle, MonotonicInstant, Rights, Signals, Socket, Status};

    use super::{Options, Statistics, answer, milliseconds, request};

    /// Time between two requests.
    const INTERVAL: Duration = Duration::from_secs(1);

    fn call<const N: usize>(channel: &Channel, request: Request<'_>, handles: [Handle; N]) -> Result<Reply, String> {
        let mut bytes = [0; LONGEST];
        let message = request.encode(0);
        let size = channel.call(MonotonicInstant::INFINITE, message.as_bytes(), handles, &mut bytes, &mut []);
        let size = size.map_err(|status| format!("the network service: {status}"))?;
        match Reply::decode(&bytes[..size.bytes]) {
            Some(Ok(reply)) => Ok(reply),
            Some(Err(error)) => Err(text(error).to_owned()),
            None => Err("the network service gave no answer of the protocol".to_owned()),
        }
    }

    fn text(error: Error) -> &'static str {
        match error {
            Error::Unreachable => "Network is unreachable",
            Error::HostUnreachable => "Destination Host Unreachable",
            Error::Denied => "Permission denied: a broadcast address, or a rule of the system forbids it",
            Error::TooMany => "Too many sockets",
            Error::Invalid => "Invalid argument (a link-local address comes with its interface: fe80::1%net0)",
            _ => "The network service refuses",
        }
    }

    /// A socket for echoes: its control channel and its data socket.
    struct Echoes {
        control: Channel,
        data: Socket,
    }

    impl Echoes {
        fn open(to: SocketAddr) -> Result<Echoes, String> {
            let step = |status: Status| format!("the network service: {status}");
            let service = zx::startup::connect(SERVICE).map_err(step)?;
            let (control, theirs) = Channel::create().map_err(step)?;
            let (data, far) = Socket::create(abi::ZX_SOCKET_DATAGRAM).map_err(step)?;
            let again = data.duplicate_handle(Rights::SAME_RIGHTS).map_err(step)?;
            let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
            let handles = [theirs.into_handle(), far.into_handle(), again];
            call(&service, Request::Open(family, Kind::Echo), handles).map_err(|why| {
                match service.wait_one(Signals::CHANNEL_PEER_CLOSED, MonotonicInstant(0)) {
                    Ok(_) => "Network is down: a rule of the system forbids it, or its service has ended".to_owned(),
                    Err(_) => why,
                }
            })?;
            call(&control, Request::Connect { to, wait: true }, [])?;
            Ok(Echoes { control, data })
        }

        /// Sends a request. If the service has not taken the earlier ones, it is lost, as on any network.
        fn send(&self, message: &[u8]) -> Result<(), String> {
            let datagram = [&encode_header(None), message].concat();
            match self.data.write(&datagram) {
                Ok(_) | Err(Status::SHOULD_WAIT) => Ok(()),
                Err(status) => Err(format!("the network service: {status}")),
            }
        }

        /// The pending error.
        fn error(&self) -> Result<Option<Error>, String> {
            match call(&self.control, Request::Get(Choice::Error), [])? {
                Reply::Value(number) => Ok(Error::from_number(number)),
                _ => Ok(None),
            }
        }
    }

    /// Sends the requests and prints the answers.
    pub fn run(options: &Options, to: SocketAddr) -> Result<Statistics, String> {
        let echoes = Echoes::open(to)?;
        let to = to.ip();
        let begin = Instant::now();
        let mut statistics = Statistics::default();
        // Not more than there are sequence numbers.
        let mut waiting: HashMap<u16, Instant> = HashMap::new();
        let mut buffer = vec![0; HEADER + DATAGRAM_MAX];
        let mut next = begin;
        loop {
            let now = Instant::now();
            let all_sent = options.count.is_some_and(|count| statistics.sent >= count);
            if all_sent && (statistics.received + statistics.errors >= statistics.sent || now >= next) {
                print!("\n{}", statistics.lines(&options.host, begin.elapsed()));
                return Ok(statistics);
            }
            if !all_sent && now >= next {
                statistics.sent += 1;
                let sequence = statistics.sent as u16;
                waiting.insert(sequence, now);
                echoes.send(&request(to, sequence, options.size))?;
                let last = options.count == Some(statistics.sent);
                next = now + if last { options.timeout } else { INTERVAL };
            }
            let left = next.saturating_duration_since(Instant::now());
            let until = MonotonicInstant::after(zx::Duration::from_nanos(left.as_nanos() as i64));
            let error = Signals::from_bits_retain(ERROR);
            let seen = match echoes.data.wait_one(Signals::SOCKET_READABLE | error | Signals::SOCKET_PEER_CLOSED, until)
            {
                Ok(seen) => seen,
                Err(Status::TIMED_OUT) => continue,
                Err(status) => return Err(format!("the network service: {status}")),
            };
            if seen.contains(Signals::SOCKET_READABLE) {
                let count = echoes.data.read(&mut buffer).map_err(|status| format!("the network service: {status}"))?;
                let Some((_, message)) = decode_header(&buffer[..count]) else { continue };
                let Some((sequence, is_same)) = answer(message, options.size) else { continue };
                let line = format!("{} bytes from {to}: icmp_seq={sequence}", message.len());
                let wrong = if is_same { "" } else { " wrong data" };
                match waiting.remove(&sequence) {
                    Some(since) => {
                        let time = since.elapsed();
                        statistics.add(time);
                        println!("{line} time={} ms{wrong}", milliseconds(time));
                    }
                    None => {
                        statistics.duplicates += 1;
                        println!("{line} (DUP!){wrong}");
                    }
                }
            } else if seen.contains(error) {
                if let Some(error) = echoes.error()? {
                    statistics.errors += 1;
                    println!("icmp_seq={} {}", statistics.sent as u16, text(error));
                }
            } else {
                return Err("the network service has ended".to_owned());
            }
        }
    }
}

#[cfg(not(target_os = "fuchsia"))]
mod here {
    use std::net::SocketAddr;

    use super::{Options, Statistics};

    pub fn run(_: &Options, _: SocketAddr) -> Result<Statistics, String> {
        Err("this is a program of a Hafnon system".to_owned())
    }
}

fn ping(options: &Options) -> Result<bool, String> {
    let found = (options.host.as_str(), 0).to_socket_addrs();
    let to = found.map_err(|error| format!("{}: {error}", options.host))?.next();
    let to = to.ok_or_else(|| format!("{}: no address", options.host))?;
    let whole = options.size + HEADER + IP_HEADERS[usize::from(to.is_ipv6())];
    println!("PING {} ({}) {}({whole}) bytes of data.", options.host, to.ip(), options.size);
    Ok(here::run(options, to)?.received > 0)
}

fn main() -> ExitCode {
    let result = parse(std::env::args().skip(1)).and_then(|options| ping(&options));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(reason) => {
            eprintln!("ping: {reason}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options() {
        let defaults = Options { count: None, size: 56, timeout: Duration::from_secs(10), host: "h".to_owned() };
        assert_eq!(parsed("h"), Ok(defaults));
        let timeout = Duration::from_millis(1500);
        let all = Options { count: Some(3), size: 0, timeout, host: "h".to_owned() };
        assert_eq!(parsed("-c 3 -s0 h -W 1.5"), Ok(all));
        for wrong in ["", "a b", "-c", "-c 0 h", "-c -1 h", "-s 65500 h", "-W 0 h", "-W nan h", "-x h", "-é h"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statistics() {
        let mut some = Statistics { sent: 4, errors: 1, ..Statistics::default() };
        some.add(Duration::from_micros(1500));
        some.add(Duration::from_micros(500));
        assert_eq!(
            some.lines("h", Duration::from_millis(3004)),
            "--- h ping statistics ---\n4 packets transmitted, 2 received, +1 errors, 50% packet loss, time 3004ms\n\
             rtt min/avg/max = 0.500/1.000/1.500 ms\n"
        );
        let none = Statistics { sent: 1, ..Statistics::default() };
        let lines = none.lines("h", Duration::ZERO);
        assert!(lines.ends_with("1 packets transmitted, 0 received, 100% packet loss, time 0ms\n"), "{lines}");
        assert!(Statistics::default().lines("h", Duration::ZERO).contains(" 0% packet loss"));
    }

    #[test]
    fn messages() {
        let mut echo = request(IpAddr::from([192, 0, 2, 1]), 0x102, 3);
        assert_eq!(echo, [8, 0, 0, 0, 0, 0, 1, 2, 0, 1, 2]);
        assert_eq!(answer(&echo, 3), None);
        echo[0] = 0;
        assert_eq!(answer(&echo, 3), Some((0x102, true)));
        assert_eq!(answer(&echo, 4), Some((0x102, false)));
        assert_eq!(answer(&echo[..7], 0), None);
    }
}
