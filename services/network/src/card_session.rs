//! The client's side of the card's protocol: the crate `netdevice` has its steps. Nothing here waits.
//!
//! When the driver has ended, this connects to the next one. Frames in flight are lost, and TCP sends them again.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use netdevice::{
    ANSWER, DATA_LENGTH_AT, DESCRIPTOR, Descriptor, ELEMENT, FRAME_ETHERNET, Info, OPEN_HANDLES, Owned, Request,
    decode_answer,
};
use network::wire::{Outlet, Wire};
use smoltcp::time::{Duration, Instant};
use zx::{AsHandleRef, Channel, Fifo, Mapping, Port, Signals, Status, Unowned, Vmar, Vmo};

use crate::data_sockets::{SERVICE, key};

/// The card's driver, or the port of a switch, among the services that this one uses.
const DRIVER: u16 = 0;
/// Packets of the port: the driver's channel, numbers of frames that came in, numbers of buffers that are free.
pub const CHANNEL: u64 = 1;
pub const RX: u64 = 2;
pub const TX: u64 = 3;

/// Bytes of a buffer. It divides a page.
const BUFFER: usize = 2048;
/// The shortest limit of frames that the stack can work with: a packet of IPv6 (1,280 bytes) and the Ethernet header.
const LEAST: usize = 1294;
/// Numbers that are read from a FIFO at a time.
const BATCH: usize = 64;
/// Buffers to receive that are given back at a time.
const RETURNS: usize = 16;
/// Free buffers to send, below which this side looks for more, and below which it waits for more.
const FEW: usize = 64;
const ALMOST_NONE: usize = 16;
/// Time between an end of the driver and the next connection.
const AGAIN: Duration = Duration::from_millis(50);
/// Time between a change of the link and the question for the next one: a link that changes all the time costs no more.
const CHANGES: Duration = Duration::from_millis(100);

static ROOT: LazyLock<Unowned<'static, Vmar>> = LazyLock::new(zx::startup::vmar_root_self);

/// The connection to the driver.
pub struct CardSession {
    port: Rc<Port>,
    state: State,
}

enum State {
    /// The next connection is made then.
    Ended(Instant),
    /// Step 1: the driver was asked what it is.
    Asked(Channel),
    /// Step 2: the driver was asked for a session.
    Opening(Channel, Info, Memory),
    Open(Open),
}

/// The VMOs of a session.
struct Memory {
    descriptors: Mapping<'static>,
    frames: Mapping<'static>,
    /// Numbers below this are of buffers to receive.
    receive: u16,
    /// Number of descriptors.
    count: u16,
}

struct Open {
    channel: Channel,
    rx: Fifo,
    tx: Fifo,
    memory: Rc<Memory>,
    /// Bytes of a frame at most.
    longest: usize,
    /// Buffers to send.
    outgoing: Rc<RefCell<Outgoing>>,
    /// Buffers to receive that the driver gets back next.
    returns: Vec<u16>,
    /// The driver's descriptors.
    given: Owned,
    /// A packet is requested for frames that come in.
    awaits_rx: bool,
    /// A packet is requested for free buffers.
    awaits_tx: bool,
    /// Whether there is a link.
    online: bool,
    /// The driver is asked for the next change of the link then. `None`: it was asked.
    asks_at: Option<Instant>,
}

/// The buffers to send of a session. They stay mapped until the next session's take their place in the wire.
struct Outgoing {
    memory: Rc<Memory>,
    /// Those that are free.
    free: Vec<u16>,
    /// Those that the driver gets next, in order.
    filled: Vec<u16>,
}

/// The way of frames to these buffers. After the session, what still goes there is lost, as on a wire that is not there.
struct ToBuffers(Rc<RefCell<Outgoing>>);

impl Outlet for ToBuffers {
    fn put(&mut self, frame: &[u8]) -> bool {
        self.0.borrow_mut().put(frame)
    }
}

impl Outgoing {
    /// Empties the buffers that the driver has not got yet.
    fn lose(&mut self) {
        self.free.append(&mut self.filled);
    }

