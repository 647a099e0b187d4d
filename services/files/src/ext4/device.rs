//! The disk beneath `rsext4`. It enforces the order in which the last blocks reach the disk.
//!
//! `rsext4` 0.9.2 writes two kinds of blocks that say "the journal is not needed any more": the superblock when it
//! unmounts, and the journal's superblock when it replays the journal or makes room in it. It flushes once after these
//! blocks and the blocks that the journal was needed for. When the power goes, a disk may have written any of them and
//! lost the others. So this module delays such blocks:
//!
//! 1. A write to the superblock, or of a block that looks like a journal's superblock, is kept in memory. Reads find it
//!    there.
//! 2. At the next flush, the disk flushes all earlier writes.
//! 3. Then the kept blocks are written in their original order, with a flush after each. The superblock is written in
//!    the way of [`superblock`], so that no torn write can corrupt it. Before the journal's superblock says that the
//!    journal has content, the superblock says that the journal is needed; `rsext4` itself would leave that update in
//!    the journal.
//! 4. A superblock that says that the journal is not needed stays in memory, across flushes, until the journal's
//!    superblock says that the journal is empty. The opposite order loses nothing, but `e2fsck -p` does not repair such
//!    an image without a human.
//!
//! `rsext4` writes file content at once. If that write fails, it writes the content again at each sync, and every sync
//! would fail for every program. The writer has already got the error, so:
//!
//! 5. Writes that failed in a request are left out of the commit after it ([`Device::forgive`]). Writes to the journal
//!    are not left out: the journal does not retry them.
//!
//! `rsext4` sees no difference: writes before a flush may reach the disk in any order. File content that looks like a
//! journal's superblock is delayed as well. When [`MOST_KEPT`] blocks wait, the disk is flushed, so delayed content
//! never takes more memory than that.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use rsext4::{BlockIo, DeviceCapabilities, DeviceGeometry, Ext4Error, Ext4Result, SectorId};

use super::superblock::{self, FIRST, NEEDS_RECOVERY, SUPERBLOCK};
use crate::blocks::Blocks;

/// Position of the field in a journal's superblock that says where the log begins; 0 means that the journal is empty.
const JOURNAL_START: Range<usize> = 28..32;
/// A journal's blocks begin with this magic number in big-endian order, followed by the kind of block.
const JOURNAL_MAGIC: [u8; 4] = 0xc03b_3998_u32.to_be_bytes();
/// The kinds of block that are superblocks of version 1 and version 2.
const JOURNAL_SUPERBLOCKS: [[u8; 4]; 2] = [3_u32.to_be_bytes(), 4_u32.to_be_bytes()];
/// Maximum number of blocks that wait for a flush.
const MOST_KEPT: usize = 8;
/// Size of a cache piece in bytes, and number of pieces. `rsext4` itself caches almost nothing that it reads.
const PIECE: u64 = 4096;
const PIECES: usize = 1024;
/// Number of pieces for read-ahead, used when the piece before the first one is cached: the access is sequential.
const AHEAD: u64 = 16;

/// Bytes of read-ahead when one long read follows another.
const WINDOW: u64 = 256 << 10;

struct ReadAhead {
    offset: u64,
    bytes: Vec<u8>,
}

struct Inner {
    disk: Box<dyn Blocks>,
    kept: Vec<ReadAhead>,
    cache: HashMap<u64, Box<[u8]>>,
    /// Pieces in the cache, oldest first.
    ages: VecDeque<u64>,
    /// Where the last long read ended, and the bytes read ahead of it.
    run: u64,
    window: ReadAhead,
    /// A flush of the disk failed.
    failed: bool,
    /// Ranges whose write failed.
    unwritten: Vec<Range<u64>>,
    /// Ranges that writes leave out.
    forgiven: Vec<Range<u64>>,
    /// The journal's superblock on the disk says that the journal has content.
    in_journal: bool,
}

/// The disk. All clones share it, because `rsext4` does not return the device that it was given.
#[derive(Clone)]
pub struct Device(Rc<RefCell<Inner>>);

impl Device {
    /// Creates the device over a disk.
    pub fn new(disk: Box<dyn Blocks>) -> Device {
        let inner = Inner {
            disk,
            kept: Vec::new(),
            cache: HashMap::new(),
            ages: VecDeque::new(),
            run: 0,
            window: ReadAhead { offset: 0, bytes: Vec::new() },
            failed: false,
            unwritten: Vec::new(),
            forgiven: Vec::new(),
            in_journal: false,
        };
        Device(Rc::new(RefCell::new(inner)))
    }

    /// Returns the disk, if there is no other clone of the device.
    pub fn into_disk(self) -> Option<Box<dyn Blocks>> {
        Rc::into_inner(self.0).map(|inner| inner.into_inner().disk)
    }

