//! Page table of a VMO: a sparse map from page numbers to frames in runs of 64, with four bytes per page.
//!
//! The runs from page 0 up to the first missing run are in a vector: most VMOs are filled from the start, and each
//! look-up of a page starts with a look-up of its run. The other runs are in a tree. A run in the middle of the vector
//! that becomes empty keeps its vector element and nothing else.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use crate::containers::growth::{Grows, OutOfMemory};
use crate::machine::Frame;

const RUN_BITS: u32 = 6;
const RUN: usize = 1 << RUN_BITS;

/// A VMO's own state of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// None: the content is what `AbsentPages` says.
    Absent,
    /// Zeroes, whatever the content of absent pages is.
    Zero,
    /// A frame.
    Frame(Frame),
}

/// The 64 pages from a multiple of 64 up.
#[derive(Default)]
struct Run {
    /// Empty while no page has an entry.
    frames: Box<[u32]>,
    /// Bitmap of the pages that have frames.
    used: u64,
    /// Bitmap of the pages that are marked as zeroes.
    zero: u64,
}

/// Entries of one run, copied or taken out.
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    /// Number of the first page that it can describe.
    pub base: u64,
    frames: [u32; RUN],
    used: u64,
    zero: u64,
}

impl Chunk {
    /// The first page after those that it can describe.
    pub fn end(&self) -> u64 {
        self.base.saturating_add(RUN as u64)
    }

    /// Its frames, with the numbers of their pages.
    pub fn frames(&self) -> impl Iterator<Item = (u64, Frame)> + '_ {
        bits(self.used).filter_map(|i| Some((self.base + i as u64, Frame(*self.frames.get(i)?))))
    }
}

/// The committed pages of a VMO, by number.
#[derive(Default)]
pub(crate) struct Pages {
    runs: RunTable,
    len: u64,
}

/// Runs by number; see the module's description.
#[derive(Default)]
struct RunTable {
    /// The runs from 0 up without a gap.
    dense: Vec<Run>,
    /// All other runs.
    sparse: BTreeMap<u64, Run>,
}

impl RunTable {
    #[inline]
    fn get(&self, key: u64) -> Option<&Run> {
        match self.dense.get(key as usize) {
            Some(run) => Some(run),
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&key),
        }
    }

    #[inline]
    fn get_mut(&mut self, key: u64) -> Option<&mut Run> {
        match self.dense.get_mut(key as usize) {
            Some(run) => Some(run),
            None => self.sparse.get_mut(&key),
        }
    }

    /// The run with this number; creates it if necessary.
    #[inline]
    fn made(&mut self, key: u64) -> Result<&mut Run, OutOfMemory> {
        if self.get(key).is_none_or(|run| run.frames.is_empty()) {
            self.make(key)?;
        }
        self.get_mut(key).ok_or(OutOfMemory)
    }

    #[inline(never)]
    fn make(&mut self, key: u64) -> Result<(), OutOfMemory> {
        let new = Run::new()?;
        if let Some(run) = self.dense.get_mut(key as usize) {
            *run = new;
        } else if key == self.dense.len() as u64 {
            self.dense.room(1)?;
            self.dense.push(new);
            // Moves the sparse run that follows to the vector: only one per new run, so that no call takes long.
            if let Some(next) = self.sparse.remove(&(key + 1)) {
                if self.dense.room(1).is_ok() {
                    self.dense.push(next);
                } else {
                    self.sparse.insert(key + 1, next);
                }
            }
        } else {
            self.sparse.insert(key, new);
        }
        Ok(())
    }

    /// Removes a run that has no entries any more.
    fn forget(&mut self, key: u64) {
        if let Some(run) = self.dense.get_mut(key as usize) {
            *run = Run::default();
            while self.dense.pop_if(|run| run.frames.is_empty()).is_some() {}
        } else {
            self.sparse.remove(&key);
        }
    }

    fn range(&self, keys: RangeInclusive<u64>) -> impl DoubleEndedIterator<Item = (u64, &Run)> + '_ {
        let len = self.dense.len() as u64;
        let (from, to) = ((*keys.start()).min(len), keys.end().saturating_add(1).min(len));
        let range = from as usize..to.max(from) as usize;
        let dense = range.clone().zip(self.dense.get(range).unwrap_or_default());
        dense.map(|(key, run)| (key as u64, run)).chain(self.sparse.range(keys).map(|(&key, run)| (key, run)))
    }

    /// Number of runs.
    fn len(&self) -> usize {
        self.dense.len() + self.sparse.len()
    }
}

