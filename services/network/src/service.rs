//! The service's channels: answers each message and handles each end.
//!
//! The port is drained first, and its packets are queued by the programs that caused them. Then some requests are
//! answered and some sockets are served, and the port is read again. So a new request waits for one step of each other
//! program, however many requests these have made.

use std::collections::HashMap;
use std::rc::Rc;

use description::network::Rule;
use description::services::PART;
use network::card::Addressing;
use network::hosts::Hosts;
use network::ipv6::Plan;
use network::lookup::{LOOKUPS, LookupId};
use network::ports::{Id, Numbered};
use network::rules::ProgramRule;
use network::stack::Stack;
use network_protocol::{Error, Family, LONGEST, Name, Reply, Request};
use service::{ChannelEnds, Client, Clients, End, Event, FairQueue, Ledger, Program};
use smoltcp::time::Instant;
use zx::{AsHandleRef, Channel, Duration, Handle, MonotonicInstant, Port, Signals, Status};

use crate::card_session::{self, CardSession, News};
use crate::data_sockets::{CONTROL, READABLE, SERVICE, Sockets, WRITABLE, key};
use crate::settling::Settling;

/// Maximum number of client connections, in total and per program.
const CLIENTS_MAX: u64 = 1024;
const CLIENTS_OF_PROGRAM: u64 = 256;
/// Maximum number of control channels of sockets, in total and per program. Together with the clients' channels and two
/// waits for each data socket, they are fewer than the waits that a port can have (50,000).
const CONTROLS_MAX: u64 = 16_384;
const CONTROLS_OF_PROGRAM: u64 = 4096;
/// Maximum number of lookups of a program at a time.
const LOOKUPS_OF_PROGRAM: u64 = 16;
/// Maximum number of packets that are read from the port before their steps run.
const BATCH: usize = 1024;
/// Packets that are handled one by one at most, before the port is drained again.
const ALONE: usize = 8;
/// Number of requests that are answered before sockets are served.
const REQUESTS: usize = 16;
/// Maximum number of handles of a message: a control channel and the two ends of a data socket.
const HANDLES: usize = 3;
/// Delay before a wait that failed for lack of memory is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// Frames of the card's that wait at most before more are read.
const FRAMES: usize = 128;
/// How long the first sockets wait for the card's address. Without this, a program that starts with the machine would
/// find that there is no network.
const SETTLE: Duration = Duration::from_seconds(5);

/// What a channel stands for.
#[derive(Clone, Copy)]
enum ChannelRole {
    /// A process (protocol step 1).
    Client,
    /// A socket (step 3).
    Socket(Id),
}

struct Control {
    end: End,
    holder: ChannelRole,
    program: Program,
    /// What the client's program may do.
    rule: ProgramRule,
}

/// A step of work for a program.
enum Step {
    /// The control channel with this number has a message, or has closed.
    Message(u64),
    /// A new client. It takes its turn behind the program's channels that closed before it came, so that it finds the
    /// place that they made.
    Client(Client),
    /// The program has ended.
    Ended,
    /// The control channel with this number belongs to a program that has ended.
    Cut(u64),
}

/// Whether the port has so few packets that it need not be drained before each step: nothing else waits, and the last
/// time that it was drained, it had one packet.
#[derive(Default)]
struct Quiet {
    had_one: bool,
    /// Packets that were taken alone since then.
    alone: usize,
}

impl Quiet {
    /// Whether one packet is enough now.
    fn takes_one(&mut self) -> bool {
        self.alone += 1;
        self.had_one && self.alone < ALONE
    }

    fn drained(&mut self, packets: usize) {
        *self = Quiet { had_one: packets <= 1, alone: 0 };
    }
}

// Each part of the description fits into `init`'s message.
const _: () = assert!(PART <= service::message::RULE);

/// The handles of a message.
type Handles = [Option<Handle>; HANDLES];

/// An answer, and its handle.
type Answer = Result<(Reply, Option<Handle>), Error>;

