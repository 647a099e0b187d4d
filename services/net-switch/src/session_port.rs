//! The two kinds of ports that speak the protocol [`netdevice`], whose steps the code refers to: that of the TCP/IP service,
//! for which the switch is a network card, and that of the card, whose driver's client the switch is.

use net_switch::{BUFFER, DESCRIPTORS, FRAMES, Guest, LONGEST, Mac, Offers, Queues, RX, Session, Switch, TX};
use netdevice::{
    ANSWER, DEPTH, DESCRIPTOR, ELEMENT, Info, OPEN_HANDLES, REQUEST, Request, decode_answer, encode_answer,
};
use service::{DescriptorFifo, End, Program};
use vhost_user::Region as Described;
use zx::{AsHandleRef, Channel, Duration, Fifo, Handle, Info as _, MonotonicInstant, Rights, Status, Vmo};

use crate::connection::Finish;
use crate::memory::SharedMemory;
use crate::mode::Mode;

/// The largest VMO of frames.
const MAX_VMO: u64 = 8 << 20;
/// Frames of each direction that the service may give.
const FRAMES_AT_A_TIME: u16 = 256;
/// Time between a change of the card's link and the question for the next one.
const CHANGES: Duration = Duration::from_millis(100);
/// The shortest frame that the service may give.
const SHORTEST: u32 = 14;

/// The ends of the FIFOs of a session, [`RX`] and [`TX`] as the switch sees them.
pub type Fifos = [DescriptorFifo; 2];

/// The memory of a session, of VMOs of descriptors and frames.
fn memory(count: u16, [descriptors, frames]: [Handle; 2], mode: &Mode) -> Result<(SharedMemory, usize), Status> {
    let size = |handle: &Handle| Ok(handle.info_record::<abi::zx_info_vmo_t>(abi::ZX_INFO_VMO)?.size_bytes);
    let of_descriptors = (u64::from(count) * DESCRIPTOR as u64).next_multiple_of(4096);
    let of_frames: Result<u64, Status> = size(&frames);
    let of_frames = of_frames?;
    if of_frames == 0 || of_frames > MAX_VMO {
        return Err(Status::OUT_OF_RANGE);
    }
    let region = |at: u64, size: u64| Described { guest_address: at, size, user_address: at, offset: 0 };
    let regions = [region(DESCRIPTORS, of_descriptors), region(FRAMES, of_frames)];
    Ok((SharedMemory::new(&regions, vec![descriptors, frames], mode)?, of_frames as usize))
}

/// The service's port.
#[derive(Debug)]
pub struct ServicePort {
    pub channel: End,
    pub program: Program,
    pub generation: u32,
    mac: Mac,
    /// Whether there is a link, and what the service knows of it (7).
    online: bool,
    known: bool,
    /// The number of its request for the next status.
    watches: Option<u32>,
    pub fifos: Option<Fifos>,
}

impl ServicePort {
    pub fn new(channel: End, program: Program, generation: u32, mac: Mac, online: bool) -> ServicePort {
        ServicePort { channel, program, generation, mac, online, known: online, watches: None, fifos: None }
    }

    /// There is a link, or there is none. Answers the request for the next status, if that is another one (7).
    ///
    /// # Errors
    /// The client does not read its answers.
    pub fn link(&mut self, online: bool) -> Result<(), Status> {
        self.online = online;
        match self.watches {
            Some(number) if self.known != online => {
                (self.known, self.watches) = (online, None);
                self.channel.write(&encode_answer(number, Status::OK.0, &self.info()), [])
            }
            _ => Ok(()),
        }
    }

    fn info(&self) -> Info {
        Info {
            mac: self.mac,
            online: self.online,
            rx_depth: FRAMES_AT_A_TIME,
            tx_depth: FRAMES_AT_A_TIME,
            max_frame_length: LONGEST as u32,
            min_rx_buffer_length: LONGEST as u32,
            min_tx_buffer_length: SHORTEST,
            max_vmo_length: MAX_VMO as u32,
        }
    }

