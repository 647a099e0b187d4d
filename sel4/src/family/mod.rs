//! What C headers alone say, and where the two families of kernels differ. Both back ends offer the same functions.

#[cfg(sel4_v5)]
mod v5;
#[cfg(sel4_v5)]
pub(crate) use v5::*;

#[cfg(sel4_v16)]
mod v16;
#[cfg(sel4_v16)]
pub(crate) use v16::*;
