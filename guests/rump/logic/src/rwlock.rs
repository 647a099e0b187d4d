//! A lock for readers or a writer; a writer that waits stops new readers.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::Futex;

/// Who holds the lock: the number of readers, or [`WRITER`].
const HELD: u32 = WRITER;
const WRITER: u32 = 0x3fff_ffff;
/// A writer may be waiting, so new readers wait, too.
const WANTED: u32 = 1 << 30;
/// Threads may be waiting.
const WAITERS: u32 = 1 << 31;

/// One word says who holds the lock and whether threads wait; all of them sleep on it.
///
/// The last owner clears the flags in the instruction that releases the lock, and wakes all who sleep. Those that still
/// have to wait set the flags again. After the release, only the address of the word is used: whoever takes the lock then
/// may destroy it.
#[derive(Debug, Default)]
pub struct RwLock {
    word: AtomicU32,
    owner: AtomicUsize,
}

/// Whether a thread wants to enter for reading or for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Together with other readers.
    Read,
    /// Alone.
    Write,
}

impl Access {
    /// The interface's value.
    pub fn from_raw(raw: i32) -> Option<Access> {
        match raw {
            0 => Some(Access::Read),
            1 => Some(Access::Write),
            _ => None,
        }
    }

    /// The word after entering; `None` if the thread must wait.
    fn entered(self, word: u32) -> Option<u32> {
        match self {
            Access::Read if word & WANTED == 0 && word & HELD < WRITER - 1 => Some(word + 1),
            Access::Write if word & HELD == 0 => Some(word | WRITER),
            _ => None,
        }
    }

    /// The flags of a thread that waits.
    fn waiting(self) -> u32 {
        match self {
            Access::Read => WAITERS,
            Access::Write => WAITERS | WANTED,
        }
    }
}

impl RwLock {
    /// A free lock.
    pub const fn new() -> RwLock {
        RwLock { word: AtomicU32::new(0), owner: AtomicUsize::new(0) }
    }

    fn change(&self, seen: u32, new: u32) -> bool {
        self.word.compare_exchange_weak(seen, new, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Enters if it need not wait; `me` is the kernel's thread.
    pub fn try_enter(&self, access: Access, me: usize) -> bool {
        let entered = |word| access.entered(word);
        let done = self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, entered).is_ok();
        if done && access == Access::Write {
            self.owner.store(me, Ordering::Relaxed);
        }
        done
    }

    /// Enters, or waits.
    pub fn enter<F: Futex>(&self, access: Access, me: usize) {
        while !self.try_enter(access, me) {
            let seen = self.word.load(Ordering::SeqCst);
            if access.entered(seen).is_some() {
                continue;
            }
            let marked = seen | access.waiting();
            if marked == seen || self.change(seen, marked) {
                let _ = F::sleep(&self.word, marked, F::FOREVER);
            }
        }
    }

    /// Leaves: the writer, or one of the readers.
    pub fn exit<F: Futex>(&self) {
        if self.word.load(Ordering::SeqCst) & HELD == WRITER {
            self.owner.store(0, Ordering::Relaxed);
        }
        let is_last = |word: u32| word & HELD == WRITER || word & HELD <= 1;
        self.release::<F>(|word| if is_last(word) { 0 } else { word - 1 });
    }

    /// Releases the lock, or a part of it. If that clears the flags, all who wait look again.
    fn release<F: Futex>(&self, left: impl Fn(u32) -> u32) {
        let before = self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |word| Some(left(word)));
        let before = before.unwrap_or_default();
        if before & WAITERS != 0 && left(before) & WAITERS == 0 {
            F::wake(&self.word, u32::MAX);
        }
    }

    /// Makes the only reader a writer; fails if there are others.
    pub fn try_upgrade(&self, me: usize) -> bool {
        let writer = |word: u32| (word & HELD == 1).then_some(word | WRITER);
        let done = self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, writer).is_ok();
        if done {
            self.owner.store(me, Ordering::Relaxed);
        }
        done
    }

    /// Makes the writer a reader. No writer enters in between.
    pub fn downgrade<F: Futex>(&self) {
        self.owner.store(0, Ordering::Relaxed);
        self.release::<F>(|_| 1);
    }

    /// For reading: whether any thread holds it so. For writing: whether `me` does.
    pub fn is_held(&self, access: Access, me: usize) -> bool {
        let held = self.word.load(Ordering::SeqCst) & HELD;
        match access {
            Access::Read => (1..WRITER).contains(&held),
            Access::Write => held == WRITER && self.owner.load(Ordering::Relaxed) == me,
        }
    }

    /// Whether no thread holds it or waits for it.
    #[cfg(test)]
    pub fn is_free(&self) -> bool {
        self.word.load(Ordering::SeqCst) == 0
    }
}
