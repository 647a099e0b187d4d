//! A cell for the little state that the language requires to be global: the allocator's, and the chunks that feed it.
//! The server has one thread, and no closure given to [`Single::with`] uses the same cell again.

use core::cell::UnsafeCell;

/// See the module's description.
pub struct Single<T>(UnsafeCell<T>);

// SAFETY: a server has exactly one thread.
unsafe impl<T> Sync for Single<T> {}

impl<T> Single<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Single(UnsafeCell::new(value))
    }

    /// Gives `run` access to the value.
    #[inline]
    pub fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the server has one thread, and uses of the same cell do not nest (see the module's description).
        run(unsafe { &mut *self.0.get() })
    }
}
