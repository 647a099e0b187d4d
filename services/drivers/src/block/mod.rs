//! Blocks of a disk: what a disk's driver and its clients send each other; [`Disk`] is the client's side.
//!
//! A client connects to the service, sends [`OPEN`] and gets the disk's [`Shape`], one end of a FIFO, and a VMO: the
//! buffer, which the driver made, because the disk reads and writes it directly. From then on a [`Request`] goes into
//! the FIFO, and an [`Answer`] comes out when it is done; several may be under way, and they may be answered in any order.
//! Nothing is copied but between the client and the buffer.
//!
//! When the driver ends, so do channel and FIFO. Whatever was answered is done; what was not may be done, in part, or not
//! at all. So a client connects again and repeats what was not answered.

#[cfg(target_os = "fuchsia")]
mod client;

#[cfg(target_os = "fuchsia")]
pub use client::Disk;

/// The first message of a client.
pub const OPEN: u8 = 1;
/// Bytes of a request and of an answer in the FIFO.
pub const ELEMENT: usize = 32;
/// Elements of the FIFO; a client never has more requests under way.
pub const MOST: usize = 16;

/// A disk, and how to speak with its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a block.
    pub block: u32,
    /// How many blocks it has.
    pub blocks: u64,
    /// It cannot be written.
    pub read_only: bool,
    /// Bytes of the buffer.
    pub buffer: u32,
}

impl Shape {
    /// Bytes of its message.
    pub const SIZE: usize = 20;

    /// For a message.
    pub fn to_bytes(self) -> [u8; Shape::SIZE] {
        let mut bytes = [0; Shape::SIZE];
        bytes[..4].copy_from_slice(&self.block.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.buffer.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[16] = self.read_only.into();
        bytes
    }

    /// From a message.
    pub fn from_bytes(bytes: &[u8]) -> Option<Shape> {
        let bytes: &[u8; Shape::SIZE] = bytes.try_into().ok()?;
        let shape = Shape {
            block: u32::from_le_bytes(*bytes[..4].first_chunk()?),
            buffer: u32::from_le_bytes(*bytes[4..8].first_chunk()?),
            blocks: u64::from_le_bytes(*bytes[8..16].first_chunk()?),
            read_only: bytes[16] != 0,
        };
        // Whoever divides by a block's size may rely on it.
        (shape.block > 0 && shape.buffer >= shape.block).then_some(shape)
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From the disk into the buffer.
    Read,
    /// From the buffer to the disk.
    Write,
    /// Everything that was written and answered before stays, whatever happens to the machine.
    Flush,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// The client's number for it, which the answer bears.
    pub id: u32,
    /// The first block on the disk.
    pub block: u64,
    /// How many blocks.
    pub blocks: u32,
    /// Where in the buffer, in bytes; a multiple of a block's.
    pub offset: u32,
}

impl Request {
    /// For the FIFO.
    pub fn to_bytes(self) -> [u8; ELEMENT] {
        let mut bytes = [0; ELEMENT];
        bytes[0] = match self.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Flush => 2,
        };
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.block.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// From the FIFO; the number alone where the rest is no request.
    ///
    /// # Errors
    /// The number.
    pub fn from_bytes(bytes: &[u8; ELEMENT]) -> Result<Request, u32> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let id = word(4);
        let operation = match bytes[0] {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Flush,
            _ => return Err(id),
        };
        let block = u64::from(word(8)) | u64::from(word(12)) << 32;
        Ok(Request { operation, id, block, blocks: word(16), offset: word(20) })
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request's number.
    pub id: u32,
    /// `ZX_OK` or why not.
    pub status: i32,
}

impl Answer {
    /// For the FIFO.
    pub fn to_bytes(self) -> [u8; ELEMENT] {
        let mut bytes = [0; ELEMENT];
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.status.to_le_bytes());
        bytes
    }

    /// From the FIFO.
    pub fn from_bytes(bytes: &[u8; ELEMENT]) -> Answer {
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        Answer { id: u32::from_le_bytes(word(4)), status: i32::from_le_bytes(word(8)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shapes_and_back() {
        let shape = Shape { block: 512, blocks: 1 << 40, read_only: true, buffer: 1 << 19 };
        assert_eq!(Shape::from_bytes(&shape.to_bytes()), Some(shape));
        assert_eq!(Shape::from_bytes(&Shape { block: 0, ..shape }.to_bytes()), None);
        assert_eq!(Shape::from_bytes(&[]), None);
    }

    proptest! {
        #[test]
        fn requests_and_back(kind in 0u8..3, id in any::<u32>(), block in any::<u64>(), blocks in any::<u32>(), offset in any::<u32>()) {
            let operation = [Operation::Read, Operation::Write, Operation::Flush][usize::from(kind)];
            let request = Request { operation, id, block, blocks, offset };
            prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
            let answer = Answer { id, status: offset as i32 };
            prop_assert_eq!(Answer::from_bytes(&answer.to_bytes()), answer);
        }
    }
}
