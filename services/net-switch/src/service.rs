//! The service: clients, packets, and turns of the ports.

use description::switch::{Grant, Port as Described, check};
use net_switch::{Budget, DropReason, Ports, Switch};
use service::{ChannelEnds, Client, Clients, Event};
use zx::{AsHandleRef, Duration, Handle, MonotonicInstant, Port, Signals, Status};

use crate::connection::{Connection, Finish};
use crate::memory::SharedMemory;
use crate::mode::Mode;

const CLIENTS: u64 = 1;
/// Keys with this bit belong to ports: generation, port, and what has come.
const OF_PORT: u64 = 1 << 63;
const CHANNEL: u64 = 0;
const KICK: u64 = 1;
const REFILLED: u64 = 2;
/// How long a frame waits for buffers of a receiver that has taken others.
const WAIT: Duration = Duration::from_millis(2);
/// Messages of a front end before others have their turn.
const MESSAGES: u32 = 8;
/// The words with which a program asks for the counters.
const COUNTERS: &str = "counters";

fn key(port: usize, generation: u32, what: u64) -> u64 {
    OF_PORT | u64::from(generation & 0x7fff_ffff) << 16 | (port as u64) << 4 | what
}

struct Service {
    switch: Switch<SharedMemory>,
    mode: Mode,
    port: Port,
    ends: ChannelEnds,
    connections: Vec<Option<Connection>>,
    /// How often a guest of each port has broken a rule.
    faults: Vec<u64>,
    generation: u32,
    /// A bit for each port that may have frames to send.
    active: u64,
    /// For each port whose next frame waits: the port for whose buffers, and until when.
    waiting: Vec<Option<(usize, MonotonicInstant)>>,
    /// Calls to the kernel for kicks, calls and packets.
    calls: u64,
}

/// Reads the arguments: ports, and a mode.
fn configuration() -> Result<(Vec<Described>, Mode), String> {
    let (mut ports, mut mode) = (Vec::new(), Mode::BEST);
    for argument in std::env::args().skip(1) {
        if let Some(port) = Described::from_argument(&argument) {
            ports.push(port?);
        } else if let Some(named) = argument.strip_prefix("mode=").and_then(Mode::named) {
            mode = named;
        } else {
            return Err(format!("`{argument}` is neither a port nor a mode"));
        }
    }
    check(&ports)?;
    Ok((ports, mode))
}

/// Runs the service.
///
/// # Errors
/// A sentence for the log.
pub fn run() -> Result<(), String> {
    let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
    let (ports, mode) = configuration()?;
    let ports = Ports::new(&ports);
    let count = ports.len();
    let clients = Clients::take()?;
    let mut service = Service {
        switch: Switch::new(ports),
        mode,
        port: Port::create().map_err(step("a port"))?,
        ends: ChannelEnds::default(),
        connections: (0..count).map(|_| None).collect(),
        faults: vec![0; count],
        generation: 0,
        active: 0,
        waiting: vec![None; count],
        calls: 0,
    };
    service.watch_clients(&clients).map_err(step("clients"))?;
    loop {
        let deadline = if service.active == 0 { service.deadline() } else { MonotonicInstant::ZERO };
        service.calls += 1;
        match service.port.wait(deadline) {
            Ok(packet) if packet.key == CLIENTS => {
                match clients.next() {
                    Ok(Event::Client(client)) => service.client(client),
                    Ok(Event::Ended(program)) => {
                        let ended = |connection: &Option<Connection>| {
                            connection.as_ref().is_some_and(|connection| connection.program == program)
                        };
                        for port in 0..count {
                            if ended(&service.connections[port]) {
                                service.detach(port);
                            }
                        }
                    }
                    Err(Status::SHOULD_WAIT) => {}
                    Err(_) => return Ok(()),
                }
                service.watch_clients(&clients).map_err(step("clients"))?;
            }
            Ok(packet) => service.packet(packet.key),
            Err(Status::TIMED_OUT) => {}
            Err(status) => return Err(format!("port: {status}")),
        }
        service.stop_waiting();
        service.round();
    }
}

impl Service {
    fn watch_clients(&self, clients: &Clients) -> zx::Result<()> {
        let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
        clients.0.wait_async(&self.port, CLIENTS, signals, 0)
    }

