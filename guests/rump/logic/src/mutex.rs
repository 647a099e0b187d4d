//! A mutex of the kernel.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::Futex;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and threads may be waiting.
const CONTENDED: u32 = 2;

/// The kernel never releases the rump CPU while it waits for this mutex.
const SPIN: u32 = 1;
/// The kernel asks for the owner.
const OWNER: u32 = 2;

/// A futex that remembers the kernel's thread that holds it.
///
/// Leaving does not hand the mutex over: the next thread that tries takes it, and a woken thread tries again.
#[derive(Debug)]
pub struct Mutex {
    word: AtomicU32,
    flags: u32,
    owner: AtomicUsize,
}

impl Mutex {
    /// A free mutex with the interface's flags; `None` if they are none.
    pub fn new(flags: u32) -> Option<Mutex> {
        let known = flags != 0 && flags & !(SPIN | OWNER) == 0;
        known.then(|| Mutex { word: AtomicU32::new(FREE), flags, owner: AtomicUsize::new(0) })
    }

    /// A free mutex for the library itself.
    pub const fn internal() -> Mutex {
        Mutex { word: AtomicU32::new(FREE), flags: 0, owner: AtomicUsize::new(0) }
    }

    /// Waits for it keep the rump CPU.
    pub fn is_spin(&self) -> bool {
        self.flags & SPIN != 0
    }

    /// After a wait for a condition, a thread gets the rump CPU first and then this mutex.
    pub fn comes_after_cpu(&self) -> bool {
        self.flags == SPIN | OWNER
    }

    /// Takes it if it is free; `me` is the kernel's thread.
    pub fn try_enter(&self, me: usize) -> bool {
        let taken = self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken {
            self.set_owner(me);
        }
        taken
    }

    /// Takes it, or waits for it.
    pub fn enter<F: Futex>(&self, me: usize) {
        if !self.try_enter(me) {
            self.wait::<F>();
            self.set_owner(me);
        }
    }

    #[cold]
    fn wait<F: Futex>(&self) {
        // A woken thread cannot know whether others wait, so it holds the mutex as if they did.
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            let _ = F::sleep(&self.word, CONTENDED, F::FOREVER);
        }
    }

    /// Releases it.
    pub fn exit<F: Futex>(&self) {
        self.set_owner(0);
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            F::wake(&self.word, 1);
        }
    }

    /// The kernel's thread that holds it; zero for none.
    pub fn owner(&self) -> usize {
        self.owner.load(Ordering::Relaxed)
    }

    /// Whether any thread holds it.
    #[cfg(test)]
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    fn set_owner(&self, thread: usize) {
        if self.flags & OWNER != 0 {
            self.owner.store(thread, Ordering::Relaxed);
        }
    }
}