struct Service {
    port: Rc<Port>,
    clients: Clients,
    /// A packet is requested for the next event from `init`.
    listens: bool,
    stack: Stack<Sockets>,
    card: Option<CardSession>,
    addressing: Addressing,
    ipv6: Plan,
    hosts: Hosts,
    /// Until then, sockets wait for the card's address. `None`: they do not wait any more.
    settles: Option<MonotonicInstant>,
    /// Clients' channels with requests that wait for that.
    early: Vec<(Program, u64)>,
    /// The same for its IPv6 addresses, and the requests that wait for them, by the channels' numbers: those for sockets of
    /// IPv6, and for the card's state.
    settles_v6: Option<MonotonicInstant>,
    early_v6: Vec<(u64, u32, Request<'static>, Handles)>,
    /// The machine ends, and `init` waits until everything is sent.
    settling: Option<Settling>,
    /// There may be more frames of the card's.
    frames: bool,
    quiet: Quiet,
    ends: ChannelEnds,
    /// By the number in the keys of their packets.
    controls: Numbered<Control>,
    client_ledger: Ledger,
    control_ledger: Ledger,
    /// Who waits for the result of a lookup: the channel's number, the request's, and the program.
    lookups: HashMap<LookupId, (u64, u32, Program)>,
    lookup_ledger: Ledger,
    fair_queue: FairQueue<Step>,
    last: u64,
}

/// Serves clients until no more can come.
///
/// # Errors
/// A message for the log.
pub fn run() -> Result<(), String> {
    let clients = Clients::take()?;
    let port = Rc::new(Port::create().map_err(|status| format!("no port: {status}"))?);
    let mut seed = [0; 32];
    zx::cprng_draw(&mut seed);
    // With this argument, connections that need no packets use packets, too.
    let direct = !std::env::args().any(|argument| argument == "packets");
    let (mut hosts, mut ipv6, mut others) = (Hosts::default(), Plan::default(), Vec::new());
    for argument in std::env::args().skip(1).filter(|argument| argument != "packets") {
        if !hosts.add(&argument)? && !ipv6.take(&argument)? {
            others.push(argument);
        }
    }
    let addressing = Addressing::parse(others.into_iter())?;
    let mut stack = Stack::new(Sockets(port.clone()), seed, now(), direct);
    stack.limit_buffers(zx::system_get_physmem() / 4);
    let card = CardSession::new(port.clone());
    let mut service = Service {
        settles: card.as_ref().map(|_| MonotonicInstant::after(SETTLE)),
        early: Vec::new(),
        settles_v6: card.as_ref().filter(|_| !ipv6.off).map(|_| MonotonicInstant::after(SETTLE)),
        early_v6: Vec::new(),
        settling: None,
        card,
        addressing,
        ipv6,
        hosts,
        frames: false,
        quiet: Quiet::default(),
        port,
        clients,
        listens: false,
        stack,
        ends: ChannelEnds::default(),
        controls: Numbered::default(),
        client_ledger: Ledger::new(CLIENTS_MAX, CLIENTS_OF_PROGRAM),
        control_ledger: Ledger::new(CONTROLS_MAX, CONTROLS_OF_PROGRAM),
        lookups: HashMap::new(),
        lookup_ledger: Ledger::new(LOOKUPS as u64, LOOKUPS_OF_PROGRAM),
        fair_queue: FairQueue::default(),
        last: 0,
    };
    service.serve().map_err(|status| format!("the service ends: {status}"))
}

fn now() -> Instant {
    Instant::from_micros(MonotonicInstant::now().0 / 1000)
}

impl Service {
    fn serve(&mut self) -> Result<(), Status> {
        let mut deadline = MonotonicInstant::INFINITE;
        loop {
            if !self.listens {
                self.listens = self.watch(&self.clients.0, key(0, SERVICE)).is_ok();
            }
            if !self.listens {
                deadline = deadline.min(MonotonicInstant::after(AGAIN));
            }
            let sleeps = deadline != MonotonicInstant::ZERO;
            let most = if sleeps && self.quiet.takes_one() { 1 } else { BATCH };
            let mut packets = 0;
            while packets < most {
                match self.port.wait(deadline) {
                    Ok(packet) => self.packet(packet.key)?,
                    Err(Status::TIMED_OUT) => break,
                    Err(status) => return Err(status),
                }
                deadline = MonotonicInstant::ZERO;
                packets += 1;
            }
            if most > 1 {
                self.quiet.drained(packets);
            }
            for _ in 0..REQUESTS {
                let Some((program, step)) = self.fair_queue.pop() else { break };
                match step {
                    Step::Message(number) => self.control(number),
                    Step::Client(client) => self.new_client(client),
                    Step::Ended => self.ended(program),
                    Step::Cut(number) => self.cut(number),
                }
            }
            deadline = self.move_frames();
            self.settle();
            self.tell_lookups();
            let ends = self.tell_settled();
            for at in [self.settles, self.settles_v6, ends].into_iter().flatten() {
                deadline = deadline.min(at);
            }
            if !self.fair_queue.is_empty() || self.frames {
                deadline = MonotonicInstant::ZERO;
            }
        }
    }

