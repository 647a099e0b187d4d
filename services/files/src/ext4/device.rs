//! The disk beneath `rsext4`, with the order in which its last blocks get there.
//!
//! `rsext4` 0.9.2 writes two kinds of blocks that say "the journal is not needed any more" together with the blocks that the journal
//! was needed for, and flushes once behind all of them: the superblock when it unmounts, the journal's superblock when it replays and
//! when it makes room. A disk may keep any of them and lose the others when the power goes. So such a block waits here:
//!
//! 1. A write to the superblock, or of a block that looks like a journal's superblock, is kept in memory. Reads find it there.
//! 2. At the next flush the disk flushes what was written before;
//! 3. then the kept blocks are written, in the order in which they came, with a flush behind each; the superblock as [`superblock`] has it,
//!    which no torn write spoils. Before the journal's superblock says
//!    that there is something in it, the superblock says that the journal is needed: `rsext4` has that wait in the journal itself.
//! 4. A superblock that says that it is not needed stays behind, over flushes, until the journal's superblock says that it is empty. With
//!    the other order nothing is lost, but `e2fsck -p` leaves such an image to a human being.
//!
//! What a file holds `rsext4` writes at once, and where the disk does not take it again at each sync: then no sync would pass for anybody. Its
//! writer has been told, so:
//!
//! 5. Writes that failed in a request are left out of the commit behind it ([`Device::forgive`]). The journal's are not: it
//!    makes no second try of them.
//!
//! To `rsext4` nothing changes: what is written before a flush may reach the disk in any order. File content that looks like a
//! journal's superblock waits as well; when [`MOST_KEPT`] wait, the disk is flushed, so no content takes more memory than that.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use rsext4::{BlockIo, DeviceCapabilities, DeviceGeometry, Ext4Error, Ext4Result, SectorId};

use super::superblock::{self, FIRST, NEEDS_RECOVERY, SUPERBLOCK};
use crate::blocks::Blocks;

/// Where a journal's superblock says where in it the log begins: nowhere, if it is 0.
const JOURNAL_START: Range<usize> = 28..32;
/// A journal's blocks begin with this number, most significant byte first, and then with their kind.
const JOURNAL_MAGIC: [u8; 4] = 0xc03b_3998_u32.to_be_bytes();
/// The kinds that are superblocks, of the first and the second version.
const JOURNAL_SUPERBLOCKS: [[u8; 4]; 2] = [3_u32.to_be_bytes(), 4_u32.to_be_bytes()];
/// Blocks that wait for a flush, at most.
const MOST_KEPT: usize = 8;
/// Bytes of a piece in the cache, and pieces in it. `rsext4` keeps next to nothing of what it reads.
const PIECE: u64 = 4096;
const PIECES: usize = 1024;
/// Pieces that are read at once where the one before the first was read already: somebody goes through them.
const AHEAD: u64 = 16;

/// Bytes that are read at once where one long read follows another.
const WINDOW: u64 = 256 << 10;

struct Kept {
    offset: u64,
    bytes: Vec<u8>,
}

struct Inner {
    disk: Box<dyn Blocks>,
    kept: Vec<Kept>,
    cache: HashMap<u64, Box<[u8]>>,
    /// Pieces of the cache, the oldest first.
    ages: VecDeque<u64>,
    /// Where the last long read ended, and what was read ahead of it.
    run: u64,
    window: Kept,
    /// A flush of the disk failed.
    failed: bool,
    /// Writes that failed.
    unwritten: Vec<Range<u64>>,
    /// Writes that are left out.
    forgiven: Vec<Range<u64>>,
    /// The journal's superblock on the disk says that there is something in it.
    in_journal: bool,
}

/// The disk. All clones are the same: `rsext4` does not give back what it was given.
#[derive(Clone)]
pub struct Device(Rc<RefCell<Inner>>);

impl Device {
    /// The device over a disk.
    pub fn new(disk: Box<dyn Blocks>) -> Device {
        let inner = Inner {
            disk,
            kept: Vec::new(),
            cache: HashMap::new(),
            ages: VecDeque::new(),
            run: 0,
            window: Kept { offset: 0, bytes: Vec::new() },
            failed: false,
            unwritten: Vec::new(),
            forgiven: Vec::new(),
            in_journal: false,
        };
        Device(Rc::new(RefCell::new(inner)))
    }

    /// The disk, if nobody else has the device.
    pub fn into_disk(self) -> Option<Box<dyn Blocks>> {
        Rc::into_inner(self.0).map(|inner| inner.into_inner().disk)
    }

