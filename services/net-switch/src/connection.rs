//! A front end's connection to a port: its messages, and the handles that it has sent.

use net_switch::{Guest, Offers, Queues, RX, Switch, TX};
use service::{ChannelEnds, End, Program};
use vhost_user::{
    BACKEND_REQ, CONFIG, EVENT_IDX, INDIRECT_DESC, LONGEST, MAX_REGIONS, MessageKind, PROTOCOL_FEATURES, REPLY_ACK,
    Request, Session, Settings, Step, VERSION_1, net, reply_u64,
};
use virtqueue::{Direction, Ring, RingPlace};
use zx::{AsHandleRef, Event, Handle, Info, Rights, Signals, Status};

use crate::memory::SharedMemory;
use crate::mode::Mode;
use crate::service::{KICK, REFILLED, key};

/// Descriptors of a queue at most.
const MOST_DESCRIPTORS: u16 = 1024;
/// In the device's configuration: there is a link.
const LINK_UP: u16 = 1;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The channel.
    pub channel: End,
    /// The program that it belongs to.
    pub program: Program,
    /// The upper part of the keys of its packets.
    pub generation: u32,
    session: Session,
    /// For each queue, the event by which the driver notifies.
    kicks: [Option<Event>; 2],
    /// For each queue, how often that event was replaced.
    replaced: [u16; 2],
    /// For each queue, the event by which the switch notifies.
    calls: [Option<Event>; 2],
    /// The channel for requests to the driver. There are none yet: its end tells the driver that the switch has gone.
    requests: Option<End>,
    /// The kick of the queue to send is waited for.
    pub armed: bool,
    /// That kick has come since it was last cleared.
    pub fired: bool,
    /// The kick of the queue to receive is waited for.
    pub awaits_buffers: bool,
}

/// Why a connection ends.
#[derive(Debug)]
pub enum Finish {
    /// The front end has gone.
    Gone,
    /// It has broken a rule.
    Fault(String),
}

/// What a port offers.
fn settings(mac: [u8; 6], mode: &Mode) -> Settings {
    let features = VERSION_1 | INDIRECT_DESC | PROTOCOL_FEATURES | net::MAC | net::STATUS | net::MRG_RXBUF;
    let with = |wanted: bool, more: u64| if wanted { more } else { 0 };
    Settings {
        features: features | with(mode.event_index, EVENT_IDX) | with(mode.offload, Offers::FEATURES),
        required: VERSION_1,
        protocol_features: REPLY_ACK | CONFIG | BACKEND_REQ,
        queues: 2,
        most_descriptors: MOST_DESCRIPTORS,
        config: [&mac[..], &LINK_UP.to_le_bytes()].concat(),
    }
}

/// Takes an event that a front end sent.
fn event(handle: Option<Handle>, rights: Rights) -> Result<Event, Status> {
    let handle = handle.ok_or(Status::INVALID_ARGS)?;
    let info = handle.basic_info()?;
    if info.type_ != abi::ZX_OBJ_TYPE_EVENT {
        return Err(Status::WRONG_TYPE);
    }
    if !Rights::from_bits_retain(info.rights).contains(rights) {
        return Err(Status::ACCESS_DENIED);
    }
    Ok(handle.into())
}

impl Connection {
    /// A new connection to a port with this address.
    pub fn new(channel: End, program: Program, generation: u32, mac: [u8; 6], mode: &Mode) -> Connection {
        Connection {
            channel,
            program,
            generation,
            session: Session::new(settings(mac, mode)),
            kicks: [None, None],
            replaced: [0; 2],
            calls: [None, None],
            requests: None,
            armed: false,
            fired: false,
            awaits_buffers: false,
        }
    }

    /// The key of the packets for a queue's kick. Packets for an earlier event have another one: they may still come, and
    /// count for nothing.
    pub fn key_of_kick(&self, port: usize, queue: usize) -> u64 {
        let what = if queue == TX { KICK } else { REFILLED };
        key(port, self.generation, what) | u64::from(self.replaced[queue]) << 47
    }

    /// The event by which the driver says that there is something to send.
    pub fn kick(&self) -> Option<&Event> {
        self.kicks[TX].as_ref()
    }

    /// The event by which the driver says that there are more buffers to receive.
    pub fn refill_kick(&self) -> Option<&Event> {
        self.kicks[RX].as_ref()
    }

    /// Notifies the driver of a queue.
    pub fn call(&self, queue: usize) {
        if let Some(event) = self.calls.get(queue).and_then(Option::as_ref) {
            // The rights were checked.
            let _ = event.signal(Signals::NONE, Signals::EVENT_SIGNALED);
        }
    }

