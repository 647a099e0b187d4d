//! The queues of a port for which the other side uses the protocol [`netdevice`], whose steps the code refers to.
//!
//! The TCP/IP service is the client of such a session: the switch is its device ([`Role::Device`]). The driver of the card
//! is the device: the switch is its client ([`Role::Client`]). In both cases, what comes into the switch is in the queue
//! [`TX`], and what goes out of it in the queue [`RX`], as with a guest. Here are only numbers of descriptors: who has the
//! FIFOs gives those that came to [`Session::feed`], and passes on those of [`Session::take_done`].

use std::collections::VecDeque;

use netdevice::{
    DATA_LENGTH_AT, DESCRIPTOR, Descriptor, FRAME_ETHERNET, Fault, INBOUND_FLAGS_AT, Owned, RETURN_FLAGS_AT,
};
use virtqueue::{Chain, Memory, Part};

use crate::frame::SHORTEST_FRAME;
use crate::guest::{RX, TX, Wrong};

/// Where the descriptors and the frames of a session lie in its memory.
pub const DESCRIPTORS: u64 = 0;
/// See [`DESCRIPTORS`].
pub const FRAMES: u64 = 1 << 20;
/// Bytes of a frame at most: Ethernet's header and 1,500 bytes.
pub const LONGEST: usize = 1514;
/// Bytes of a buffer that the switch makes as a client. It divides a page.
pub const BUFFER: usize = 2048;

/// Which side of the protocol the switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It gets the client's descriptors, and checks them (5).
    Device,
    /// Descriptors and frames are its own; the driver fills them, and may write what it likes. A frame is at least this
    /// long when it goes out.
    Client { shortest: usize },
}

/// A session.
#[derive(Debug)]
pub struct Session {
    role: Role,
    /// Bytes of the VMO of frames.
    frames: usize,
    /// The descriptors that the switch has (5).
    owned: Owned,
    queues: [Numbers; 2],
}

/// One direction.
#[derive(Debug, Default)]
struct Numbers {
    /// Numbers that came and were not used yet.
    coming: VecDeque<u16>,
    /// Those that are in use: the last ones can be put back.
    used: Vec<u16>,
    /// Those that go to the other side.
    done: Vec<u16>,
}

/// Where a word of a descriptor is.
fn word(number: u16, at: usize) -> u64 {
    DESCRIPTORS + (usize::from(number) * DESCRIPTOR + at) as u64
}

impl Session {
    /// As the device of a client with this many descriptors, and this many bytes for frames.
    pub fn device(count: u16, frames: usize) -> Session {
        Session { role: Role::Device, frames, owned: Owned::new(count), queues: Default::default() }
    }

    /// As the client of a driver that fills the first `receive` of `count` buffers, and sends the others. No frame that it
    /// gets is shorter than `shortest`.
    pub fn client(receive: u16, count: u16, shortest: usize) -> Session {
        let mut session = Session {
            role: Role::Client { shortest },
            frames: usize::from(count) * BUFFER,
            owned: Owned::new(count),
            queues: Default::default(),
        };
        for number in receive..count {
            // Each number is one of `count`, and comes once.
            let _ = session.owned.take(number);
            session.queues[RX].coming.push_back(number);
        }
        session.queues[TX].done.extend(0..receive);
        session
    }

    /// Writes all descriptors of a client.
    ///
    /// # Errors
    /// [`Wrong`].
    pub fn describe<M: Memory>(memory: &M, count: u16) -> Result<(), Wrong> {
        for number in 0..count {
            let descriptor = Descriptor {
                frame_type: FRAME_ETHERNET,
                offset: (usize::from(number) * BUFFER) as u64,
                data_length: BUFFER as u32,
                ..Descriptor::default()
            };
            memory.write(word(number, 0), &descriptor.to_bytes())?;
        }
        Ok(())
    }

    /// How many numbers a queue has to go on with.
    pub fn left(&self, queue: usize) -> usize {
        self.queues[queue].coming.len()
    }

