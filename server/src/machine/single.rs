//! A cell for the little state that is global because the language asks for it: the allocator's, and the chunks that
//! feed it. The server has one thread, and no closure given to [`Single::with`] calls into the same cell again.

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

    /// Lends the value out.
    #[inline]
    pub fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: one thread, and no use nests in another of the same cell (see the module's description).
        run(unsafe { &mut *self.0.get() })
    }
}
