//! A lock for readers or a writer; writers come first.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::Futex;

/// One reader that holds the lock; the lowest 16 bits count them.
const READER: u64 = 1;
const READERS: u64 = 0xffff;
/// A writer holds the lock.
const WRITER: u64 = 1 << 16;
/// One writer that waits; 16 bits count them.
const WAITING_WRITER: u64 = 1 << 32;
const WAITING_WRITERS: u64 = 0xffff << 32;
/// One reader that waits; 16 bits count them.
const WAITING_READER: u64 = 1 << 48;
const WAITING_READERS: u64 = 0xffff << 48;

/// One word says who holds the lock and how many threads wait for it; two futexes count wake-ups of writers and of
/// readers.
///
/// A reader enters if no writer holds the lock or waits for it, so writers do not starve. A thread waits with the number
/// of wake-ups that it read before it looked at the word, so it does not miss one in between. A kernel has fewer than
/// 65,536 threads: each has a host thread.
#[derive(Debug, Default)]
pub struct RwLock {
    state: AtomicU64,
    writers: AtomicU32,
    readers: AtomicU32,
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

    /// The state after entering; `None` if the thread must wait.
    fn entered(self, state: u64) -> Option<u64> {
        match self {
            Access::Read if state & (WRITER | WAITING_WRITERS) == 0 && state & READERS != READERS => {
                Some(state + READER)
            }
            Access::Write if state & (WRITER | READERS) == 0 => Some(state | WRITER),
            _ => None,
        }
    }

    /// What a waiting thread adds to the state.
    fn waiting(self) -> u64 {
        match self {
            Access::Read => WAITING_READER,
            Access::Write => WAITING_WRITER,
        }
    }
}

impl RwLock {
    /// A free lock.
    pub const fn new() -> RwLock {
        RwLock {
            state: AtomicU64::new(0),
            writers: AtomicU32::new(0),
            readers: AtomicU32::new(0),
            owner: AtomicUsize::new(0),
        }
    }

    fn change(&self, seen: u64, new: u64) -> bool {
        self.state.compare_exchange_weak(seen, new, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Enters if it need not wait; `me` is the kernel's thread.
    pub fn try_enter(&self, access: Access, me: usize) -> bool {
        loop {
            let seen = self.state.load(Ordering::SeqCst);
            let Some(new) = access.entered(seen) else { return false };
            if self.change(seen, new) {
                self.note(access, me);
                return true;
            }
        }
    }

    /// Enters, or waits.
    pub fn enter<F: Futex>(&self, access: Access, me: usize) {
        let gate = match access {
            Access::Read => &self.readers,
            Access::Write => &self.writers,
        };
        let mut waiting = 0;
        loop {
            let ticket = gate.load(Ordering::SeqCst);
            let seen = self.state.load(Ordering::SeqCst);
            match access.entered(seen) {
                Some(new) => {
                    if self.change(seen, new - waiting) {
                        return self.note(access, me);
                    }
                }
                None if waiting == 0 => {
                    if self.change(seen, seen + access.waiting()) {
                        waiting = access.waiting();
                    }
                }
                None => {
                    let _ = F::sleep(gate, ticket, F::FOREVER);
                }
            }
        }
    }

    /// Leaves: the writer, or one of the readers.
    pub fn exit<F: Futex>(&self) {
        let writes = self.state.load(Ordering::SeqCst) & WRITER != 0;
        if writes {
            self.owner.store(0, Ordering::Relaxed);
        }
        let held = if writes { WRITER } else { READER };
        self.wake::<F>(self.state.fetch_sub(held, Ordering::SeqCst) - held);
    }

    /// Lets in the threads that may enter with this state.
    fn wake<F: Futex>(&self, state: u64) {
        if state & WAITING_WRITERS != 0 {
            if state & (WRITER | READERS) == 0 {
                self.writers.fetch_add(1, Ordering::SeqCst);
                F::wake(&self.writers, 1);
            }
        } else if state & WAITING_READERS != 0 && state & WRITER == 0 {
            self.readers.fetch_add(1, Ordering::SeqCst);
            F::wake(&self.readers, u32::MAX);
        }
    }

    /// Makes the only reader a writer; fails if there are others.
    pub fn try_upgrade(&self, me: usize) -> bool {
        loop {
            let seen = self.state.load(Ordering::SeqCst);
            if seen & (WRITER | READERS) != READER {
                return false;
            }
            if self.change(seen, seen - READER + WRITER) {
                self.owner.store(me, Ordering::Relaxed);
                return true;
            }
        }
    }

    /// Makes the writer a reader. No writer enters in between.
    pub fn downgrade<F: Futex>(&self) {
        self.owner.store(0, Ordering::Relaxed);
        let before = self.state.fetch_sub(WRITER - READER, Ordering::SeqCst);
        self.wake::<F>(before - WRITER + READER);
    }

    /// For reading: whether any thread holds it so. For writing: whether `me` does.
    pub fn is_held(&self, access: Access, me: usize) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        match access {
            Access::Read => state & READERS != 0,
            Access::Write => state & WRITER != 0 && self.owner.load(Ordering::Relaxed) == me,
        }
    }

    /// Whether no thread holds it or waits for it.
    pub fn is_free(&self) -> bool {
        self.state.load(Ordering::SeqCst) == 0
    }

    fn note(&self, access: Access, me: usize) {
        if access == Access::Write {
            self.owner.store(me, Ordering::Relaxed);
        }
    }
}