    /// Whether there is a superblock on the disk.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn has_superblock(&self) -> std::io::Result<bool> {
        let mut inner = self.0.borrow_mut();
        let mut bytes = [0; 4096];
        if inner.disk.size() < bytes.len() as u64 {
            return Ok(false);
        }
        inner.disk.read(0, &mut bytes)?;
        Ok(superblock::is_superblock(&bytes[1024..2048]))
    }

    /// Whether the disk cannot be written.
    pub fn read_only(&self) -> bool {
        self.0.borrow().disk.read_only()
    }

    /// Begins a request: clears the record of earlier failures.
    pub fn begin(&self) {
        let mut inner = self.0.borrow_mut();
        inner.failed = false;
        inner.unwritten.clear();
    }

    /// Whether a write or a flush has failed since the last `begin`.
    pub fn has_failed(&self) -> bool {
        let inner = self.0.borrow();
        inner.failed || !inner.unwritten.is_empty()
    }

    /// Discards all data that is not on the disk. The disk's content is authoritative.
    pub fn reset(&self) {
        let mut inner = self.0.borrow_mut();
        inner.kept.clear();
        inner.cache.clear();
        inner.ages.clear();
        inner.window.bytes.clear();
        inner.in_journal = false;
    }

    /// Step 5: runs `call`, whose writes leave out the ranges that failed.
    pub fn forgive<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut inner = self.0.borrow_mut();
        inner.forgiven = std::mem::take(&mut inner.unwritten);
        drop(inner);
        let done = call();
        self.0.borrow_mut().forgiven.clear();
        done
    }
}

/// The byte offset of a transfer that lies entirely on the disk.
fn place(disk: &dyn Blocks, sector: SectorId, len: usize) -> Ext4Result<u64> {
    let offset = sector.raw().checked_mul(u64::from(disk.block())).ok_or_else(Ext4Error::overflow)?;
    let end = offset.checked_add(len as u64).ok_or_else(Ext4Error::overflow)?;
    if end > disk.size() { Err(Ext4Error::io().with_operation("beyond the disk")) } else { Ok(offset) }
}

impl ReadAhead {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn covers(&self, offset: u64, end: u64) -> bool {
        self.offset <= offset && end <= self.end()
    }

    /// Whether it is a superblock that says that the journal is not needed.
    fn needs_no_journal(&self) -> bool {
        let at = (SUPERBLOCK.start + NEEDS_RECOVERY.0 as u64).checked_sub(self.offset);
        let flags = at.and_then(|at| self.bytes.get(usize::try_from(at).ok()?));
        flags.is_some_and(|flags| flags & NEEDS_RECOVERY.1 == 0)
    }

    /// For a journal's superblock, whether the journal has content.
    fn in_journal(&self) -> Option<bool> {
        comes_last(&self.bytes).then(|| self.bytes[JOURNAL_START].iter().any(|byte| *byte != 0))
    }
}

/// Whether a block must not reach the disk before earlier writes.
fn comes_last(bytes: &[u8]) -> bool {
    bytes.starts_with(&JOURNAL_MAGIC) && JOURNAL_SUPERBLOCKS.iter().any(|kind| bytes[4..].starts_with(kind))
}

