//! The layer below the protocols: frames in queues. The loopback device puts what is sent among what comes in; a card's
//! driver takes the one and gives the other.
//!
//! It implements smoltcp's [`Device`]. In addition, the stack inspects the next frame before smoltcp takes it, to find
//! its receiver.

use std::collections::VecDeque;

use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

use crate::join::{self, Joinable, Joined};

/// Maximum size of a frame on the loopback device in bytes: the maximum of IP's length field.
const LOOP_MTU: usize = 65_535;
/// Number of buffers that are kept for the next frames.
const SPARE: usize = 256;
/// Bytes of a spare buffer at most. A datagram of the loopback device can be longer; such a buffer is freed.
const SPARE_LEN: usize = 2048;

/// Number of buffers for joined segments.
const LONG: usize = 4;

/// The number of frames that may go out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Endless,
    Frames(usize),
}

impl Room {
    /// Takes room for a frame, if there is some.
    fn take(&mut self) -> bool {
        match self {
            Room::Endless => true,
            Room::Frames(0) => false,
            Room::Frames(frames) => {
                *frames -= 1;
                true
            }
        }
    }
}

/// A frame that came in. Its buffer can be longer.
#[derive(Debug)]
struct Incoming {
    buffer: Vec<u8>,
    len: usize,
    /// It is a segment whose checksums are known to be right.
    is_checked: bool,
}

impl From<Vec<u8>> for Incoming {
    fn from(buffer: Vec<u8>) -> Incoming {
        Incoming { len: buffer.len(), buffer, is_checked: false }
    }
}

impl Incoming {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// Buffers that frames had.
#[derive(Debug, Default)]
struct Spare {
    short: Vec<Vec<u8>>,
    /// Those for joined segments.
    long: Vec<Vec<u8>>,
    /// Number of these, with those in use.
    longs: usize,
}

impl Spare {
    fn keep(&mut self, buffer: Vec<u8>) {
        if buffer.len() == join::LONGEST && self.long.len() < self.longs {
            self.long.push(buffer);
        } else if self.short.len() < SPARE && buffer.capacity() <= SPARE_LEN {
            self.short.push(buffer);
        }
    }

    /// A long buffer, unless too many are in use.
    fn long(&mut self) -> Option<Vec<u8>> {
        self.long.pop().or_else(|| {
            (self.longs < LONG).then(|| {
                self.longs += 1;
                vec![0; join::LONGEST]
            })
        })
    }
}

/// Where frames can go out without waiting in a queue: the memory that the card reads.
pub trait Outlet {
    /// Takes a copy of a frame. Returns false if there is no place for it.
    fn put(&mut self, frame: &[u8]) -> bool;
}

/// Frames that come in and go out.
pub struct Wire {
    medium: Medium,
    /// Maximum size of a frame in bytes, with its Ethernet header if it has one.
    mtu: usize,
    incoming: VecDeque<Incoming>,
    /// What can continue the last frame that came in.
    joined: Option<Joined>,
    /// Unused on the loopback device.
    outgoing: VecDeque<Vec<u8>>,
    /// What it has taken goes out before what is queued.
    outlet: Option<Box<dyn Outlet>>,
    room: Room,
    spare: Spare,
}

impl Wire {
    /// The loopback device. It delivers every sent frame, in order.
    pub fn looped() -> Wire {
        Wire::new(Medium::Ip, LOOP_MTU, Room::Endless)
    }

    /// A card with Ethernet frames of `mtu` bytes at most, headers included. No frame may go out yet.
    pub fn card(mtu: usize) -> Wire {
        Wire::new(Medium::Ethernet, mtu, Room::Frames(0))
    }

    fn new(medium: Medium, mtu: usize, room: Room) -> Wire {
        let (incoming, outgoing) = (VecDeque::new(), VecDeque::new());
        Wire { medium, mtu, incoming, joined: None, outgoing, outlet: None, room, spare: Spare::default() }
    }

    /// Maximum size of a frame in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Sets the maximum size of a frame in bytes. Longer ones that wait to go out are lost.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
        self.outgoing.retain(|frame| frame.len() <= mtu);
    }

    /// Whether frames are Ethernet's.
    pub fn is_ethernet(&self) -> bool {
        self.medium == Medium::Ethernet
    }

    /// The frame that comes in next.
    pub fn next(&self) -> Option<&[u8]> {
        self.incoming.front().map(Incoming::bytes)
    }

    /// The same, to be changed before it is dropped.
    pub fn next_mut(&mut self) -> Option<&mut [u8]> {
        self.incoming.front_mut().map(|frame| &mut frame.buffer[..frame.len])
    }

    /// Whether the next frame is a segment whose checksums are known to be right.
    pub fn is_checked(&self) -> bool {
        self.incoming.front().is_some_and(|frame| frame.is_checked)
    }

