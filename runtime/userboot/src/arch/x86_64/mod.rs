//! The 64-bit x86 processors.

mod memory;
mod start;

/// A function by this name that jumps to the address in a slot, whose name is the function's with a prefix.
macro_rules! jump_by {
    ($name:expr, $prefix:literal) => {
        concat!($name, ": jmp *", $prefix, $name, "(%rip)")
    };
}
pub(crate) use jump_by;
