//! What drivers of network cards have in common: the device's side of the protocol [`netdevice`], which has the steps that
//! the code refers to.
//!
//! Frames lie in the client's memory; the card ([`NetworkCard`]) reads and writes them there. While there is much to do,
//! interrupts are off.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use driver::{Adapter, Broken, MOST_FRAMES, MUCH, NetworkCard, Pinned, Window};
use netdevice::{
    ANSWER, DATA_LENGTH_AT, DEPTH, DESCRIPTOR, Descriptor, ELEMENT, Fault, INBOUND_FLAGS_AT, Info, Owned, REQUEST,
    RETURN_FLAGS_AT, Request, encode_answer,
};
use service::{ChannelEnds, Clients, DescriptorFifo, End, Event, Program};
use zx::{AsHandleRef, Bti, Fifo, Handle, MonotonicInstant, Port, Rights, Signals, Status, Unowned, Vmar, Vmo};

use crate::pci_client::{Parts, PciClient};

const INTERRUPT: u64 = 1;
const CLIENTS: u64 = 2;
/// No packet's key.
const MORE: u64 = 0;
/// Keys from here on belong to clients: one for the channel, one for each FIFO.
const FIRST: u64 = 4;
const RX: u64 = 1;
const TX: u64 = 2;

/// Bytes of a frame at most: Ethernet's header and 1,500 bytes.
const MAX_FRAME: usize = 1514;
/// The largest VMO of frames.
const MAX_VMO: usize = 8 << 20;
/// Connections at most. One has the session; the others can only ask.
const CONNECTIONS: usize = 4;
/// Frames of each direction before the port is read again.
const BATCH: usize = 64;

static ROOT: LazyLock<Unowned<'static, Vmar>> = LazyLock::new(zx::startup::vmar_root_self);

struct Connection {
    key: u64,
    channel: End,
    program: Program,
    /// The status that the client knows.
    online: bool,
    /// The number of its request for the next one (7).
    watches: Option<u32>,
}

/// The client whose frames the card reads and writes (2).
struct Session {
    /// The key of its connection.
    key: u64,
    descriptors: zx::Mapping<'static>,
    /// The descriptors' pages: they must not go away, as this process reads them.
    pages: Pinned,
    /// Length of the VMO of frames in bytes.
    len: usize,
    rx: Queue,
    tx: Queue,
    /// The descriptors that this side has (5).
    owned: Owned,
}

/// One direction.
struct Queue {
    fifo: DescriptorFifo,
    /// Numbers of the client's, in order.
    coming: VecDeque<u16>,
    /// Numbers that go back.
    done: Vec<u16>,
}

struct Server<C: NetworkCard> {
    /// The bus driver stops the card when this connection closes.
    _device: PciClient,
    card: Adapter<C, Pinned>,
    bti: Bti,
    port: Port,
    connections: Vec<Connection>,
    ends: ChannelEnds,
    next: u64,
    session: Option<Session>,
    /// There was an interrupt, or a request for the status: the link may have changed.
    looks: bool,
}

/// Why a client's message is not answered.
enum Unanswered {
    /// It is the client's fault, or the client has gone.
    Client(Status),
    /// The card is broken.
    Card(Broken),
}

impl From<Status> for Unanswered {
    fn from(status: Status) -> Unanswered {
        Unanswered::Client(status)
    }
}

/// Why a session ends.
enum Ending {
    /// The client has gone.
    Gone,
    /// The client has broken a rule.
    Fault(Fault),
}

/// Drives the card of this process. `open` makes the card of its device, its windows and its access to memory: it resets
/// the card, and from then on the card knows no memory of an earlier driver.
///
/// # Errors
/// A sentence for the log: the card is broken, or this process was not given what it needs.
pub fn drive<C: NetworkCard>(
    open: impl FnOnce(PciClient, Vec<Window>, &Bti) -> Result<C, String>,
) -> Result<(), String> {
    let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
    let Parts { device, windows, bti, interrupt, port } = PciClient::take(INTERRUPT)?;
    // From now on the card can access memory. Until the reset it knows no memory that is in use: buffers of an
    // earlier driver are in quarantine.
    device.start();
    let card = Adapter::new(open(device.clone(), windows, &bti)?);
    let clients = Clients::take()?;
    let mut server = Server {
        _device: device,
        card,
        bti,
        port,
        connections: Vec::new(),
        ends: ChannelEnds::default(),
        next: FIRST,
        session: None,
        looks: false,
    };
    server.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
    let mut deadline = MonotonicInstant::INFINITE;
    loop {
        let key = match server.port.wait(deadline) {
            Ok(packet) => packet.key,
            // There is no packet, and there are more frames.
            Err(Status::TIMED_OUT) => MORE,
            Err(status) => return Err(format!("port: {status}")),
        };
        match key {
            MORE => {}
            INTERRUPT => {
                interrupt.ack().map_err(step("interrupt"))?;
                server.looks = true;
            }
            CLIENTS => {
                match clients.next() {
                    Ok(Event::Client(client)) => {
                        for handle in client.handles {
                            // If the client cannot be served, its channel is closed, and the client sees that.
                            let _ = server.add(handle, client.program);
                        }
                    }
                    Ok(Event::Ended(program)) => server.ended(program)?,
                    Err(Status::SHOULD_WAIT) => {}
                    Err(_) => return Ok(()),
                }
                server.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
            }
            key => server.event(key)?,
        }
        // However many frames there are: `init` and the clients are heard between two rounds.
        deadline = if server.round()? { MonotonicInstant::ZERO } else { MonotonicInstant::INFINITE };
    }
}

