//! A process's memory: what it may have ([`Area`]), what it has ([`Page`]), and what its sub-domain shows of that.
//!
//! 1. An area comes with no pages. A page comes when it is touched, by the program (a page fault) or by a call.
//! 2. After a fork both have all pages, and neither's sub-domain shows one to be written.
//! 3. A page that is to be written, and that somebody else has, too, is copied first.
//! 4. A page is shown to be written only as long as nobody else has it.

use std::collections::BTreeMap;
use std::rc::Rc;

use abi::hafnon_vproc_run_t;
use zx::{Process, Vmar, map_runs};

use super::counts::Counts;
use super::linux::{Result, Stop, errno, fails};
use super::memory::{EXECUTE, Frame, Memory, PAGE, READ, WRITE};
use super::vector;

/// The end of what a program can have.
pub const TOP: u64 = 0x7eff_0000_0000;
/// The least address.
const BOTTOM: u64 = 0x20_0000;
/// Runs that are mapped in one call.
const RUNS: usize = 1024;

/// A page's address.
pub fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// The first page's address behind.
pub fn page_behind(address: u64) -> Option<u64> {
    Some(page_of(address.checked_add(PAGE - 1)?))
}

/// Bytes of a file in an area.
#[derive(Clone)]
pub struct Content {
    /// The file.
    pub data: Rc<[u8]>,
    /// Where in the file they begin.
    pub from: usize,
    /// Where in memory they begin.
    pub at: u64,
    /// How many they are; zeros follow.
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
    /// How the sub-domain shows it; 0 not at all.
    shown: u32,
}

/// See the module's description.
pub struct Space {
    /// The sub-domain.
    pub process: Process,
    vmar: Vmar,
    areas: BTreeMap<u64, Area>,
    pages: BTreeMap<u64, Page>,
    /// The page by which vector registers come and go.
    pub vector: Frame,
    /// Where the heap begins, and where it ends.
    pub heap: (u64, u64),
}

fn run(address: u64, frame: Frame, access: u32) -> hafnon_vproc_run_t {
    hafnon_vproc_run_t { address, offset: frame.offset(), len: PAGE, options: access, reserved: 0 }
}

impl Space {
    /// An empty one.
    pub fn new(memory: &mut Memory) -> Result<Space> {
        let job = zx::startup::job_default().ok_or_else(|| Stop::Broken("there is no job".into()))?;
        let (process, vmar) = job.create_process("guest")?;
        let vector = memory.take()?;
        vector::map(&vmar)?;
        map_runs(&vmar, memory.vmo(), &[run(vector::STATE, vector, READ | WRITE)])?;
        Ok(Space { process, vmar, areas: BTreeMap::new(), pages: BTreeMap::new(), vector, heap: (0, 0) })
    }

    /// Ends it with all that it has.
    pub fn end(self, memory: &mut Memory) -> Result<()> {
        self.process.kill()?;
        self.pages.values().for_each(|page| memory.give(page.frame));
        memory.give(self.vector);
        Ok(())
    }

    /// Another one with the same memory.
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

    /// How memory at an address may be used; 0 if there is none.
    pub fn access(&self, address: u64) -> u32 {
        self.area(address).map_or(0, |area| area.access)
    }

    /// Whether there is something in a range.
    pub fn has(&self, start: u64, end: u64) -> bool {
        self.areas.range(..end).next_back().is_some_and(|(_, area)| area.end > start)
    }

    /// An area in place of what is there.
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

    /// Room for an area, as high as there is some.
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

    /// No area begins before this and ends behind it.
    fn cut(&mut self, at: u64) {
        if let Some((_, area)) = self.areas.range_mut(..at).next_back()
            && area.end > at
        {
            let rest = area.clone();
            area.end = at;
            self.areas.insert(at, rest);
        }
    }

    /// The pages of a range are not shown any more.
    fn hide(&mut self, memory: &Memory, start: u64, end: u64) -> Result<()> {
        let mut runs = Vec::new();
        for (address, page) in self.pages.range_mut(start..end).filter(|(_, page)| page.shown != 0) {
            page.shown = 0;
            runs.push(run(*address, page.frame, 0));
        }
        self.show(memory, &runs)
    }

    /// Takes a range away.
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

    /// Changes how a range may be used, all of which must be there.
    pub fn protect(&mut self, memory: &Memory, start: u64, end: u64, access: u32) -> Result<()> {
        self.cut(start);
        self.cut(end);
        let mut at = start;
        while at < end {
            let Some(area) = self.areas.get_mut(&at) else { return fails(errno::ENOMEM) };
            area.access = access;
            at = area.end;
        }
        // They are shown again as they may be when they are touched.
        self.hide(memory, start, end)
    }

    /// The page at an address, to be read or written; it is there then.
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

    /// Shows a page as it may be used.
    fn show_page(&mut self, memory: &Memory, address: u64) -> Result<()> {
        let access = self.access(address);
        let Some(page) = self.pages.get_mut(&address) else { return Ok(()) };
        page.shown = if memory.is_shared(page.frame) { access & !WRITE } else { access };
        let run = run(address, page.frame, page.shown);
        self.show(memory, &[run])
    }

    /// The program wants memory: shows it if it may have it, and says whether it may.
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

    /// Goes through the pages of a range.
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

    /// Reads memory as the program could.
    pub fn read(&mut self, with: (&mut Memory, &mut Counts), address: u64, bytes: &mut [u8]) -> Result<()> {
        let range = (address, bytes.len());
        self.each(with, range, false, |memory, frame, at, part| memory.read(frame, at, &mut bytes[part]))
    }

    /// Writes memory as the program could.
    pub fn write(&mut self, with: (&mut Memory, &mut Counts), address: u64, bytes: &[u8]) -> Result<()> {
        let range = (address, bytes.len());
        self.each(with, range, true, |memory, frame, at, part| memory.write(frame, at, &bytes[part]))
    }
}

impl Content {
    /// What a page has of it, and where in the page.
    fn of(&self, page: u64) -> Option<(u64, &[u8])> {
        let start = page.max(self.at);
        let end = (page + PAGE).min(self.at + self.len);
        let from = self.from + usize::try_from(start.checked_sub(self.at)?).ok()?;
        let len = usize::try_from(end.checked_sub(start)?).ok()?;
        Some((start - page, self.data.get(from..from + len)?))
    }
}

/// How memory may be used that Linux's `PROT_…` tells; what can be written or executed can be read, too.
pub fn access_of(prot: u64) -> u32 {
    let bits = [(1, READ), (2, READ | WRITE), (4, READ | EXECUTE)];
    bits.iter().filter(|(bit, _)| prot & bit != 0).fold(0, |all, (_, access)| all | access)
}
