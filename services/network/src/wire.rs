//! The layer below the protocols: frames in queues. The loopback device puts what is sent among what comes in; a card's
//! driver takes the one and gives the other.
//!
//! It implements smoltcp's [`Device`]. In addition, the stack inspects the next frame before smoltcp takes it, to find
//! its receiver.

use std::collections::VecDeque;

use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Maximum size of a frame on the loopback device in bytes: the maximum of IP's length field.
const LOOP_MTU: usize = 65_535;
/// Number of buffers that are kept for the next frames.
const SPARE: usize = 256;
/// Bytes of a spare buffer at most. A datagram of the loopback device can be longer; such a buffer is freed.
const SPARE_LEN: usize = 2048;

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

/// Frames that come in and go out.
#[derive(Debug)]
pub struct Wire {
    medium: Medium,
    /// Maximum size of a frame in bytes, with its Ethernet header if it has one.
    mtu: usize,
    incoming: VecDeque<Vec<u8>>,
    /// Unused on the loopback device.
    outgoing: VecDeque<Vec<u8>>,
    room: Room,
    spare: Vec<Vec<u8>>,
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
        Wire { medium, mtu, incoming: VecDeque::new(), outgoing: VecDeque::new(), room, spare: Vec::new() }
    }

    /// Maximum size of a frame in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Whether frames are Ethernet's.
    pub fn is_ethernet(&self) -> bool {
        self.medium == Medium::Ethernet
    }

    /// The frame that comes in next.
    pub fn next(&self) -> Option<&[u8]> {
        self.incoming.front().map(Vec::as_slice)
    }

    /// The same, to be changed before it is dropped.
    pub fn next_mut(&mut self) -> Option<&mut [u8]> {
        self.incoming.front_mut().map(Vec::as_mut_slice)
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
        if let Some(frame) = self.incoming.pop_front() {
            self.keep(frame);
        }
    }

    /// A buffer for a frame of this length. It holds bytes of earlier frames.
    pub fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// Adds a frame that came in.
    pub fn put(&mut self, frame: Vec<u8>) {
        self.incoming.push_back(frame);
    }

    /// Puts a frame before those that came in.
    pub fn put_first(&mut self, frame: Vec<u8>) {
        self.incoming.push_front(frame);
    }

    /// Sends a frame. It is dropped where nothing may go out, as on any network.
    pub fn send(&mut self, frame: Vec<u8>) {
        if self.room.take() {
            self.outgoing.push_back(frame);
        }
    }

    /// Sends a copy of a frame, as [`Wire::send`].
    pub fn send_copy(&mut self, frame: &[u8]) {
        if self.room.take() {
            let mut buffer = self.spare.pop().unwrap_or_default();
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
        if self.spare.len() < SPARE && buffer.capacity() <= SPARE_LEN {
            self.spare.push(buffer);
        }
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
        let frame = self.incoming.pop_front()?;
        let is_loop = self.medium == Medium::Ip;
        // An immediate answer is small.
        let queue = if is_loop { &mut self.incoming } else { &mut self.outgoing };
        let answer = PendingFrame { queue, room: &mut self.room, buffer: Vec::new() };
        Some((Received { frame, spare: &mut self.spare }, answer))
    }

    fn transmit(&mut self, _now: Instant) -> Option<PendingFrame<'_>> {
        if !self.has_room() {
            return None;
        }
        let buffer = self.spare.pop().unwrap_or_default();
        let queue = if self.medium == Medium::Ip { &mut self.incoming } else { &mut self.outgoing };
        Some(PendingFrame { queue, room: &mut self.room, buffer })
    }
}

/// A frame that came in.
#[derive(Debug)]
pub struct Received<'a> {
    frame: Vec<u8>,
    spare: &'a mut Vec<Vec<u8>>,
}

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        let result = take(&self.frame);
        if self.spare.len() < SPARE && self.frame.capacity() <= SPARE_LEN {
            self.spare.push(self.frame);
        }
        result
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub struct PendingFrame<'a> {
    queue: &'a mut VecDeque<Vec<u8>>,
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
            self.queue.push_back(frame);
        }
        result
    }
}