    /// Moves frames and bytes. Returns the latest time for the next call; zero if there is more to do.
    fn move_frames(&mut self) -> MonotonicInstant {
        let now = now();
        match self.move_some(now) {
            Some(at) if at <= now => MonotonicInstant::ZERO,
            Some(at) => MonotonicInstant(at.total_micros().saturating_mul(1000)),
            None => MonotonicInstant::INFINITE,
        }
    }

    fn move_some(&mut self, now: Instant) -> Option<Instant> {
        if let (Some(card), Some(wire)) = (&mut self.card, self.stack.wire())
            && self.frames
            // The others wait in the driver's buffers, and when these are full, the card drops what comes.
            && wire.len() < FRAMES
        {
            self.frames = card.receive(wire, now);
        }
        let next = self.stack.poll(now);
        let Some(card) = &mut self.card else { return next };
        card.tick(now);
        if let Some(wire) = self.stack.wire() {
            let (sent, room) = card.send(wire, now);
            self.stack.count_sent(sent as u64);
            if self.stack.set_room(room) {
                return Some(now);
            }
        }
        next.into_iter().chain(card.deadline()).min()
    }

    /// Serves the waiting clients once the card has an address, or has had time enough.
    fn settle(&mut self) {
        if self.settles.is_some_and(|at| self.stack.card_network().is_some() || at <= MonotonicInstant::now()) {
            self.settles = None;
            for (program, number) in self.early.drain(..) {
                self.fair_queue.push(program, Step::Message(number));
            }
        }
        let has_v6 = self.stack.wire().is_some() && self.stack.ipv6_is_settled();
        if self.settles_v6.is_some_and(|at| has_v6 || at <= MonotonicInstant::now()) {
            self.settles_v6 = None;
            for (number, transaction, request, handles) in std::mem::take(&mut self.early_v6) {
                let Some(control) = self.controls.remove(&number) else { continue };
                let answer = self.answer(&control, request, handles);
                let told = self.reply(number, &control, transaction, answer);
                self.controls.insert(number, control);
                if told.is_err() {
                    self.cut(number);
                }
            }
        }
    }

    /// A packet of the service's own.
    fn own_packet(&mut self, number: u64) -> Result<(), Status> {
        match (number, &mut self.card) {
            (0, _) => return self.init_event(),
            (card_session::CHANNEL, Some(card)) => match card.message(now()) {
                News::Card(info) => {
                    self.stack.attach(info.mac, info.max_frame_length as usize, &self.addressing);
                    self.stack.enable_ipv6(&self.ipv6);
                    if let (Some(wire), Some(outlet)) = (self.stack.wire(), card.outlet()) {
                        wire.set_outlet(outlet);
                    }
                    self.stack.set_online(info.online);
                    self.frames = true;
                }
                News::Link(online) => self.stack.set_online(online),
                News::Nothing => {}
            },
            (card_session::RX, Some(card)) => {
                card.may_receive();
                self.frames = true;
            }
            (card_session::TX, Some(card)) => card.may_send(),
            _ => {}
        }
        Ok(())
    }

