//! A hostile client: sends requests with unexpected handles, reads answers or does not, and ends in the middle of it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use hostile::Dice;
use zx::AsHandleRef;
use zx::{
    Channel, Duration, Fifo, Handle, Info, MonotonicInstant, Rights, Signals, Socket, Status, Stream, Unowned, Vmo,
};

use crate::objects;
use crate::shapes::{self, ALL, Request, Service};

/// Most connections of a client, and most other handles that it keeps.
const CONNECTIONS: usize = 60;
const KEPT: usize = 120;
/// How long it waits for an answer.
const PATIENCE: Duration = Duration::from_millis(4);
/// Requests in a flood, usually and now and then: more than a channel holds.
const FLOOD: u64 = 300;
const GREAT_FLOOD: u64 = 4000;

/// How long a client may take for one step; no step waits for long.
const STANDSTILL: std::time::Duration = std::time::Duration::from_secs(120);

/// The number of steps made, and the current one.
static STEPS: AtomicU64 = AtomicU64::new(0);
static DOING: AtomicU64 = AtomicU64::new(0);

/// A connection.
struct Connection {
    service: Service,
    channel: Channel,
}

/// Results of the requests to a service.
#[derive(Clone, Copy, Default)]
struct Count {
    made: u64,
    answered: u64,
    /// Answers that report success.
    succeeded: u64,
}

struct Client {
    dice: Dice,
    /// The channel through which services are reached.
    names: Channel,
    /// The channel to the loader; only `Clone` is sent on it.
    loader: Channel,
    connections: Vec<Connection>,
    kept: Vec<Handle>,
    counts: [Count; ALL.len()],
    buffer: Vec<u8>,
    /// Hash over everything that was read (FNV-1a).
    digest: u64,
}

/// The program: makes `requests` requests.
pub fn attack(requests: u64, seed: u64) -> ExitCode {
    let Some(mut client) = Client::new(seed) else {
        println!("lost: this program has no services");
        return ExitCode::FAILURE;
    };
    watch_for_standstill();
    while client.made() < requests {
        client.step();
    }
    client.tell();
    match client.dice.below(4) {
        // It ends by itself, by a fault, or by being killed, with all that it holds.
        0 => std::process::abort(),
        1 => {
            println!("kill");
            loop {
                thread::park();
            }
        }
        _ => ExitCode::SUCCESS,
    }
}

/// All channels that this process was started with, borrowed from their users.
fn channels() -> Vec<Unowned<'static, Channel>> {
    let mut handles = [abi::zx_info_handle_extended_t::default(); 64];
    let size = zx::startup::process_self().get_info_records(abi::ZX_INFO_HANDLE_TABLE, &mut handles);
    let count = size.map_or(0, |size| size.actual).min(handles.len());
    let channels = handles[..count].iter().filter(|handle| handle.type_ == abi::ZX_OBJ_TYPE_CHANNEL);
    channels.filter_map(|handle| Unowned::from_raw(handle.handle_value)).collect()
}

/// Another channel like the one through which this process reaches services: of its channels, the one through which it
/// reaches a clock.
fn names() -> Option<Channel> {
    channels().into_iter().find_map(|channel| {
        let (ours, theirs) = Channel::create().ok()?;
        channel.write_handles(b"", [theirs.into_handle()]).ok()?;
        let (clock, end) = Channel::create().ok()?;
        ours.write_handles(b"clock", [end.into_handle()]).ok()?;
        clock.write_handles(&[0], []).ok()?;
        let answered = clock.read_wait(&mut [0; 64], &mut [None], MonotonicInstant::after(Duration::from_seconds(1)));
        answered.is_ok().then_some(ours)
    })
}

/// Whether an access to this memory may wait for a pager.
fn waits_for_pages(vmo: &Handle) -> bool {
    let about = vmo.info_record::<abi::zx_info_vmo_t>(abi::ZX_INFO_VMO);
    about.is_ok_and(|about| about.flags & abi::ZX_INFO_VMO_PAGER_BACKED != 0)
}

/// Ends the program with a message if it makes no step for too long: then it waits for an event that never comes.
fn watch_for_standstill() {
    thread::spawn(|| {
        let mut last = None;
        loop {
            let now = STEPS.load(Relaxed);
            if last == Some(now) {
                println!("stands at its step {now}: {}", DOING.load(Relaxed));
                std::process::exit(1);
            }
            last = Some(now);
            thread::sleep(STANDSTILL);
        }
    });
}

impl Client {
    fn new(seed: u64) -> Option<Client> {
        // Before the search for the channel of names: the search sends messages that other services do not understand,
        // and they close their channels then.
        let loader = zx::startup::clone_loader_service().ok()?;
        let names = names()?;
        Some(Client {
            dice: Dice::new(seed),
            names,
            loader,
            connections: Vec::new(),
            kept: Vec::new(),
            counts: [Count::default(); ALL.len()],
            buffer: vec![0; 1 << 16],
            digest: 0xcbf2_9ce4_8422_2325,
        })
    }

