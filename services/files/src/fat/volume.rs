//! The bytes of a volume, with the interface that the crate `fatfs` needs: read, write and seek.
//!
//! A page cache lies between `fatfs` and the disk, because `fatfs` reads and writes a few bytes at a time in an order
//! of its own. Changes reach the disk in an order that loses nothing when the power goes, independent of the order of
//! the calls. FAT has no journal, so this order is the only protection:
//!
//! *To allocate clusters* ([`Plan::Grow`]: creating, writing, a second name):
//! 1. content, and new directories that nothing points to yet;
//! 2. flush; the table's sectors in which only free clusters change. If several sectors change clusters in use, only
//!    their entries of free clusters;
//! 3. flush; the sectors that change a cluster in use: the link to the new clusters;
//! 4. flush; directories in the order of their last change, with a flush between two sectors.
//!
//! *To free clusters* ([`Plan::Shrink`]: removing, truncating):
//! 5. directories, the last change first, with a flush between two sectors;
//! 6. flush; the table. If several sectors change, the new ends of chains come first, followed by a flush.
//!
//! Intermediate states on the disk differ in a name that exists or not, and in lost clusters. A name never points to
//! clusters of another file. A change that fails midway is undone in the cache before any of it reaches the disk
//! ([`Volume::discard`]).
//!
//! On a damaged volume a chain of clusters may have a cycle, and `fatfs` would loop. So each request has *fuel*, more
//! than any valid request needs. When it is used up, reads fail.
//!
//! This module maintains the flag "in use". `fatfs` would clear it only when it ends. The flag is on the disk before
//! the first change, and is cleared when everything is on the disk and nothing is open.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::ops::Range;
use std::rc::Rc;

use super::layout::Layout;
use crate::blocks::Blocks;

/// Size of a cached page in bytes, a multiple of a sector.
const PAGE: u64 = 4096;
/// Size of a sector in bytes: the unit that a disk writes atomically.
const SECTOR: u64 = 512;
/// Pages of one read-ahead, and the maximum size of one write in bytes.
const AHEAD: u64 = 16;
const RUN: u64 = AHEAD * PAGE;
/// Number of pages that are cached between requests.
const KEPT: usize = 1024;
/// The fuel of a request: this many reads and writes, and one more for each page of the volume.
const FUEL: u64 = 3_000_000;
/// The flag "in use".
const IN_USE: u8 = 1;

/// The order in which changes reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// For changes that allocate clusters.
    Grow,
    /// For changes that free clusters.
    Shrink,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of content.
    Content,
    /// Of anything else except a table: directories, and the volume's own header.
    Names,
}

struct Page {
    bytes: Box<[u8]>,
    /// The disk's content, if the page has changes.
    disk: Option<Box<[u8]>>,
    /// The disk's content was never read: all bytes are new.
    unread: bool,
    /// When it was last used.
    used: u64,
}

struct Inner {
    disk: Box<dyn Blocks>,
    pages: HashMap<u64, Page>,
    clock: u64,
    /// The page after the last one read. A read that begins there is sequential and reads ahead.
    next: u64,
    /// The position of the flag and the layout, once they are known.
    flag: Option<u64>,
    layout: Option<Layout>,
    /// Changed sectors; those of directories in the order of their last change.
    changed: Vec<(u64, Kind)>,
    /// The kind of the current changes.
    kind: Kind,
    /// The disk may lose the last writes, because they are not flushed.
    unflushed: bool,
    /// For the test that shows that the order matters: writes in the order of page numbers.
    #[cfg(test)]
    by_number: bool,
}

impl Page {
    /// The part of this page between two offsets on the disk.
    fn part(&self, number: u64, start: u64, end: u64) -> (Range<usize>, &[u8]) {
        let begin = number * PAGE;
        let from = (start.max(begin) - begin) as usize;
        let to = ((end.min(begin + PAGE) - begin) as usize).min(self.bytes.len());
        (from..to, &self.bytes[from..to])
    }
}

/// A volume. All clones share it.
#[derive(Clone)]
pub struct Volume {
    inner: Rc<RefCell<Inner>>,
    fuel: Rc<Cell<u64>>,
    /// Where the first block of zeros was written since the last reset.
    zeroed: Rc<Cell<Option<u64>>>,
    position: u64,
    size: u64,
}

