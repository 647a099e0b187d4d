//! Which page of a VMO is which frame: a sparse map in runs of 64.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::machine::{Frame, OutOfMemory};

const RUN_BITS: u32 = 6;
const RUN: usize = 1 << RUN_BITS;

struct Run {
    frames: Box<[Option<Frame>]>,
    used: usize,
}

/// The committed pages of a VMO, by number.
#[derive(Default)]
pub(crate) struct Pages {
    runs: BTreeMap<u64, Run>,
    len: u64,
}

fn split(page: u64) -> (u64, usize) {
    (page >> RUN_BITS, (page & (RUN as u64 - 1)) as usize)
}

impl Pages {
    /// Pages committed.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of the kernel's own memory that the map takes.
    pub fn metadata_bytes(&self) -> usize {
        self.runs.len() * (size_of::<(u64, Run)>() + RUN * size_of::<Option<Frame>>())
    }

    pub fn get(&self, page: u64) -> Option<Frame> {
        let (run, at) = split(page);
        *self.runs.get(&run)?.frames.get(at)?
    }

    /// Makes room for a page, so that [`Pages::set`] cannot fail.
    pub fn reserve(&mut self, page: u64) -> Result<(), OutOfMemory> {
        let (run, _) = split(page);
        if let alloc::collections::btree_map::Entry::Vacant(e) = self.runs.entry(run) {
            let mut frames = Vec::new();
            frames.try_reserve_exact(RUN).map_err(|_| OutOfMemory)?;
            frames.resize(RUN, None);
            e.insert(Run { frames: frames.into_boxed_slice(), used: 0 });
        }
        Ok(())
    }

    /// Sets a page for which room was reserved; returns what was there.
    pub fn set(&mut self, page: u64, frame: Frame) -> Option<Frame> {
        let (run, at) = split(page);
        let run = self.runs.get_mut(&run)?;
        let old = run.frames.get_mut(at)?.replace(frame);
        if old.is_none() {
            run.used += 1;
            self.len += 1;
        }
        old
    }

    /// Takes the first committed page out that lies in `[from, to)`, with its number.
    pub fn take_first(&mut self, from: u64, to: u64) -> Option<(u64, Frame)> {
        let (page, frame) = self.first(from, to)?;
        let (key, at) = split(page);
        let run = self.runs.get_mut(&key)?;
        *run.frames.get_mut(at)? = None;
        run.used -= 1;
        self.len -= 1;
        if run.used == 0 {
            self.runs.remove(&key);
        }
        Some((page, frame))
    }

    /// The first committed page in `[from, to)`.
    pub fn first(&self, from: u64, to: u64) -> Option<(u64, Frame)> {
        if from >= to {
            return None;
        }
        let (first_run, _) = split(from);
        for (&key, run) in self.runs.range(first_run..=split(to - 1).0) {
            let base = key << RUN_BITS;
            for (i, frame) in run.frames.iter().enumerate() {
                let page = base + i as u64;
                if let Some(frame) = frame
                    && (from..to).contains(&page)
                {
                    return Some((page, *frame));
                }
            }
        }
        None
    }

    /// How many pages are committed in `[from, to)`.
    pub fn count(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let mut count = 0;
        for (&key, run) in self.runs.range(split(from).0..=split(to - 1).0) {
            let base = key << RUN_BITS;
            if base >= from && base + RUN as u64 <= to {
                count += run.used as u64;
            } else {
                let inside = |(i, f): &(usize, &Option<Frame>)| f.is_some() && (from..to).contains(&(base + *i as u64));
                count += run.frames.iter().enumerate().filter(inside).count() as u64;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0u8..3, 0u64..300, 0u64..300), 0..200)) {
            let mut pages = Pages::default();
            let mut model = BTreeMap::new();
            for (op, a, b) in ops {
                match op {
                    0 => {
                        pages.reserve(a).unwrap();
                        prop_assert_eq!(pages.set(a, Frame(b as u32)), model.insert(a, Frame(b as u32)));
                    }
                    1 => {
                        let expected = model.range(a.min(b)..a.max(b)).next().map(|(&p, &f)| (p, f));
                        prop_assert_eq!(pages.take_first(a.min(b), a.max(b)), expected);
                        expected.map(|(p, _)| model.remove(&p));
                    }
                    _ => {
                        let expected = model.range(a.min(b)..a.max(b)).count() as u64;
                        prop_assert_eq!(pages.count(a.min(b), a.max(b)), expected);
                    }
                }
                prop_assert_eq!(pages.len(), model.len() as u64);
                prop_assert_eq!(pages.get(a), model.get(&a).copied());
            }
        }
    }
}
