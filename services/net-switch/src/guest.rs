//! What is at a port: memory, and two queues. It is a guest, or speaks for the TCP/IP service or the card.

use netdevice::Fault;
use virtqueue::{Broken, Chain, Gone, Memory, Part, Ring};

use crate::frame::{DropReason, Frame, HEADER};
use crate::offload::Offers;
use crate::session::Session;

/// The queue by which a guest receives, and the one by which it sends.
pub const RX: usize = 0;
/// See [`RX`].
pub const TX: usize = 1;

/// Receive buffers that one frame may be spread over.
const MOST_BUFFERS: usize = 256;
/// Descriptors from which on a frame gets no more buffers.
const MOST_PARTS: usize = 512;

/// Which side of a copy was at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The sender's memory has gone.
    Sender,
    /// The receiver's memory has gone.
    Receiver,
}

/// Memory from which bytes can be copied to another guest's.
pub trait GuestMemory: Memory {
    /// Copies bytes to another guest's memory.
    ///
    /// # Errors
    /// The side whose memory has gone. Part of the bytes may have been copied.
    fn copy_to(&self, at: u64, to: &Self, to_at: u64, len: usize) -> Result<(), Side>;
}

/// Why what is at a port is not believed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A virtqueue, or the memory.
    Queue(Broken),
    /// A session of the protocol [`netdevice`].
    Session(Fault),
}

impl From<Broken> for Wrong {
    fn from(broken: Broken) -> Wrong {
        Wrong::Queue(broken)
    }
}

impl From<Gone> for Wrong {
    fn from(_: Gone) -> Wrong {
        Wrong::Queue(Broken::Memory)
    }
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Wrong {
        Wrong::Session(fault)
    }
}

/// The two queues, [`RX`] and [`TX`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one, and a port has one of them")]
pub enum Queues {
    /// Of a virtio device, as far as they run.
    Rings([Option<Ring>; 2]),
    /// Of a session.
    Session(Session),
}

impl Queues {
    /// A virtqueue that runs.
    pub fn ring(&mut self, queue: usize) -> Option<&mut Ring> {
        match self {
            Queues::Rings(rings) => rings.get_mut(queue)?.as_mut(),
            Queues::Session(_) => None,
        }
    }

    /// Whether a queue runs.
    pub fn runs(&self, queue: usize) -> bool {
        match self {
            Queues::Rings(rings) => rings.get(queue).is_some_and(Option::is_some),
            Queues::Session(_) => true,
        }
    }

    /// Bytes of virtio's header in front of each frame.
    pub fn header(&self) -> usize {
        match self {
            Queues::Rings(_) => HEADER,
            Queues::Session(_) => 0,
        }
    }

    /// The next chain of a queue. Returns false if there is none.
    ///
    /// # Errors
    /// [`Wrong`].
    #[inline]
    pub fn pop<M: Memory>(&mut self, queue: usize, memory: &M, chain: &mut Chain) -> Result<bool, Wrong> {
        match self {
            Queues::Rings(rings) => match rings.get_mut(queue).and_then(Option::as_mut) {
                Some(ring) => Ok(ring.pop(memory, chain)?),
                None => Ok(false),
            },
            Queues::Session(session) => session.pop(queue, memory, chain),
        }
    }

    /// Puts the last chains back: they come again.
    #[inline]
    pub fn put_back(&mut self, queue: usize, count: u16) {
        match self {
            Queues::Rings(_) => {
                if let Some(ring) = self.ring(queue) {
                    ring.put_back(count);
                }
            }
            Queues::Session(session) => session.put_back(queue, count),
        }
    }

    /// Gives a chain back, into which so many bytes were written. The other side is told later.
    ///
    /// # Errors
    /// [`Wrong`].
    #[inline]
    pub fn push<M: Memory>(&mut self, queue: usize, memory: &M, head: u16, written: u32) -> Result<(), Wrong> {
        match self {
            Queues::Rings(rings) => match rings.get_mut(queue).and_then(Option::as_mut) {
                Some(ring) => Ok(ring.push(memory, head, written)?),
                None => Ok(()),
            },
            Queues::Session(session) => session.push(queue, memory, head, written),
        }
    }
}

/// What is at a port.
#[derive(Debug)]
pub struct Guest<M> {
    /// Its memory.
    pub memory: M,
    /// Its queues.
    pub queues: Queues,
    /// It takes frames in several buffers.
    pub merges: bool,
    /// What it leaves to receivers, and takes over from senders.
    pub offers: Offers,
}

