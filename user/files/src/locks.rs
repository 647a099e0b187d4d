//! Who has locked what.
//!
//! A lock is of a whole file and an open description's, or of a range of bytes and a process'. The two kinds do not know of each other.

use std::collections::HashMap;

use file_protocol::{Error, Lock, Result};

/// A file: its tree and its node.
pub type File = (u64, u64);

/// The most ranges that are locked in one file.
const MOST_RANGES: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Range {
    owner: u64,
    /// The open description by which it was locked, with whose end it goes.
    by: u64,
    lock: Lock,
    start: u64,
    end: u64,
}

/// A range as it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The process.
    pub owner: u64,
    /// How.
    pub lock: Lock,
    /// The first byte.
    pub start: u64,
    /// The first byte behind it.
    pub end: u64,
}

#[derive(Debug, Default)]
struct Held {
    /// By open description.
    whole: HashMap<u64, Lock>,
    ranges: Vec<Range>,
}

/// All locks.
#[derive(Debug, Default)]
pub struct Locks(HashMap<File, Held>);

impl Locks {
    /// Locks a file for an open description, in the place of what it had.
    ///
    /// # Errors
    /// `Locked`: somebody else hinders, and what it had is free now.
    pub fn whole(&mut self, file: File, by: u64, lock: Lock) -> Result<()> {
        let held = self.0.entry(file).or_default();
        held.whole.remove(&by);
        let hindered = match lock {
            Lock::Free => false,
            Lock::Shared => held.whole.values().any(|other| *other == Lock::Exclusive),
            Lock::Exclusive => !held.whole.is_empty(),
        };
        if !hindered && lock != Lock::Free {
            held.whole.insert(by, lock);
        }
        self.tidy(file);
        if hindered { Err(Error::Locked) } else { Ok(()) }
    }

    /// Who hinders a range's lock: owner, lock, first byte, first byte behind.
    pub fn hinders(&self, file: File, wanted: &Wanted) -> Option<(u64, Lock, u64, u64)> {
        if wanted.lock == Lock::Free {
            return None;
        }
        let hinders = |range: &&Range| {
            let both = range.start < wanted.end && wanted.start < range.end;
            let exclusive = range.lock == Lock::Exclusive || wanted.lock == Lock::Exclusive;
            both && exclusive && range.owner != wanted.owner
        };
        let range = self.0.get(&file)?.ranges.iter().find(hinders)?;
        Some((range.owner, range.lock, range.start, range.end))
    }

    /// Locks a range for a process, in the place of what it had there.
    ///
    /// # Errors
    /// `Locked`: somebody else hinders; nothing has changed. `Memory`: there are too many.
    pub fn range(&mut self, file: File, by: u64, wanted: &Wanted) -> Result<()> {
        if self.hinders(file, wanted).is_some() {
            return Err(Error::Locked);
        }
        let held = self.0.entry(file).or_default();
        if held.ranges.len() + 2 > MOST_RANGES {
            return Err(Error::Memory);
        }
        let mut ranges = Vec::with_capacity(held.ranges.len() + 2);
        for range in held.ranges.drain(..) {
            if range.owner != wanted.owner || range.end <= wanted.start || range.start >= wanted.end {
                ranges.push(range);
                continue;
            }
            if range.start < wanted.start {
                ranges.push(Range { end: wanted.start, ..range });
            }
            if range.end > wanted.end {
                ranges.push(Range { start: wanted.end, ..range });
            }
        }
        if wanted.lock != Lock::Free {
            let Wanted { owner, lock, start, end } = *wanted;
            ranges.push(Range { owner, by, lock, start, end });
        }
        held.ranges = ranges;
        self.tidy(file);
        Ok(())
    }

    /// An open description has ended: what was locked by it is free.
    pub fn ended(&mut self, file: File, by: u64) {
        if let Some(held) = self.0.get_mut(&file) {
            held.whole.remove(&by);
            held.ranges.retain(|range| range.by != by);
        }
        self.tidy(file);
    }

    fn tidy(&mut self, file: File) {
        if self.0.get(&file).is_some_and(|held| held.whole.is_empty() && held.ranges.is_empty()) {
            self.0.remove(&file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: File = (1, 2);

    fn wanted(owner: u64, lock: Lock, start: u64, end: u64) -> Wanted {
        Wanted { owner, lock, start, end }
    }

    #[test]
    fn whole_files() {
        let mut locks = Locks::default();
        assert_eq!(locks.whole(FILE, 1, Lock::Shared), Ok(()));
        assert_eq!(locks.whole(FILE, 2, Lock::Shared), Ok(()));
        assert_eq!(locks.whole(FILE, 2, Lock::Exclusive), Err(Error::Locked));
        // It lost what it had when it asked for more.
        assert_eq!(locks.whole(FILE, 1, Lock::Exclusive), Ok(()));
        assert_eq!(locks.whole(FILE, 2, Lock::Shared), Err(Error::Locked));
        locks.ended(FILE, 1);
        assert_eq!(locks.whole(FILE, 2, Lock::Exclusive), Ok(()));
        locks.ended(FILE, 2);
        assert!(locks.0.is_empty());
    }

    #[test]
    fn ranges_split_and_are_upgraded_by_their_owner() {
        let mut locks = Locks::default();
        assert_eq!(locks.range(FILE, 1, &wanted(10, Lock::Exclusive, 0, 100)), Ok(()));
        assert_eq!(locks.range(FILE, 3, &wanted(11, Lock::Shared, 50, 60)), Err(Error::Locked));
        assert_eq!(locks.range(FILE, 2, &wanted(10, Lock::Free, 40, 70)), Ok(()));
        assert_eq!(locks.range(FILE, 3, &wanted(11, Lock::Shared, 50, 60)), Ok(()));
        assert_eq!(locks.hinders(FILE, &wanted(11, Lock::Shared, 60, 80)), Some((10, Lock::Exclusive, 70, 100)));
        assert_eq!(locks.hinders(FILE, &wanted(10, Lock::Exclusive, 0, 200)), Some((11, Lock::Shared, 50, 60)));
        locks.ended(FILE, 3);
        assert_eq!(locks.range(FILE, 1, &wanted(10, Lock::Exclusive, 0, 200)), Ok(()));
        locks.ended(FILE, 1);
        assert!(locks.0.is_empty());
    }
}
