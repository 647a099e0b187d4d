//! Registers that may go back to user mode.
//!
//! A processor takes addresses whose upper bits are all alike, and of any other RIP, or base of FS or GS, it tells in the kernel, which
//! stops. Flags that are privileged it takes as they come. So whoever writes a thread's registers does it with [`UserRegisters`],
//! which are fit for that whatever they were made of. What a program asks for that cannot be is refused before, where the call
//! is; the kernel looks at what it is given once more.

use crate::machine::{Registers, canonical};

/// Flags that a program may have as it likes: carry, parity, adjust, zero, sign, trap, direction, overflow, nested task,
/// alignment check, identification.
pub const USER_FLAGS: u64 = 0x24_4dd5;
/// Those that are always set: interrupts, and a bit that is.
const SET_FLAGS: u64 = 0x202;

/// Registers with an address of programs in RIP, bases that are addresses, and flags that a program may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserRegisters(Registers);

/// Whether an address can be a base of FS or GS: nobody else's memory is reached by one that is the kernel's.
const fn can_be_base(address: u64) -> bool {
    address.wrapping_add(1 << 47) >> 48 == 0
}

impl UserRegisters {
    /// Makes registers fit: an address that is none becomes 0, where no program has anything.
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
        registers.rflags = registers.rflags & USER_FLAGS | SET_FLAGS;
        Self(registers)
    }

    /// What they are.
    pub const fn get(&self) -> &Registers {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Where addresses begin and end that are some, and what lies around.
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
            // Interrupts are on; the level of input and output is 0, and nothing resumes, or is of old modes.
            prop_assert_eq!(fit.rflags & 0x202, 0x202);
            prop_assert_eq!(fit.rflags & !(0x202 | USER_FLAGS), 0);
            // What is fit stays as it is, and to be made fit once more changes nothing.
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