impl<C: NetworkCard> Server<C> {
    fn watch(&self, channel: &zx::Channel, key: u64) -> zx::Result<()> {
        channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    fn add(&mut self, handle: Handle, program: Program) -> zx::Result<()> {
        let channel = self.ends.take(handle)?;
        if self.connections.len() >= CONNECTIONS {
            return Err(Status::NO_RESOURCES);
        }
        self.watch(&channel, self.next)?;
        self.connections.push(Connection { key: self.next, channel, program, online: false, watches: None });
        self.next += 4;
        Ok(())
    }

    fn ended(&mut self, program: Program) -> Result<(), String> {
        let keys: Vec<u64> = self.connections.iter().filter(|c| c.program == program).map(|c| c.key).collect();
        keys.into_iter().try_for_each(|key| self.close(key))
    }

    /// A connection closes, and with it its session (6).
    fn close(&mut self, key: u64) -> Result<(), String> {
        self.connections.retain(|connection| connection.key != key);
        if self.session.as_ref().is_some_and(|session| session.key == key)
            && let Some(session) = self.session.take()
        {
            self.card.close().map_err(|broken| broken.to_string())?;
            session.close();
        }
        Ok(())
    }

    fn event(&mut self, key: u64) -> Result<(), String> {
        let of = key & !3;
        if key == of {
            return match self.message(key) {
                Ok(()) => Ok(()),
                Err(Unanswered::Client(_)) => self.close(key),
                Err(Unanswered::Card(broken)) => Err(broken.to_string()),
            };
        }
        if let Some(session) = self.session.as_mut().filter(|session| session.key == of) {
            let queue = if key - of == RX { &mut session.rx } else { &mut session.tx };
            queue.fifo.arrived();
        }
        Ok(())
    }

    /// Handles a client's message, or the end of its channel.
    fn message(&mut self, key: u64) -> Result<(), Unanswered> {
        let connection = self.connections.iter().find(|connection| connection.key == key);
        let Some(Connection { channel, .. }) = connection else { return Ok(()) };
        let mut bytes = [0; REQUEST];
        let mut handles = [None, None];
        let read = channel.read(&mut bytes, &mut handles);
        // Before the answer, so that a client's end is noticed before what it does next.
        self.watch(channel, key)?;
        let size = match read {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Ok(()),
            Err((status, _)) => return Err(status.into()),
        };
        let (number, request) = Request::from_bytes(&bytes[..size.bytes]).ok_or(Status::INVALID_ARGS)?;
        let answer = match (request, handles) {
            (Request::Info, [None, None]) => Ok(Vec::new()),
            (Request::Open { descriptor_count, promiscuous }, [Some(descriptors), Some(frames)]) => {
                match self.open(key, (descriptor_count, promiscuous), descriptors, frames) {
                    Ok(handles) => Ok(Vec::from(handles)),
                    Err(Unanswered::Client(status)) => Err(status),
                    Err(broken) => return Err(broken),
                }
            }
            (Request::WatchStatus, [None, None]) => match self.watch_status(key, number) {
                Ok(()) => return Ok(()),
                Err(status) => Err(status),
            },
            _ => Err(Status::INVALID_ARGS),
        };
        let (status, handles) = match answer {
            Ok(handles) => (Status::OK, handles),
            Err(status) => (status, Vec::new()),
        };
        let info = self.info();
        // It may be a change of the link that nobody else has heard of.
        self.looks = true;
        let answer: [u8; ANSWER] = encode_answer(number, status.0, &info);
        let connection = self.connections.iter_mut().find(|connection| connection.key == key);
        let connection = connection.ok_or(Status::PEER_CLOSED)?;
        connection.online = info.online;
        Ok(connection.channel.write_handles(&answer, handles)?)
    }

    /// A client waits for the next status (7). It gets it after the next round, or after a change.
    fn watch_status(&mut self, key: u64, number: u32) -> zx::Result<()> {
        let has_session = self.session.as_ref().is_some_and(|session| session.key == key);
        let connection = self.connections.iter_mut().find(|connection| connection.key == key && has_session);
        let watches = &mut connection.ok_or(Status::BAD_STATE)?.watches;
        if watches.is_some() {
            return Err(Status::BAD_STATE);
        }
        *watches = Some(number);
        self.looks = true;
        Ok(())
    }

    /// Looks at the link, and tells its status to the client that waits for another one (7). Interrupts are on: a later
    /// change has its own.
    fn look_at_link(&mut self) -> Result<(), String> {
        self.looks = false;
        let info = self.info();
        let waits = |connection: &&mut Connection| connection.watches.is_some() && connection.online != info.online;
        let Some(connection) = self.connections.iter_mut().find(waits) else { return Ok(()) };
        let number = connection.watches.take().unwrap_or_default();
        connection.online = info.online;
        match connection.channel.write(&encode_answer(number, Status::OK.0, &info), []) {
            Ok(()) => Ok(()),
            Err(_) => {
                let key = connection.key;
                self.close(key)
            }
        }
    }

    fn info(&self) -> Info {
        Info {
            mac: self.card.mac(),
            online: self.card.online(),
            rx_depth: MOST_FRAMES as u16,
            tx_depth: MOST_FRAMES as u16,
            max_frame_length: MAX_FRAME as u32,
            min_rx_buffer_length: C::MIN_RX_BUFFER as u32,
            min_tx_buffer_length: C::MIN_TX_BUFFER as u32,
            max_vmo_length: MAX_VMO as u32,
        }
    }

    /// Opens a session (2).
    fn open(
        &mut self,
        key: u64,
        (count, promiscuous): (u16, bool),
        descriptors: Handle,
        frames: Handle,
    ) -> Result<[Handle; 2], Unanswered> {
        if self.session.is_some() {
            return Err(Status::ALREADY_BOUND.into());
        }
        let rights = Rights::READ | Rights::WRITE | Rights::MAP;
        let descriptors = service::memory(descriptors, rights)?;
        let frames = service::memory(frames, rights)?;
        let pages = |vmo: &Vmo, most: usize| match usize::try_from(vmo.get_size()?) {
            Ok(size) if size > 0 && size <= most && size % 4096 == 0 => Ok(size),
            _ => Err(Status::OUT_OF_RANGE),
        };
        let len = pages(&frames, MAX_VMO)?;
        let of_descriptors = (usize::from(count) * DESCRIPTOR).next_multiple_of(4096);
        if pages(&descriptors, of_descriptors)? != of_descriptors {
            return Err(Status::OUT_OF_RANGE.into());
        }
        let (rx, rx_theirs) = Fifo::create(DEPTH, ELEMENT)?;
        let (tx, tx_theirs) = Fifo::create(DEPTH, ELEMENT)?;
        let pages = Pinned::new(&self.bti, &descriptors, of_descriptors)?;
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        let mut opened = || -> Result<zx::Mapping<'static>, Unanswered> {
            let descriptors = ROOT.map_here(options, &descriptors, 0, of_descriptors)?;
            self.card.open(Pinned::new(&self.bti, &frames, len)?, promiscuous).map_err(Unanswered::Card)??;
            Ok(descriptors)
        };
        let descriptors = match opened() {
            Ok(descriptors) => descriptors,
            Err(unanswered) => {
                // The card does not know them.
                pages.unpin();
                return Err(unanswered);
            }
        };
        let queue = |fifo, key| {
            let fifo = DescriptorFifo::new(fifo, key);
            Queue { fifo, coming: VecDeque::new(), done: Vec::new() }
        };
        self.session = Some(Session {
            key,
            descriptors,
            pages,
            len,
            rx: queue(rx, key + RX),
            tx: queue(tx, key + TX),
            owned: Owned::new(count),
        });
        Ok([rx_theirs.into(), tx_theirs.into()])
    }

