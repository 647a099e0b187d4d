//! File locks.
//!
//! A lock covers either a whole file and belongs to an open description, or a range of bytes and belongs to a process.
//! The two kinds are independent. Each call returns what it freed, so that only the waiters for that are tried again.

use std::collections::HashMap;

use file_protocol::{Error, Lock, Result};
use service::{Ledger, Program};

/// A file: its tree and its node.
pub type File = (u64, u64);

/// Maximum number of locked ranges in one file.
const MOST_RANGES: usize = 4096;
/// Maximum number of locked ranges in all files, and of one program.
const RANGES: u64 = 65_536;
const RANGES_OF_PROGRAM: u64 = 8192;

#[derive(Clone, Copy, Debug)]
struct Range {
    /// The program and the process. A program cannot act for another one.
    owner: (Program, u64),
    /// The open description by which it was locked. The lock ends with it.
    by: u64,
    lock: Lock,
    start: u64,
    end: u64,
}

/// A request to lock a range.
#[derive(Clone, Copy, Debug)]
pub struct RangeRequest {
    /// The program of the process.
    pub program: Program,
    /// The process.
    pub owner: u64,
    /// The kind of lock.
    pub lock: Lock,
    /// The first byte.
    pub start: u64,
    /// The first byte after the range.
    pub end: u64,
}

/// A lock request: for the whole file, or for a range.
#[derive(Clone, Copy, Debug)]
pub enum LockRequest {
    /// For the whole file.
    Whole(Lock),
    /// For a range.
    Range(RangeRequest),
}

/// The locks that a call freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreedLocks {
    /// The whole file became free, or its lock became shared.
    pub whole: bool,
    /// Some range became free between this first byte and this end.
    pub range: Option<(u64, u64)>,
}

impl FreedLocks {
    /// Whether a waiter with this request may succeed now.
    pub fn concerns(&self, asked: &LockRequest) -> bool {
        match asked {
            LockRequest::Whole(_) => self.whole,
            LockRequest::Range(wanted) => {
                self.range.is_some_and(|(start, end)| wanted.start < end && start < wanted.end)
            }
        }
    }

    fn add(&mut self, start: u64, end: u64) {
        self.range = Some(self.range.map_or((start, end), |(from, to)| (from.min(start), to.max(end))));
    }
}

#[derive(Debug, Default)]
struct FileLocks {
    /// Locks by open description. An exclusive lock is the only one.
    whole: HashMap<u64, Lock>,
    ranges: Vec<Range>,
}

/// All locks.
#[derive(Debug)]
pub struct Locks {
    files: HashMap<File, FileLocks>,
    /// Counts ranges per program.
    ledger: Ledger,
}

impl Default for Locks {
    fn default() -> Locks {
        Locks { files: HashMap::new(), ledger: Ledger::new(RANGES, RANGES_OF_PROGRAM) }
    }
}

impl Locks {
    /// Locks a file for an open description, or a range for a process.
    ///
    /// # Errors
    /// As [`Locks::whole`] and [`Locks::range`]; `Invalid`: the range is empty.
    pub fn ask(&mut self, file: File, by: u64, asked: &LockRequest) -> (Result<()>, FreedLocks) {
        match asked {
            LockRequest::Whole(lock) => self.whole(file, by, *lock),
            LockRequest::Range(wanted) if wanted.start >= wanted.end => (Err(Error::Invalid), FreedLocks::default()),
            LockRequest::Range(wanted) => match self.range(file, by, wanted) {
                Ok(freed) => (Ok(()), freed),
                Err(error) => (Err(error), FreedLocks::default()),
            },
        }
    }

    /// Locks a file for an open description, replacing its previous lock. Returns what that freed, whether or not the
    /// lock was granted.
    ///
    /// # Errors
    /// `Locked`: there is a conflicting lock. The previous lock has been released.
    pub fn whole(&mut self, file: File, by: u64, lock: Lock) -> (Result<()>, FreedLocks) {
        let held = self.files.entry(file).or_default();
        let had = held.whole.remove(&by);
        let hindered = match lock {
            Lock::Free => false,
            Lock::Shared => held.whole.values().next() == Some(&Lock::Exclusive),
            Lock::Exclusive => !held.whole.is_empty(),
        };
        if !hindered && lock != Lock::Free {
            held.whole.insert(by, lock);
        }
        let has = held.whole.get(&by).copied();
        self.tidy(file);
        let less = had.is_some() && has != Some(Lock::Exclusive) && has != had;
        (if hindered { Err(Error::Locked) } else { Ok(()) }, FreedLocks { whole: less, range: None })
    }