impl Inner {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        let piece = offset / PIECE;
        let whole = (piece + 1) * PIECE <= self.disk.size();
        if bytes.len() as u64 > PIECE - offset % PIECE || !whole {
            self.read_long(offset, bytes)?;
        } else {
            if !self.cache.contains_key(&piece) {
                self.read_pieces(piece)?;
            }
            if let Some(cached) = self.cache.get(&piece) {
                let at = (offset % PIECE) as usize;
                bytes.copy_from_slice(&cached[at..at + bytes.len()]);
            }
        }
        // Step 1.
        for kept in &self.kept {
            overlay(bytes, offset, &kept.bytes, kept.offset);
        }
        Ok(())
    }

    /// Reads a range longer than a piece.
    fn read_long(&mut self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        let end = offset + bytes.len() as u64;
        if !self.window.covers(offset, end) && offset == self.run && end - offset < WINDOW {
            let mut ahead = std::mem::take(&mut self.window.bytes);
            ahead.resize(WINDOW.min(self.disk.size() - offset) as usize, 0);
            // The bad sector may be in the read-ahead range, which no request needs.
            if self.disk.read(offset, &mut ahead).is_ok() {
                self.window = ReadAhead { offset, bytes: ahead };
            }
        }
        if self.window.covers(offset, end) {
            let at = (offset - self.window.offset) as usize;
            bytes.copy_from_slice(&self.window.bytes[at..at + bytes.len()]);
        } else {
            self.disk.read(offset, bytes)?;
        }
        self.run = end;
        Ok(())
    }

    /// Reads a piece into the cache. If the access is sequential, it reads the following pieces, too.
    fn read_pieces(&mut self, piece: u64) -> std::io::Result<()> {
        let follows = piece.checked_sub(1).is_some_and(|before| self.cache.contains_key(&before));
        let most = if follows { AHEAD.min(self.disk.size() / PIECE - piece) } else { 1 };
        let missing = (piece..piece + most).take_while(|piece| !self.cache.contains_key(piece)).count();
        let mut fresh = vec![0; missing * PIECE as usize];
        if let Err(error) = self.disk.read(piece * PIECE, &mut fresh) {
            if missing <= 1 {
                return Err(error);
            }
            // The bad sector may be in the read-ahead pieces, which no request needs.
            fresh.truncate(PIECE as usize);
            self.disk.read(piece * PIECE, &mut fresh)?;
        }
        for (piece, bytes) in (piece..).zip(fresh.chunks_exact(PIECE as usize)) {
            self.remember(piece, bytes.into());
        }
        Ok(())
    }

    fn remember(&mut self, piece: u64, bytes: Box<[u8]>) {
        if self.ages.len() >= PIECES
            && let Some(oldest) = self.ages.pop_front()
        {
            self.cache.remove(&oldest);
        }
        self.ages.push_back(piece);
        self.cache.insert(piece, bytes);
    }

    /// Step 5.
    fn write_through(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let end = offset + bytes.len() as u64;
        let Some(forgiven) = self.forgiven.iter().find(|forgiven| forgiven.start < end && offset < forgiven.end) else {
            return self.write_all_through(offset, bytes);
        };
        let (first, last) = (forgiven.start.max(offset), forgiven.end.min(end));
        for (at, part) in [(offset, &bytes[..(first - offset) as usize]), (last, &bytes[(last - offset) as usize..])] {
            if !part.is_empty() {
                self.write_through(at, part)?;
            }
        }
        Ok(())
    }

    fn write_all_through(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        for piece in offset / PIECE..(offset + bytes.len() as u64).div_ceil(PIECE) {
            if let Some(cached) = self.cache.get_mut(&piece) {
                overlay(cached, piece * PIECE, bytes, offset);
            }
        }
        if self.window.offset < offset + bytes.len() as u64 && offset < self.window.end() {
            self.window.bytes.clear();
        }
        let written = self.disk.write(offset, bytes);
        if written.is_err() {
            self.unwritten.push(offset..offset + bytes.len() as u64);
            // The disk's content there is unknown.
            self.cache.clear();
            self.ages.clear();
        }
        written
    }

    /// Step 1.
    fn keep(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        // Replaces only the block that came last. Any other kept block stays, because the blocks kept after it must
        // come after it.
        if let Some(kept) = self.kept.last_mut().filter(|kept| kept.offset == offset && kept.bytes.len() == bytes.len())
        {
            kept.bytes.copy_from_slice(bytes);
            return Ok(());
        }
        if self.kept.len() >= MOST_KEPT {
            self.flush()?;
        }
        if offset <= SUPERBLOCK.start {
            // The new block replaces a superblock that was held back.
            self.kept.retain(|kept| kept.offset != offset || !kept.needs_no_journal());
        }
        self.kept.push(ReadAhead { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    /// Updates kept blocks with newer content for their range.
    fn forget_kept(&mut self, offset: u64, bytes: &[u8]) {
        for kept in &mut self.kept {
            overlay(&mut kept.bytes, kept.offset, bytes, offset);
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let done = self.flush_in_order();
        self.failed |= done.is_err();
        done
    }

    fn flush_in_order(&mut self) -> std::io::Result<()> {
        // Step 2.
        self.disk.flush()?;
        if self.kept.is_empty() {
            return Ok(());
        }
        // Steps 3 and 4. A block that cannot be written yet keeps waiting.
        let comes_now =
            |inner: &Inner| inner.kept.iter().position(|kept| !(inner.in_journal && kept.needs_no_journal()));
        while let Some(place) = comes_now(self) {
            let (offset, bytes) = (self.kept[place].offset, self.kept[place].bytes.clone());
            if !self.in_journal && self.kept[place].in_journal() == Some(true) {
                self.need_journal()?;
            }
            if offset == SUPERBLOCK.start {
                self.write_superblock(bytes)?;
            } else {
                self.write_through(offset, &bytes)?;
                self.disk.flush()?;
            }
            self.in_journal = self.kept.remove(place).in_journal().unwrap_or(self.in_journal);
        }
        Ok(())
    }
}

impl Inner {
    /// Writes blocks that begin with the superblock, and flushes (step 3).
    fn write_superblock(&mut self, mut bytes: Vec<u8>) -> std::io::Result<()> {
        let mut old = [0; 1024];
        // A disk with larger sectors does not tear the superblock.
        if bytes.len() == old.len() && self.disk.block() as usize <= FIRST {
            self.disk.read(SUPERBLOCK.start, &mut old)?;
            if superblock::is_whole(&old) {
                let mut first = old;
                first[..FIRST].copy_from_slice(&bytes[..FIRST]);
                superblock::fit(&mut first);
                self.write_through(SUPERBLOCK.start, &first[..FIRST])?;
                self.disk.flush()?;
                bytes[..FIRST].copy_from_slice(&first[..FIRST]);
                superblock::seal(&mut bytes);
                if bytes[FIRST..] == old[FIRST..] {
                    return Ok(());
                }
                self.write_through(SUPERBLOCK.start + FIRST as u64, &bytes[FIRST..])?;
                return self.disk.flush();
            }
        }
        self.write_through(SUPERBLOCK.start, &bytes)?;
        self.disk.flush()
    }

    /// Sets the flag "journal needed" in the superblock on the disk (step 3).
    fn need_journal(&mut self) -> std::io::Result<()> {
        let block = u64::from(self.disk.block());
        let (first, end) = (SUPERBLOCK.start / block * block, SUPERBLOCK.end.next_multiple_of(block));
        let mut bytes = vec![0; (end - first) as usize];
        self.disk.read(first, &mut bytes)?;
        let at = (SUPERBLOCK.start - first) as usize;
        let superblock = &mut bytes[at..at + 1024];
        let (byte, bit) = NEEDS_RECOVERY;
        if !superblock::is_superblock(superblock) || superblock[byte] & bit != 0 {
            return Ok(());
        }
        superblock[byte] |= bit;
        superblock::seal(superblock);
        if first == SUPERBLOCK.start {
            return self.write_superblock(bytes);
        }
        self.write_through(first, &bytes)?;
        self.disk.flush()
    }
}

/// Copies the part of `source` (at offset `from`) that overlaps `target` (at offset `at`) into `target`.
fn overlay(target: &mut [u8], at: u64, source: &[u8], from: u64) {
    let (end, last) = (at + target.len() as u64, from + source.len() as u64);
    let (first, last) = (at.max(from), end.min(last));
    if first < last {
        let (to, of, len) = ((first - at) as usize, (first - from) as usize, (last - first) as usize);
        target[to..to + len].copy_from_slice(&source[of..of + len]);
    }
}

fn of_io(_error: std::io::Error) -> Ext4Error {
    Ext4Error::io()
}

impl BlockIo for Device {
    fn write(&mut self, buffer: &[u8], sector: SectorId, _count: u32) -> Ext4Result<()> {
        let mut inner = self.0.borrow_mut();
        let offset = place(&*inner.disk, sector, buffer.len())?;
        let end = offset + buffer.len() as u64;
        // The disk blocks that hold the superblock are kept. The bytes around them are written at once.
        let block = u64::from(inner.disk.block());
        let (first, last) = (SUPERBLOCK.start / block * block, SUPERBLOCK.end.next_multiple_of(block));
        let (first, last) = (first.max(offset), last.min(end));
        if first < last {
            let (before, rest) = buffer.split_at((first - offset) as usize);
            let (superblock, behind) = rest.split_at((last - first) as usize);
            for (at, bytes) in [(offset, before), (last, behind)] {
                if !bytes.is_empty() {
                    inner.write_through(at, bytes).map_err(of_io)?;
                }
            }
            return inner.keep(first, superblock).map_err(of_io);
        }
        if comes_last(buffer) {
            return inner.keep(offset, buffer).map_err(of_io);
        }
        inner.forget_kept(offset, buffer);
        inner.write_through(offset, buffer).map_err(of_io)
    }

    fn read(&mut self, buffer: &mut [u8], sector: SectorId, _count: u32) -> Ext4Result<()> {
        let mut inner = self.0.borrow_mut();
        let offset = place(&*inner.disk, sector, buffer.len())?;
        inner.read(offset, buffer).map_err(of_io)
    }

    fn geometry(&self) -> DeviceGeometry {
        let inner = self.0.borrow();
        DeviceGeometry::new(inner.disk.block(), inner.disk.size() / u64::from(inner.disk.block()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        DeviceCapabilities { read_only: self.read_only(), flush: true, ..DeviceCapabilities::default() }
    }

    fn flush(&mut self) -> Ext4Result<()> {
        self.0.borrow_mut().flush().map_err(of_io)
    }
}