/// Why a frame was not delivered to a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// For this reason.
    Drop(DropReason),
    /// The sender's memory has gone.
    SenderGone,
    /// The receiver is at fault.
    Broken(Wrong),
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Refusal {
        Refusal::Broken(wrong)
    }
}

/// Buffers of a receiver, for one frame. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub struct Room {
    chain: Chain,
    parts: Vec<Part>,
    /// For each chain: its number, and its bytes.
    chains: Vec<(u16, u64)>,
    /// Descriptors that were read for them.
    descriptors: usize,
    /// Where the next byte goes: a part, and an offset in it.
    part: usize,
    offset: u32,
}

impl Room {
    /// Number of descriptors that were read for the last frame.
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// The next place, and how many bytes go there, `len` at most.
    fn next(&mut self, len: usize) -> Option<(u64, usize)> {
        let mut part = self.parts.get(self.part)?;
        if self.offset == part.len {
            (self.part, self.offset) = (self.part + 1, 0);
            part = self.parts.get(self.part)?;
        }
        let count = len.min((part.len - self.offset) as usize);
        let at = part.at + u64::from(self.offset);
        self.offset += count as u32;
        Some((at, count))
    }
}

impl<M: GuestMemory> Guest<M> {
    /// Steps 4 to 6 of a frame for this guest. The driver is told later.
    ///
    /// # Errors
    /// It was not delivered, and none of its buffers is used.
    pub fn deliver(&mut self, from: &M, frame: &mut Frame, room: &mut Room) -> Result<(), Refusal> {
        let Guest { memory, queues, merges, offers } = self;
        room.parts.clear();
        room.chains.clear();
        (room.part, room.offset, room.descriptors) = (0, 0, 0);
        if !queues.runs(RX) {
            return Err(Refusal::Drop(DropReason::Down));
        }
        let header = queues.header();
        let needed = (header + frame.len()) as u64;
        let mut total = 0;
        while total < needed {
            let is_full = !room.chains.is_empty() && !*merges
                || room.chains.len() == MOST_BUFFERS
                || room.descriptors >= MOST_PARTS;
            let refused = if is_full {
                Some(DropReason::TooLong)
            } else if !queues.pop(RX, memory, &mut room.chain)? {
                Some(DropReason::NoBuffer)
            } else {
                None
            };
            if let Some(reason) = refused {
                queues.put_back(RX, room.chains.len() as u16);
                return Err(Refusal::Drop(reason));
            }
            room.descriptors += usize::from(room.chain.descriptors);
            room.parts.extend_from_slice(&room.chain.parts);
            room.chains.push((room.chain.head, room.chain.len));
            total += room.chain.len;
        }
        let buffers = room.chains.len() as u16;
        match copy((from, frame), (memory, offers, header), room, buffers) {
            Ok(()) => {}
            Err(Side::Sender) => {
                queues.put_back(RX, buffers);
                return Err(Refusal::SenderGone);
            }
            Err(Side::Receiver) => return Err(Refusal::Broken(Gone.into())),
        }
        let mut left = needed;
        for (head, len) in &room.chains {
            let written = left.min(*len);
            queues.push(RX, memory, *head, written as u32)?;
            left -= written;
        }
        Ok(())
    }
}

/// Step 5. The receiver wants so many bytes of virtio's header.
fn copy<M: GuestMemory>(
    (from, frame): (&M, &mut Frame),
    (to, offers, header): (&M, &Offers, usize),
    room: &mut Room,
    buffers: u16,
) -> Result<(), Side> {
    let before = frame.complete(offers, from).map_err(|Gone| Side::Sender)?;
    let written = write(to, &frame.start(buffers, offers)[HEADER - header..], room);
    frame.restore(before);
    written?;
    for part in frame.rest() {
        let (mut at, mut left) = (part.at, part.len as usize);
        while left > 0 {
            let (to_at, count) = room.next(left).ok_or(Side::Receiver)?;
            from.copy_to(at, to, to_at, count)?;
            at += count as u64;
            left -= count;
        }
    }
    Ok(())
}

/// Writes private bytes to the receiver's buffers.
fn write<M: GuestMemory>(to: &M, mut bytes: &[u8], room: &mut Room) -> Result<(), Side> {
    while !bytes.is_empty() {
        let (at, count) = room.next(bytes.len()).ok_or(Side::Receiver)?;
        let (part, rest) = bytes.split_at(count);
        to.write(at, part).map_err(|Gone| Side::Receiver)?;
        bytes = rest;
    }
    Ok(())
}
