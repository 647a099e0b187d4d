//! What this machine asks of the processor. Nothing outside the folders here names a register or an instruction.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
