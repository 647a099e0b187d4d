//! Transfers over smoltcp alone, in virtual time: in many patterns of reads and writes, over a wire that loses nothing,
//! no byte waits for a timer; over a wire that loses, repeats and swaps frames, all bytes arrive.

use std::collections::VecDeque;
use std::sync::LazyLock;

use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{self, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    HardwareAddress, IpAddress, IpCidr, IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

/// Bytes that wait in a data socket at most.
const PIPE: usize = 256 << 10;
/// Time between two steps of the programs.
const STEP: Duration = Duration::from_micros(20);
const BUFFERS: [usize; 3] = [64 << 10, 128 << 10, 256 << 10];
const CHUNKS: [usize; 7] = [100, 1000, 1400, 4096, 16_384, 65_536, 262_144];
/// The reader reads in each step of the first number, the writer writes in each step of the second.
const PACES: [(u64, u64); 4] = [(1, 1), (7, 1), (1, 7), (3, 2)];

/// A transfer from one socket to another.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    mtu: usize,
    buffer: usize,
    chunk: usize,
    pace: (u64, u64),
    nagle: bool,
    /// Number of frames of 1,000 that are lost, that come twice, and that overtake the one before.
    faults: [u64; 3],
    len: usize,
}

/// The bytes of a transfer from a position on, at most as many as the largest buffer holds.
fn bytes_at(at: usize, len: usize) -> &'static [u8] {
    const PERIOD: usize = 251;
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| (0..PERIOD as u8).cycle().take(PIPE + PERIOD).collect());
    &BYTES[at % PERIOD..][..len]
}

/// A wire with faults, the same ones in each run.
struct Wire {
    frames: VecDeque<Vec<u8>>,
    mtu: usize,
    faults: [u64; 3],
    random: u64,
}

impl Wire {
    fn put(&mut self, frame: Vec<u8>) {
        // A generator of Lehmer's.
        self.random = self.random * 48_271 % 0x7fff_ffff;
        let [lost, twice, early] = self.faults;
        match self.random % 1000 {
            fate if fate < lost => {}
            fate if fate < lost + twice => self.frames.extend([frame.clone(), frame]),
            fate if fate < lost + twice + early => self.frames.insert(self.frames.len().saturating_sub(1), frame),
            _ => self.frames.push_back(frame),
        }
    }
}

struct Received(Vec<u8>);
struct Pending<'a>(&'a mut Wire);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl phy::TxToken for Pending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut frame = vec![0; len];
        let result = fill(&mut frame);
        self.0.put(frame);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Pending<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Received, Pending<'_>)> {
        let frame = self.frames.pop_front()?;
        Some((Received(frame), Pending(self)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Pending<'_>> {
        Some(Pending(self))
    }
}

struct Transfer {
    pattern: Pattern,
    wire: Wire,
    interface: Interface,
    set: SocketSet<'static>,
    writer: SocketHandle,
    reader: SocketHandle,
    now: Instant,
    /// Bytes that the programs have written and read, and that wait for smoltcp and for the reader.
    written: usize,
    read: usize,
    out: usize,
    arrived: usize,
    longest_silence: Duration,
}