    /// Number of frames that came in and wait.
    pub fn len(&self) -> usize {
        self.incoming.len()
    }

    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.incoming.is_empty()
    }

    /// Drops the next frame.
    pub fn lose(&mut self) {
        if let Some(frame) = self.pop() {
            self.spare.keep(frame.buffer);
        }
    }

    fn pop(&mut self) -> Option<Incoming> {
        let frame = self.incoming.pop_front();
        if self.incoming.is_empty() {
            self.joined = None;
        }
        frame
    }

    /// Adds a frame that came in.
    pub fn put(&mut self, frame: Vec<u8>) {
        self.joined = None;
        self.incoming.push_back(frame.into());
    }

    /// Adds a frame of `len` bytes that came in. `read` copies bytes of it from an offset on. If it continues a segment, it is
    /// joined with that.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn put_from<E>(&mut self, len: usize, read: impl Fn(usize, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let mut head = [0; join::HEAD];
        let head = &mut head[..len.min(join::HEAD)];
        read(0, head)?;
        let this = Joinable::look(head, len);
        if let (Some(joined), Some(this)) = (self.joined, &this)
            && let Some(last) = self.incoming.back_mut()
            && joined.is_continued(last.bytes(), head, this)
        {
            let (headers, data) = this.parts();
            if last.buffer.len() < last.len + data
                && let Some(mut long) = self.spare.long()
            {
                long[..last.len].copy_from_slice(last.bytes());
                self.spare.keep(std::mem::replace(&mut last.buffer, long));
            }
            if let Some(place) = last.buffer.get_mut(last.len..last.len + data) {
                read(headers, place)?;
                if let Ok(joined) = joined.join(&mut last.buffer[..last.len + data], head, this) {
                    last.len += data;
                    // Each one's was looked at.
                    last.is_checked = true;
                    self.joined = joined;
                    return Ok(());
                }
            }
        }
        let mut buffer = self.spare.short.pop().unwrap_or_default();
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        buffer[..head.len()].copy_from_slice(head);
        read(head.len(), &mut buffer[head.len()..len])?;
        self.joined = this.and_then(|this| this.alone());
        self.incoming.push_back(Incoming { buffer, len, is_checked: false });
        Ok(())
    }

    /// Puts a frame before those that came in.
    pub fn put_first(&mut self, frame: Vec<u8>) {
        self.incoming.push_front(frame.into());
    }

    /// Sends a frame. It is dropped where nothing may go out, as on any network.
    pub fn send(&mut self, frame: Vec<u8>) {
        if self.room.take() {
            self.outgoing.push_back(frame);
        }
    }

    /// Sets where copies of frames go out.
    pub fn set_outlet(&mut self, outlet: Box<dyn Outlet>) {
        self.outlet = Some(outlet);
    }

    /// Sends a copy of a frame, as [`Wire::send`].
    pub fn send_copy(&mut self, frame: &[u8]) {
        if self.room.take() {
            // None overtakes another.
            if self.outgoing.is_empty() && self.outlet.as_mut().is_some_and(|outlet| outlet.put(frame)) {
                return;
            }
            let mut buffer = self.spare.short.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(frame);
            self.outgoing.push_back(buffer);
        }
    }

    /// Takes the next frame that goes out.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop_front()
    }

    /// Keeps a buffer for another frame.
    pub fn keep(&mut self, buffer: Vec<u8>) {
        self.spare.keep(buffer);
    }

    /// Sets the number of frames that may go out.
    pub fn set_room(&mut self, frames: usize) {
        self.room = Room::Frames(frames);
    }

    /// The number of frames that may go out.
    pub fn room(&self) -> usize {
        match self.room {
            Room::Endless => usize::MAX,
            Room::Frames(frames) => frames,
        }
    }

    /// Whether a frame may go out.
    pub fn has_room(&self) -> bool {
        self.room != Room::Frames(0)
    }
}

impl Device for Wire {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = PendingFrame<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = self.mtu;
        if !self.is_ethernet() {
            // Memory does not corrupt data, so the loop needs no checksums.
            capabilities.checksum = ChecksumCapabilities::ignored();
        }
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, PendingFrame<'_>)> {
        let frame = self.pop()?;
        // An immediate answer is small.
        let queue = match self.medium {
            Medium::Ip => Queue::Incoming(&mut self.incoming),
            _ => Queue::Outgoing(&mut self.outgoing),
        };
        let answer = PendingFrame { queue, room: &mut self.room, buffer: Vec::new() };
        Some((Received { frame, spare: &mut self.spare }, answer))
    }

    fn transmit(&mut self, _now: Instant) -> Option<PendingFrame<'_>> {
        if !self.has_room() {
            return None;
        }
        let buffer = self.spare.short.pop().unwrap_or_default();
        let queue = match self.medium {
            Medium::Ip => Queue::Incoming(&mut self.incoming),
            _ => Queue::Outgoing(&mut self.outgoing),
        };
        Some(PendingFrame { queue, room: &mut self.room, buffer })
    }
}

/// A frame that came in.
#[derive(Debug)]
pub struct Received<'a> {
    frame: Incoming,
    spare: &'a mut Spare,
}

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        let result = take(self.frame.bytes());
        self.spare.keep(self.frame.buffer);
        result
    }
}

/// Where a frame goes that is sent.
#[derive(Debug)]
enum Queue<'a> {
    Incoming(&'a mut VecDeque<Incoming>),
    Outgoing(&'a mut VecDeque<Vec<u8>>),
}

/// A frame to be sent.
#[derive(Debug)]
pub struct PendingFrame<'a> {
    queue: Queue<'a>,
    room: &'a mut Room,
    buffer: Vec<u8>,
}

impl phy::TxToken for PendingFrame<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut frame = self.buffer;
        frame.resize(len, 0);
        let result = fill(&mut frame);
        // An answer to a frame is dropped where nothing may go out, as on any network.
        if self.room.take() {
            match self.queue {
                Queue::Incoming(queue) => queue.push_back(frame.into()),
                Queue::Outgoing(queue) => queue.push_back(frame),
            }
        }
        result
    }
}
