//! Frames, and what is counted of them.

use virtqueue::{Chain, Gone, Memory, Part};

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
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = 8;
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
    start: [u8; HEADER + HEAD],
    /// How many bytes of `start` there are.
    started: usize,
    /// The rest.
    rest: Vec<Part>,
    /// Bytes of the whole frame, without the header.
    len: usize,
}

impl Frame {
    /// An empty one.
    pub fn new() -> Frame {
        Frame { start: [0; HEADER + HEAD], started: 0, rest: Vec::new(), len: 0 }
    }

    /// Step 2. Returns false if the frame is too short or too long.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn gather<M: Memory>(&mut self, memory: &M, chain: &Chain) -> Result<bool, Gone> {
        self.rest.clear();
        self.started = 0;
        let len = usize::try_from(chain.len).ok().and_then(|len| len.checked_sub(HEADER));
        let Some(len) = len.filter(|len| (SHORTEST_FRAME..=LONGEST_FRAME).contains(len)) else { return Ok(false) };
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
        Ok(true)
    }

    /// Bytes of the whole frame, without virtio's header.
    pub fn len(&self) -> usize {
        self.len
    }

    /// virtio's header with this number of buffers, and the private bytes of the frame.
    pub fn start(&mut self, buffers: u16) -> &[u8] {
        // No checksum is left to the receiver, and no frame is a large segment.
        self.start[..HEADER - 2].fill(0);
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