impl Transfer {
    fn new(pattern: Pattern) -> Transfer {
        let mut wire = Wire { frames: VecDeque::new(), mtu: pattern.mtu, faults: pattern.faults, random: 1 };
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, Instant::ZERO);
        let address = IpAddress::v4(127, 0, 0, 1);
        interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(address, 8)).unwrap());
        let socket = || {
            let buffer = || SocketBuffer::new(vec![0; pattern.buffer]);
            let mut socket = tcp::Socket::new(buffer(), buffer());
            socket.set_ack_delay(None);
            socket.set_nagle_enabled(pattern.nagle);
            socket
        };
        let (mut reader, mut writer) = (socket(), socket());
        reader.listen(80).unwrap();
        writer.connect(interface.context(), (address, 80), (address, 5000)).unwrap();
        let mut set = SocketSet::new(Vec::new());
        let (writer, reader) = (set.add(writer), set.add(reader));
        let (now, longest_silence) = (Instant::ZERO, Duration::ZERO);
        let (written, read, out, arrived) = (0, 0, 0, 0);
        Transfer { pattern, wire, interface, set, writer, reader, now, written, read, out, arrived, longest_silence }
    }

    /// Moves bytes between the programs and smoltcp, and frames, until nothing moves.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            let reader = self.set.get_mut::<tcp::Socket>(self.reader);
            while reader.can_recv() && self.arrived < PIPE {
                let (at, room) = (self.read + self.arrived, PIPE - self.arrived);
                let taken = reader.recv(|bytes| {
                    let bytes = &bytes[..bytes.len().min(room)];
                    (bytes.len(), (bytes == bytes_at(at, bytes.len())).then_some(bytes.len()))
                });
                self.arrived += taken.unwrap().expect("other bytes arrived than were sent");
                moved = true;
            }
            let writer = self.set.get_mut::<tcp::Socket>(self.writer);
            while writer.can_send() && self.out > 0 {
                let (at, left) = (self.written - self.out, self.out);
                let given = writer.send(|room| {
                    let len = room.len().min(left);
                    room[..len].copy_from_slice(bytes_at(at, len));
                    (len, len)
                });
                self.out -= given.unwrap();
                moved = true;
            }
            let sent = self.interface.poll_egress(self.now, &mut self.wire, &mut self.set);
            moved |= matches!(sent, PollResult::SocketStateChanged) || !self.wire.frames.is_empty();
            while !self.wire.frames.is_empty() {
                self.interface.poll_ingress_single(self.now, &mut self.wire, &mut self.set);
            }
            if !moved {
                return;
            }
        }
    }

    /// Runs it to its end. Returns the longest time in which nothing happened, with all programs waiting.
    fn run(mut self) -> Duration {
        let (read_pace, write_pace) = self.pattern.pace;
        let Pattern { chunk, len, .. } = self.pattern;
        let mut silence = Duration::ZERO;
        for step in 1u64.. {
            let before = (self.written, self.read, self.arrived);
            if step.is_multiple_of(write_pace) {
                let count = (PIPE - self.out).min(len - self.written).min(chunk);
                self.out += count;
                self.written += count;
            }
            if step.is_multiple_of(read_pace) {
                let count = self.arrived.min(chunk);
                self.arrived -= count;
                self.read += count;
            }
            if self.read == len {
                break;
            }
            self.settle();
            let waits = self.arrived == 0 && (self.out == PIPE || self.written == len);
            if waits && before == (self.written, self.read, self.arrived) {
                let next = self.interface.poll_at(self.now, &self.set);
                let next = next.unwrap_or_else(|| panic!("{:?}: hangs after {} bytes", self.pattern, self.read));
                if next > self.now {
                    silence += next - self.now;
                    self.longest_silence = self.longest_silence.max(silence);
                    self.now = next;
                    continue;
                }
            } else {
                silence = Duration::ZERO;
            }
            self.now += STEP;
        }
        self.longest_silence
    }
}

fn patterns(mtu: usize, faults: [u64; 3], len: usize) -> impl Iterator<Item = Pattern> {
    let buffers = BUFFERS.into_iter().flat_map(|buffer| CHUNKS.map(|chunk| (buffer, chunk)));
    let paces = buffers.flat_map(|(buffer, chunk)| PACES.map(|pace| (buffer, chunk, pace)));
    let all = paces.flat_map(|(buffer, chunk, pace)| [false, true].map(|nagle| (buffer, chunk, pace, nagle)));
    all.map(move |(buffer, chunk, pace, nagle)| {
        // Small chunks need many steps.
        let len = len.min(chunk * 10_000);
        Pattern { mtu, buffer, chunk, pace, nagle, faults, len }
    })
}

fn no_byte_waits(mtu: usize) {
    let mut count = 0;
    for pattern in patterns(mtu, [0; 3], 2 << 20) {
        let silence = Transfer::new(pattern).run();
        assert_eq!(silence, Duration::ZERO, "{pattern:?}: bytes waited for a timer");
        count += 1;
    }
    assert_eq!(count, 168);
}

#[test]
fn no_byte_waits_for_a_timer_on_ethernet() {
    no_byte_waits(1500);
}

#[test]
fn no_byte_waits_for_a_timer_on_the_loop() {
    no_byte_waits(65_535);
}

#[test]
fn lost_repeated_and_swapped_frames_do_not_change_bytes() {
    for faults in [[1, 0, 0], [10, 10, 10], [50, 0, 0], [0, 50, 50]] {
        for mut pattern in patterns(1500, faults, 1 << 20).filter(|pattern| pattern.chunk > 10_000) {
            // Some readers are so slow that the window closes.
            pattern.pace.0 *= 10;
            let silence = Transfer::new(pattern).run();
            // smoltcp's least retransmission time is a second, and a frame that is sent again can be lost again.
            assert!(silence < Duration::from_secs(10), "{pattern:?}: silent for {silence}");
        }
    }
}