impl Volume {
    /// A volume that takes up a whole disk.
    pub fn new(disk: Box<dyn Blocks>) -> Volume {
        let size = disk.size() / SECTOR * SECTOR;
        let inner = Inner {
            disk,
            pages: HashMap::new(),
            clock: 0,
            next: 0,
            flag: None,
            layout: None,
            changed: Vec::new(),
            kind: Kind::Names,
            unflushed: false,
            #[cfg(test)]
            by_number: false,
        };
        let (fuel, zeroed) = (Rc::new(Cell::new(FUEL)), Rc::new(Cell::new(None)));
        Volume { inner: Rc::new(RefCell::new(inner)), fuel, zeroed, position: 0, size }
    }

    /// Sets the layout, and the position of the flag "in use".
    pub fn set_layout(&self, layout: Layout, flag: u64) {
        let mut inner = self.inner.borrow_mut();
        (inner.layout, inner.flag) = (Some(layout), Some(flag));
    }

    /// Whether the flag is set.
    pub fn is_in_use(&self) -> Result<bool> {
        let mut inner = self.inner.borrow_mut();
        let Some(flag) = inner.flag else { return Ok(false) };
        Ok(inner.bytes(flag, 1)?[0] & IN_USE != 0)
    }

    /// Runs `call` and returns where it first wrote a block of zeros: the cluster of a new directory.
    pub fn first_zeroes<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<Option<u64>> {
        self.zeroed.set(None);
        call()?;
        Ok(self.zeroed.get())
    }

    /// Runs `call`, whose changes count as content.
    pub fn content<T>(&self, call: impl FnOnce() -> T) -> T {
        self.inner.borrow_mut().kind = Kind::Content;
        let done = call();
        self.inner.borrow_mut().kind = Kind::Names;
        done
    }

    /// The fuel that is left.
    #[cfg(test)]
    pub fn fuel(&self) -> u64 {
        self.fuel.get()
    }

    /// Begins a request, with full fuel.
    pub fn refuel(&self) {
        self.fuel.set(FUEL + self.size / PAGE);
    }

    /// Whether there are changes that are not durable on the disk.
    pub fn is_pending(&self) -> bool {
        let inner = self.inner.borrow();
        !inner.changed.is_empty() || inner.unflushed
    }

    /// Writes changes to the disk.
    pub fn write_back(&self, plan: Plan) -> Result<()> {
        self.inner.borrow_mut().write_back(plan)
    }

    /// Writes content to the disk, without the metadata that points to new clusters (step 1). Content whose write fails
    /// is discarded.
    pub fn write_content(&self) -> Result<()> {
        let mut inner = self.inner.borrow_mut();
        inner.set_flag()?;
        let done = inner.write(|class| class == Class::Content);
        if done.is_err() {
            inner.forget_content();
        }
        inner.forget_old();
        done
    }

    /// From now on, writes pages in the order of their numbers.
    #[cfg(test)]
    pub fn write_by_number(&self) {
        self.inner.borrow_mut().by_number = true;
    }

    /// Discards changes that are not on the disk.
    pub fn discard(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.changed.clear();
        inner.pages.retain(|_, page| !page.unread);
        for page in inner.pages.values_mut() {
            if let Some(disk) = page.disk.take() {
                page.bytes = disk;
            }
        }
    }

    /// Makes everything durable and clears the flag.
    pub fn clean(&self) -> Result<()> {
        let mut inner = self.inner.borrow_mut();
        inner.write_back(Plan::Grow)?;
        inner.flush()?;
        let Some(flag) = inner.flag else { return Ok(()) };
        if inner.bytes(flag, 1)?[0] & IN_USE != 0 {
            inner.change(flag, |byte| byte[0] &= !IN_USE, 1)?;
            inner.write(|_| true)?;
            inner.flush()?;
        }
        Ok(())
    }

    /// Makes all writes durable.
    pub fn flush(&self) -> Result<()> {
        self.inner.borrow_mut().flush()
    }

    /// Reads at an offset.
    pub fn at<const N: usize>(&self, offset: u64) -> Result<[u8; N]> {
        let mut volume = Volume { position: offset, ..self.clone() };
        let mut bytes = [0; N];
        volume.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes at an offset.
    pub fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Volume { position: offset, ..self.clone() }.write_all(bytes)
    }

    fn burn(&self) -> Result<()> {
        match self.fuel.get() {
            0 => Err(Error::new(ErrorKind::InvalidData, "the volume leads in circles")),
            fuel => {
                self.fuel.set(fuel - 1);
                Ok(())
            }
        }
    }

    /// Number of bytes up to the end of the page, at most `len`.
    fn piece(&self, len: usize) -> usize {
        let page = PAGE - self.position % PAGE;
        len.min(page.min(self.size.saturating_sub(self.position)) as usize)
    }
}

/// The step in which a changed sector is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Steps 1, 2, 3 and 4.
    Content,
    FreeClusters,
    UsedClusters,
    Names,
}