    /// The lock that conflicts with a requested range: owner, kind, first byte, end.
    pub fn hinders(&self, file: File, wanted: &RangeRequest) -> Option<(u64, Lock, u64, u64)> {
        if wanted.lock == Lock::Free {
            return None;
        }
        let hinders = |range: &&Range| {
            let both = range.start < wanted.end && wanted.start < range.end;
            let exclusive = range.lock == Lock::Exclusive || wanted.lock == Lock::Exclusive;
            both && exclusive && range.owner != (wanted.program, wanted.owner)
        };
        let range = self.files.get(&file)?.ranges.iter().find(hinders)?;
        Some((range.owner.1, range.lock, range.start, range.end))
    }

    /// Locks a range for a process, replacing its previous locks there. Returns what that freed.
    ///
    /// # Errors
    /// `Locked`: there is a conflicting lock, and nothing has changed. `Memory`: there are too many ranges.
    pub fn range(&mut self, file: File, by: u64, wanted: &RangeRequest) -> Result<FreedLocks> {
        if self.hinders(file, wanted).is_some() {
            return Err(Error::Locked);
        }
        let RangeRequest { program, owner, lock, start, end } = *wanted;
        let held = self.files.entry(file).or_default();
        let before = held.ranges.len();
        let mut freed = FreedLocks::default();
        let mut ranges = Vec::with_capacity(before + 2);
        for range in &held.ranges {
            if range.owner != (program, owner) || range.end <= start || range.start >= end {
                ranges.push(*range);
                continue;
            }
            if lock == Lock::Free || lock == Lock::Shared && range.lock == Lock::Exclusive {
                freed.add(range.start.max(start), range.end.min(end));
            }
            if range.start < start {
                ranges.push(Range { end: start, ..*range });
            }
            if range.end > end {
                ranges.push(Range { start: end, ..*range });
            }
        }
        if lock != Lock::Free {
            ranges.push(Range { owner: (program, owner), by, lock, start, end });
        }
        let after = ranges.len();
        let more = after.saturating_sub(before) as u64;
        let has_room = after <= MOST_RANGES && self.ledger.take(program, more);
        if has_room {
            held.ranges = ranges;
            self.ledger.give(program, before.saturating_sub(after) as u64);
        }
        self.tidy(file);
        if has_room { Ok(freed) } else { Err(Error::Memory) }
    }

    /// An open description has ended: its locks are released.
    pub fn ended(&mut self, file: File, by: u64) -> FreedLocks {
        let mut freed = FreedLocks::default();
        if let Some(held) = self.files.get_mut(&file) {
            freed.whole = held.whole.remove(&by).is_some();
            held.ranges.retain(|range| {
                if range.by == by {
                    freed.add(range.start, range.end);
                    self.ledger.give(range.owner.0, 1);
                }
                range.by != by
            });
        }
        self.tidy(file);
        freed
    }

