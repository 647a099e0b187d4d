//! A process's address space: its areas ([`Area`]), its pages ([`Page`]), and their mappings in its sub-domain.
//!
//! 1. A new area has no pages. A page is allocated on the first access, by the program (a page fault) or by a system
//!    call.
//! 2. After a fork both processes share all pages, and neither sub-domain maps one writable.
//! 3. A shared page is copied before it is written.
//! 4. A page is mapped writable only while it is not shared.

use std::collections::BTreeMap;
use std::rc::Rc;

use abi::hafnon_vproc_run_t;
use zx::{Process, Vmar, map_runs};

use super::counts::Counts;
use super::linux::{Result, Stop, errno, fails};
use super::memory::{EXECUTE, Frame, Memory, PAGE, READ, WRITE};
use super::vector;

/// The end of the addresses that a program can use.
pub const TOP: u64 = 0x7eff_0000_0000;
/// The lowest address.
const BOTTOM: u64 = 0x20_0000;
/// Maximum number of runs that one call maps.
const RUNS: usize = 1024;

/// The page that contains an address.
pub fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// An address rounded up to a page.
pub fn page_behind(address: u64) -> Option<u64> {
    Some(page_of(address.checked_add(PAGE - 1)?))
}

/// A part of a file in an area.
#[derive(Clone)]
pub struct Content {
    /// The file.
    pub data: Rc<[u8]>,
    /// Offset of the part in the file.
    pub from: usize,
    /// Its address in memory.
    pub at: u64,
    /// Its length in bytes; zeros follow.
    pub len: u64,
}

#[derive(Clone)]
struct Area {
    end: u64,
    access: u32,
    content: Option<Content>,
}

#[derive(Clone, Copy)]
struct Page {
    frame: Frame,
    /// The access with which it is mapped in the sub-domain; 0 if it is not mapped.
    shown: u32,
}

/// See the description of the module.
pub struct Space {
    /// The sub-domain.
    pub process: Process,
    vmar: Vmar,
    areas: BTreeMap<u64, Area>,
    pages: BTreeMap<u64, Page>,
    /// The page through which vector registers are saved and loaded.
    pub vector: Frame,
    /// Start and end of the heap.
    pub heap: (u64, u64),
}

fn run(address: u64, frame: Frame, access: u32) -> hafnon_vproc_run_t {
    hafnon_vproc_run_t { address, offset: frame.offset(), len: PAGE, options: access, reserved: 0 }
}

impl Space {
    /// Creates an empty address space.
    pub fn new(memory: &mut Memory) -> Result<Space> {
        let job = zx::startup::job_default().ok_or_else(|| Stop::Broken("there is no job".into()))?;
        let (process, vmar) = job.create_process("guest")?;
        let vector = memory.take()?;
        vector::map(&vmar)?;
        map_runs(&vmar, memory.vmo(), &[run(vector::STATE, vector, READ | WRITE)])?;
        Ok(Space { process, vmar, areas: BTreeMap::new(), pages: BTreeMap::new(), vector, heap: (0, 0) })
    }

    /// Destroys the address space and frees its pages.
    pub fn end(self, memory: &mut Memory) -> Result<()> {
        self.process.kill()?;
        self.pages.values().for_each(|page| memory.give(page.frame));
        memory.give(self.vector);
        Ok(())
    }

    /// Creates an address space that shares all pages.
    pub fn fork(&mut self, memory: &mut Memory) -> Result<Space> {
        let mut other = Space::new(memory)?;
        (other.areas, other.heap) = (self.areas.clone(), self.heap);
        let mut runs = Vec::new();
        for (address, page) in &mut self.pages {
            memory.share(page.frame);
            other.pages.insert(*address, Page { frame: page.frame, shown: 0 });
            if page.shown & WRITE != 0 {
                page.shown &= !WRITE;
                runs.push(run(*address, page.frame, page.shown));
            }
        }
        self.show(memory, &runs)?;
        Ok(other)
    }

    fn show(&self, memory: &Memory, runs: &[hafnon_vproc_run_t]) -> Result<()> {
        runs.chunks(RUNS).try_for_each(|runs| Ok(map_runs(&self.vmar, memory.vmo(), runs)?))
    }

    fn area(&self, address: u64) -> Option<&Area> {
        self.areas.range(..=address).next_back().map(|(_, area)| area).filter(|area| address < area.end)
    }

    /// The allowed access at an address; 0 without an area.
    pub fn access(&self, address: u64) -> u32 {
        self.area(address).map_or(0, |area| area.access)
    }

    /// Whether an area overlaps a range.
    pub fn has(&self, start: u64, end: u64) -> bool {
        self.areas.range(..end).next_back().is_some_and(|(_, area)| area.end > start)
    }

    /// Creates an area, replacing what it overlaps.
    pub fn map(
        &mut self,
        memory: &mut Memory,
        (start, end): (u64, u64),
        access: u32,
        content: Option<Content>,
    ) -> Result<()> {
        if start < BOTTOM || end <= start || end > TOP || !(start | end).is_multiple_of(PAGE) {
            return fails(errno::ENOMEM);
        }
        self.unmap(memory, start, end)?;
        self.areas.insert(start, Area { end, access, content });
        Ok(())
    }

    /// The highest free range for an area.
    pub fn room(&self, len: u64) -> Option<u64> {
        let mut end = TOP - (64 << 20);
        for (start, area) in self.areas.range(..end).rev() {
            if end.checked_sub(len)? >= area.end {
                break;
            }
            end = *start;
        }
        end.checked_sub(len).filter(|start| *start >= BOTTOM)
    }

    /// Splits the area that contains an address, so that none extends across it.
    fn cut(&mut self, at: u64) {
        if let Some((_, area)) = self.areas.range_mut(..at).next_back()
            && area.end > at
        {
            let rest = area.clone();
            area.end = at;
            self.areas.insert(at, rest);
        }
    }