    /// Reads and obeys one message. `keys` are those of the packets of the FIFOs. Returns false if there is none.
    ///
    /// # Errors
    /// The connection ends.
    pub fn message(
        &mut self,
        port: usize,
        keys: [u64; 2],
        switch: &mut Switch<SharedMemory>,
        mode: &Mode,
    ) -> Result<bool, Finish> {
        let mut bytes = [0; REQUEST];
        let mut handles = [None, None];
        let size = match self.channel.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Ok(false),
            Err((Status::PEER_CLOSED, _)) => return Err(Finish::Gone),
            Err((status, _)) => return Err(Finish::Fault(format!("a message cannot be read: {status}"))),
        };
        let request = Request::from_bytes(bytes.get(..size.bytes).unwrap_or_default());
        let (number, request) = request.ok_or_else(|| Finish::Fault("a message that is none".to_owned()))?;
        let answer = match (request, handles) {
            (Request::Info, [None, None]) => Ok(Vec::new()),
            // It gets the frames for its own address in any case.
            (Request::Open { descriptor_count, .. }, [Some(descriptors), Some(frames)]) if self.fifos.is_none() => {
                self.open(port, keys, (descriptor_count, [descriptors, frames]), switch, mode).map(Vec::from)
            }
            (Request::WatchStatus, [None, None]) if self.fifos.is_some() && self.watches.is_none() => {
                self.watches = Some(number);
                return self.link(self.online).map(|()| true).map_err(|_| Finish::Gone);
            }
            (Request::Open { .. }, [Some(_), Some(_)]) => Err(Status::ALREADY_BOUND),
            (Request::WatchStatus, [None, None]) => Err(Status::BAD_STATE),
            _ => Err(Status::INVALID_ARGS),
        };
        let (status, handles) = match answer {
            Ok(handles) => (Status::OK, handles),
            Err(status) => (status, Vec::new()),
        };
        self.known = self.online;
        let answer: [u8; ANSWER] = encode_answer(number, status.0, &self.info());
        // A client that does not read its answers is closed.
        self.channel.write_handles(&answer, handles).map(|()| true).map_err(|_| Finish::Gone)
    }

    /// Opens the session (2).
    fn open(
        &mut self,
        port: usize,
        keys: [u64; 2],
        (count, vmos): (u16, [Handle; 2]),
        switch: &mut Switch<SharedMemory>,
        mode: &Mode,
    ) -> Result<[Handle; 2], Status> {
        let (memory, frames) = memory(count, vmos, mode)?;
        let (rx, rx_theirs) = Fifo::create(DEPTH, ELEMENT)?;
        let (tx, tx_theirs) = Fifo::create(DEPTH, ELEMENT)?;
        let queues = Queues::Session(Session::device(count, frames));
        switch.attach(port, Guest { memory, queues, merges: false, offers: Offers::default() });
        self.fifos = Some([DescriptorFifo::new(rx, keys[RX]), DescriptorFifo::new(tx, keys[TX])]);
        Ok([rx_theirs.into(), tx_theirs.into()])
    }
}

/// The card's port.
#[derive(Debug)]
pub struct CardPort {
    pub channel: Channel,
    pub generation: u32,
    state: State,
    pub fifos: Option<Fifos>,
    /// Whether the card has a link.
    pub online: bool,
    /// When to ask for the next status (7).
    pub asks_at: Option<MonotonicInstant>,
}

#[derive(Debug)]
enum State {
    /// Step 1: the driver was asked what it is.
    Asked,
    /// Step 2: the driver was asked for a session.
    Opening {
        memory: SharedMemory,
        receive: u16,
        count: u16,
        shortest: usize,
    },
    Open,
}

impl CardPort {
    /// Asks a driver for what it is.
    ///
    /// # Errors
    /// It has gone.
    pub fn new(channel: Channel, generation: u32) -> Result<CardPort, Status> {
        channel.write(&Request::Info.to_bytes(1), [])?;
        Ok(CardPort { channel, generation, state: State::Asked, fifos: None, online: false, asks_at: None })
    }

