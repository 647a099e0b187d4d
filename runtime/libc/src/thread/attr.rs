//! `pthread_attr_*`: what a thread is to be made with.

use super::{Thread, current};
use crate::errno::{EINVAL, ENOTSUP};
use core::ffi::{c_char, c_void};

/// The smallest stack that may be asked for, in bytes.
pub const STACK_MIN: usize = 2048;
/// The stack of a thread that asks for none: what std asks for, so that its threads' memory is reused.
pub const STACK_DEFAULT: usize = 2 * 1024 * 1024;
/// The largest stack that may be asked for.
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

/// Every stack has one guard page at least.
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

/// Threads run on stacks of the library's making only.
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

/// The attributes that a running thread has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(thread: *mut Thread, attr: *mut Attributes) -> i32 {
    let thread = if thread.is_null() { current() } else { thread };
    // SAFETY: the thread lives, as the contract says; the caller's object.
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