fn split(page: u64) -> (u64, usize) {
    (page >> RUN_BITS, (page & (RUN as u64 - 1)) as usize)
}

/// The numbers of the set bits, lowest first.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit as usize)
    })
}

/// Bitmap of the pages of a run that lie in `[from, to)`.
fn within(run: u64, from: u64, to: u64) -> u64 {
    let base = run << RUN_BITS;
    let (from, to) = (from.saturating_sub(base), to.saturating_sub(base));
    if to == 0 || from >= RUN as u64 {
        return 0;
    }
    let below_end = if to >= RUN as u64 { u64::MAX } else { (1 << to) - 1 };
    below_end & (u64::MAX << from)
}

impl Run {
    fn new() -> Result<Run, OutOfMemory> {
        let mut frames = Vec::new();
        frames.room_exact(RUN)?;
        frames.resize(RUN, 0);
        Ok(Run { frames: frames.into_boxed_slice(), used: 0, zero: 0 })
    }
}

impl Pages {
    /// Number of committed pages.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The first page in `[from, to)` of the run that has `count` runs before it in that range.
    pub fn nth_run(&self, from: u64, to: u64, count: usize) -> Option<u64> {
        let first = |(key, _): (u64, &Run)| (key << RUN_BITS).max(from);
        self.known_runs(from, to).nth(count).map(first)
    }

    /// The page after the run that has `count` runs after it in `[from, to)`.
    pub fn nth_run_back(&self, from: u64, to: u64, count: usize) -> Option<u64> {
        let end = |(key, _): (u64, &Run)| ((key + 1) << RUN_BITS).min(to);
        self.known_runs(from, to).nth_back(count).map(end)
    }

    fn known_runs(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = (u64, &Run)> + '_ {
        let last = split(to.saturating_sub(1).max(from)).0;
        let known = |(_, run): &(u64, &Run)| run.used | run.zero != 0;
        self.runs.range(split(from).0..=last).filter(known)
    }

    /// Bytes of kernel memory that the table takes.
    pub fn metadata_bytes(&self) -> usize {
        self.runs.len() * (size_of::<(u64, Run)>() + RUN * size_of::<u32>())
    }

    #[inline]
    pub fn get(&self, page: u64) -> Entry {
        let (run, at) = split(page);
        match self.runs.get(run) {
            Some(run) if run.used >> at & 1 != 0 => {
                run.frames.get(at).map_or(Entry::Absent, |&frame| Entry::Frame(Frame(frame)))
            }
            Some(run) if run.zero >> at & 1 != 0 => Entry::Zero,
            _ => Entry::Absent,
        }
    }

    /// Allocates the run of a page, so that [`Pages::set`] cannot fail.
    pub fn reserve(&mut self, page: u64) -> Result<(), OutOfMemory> {
        self.runs.made(split(page).0).map(|_| ())
    }

    /// [`Pages::reserve`] followed by [`Pages::set`].
    pub fn place(&mut self, page: u64, frame: Frame) -> Result<Option<Frame>, OutOfMemory> {
        let (key, at) = split(page);
        let run = self.runs.made(key)?;
        let was = run.used >> at & 1 != 0;
        let old = core::mem::replace(run.frames.get_mut(at).ok_or(OutOfMemory)?, frame.0);
        run.used |= 1 << at;
        run.zero &= !(1 << at);
        self.len += u64::from(!was);
        Ok(was.then_some(Frame(old)))
    }

    /// Sets a page for which room was reserved; returns the frame that was there.
    pub fn set(&mut self, page: u64, frame: Frame) -> Option<Frame> {
        let (run, at) = split(page);
        let run = self.runs.get_mut(run)?;
        let old = core::mem::replace(run.frames.get_mut(at)?, frame.0);
        let was = run.used >> at & 1 != 0;
        run.used |= 1 << at;
        run.zero &= !(1 << at);
        self.len += u64::from(!was);
        was.then_some(Frame(old))
    }

    /// Marks a page without a frame as zeroes.
    pub fn set_zero(&mut self, page: u64) -> Result<(), OutOfMemory> {
        self.reserve(page)?;
        let (run, at) = split(page);
        if let Some(run) = self.runs.get_mut(run) {
            run.zero |= !run.used & 1 << at;
        }
        Ok(())
    }