impl Inner {
    fn page(&mut self, offset: u64) -> Result<&mut Page> {
        let number = offset / PAGE;
        self.clock += 1;
        if !self.pages.contains_key(&number) {
            self.read_pages(number)?;
        }
        let clock = self.clock;
        let page = self.pages.get_mut(&number).ok_or(ErrorKind::NotFound)?;
        page.used = clock;
        Ok(page)
    }

    /// Reads a page. If the access is sequential, it reads the following pages, too.
    fn read_pages(&mut self, number: u64) -> Result<()> {
        let most = if number == self.next { AHEAD } else { 1 };
        let count = (1..most).find(|more| self.pages.contains_key(&(number + more))).unwrap_or(most);
        // The last page of a disk may be shorter.
        let left = (self.disk.size() / SECTOR * SECTOR).saturating_sub(number * PAGE);
        let mut bytes = vec![0; (count * PAGE).min(left) as usize];
        self.disk.read(number * PAGE, &mut bytes)?;
        for (page, bytes) in (number..).zip(bytes.chunks(PAGE as usize)) {
            self.pages.insert(page, Page { bytes: bytes.into(), disk: None, unread: false, used: self.clock });
        }
        if left == 0 {
            self.pages.insert(number, Page { bytes: Box::default(), disk: None, unread: false, used: self.clock });
        }
        self.next = number + count;
        Ok(())
    }

    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let at = (offset % PAGE) as usize;
        self.page(offset)?.bytes.get(at..at + len).ok_or_else(|| ErrorKind::InvalidData.into())
    }

    fn change(&mut self, offset: u64, change: impl FnOnce(&mut [u8]), len: usize) -> Result<()> {
        if self.disk.read_only() {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        let (at, kind) = ((offset % PAGE) as usize, self.kind);
        let number = offset / PAGE;
        if len as u64 == PAGE && at == 0 && !self.pages.contains_key(&number) {
            // All bytes are overwritten, so the disk is not read.
            let bytes = vec![0; len].into_boxed_slice();
            self.pages.insert(number, Page { bytes, disk: None, unread: true, used: 0 });
        }
        let page = self.page(offset)?;
        if page.disk.is_none() && !page.unread {
            page.disk = Some(page.bytes.clone());
        }
        change(page.bytes.get_mut(at..at + len).ok_or(ErrorKind::InvalidData)?);
        for sector in offset / SECTOR..(offset + len as u64).div_ceil(SECTOR) {
            match self.changed.iter().rposition(|(known, _)| *known == sector) {
                None => self.changed.push((sector, kind)),
                // A sector is written at the position of its last change: changes made before that one may have to be
                // on the disk first.
                Some(place) if kind == Kind::Names => self.changed[place..].rotate_left(1),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A sector's bytes in the cache and on the disk.
    fn both(&self, sector: u64) -> Option<(&[u8], &[u8])> {
        let page = self.pages.get(&(sector * SECTOR / PAGE))?;
        let at = (sector * SECTOR % PAGE) as usize;
        let range = at..at + SECTOR as usize;
        Some((page.bytes.get(range.clone())?, page.disk.as_ref()?.get(range)?))
    }

    fn class(&mut self, sector: u64, kind: Kind) -> Class {
        let Some(layout) = self.layout.clone() else { return Class::Names };
        let offset = sector * SECTOR;
        if layout.all_tables().contains(&offset) {
            let length = layout.table.end - layout.table.start;
            let from = (offset - layout.table.start) % length;
            let Some((now, before)) = self.both(sector) else { return Class::UsedClusters };
            let changes_used = layout.clusters_in(from..from + SECTOR).any(|cluster| {
                let entries = (layout.entry_in(now, from, cluster), layout.entry_in(before, from, cluster));
                // An entry that crosses into another sector counts as in use.
                !matches!(entries, (Some(_), Some(0))) && entries.0.is_none_or(|now| Some(now) != entries.1)
            });
            return if changes_used { Class::UsedClusters } else { Class::FreeClusters };
        }
        if kind == Kind::Content {
            return Class::Content;
        }
        // The directory is new if its cluster is free on the disk.
        match layout.cluster_of(offset) {
            Some(cluster) if self.is_free_on_disk(&layout, cluster) => Class::Content,
            _ => Class::Names,
        }
    }

    fn is_free_on_disk(&mut self, layout: &Layout, cluster: u32) -> bool {
        let bit = u64::from(cluster) * u64::from(layout.bits);
        let mut bytes = [0; 4];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let at = layout.table.start + bit / 8 + index as u64;
            let Ok(page) = self.page(at) else { return false };
            let Some(found) = page.disk.as_ref().unwrap_or(&page.bytes).get((at % PAGE) as usize) else {
                return false;
            };
            *byte = *found;
        }
        layout.entry_in(&bytes, bit / 8, cluster) == Some(0)
    }

    /// Writes the flag to the disk before anything else.
    fn set_flag(&mut self) -> Result<()> {
        let Some(flag) = self.flag.filter(|_| !self.changed.is_empty()) else { return Ok(()) };
        if self.bytes(flag, 1)?[0] & IN_USE != 0 {
            return Ok(());
        }
        // The sector may have other changes, which are not due yet. So its content on the disk is written, with the
        // flag.
        let sector = flag / SECTOR;
        let page = self.page(flag)?;
        let at = (sector * SECTOR % PAGE) as usize;
        let mut bytes = page.disk.as_ref().unwrap_or(&page.bytes)[at..at + SECTOR as usize].to_vec();
        bytes[(flag % SECTOR) as usize] |= IN_USE;
        self.unflushed = true;
        self.disk.write(sector * SECTOR, &bytes)?;
        self.flush()?;
        let (place, page) = ((flag % PAGE) as usize, self.page(flag)?);
        page.bytes[place] |= IN_USE;
        if let Some(disk) = &mut page.disk {
            disk[place] |= IN_USE;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.unflushed {
            self.disk.flush()?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Flushes, then writes the changed sectors of a class.
    fn write_behind(&mut self, wanted: Class) -> Result<()> {
        for (sector, kind) in self.changed.clone() {
            if self.class(sector, kind) == wanted {
                self.flush()?;
                return self.write(|class| class == wanted);
            }
        }
        Ok(())
    }

    /// If several sectors of a table change clusters in use, no order of whole sectors is right: one may link to an
    /// entry in another, and a disk may write any of them. So the entries that `wanted` selects, by their new and their
    /// on-disk value, are written first.
    fn write_entries(&mut self, wanted: impl Fn(u32, u32) -> bool) -> Result<()> {
        let Some(layout) = self.layout.clone() else { return Ok(()) };
        let mut sectors = Vec::new();
        for (sector, kind) in self.changed.clone() {
            if self.class(sector, kind) == Class::UsedClusters {
                sectors.push(sector);
            }
        }
        if sectors.iter().filter(|sector| layout.table.contains(&(**sector * SECTOR))).count() < 2 {
            return Ok(());
        }
        self.flush()?;
        let length = layout.table.end - layout.table.start;
        for sector in sectors {
            let from = (sector * SECTOR - layout.table.start) % length;
            let Some((now, before)) = self.both(sector) else { continue };
            let mut part = before.to_vec();
            for cluster in layout.clusters_in(from..from + SECTOR) {
                let entries = (layout.entry_in(now, from, cluster), layout.entry_in(before, from, cluster));
                if let (Some(new), Some(old)) = entries
                    && new != old
                    && wanted(new, old)
                {
                    layout.copy_entry(now, &mut part, from, cluster);
                }
            }
            if part == before {
                continue;
            }
            self.unflushed = true;
            self.disk.write(sector * SECTOR, &part)?;
            let at = (sector * SECTOR % PAGE) as usize;
            if let Some(disk) = self.pages.get_mut(&(sector * SECTOR / PAGE)).and_then(|page| page.disk.as_mut()) {
                disk[at..at + SECTOR as usize].copy_from_slice(&part);
            }
        }
        self.flush()
    }

    /// Writes the changed sectors of the selected classes.
    fn write(&mut self, wanted: impl Fn(Class) -> bool) -> Result<()> {
        let mut sectors = BTreeSet::new();
        for (sector, kind) in self.changed.clone() {
            if wanted(self.class(sector, kind)) {
                sectors.insert(sector);
            }
        }
        // Adjacent sectors are written together.
        let mut sectors = sectors.into_iter().peekable();
        while let Some(first) = sectors.next() {
            let mut last = first;
            while let Some(next) = sectors.next_if(|next| *next == last + 1 && next - first < RUN / SECTOR) {
                last = next;
            }
            self.write_sectors(first, last)?;
        }
        Ok(())
    }

    fn write_sectors(&mut self, first: u64, last: u64) -> Result<()> {
        let (start, end) = (first * SECTOR, (last + 1) * SECTOR);
        let mut bytes = Vec::with_capacity((end - start) as usize);
        for number in start / PAGE..end.div_ceil(PAGE) {
            let Some(page) = self.pages.get(&number) else { return Ok(()) };
            bytes.extend_from_slice(page.part(number, start, end).1);
        }
        self.unflushed = true;
        self.disk.write(start, &bytes)?;
        for number in start / PAGE..end.div_ceil(PAGE) {
            let Some(page) = self.pages.get_mut(&number) else { continue };
            let (range, _) = page.part(number, start, end);
            page.unread &= range.len() as u64 != PAGE;
            if let Some(disk) = &mut page.disk {
                disk[range.clone()].copy_from_slice(&page.bytes[range]);
            }
        }
        self.changed.retain(|(sector, _)| !(first..=last).contains(sector));
        Ok(())
    }

    /// Writes directories one sector at a time, with a flush between two sectors.
    fn write_names(&mut self, backwards: bool) -> Result<()> {
        let mut sectors = Vec::new();
        for (sector, kind) in self.changed.clone() {
            if self.class(sector, kind) == Class::Names {
                sectors.push(sector);
            }
        }
        if backwards {
            sectors.reverse();
        }
        for sector in sectors {
            self.flush()?;
            self.write_sectors(sector, sector)?;
        }
        Ok(())
    }

    fn write_back(&mut self, plan: Plan) -> Result<()> {
        if self.changed.is_empty() {
            return Ok(());
        }
        self.set_flag()?;
        #[cfg(test)]
        if self.by_number {
            self.write(|_| true)?;
            self.forget_old();
            return Ok(());
        }
        // Step 1. No flush is needed before it, because nothing on the disk points to new content.
        self.write(|class| class == Class::Content)?;
        match plan {
            Plan::Grow => {
                // Steps 2 to 4.
                self.write_behind(Class::FreeClusters)?;
                self.write_entries(|_, before| before == 0)?;
                self.write_behind(Class::UsedClusters)?;
                self.write_names(false)?;
            }
            Plan::Shrink => {
                // Steps 5 and 6.
                self.write_names(true)?;
                self.write_entries(|now, before| now != 0 && before != 0)?;
                self.flush()?;
                self.write(|_| true)?;
            }
        }
        self.forget_old();
        Ok(())
    }

    /// Discards content that is not on the disk.
    fn forget_content(&mut self) {
        for (sector, kind) in self.changed.clone() {
            if self.class(sector, kind) != Class::Content {
                continue;
            }
            self.changed.retain(|(known, _)| *known != sector);
            let (at, number) = ((sector * SECTOR % PAGE) as usize, sector * SECTOR / PAGE);
            if self.pages.get(&number).is_some_and(|page| page.unread) {
                self.pages.remove(&number);
            } else if let Some(page) = self.pages.get_mut(&number)
                && let Some(disk) = &page.disk
            {
                page.bytes[at..at + SECTOR as usize].copy_from_slice(&disk[at..at + SECTOR as usize]);
            }
        }
    }

    /// Drops the pages that were not used for longest, if many are cached and they have no changes.
    fn forget_old(&mut self) {
        let waiting: BTreeSet<u64> = self.changed.iter().map(|(sector, _)| sector * SECTOR / PAGE).collect();
        for (number, page) in &mut self.pages {
            if !waiting.contains(number) {
                page.disk = None;
            }
        }
        if self.pages.len() > KEPT {
            let mut used: Vec<u64> = self.pages.values().map(|page| page.used).collect();
            used.sort_unstable();
            let middle = used[used.len() / 2];
            self.pages.retain(|number, page| page.used > middle || waiting.contains(number));
        }
    }
}

impl Read for Volume {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.burn()?;
        let len = self.piece(bytes.len());
        if len == 0 {
            return if bytes.is_empty() { Ok(0) } else { Err(ErrorKind::InvalidData.into()) };
        }
        bytes[..len].copy_from_slice(self.inner.borrow_mut().bytes(self.position, len)?);
        self.position += len as u64;
        Ok(len)
    }
}

impl Write for Volume {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.burn()?;
        let len = self.piece(bytes.len());
        if len == 0 {
            return if bytes.is_empty() { Ok(0) } else { Err(ErrorKind::InvalidData.into()) };
        }
        if len as u64 >= SECTOR && self.zeroed.get().is_none() && bytes.iter().all(|byte| *byte == 0) {
            self.zeroed.set(Some(self.position));
        }
        let mut inner = self.inner.borrow_mut();
        // `fatfs` must not change the flag.
        if inner.flag != Some(self.position) || len != 1 {
            inner.change(self.position, |place| place.copy_from_slice(&bytes[..len]), len)?;
        }
        drop(inner);
        self.position += len as u64;
        Ok(len)
    }

    /// Does nothing: flushes happen in the order of the plan.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Seek for Volume {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let new = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
            SeekFrom::End(offset) => self.size.checked_add_signed(offset),
        };
        self.position = new.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
