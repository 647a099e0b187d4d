//! Remote clients of the kernel: there are none. A kernel that serves them learns so when it starts to listen.

use core::ffi::{c_char, c_int, c_void};

use rump_logic::error::ENOSYS;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_sp_init(
    _url: *const c_char,
    _system: *const c_char,
    _release: *const c_char,
    _machine: *const c_char,
) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_sp_copyin(_: *mut c_void, _: *const c_void, _: *mut c_void, _: usize) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_sp_copyinstr(
    _: *mut c_void,
    _: *const c_void,
    _: *mut c_void,
    _: *mut usize,
) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_sp_copyout(_: *mut c_void, _: *const c_void, _: *mut c_void, _: usize) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_sp_copyoutstr(
    _: *mut c_void,
    _: *const c_void,
    _: *mut c_void,
    _: *mut usize,
) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_sp_anonmmap(_: *mut c_void, _: usize, _: *mut *mut c_void) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_sp_raise(_: *mut c_void, _: c_int) -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_sp_fini(_: *mut c_void) {}
