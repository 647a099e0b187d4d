//! The C library's thread functions by their C names, for programs that test them.
//!
//! Rust programs use `std` instead. These bindings call the functions that C programs call, with types of the sizes
//! that C programs use. Objects are passed by reference, so they exist and are aligned. The caller must meet the other
//! conditions of the standards (join a thread only once, unlock only a mutex that it holds). Like `zx::probe`, this
//! crate is for tests, and violations of these conditions are not marked unsafe.
#![allow(missing_docs, non_camel_case_types, reason = "the names are those of the C standard, POSIX and Zircon")]

pub mod c11;
pub mod mman;
pub mod pthread;
pub mod stack;
pub mod sync;

use std::cell::UnsafeCell;
use std::ffi::c_void;

/// Seconds and nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct timespec {
    pub tv_sec: i64,
    pub tv_nsec: i64,
}

pub const CLOCK_REALTIME: i32 = 0;
pub const CLOCK_MONOTONIC: i32 = 1;

unsafe extern "C" {
    safe fn clock_gettime(clock: i32, time: &mut timespec) -> i32;
    safe fn __errno_location() -> *mut i32;
}

/// The time that is some milliseconds from now, on a clock.
pub fn after(clock: i32, milliseconds: i64) -> timespec {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    clock_gettime(clock, &mut time);
    let nanos = time.tv_nsec + milliseconds * 1_000_000;
    timespec { tv_sec: time.tv_sec + nanos.div_euclid(1_000_000_000), tv_nsec: nanos.rem_euclid(1_000_000_000) }
}

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: the calling thread's own variable.
    unsafe { *__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set_errno(value: i32) {
    // SAFETY: the calling thread's own variable.
    unsafe { *__errno_location() = value };
}

/// Memory for an object whose state the library manages; initially all zero.
#[repr(transparent)]
#[derive(Debug)]
pub struct Room<T>(UnsafeCell<T>);

// SAFETY: only the library's functions access the contents, and they synchronise threads.
unsafe impl<T: Send> Sync for Room<T> {}

impl<const N: usize> Room<[u64; N]> {
    const fn new() -> Self {
        Self(UnsafeCell::new([0; N]))
    }
}

impl Room<u32> {
    const fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    /// Its first word. No other thread may use it at the same time.
    pub fn get(&self) -> u32 {
        // SAFETY: a plain word, which is read in one access.
        unsafe { self.0.get().read_volatile() }
    }

    /// Sets its first word. No other thread may use it at the same time.
    pub fn set(&self, value: u32) {
        // SAFETY: a plain word, which is written in one access.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// Declares types that are such memory.
macro_rules! room {
    ($($name:ident: $room:ty;)*) => {$(
        #[repr(transparent)]
        #[derive(Debug)]
        pub struct $name(pub(crate) $crate::Room<$room>);

        impl $name {
            /// All zero, like the standard's static initialiser.
            pub const fn new() -> Self {
                Self($crate::Room::<$room>::new())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    )*};
}
pub(crate) use room;

/// The closure that a thread runs.
type Boxed<T> = Box<dyn FnOnce() -> T + Send>;

fn pack<T>(run: impl FnOnce() -> T + Send + 'static) -> *mut c_void {
    let boxed: Box<Boxed<T>> = Box::new(Box::new(run));
    Box::into_raw(boxed).cast()
}

/// # Safety
/// `packed` came from [`pack`] for this type, and is unpacked only once.
unsafe fn unpack<T>(packed: *mut c_void) -> Boxed<T> {
    // SAFETY: as the caller says.
    *unsafe { Box::from_raw(packed.cast::<Boxed<T>>()) }
}
