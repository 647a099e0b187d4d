//! The bytes of a volume, as the crate `fatfs` wants them: a place that is read, written and sought in.
//!
//! Between it and the disk are pages that are kept: `fatfs` reads and writes a few bytes at a time. What was changed goes to
//! the disk at the end of each request.
//!
//! A damaged volume may lead `fatfs` in circles, along a chain of clusters that bites its tail. So each request has *fuel*, more than
//! any that makes sense needs, and when it is used up, reading fails.
//!
//! The flag that says that the volume is in use is kept here, not by `fatfs`, which takes it back at its end only: it is set
//! before the first change and taken back as soon as everything is on the disk and nothing is open.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::rc::Rc;

/// Bytes of a page that is kept; a multiple of a block.
const PAGE: u64 = 4096;
/// Pages that are kept between requests.
const KEPT: usize = 1024;
/// What a request may read and write: so many pieces, and as many again for each page of the volume.
const FUEL: u64 = 3_000_000;
/// The flag of a volume in use.
const IN_USE: u8 = 1;

/// A disk.
pub trait Blocks {
    /// Bytes.
    fn size(&self) -> u64;
    /// Nothing can be written.
    fn read_only(&self) -> bool;
    /// Reads whole pages.
    ///
    /// # Errors
    /// The disk's.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()>;
    /// Writes whole pages.
    ///
    /// # Errors
    /// The disk's.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Has it all stay.
    ///
    /// # Errors
    /// The disk's.
    fn flush(&mut self) -> Result<()>;
}

struct Page {
    bytes: Box<[u8]>,
    changed: bool,
    /// When it was used last.
    used: u64,
}

struct Inner {
    disk: Box<dyn Blocks>,
    pages: HashMap<u64, Page>,
    clock: u64,
    /// Where the flag lies, once that is known.
    flag: Option<u64>,
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

/// Bytes of the smallest block.
const BLOCK: usize = 512;

impl Volume {
    /// A volume that is a whole disk.
    pub fn new(disk: Box<dyn Blocks>) -> Volume {
        let size = disk.size() / PAGE * PAGE;
        let inner = Inner { disk, pages: HashMap::new(), clock: 0, flag: None };
        let (fuel, zeroed) = (Rc::new(Cell::new(FUEL)), Rc::new(Cell::new(None)));
        Volume { inner: Rc::new(RefCell::new(inner)), fuel, zeroed, position: 0, size }
    }

    /// Says where the flag of a volume in use lies.
    pub fn set_flag(&self, offset: u64) {
        self.inner.borrow_mut().flag = Some(offset);
    }

    /// Carries out `call` and tells where it first wrote a block of zeroes: the cluster of a new directory.
    pub fn first_zeroes<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<Option<u64>> {
        self.zeroed.set(None);
        call()?;
        Ok(self.zeroed.get())
    }

    /// A request begins.
    pub fn refuel(&self) {
        self.fuel.set(FUEL + self.size / PAGE);
    }

    /// Writes what was changed to the disk.
    pub fn write_back(&self) -> Result<()> {
        self.inner.borrow_mut().write_back()
    }

    /// The same, has it stay, and takes the flag back.
    pub fn clean(&self) -> Result<()> {
        let mut inner = self.inner.borrow_mut();
        inner.write_back()?;
        inner.disk.flush()?;
        let Some(flag) = inner.flag else { return Ok(()) };
        if inner.bytes(flag, 1)?[0] & IN_USE != 0 {
            inner.change(flag, |byte| byte[0] &= !IN_USE, 1)?;
            inner.write_back()?;
            inner.disk.flush()?;
        }
        Ok(())
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

impl Inner {
    fn page(&mut self, offset: u64) -> Result<&mut Page> {
        let number = offset / PAGE;
        self.clock += 1;
        if !self.pages.contains_key(&number) {
            let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
            self.disk.read(number * PAGE, &mut bytes)?;
            self.pages.insert(number, Page { bytes, changed: false, used: 0 });
        }
        let clock = self.clock;
        let page = self.pages.get_mut(&number).ok_or(ErrorKind::NotFound)?;
        page.used = clock;
        Ok(page)
    }

    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let at = (offset % PAGE) as usize;
        Ok(&self.page(offset)?.bytes[at..at + len])
    }

    fn change(&mut self, offset: u64, change: impl FnOnce(&mut [u8]), len: usize) -> Result<()> {
        if self.disk.read_only() {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        let at = (offset % PAGE) as usize;
        let page = self.page(offset)?;
        page.changed = true;
        change(&mut page.bytes[at..at + len]);
        Ok(())
    }

    fn write_back(&mut self) -> Result<()> {
        let mut changed: Vec<u64> =
            self.pages.iter().filter(|(_, page)| page.changed).map(|(number, _)| *number).collect();
        changed.sort_unstable();
        for number in changed {
            if let Some(page) = self.pages.get_mut(&number) {
                self.disk.write(number * PAGE, &page.bytes)?;
                page.changed = false;
            }
        }
        if self.pages.len() > KEPT {
            // Half of them go, those that were not used for the longest time.
            let mut used: Vec<u64> = self.pages.values().map(|page| page.used).collect();
            used.sort_unstable();
            let middle = used[used.len() / 2];
            self.pages.retain(|_, page| page.used > middle);
        }
        Ok(())
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
        if len >= BLOCK && self.zeroed.get().is_none() && bytes.iter().all(|byte| *byte == 0) {
            self.zeroed.set(Some(self.position));
        }
        let mut inner = self.inner.borrow_mut();
        match inner.flag {
            // The flag is not for others to change.
            Some(flag) if flag == self.position && len == 1 => {}
            Some(flag) => {
                if inner.bytes(flag, 1)?[0] & IN_USE == 0 {
                    inner.change(flag, |byte| byte[0] |= IN_USE, 1)?;
                }
                inner.change(self.position, |place| place.copy_from_slice(&bytes[..len]), len)?;
            }
            None => inner.change(self.position, |place| place.copy_from_slice(&bytes[..len]), len)?,
        }
        drop(inner);
        self.position += len as u64;
        Ok(len)
    }

    /// At the end of a request, not each time.
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
