//! `pthread_attr_*`: attributes of a new thread.

use super::{Thread, current};
use crate::errno::{EINVAL, ENOTSUP};
use core::ffi::{c_char, c_void};

/// Smallest stack size in bytes that a program can request.
pub const STACK_MIN: usize = 2048;
/// Default stack size in bytes: the one that `std` requests, so that the memory of its threads is reused.
pub const STACK_DEFAULT: usize = 2 * 1024 * 1024;
/// Largest stack size in bytes that a program can request.
const STACK_MAX: usize = 1 << 40;
const DETACHED: i32 = 1;

/// `pthread_attr_t`.
#[repr(C)]
pub struct Attributes {
    pub name: *const c_char,
    c11: i32,
    pub stack_size: usize,
    pub guard_size: usize,
    stack: *mut c_void,
    pub detached: i32,
    scheduling: i32,
    policy: i32,
    priority: i32,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            name: core::ptr::null(),
            c11: 0,
            stack_size: STACK_DEFAULT,
            guard_size: crate::sys::PAGE_SIZE,
            stack: core::ptr::null_mut(),
            detached: 0,
            scheduling: 0,
            policy: 0,
            priority: 0,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_init(attr: *mut Attributes) -> i32 {
    // SAFETY: the caller's object.
    unsafe { attr.write(Attributes::default()) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_destroy(_attr: *mut Attributes) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setstacksize(attr: *mut Attributes, size: usize) -> i32 {
    if !(STACK_MIN..=STACK_MAX).contains(&size) {
        return EINVAL;
    }
    // SAFETY: the caller's object.
    unsafe { (*attr).stack_size = size };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_getstacksize(attr: *const Attributes, size: *mut usize) -> i32 {
    // SAFETY: the caller's objects.
    unsafe { *size = (*attr).stack_size };
    0
}

/// Sets the guard size. Every stack has at least one guard page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setguardsize(attr: *mut Attributes, size: usize) -> i32 {
    if size > STACK_MAX {
        return EINVAL;
    }
    // SAFETY: the caller's object.
    unsafe { (*attr).guard_size = size };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_getguardsize(attr: *const Attributes, size: *mut usize) -> i32 {
    // SAFETY: the caller's objects.
    unsafe { *size = (*attr).guard_size };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setdetachstate(attr: *mut Attributes, state: i32) -> i32 {
    if !(0..=DETACHED).contains(&state) {
        return EINVAL;
    }
    // SAFETY: the caller's object.
    unsafe { (*attr).detached = state };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_getdetachstate(attr: *const Attributes, state: *mut i32) -> i32 {
    // SAFETY: the caller's objects.
    unsafe { *state = (*attr).detached };
    0
}

/// Not supported: threads run only on stacks that this library allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setstack(_attr: *mut Attributes, _stack: *mut c_void, _size: usize) -> i32 {
    ENOTSUP
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_getstack(
    attr: *const Attributes,
    stack: *mut *mut c_void,
    size: *mut usize,
) -> i32 {
    // SAFETY: the caller's objects.
    unsafe {
        *stack = (*attr).stack;
        *size = (*attr).stack_size;
    }
    0
}

/// The attributes of a running thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(thread: *mut Thread, attr: *mut Attributes) -> i32 {
    let thread = if thread.is_null() { current() } else { thread };
    // SAFETY: the thread lives, by contract; `attr` points to the caller's object.
    unsafe {
        let block = (*thread).block;
        let detached = i32::from((*thread).is_detached());
        attr.write(Attributes {
            stack_size: block.stack_size,
            guard_size: block.guard_size,
            stack: block.stack as *mut c_void,
            detached,
            ..Attributes::default()
        });
    }
    0
}
