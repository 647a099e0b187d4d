//! The bytes of a volume, as the crate `fatfs` wants them: a place that is read, written and sought in.
//!
//! Between it and the disk are pages that are kept: `fatfs` reads and writes a few bytes at a time, in an order of its own. What was
//! changed goes to the disk in the order that loses nothing when the power goes, whatever order it was changed in. FAT has no
//! journal, so the order is all that there is:
//!
//! *To take clusters* ([`Plan::Grow`]: making, writing, a second name):
//! 1. content, and directories that nobody knows yet;
//! 2. flush, and the table's sectors in which nothing but free clusters changes; of others, where there are several, the clusters that
//!    were free;
//! 3. flush, and those that change a cluster in use: the link to what is new;
//! 4. flush, and directories, in the order in which they were changed last, with a flush between two sectors.
//!
//! *To give clusters back* ([`Plan::Shrink`]: removing, making shorter):
//! 5. directories, the last change first, with a flush between two sectors;
//! 6. flush, and the table; of several sectors first the new ends of chains, and a flush.
//!
//! What is changed in between on the disk is a name that is there or not, and clusters that nobody has: never a name on clusters
//! of somebody else. A change that fails in the midst is taken back here, before anything of it got to the disk ([`Volume::discard`]).
//!
//! A damaged volume may lead `fatfs` in circles, along a chain of clusters that bites its tail. So each request has *fuel*, more than
//! any that makes sense needs, and when it is used up, reading fails.
//!
//! The flag that says that the volume is in use is kept here, not by `fatfs`, which takes it back at its end only: it is on the disk
//! before the first change and taken back when everything is on the disk and nothing is open.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::ops::Range;
use std::rc::Rc;

use super::layout::Layout;
use crate::blocks::Blocks;

/// Bytes of a page that is kept; a multiple of a sector.
const PAGE: u64 = 4096;
/// Bytes that a disk writes whole or not at all.
const SECTOR: u64 = 512;
/// Pages that are read at once where one follows another, and bytes that are written at once.
const AHEAD: u64 = 16;
const RUN: u64 = AHEAD * PAGE;
/// Pages that are kept between requests.
const KEPT: usize = 1024;
/// What a request may read and write: so many pieces, and as many again for each page of the volume.
const FUEL: u64 = 3_000_000;
/// The flag of a volume in use.
const IN_USE: u8 = 1;

/// In which order changes get to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// What takes clusters.
    Grow,
    /// What gives clusters back.
    Shrink,
}

/// What a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of content.
    Content,
    /// Of anything else that is not a table: names, and what the volume says of itself.
    Names,
}

struct Page {
    bytes: Box<[u8]>,
    /// What the disk has, where something was changed.
    disk: Option<Box<[u8]>>,
    /// The disk's bytes were never read: all of them are new.
    unread: bool,
    /// When it was used last.
    used: u64,
}

struct Inner {
    disk: Box<dyn Blocks>,
    pages: HashMap<u64, Page>,
    clock: u64,
    /// The page behind those that were read last: who reads on reads many at once.
    next: u64,
    /// Where the flag lies, and what lies where, once that is known.
    flag: Option<u64>,
    layout: Option<Layout>,
    /// Sectors that were changed; those of directories in the order of their last change.
    changed: Vec<(u64, Kind)>,
    /// What is being changed.
    kind: Kind,
    /// The disk may lose what was written last.
    unflushed: bool,
    /// For the test that the order matters: there is none.
    #[cfg(test)]
    by_number: bool,
}

impl Page {
    /// What of this page lies between two places on the disk.
    fn part(&self, number: u64, start: u64, end: u64) -> (Range<usize>, &[u8]) {
        let begin = number * PAGE;
        let from = (start.max(begin) - begin) as usize;
        let to = ((end.min(begin + PAGE) - begin) as usize).min(self.bytes.len());
        (from..to, &self.bytes[from..to])
    }
}

/// A volume. All clones are the same.
#[derive(Clone)]
pub struct Volume {
    inner: Rc<RefCell<Inner>>,
    fuel: Rc<Cell<u64>>,
    /// Where a block of zeroes was first written since somebody wanted to know.
    zeroed: Rc<Cell<Option<u64>>>,
    position: u64,
    size: u64,
}

impl Volume {
    /// A volume that is a whole disk.
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

    /// Says what lies where, and where the flag of a volume in use is.
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

    /// Carries out `call` and tells where it first wrote a block of zeroes: the cluster of a new directory.
    pub fn first_zeroes<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<Option<u64>> {
        self.zeroed.set(None);
        call()?;
        Ok(self.zeroed.get())
    }