    /// A program connects. What it may not have, it sees closed.
    fn client(&mut self, client: Client) {
        let Client { words, rule, mut handles, program } = client;
        // A program with a rule has the ports that the rule names; services have those that they ask for.
        let grant = if rule.is_empty() { None } else { Some(Grant::decode(&rule).unwrap_or_default()) };
        let may = |name: &str| grant.as_ref().is_none_or(|grant| grant.ports.iter().any(|port| port == name));
        let Some(handle) = handles.pop() else { return };
        if words == COUNTERS {
            return self.tell_counters(handle, may);
        }
        let Some(port) = self.switch.ports().named(&words).filter(|_| may(&words)) else { return };
        let Ok(channel) = self.ends.take(handle) else { return };
        // A front end that has gone makes room, even if the packet of its end is still to come.
        let is_taken = self.connections[port].as_ref().is_some_and(|connection| {
            connection.channel.signals().is_ok_and(|signals| !signals.contains(Signals::CHANNEL_PEER_CLOSED))
        });
        if is_taken {
            return;
        }
        self.detach(port);
        self.generation = self.generation.wrapping_add(1);
        let mac = self.switch.ports().mac(port);
        let connection = Connection::new(channel, program, self.generation, mac, &self.mode);
        if self.watch(port, &connection).is_ok() {
            self.connections[port] = Some(connection);
        }
    }

    fn watch(&self, port: usize, connection: &Connection) -> zx::Result<()> {
        let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
        connection.channel.wait_async(&self.port, key(port, connection.generation, CHANNEL), signals, 0)
    }

    /// Sends the counters of the ports that a program may have, a line for each, and closes.
    fn tell_counters(&self, handle: Handle, may: impl Fn(&str) -> bool) {
        let Ok(channel) = self.ends.take(handle) else { return };
        let mut text = String::new();
        let ports = self.switch.ports();
        for port in (0..ports.len()).filter(|port| may(ports.name(*port))) {
            let counters = self.switch.counters(port);
            let dropped =
                DropReason::ALL.map(|(reason, name)| format!(" {name} {}", counters.dropped[reason as usize]));
            text.push_str(&format!(
                "{} sent {} received {} delivered {} faults {} calls {}{}\n",
                ports.name(port),
                counters.sent,
                counters.received,
                counters.delivered,
                self.faults[port],
                self.calls,
                dropped.concat(),
            ));
        }
        let _ = channel.write(text.as_bytes(), []);
    }

    /// Nothing of a port's guest is accessed any more.
    fn detach(&mut self, port: usize) {
        self.switch.detach(port);
        self.connections[port] = None;
        self.active &= !(1 << port);
        self.waiting[port] = None;
        self.refilled(port);
    }

    /// There may be buffers of this port, or there are none any more: nobody waits for them.
    fn refilled(&mut self, receiver: usize) {
        for (port, waiting) in self.waiting.iter_mut().enumerate() {
            if waiting.is_some_and(|(to, _)| to == receiver) {
                *waiting = None;
                self.active |= 1 << port;
            }
        }
    }

    /// When the first port has waited long enough.
    fn deadline(&self) -> MonotonicInstant {
        self.waiting.iter().flatten().map(|(_, until)| *until).min().unwrap_or(MonotonicInstant::INFINITE)
    }

    /// Ports that have waited long enough go on: their frames are dropped if there are still no buffers.
    fn stop_waiting(&mut self) {
        let deadline = self.deadline();
        if deadline == MonotonicInstant::INFINITE {
            return;
        }
        let now = MonotonicInstant::now();
        for (port, waiting) in self.waiting.iter_mut().enumerate() {
            if waiting.is_some_and(|(_, until)| until <= now) {
                *waiting = None;
                self.active |= 1 << port;
            }
        }
    }

    /// A port's next frame waits for buffers of another port. Returns whether there are some already.
    fn waits(&mut self, port: usize, receiver: usize) -> bool {
        let (Some(connection), Some(guest)) = (&mut self.connections[receiver], self.switch.guest(receiver)) else {
            return true;
        };
        let Some(kick) = connection.refill_kick() else { return true };
        self.calls += 2;
        let _ = kick.signal(Signals::EVENT_SIGNALED, Signals::NONE);
        if !connection.awaits_buffers {
            let key = key(receiver, connection.generation, REFILLED);
            if kick.wait_async(&self.port, key, Signals::EVENT_SIGNALED, 0).is_err() {
                return true;
            }
            connection.awaits_buffers = true;
        }
        let Some(rx) = &mut guest.rx else { return true };
        // If its memory has gone, the next frame finds that out.
        if rx.be_loud(&guest.memory).unwrap_or(true) {
            return true;
        }
        self.waiting[port] = Some((receiver, MonotonicInstant::after(WAIT)));
        false
    }