    /// Whether there is a superblock on the disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn has_superblock(&self) -> std::io::Result<bool> {
        let mut inner = self.0.borrow_mut();
        let mut bytes = [0; 4096];
        if inner.disk.size() < bytes.len() as u64 {
            return Ok(false);
        }
        inner.disk.read(0, &mut bytes)?;
        Ok(superblock::is_superblock(&bytes[1024..2048]))
    }

    /// Nothing can be written.
    pub fn read_only(&self) -> bool {
        self.0.borrow().disk.read_only()
    }

    /// A request begins: what failed before is past.
    pub fn begin(&self) {
        let mut inner = self.0.borrow_mut();
        inner.failed = false;
        inner.unwritten.clear();
    }

    /// Whether a write or a flush has failed since then.
    pub fn has_failed(&self) -> bool {
        let inner = self.0.borrow();
        inner.failed || !inner.unwritten.is_empty()
    }

    /// Forgets all that the disk did not take: what it has is what counts.
    pub fn reset(&self) {
        let mut inner = self.0.borrow_mut();
        inner.kept.clear();
        inner.cache.clear();
        inner.ages.clear();
        inner.window.bytes.clear();
        inner.in_journal = false;
    }

    /// Step 5, for what `call` writes.
    pub fn forgive<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut inner = self.0.borrow_mut();
        inner.forgiven = std::mem::take(&mut inner.unwritten);
        drop(inner);
        let done = call();
        self.0.borrow_mut().forgiven.clear();
        done
    }
}

/// The start of a transfer, in bytes, where all of it lies on the disk.
fn place(disk: &dyn Blocks, sector: SectorId, len: usize) -> Ext4Result<u64> {
    let offset = sector.raw().checked_mul(u64::from(disk.block())).ok_or_else(Ext4Error::overflow)?;
    let end = offset.checked_add(len as u64).ok_or_else(Ext4Error::overflow)?;
    if end > disk.size() { Err(Ext4Error::io().with_operation("beyond the disk")) } else { Ok(offset) }
}

impl Kept {
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

    /// Of a journal's superblock, whether there is something in the journal.
    fn in_journal(&self) -> Option<bool> {
        comes_last(&self.bytes).then(|| self.bytes[JOURNAL_START].iter().any(|byte| *byte != 0))
    }
}

/// Whether a block of the file system must not reach the disk before what was written earlier.
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

    /// Reads what is longer than a piece.
    fn read_long(&mut self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        let end = offset + bytes.len() as u64;
        if !self.window.covers(offset, end) && offset == self.run && end - offset < WINDOW {
            let mut ahead = std::mem::take(&mut self.window.bytes);
            ahead.resize(WINDOW.min(self.disk.size() - offset) as usize, 0);
            // A sector that cannot be read may lie in what nobody asked for.
            if self.disk.read(offset, &mut ahead).is_ok() {
                self.window = Kept { offset, bytes: ahead };
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

    /// Reads a piece into the cache, and those behind it where they are likely to be wanted next.
    fn read_pieces(&mut self, piece: u64) -> std::io::Result<()> {
        let follows = piece.checked_sub(1).is_some_and(|before| self.cache.contains_key(&before));
        let most = if follows { AHEAD.min(self.disk.size() / PIECE - piece) } else { 1 };
        let missing = (piece..piece + most).take_while(|piece| !self.cache.contains_key(piece)).count();
        let mut fresh = vec![0; missing * PIECE as usize];
        if let Err(error) = self.disk.read(piece * PIECE, &mut fresh) {
            if missing <= 1 {
                return Err(error);
            }
            // A sector that cannot be read may lie in what nobody asked for.
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
            // What the disk holds there is not known.
            self.cache.clear();
            self.ages.clear();
        }
        written
    }

    /// Step 1.
    fn keep(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        // One behind another stays there: in between may stand what the first had to come before.
        if let Some(kept) = self.kept.last_mut().filter(|kept| kept.offset == offset && kept.bytes.len() == bytes.len())
        {
            kept.bytes.copy_from_slice(bytes);
            return Ok(());
        }
        if self.kept.len() >= MOST_KEPT {
            self.flush()?;
        }
        if offset <= SUPERBLOCK.start {
            // One that stayed behind is overtaken.
            self.kept.retain(|kept| kept.offset != offset || !kept.needs_no_journal());
        }
        self.kept.push(Kept { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    /// Takes back what waits where something newer is written.
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
        // Steps 3 and 4. What cannot be written waits on.
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
    /// Writes what the disk is to hold from the superblock's start on, and flushes (step 3).
    fn write_superblock(&mut self, mut bytes: Vec<u8>) -> std::io::Result<()> {
        let mut old = [0; 1024];
        // A disk with longer sectors tears none of it.
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

    /// Has the superblock on the disk say that the journal is needed (step 3).
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

/// Copies into `target`, which lies at `at`, what `source` at `from` has for it.
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
        // The disk's blocks that hold the superblock wait; what lies around them goes its way.
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
