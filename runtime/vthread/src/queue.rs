//! Queues of threads, linked through the threads themselves.

use core::ptr;

use crate::Thread;

/// A FIFO queue. A thread is in at most one queue; queues are used only with events disabled.
pub struct Queue {
    first: *mut Thread,
    last: *mut Thread,
}

impl Queue {
    /// An empty queue.
    pub const fn new() -> Queue {
        Queue { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    /// Appends a thread that is in no queue.
    #[inline(always)]
    pub fn push(&mut self, thread: *mut Thread) {
        // SAFETY: a thread lives until it is taken from the queue of ended threads.
        unsafe { (*thread).next = ptr::null_mut() };
        if self.first.is_null() {
            self.first = thread;
        } else {
            // SAFETY: the same; the queue is not empty, so `last` is valid.
            unsafe { (*self.last).next = thread };
        }
        self.last = thread;
    }

    /// Removes the first thread.
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