    fn tidy(&mut self, file: File) {
        if self.files.get(&file).is_some_and(|held| held.whole.is_empty() && held.ranges.is_empty()) {
            self.files.remove(&file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: File = (1, 2);

    fn wanted(owner: u64, lock: Lock, start: u64, end: u64) -> RangeRequest {
        RangeRequest { program: Program(1), owner, lock, start, end }
    }

    fn freed(start: u64, end: u64) -> FreedLocks {
        FreedLocks { whole: false, range: Some((start, end)) }
    }

    fn is_empty(locks: &Locks) -> bool {
        locks.files.is_empty() && locks.ledger.total() == 0
    }

    #[test]
    fn whole_files() {
        let mut locks = Locks::default();
        let (nothing, whole) = (FreedLocks::default(), FreedLocks { whole: true, range: None });
        assert_eq!(locks.whole(FILE, 1, Lock::Shared), (Ok(()), nothing));
        assert_eq!(locks.whole(FILE, 2, Lock::Shared), (Ok(()), nothing));
        assert_eq!(locks.whole(FILE, 2, Lock::Exclusive), (Err(Error::Locked), whole));
        // It lost its previous lock when it asked for a stronger one.
        assert_eq!(locks.whole(FILE, 1, Lock::Exclusive), (Ok(()), nothing));
        assert_eq!(locks.whole(FILE, 2, Lock::Shared), (Err(Error::Locked), nothing));
        assert_eq!(locks.whole(FILE, 1, Lock::Shared), (Ok(()), whole));
        assert_eq!(locks.whole(FILE, 1, Lock::Exclusive), (Ok(()), nothing));
        assert_eq!(locks.ended(FILE, 1), whole);
        assert_eq!(locks.whole(FILE, 2, Lock::Exclusive), (Ok(()), nothing));
        locks.ended(FILE, 2);
        assert!(is_empty(&locks));
    }

    #[test]
    fn ranges_split_and_are_upgraded_by_their_owner() {
        let mut locks = Locks::default();
        let nothing = FreedLocks::default();
        assert_eq!(locks.range(FILE, 1, &wanted(10, Lock::Exclusive, 0, 100)), Ok(nothing));
        assert_eq!(locks.range(FILE, 3, &wanted(11, Lock::Shared, 50, 60)), Err(Error::Locked));
        assert_eq!(locks.range(FILE, 2, &wanted(10, Lock::Free, 40, 70)), Ok(freed(40, 70)));
        assert_eq!(locks.range(FILE, 3, &wanted(11, Lock::Shared, 50, 60)), Ok(nothing));
        assert_eq!(locks.hinders(FILE, &wanted(11, Lock::Shared, 60, 80)), Some((10, Lock::Exclusive, 70, 100)));
        assert_eq!(locks.hinders(FILE, &wanted(10, Lock::Exclusive, 0, 200)), Some((11, Lock::Shared, 50, 60)));
        assert_eq!(locks.ended(FILE, 3), freed(50, 60));
        assert_eq!(locks.range(FILE, 1, &wanted(10, Lock::Exclusive, 0, 200)), Ok(nothing));
        assert_eq!(locks.range(FILE, 1, &wanted(10, Lock::Shared, 150, 300)), Ok(freed(150, 200)));
        locks.ended(FILE, 1);
        assert!(is_empty(&locks));
    }

    #[test]
    fn who_waits_for_something_else_is_not_asked() {
        let freed = freed(40, 70);
        for (start, end, concerned) in [(0, 40, false), (39, 41, true), (69, 100, true), (70, 80, false)] {
            assert_eq!(freed.concerns(&LockRequest::Range(wanted(1, Lock::Shared, start, end))), concerned, "{start}");
        }
        assert!(!freed.concerns(&LockRequest::Whole(Lock::Shared)));
        assert!(FreedLocks { whole: true, range: None }.concerns(&LockRequest::Whole(Lock::Shared)));
    }

    #[test]
    fn a_program_cannot_act_for_processes_of_another() {
        let mut locks = Locks::default();
        locks.range(FILE, 1, &wanted(10, Lock::Exclusive, 0, 100)).unwrap();
        let other = |lock| RangeRequest { program: Program(2), owner: 10, lock, start: 0, end: 100 };
        assert_eq!(locks.range(FILE, 2, &other(Lock::Free)), Ok(FreedLocks::default()));
        assert_eq!(locks.range(FILE, 2, &other(Lock::Shared)), Err(Error::Locked));
    }

    #[test]
    fn a_program_has_its_share_of_ranges() {
        let mut locks = Locks::default();
        let mut locked = 0;
        'files: for file in 0.. {
            for at in 0..MOST_RANGES as u64 {
                match locks.range((1, file), 1, &wanted(10, Lock::Exclusive, 2 * at, 2 * at + 1)) {
                    Ok(_) => locked += 1,
                    Err(error) => {
                        assert_eq!(error, Error::Memory);
                        break 'files;
                    }
                }
            }
            // The file has reached its limit.
            assert_eq!(locks.range((1, file), 1, &wanted(11, Lock::Shared, 1, 2)), Err(Error::Memory));
        }
        assert_eq!(locked, RANGES_OF_PROGRAM);
        let other = RangeRequest { program: Program(2), ..wanted(10, Lock::Exclusive, 0, 1) };
        assert!(locks.range((2, 1), 2, &other).is_ok());
        // Unlocking the middle of a range splits it in two, which exceeds the limit.
        assert_eq!(locks.range((1, 0), 1, &wanted(10, Lock::Free, 0, 1)), Ok(freed(0, 1)));
        assert!(locks.range((1, 0), 1, &wanted(10, Lock::Exclusive, 20_000, 20_010)).is_ok());
        assert_eq!(locks.range((1, 0), 1, &wanted(10, Lock::Free, 20_001, 20_002)), Err(Error::Memory));
    }
}