    /// Moves some frames between the client and the card. Returns whether there are more; if not, an interrupt or a
    /// packet will say when there are.
    ///
    /// # Errors
    /// The card is broken.
    fn round(&mut self) -> Result<bool, String> {
        self.card.be_quiet();
        let Some(session) = &mut self.session else { return Ok(false) };
        match session.turn(&mut self.card, &self.port)? {
            Ok(more) => {
                self.card.tell();
                if more {
                    return Ok(true);
                }
                // A last look after interrupts are on: what came before may have none.
                let more = self.card.be_loud().map_err(|broken| broken.to_string())?;
                if self.looks {
                    self.look_at_link()?;
                }
                Ok(more)
            }
            Err(ending) => {
                if let Ending::Fault(fault) = ending {
                    eprintln!("a client broke a rule ({fault:?}); its session ends");
                }
                let key = session.key;
                self.close(key)?;
                Ok(false)
            }
        }
    }
}

impl Session {
    /// One round. Returns whether there is more to do, or that the client has gone.
    ///
    /// # Errors
    /// The card is broken.
    fn turn<C: NetworkCard>(
        &mut self,
        card: &mut Adapter<C, Pinned>,
        port: &Port,
    ) -> Result<Result<bool, Ending>, String> {
        let mut more = true;
        for _ in 0..BATCH {
            let Some((number, len)) = card.received().map_err(|broken| broken.to_string())? else {
                more = false;
                break;
            };
            self.set(number, DATA_LENGTH_AT, len as u32);
            self.set(number, INBOUND_FLAGS_AT, 0);
            self.rx.done.push(number);
        }
        while let Some(number) = card.sent().map_err(|broken| broken.to_string())? {
            self.set(number, RETURN_FLAGS_AT, 0);
            self.tx.done.push(number);
        }
        let given = self.give_back(card.sending()).and_then(|()| self.take(card, port));
        Ok(given.map(|()| more))
    }