    /// Inserts the entries of a chunk where there are none yet: the entry of page `from` at page `to`, and so on.
    /// Inserts all, or without memory none, so that the ownership of the frames is always clear.
    pub fn put(&mut self, chunk: &Chunk, from: u64, to: u64) -> Result<(), OutOfMemory> {
        // Page numbers are far below 2^63. The chunk's base may move below page 0, but none of its entries do.
        let origin = chunk.base as i64 + to as i64 - from as i64;
        let (first, shift) = (origin >> RUN_BITS, origin as u32 % RUN as u32);
        let low = (first, chunk.used << shift, chunk.zero << shift);
        let beyond = RUN as u32 - shift;
        let high = (first + 1, chunk.used.unbounded_shr(beyond), chunk.zero.unbounded_shr(beyond));
        let both = [low, high].into_iter().filter(|(_, used, zero)| used | zero != 0);
        for (key, ..) in both.clone() {
            self.runs.made(u64::try_from(key).map_err(|_| OutOfMemory)?)?;
        }
        for (key, used, zero) in both {
            let base = key << RUN_BITS;
            let Some(run) = u64::try_from(key).ok().and_then(|key| self.runs.get_mut(key)) else { continue };
            if shift == 0 && run.used == 0 {
                run.frames.copy_from_slice(&chunk.frames);
            } else {
                for i in bits(used) {
                    let source = chunk.frames.get((base + i as i64 - origin) as usize);
                    if let (Some(place), Some(&frame)) = (run.frames.get_mut(i), source) {
                        *place = frame;
                    }
                }
            }
            run.used |= used;
            run.zero |= zero;
            self.len += u64::from(used.count_ones());
        }
        Ok(())
    }

    /// Entries of pages in `[from, to)`, from the first run that has any.
    pub fn peek(&self, from: u64, to: u64) -> Option<Chunk> {
        self.known(from, to).next()
    }

    fn known(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = Chunk> + '_ {
        let last = split(to.saturating_sub(1).max(from)).0;
        self.runs.range(split(from).0..=last).filter_map(move |(key, run)| {
            let mask = within(key, from, to);
            ((run.used | run.zero) & mask != 0).then(|| run.chunk(key, mask))
        })
    }

    /// Takes out what [`Pages::peek`] returns.
    pub fn take(&mut self, from: u64, to: u64) -> Option<Chunk> {
        let chunk = self.known(from, to).next()?;
        self.forget(chunk)
    }

    /// Takes out all entries in `[from, to)`, run by run, and visits each run once.
    pub fn take_all(&mut self, mut from: u64, to: u64, mut each: impl FnMut(Chunk)) {
        while let Some(chunk) = self.take(from, to) {
            from = chunk.end();
            each(chunk);
        }
    }

    /// Takes out the entries of pages in `[from, to)` from the last run that has any.
    pub fn take_last(&mut self, from: u64, to: u64) -> Option<Chunk> {
        let chunk = self.known(from, to).next_back()?;
        self.forget(chunk)
    }

    fn forget(&mut self, chunk: Chunk) -> Option<Chunk> {
        let key = chunk.base >> RUN_BITS;
        let run = self.runs.get_mut(key)?;
        run.used &= !chunk.used;
        run.zero &= !chunk.zero;
        self.len -= u64::from(chunk.used.count_ones());
        if run.used | run.zero == 0 {
            self.runs.forget(key);
        }
        Some(chunk)
    }

    /// The first committed page in `[from, to)`.
    pub fn first(&self, from: u64, to: u64) -> Option<u64> {
        if from >= to {
            return None;
        }
        self.runs.range(split(from).0..=split(to - 1).0).find_map(|(key, run)| {
            let at = bits(run.used & within(key, from, to)).next()?;
            Some((key << RUN_BITS) + at as u64)
        })
    }

    /// The last committed page in `[from, to)`.
    pub fn last(&self, from: u64, to: u64) -> Option<u64> {
        if from >= to {
            return None;
        }
        self.runs.range(split(from).0..=split(to - 1).0).rev().find_map(|(key, run)| {
            let at = (run.used & within(key, from, to)).checked_ilog2()?;
            Some((key << RUN_BITS) + u64::from(at))
        })
    }

    /// The first range of pages in `[from, to)` without an entry.
    pub fn gap(&self, from: u64, to: u64) -> Option<Range<u64>> {
        let mut start = from;
        while start < to {
            let (key, at) = split(start);
            let Some(run) = self.runs.get(key) else { break };
            let known = ((run.used | run.zero) >> at).trailing_ones() as usize;
            start += known.min(RUN - at) as u64;
            if at + known < RUN {
                break;
            }
        }
        if start >= to {
            return None;
        }
        let end =
            self.peek(start, to).map_or(to, |next| next.base + u64::from((next.used | next.zero).trailing_zeros()));
        Some(start..end)
    }