    /// Carries out `call`, whose changes are of content.
    pub fn content<T>(&self, call: impl FnOnce() -> T) -> T {
        self.inner.borrow_mut().kind = Kind::Content;
        let done = call();
        self.inner.borrow_mut().kind = Kind::Names;
        done
    }

    /// What is left of the fuel.
    #[cfg(test)]
    pub fn fuel(&self) -> u64 {
        self.fuel.get()
    }

    /// A request begins.
    pub fn refuel(&self) {
        self.fuel.set(FUEL + self.size / PAGE);
    }

    /// Whether something was changed that is not on the disk for good.
    pub fn is_pending(&self) -> bool {
        let inner = self.inner.borrow();
        !inner.changed.is_empty() || inner.unflushed
    }

    /// Writes what was changed to the disk.
    pub fn write_back(&self, plan: Plan) -> Result<()> {
        self.inner.borrow_mut().write_back(plan)
    }

    /// Writes content to the disk, and nothing that leads to what is new of it (step 1). What the disk does not take is forgotten.
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

    /// From here on there is no order.
    #[cfg(test)]
    pub fn write_by_number(&self) {
        self.inner.borrow_mut().by_number = true;
    }

    /// Takes back what was changed and is not on the disk.
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

    /// Has all stay and takes the flag back.
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

    /// Has all stay that was written.
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

    /// Bytes up to the end of the page, at most.
    fn piece(&self, len: usize) -> usize {
        let page = PAGE - self.position % PAGE;
        len.min(page.min(self.size.saturating_sub(self.position)) as usize)
    }
}

/// What a changed sector is to the order.
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

    /// Reads a page, and those behind it where the one before it was read last.
    fn read_pages(&mut self, number: u64) -> Result<()> {
        let most = if number == self.next { AHEAD } else { 1 };
        let count = (1..most).find(|more| self.pages.contains_key(&(number + more))).unwrap_or(most);
        // The last page of a disk may be a part of one.
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
            // Nothing of what is there is left.
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
                // Its turn is that of the last change: what came between may have to be on the disk before that.
                Some(place) if kind == Kind::Names => self.changed[place..].rotate_left(1),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A sector's bytes, as they are here and on the disk.
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
                // One that lies in two sectors is not looked at: it may be in use.
                !matches!(entries, (Some(_), Some(0))) && entries.0.is_none_or(|now| Some(now) != entries.1)
            });
            return if changes_used { Class::UsedClusters } else { Class::FreeClusters };
        }
        if kind == Kind::Content {
            return Class::Content;
        }
        // A directory that is new: its cluster is free on the disk.
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

    /// The flag gets to the disk before anything else.
    fn set_flag(&mut self) -> Result<()> {
        let Some(flag) = self.flag.filter(|_| !self.changed.is_empty()) else { return Ok(()) };
        if self.bytes(flag, 1)?[0] & IN_USE != 0 {
            return Ok(());
        }
        // The sector may have been changed otherwise, which has its own time: so it is written as the disk has it.
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

    /// Writes the changed sectors of a class behind all that was written before.
    fn write_behind(&mut self, wanted: Class) -> Result<()> {
        for (sector, kind) in self.changed.clone() {
            if self.class(sector, kind) == wanted {
                self.flush()?;
                return self.write(|class| class == wanted);
            }
        }
        Ok(())
    }

    /// Where several sectors of a table change clusters in use, no order of them is right: one may link to what another has, and a
    /// disk may keep any of them. So the entries that `wanted` takes, by what they are now and on the disk, are written alone before.
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

    /// Writes the changed sectors of some classes.
    fn write(&mut self, wanted: impl Fn(Class) -> bool) -> Result<()> {
        let mut sectors = BTreeSet::new();
        for (sector, kind) in self.changed.clone() {
            if wanted(self.class(sector, kind)) {
                sectors.insert(sector);
            }
        }
        // Sectors side by side go together.
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

    /// Writes directories, sector after sector.
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
        // Step 1; content may go with what was written before, as nothing on the disk leads to it.
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

    /// Takes back content that is not on the disk.
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

    /// Lets go of pages that were not used for long, where many are kept and nothing waits in them.
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
        // The flag is not for others to change.
        if inner.flag != Some(self.position) || len != 1 {
            inner.change(self.position, |place| place.copy_from_slice(&bytes[..len]), len)?;
        }
        drop(inner);
        self.position += len as u64;
        Ok(len)
    }

    /// When its turn comes, not each time.
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