/// A connection to a peer that the test plays.
struct Connection {
    wire: Wire,
    interface: Interface,
    set: SocketSet<'static>,
    socket: SocketHandle,
    now: Instant,
    peer: SocketAddress,
}

type SocketAddress = (IpAddress, u16);

impl Connection {
    const OWN: SocketAddress = (IpAddress::v4(10, 0, 0, 1), 5000);

    /// An established connection; the peer's first number is 1000, its window 1000 bytes.
    fn new() -> Connection {
        let mut wire = Wire { frames: VecDeque::new(), mtu: 1500, faults: [0; 3], random: 1 };
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(Connection::OWN.0, 8)).unwrap());
        let buffer = || SocketBuffer::new(vec![0; 4096]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        let peer = (IpAddress::v4(10, 0, 0, 2), 80);
        socket.connect(interface.context(), peer, Connection::OWN).unwrap();
        let mut set = SocketSet::new(Vec::new());
        let socket = set.add(socket);
        let mut connection = Connection { wire, interface, set, socket, now: Instant::ZERO, peer };
        let (first, _) = connection.sent().remove(0);
        connection.receive(TcpControl::Syn, first + 1, 1000);
        assert_eq!(connection.sent().len(), 1);
        connection
    }

    /// Number and length of each segment that it sends now.
    fn sent(&mut self) -> Vec<(TcpSeqNumber, usize)> {
        self.interface.poll_egress(self.now, &mut self.wire, &mut self.set);
        let frames = self.wire.frames.drain(..);
        let segments = frames.map(|frame| {
            let packet = Ipv4Packet::new_checked(&frame[..]).unwrap();
            let segment = TcpPacket::new_checked(packet.payload()).unwrap();
            (segment.seq_number(), segment.payload().len())
        });
        segments.collect()
    }

    /// A segment without data comes from the peer.
    fn receive(&mut self, control: TcpControl, ack: TcpSeqNumber, window_len: u16) {
        let segment = TcpRepr {
            src_port: self.peer.1,
            dst_port: Connection::OWN.1,
            control,
            seq_number: TcpSeqNumber(if control == TcpControl::Syn { 1000 } else { 1001 }),
            ack_number: Some(ack),
            window_len,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let (IpAddress::Ipv4(src_addr), IpAddress::Ipv4(dst_addr)) = (self.peer.0, Connection::OWN.0) else { panic!() };
        let payload_len = segment.buffer_len();
        let packet = Ipv4Repr { src_addr, dst_addr, next_header: IpProtocol::Tcp, payload_len, hop_limit: 64 };
        let mut frame = vec![0; packet.buffer_len() + payload_len];
        let checksums = ChecksumCapabilities::default();
        packet.emit(&mut Ipv4Packet::new_unchecked(&mut frame[..]), &checksums);
        let mut bytes = TcpPacket::new_unchecked(&mut frame[packet.buffer_len()..]);
        segment.emit(&mut bytes, &self.peer.0, &Connection::OWN.0, &checksums);
        self.wire.frames.push_back(frame);
        self.interface.poll_ingress_single(self.now, &mut self.wire, &mut self.set);
    }

    /// Waits for its next timer. Returns what it sends then.
    fn wait(&mut self) -> Vec<(TcpSeqNumber, usize)> {
        self.now = self.interface.poll_at(self.now, &self.set).expect("no timer runs").max(self.now);
        self.sent()
    }

    fn write(&mut self, len: usize) {
        let socket = self.set.get_mut::<tcp::Socket>(self.socket);
        assert_eq!(socket.send_slice(&vec![0; len]), Ok(len));
    }
}

/// The peer takes 100 of 300 bytes, and closes and opens its window while the others are lost.
#[test]
fn lost_bytes_are_sent_again_after_the_window_was_zero() {
    let mut connection = Connection::new();
    connection.write(300);
    let first = connection.sent()[0].0;
    connection.receive(TcpControl::None, first + 100, 0);
    connection.receive(TcpControl::None, first + 100, 1000);
    assert_eq!(connection.wait(), [(first + 100, 200)]);
}

/// The peer closes its window, takes none of the bytes in flight, and its news that the window is open is lost.
#[test]
fn a_zero_window_is_probed_after_a_retransmission_time() {
    let mut connection = Connection::new();
    connection.write(300);
    let first = connection.sent()[0].0;
    connection.receive(TcpControl::None, first, 0);
    let mut sent = connection.wait();
    for _ in 0..3 {
        sent.extend(connection.wait());
    }
    assert!(sent.contains(&(first, 1)), "{sent:?}");
    connection.receive(TcpControl::None, first, 1000);
    assert_eq!(connection.sent(), [(first, 300)]);
}
