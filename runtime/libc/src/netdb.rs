//! Names of hosts. There is no resolver: every look-up fails, and says so. (Programs parse numeric addresses themselves.)

use core::ffi::{c_char, c_int};

/// A failure that trying again will not mend.
const EAI_FAIL: c_int = -4;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    _host: *const c_char,
    _service: *const c_char,
    _hints: *const u8,
    _result: *mut *mut u8,
) -> c_int {
    EAI_FAIL
}

/// `getaddrinfo` never made a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freeaddrinfo(_list: *mut u8) {}

#[unsafe(no_mangle)]
pub extern "C" fn gai_strerror(error: c_int) -> *const c_char {
    let text = match error {
        -1 => c"Invalid flags",
        -2 => c"Name does not resolve",
        -3 => c"Try again",
        EAI_FAIL => c"Non-recoverable error: there is no name resolver",
        -6 => c"Unrecognized address family or invalid length",
        -7 => c"Unrecognized socket type",
        -8 => c"Unrecognized service",
        -10 => c"Out of memory",
        -11 => c"System error",
        -12 => c"Overflow",
        _ => c"Unknown error",
    };
    text.as_ptr()
}