    fn made(&self) -> u64 {
        self.counts.iter().map(|count| count.made).sum()
    }

    fn note(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x100_0000_01b3);
    }

    /// Makes one step.
    fn step(&mut self) {
        let which = self.dice.below(40);
        DOING.store(which, Relaxed);
        STEPS.fetch_add(1, Relaxed);
        match which {
            0..5 => self.connect(),
            5..8 => self.play(),
            8 => self.drop_one(),
            9 => self.send_odd(),
            10 => self.ask_another(),
            11 if self.dice.one_in(20) => self.flood(),
            _ => self.ask(),
        }
        while self.connections.len() > CONNECTIONS {
            let at = self.dice.below(self.connections.len() as u64) as usize;
            self.connections.swap_remove(at);
        }
        while self.kept.len() > KEPT {
            let at = self.dice.below(self.kept.len() as u64) as usize;
            self.kept.swap_remove(at);
        }
    }

    /// Connects to a service, and keeps the connection for later.
    fn connect(&mut self) {
        let (name, service) = self.dice.pick(&[
            ("tmp", Service::Files),
            ("tmp/fresh", Service::Files),
            ("/tmp", Service::Files),
            ("/disk", Service::Files),
            ("network", Service::Network),
            ("network", Service::Network),
            ("clock", Service::Clock),
            ("disk", Service::Disk),
            ("", Service::Loader),
        ]);
        let Ok((ours, theirs)) = Channel::create() else { return };
        if service == Service::Loader {
            let asked = self.loader.write_handles(&shapes::clone_loader(), [theirs.into_handle()]);
            let deadline = MonotonicInstant::after(PATIENCE);
            let answer = self.loader.read_wait(&mut self.buffer, &mut [None], deadline);
            self.note(u64::from(asked.is_ok()) | u64::from(answer.is_ok()) << 1);
            return self.connections.push(Connection { service, channel: ours });
        }
        self.counts[Service::Names as usize].made += 1;
        if self.names.write_handles(name.as_bytes(), [theirs.into_handle()]).is_ok() {
            self.connections.push(Connection { service, channel: ours });
        }
    }

    /// Sends an object that is no channel instead of one.
    fn send_odd(&mut self) {
        let Ok(odd) = objects::any(&mut self.dice, &mut self.kept) else { return };
        let name = self.dice.pick(shapes::NAMES);
        self.counts[Service::Names as usize].made += 1;
        let sent = self.names.write_handles(name.as_bytes(), [odd]);
        self.note(u64::from(sent.is_ok()));
    }

    /// Asks for another channel of names, and drops it or uses it from now on.
    fn ask_another(&mut self) {
        let Ok((ours, theirs)) = Channel::create() else { return };
        self.counts[Service::Names as usize].made += 1;
        if self.names.write_handles(b"", [theirs.into_handle()]).is_ok() && self.dice.one_in(2) {
            self.connections.push(Connection { service: Service::Names, channel: ours });
        }
    }

    /// Picks a connection, mostly one to a service with many requests.
    fn pick(&mut self) -> Option<usize> {
        (!self.connections.is_empty()).then(|| self.dice.below(self.connections.len() as u64) as usize)
    }

    fn drop_one(&mut self) {
        if let Some(at) = self.pick() {
            self.connections.swap_remove(at);
        }
    }

    /// Sends a request, with the right handles or others, and perhaps reads its answer.
    fn ask(&mut self) {
        let Some(at) = self.pick() else { return self.connect() };
        let service = self.connections[at].service;
        let mut request = shapes::request(&mut self.dice, service);
        if self.dice.one_in(10) {
            shapes::spoil(&mut self.dice, &mut request.bytes);
        }
        let handles = self.handles(&request, service);
        self.counts[service as usize].made += 1;
        let sent = self.connections[at].channel.write_handles(&request.bytes, handles);
        self.note(request.bytes.len() as u64 ^ u64::from(sent.is_ok()) << 32);
        if sent.is_err() {
            // The service has closed the connection.
            self.connections.swap_remove(at);
        } else if self.dice.one_in(2) && service != Service::Names {
            self.read(at);
        }
    }

    fn handles(&mut self, request: &Request, service: Service) -> Vec<Handle> {
        let mut handles = Vec::new();
        let odd = self.dice.one_in(if request.channel { 4 } else { 12 });
        if request.channel && !odd {
            let Ok((ours, theirs)) = Channel::create() else { return handles };
            let leads_to = match service {
                Service::Network => Service::Socket,
                Service::Names => self.dice.pick(&ALL),
                same => same,
            };
            self.connections.push(Connection { service: leads_to, channel: ours });
            handles.push(theirs.into_handle());
            if let Some(options) = request.socket
                && let Ok((data, far)) = Socket::create(options)
            {
                handles.push(far.into_handle());
                handles.extend(data.duplicate_handle(Rights::SAME_RIGHTS).ok());
                self.kept.push(data.into_handle());
            }
        } else if let Some(options) = request.socket
            && !odd
            && let Ok((ours, theirs)) = Socket::create(options)
        {
            handles.push(theirs.into_handle());
            self.kept.push(ours.into_handle());
        }
        if odd {
            for _ in 0..self.dice.pick(&[0, 1, 1, 1, 2, 3]) {
                handles.extend(objects::any(&mut self.dice, &mut self.kept).ok());
            }
        }
        handles
    }

    /// Reads an answer, and keeps its handles.
    fn read(&mut self, at: usize) {
        let Connection { service, channel } = &self.connections[at];
        let (service, deadline) = (*service, MonotonicInstant::after(PATIENCE));
        let mut handles = [None, None, None, None];
        let size = match channel.read_wait(&mut self.buffer, &mut handles, deadline) {
            Ok(size) => size,
            Err(status) => {
                self.note(status.0 as u64);
                if status == Status::PEER_CLOSED {
                    self.connections.swap_remove(at);
                }
                return;
            }
        };
        let given = handles.iter().flatten().count();
        let is_success = shapes::is_success(service, &self.buffer[..size.bytes], given);
        self.counts[service as usize].answered += 1;
        self.counts[service as usize].succeeded += u64::from(is_success);
        self.note(size.bytes as u64 | u64::from(self.buffer[4]) << 32);
        for handle in handles.into_iter().flatten() {
            let kind = handle.basic_info().map_or(0, |info| info.type_);
            if kind == abi::ZX_OBJ_TYPE_CHANNEL {
                self.connections.push(Connection { service, channel: Channel::from(handle) });
            } else {
                self.kept.push(handle);
            }
        }
    }

    /// Sends the same request again and again without reading an answer.
    fn flood(&mut self) {
        let Some(at) = self.pick() else { return };
        let service = self.connections[at].service;
        let request = shapes::request(&mut self.dice, service);
        let most = if self.dice.one_in(10) { GREAT_FLOOD } else { FLOOD };
        for _ in 0..self.dice.below(most) {
            let handles = if request.channel { Channel::create().ok().map(|ends| ends.0.into_handle()) } else { None };
            self.counts[service as usize].made += 1;
            if self.connections[at].channel.write_handles(&request.bytes, handles).is_err() {
                self.connections.swap_remove(at);
                return;
            }
        }
    }

    /// Uses an object that a service has given.
    fn play(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let at = self.dice.below(self.kept.len() as u64) as usize;
        let handle = self.kept.swap_remove(at);
        let kind = handle.basic_info().map_or(0, |info| info.type_);
        let handle = match kind {
            abi::ZX_OBJ_TYPE_SOCKET => {
                let socket = Socket::from(handle);
                for _ in 0..self.dice.below(8) {
                    let _ = socket.write(&shapes::datagram(&mut self.dice));
                }
                if self.dice.one_in(4) {
                    let _ = socket.set_disposition(self.dice.below(3) as u32, 0);
                }
                let _ = socket.read(&mut self.buffer[..1000]);
                socket.into_handle()
            }
            abi::ZX_OBJ_TYPE_STREAM => {
                let stream = Stream::from(handle);
                let _ = stream.seek(self.dice.below(3) as u32, shapes::number(&mut self.dice) as i64);
                let _ = stream.write(&[0x77; 600]);
                stream.into_handle()
            }
            abi::ZX_OBJ_TYPE_FIFO => {
                let fifo = Fifo::from(handle);
                for _ in 0..self.dice.below(20) {
                    let _ = fifo.write(drivers::block::ELEMENT, &shapes::blocks(&mut self.dice));
                }
                if self.dice.one_in(2) {
                    let _ = fifo.read(drivers::block::ELEMENT, &mut [0; 64]);
                }
                fifo.into_handle()
            }
            // Its own threads would wait for pages that no pager supplies.
            abi::ZX_OBJ_TYPE_VMO if waits_for_pages(&handle) => handle,
            abi::ZX_OBJ_TYPE_VMO => {
                let vmo = Vmo::from(handle);
                let _ = vmo.write(&self.dice.word().to_le_bytes(), shapes::number(&mut self.dice) & 0xffff);
                let _ = vmo.set_size(shapes::number(&mut self.dice));
                vmo.into_handle()
            }
            _ => {
                let bits = 1 << (24 + self.dice.below(8));
                let _ = handle.signal(Signals::NONE, Signals::from_bits_retain(bits));
                handle
            }
        };
        self.kept.push(handle);
    }

    fn tell(&self) {
        for (service, count) in ALL.iter().zip(self.counts) {
            println!("asked {service:?} {} {} {}", count.made, count.answered, count.succeeded);
        }
        println!("digest {:016x}", self.digest);
    }
}