    fn watch(&self, channel: &Channel, key: u64) -> Result<(), Status> {
        channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    fn packet(&mut self, packet: u64) -> Result<(), Status> {
        let number = packet >> 2;
        match packet & 3 {
            SERVICE => return self.own_packet(number),
            CONTROL => {
                if let Some(control) = self.controls.get(&number) {
                    self.fair_queue.push(control.program, Step::Message(number));
                }
            }
            READABLE => self.stack.readable(number),
            WRITABLE => self.stack.writable(number),
            _ => {}
        }
        Ok(())
    }

    /// Queues one event from `init`. The next one gets a packet behind those of the channels that closed before it came.
    fn init_event(&mut self) -> Result<(), Status> {
        self.listens = false;
        match self.clients.next() {
            Ok(Event::Client(client)) => self.fair_queue.push(client.program, Step::Client(client)),
            Ok(Event::Ended(program)) => self.fair_queue.push(program, Step::Ended),
            Err(Status::SHOULD_WAIT) => {}
            Err(status) => return Err(status),
        }
        Ok(())
    }

    /// Closes the program's channels, in turns.
    fn ended(&mut self, program: Program) {
        let its = self.controls.iter().filter(|(_, control)| control.program == program);
        its.for_each(|(number, _)| self.fair_queue.push_long(program, Step::Cut(*number)));
    }

    /// If a client cannot be served, its channel is closed.
    fn new_client(&mut self, client: Client) {
        let rule = match Rule::decode(&client.rule) {
            _ if client.rule.is_empty() => None,
            Ok(rule) => Some(Rc::new(rule)),
            Err(_) => return eprintln!("the rule of program {} cannot be read: it gets no network", client.program.0),
        };
        for handle in client.handles {
            let Ok(end) = self.ends.take(handle) else { continue };
            if self.client_ledger.take(client.program, 1)
                && self.add(end, ChannelRole::Client, client.program, rule.clone()).is_err()
            {
                self.client_ledger.give(client.program, 1);
            }
        }
    }

    fn add(&mut self, end: End, holder: ChannelRole, program: Program, rule: ProgramRule) -> Result<(), Status> {
        self.last += 1;
        self.watch(&end, key(self.last, CONTROL))?;
        self.controls.insert(self.last, Control { end, holder, program, rule });
        Ok(())
    }

    /// Handles one message of a channel, or its end. A client that breaks the rules or does not read its answers is
    /// disconnected, as one that has closed its channel.
    fn control(&mut self, number: u64) {
        let Some(control) = self.controls.get(&number) else { return };
        let is_init = control.program == Program::INIT;
        if self.settles.is_some() && matches!(control.holder, ChannelRole::Client) && !is_init {
            self.early.push((control.program, number));
            return;
        }
        let Some(control) = self.controls.remove(&number) else { return };
        let goes_on = self.message(number, &control).is_ok();
        self.controls.insert(number, control);
        if !goes_on {
            self.cut(number);
        }
    }

    /// Closes a channel.
    fn cut(&mut self, number: u64) {
        let Some(Control { end, holder, program, .. }) = self.controls.remove(&number) else { return };
        drop(end);
        match holder {
            ChannelRole::Client => {
                self.client_ledger.give(program, 1);
                let its: Vec<LookupId> =
                    self.lookups.iter().filter(|(_, (of, ..))| *of == number).map(|(id, _)| *id).collect();
                for id in its {
                    self.lookups.remove(&id);
                    self.lookup_ledger.give(program, 1);
                    self.stack.cancel_lookup(id);
                }
            }
            ChannelRole::Socket(id) => {
                self.control_ledger.give(program, 1);
                self.stack.close(id);
            }
        }
    }

    fn message(&mut self, number: u64, control: &Control) -> Result<(), Status> {
        let mut bytes = [0; LONGEST];
        let mut handles = [const { None }; HANDLES];
        let size = match control.end.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return self.watch(&control.end, key(number, CONTROL)),
            Err((status, _)) => return Err(status),
        };
        let (transaction, request) = Request::decode(&bytes[..size.bytes]).ok_or(Status::INVALID_ARGS)?;
        if let (ChannelRole::Client, Some(Request::Lookup(name)), [None, None, None]) =
            (control.holder, request, &handles)
        {
            self.watch(&control.end, key(number, CONTROL))?;
            if control.rule.as_ref().is_some_and(|rule| !rule.looks_up()) {
                return control.end.write(Reply::encode(transaction, Err(Error::Denied)).as_bytes(), []);
            }
            if let Some(found) = self.hosts.find(name) {
                return control.end.write(Reply::encode(transaction, Ok(Reply::Addresses(found))).as_bytes(), []);
            }
            return match self.look_up(number, transaction, control.program, name) {
                Ok(()) => Ok(()),
                Err(error) => control.end.write(Reply::encode(transaction, Err(error)).as_bytes(), []),
            };
        }
        if let (Program::INIT, ChannelRole::Client, Some(Request::Settle)) = (control.program, control.holder, request)
        {
            self.stack.close_all();
            self.settling = Some(Settling::new((number, transaction), self.stack.frames_sent()));
            return Ok(());
        }
        let waits = match request {
            Some(Request::Open(Family::V6, kind)) => Some(Request::Open(Family::V6, kind)),
            Some(Request::Card) => Some(Request::Card),
            _ => None,
        };
        if let (ChannelRole::Client, Some(request), Some(_)) = (control.holder, waits, self.settles_v6) {
            // The channel is watched again when this is answered.
            self.early_v6.push((number, transaction, request, handles));
            return Ok(());
        }
        let answer = request.ok_or(Error::Malformed).and_then(|request| self.answer(control, request, handles));
        self.reply(number, control, transaction, answer)
    }