    /// Copies a frame to a free buffer. Returns false if there is none.
    fn put(&mut self, frame: &[u8]) -> bool {
        let Outgoing { memory, free, filled } = self;
        let Some(number) = free.last().copied().filter(|_| frame.len() <= BUFFER) else { return false };
        let (buffer, descriptor) = (usize::from(number) * BUFFER, usize::from(number) * DESCRIPTOR);
        let Some(len) = memory.descriptors.word(descriptor + DATA_LENGTH_AT) else { return false };
        if memory.frames.write(buffer, frame).is_err() {
            return false;
        }
        // The rest of the descriptor stays as it is.
        len.store((frame.len() as u32).to_le(), Ordering::Relaxed);
        free.pop();
        filled.push(number);
        true
    }
}

/// What the driver said.
pub enum News {
    /// There is a session with this card.
    Card(Info),
    /// Whether the card has a link.
    Link(bool),
    /// Nothing that matters.
    Nothing,
}

impl CardSession {
    /// Connects to the driver, if the machine has a card.
    pub fn new(port: Rc<Port>) -> Option<CardSession> {
        let channel = service::uses(DRIVER).ok()?;
        let mut session = CardSession { port, state: State::Ended(Instant::ZERO) };
        session.ask(channel, Instant::ZERO);
        Some(session)
    }

    /// When this wants to be called again. `None`: after the next packet.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Ended(at) => Some(at),
            State::Open(Open { asks_at, .. }) => asks_at,
            _ => None,
        }
    }

    /// Makes the next connection, or asks for the next change of the link, when the time has come.
    pub fn tick(&mut self, now: Instant) {
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        if let State::Open(open) = &mut self.state {
            open.asks_at = None;
            if open.channel.write(&Request::WatchStatus.to_bytes(3), []).is_err() {
                self.end(now);
            }
            return;
        }
        match service::uses_again(DRIVER) {
            Ok(channel) => self.ask(channel, now),
            Err(_) => self.end(now),
        }
    }

    fn end(&mut self, now: Instant) {
        self.state = State::Ended(now + AGAIN);
    }

    fn ask(&mut self, channel: Channel, now: Instant) {
        let asked = channel.write(&Request::Info.to_bytes(1), []).and_then(|()| self.watch(&channel));
        match asked {
            Ok(()) => self.state = State::Asked(channel),
            Err(_) => self.end(now),
        }
    }

    fn watch(&self, channel: &Channel) -> zx::Result<()> {
        let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
        channel.wait_async(&self.port, key(CHANNEL, SERVICE), signals, 0)
    }

    /// The driver has answered, or has ended.
    pub fn message(&mut self, now: Instant) -> News {
        let state = std::mem::replace(&mut self.state, State::Ended(now + AGAIN));
        match self.next(state, now) {
            Ok((state, news)) => {
                self.state = state;
                news
            }
            Err(Status::PEER_CLOSED) => News::Nothing,
            Err(status) => {
                eprintln!("the network card's driver: {status}; trying again");
                News::Nothing
            }
        }
    }

    fn next(&self, state: State, now: Instant) -> zx::Result<(State, News)> {
        let mut bytes = [0; ANSWER];
        let mut handles = [const { None }; OPEN_HANDLES];
        let channel = match &state {
            State::Asked(channel) | State::Opening(channel, ..) | State::Open(Open { channel, .. }) => channel,
            State::Ended(_) => return Ok((state, News::Nothing)),
        };
        let size = match channel.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => {
                self.watch(channel)?;
                return Ok((state, News::Nothing));
            }
            Err((status, _)) => return Err(status),
        };
        let (status, info) = decode_answer(&bytes[..size.bytes]).ok_or(Status::IO_DATA_INTEGRITY)?;
        if status != 0 {
            return Err(Status(status));
        }
        self.watch(channel)?;
        match (state, handles) {
            (State::Asked(channel), _) => {
                let memory = self.open(&channel, &info)?;
                Ok((State::Opening(channel, info, memory), News::Nothing))
            }
            (State::Opening(channel, before, memory), [Some(rx), Some(tx)]) => {
                // The driver tells the next status that is another one than in this answer. All else counts as it was when
                // the memory was made.
                let info = Info { online: info.online, ..before };
                let open = Open::new(channel, rx.into(), tx.into(), memory, &info, now)?;
                Ok((State::Open(open), News::Card(info)))
            }
            // It answers only when it is asked.
            (State::Open(mut open), [None, None]) if open.asks_at.is_none() => {
                open.asks_at = Some(now + CHANGES);
                open.online = info.online;
                Ok((State::Open(open), News::Link(info.online)))
            }
            _ => Err(Status::IO_DATA_INTEGRITY),
        }
    }

    /// Step 2: makes the VMOs, and asks for a session.
    fn open(&self, channel: &Channel, info: &Info) -> zx::Result<Memory> {
        // While the driver fills some buffers, frames lie in the others.
        let receive = 2 * info.rx_depth.min(256);
        let count = receive + info.tx_depth.min(256);
        if receive == 0 || count == receive || !(LEAST..=BUFFER).contains(&(info.max_frame_length as usize)) {
            return Err(Status::NOT_SUPPORTED);
        }
        let of_frames = usize::from(count) * BUFFER;
        let of_descriptors = (usize::from(count) * DESCRIPTOR).next_multiple_of(4096);
        if of_frames > info.max_vmo_length as usize {
            return Err(Status::NOT_SUPPORTED);
        }
        let make = |len: usize| {
            let vmo = Vmo::create(len as u64, 0)?;
            let mapping = ROOT.map_here(abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE, &vmo, 0, len)?;
            Ok::<_, Status>((vmo, mapping))
        };
        let (descriptors_vmo, descriptors) = make(of_descriptors)?;
        let (frames_vmo, frames) = make(of_frames)?;
        let request = Request::Open { descriptor_count: count, promiscuous: false }.to_bytes(2);
        channel.write(&request, [descriptors_vmo.into(), frames_vmo.into()])?;
        Ok(Memory { descriptors, frames, receive, count })
    }

    /// Gives frames that came in to the stack. Returns whether there may be more.
    pub fn receive(&mut self, wire: &mut Wire, now: Instant) -> bool {
        let State::Open(open) = &mut self.state else { return false };
        match open.receive(wire, &self.port) {
            Ok(more) => more,
            Err(_) => {
                self.end(now);
                false
            }
        }
    }

    /// Sends the stack's frames. Returns how many were sent, and how many more there is room for.
    pub fn send(&mut self, wire: &mut Wire, now: Instant) -> (usize, usize) {
        let State::Open(open) = &mut self.state else {
            lose(wire);
            return (0, 0);
        };
        if !open.online {
            lose(wire);
            open.outgoing.borrow_mut().lose();
            return (0, 0);
        }
        match open.send(wire, &self.port) {
            Ok(sent) => (sent, open.outgoing.borrow().free.len()),
            Err(_) => {
                self.end(now);
                (0, 0)
            }
        }
    }

    /// Where frames of the session go out without waiting.
    pub fn outlet(&self) -> Option<Box<dyn Outlet>> {
        match &self.state {
            State::Open(open) => Some(Box::new(ToBuffers(open.outgoing.clone()))),
            _ => None,
        }
    }

    /// Frames have come in.
    pub fn may_receive(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.awaits_rx = false;
        }
    }

    /// There are free buffers to send.
    pub fn may_send(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.awaits_tx = false;
        }
    }
}