    /// Asks for the next status that is another one (7).
    ///
    /// # Errors
    /// The driver has gone.
    pub fn ask(&mut self) -> Result<(), Status> {
        self.asks_at = None;
        self.channel.write(&Request::WatchStatus.to_bytes(3), [])
    }

    /// Reads one answer. Returns false if there is none.
    ///
    /// # Errors
    /// The session ends.
    pub fn message(
        &mut self,
        port: usize,
        keys: [u64; 2],
        switch: &mut Switch<SharedMemory>,
        mode: &Mode,
    ) -> Result<bool, Finish> {
        let mut bytes = [0; ANSWER];
        let mut handles = [const { None }; OPEN_HANDLES];
        let size = match self.channel.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Ok(false),
            Err((Status::PEER_CLOSED, _)) => return Err(Finish::Gone),
            Err((status, _)) => return Err(Finish::Fault(format!("an answer cannot be read: {status}"))),
        };
        let failed = |status: Status| Finish::Fault(format!("the card's driver: {status}"));
        let answer = decode_answer(bytes.get(..size.bytes).unwrap_or_default());
        let (status, info) = answer.ok_or_else(|| failed(Status::IO_DATA_INTEGRITY))?;
        if status != 0 {
            return Err(failed(Status(status)));
        }
        match (std::mem::replace(&mut self.state, State::Open), handles) {
            (State::Asked, [None, None]) => self.state = self.open(&info, mode).map_err(failed)?,
            (State::Opening { memory, receive, count, shortest }, [Some(rx), Some(tx)]) => {
                let queues = Queues::Session(Session::client(receive, count, shortest));
                switch.attach(port, Guest { memory, queues, merges: false, offers: Offers::default() });
                // What the driver receives comes into the switch.
                self.fifos = Some([DescriptorFifo::new(tx.into(), keys[RX]), DescriptorFifo::new(rx.into(), keys[TX])]);
                self.online = info.online;
                self.ask().map_err(|_| Finish::Gone)?;
            }
            // It answers only when it is asked. A link that changes all the time costs no more.
            (State::Open, [None, None]) if self.asks_at.is_none() => {
                (self.online, self.asks_at) = (info.online, Some(MonotonicInstant::after(CHANGES)));
            }
            _ => return Err(failed(Status::IO_DATA_INTEGRITY)),
        }
        Ok(true)
    }

    /// Step 2: makes the VMOs, and asks for a session.
    fn open(&self, info: &Info, mode: &Mode) -> Result<State, Status> {
        // While the driver fills some buffers, frames lie in the others.
        let receive = 2 * info.rx_depth.min(FRAMES_AT_A_TIME);
        let count = receive + info.tx_depth.min(FRAMES_AT_A_TIME);
        let shortest = info.min_tx_buffer_length as usize;
        let fits = info.max_frame_length as usize >= LONGEST
            && info.min_rx_buffer_length as usize <= BUFFER
            && shortest <= LONGEST
            && usize::from(count) * BUFFER <= info.max_vmo_length as usize;
        if receive == 0 || count == receive || !fits {
            return Err(Status::NOT_SUPPORTED);
        }
        let vmos = [
            Vmo::create((u64::from(count) * DESCRIPTOR as u64).next_multiple_of(4096), 0)?,
            Vmo::create(u64::from(count) * BUFFER as u64, 0)?,
        ];
        let [descriptors, frames] = vmos.each_ref().map(|vmo| vmo.duplicate_handle(Rights::SAME_RIGHTS));
        let (memory, _) = memory(count, [descriptors?, frames?], mode)?;
        Session::describe(&memory, count).map_err(|_| Status::NO_MEMORY)?;
        let request = Request::Open { descriptor_count: count, promiscuous: true }.to_bytes(2);
        self.channel.write(&request, vmos.map(Handle::from))?;
        Ok(State::Opening { memory, receive, count, shortest })
    }
}