    /// Unmaps the pages of a range in the sub-domain.
    fn hide(&mut self, memory: &Memory, start: u64, end: u64) -> Result<()> {
        let mut runs = Vec::new();
        for (address, page) in self.pages.range_mut(start..end).filter(|(_, page)| page.shown != 0) {
            page.shown = 0;
            runs.push(run(*address, page.frame, 0));
        }
        self.show(memory, &runs)
    }

    /// Removes a range.
    pub fn unmap(&mut self, memory: &mut Memory, start: u64, end: u64) -> Result<()> {
        self.cut(start);
        self.cut(end);
        self.hide(memory, start, end)?;
        let gone: Vec<u64> = self.areas.range(start..end).map(|(start, _)| *start).collect();
        gone.iter().for_each(|start| drop(self.areas.remove(start)));
        let gone: Vec<u64> = self.pages.range(start..end).map(|(address, _)| *address).collect();
        gone.iter().filter_map(|address| self.pages.remove(address)).for_each(|page| memory.give(page.frame));
        Ok(())
    }

    /// Changes the access of a range, all of which must exist.
    pub fn protect(&mut self, memory: &Memory, start: u64, end: u64, access: u32) -> Result<()> {
        self.cut(start);
        self.cut(end);
        let mut at = start;
        while at < end {
            let Some(area) = self.areas.get_mut(&at) else { return fails(errno::ENOMEM) };
            area.access = access;
            at = area.end;
        }
        // The next access maps them again with the new access.
        self.hide(memory, start, end)
    }

    /// The page at an address for reading or writing; allocates it if necessary.
    fn page(&mut self, memory: &mut Memory, counts: &mut Counts, address: u64, write: bool) -> Result<Frame> {
        let Some(page) = self.pages.get(&address).copied() else {
            let frame = memory.take()?;
            let filled = self.area(address).and_then(|area| area.content.as_ref());
            if let Some((at, bytes)) = filled.and_then(|content| content.of(address)) {
                memory.write(frame, at, bytes)?;
            }
            self.pages.insert(address, Page { frame, shown: 0 });
            return Ok(frame);
        };
        if !write || !memory.is_shared(page.frame) {
            return Ok(page.frame);
        }
        let frame = memory.copy(page.frame)?;
        counts.copies += 1;
        self.pages.insert(address, Page { frame, ..page });
        if page.shown != 0 {
            self.show_page(memory, address)?;
        }
        memory.give(page.frame);
        Ok(frame)
    }

    /// Maps a page with its allowed access.
    fn show_page(&mut self, memory: &Memory, address: u64) -> Result<()> {
        let access = self.access(address);
        let Some(page) = self.pages.get_mut(&address) else { return Ok(()) };
        page.shown = if memory.is_shared(page.frame) { access & !WRITE } else { access };
        let run = run(address, page.frame, page.shown);
        self.show(memory, &[run])
    }

    /// Handles a page fault: maps the page if the access is allowed, and returns whether it is.
    pub fn fault(&mut self, memory: &mut Memory, counts: &mut Counts, address: u64, wanted: u32) -> Result<bool> {
        if self.access(address) & wanted != wanted {
            return Ok(false);
        }
        let page = page_of(address);
        self.page(memory, counts, page, wanted & WRITE != 0)?;
        self.show_page(memory, page)?;
        counts.faults += 1;
        Ok(true)
    }

    /// Calls a function for each page of a range.
    fn each(
        &mut self,
        (memory, counts): (&mut Memory, &mut Counts),
        (address, len): (u64, usize),
        write: bool,
        mut work: impl FnMut(&Memory, Frame, u64, std::ops::Range<usize>) -> zx::Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let Some(at) = address.checked_add(done as u64) else { return fails(errno::EFAULT) };
            let wanted = if write { WRITE } else { READ };
            if self.access(at) & wanted == 0 {
                return fails(errno::EFAULT);
            }
            let frame = self.page(memory, counts, page_of(at), write)?;
            let part = (PAGE - at % PAGE).min((len - done) as u64) as usize;
            work(memory, frame, at % PAGE, done..done + part)?;
            done += part;
        }
        Ok(())
    }

    /// Reads memory with the program's rights.
    pub fn read(&mut self, with: (&mut Memory, &mut Counts), address: u64, bytes: &mut [u8]) -> Result<()> {
        let range = (address, bytes.len());
        self.each(with, range, false, |memory, frame, at, part| memory.read(frame, at, &mut bytes[part]))
    }

    /// Writes memory with the program's rights.
    pub fn write(&mut self, with: (&mut Memory, &mut Counts), address: u64, bytes: &[u8]) -> Result<()> {
        let range = (address, bytes.len());
        self.each(with, range, true, |memory, frame, at, part| memory.write(frame, at, &bytes[part]))
    }
}

impl Content {
    /// The bytes of the file that belong to a page, and their offset in the page.
    fn of(&self, page: u64) -> Option<(u64, &[u8])> {
        let start = page.max(self.at);
        let end = (page + PAGE).min(self.at + self.len);
        let from = self.from + usize::try_from(start.checked_sub(self.at)?).ok()?;
        let len = usize::try_from(end.checked_sub(start)?).ok()?;
        Some((start - page, self.data.get(from..from + len)?))
    }
}

/// Converts Linux's `PROT_…`; memory that can be written or executed can also be read.
pub fn access_of(prot: u64) -> u32 {
    let bits = [(1, READ), (2, READ | WRITE), (4, READ | EXECUTE)];
    bits.iter().filter(|(bit, _)| prot & bit != 0).fold(0, |all, (_, access)| all | access)
}
