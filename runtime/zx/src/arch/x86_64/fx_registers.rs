//! The x87 and SSE registers of the calling thread around a call, for tests of what shares them.

use core::arch::asm;

use crate::{Result, check};

/// x87 and SSE registers, as FXSAVE writes them.
#[repr(C, align(16))]
pub struct FxRegisters(pub [u8; 512]);

impl FxRegisters {
    /// Calls a function with these registers. Afterwards they hold the values that it has left.
    ///
    /// # Safety
    /// `function` is an `extern "C"` function of three words, or fewer, that returns a status and may be called with
    /// these arguments and with any values in these registers.
    pub(crate) unsafe fn around(&mut self, function: *const (), arguments: [u64; 3]) -> Result<()> {
        let mut own = Self([0; 512]);
        let [first, second, third] = arguments;
        let status: i32;
        // SAFETY: both areas have the size and alignment that FXSAVE requires; the last FXRSTOR restores the registers
        // that this function saved first. The call is as the caller promises.
        unsafe {
            asm!(
                "fxsave [r13]",
                "fxrstor [r12]",
                "call {function}",
                "fxsave [r12]",
                "fxrstor [r13]",
                function = in(reg) function,
                in("r12") &raw mut self.0,
                in("r13") &raw mut own.0,
                inout("rdi") first => _,
                inout("rsi") second => _,
                inout("rdx") third => _,
                lateout("eax") status,
                clobber_abi("C"),
            );
        }
        check(status)
    }
}