    fn reply(&self, number: u64, control: &Control, transaction: u32, answer: Answer) -> Result<(), Status> {
        let (reply, handle) = match answer {
            Ok((reply, handle)) => (Ok(reply), handle),
            Err(error) => (Err(error), None),
        };
        // Before the answer: a client that closes this channel when it has the answer, and then sends a request over
        // another, is served in that order.
        self.watch(&control.end, key(number, CONTROL))?;
        control.end.write_handles(Reply::encode(transaction, reply).as_bytes(), handle)
    }

    /// Protocol step 10.
    fn look_up(&mut self, number: u64, transaction: u32, program: Program, name: Name<'_>) -> Result<(), Error> {
        if !self.lookup_ledger.take(program, 1) {
            return Err(Error::TooMany);
        }
        let id = self.stack.look_up(name).inspect_err(|_| self.lookup_ledger.give(program, 1))?;
        self.lookups.insert(id, (number, transaction, program));
        Ok(())
    }

    /// Answers lookups that have ended. A client that does not read its answers is disconnected.
    fn tell_lookups(&mut self) {
        for (id, result) in self.stack.looked_up() {
            let Some((number, transaction, program)) = self.lookups.remove(&id) else { continue };
            self.lookup_ledger.give(program, 1);
            let reply = Reply::encode(transaction, result.map(Reply::Addresses));
            let told = self.controls.get(&number).map(|control| control.end.write(reply.as_bytes(), []));
            if told.is_some_and(|told| told.is_err()) {
                self.cut(number);
            }
        }
    }

    /// Answers `init` once everything is sent, or after some time. Returns when that will be at the latest.
    fn tell_settled(&mut self) -> Option<MonotonicInstant> {
        let settling = self.settling.as_mut()?;
        let (has_unsent, sent) = (self.stack.has_unsent(), self.stack.frames_sent());
        if !settling.is_over(has_unsent, sent) {
            return Some(settling.until());
        }
        let (number, transaction) = settling.asked;
        self.settling = None;
        if let Some(control) = self.controls.get(&number) {
            // `init` ends the machine, with an answer or without.
            let _ = control.end.write(Reply::encode(transaction, Ok(Reply::Done)).as_bytes(), []);
        }
        None
    }

    fn answer(&mut self, control: &Control, request: Request<'_>, handles: Handles) -> Answer {
        let (program, rule) = (control.program, control.rule.clone());
        match (control.holder, request, handles) {
            (ChannelRole::Client, Request::Open(family, kind), [Some(control), Some(ours), Some(theirs)]) => {
                let id = self.stack.open(program, family, kind, [ours, theirs])?;
                self.stack.set_rule(id, rule);
                self.give(id, control, program)?;
                Ok((Reply::Done, None))
            }
            (ChannelRole::Client, Request::Card, [None, None, None]) => {
                Ok((Reply::Card(self.stack.card_state()?), None))
            }
            (ChannelRole::Socket(id), Request::Clone, [Some(control), None, None]) => {
                self.stack.share(id)?;
                self.give(id, control, program)?;
                Ok((Reply::Done, None))
            }
            (ChannelRole::Socket(id), Request::Accept, [Some(control), None, None]) => {
                let (id, peer) = self.stack.accept(id)?;
                self.give(id, control, program)?;
                let data = self.stack.end(id).ok_or(Error::Invalid)?.for_client()?;
                Ok((Reply::Address(peer), Some(data)))
            }
            (ChannelRole::Socket(id), Request::CountErrors, [Some(count), None, None]) => {
                self.stack.datagram_end(id)?.count_errors(count)?;
                Ok((Reply::Done, None))
            }
            (ChannelRole::Socket(id), request, [None, None, None]) => Ok((self.stack.request(id, request)?, None)),
            _ => Err(Error::Malformed),
        }
    }

    /// Gives a socket the control channel that is already counted in it.
    fn give(&mut self, id: Id, control: Handle, program: Program) -> Result<(), Error> {
        let given = self.take_control(id, control, program);
        if given.is_err() {
            self.stack.close(id);
        }
        given
    }

    fn take_control(&mut self, id: Id, control: Handle, program: Program) -> Result<(), Error> {
        let end = self.ends.take(control).map_err(|_| Error::Malformed)?;
        if !self.control_ledger.take(program, 1) {
            return Err(Error::TooMany);
        }
        // The socket has the rule.
        self.add(end, ChannelRole::Socket(id), program, None).map_err(|_| {
            self.control_ledger.give(program, 1);
            Error::NoMemory
        })
    }
}
