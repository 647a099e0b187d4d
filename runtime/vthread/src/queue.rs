//! Queues of threads, by what stands in the threads.

use core::ptr;

use crate::Thread;

/// First in, first out. A thread is in one at a time; events are disabled while one is used.
pub struct Queue {
    first: *mut Thread,
    last: *mut Thread,
}

impl Queue {
    /// An empty one.
    pub const fn new() -> Queue {
        Queue { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    /// Adds a thread that is in none.
    #[inline(always)]
    pub fn push(&mut self, thread: *mut Thread) {
        // SAFETY: threads live until they are taken from the queue of those that have ended.
        unsafe { (*thread).next = ptr::null_mut() };
        if self.first.is_null() {
            self.first = thread;
        } else {
            // SAFETY: the same; there is a last one.
            unsafe { (*self.last).next = thread };
        }
        self.last = thread;
    }

    /// Takes the first.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<*mut Thread> {
        let first = self.first;
        if first.is_null() {
            return None;
        }
        // SAFETY: as above.
        self.first = unsafe { (*first).next };
        Some(first)
    }
}