    /// Takes numbers that came for a queue.
    ///
    /// # Errors
    /// The other side had no right to one of them.
    pub fn feed(&mut self, queue: usize, numbers: impl IntoIterator<Item = u16>) -> Result<(), Fault> {
        for number in numbers {
            self.owned.take(number)?;
            self.queues[queue].coming.push_back(number);
        }
        Ok(())
    }

    /// Calls `give` with the numbers of a queue that go to the other side, if there are some.
    pub fn take_done(&mut self, queue: usize, give: impl FnOnce(&[u16])) {
        let done = &mut self.queues[queue].done;
        if !done.is_empty() {
            give(done);
            done.clear();
        }
    }

    /// The next frame, or the next free buffer. Returns false if there is none.
    ///
    /// # Errors
    /// [`Wrong`].
    #[inline(never)]
    pub fn pop<M: Memory>(&mut self, queue: usize, memory: &M, chain: &mut Chain) -> Result<bool, Wrong> {
        let numbers = &mut self.queues[queue];
        let Some(number) = numbers.coming.pop_front() else { return Ok(false) };
        numbers.used.push(number);
        let (offset, len) = match self.role {
            Role::Device => {
                let mut bytes = [0; DESCRIPTOR];
                memory.read(word(number, 0), &mut bytes)?;
                let (least, most) = if queue == TX { (SHORTEST_FRAME, LONGEST) } else { (LONGEST, 4096) };
                let buffer = Descriptor::from_bytes(&bytes).buffer(self.frames, least, most)?;
                // No frame that goes out is longer than what the other side's network carries.
                (buffer.offset, buffer.len.min(LONGEST))
            }
            Role::Client { .. } if queue == RX => (usize::from(number) * BUFFER, LONGEST),
            Role::Client { .. } => {
                let mut len = [0; 4];
                memory.read(word(number, DATA_LENGTH_AT), &mut len)?;
                // A frame that is too long for its network was not meant for anybody here; one of no length is none.
                let len = usize::try_from(u32::from_le_bytes(len)).ok().filter(|len| *len <= LONGEST);
                (usize::from(number) * BUFFER, len.unwrap_or(0))
            }
        };
        chain.head = number;
        chain.len = len as u64;
        chain.descriptors = 1;
        chain.parts.clear();
        chain.parts.push(Part { at: FRAMES + offset as u64, len: len as u32 });
        Ok(true)
    }

    /// Puts the last numbers back: they come again.
    #[inline(never)]
    pub fn put_back(&mut self, queue: usize, count: u16) {
        let Numbers { coming, used, .. } = &mut self.queues[queue];
        for _ in 0..count {
            let Some(number) = used.pop() else { break };
            coming.push_front(number);
        }
    }

    /// Is through with a number. In the queue [`RX`], `written` bytes of a frame are in its buffer.
    ///
    /// # Errors
    /// [`Wrong`].
    #[inline(never)]
    pub fn push<M: Memory>(&mut self, queue: usize, memory: &M, number: u16, written: u32) -> Result<(), Wrong> {
        let set = |at: usize, value: u32| memory.write(word(number, at), &value.to_le_bytes());
        match (self.role, queue) {
            (Role::Device, RX) => {
                set(DATA_LENGTH_AT, written)?;
                set(INBOUND_FLAGS_AT, 0)?;
            }
            (Role::Device, _) => set(RETURN_FLAGS_AT, 0)?,
            (Role::Client { shortest }, RX) => {
                // What was in the buffer before does not go out.
                let missing = shortest.min(LONGEST).saturating_sub(written as usize);
                let end = FRAMES + (usize::from(number) * BUFFER) as u64 + u64::from(written);
                memory.write(end, &[0; LONGEST][..missing])?;
                set(DATA_LENGTH_AT, written + missing as u32)?;
            }
            (Role::Client { .. }, _) => set(DATA_LENGTH_AT, BUFFER as u32)?,
        }
        let Numbers { used, done, .. } = &mut self.queues[queue];
        used.retain(|other| *other != number);
        self.owned.give(number)?;
        done.push(number);
        Ok(())
    }
}