    /// How many pages are committed in `[from, to)`.
    pub fn count(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let runs = self.runs.range(split(from).0..=split(to - 1).0);
        runs.map(|(key, run)| u64::from((run.used & within(key, from, to)).count_ones())).sum()
    }

    /// All frames of pages in `[from, to)`.
    pub fn frames(&self, from: u64, to: u64) -> impl Iterator<Item = Frame> + '_ {
        let last = if from < to { split(to - 1).0 } else { split(from).0 };
        self.runs.range(split(from).0..=last).flat_map(move |(key, run)| {
            bits(run.used & within(key, from, to)).filter_map(|at| Some(Frame(*run.frames.get(at)?)))
        })
    }
}

impl Run {
    fn chunk(&self, key: u64, mask: u64) -> Chunk {
        let mut frames = [0; RUN];
        if let Ok(all) = <[u32; RUN]>::try_from(&*self.frames) {
            frames = all;
        }
        Chunk { base: key << RUN_BITS, frames, used: self.used & mask, zero: self.zero & mask }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0u8..5, 0u64..300, 0u64..300), 0..200)) {
            let mut pages = Pages::default();
            let mut model: BTreeMap<u64, Entry> = BTreeMap::new();
            let frames = |model: &BTreeMap<u64, Entry>, from: u64, to: u64| -> Vec<(u64, Frame)> {
                let frame = |(&page, &entry): (&u64, &Entry)| match entry {
                    Entry::Frame(frame) => Some((page, frame)),
                    _ => None,
                };
                model.range(from..to).filter_map(frame).collect()
            };
            for (op, a, b) in ops {
                let (from, to) = (a.min(b), a.max(b));
                match op {
                    0 => {
                        pages.reserve(a).unwrap();
                        let old = model.insert(a, Entry::Frame(Frame(b as u32)));
                        let old = old.and_then(|e| if let Entry::Frame(f) = e { Some(f) } else { None });
                        prop_assert_eq!(pages.set(a, Frame(b as u32)), old);
                    }
                    1 => {
                        pages.set_zero(a).unwrap();
                        model.entry(a).or_insert(Entry::Zero);
                    }
                    2 => {
                        let mut taken = Vec::new();
                        if b % 2 == 0 {
                            pages.take_all(from, to, |chunk| taken.extend(chunk.frames()));
                        }
                        while let Some(chunk) = pages.take_last(from, to) {
                            prop_assert!(b % 2 != 0);
                            taken.extend(chunk.frames());
                        }
                        taken.sort();
                        prop_assert_eq!(taken, frames(&model, from, to));
                        model.retain(|page, _| !(from..to).contains(page));
                    }
                    3 => {
                        // Copies a part to another offset.
                        let mut copy = Pages::default();
                        let mut at = from;
                        while let Some(chunk) = pages.peek(at, to) {
                            copy.put(&chunk, from, b).unwrap();
                            at = chunk.end();
                        }
                        for page in 0..700 {
                            let there = page >= b && (from..to).contains(&(page - b + from));
                            let expected = if there { pages.get(page - b + from) } else { Entry::Absent };
                            prop_assert_eq!(copy.get(page), expected);
                        }
                        prop_assert_eq!(copy.len(), pages.count(from, to));
                    }
                    _ => {
                        let expected = frames(&model, from, to);
                        prop_assert_eq!(pages.count(from, to), expected.len() as u64);
                        let known = |page: &u64| model.get(page).is_some_and(|entry| *entry != Entry::Absent);
                        let gap = (from..to).find(|page| !known(page));
                        let end = |start: u64| (start..to).find(known).unwrap_or(to);
                        prop_assert_eq!(pages.gap(from, to), gap.map(|start| start..end(start)));
                        prop_assert_eq!(pages.first(from, to), expected.first().map(|(page, _)| *page));
                        prop_assert_eq!(pages.last(from, to), expected.last().map(|(page, _)| *page));
                        let all: Vec<_> = expected.into_iter().map(|(_, frame)| frame).collect();
                        prop_assert_eq!(pages.frames(from, to).collect::<Vec<_>>(), all);
                    }
                }
                prop_assert_eq!(pages.len(), frames(&model, 0, 1000).len() as u64);
                prop_assert_eq!(pages.get(a), model.get(&a).copied().unwrap_or(Entry::Absent));
            }
        }
    }
}
