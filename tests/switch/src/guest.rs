//! A stand-in guest: the front end of vhost-user, and a driver for both queues.

use vhost_user::{
    CONFIG, EVENT_IDX, HEADER, Header, INDIRECT_DESC, PROTOCOL_FEATURES, REPLY_ACK, Region as Described, Request,
    VERSION_1, VringAddress, VringState, net,
};
use virtqueue::{Buffer, DriverRing, Gone, Memory};
use zx::{AsHandleRef, Channel, Event, Handle, MonotonicInstant, Region, Rights, Signals, Status, Vmo};

/// Bytes of virtio's header.
pub const NET_HEADER: usize = 12;
/// Size of each queue.
pub const QUEUE: u16 = 256;
/// The guest's memory, and where it begins for the guest.
pub const MEMORY: usize = 8 << 20;
pub const BASE: u64 = 0x10_0000;
/// Where things are in it.
const RX_RING: u64 = BASE;
const TX_RING: u64 = BASE + 0x4000;
pub const TABLES: u64 = BASE + 0x1_0000;
const RX_BUFFERS: u64 = BASE + 0x10_0000;
pub const TX_BUFFERS: u64 = BASE + 0x20_0000;
/// Bytes of a receive buffer, and of a slot for a table.
pub const BUFFER: u32 = 2048;
const TABLE: u64 = 256;

/// Features for frames whose checksum is not complete, and for large segments.
pub const OFFLOADS: u64 =
    net::CSUM | net::GUEST_CSUM | net::HOST_TSO4 | net::HOST_TSO6 | net::GUEST_TSO4 | net::GUEST_TSO6;

/// The guest's memory, by its own addresses.
pub struct GuestRam(pub Region);

impl GuestRam {
    fn at(at: u64) -> Result<usize, Gone> {
        at.checked_sub(BASE).map(|offset| offset as usize).ok_or(Gone)
    }
}