/// Frames to send are lost, as on a wire that is not there.
fn lose(wire: &mut Wire) {
    while let Some(frame) = wire.take() {
        wire.keep(frame);
    }
}

impl Open {
    fn new(channel: Channel, rx: Fifo, tx: Fifo, memory: Memory, info: &Info, now: Instant) -> zx::Result<Open> {
        let (receive, count) = (memory.receive, memory.count);
        let longest = info.max_frame_length as usize;
        let given = Owned::new(count);
        let (free, filled, memory) = ((receive..count).rev().collect(), Vec::new(), Rc::new(memory));
        let outgoing = Rc::new(RefCell::new(Outgoing { memory: memory.clone(), free, filled }));
        let returns = Vec::new();
        let mut open = Open {
            channel,
            rx,
            tx,
            memory,
            longest,
            outgoing,
            returns,
            given,
            awaits_rx: false,
            awaits_tx: false,
            online: info.online,
            asks_at: Some(now),
        };
        for number in 0..count {
            open.describe(number, BUFFER)?;
        }
        let numbers: Vec<u16> = (0..receive).collect();
        open.give(&numbers, |open| &open.rx)?;
        Ok(open)
    }

    fn describe(&self, number: u16, len: usize) -> zx::Result<()> {
        let descriptor = Descriptor {
            frame_type: FRAME_ETHERNET,
            offset: (usize::from(number) * BUFFER) as u64,
            data_length: len as u32,
            ..Descriptor::default()
        };
        self.memory.descriptors.write(usize::from(number) * DESCRIPTOR, &descriptor.to_bytes())
    }

