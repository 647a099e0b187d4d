//! Definitions that only the kernel's C headers contain, and the differences between the two families of kernels. Both
//! back ends have the same functions.

#[cfg(sel4_v5)]
mod v5;
#[cfg(sel4_v5)]
pub(crate) use v5::*;

#[cfg(sel4_v16)]
mod v16;
#[cfg(sel4_v16)]
pub(crate) use v16::*;
