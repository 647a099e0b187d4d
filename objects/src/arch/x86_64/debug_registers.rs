//! The debug registers.

use abi::zx_thread_state_debug_regs_t;

use super::layout::USER_TOP;
use crate::arch::Breakpoints;

/// The debug registers of a thread: up to four breakpoints, each on execution or on data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DebugRegisters {
    /// DR0 to DR3: the addresses.
    pub addresses: [u64; 4],
    /// DR6: a bit for each breakpoint that the last debug exception was for, and bit 14 for a single step.
    pub status: u64,
    /// DR7: which breakpoints are enabled, for which accesses, and for how many bytes.
    pub control: u64,
}

impl DebugRegisters {
    /// The bits of DR6 that are always set.
    const STATUS_FIXED: u64 = 0xffff_0ff0;
    /// The bits of DR7 that are always set here: the reserved one, and two that ask for exact breakpoints.
    const CONTROL_FIXED: u64 = 0x700;
    /// The bits of DR7 that a program sets: enabling, accesses, lengths.
    const CONTROL_SET: u64 = 0xffff_00ff;

    /// The bits of DR7 that enable breakpoints.
    const ENABLED: u64 = 0xff;
}

impl Breakpoints for DebugRegisters {
    fn of_state(state: &zx_thread_state_debug_regs_t) -> Self {
        DebugRegisters { addresses: state.dr, status: state.dr6, control: state.dr7 }
    }

    fn state(&self) -> zx_thread_state_debug_regs_t {
        zx_thread_state_debug_regs_t { dr: self.addresses, dr6: self.status, dr7: self.control }
    }

    fn shown(self) -> Self {
        DebugRegisters {
            addresses: self.addresses,
            status: self.status | Self::STATUS_FIXED,
            control: self.control | Self::CONTROL_FIXED,
        }
    }

    fn settled(&self, before: &Self) -> Self {
        let control = self.control & Self::CONTROL_SET | Self::CONTROL_FIXED;
        DebugRegisters { addresses: self.addresses, status: before.status, control }
    }

    /// All addresses must be user addresses. An enabled breakpoint must be for execution with a length of one byte, or for
    /// data that is aligned to its length.
    fn valid(&self) -> bool {
        self.addresses.iter().enumerate().all(|(n, &address)| {
            let enabled = self.control >> (2 * n) & 3 != 0;
            let length = match self.control >> (18 + 4 * n) & 3 {
                0 => 1,
                1 => 2,
                2 => 8,
                _ => 4,
            };
            let possible = match self.control >> (16 + 4 * n) & 3 {
                0 => length == 1,
                // I/O ports.
                2 => false,
                _ => address.is_multiple_of(length),
            };
            address < USER_TOP && (possible || !enabled)
        })
    }

    fn enabled(&self) -> bool {
        self.control & Self::ENABLED != 0
    }

    fn with_status_of(self, other: &Self) -> Self {
        DebugRegisters { status: other.status, ..self }
    }
}