    /// A guest has broken a rule.
    fn fault(&mut self, port: usize, why: &str) {
        self.faults[port] += 1;
        // A guest that comes back to break rules does not fill the log.
        if self.faults[port].is_power_of_two() {
            eprintln!(
                "port {}: {why}; the guest is detached (time {})",
                self.switch.ports().name(port),
                self.faults[port]
            );
        }
        self.detach(port);
    }

    fn packet(&mut self, packet: u64) {
        let (port, what) = ((packet >> 4 & 0xfff) as usize, packet & 0xf);
        let Some(mut connection) = self.connections.get_mut(port).and_then(Option::take) else { return };
        if key(port, connection.generation, what) != packet {
            // It was for the one before.
            self.connections[port] = Some(connection);
            return;
        }
        if what == KICK {
            (connection.armed, connection.fired) = (false, true);
            self.activate(port);
            self.connections[port] = Some(connection);
            return;
        }
        if what == REFILLED {
            connection.awaits_buffers = false;
            self.connections[port] = Some(connection);
            if let Some(guest) = self.switch.guest(port)
                && let Some(rx) = &mut guest.rx
            {
                // If its memory has gone, the next frame finds that out.
                let _ = rx.be_quiet(&guest.memory);
            }
            return self.refilled(port);
        }
        let mut outcome = Ok(true);
        for _ in 0..MESSAGES {
            outcome = connection.message(port, &mut self.switch, &self.mode);
            if !matches!(outcome, Ok(true)) {
                break;
            }
        }
        match outcome {
            Ok(_) if self.watch(port, &connection).is_ok() => {
                if connection.sends() {
                    self.activate(port);
                }
                self.connections[port] = Some(connection);
            }
            Ok(_) | Err(Finish::Gone) => {
                drop(connection);
                self.detach(port);
            }
            Err(Finish::Fault(why)) => {
                drop(connection);
                self.fault(port, &why);
            }
        }
    }

    /// A port may have frames to send. If its next one waits, it waits on.
    fn activate(&mut self, port: usize) {
        if self.waiting[port].is_none() {
            self.active |= 1 << port;
        }
    }

    /// A turn for each port that may have frames to send.
    fn round(&mut self) {
        let mut ports = self.active;
        while ports != 0 {
            let port = ports.trailing_zeros() as usize;
            ports &= ports - 1;
            let turn = self.switch.turn(port, Budget::of(self.mode.batch));
            let goes_on = match turn.waits_for {
                Some(receiver) => self.waits(port, receiver),
                None => turn.more || self.rests(port),
            };
            if !goes_on {
                self.active &= !(1 << port);
            }
        }
        let connections = &self.connections;
        let calls = &mut self.calls;
        self.switch.tell(|port, queue| {
            if let Some(connection) = &connections[port] {
                *calls += 1;
                connection.call(queue);
            }
        });
        for ending in self.switch.endings() {
            self.fault(ending.port, &format!("its queue is broken ({:?})", ending.why));
        }
    }

    /// A port has no frames to send. Waits for its kick; returns whether it has frames nevertheless.
    fn rests(&mut self, port: usize) -> bool {
        let Some(connection) = &mut self.connections[port] else { return false };
        let Some(kick) = connection.kick().filter(|_| connection.sends()) else { return false };
        // The kick is cleared before the last look: one that comes later is seen.
        self.calls += u64::from(connection.fired) + u64::from(!connection.armed);
        if connection.fired && kick.signal(Signals::EVENT_SIGNALED, Signals::NONE).is_err() {
            return false;
        }
        if !connection.armed {
            let key = key(port, connection.generation, KICK);
            if kick.wait_async(&self.port, key, Signals::EVENT_SIGNALED, 0).is_err() {
                return false;
            }
        }
        (connection.fired, connection.armed) = (false, true);
        let Some(guest) = self.switch.guest(port) else { return false };
        match &mut guest.tx {
            Some(ring) => match ring.be_loud(&guest.memory) {
                Ok(more) => more,
                Err(why) => {
                    self.switch.end(port, why);
                    false
                }
            },
            None => false,
        }
    }
}
