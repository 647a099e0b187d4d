//! Registers that are safe to load for user mode.
//!
//! The processor accepts canonical addresses. For any other RIP, FS base or GS base it faults in kernel mode, which
//! stops the kernel. It accepts privileged flags as they are. So code that sets a thread's registers uses
//! [`UserRegisters`], which are safe whatever they are made from. Calls reject invalid requests of programs before
//! that; the kernel checks its input once more.

use super::registers::{Registers, canonical};

/// Flags that a program may set freely: carry, parity, adjust, zero, sign, trap, direction, overflow, nested task,
/// alignment check, identification.
pub const USER_FLAGS: u64 = 0x24_4dd5;
/// The flag that makes the processor execute the next instruction although there is a breakpoint on it. A program can
/// set it with `iret`; a debugger that writes registers leaves it as it is, or clears it along with a new `rip`.
pub const RESUME_FLAG: u64 = 1 << 16;
/// Flags that are always set: the interrupt flag, and a reserved bit.
pub(super) const SET_FLAGS: u64 = 0x202;

/// Registers with a user address in RIP, canonical segment bases, and only flags that a program may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserRegisters(Registers);

/// Whether an address can be the base of FS or GS. A base in the kernel's half gives no access to its memory.
pub(super) const fn can_be_base(address: u64) -> bool {
    address.wrapping_add(1 << 47) >> 48 == 0
}

impl UserRegisters {
    /// Sanitizes registers: an invalid address becomes 0, where no program has a mapping.
    pub const fn new(mut registers: Registers) -> Self {
        if !canonical(registers.rip) {
            registers.rip = 0;
        }
        if !can_be_base(registers.fs_base) {
            registers.fs_base = 0;
        }
        if !can_be_base(registers.gs_base) {
            registers.gs_base = 0;
        }
        registers.rflags = registers.rflags & (USER_FLAGS | RESUME_FLAG) | SET_FLAGS;
        Self(registers)
    }

    /// The registers.
    pub const fn get(&self) -> &Registers {
        &self.0
    }
}

impl From<Registers> for UserRegisters {
    fn from(registers: Registers) -> Self {
        UserRegisters::new(registers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Addresses at the borders of the canonical ranges, and around them.
    fn addresses() -> impl Strategy<Value = u64> {
        let edges = [0_u64, 1 << 47, 0xffff_8000_0000_0000, 1 << 48, 1 << 63];
        prop_oneof![
            any::<u64>(),
            (0..edges.len(), 0..8_u64).prop_map(move |(edge, off)| edges[edge].wrapping_add(off).wrapping_sub(4)),
        ]
    }

    proptest! {
        #[test]
        fn whatever_they_are_made_of_the_processor_takes_them(
            (rip, fs_base, gs_base) in (addresses(), addresses(), addresses()),
            (rflags, rsp) in any::<(u64, u64)>(),
        ) {
            let given = Registers { rip, fs_base, gs_base, rflags, rsp, ..Registers::default() };
            let fit = *UserRegisters::new(given).get();
            let extended = |address: u64| (address << 16) as i64 >> 16 == address as i64;
            prop_assert!(fit.rip < 1 << 47 && extended(fit.fs_base) && extended(fit.gs_base));
            // Interrupts are on, the I/O privilege level is 0, and the virtual-8086 flag is clear.
            prop_assert_eq!(fit.rflags & 0x202, 0x202);
            prop_assert_eq!(fit.rflags & !(0x202 | USER_FLAGS | RESUME_FLAG), 0);
            // Valid values stay unchanged, and sanitizing again changes nothing.
            prop_assert!(rip >= 1 << 47 || fit.rip == rip);
            prop_assert!(!extended(fs_base) || fit.fs_base == fs_base);
            prop_assert_eq!(fit.rsp, rsp);
            prop_assert_eq!(*UserRegisters::new(fit).get(), fit);
        }
    }

    #[test]
    fn the_last_address_is_one_and_the_next_is_none() {
        let at = |rip| UserRegisters::new(Registers { rip, ..Registers::default() }).get().rip;
        assert_eq!(at((1 << 47) - 1), (1 << 47) - 1);
        assert_eq!([at(1 << 47), at((1 << 47) + 1), at(u64::MAX)], [0; 3]);
    }
}