    /// Reads and obeys one message. Returns false if there is none.
    ///
    /// # Errors
    /// The connection ends.
    pub fn message(
        &mut self,
        port: usize,
        switch: &mut Switch<SharedMemory>,
        (mode, ends): (&Mode, &ChannelEnds),
    ) -> Result<bool, Finish> {
        let mut bytes = [0; LONGEST];
        let mut handles = [const { None }; MAX_REGIONS];
        let size = match self.channel.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Ok(false),
            Err((Status::PEER_CLOSED, _)) => return Err(Finish::Gone),
            Err((status, _)) => return Err(Finish::Fault(format!("a message cannot be read: {status}"))),
        };
        let bytes = bytes.get(..size.bytes).unwrap_or_default();
        let handles: Vec<Handle> = handles.into_iter().flatten().collect();
        let kind = Request::kind(bytes);
        let done = Request::parse(bytes, handles.len())
            .map_err(|fault| format!("{:?}: {fault:?}", kind.map(|(kind, _)| kind)))
            .and_then(|request| self.obey(request, handles, port, switch, (mode, ends)));
        // A request with an answer of its own has sent it.
        if let Ok((kind, true)) = kind
            && !kind.has_own_reply()
            && self.session.acknowledges()
        {
            self.answer(&reply_u64(kind, done.is_err().into()))?;
        }
        done.map(|()| true).map_err(Finish::Fault)
    }

    fn answer(&self, bytes: &[u8]) -> Result<(), Finish> {
        // A front end that does not read its answers is closed.
        self.channel.write(bytes, []).map_err(|_| Finish::Gone)
    }

    /// Does what a request says.
    fn obey(
        &mut self,
        request: Request,
        handles: Vec<Handle>,
        port: usize,
        switch: &mut Switch<SharedMemory>,
        (mode, ends): (&Mode, &ChannelEnds),
    ) -> Result<(), String> {
        let kind = request.message_kind();
        let failed = |why: &dyn std::fmt::Debug| format!("{kind:?}: {why:?}");
        let step = self.session.take(request).map_err(|fault| failed(&fault))?;
        let mut handles = handles;
        let mut answer = None;
        match step {
            Step::Nothing | Step::Disable(_) => {}
            Step::Reply(bytes) => answer = Some(bytes),
            Step::Memory(regions) => {
                // What was mapped before goes first.
                switch.detach(port);
                let memory = SharedMemory::new(&regions, handles, mode).map_err(|status| failed(&status))?;
                let offers = Offers::default();
                switch.attach(port, Guest { memory, queues: Queues::Rings([None, None]), merges: false, offers });
                handles = Vec::new();
            }
            Step::Kick(queue) => {
                let kick = event(handles.pop(), Rights::WAIT | Rights::SIGNAL).map_err(|status| failed(&status))?;
                if let Some(place) = self.kicks.get_mut(queue) {
                    *place = Some(kick);
                }
                // The wait for the old one went with its handle; its packets may be on their way.
                if let Some(count) = self.replaced.get_mut(queue) {
                    *count = count.wrapping_add(1);
                }
                if queue == TX {
                    (self.armed, self.fired) = (false, true);
                } else {
                    self.awaits_buffers = false;
                }
            }
            Step::Call(queue) => {
                let call = match handles.pop() {
                    Some(handle) => Some(event(Some(handle), Rights::SIGNAL).map_err(|status| failed(&status))?),
                    None => None,
                };
                if let Some(place) = self.calls.get_mut(queue) {
                    *place = call;
                }
            }
            Step::BackendChannel => {
                let channel = handles.pop().ok_or(Status::INVALID_ARGS).and_then(|handle| ends.take(handle));
                self.requests = Some(channel.map_err(|status| failed(&status))?);
            }
            Step::Stop(queue) => {
                let ring = switch.guest(port).and_then(|guest| guest.queues.ring(queue));
                let index = ring.map_or_else(|| self.session.base(queue), |ring| ring.index());
                answer = Some(self.session.stopped_at(queue, index));
            }
        }
        drop(handles);
        self.set_queues(port, switch);
        if let Some(bytes) = answer {
            debug_assert!(kind.has_own_reply() || kind == MessageKind::GetVringBase);
            self.answer(&bytes).map_err(|_| "its answer cannot be written".to_owned())?;
        }
        Ok(())
    }

    /// Starts and stops the queues as the session says.
    fn set_queues(&self, port: usize, switch: &mut Switch<SharedMemory>) {
        if self.session.running(TX).is_none() {
            switch.restart(port);
        }
        let Some(guest) = switch.guest(port) else { return };
        let features = self.session.features().unwrap_or(0);
        guest.merges = features & net::MRG_RXBUF != 0;
        guest.offers = Offers::of(features);
        let Queues::Rings(rings) = &mut guest.queues else { return };
        for (queue, direction) in [(RX, Direction::Write), (TX, Direction::Read)] {
            let running = self.session.running(queue);
            let ring = &mut rings[queue];
            match (running, &ring) {
                (None, _) => *ring = None,
                (Some(_), Some(_)) => {}
                (Some((parameters, address)), None) => {
                    let place = RingPlace {
                        size: parameters.size,
                        descriptors: address.descriptors,
                        available: address.available,
                        used: address.used,
                    };
                    let has = |feature: u64| features & feature != 0;
                    let mut new = Ring::new(place, direction, parameters.base, has(EVENT_IDX), has(INDIRECT_DESC));
                    // Notifications of receive buffers are seldom wanted. If the memory has gone, the next access says so.
                    if queue == RX {
                        let _ = new.be_quiet(&guest.memory);
                    }
                    *ring = Some(new);
                }
            }
        }
    }

    /// Whether its queue to send runs.
    pub fn sends(&self) -> bool {
        self.session.running(TX).is_some()
    }
}
