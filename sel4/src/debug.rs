//! Functions of the debug kernel. On other kernels they do nothing.

use core::fmt;

use crate::CPtr;

/// Prints a byte on the kernel's console.
#[inline]
pub fn put_char(byte: u8) {
    #[cfg(sel4_printing)]
    crate::sys::debug(crate::generated::syscall::DEBUG_PUT_CHAR, byte.into());
    #[cfg(not(sel4_printing))]
    let _ = byte;
}

/// The kernel's number for the kind of capability at the address; 0 if there is none, or if the kernel cannot tell.
pub fn cap_kind(cptr: CPtr) -> u64 {
    #[cfg(sel4_debug)]
    return crate::sys::debug(crate::generated::syscall::DEBUG_CAP_IDENTIFY, cptr.0);
    #[cfg(not(sel4_debug))]
    {
        let _ = cptr;
        0
    }
}

/// Stops the machine, if the kernel can.
pub fn halt() {
    #[cfg(sel4_debug)]
    crate::sys::debug(crate::generated::syscall::DEBUG_HALT, 0);
}

/// A [`fmt::Write`] on the kernel's console.
#[derive(Debug, Clone, Copy, Default)]
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                put_char(b'\r');
            }
            put_char(byte);
        }
        Ok(())
    }
}

/// Whether [`put_char`] prints.
pub const PRINTS: bool = cfg!(sel4_printing);

/// Prints a line on the kernel's console, if the kernel prints.
#[macro_export]
macro_rules! debug_println {
    ($($arg:tt)*) => {{
        if $crate::debug::PRINTS {
            let mut console = $crate::debug::Console;
            let _ = ::core::fmt::Write::write_fmt(&mut console, ::core::format_args!($($arg)*));
            let _ = ::core::fmt::Write::write_str(&mut console, "\n");
        }
    }};
}
