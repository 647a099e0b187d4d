//! A guest at a port: its memory and its two queues.

use virtqueue::{Broken, Chain, Gone, Memory, Part, Ring};

use crate::frame::{DropReason, Frame, HEADER};
use crate::offload::Offers;

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

/// A guest.
#[derive(Debug)]
pub struct Guest<M> {
    /// Its memory.
    pub memory: M,
    /// Its queue to receive, if it runs.
    pub rx: Option<Ring>,
    /// Its queue to send, if it runs.
    pub tx: Option<Ring>,
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
    /// The receiver's queue is broken.
    Broken(Broken),
}

impl From<Broken> for Refusal {
    fn from(broken: Broken) -> Refusal {
        Refusal::Broken(broken)
    }
}

impl From<Gone> for Refusal {
    fn from(_: Gone) -> Refusal {
        Refusal::Broken(Broken::Memory)
    }
}

/// Buffers of a receiver, for one frame. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub struct Room {
    chain: Chain,
    parts: Vec<Part>,
    /// For each chain: its number, and its bytes.
    chains: Vec<(u16, u64)>,
    /// Where the next byte goes: a part, and an offset in it.
    part: usize,
    offset: u32,
}

impl Room {
    /// Number of descriptors that were read for the last frame.
    pub fn descriptors(&self) -> usize {
        self.parts.len()
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
        let needed = (HEADER + frame.len()) as u64;
        let Guest { memory, rx: Some(rx), merges, offers, .. } = self else {
            return Err(Refusal::Drop(DropReason::Down));
        };
        if !frame.is_for(offers) {
            return Err(Refusal::Drop(DropReason::Offload));
        }
        room.parts.clear();
        room.chains.clear();
        (room.part, room.offset) = (0, 0);
        let mut total = 0;
        while total < needed {
            let is_full = !room.chains.is_empty() && !*merges
                || room.chains.len() == MOST_BUFFERS
                || room.parts.len() >= MOST_PARTS;
            let refused = if is_full {
                Some(DropReason::TooLong)
            } else if !rx.pop(memory, &mut room.chain)? {
                Some(DropReason::NoBuffer)
            } else {
                None
            };
            if let Some(reason) = refused {
                rx.put_back(room.chains.len() as u16);
                return Err(Refusal::Drop(reason));
            }
            room.parts.extend_from_slice(&room.chain.parts);
            room.chains.push((room.chain.head, room.chain.len));
            total += room.chain.len;
        }
        let buffers = room.chains.len() as u16;
        match copy(from, memory, offers, frame, room, buffers) {
            Ok(()) => {}
            Err(Side::Sender) => {
                rx.put_back(buffers);
                return Err(Refusal::SenderGone);
            }
            Err(Side::Receiver) => return Err(Refusal::Broken(Broken::Memory)),
        }
        let mut left = needed;
        for (head, len) in &room.chains {
            let written = left.min(*len);
            rx.push(memory, *head, written as u32)?;
            left -= written;
        }
        Ok(())
    }
}

/// Step 5.
fn copy<M: GuestMemory>(
    from: &M,
    to: &M,
    offers: &Offers,
    frame: &mut Frame,
    room: &mut Room,
    buffers: u16,
) -> Result<(), Side> {
    let before = frame.complete(offers, from).map_err(|Gone| Side::Sender)?;
    let written = write(to, frame.start(buffers, offers), room);
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