    /// Gives descriptors to the driver.
    fn give(&mut self, numbers: &[u16], fifo: fn(&Open) -> &Fifo) -> zx::Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(numbers.len());
        for number in numbers {
            self.given.take(*number).map_err(|_| Status::BAD_STATE)?;
            bytes.push(number.to_le_bytes());
        }
        let written = fifo(self).write(ELEMENT, bytes.as_flattened())?;
        if written == numbers.len() { Ok(()) } else { Err(Status::BAD_STATE) }
    }

    /// Takes descriptors from the driver.
    fn take(&mut self, fifo: fn(&Open) -> &Fifo) -> zx::Result<Vec<u16>> {
        let mut bytes = [0; BATCH * ELEMENT];
        let count = match fifo(self).read(ELEMENT, &mut bytes) {
            Ok(count) => count,
            Err(Status::SHOULD_WAIT) => return Ok(Vec::new()),
            Err(status) => return Err(status),
        };
        let (numbers, _) = bytes.as_chunks::<ELEMENT>();
        let numbers: Vec<u16> = numbers.iter().take(count).map(|number| u16::from_le_bytes(*number)).collect();
        for number in &numbers {
            self.given.give(*number).map_err(|_| Status::IO_DATA_INTEGRITY)?;
        }
        Ok(numbers)
    }

    /// Step 3. Returns whether there may be more; if not, a packet is requested.
    fn receive(&mut self, wire: &mut Wire, port: &Port) -> zx::Result<bool> {
        let numbers = self.take(|open| &open.rx)?;
        let more = numbers.len() == BATCH;
        if !more && !self.awaits_rx {
            let signals = Signals::FIFO_READABLE | Signals::FIFO_PEER_CLOSED;
            self.rx.wait_async(port, key(RX, SERVICE), signals, 0)?;
            self.awaits_rx = true;
        }
        for number in &numbers {
            let at = usize::from(*number) * DESCRIPTOR + DATA_LENGTH_AT;
            let word = self.memory.descriptors.word(at).ok_or(Status::OUT_OF_RANGE)?;
            // The rest of the descriptor stays as it is.
            let len = u32::from_le(word.swap((BUFFER as u32).to_le(), Ordering::Relaxed)) as usize;
            // A frame that is too long for its network was not meant for this machine.
            if *number < self.memory.receive && len <= self.longest {
                let start = usize::from(*number) * BUFFER;
                wire.put_from(len, |at, into| self.memory.frames.read(start + at, into))?;
            }
        }
        self.returns.extend(numbers);
        // The driver has others.
        if self.returns.len() >= RETURNS.min(usize::from(self.memory.receive / 4)) {
            let returns = std::mem::take(&mut self.returns);
            self.give(&returns, |open| &open.rx)?;
        }
        Ok(more)
    }

    /// Step 4.
    fn send(&mut self, wire: &mut Wire, port: &Port) -> zx::Result<usize> {
        let outgoing = self.outgoing.clone();
        let mut outgoing = outgoing.borrow_mut();
        while let Some(frame) = wire.take() {
            outgoing.put(&frame);
            wire.keep(frame);
        }
        self.give(&outgoing.filled, |open| &open.tx)?;
        let sent = outgoing.filled.len();
        outgoing.filled.clear();
        while outgoing.free.len() < FEW {
            let freed = self.take(|open| &open.tx)?;
            if freed.is_empty() {
                break;
            }
            outgoing.free.extend(freed);
        }
        if outgoing.free.len() < ALMOST_NONE && !self.awaits_tx {
            let signals = Signals::FIFO_READABLE | Signals::FIFO_PEER_CLOSED;
            self.tx.wait_async(port, key(TX, SERVICE), signals, 0)?;
            self.awaits_tx = true;
        }
        Ok(sent)
    }
}