    /// Changes a word of a descriptor that this side has, before it goes back.
    fn set(&self, number: u16, at: usize, value: u32) {
        // Each number is below that of the descriptors.
        if let Some(word) = self.descriptors.word(usize::from(number) * DESCRIPTOR + at) {
            word.store(value.to_le(), Ordering::Relaxed);
        }
    }

    /// Returns what is done (3, 4). The card has `sending` frames to send.
    fn give_back(&mut self, sending: usize) -> Result<(), Ending> {
        // A client that has given few frames does not wait for them.
        let few = sending + self.tx.done.len() < MUCH;
        for queue in [Some(&mut self.rx), Some(&mut self.tx).filter(|_| !few)].into_iter().flatten() {
            for number in &queue.done {
                self.owned.give(*number).map_err(Ending::Fault)?;
            }
            queue.give_back()?;
        }
        Ok(())
    }

    /// Takes buffers and frames of the client's, as many as the card has room for (3, 4, 5).
    fn take<C: NetworkCard>(&mut self, card: &mut Adapter<C, Pinned>, port: &Port) -> Result<(), Ending> {
        // A card's ring has room for fewer.
        for _ in 0..2 * MOST_FRAMES {
            if !card.can_receive() {
                break;
            }
            let Some(number) = self.rx.next(port)? else { break };
            let buffer = self.check(number, C::MIN_RX_BUFFER, 4096)?;
            card.receive(number, buffer.offset, buffer.len);
        }
        for _ in 0..2 * MOST_FRAMES {
            if !card.can_send() {
                break;
            }
            let Some(number) = self.tx.next(port)? else { break };
            let buffer = self.check(number, C::MIN_TX_BUFFER, MAX_FRAME)?;
            card.send(number, buffer.offset, buffer.len);
        }
        Ok(())
    }

    /// Takes a descriptor: copies it once, and checks the copy (5).
    fn check(&mut self, number: u16, least: usize, most: usize) -> Result<netdevice::Buffer, Ending> {
        self.owned.take(number).map_err(Ending::Fault)?;
        let mut bytes = [0; DESCRIPTOR];
        let read = self.descriptors.read(usize::from(number) * DESCRIPTOR, &mut bytes);
        read.map_err(|_| Ending::Fault(Fault::Number))?;
        Descriptor::from_bytes(&bytes).buffer(self.len, least, most).map_err(Ending::Fault)
    }

    /// Gives the client its memory back. The card has stopped.
    fn close(self) {
        drop(self.descriptors);
        self.pages.unpin();
    }
}

impl Queue {
    /// The next number of the client's. `None`: there is none now, and a packet says when there is.
    fn next(&mut self, port: &Port) -> Result<Option<u16>, Ending> {
        if self.coming.is_empty() {
            self.coming.extend(self.fifo.read(port).map_err(|_| Ending::Gone)?);
        }
        Ok(self.coming.pop_front())
    }

    /// Writes the numbers that go back.
    fn give_back(&mut self) -> Result<(), Ending> {
        let written = self.fifo.write(&self.done);
        self.done.clear();
        written.map_err(|_| Ending::Gone)
    }
}
