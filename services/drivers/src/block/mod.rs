//! The block protocol between a disk's driver and its clients. [`Disk`] is the client's side.
//!
//! A client connects to the service, sends [`OPEN`] and gets the disk's [`Geometry`], one end of a FIFO, and a VMO. The
//! VMO is the buffer. The driver creates it, because the disk reads and writes it directly. The client then writes a
//! [`Request`] into the FIFO and reads an [`Answer`] when the request is done. Several requests may be in flight, and
//! the answers may come in any order. The only copy is between the client's memory and the buffer.
//!
//! When the driver ends, channel and FIFO close. Answered requests are done. Requests without an answer may be done, in
//! part, or not at all. So a client connects again and repeats them.

#[cfg(target_os = "fuchsia")]
mod client;

#[cfg(target_os = "fuchsia")]
pub use client::Disk;

/// The first message of a client.
pub const OPEN: u8 = 1;
/// Size of a request and of an answer in the FIFO, in bytes.
pub const ELEMENT: usize = 32;
/// Number of elements of the FIFO. A client never has more requests in flight.
pub const MOST: usize = 16;

/// A disk's geometry, and the size of the buffer that its client shares with its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of a block in bytes.
    pub block: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// The disk cannot be written.
    pub read_only: bool,
    /// Size of the buffer in bytes.
    pub buffer: u32,
}

impl Geometry {
    /// Size of its message in bytes.
    pub const SIZE: usize = 20;

    /// Encodes it for a message.
    pub fn to_bytes(self) -> [u8; Geometry::SIZE] {
        let mut bytes = [0; Geometry::SIZE];
        bytes[..4].copy_from_slice(&self.block.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.buffer.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[16] = self.read_only.into();
        bytes
    }

    /// Decodes it from a message.
    pub fn from_bytes(bytes: &[u8]) -> Option<Geometry> {
        let bytes: &[u8; Geometry::SIZE] = bytes.try_into().ok()?;
        let shape = Geometry {
            block: u32::from_le_bytes(*bytes[..4].first_chunk()?),
            buffer: u32::from_le_bytes(*bytes[4..8].first_chunk()?),
            blocks: u64::from_le_bytes(*bytes[8..16].first_chunk()?),
            read_only: bytes[16] != 0,
        };
        // Callers may divide by the size of a block.
        (shape.block > 0 && shape.buffer >= shape.block).then_some(shape)
    }
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From the disk into the buffer.
    Read,
    /// From the buffer to the disk.
    Write,
    /// Makes all writes that were answered before durable, also across a power cut.
    Flush,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The client's number for the request, which the answer repeats.
    pub id: u32,
    /// The first block on the disk.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Offset in the buffer in bytes, a multiple of the block size.
    pub offset: u32,
}

impl Request {
    /// Encodes it for the FIFO.
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

    /// Decodes it from the FIFO.
    ///
    /// # Errors
    /// The request's number, if the rest is not a valid request.
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
    /// `ZX_OK` or an error.
    pub status: i32,
}

impl Answer {
    /// Encodes it for the FIFO.
    pub fn to_bytes(self) -> [u8; ELEMENT] {
        let mut bytes = [0; ELEMENT];
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.status.to_le_bytes());
        bytes
    }

    /// Decodes it from the FIFO.
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
        let shape = Geometry { block: 512, blocks: 1 << 40, read_only: true, buffer: 1 << 19 };
        assert_eq!(Geometry::from_bytes(&shape.to_bytes()), Some(shape));
        assert_eq!(Geometry::from_bytes(&Geometry { block: 0, ..shape }.to_bytes()), None);
        assert_eq!(Geometry::from_bytes(&[]), None);
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
