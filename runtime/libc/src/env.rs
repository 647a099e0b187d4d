//! The environment: `environ` and the functions that read and change it.
//!
//! As in every C library, a program must not change the environment while another thread reads it directly. The
//! functions here are safe against each other. `setenv` leaks the strings that it replaces, because `getenv` may have
//! returned them.

use crate::arch::strlen;
use crate::errno::{self, EINVAL, ENOMEM};
use crate::lock::Lock;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_char;
use core::ptr::null_mut;

type Entry = *mut c_char;

/// The null-terminated list of `KEY=VALUE` strings.
#[unsafe(no_mangle)]
pub static mut environ: *mut Entry = null_mut();

/// A list that `setenv` made.
struct List(Vec<Entry>);

// SAFETY: the strings are never freed; synchronising direct reads is the program's responsibility.
unsafe impl Send for List {}

/// Guards changes of the list; holds the list that `setenv` made last.
static OWN_LIST: Lock<List> = Lock::new(List(Vec::new()));

/// The variable `environ` that the program sees: this library's, or the program's own copy.
fn cell() -> *mut *mut Entry {
    crate::loader::environ_cell().unwrap_or(&raw mut environ)
}

/// Sets the list when the process starts.
pub fn init(list: *mut Entry) {
    // SAFETY: there is only one thread yet; both variables are valid.
    unsafe {
        environ = list;
        *cell() = list;
    }
}

/// The entries of the list.
fn entries() -> &'static [Entry] {
    // SAFETY: a null-terminated list by convention; for a program that stores something else, the behaviour is
    // undefined.
    unsafe {
        let list = *cell();
        if list.is_null() {
            return &[];
        }
        let mut count = 0;
        while !(*list.add(count)).is_null() {
            count += 1;
        }
        core::slice::from_raw_parts(list, count)
    }
}

unsafe fn bytes<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: a C string, as the caller says.
    unsafe { core::slice::from_raw_parts(string.cast(), strlen(string.cast())) }
}

/// The value in `entry` if its key is `key`.
fn value_of(entry: Entry, key: &[u8]) -> Option<Entry> {
    // SAFETY: entries are C strings.
    let text = unsafe { bytes(entry) };
    let found = text.len() > key.len() && text[key.len()] == b'=' && text[..key.len()] == *key;
    found.then(|| entry.wrapping_add(key.len() + 1))
}

fn is_key(key: &[u8]) -> bool {
    !key.is_empty() && !key.contains(&b'=')
}

/// The value of `key`, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getenv(key: *const c_char) -> *mut c_char {
    // SAFETY: a C string by contract.
    let key = unsafe { bytes(key) };
    let _guard = OWN_LIST.lock();
    entries().iter().find_map(|&entry| value_of(entry, key)).unwrap_or(null_mut())
}

/// Replaces the entry with the same key by `entry`, or appends it.
fn put(entry: Entry, key: &[u8]) -> i32 {
    let mut own = OWN_LIST.lock();
    let mut list = Vec::new();
    let current = entries();
    if list.try_reserve_exact(current.len() + 2).is_err() {
        return errno::fail(ENOMEM);
    }
    list.extend(current.iter().copied().filter(|&old| value_of(old, key).is_none()));
    list.push(entry);
    list.push(null_mut());
    // SAFETY: the list lives in `own` until the next change.
    unsafe { *cell() = list.as_mut_ptr() };
    // Code outside of the library may still read the old list, so it is leaked, not freed.
    core::mem::forget(core::mem::replace(&mut own.0, list));
    0
}

/// Sets `key` to `value`; if the key exists, only if `overwrite`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setenv(key: *const c_char, value: *const c_char, overwrite: i32) -> i32 {
    // SAFETY: C strings by contract.
    unsafe {
        let (name, value) = (bytes(key), bytes(value));
        if !is_key(name) {
            return errno::fail(EINVAL);
        }
        if overwrite == 0 && !getenv(key).is_null() {
            return 0;
        }
        let mut entry = Vec::new();
        if entry.try_reserve_exact(name.len() + value.len() + 2).is_err() {
            return errno::fail(ENOMEM);
        }
        for part in [name, b"=", value, b"\0"] {
            entry.extend_from_slice(part);
        }
        put(Box::leak(entry.into_boxed_slice()).as_mut_ptr().cast(), name)
    }
}

/// Makes the string `KEY=VALUE` itself part of the environment; a string without `=` removes the key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn putenv(entry: *mut c_char) -> i32 {
    // SAFETY: a C string by contract.
    unsafe {
        match bytes(entry).iter().position(|&byte| byte == b'=') {
            Some(0) => errno::fail(EINVAL),
            Some(at) => put(entry, &bytes(entry)[..at]),
            None => unsetenv(entry),
        }
    }
}

/// Removes `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unsetenv(key: *const c_char) -> i32 {
    // SAFETY: a C string by contract.
    let key = unsafe { bytes(key) };
    if !is_key(key) {
        return errno::fail(EINVAL);
    }
    let _guard = OWN_LIST.lock();
    let count = entries().len();
    // SAFETY: moves entries within the null-terminated list.
    unsafe {
        let list = *cell();
        let mut kept = 0;
        for index in 0..count {
            let entry = *list.add(index);
            if value_of(entry, key).is_none() {
                *list.add(kept) = entry;
                kept += 1;
            }
        }
        if count > 0 {
            *list.add(kept) = null_mut();
        }
    }
    0
}

/// Removes all entries.
#[unsafe(no_mangle)]
pub extern "C" fn clearenv() -> i32 {
    let _guard = OWN_LIST.lock();
    // SAFETY: the cell is valid; null means empty.
    unsafe { *cell() = null_mut() };
    0
}