impl Memory for GuestRam {
    fn holds(&self, at: u64, len: u64) -> bool {
        at >= BASE && at.checked_add(len).is_some_and(|end| end <= BASE + MEMORY as u64)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Gone> {
        self.0.read(GuestRam::at(at)?, into).map_err(|_| Gone)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Gone> {
        self.0.write(GuestRam::at(at)?, from).map_err(|_| Gone)
    }

    fn load(&self, at: u64) -> Result<u16, Gone> {
        self.0.load(GuestRam::at(at)?).map_err(|_| Gone)
    }

    fn store(&self, at: u64, value: u16) -> Result<(), Gone> {
        self.0.store(GuestRam::at(at)?, value).map_err(|_| Gone)
    }
}

/// A connection to a port, before there are queues.
pub struct Front {
    pub channel: Channel,
}

impl Front {
    /// Connects to a port of a switch.
    pub fn new(switch: &str, port: &str) -> Front {
        let channel = zx::startup::connect(&format!("{switch}/{port}")).expect("there are services");
        Front { channel }
    }

    /// Sends a request; returns its answer's payload, if it has one.
    pub fn ask(&self, request: &Request, handles: Vec<Handle>) -> Result<Vec<u8>, Status> {
        self.channel.write_handles(&request.to_bytes(true), handles)?;
        self.answer()
    }

    /// Sends a request that has no answer.
    pub fn tell(&self, request: &Request, handles: Vec<Handle>) -> Result<(), Status> {
        self.channel.write_handles(&request.to_bytes(false), handles)
    }

    /// Waits for an answer.
    pub fn answer(&self) -> Result<Vec<u8>, Status> {
        let mut bytes = [0; 512];
        let size = self.channel.read_wait(&mut bytes, &mut [], MonotonicInstant::INFINITE)?;
        let header = Header::from_bytes(&bytes).expect("a header");
        assert_eq!((header.flags, header.size as usize), (5, size.bytes - HEADER), "the answer's header");
        Ok(bytes[HEADER..size.bytes].to_vec())
    }

    /// Asks, and expects that it was done.
    pub fn must(&self, request: &Request, handles: Vec<Handle>) {
        let answer = self.ask(request, handles).unwrap_or_else(|status| panic!("{request:?}: {status}"));
        assert_eq!(answer, [0; 8], "{request:?}");
    }

    /// Asks for a number.
    pub fn number(&self, request: &Request) -> u64 {
        let answer = self.ask(request, Vec::new()).unwrap_or_else(|status| panic!("{request:?}: {status}"));
        u64::from_le_bytes(answer.try_into().expect("a number"))
    }
}

/// A guest with its queues.
pub struct Guest {
    pub front: Front,
    pub vmo: Vmo,
    pub ram: GuestRam,
    pub mac: [u8; 6],
    pub rx: DriverRing,
    pub tx: DriverRing,
    pub kicks: [Event; 2],
    pub calls: [Event; 2],
    event_index: bool,
    /// For each chain of the receive queue, where its buffer is.
    buffers: Vec<u64>,
    slot: u64,
}

impl Guest {
    /// A guest with new memory.
    pub fn new(switch: &str, port: &str) -> Guest {
        let vmo = Vmo::create(MEMORY as u64, 0).expect("memory");
        Guest::with(switch, port, vmo)
    }

    /// A guest with this memory.
    pub fn with(switch: &str, port: &str, vmo: Vmo) -> Guest {
        Guest::offering(switch, port, vmo, 0)
    }

    /// A guest that takes these features, too.
    pub fn offering(switch: &str, port: &str, vmo: Vmo, further: u64) -> Guest {
        let front = Front::new(switch, port);
        front.tell(&Request::SetOwner, Vec::new()).expect("the port is free");
        let offered = front.number(&Request::GetFeatures);
        let wanted =
            VERSION_1 | EVENT_IDX | INDIRECT_DESC | PROTOCOL_FEATURES | net::MAC | net::STATUS | net::MRG_RXBUF;
        let features = offered & (wanted | further);
        let protocol = front.number(&Request::GetProtocolFeatures);
        front.tell(&Request::SetProtocolFeatures(protocol & (REPLY_ACK | CONFIG)), Vec::new()).expect("a connection");
        let config = front.ask(&Request::GetConfig(0, 8, 0), Vec::new()).expect("a configuration");
        let mac = *config[12..].first_chunk().expect("an address");
        assert_eq!(config[18], 1, "there is a link");
        front.must(&Request::SetFeatures(features), Vec::new());
        let ram = GuestRam(Region::new(MEMORY).expect("addresses"));
        ram.0.map(0, &vmo, 0, MEMORY).expect("a mapping");
        let event_index = features & EVENT_IDX != 0;
        let rx = DriverRing::new(RX_RING, QUEUE, event_index);
        let tx = DriverRing::new(TX_RING, QUEUE, event_index);
        let events = || [Event::create().expect("an event"), Event::create().expect("an event")];
        let mut guest = Guest {
            front,
            vmo,
            ram,
            mac,
            rx,
            tx,
            kicks: events(),
            calls: events(),
            event_index,
            buffers: vec![0; QUEUE.into()],
            slot: 0,
        };
        guest.set_memory(0);
        guest.set_queues();
        guest.refill_all();
        guest
    }

    /// Sends the memory, which begins at this offset of the VMO.
    fn set_memory(&self, offset: u64) {
        let region = Described { guest_address: BASE, size: MEMORY as u64, user_address: BASE, offset };
        let vmo = self.vmo.duplicate_handle(Rights::SAME_RIGHTS).expect("a handle");
        self.front.must(&Request::SetMemTable(vec![region]), vec![vmo]);
    }

    /// Sends the queues, as Linux does it.
    pub fn set_queues(&self) {
        for (index, ring) in [(0, &self.rx), (1, &self.tx)] {
            let place = ring.place();
            let (descriptors, available, used) = (place.descriptors, place.available, place.used);
            let address = VringAddress { index, descriptors, available, used, ..VringAddress::default() };
            let handle = |event: &Event| vec![event.duplicate_handle(Rights::SAME_RIGHTS).expect("a handle")];
            let front = &self.front;
            front.must(&Request::SetVringCall(index, true), handle(&self.calls[index as usize]));
            front.must(&Request::SetVringNum(VringState { index, number: place.size.into() }), Vec::new());
            front.must(&Request::SetVringBase(VringState { index, number: 0 }), Vec::new());
            front.must(&Request::SetVringAddr(address), Vec::new());
            front.must(&Request::SetVringKick(index), handle(&self.kicks[index as usize]));
            front.must(&Request::SetVringEnable(index, true), Vec::new());
        }
    }

    /// Gives the device all receive buffers.
    fn refill_all(&mut self) {
        for number in 0..u64::from(QUEUE) {
            self.refill(RX_BUFFERS + number * u64::from(BUFFER));
        }
        self.publish_rx();
    }

    /// Gives the device a receive buffer.
    pub fn refill(&mut self, at: u64) {
        let buffer = Buffer { at, len: BUFFER, write: true };
        if let Some(head) = self.rx.add(&self.ram, &[buffer], None).expect("own memory") {
            self.buffers[usize::from(head)] = at;
        }
    }

    /// Where the buffer of a receive chain is.
    pub fn place_of(&self, head: u16) -> u64 {
        self.buffers[usize::from(head)]
    }

    /// Tells the device of receive buffers.
    pub fn publish_rx(&mut self) {
        if self.rx.publish(&self.ram).expect("own memory") {
            self.kick(0);
        }
    }

    /// Notifies the device of a queue.
    pub fn kick(&self, queue: usize) {
        self.kicks[queue].signal(Signals::NONE, Signals::EVENT_SIGNALED).expect("an event");
    }

    /// Puts a frame into the queue, in parts of these lengths; the last one takes the rest. Returns false if there is no
    /// room. The device learns of it by [`Guest::publish_tx`].
    pub fn send(&mut self, frame: &[u8], lens: &[usize], indirect: bool) -> bool {
        self.send_with([0; NET_HEADER], frame, lens, indirect)
    }

    /// The same with this header.
    pub fn send_with(&mut self, header: [u8; NET_HEADER], frame: &[u8], lens: &[usize], indirect: bool) -> bool {
        // A slot for each place of the queue, and for long frames several.
        let slots = frame.len().div_ceil(BUFFER as usize).max(1) as u64 + 1;
        if self.tx.room() < lens.len() + 1 {
            return false;
        }
        if self.slot + slots > 0x40_0000 / u64::from(BUFFER) {
            self.slot = 0;
        }
        let start = TX_BUFFERS + self.slot * u64::from(BUFFER);
        let table = indirect.then_some(TABLES + self.slot % 2048 * TABLE);
        self.slot += slots;
        self.ram.write(start, &header).expect("own memory");
        self.ram.write(start + NET_HEADER as u64, frame).expect("own memory");
        let (mut at, mut left) = (start, NET_HEADER + frame.len());
        let mut buffers = Vec::with_capacity(lens.len() + 1);
        for len in lens.iter().copied().chain([left]) {
            let len = len.min(left);
            buffers.push(Buffer { at, len: len as u32, write: false });
            (at, left) = (at + len as u64, left - len);
        }
        self.tx.add(&self.ram, &buffers, table).expect("own memory").is_some()
    }

    /// Tells the device of frames to send.
    pub fn publish_tx(&mut self) {
        if self.tx.publish(&self.ram).expect("own memory") {
            self.kick(1);
        }
    }

    /// Takes back the chains that were sent.
    pub fn reap(&mut self) -> usize {
        let mut count = 0;
        while self.tx.take(&self.ram).expect("own memory").is_some() {
            count += 1;
        }
        count
    }

    /// The next frame that has come, if there is one. Its buffers go back to the device.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        Some(self.receive_raw()?.split_off(NET_HEADER))
    }

    /// The same with its header.
    pub fn receive_raw(&mut self) -> Option<Vec<u8>> {
        let (mut bytes, mut left) = (Vec::new(), 1);
        while left > 0 {
            let taken = self.rx.take(&self.ram).expect("own memory");
            let Some((head, written)) = taken else {
                assert!(bytes.is_empty(), "the rest of a frame is missing");
                return None;
            };
            let at = self.buffers[usize::from(head.expect("one of its own buffers"))];
            assert!(written <= BUFFER, "more bytes than the buffer has");
            let start = bytes.len();
            bytes.resize(start + written as usize, 0);
            self.ram.read(at, &mut bytes[start..]).expect("own memory");
            if start == 0 {
                assert!(written as usize >= NET_HEADER, "a frame without a header");
                left = u16::from_le_bytes([bytes[10], bytes[11]]);
            }
            self.refill(at);
            left -= 1;
        }
        self.publish_rx();
        Some(bytes)
    }

    /// Waits for the next frame.
    pub fn wait(&mut self) -> Vec<u8> {
        loop {
            if let Some(frame) = self.receive() {
                return frame;
            }
            self.wait_queue(0, 0);
        }
    }

    /// The same with its header.
    pub fn wait_raw(&mut self) -> Vec<u8> {
        loop {
            if let Some(frame) = self.receive_raw() {
                return frame;
            }
            self.wait_queue(0, 0);
        }
    }

    /// Waits until the device has given back more than `after` chains of a queue.
    pub fn wait_queue(&mut self, queue: usize, after: u16) {
        let (ring, call) = (if queue == 0 { &self.rx } else { &self.tx }, &self.calls[queue]);
        call.signal(Signals::EVENT_SIGNALED, Signals::NONE).expect("an event");
        let after = if self.event_index { after } else { 0 };
        if ring.be_loud(&self.ram, after).expect("own memory") {
            return;
        }
        let closed = Signals::CHANNEL_PEER_CLOSED;
        let mut items = [
            abi::zx_wait_item_t { handle: call.raw_handle(), waitfor: Signals::EVENT_SIGNALED.bits(), pending: 0 },
            abi::zx_wait_item_t { handle: self.front.channel.raw_handle(), waitfor: closed.bits(), pending: 0 },
        ];
        zx::wait_many(&mut items, MonotonicInstant::INFINITE).expect("a wait");
        assert_eq!(items[1].pending & closed.bits(), 0, "the switch has closed the connection");
    }
}

/// The counters of the ports: for each its name, and the numbers with their names.
pub fn counters(switch: &str) -> Vec<(String, Vec<(String, u64)>)> {
    let channel = zx::startup::connect(&format!("{switch}/counters")).expect("there are services");
    let mut bytes = [0; 8192];
    let size = channel.read_wait(&mut bytes, &mut [], MonotonicInstant::INFINITE).expect("counters");
    let text = std::str::from_utf8(&bytes[..size.bytes]).expect("text");
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (pairs, _) = words[1..].as_chunks::<2>();
        let number = |pair: &[&str; 2]| (pair[0].to_owned(), pair[1].parse().expect("a number"));
        (words[0].to_owned(), pairs.iter().map(number).collect())
    };
    text.lines().map(line).collect()
}

/// One number of them.
pub fn counted(switch: &str, port: &str, what: &str) -> u64 {
    let all = counters(switch);
    let (_, numbers) = all.iter().find(|(name, _)| name == port).expect("a port");
    numbers.iter().find(|(name, _)| name == what).expect("a number").1
}
