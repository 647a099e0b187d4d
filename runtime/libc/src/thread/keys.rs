//! `pthread_key_*`: per-thread values with destructors.

use super::current;
use crate::errno::{EAGAIN, EINVAL};
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Limit on the keys of a process.
pub const KEYS: usize = 128;
/// Limit on the rounds of destructors that set values again.
const ROUNDS: usize = 4;

pub type Destroy = unsafe extern "C" fn(*mut c_void);

/// A key's destructor; 0 = no such key, 1 = a key without destructor.
static DESTRUCTORS: [AtomicUsize; KEYS] = [const { AtomicUsize::new(0) }; KEYS];
const NO_DESTRUCTOR: usize = 1;

/// One thread's values.
pub struct Values([Cell<*mut c_void>; KEYS]);

impl Values {
    /// Calls the destructors of all values, and again while they set new ones, up to `ROUNDS` times.
    pub fn destroy(&self) {
        for _ in 0..ROUNDS {
            let mut any = false;
            for (value, destructor) in self.0.iter().zip(&DESTRUCTORS) {
                let destructor = destructor.load(Ordering::Acquire);
                if value.get().is_null() || destructor <= NO_DESTRUCTOR {
                    continue;
                }
                any = true;
                // SAFETY: `pthread_key_create` stored a function of this type.
                unsafe { core::mem::transmute::<usize, Destroy>(destructor)(value.replace(null_mut())) };
            }
            if !any {
                return;
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_key_create(key: *mut u32, destructor: Option<Destroy>) -> i32 {
    let destructor = destructor.map_or(NO_DESTRUCTOR, |function| function as usize);
    // Key 0 is not used, because some programs take it for "no key".
    for (index, place) in DESTRUCTORS.iter().enumerate().skip(1) {
        if place.compare_exchange(0, destructor, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: `key` has room for the result.
            unsafe { *key = index as u32 };
            return 0;
        }
    }
    EAGAIN
}

/// Deletes a key. Its values in other threads remain until those set them, and a new key with the same number would
/// show them; so this clears at least the calling thread's value.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_key_delete(key: u32) -> i32 {
    match DESTRUCTORS.get(key as usize) {
        Some(place) if place.swap(0, Ordering::AcqRel) != 0 => pthread_setspecific_value(key, null_mut()),
        _ => EINVAL,
    }
}

fn pthread_setspecific_value(key: u32, value: *mut c_void) -> i32 {
    // SAFETY: the calling thread lives.
    match unsafe { (*current()).keys.0.get(key as usize) } {
        Some(place) => {
            place.set(value);
            0
        }
        None => EINVAL,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_setspecific(key: u32, value: *const c_void) -> i32 {
    pthread_setspecific_value(key, value.cast_mut())
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_getspecific(key: u32) -> *mut c_void {
    // SAFETY: the calling thread lives.
    unsafe { (*current()).keys.0.get(key as usize) }.map_or(null_mut(), Cell::get)
}
