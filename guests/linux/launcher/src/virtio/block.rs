//! A block device (virtio 1.2, section 5.2): requests for sectors of 512 bytes, over a [`Backing`].

use vm_memory::{Bytes, VolatileSlice};

use super::queue::{Broken, Chain, Range, SIZE};
use super::{Device, VERSION_1};

/// The kind of the device.
const BLOCK: u32 = 2;
const FEATURE_SEG_MAX: u64 = 1 << 2;
const FEATURE_READ_ONLY: u64 = 1 << 5;
const FEATURE_BLOCK_SIZE: u64 = 1 << 6;
const FEATURE_FLUSH: u64 = 1 << 9;
const FEATURE_INDIRECT: u64 = 1 << 28;

/// What a request asks for.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;

/// Answers.
const OK: u8 = 0;
const FAILED: u8 = 1;
const UNSUPPORTED: u8 = 2;

const SECTOR: u64 = 512;
const HEADER: usize = 16;
/// Bytes that are copied at once.
const PIECE: usize = 256 << 10;

/// What holds the device's content. Offsets and lengths are multiples of [`Backing::block`], in bytes.
pub trait Backing: Send {
    /// The smallest unit of reads and writes in bytes: a power of two from 512 on.
    fn block(&self) -> u32;
    /// Its size in bytes.
    fn size(&self) -> u64;
    /// Whether it cannot be written.
    fn read_only(&self) -> bool;
    /// Fills `bytes` from there on.
    ///
    /// # Errors
    /// Those of the disk or file.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()>;
    /// Writes `bytes` there. They are safe only after the next [`Backing::flush`].
    ///
    /// # Errors
    /// Those of the disk or file.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()>;
    /// Makes safe what was written before.
    ///
    /// # Errors
    /// Those of the disk or file.
    fn flush(&mut self) -> std::io::Result<()>;
}

/// The device.
pub struct Block<B> {
    backing: B,
    config: [u8; 24],
    piece: Vec<u8>,
}

impl<B: Backing> Block<B> {
    /// A device with this content.
    pub fn new(backing: B) -> Block<B> {
        let mut config = [0; 24];
        config[..8].copy_from_slice(&(backing.size() / SECTOR).to_le_bytes());
        // The most ranges of data in a request: header and answer are ranges, too.
        config[12..16].copy_from_slice(&u32::from(SIZE - 2).to_le_bytes());
        config[20..24].copy_from_slice(&backing.block().to_le_bytes());
        Block { backing, config, piece: Vec::new() }
    }

    /// Carries out a request whose data is in these ranges; returns its answer and the number of bytes read.
    fn carry_out(
        &mut self,
        memory: &VolatileSlice<'_>,
        kind: u32,
        sector: u64,
        data: &[Range],
    ) -> Result<(u8, u64), Broken> {
        let done = |result: std::io::Result<()>| if result.is_ok() { OK } else { FAILED };
        match kind {
            READ | WRITE => {}
            FLUSH => return Ok((done(self.backing.flush()), 0)),
            _ => return Ok((UNSUPPORTED, 0)),
        }
        let (size, block) = (self.backing.size(), u64::from(self.backing.block()));
        let len: u64 = data.iter().map(|range| u64::from(range.len)).sum();
        let Some(start) = sector.checked_mul(SECTOR) else { return Ok((FAILED, 0)) };
        let fits = start.checked_add(len).is_some_and(|end| end <= size);
        let whole_blocks = start.is_multiple_of(block) && len.is_multiple_of(block);
        if !fits || !whole_blocks || kind == WRITE && self.backing.read_only() {
            return Ok((FAILED, 0));
        }
        let mut cursor = Cursor { ranges: data, offset: 0 };
        let mut at = start;
        while at < start + len {
            let part = PIECE.min((start + len - at) as usize);
            self.piece.resize(part, 0);
            let moved = if kind == READ {
                let read = self.backing.read(at, &mut self.piece);
                if read.is_ok() {
                    cursor.write(memory, &self.piece)?;
                }
                read
            } else {
                cursor.read(memory, &mut self.piece)?;
                self.backing.write(at, &self.piece)
            };
            if moved.is_err() {
                return Ok((FAILED, 0));
            }
            at += part as u64;
        }
        Ok((OK, if kind == READ { len } else { 0 }))
    }
}

impl<B: Backing> Device for Block<B> {
    fn id(&self) -> u32 {
        BLOCK
    }

    fn features(&self) -> u64 {
        let read_only = if self.backing.read_only() { FEATURE_READ_ONLY } else { 0 };
        VERSION_1 | FEATURE_INDIRECT | FEATURE_SEG_MAX | FEATURE_BLOCK_SIZE | FEATURE_FLUSH | read_only
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    /// A request is a header of 16 bytes (kind, a word for nothing, first sector), data, and a byte for the answer.
    fn handle(&mut self, memory: &VolatileSlice<'_>, chain: &Chain) -> Result<u32, Broken> {
        let mut readable = Cursor { ranges: &chain.readable, offset: 0 };
        let mut header = [0; HEADER];
        readable.read(memory, &mut header)?;
        let [k0, k1, k2, k3, _, _, _, _, sector @ ..] = header;
        let (kind, sector) = (u32::from_le_bytes([k0, k1, k2, k3]), u64::from_le_bytes(sector));
        // The answer is the last byte.
        let mut writable = chain.writable.clone();
        let end = writable.iter_mut().rev().find(|range| range.len > 0).ok_or(Broken)?;
        end.len -= 1;
        let place = usize::try_from(end.address + u64::from(end.len))?;
        let data = if kind == READ { writable } else { readable.left() };
        let (answer, read) = self.carry_out(memory, kind, sector, &data)?;
        memory.write_obj(answer, place)?;
        Ok(u32::try_from(read + 1).unwrap_or(u32::MAX))
    }
}

/// A place in a sequence of ranges.
struct Cursor<'a> {
    ranges: &'a [Range],
    /// In the first range.
    offset: u32,
}

impl Cursor<'_> {
    /// Goes through the next `len` bytes, in parts: place in the memory, and place and length in the sequence.
    fn parts(
        &mut self,
        len: usize,
        mut each: impl FnMut(usize, usize, usize) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let mut done = 0;
        while done < len {
            let (first, rest) = self.ranges.split_first().ok_or(Broken)?;
            let part = (len - done).min((first.len - self.offset) as usize);
            each(usize::try_from(first.address + u64::from(self.offset))?, done, part)?;
            done += part;
            self.offset += part as u32;
            if self.offset == first.len {
                (self.ranges, self.offset) = (rest, 0);
            }
        }
        Ok(())
    }

    fn read(&mut self, memory: &VolatileSlice<'_>, bytes: &mut [u8]) -> Result<(), Broken> {
        self.parts(bytes.len(), |place, at, len| Ok(memory.read_slice(&mut bytes[at..at + len], place)?))
    }

    fn write(&mut self, memory: &VolatileSlice<'_>, bytes: &[u8]) -> Result<(), Broken> {
        self.parts(bytes.len(), |place, at, len| Ok(memory.write_slice(&bytes[at..at + len], place)?))
    }

    /// What is behind it.
    fn left(&self) -> Vec<Range> {
        let mut left = self.ranges.to_vec();
        if let Some(first) = left.first_mut() {
            first.address += u64::from(self.offset);
            first.len -= self.offset;
        }
        left
    }
}
