//! Parameters, and random numbers.

use core::ffi::{CStr, c_char, c_int, c_void};

use rump_logic::error::{EINVAL, ENOENT};
use rump_logic::parameter;

use crate::{c, memory};

const LONGEST_HOST_NAME: usize = 256;

/// Copies a parameter's value as text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_getparam(name: *const c_char, buffer: *mut c_void, len: usize) -> c_int {
    // SAFETY: the caller's text and buffer.
    let (name, to) = unsafe { (CStr::from_ptr(name), core::slice::from_raw_parts_mut(buffer.cast::<u8>(), len)) };
    let mut digits = [0; 20];
    let mut host = [0_u8; LONGEST_HOST_NAME];
    let value = match name.to_bytes() {
        parameter::CPUS => {
            let count = parameter::cpus(c::variable(c"RUMP_NCPU").map(CStr::to_bytes));
            Some(parameter::digits(count, &mut digits))
        }
        parameter::HOST_NAME => {
            // SAFETY: the buffer has this length, and the call ends the name with a zero if there is room.
            let error = unsafe { c::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
            let name = CStr::from_bytes_until_nul(&host).map(CStr::to_bytes).unwrap_or_default();
            Some(if error != 0 || name.is_empty() { b"rump".as_slice() } else { name })
        }
        parameter::MEMORY => Some(parameter::digits(memory::limit(), &mut digits)),
        [b'_', ..] => return ENOENT,
        other if !parameter::is_name(other) => return EINVAL,
        _ => c::variable(name).map(CStr::to_bytes),
    };
    c::number(parameter::answer(value, to))
}

/// Fills a buffer from the system's generator, which needs no waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_getrandom(buffer: *mut c_void, len: usize, flags: c_int, got: *mut usize) -> c_int {
    // 1: from the hardware, which feeds the generator. 2: without waiting.
    if flags & !3 != 0 {
        return EINVAL;
    }
    // SAFETY: the caller's buffer and variable.
    unsafe {
        zx::cprng_draw(core::slice::from_raw_parts_mut(buffer.cast::<u8>(), len));
        *got = len;
    }
    0
}
