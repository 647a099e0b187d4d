//! Frames, and what is counted of them.

use virtqueue::{Chain, Gone, Memory, Part};

use crate::offload::{Offers, Offload, complete};

/// Bytes of virtio's header before a frame.
pub const HEADER: usize = 12;
/// Bytes of a frame that are copied to private memory.
pub const HEAD: usize = 128;
/// The shortest frame: the two addresses and the type.
pub const SHORTEST_FRAME: usize = 14;
/// The longest one: Ethernet's header, and an IP packet with its VLAN tag.
pub const LONGEST_FRAME: usize = 65_550;

/// Why a frame was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It is too short or too long.
    Length,
    /// Its source address is not the port's.
    Source,
    /// No port has its destination address.
    Unknown,
    /// The rules do not let the sender send there.
    Rule,
    /// The receiver's port has no guest, or its queue does not run.
    Down,
    /// The receiver has no free buffers.
    NoBuffer,
    /// The receiver's buffers are too small for it.
    TooLong,
    /// The receiver's queue or memory is broken.
    Broken,
    /// virtio's header of the frame lies, or the frame cannot be cut for a receiver that does not take large segments.
    Offload,
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = 9;
    /// All reasons, with their names in messages.
    pub const ALL: [(DropReason, &'static str); Self::COUNT] = [
        (DropReason::Length, "length"),
        (DropReason::Source, "source"),
        (DropReason::Unknown, "unknown"),
        (DropReason::Rule, "rule"),
        (DropReason::Down, "down"),
        (DropReason::NoBuffer, "no-buffer"),
        (DropReason::TooLong, "too-long"),
        (DropReason::Broken, "broken"),
        (DropReason::Offload, "offload"),
    ];
}

/// What is counted at a port. Drops are counted at the sender's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that the guest has sent, delivered or not.
    pub sent: u64,
    /// Frames that the guest has got.
    pub received: u64,
    /// Copies of its frames that were delivered to other ports.
    pub delivered: u64,
    /// Copies of its frames that were dropped, by reason.
    pub dropped: [u64; DropReason::COUNT],
}

impl Counters {
    /// Counts a drop.
    pub fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}

/// A frame on its way: private bytes, and the rest in the sender's memory.
#[derive(Debug)]
pub struct Frame {
    /// virtio's header, then the first bytes of the frame.
    pub(crate) start: [u8; HEADER + HEAD],
    /// How many bytes of `start` there are.
    pub(crate) started: usize,
    /// The rest.
    pub(crate) rest: Vec<Part>,
    /// Bytes of the whole frame, without the header.
    pub(crate) len: usize,
    /// What the header asked for.
    pub(crate) offload: Offload,
}

impl Frame {
    /// An empty one.
    pub fn new() -> Frame {
        Frame { start: [0; HEADER + HEAD], started: 0, rest: Vec::new(), len: 0, offload: Offload::default() }
    }

    /// Step 2, of a frame behind so many bytes of virtio's header, all of it or none. Returns why the frame is dropped, if
    /// it is.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn gather<M: Memory>(
        &mut self,
        memory: &M,
        (chain, header): (&Chain, usize),
        sender: &Offers,
    ) -> Result<Option<DropReason>, Gone> {
        self.rest.clear();
        self.started = HEADER - header;
        let len = usize::try_from(chain.len).ok().and_then(|len| len.checked_sub(header));
        let Some(len) = len.filter(|len| (SHORTEST_FRAME..=LONGEST_FRAME).contains(len)) else {
            return Ok(Some(DropReason::Length));
        };
        self.len = len;
        for part in &chain.parts {
            let wanted = self.start.len() - self.started;
            let count = wanted.min(part.len as usize);
            if count > 0 {
                memory.read(part.at, &mut self.start[self.started..self.started + count])?;
                self.started += count;
            }
            if count < part.len as usize {
                self.rest.push(Part { at: part.at + count as u64, len: part.len - count as u32 });
            }
        }
        self.start[..HEADER - header].fill(0);
        match Offload::read(&self.start[..self.started], len, sender) {
            Some(offload) => {
                self.offload = offload;
                Ok(None)
            }
            None => Ok(Some(DropReason::Offload)),
        }
    }

    /// Whether a receiver takes it, perhaps after its checksum was completed.
    pub fn is_for(&self, receiver: &Offers) -> bool {
        self.offload.is_for(receiver)
    }

    /// Completes the checksum if the receiver needs that. Returns what [`Frame::restore`] needs.
    ///
    /// # Errors
    /// The sender's memory has gone.
    pub fn complete<M: Memory>(&mut self, receiver: &Offers, memory: &M) -> Result<Option<(usize, [u8; 2])>, Gone> {
        let Some((from, at)) = self.offload.needs_sum(receiver) else { return Ok(None) };
        let place = HEADER + usize::from(from) + usize::from(at);
        let before = self.start.get(place..).and_then(|bytes| bytes.first_chunk()).copied();
        let Some(frame) = self.start.get_mut(HEADER..self.started) else { return Ok(None) };
        complete(frame, &self.rest, memory, (from, at))?;
        Ok(before.map(|before| (place, before)))
    }

    /// Puts the sum of the pseudo header back, for the next receiver.
    pub fn restore(&mut self, before: Option<(usize, [u8; 2])>) {
        if let Some((place, before)) = before
            && let Some(bytes) = self.start.get_mut(place..place + 2)
        {
            bytes.copy_from_slice(&before);
        }
    }

    /// Bytes of the whole frame, without virtio's header.
    pub fn len(&self) -> usize {
        self.len
    }

    /// virtio's header with this number of buffers, for this receiver, and the private bytes of the frame.
    pub fn start(&mut self, buffers: u16, receiver: &Offers) -> &[u8] {
        self.start[..HEADER - 2].copy_from_slice(&self.offload.header(receiver));
        self.start[HEADER - 2..HEADER].copy_from_slice(&buffers.to_le_bytes());
        &self.start[..self.started]
    }

    /// The rest, in the sender's memory.
    pub fn rest(&self) -> &[Part] {
        &self.rest
    }

    /// The destination's address.
    pub fn destination(&self) -> [u8; 6] {
        let [a, b, c, d, e, f, ..] = *self.addresses();
        [a, b, c, d, e, f]
    }

    /// The source's address.
    pub fn source(&self) -> [u8; 6] {
        let [.., a, b, c, d, e, f] = *self.addresses();
        [a, b, c, d, e, f]
    }

    fn addresses(&self) -> &[u8; 12] {
        self.start[HEADER..].first_chunk().unwrap_or(&[0; 12])
    }
}
