//! The stack pointer of a thread in a system call, on a kernel that does not keep it.
//!
//! Such a kernel overwrites `rsp`, so the program must save it itself. All of our vDSO's entry points do that in the
//! same way: `mov rbx, rsp; syscall; mov rsp, rbx`. So a thread at that `syscall`, or at the instruction after it, has
//! its stack pointer in `rbx`, whether or not it has entered the kernel yet. A thread that enters by other code is
//! shown with the kernel's value.

use super::Registers;

/// `mov rbx, rsp; syscall`.
pub(crate) const ENTERS: [u8; 5] = [0x48, 0x89, 0xe3, 0x0f, 0x05];
/// Offsets from the start of the sequence: of a thread about to enter or waiting, and of one whose call is over.
const WITHIN: [u64; 2] = [3, 5];

/// Registers with the thread's own stack pointer.
pub(super) fn restore(found: Registers, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Registers {
    let mut enters = |back| {
        let mut code = [0; ENTERS.len()];
        found.rip.checked_sub(back).is_some_and(|at| read(at, &mut code) && code == ENTERS)
    };
    match WITHIN.into_iter().any(&mut enters) {
        true => Registers { rsp: found.rbx, ..found },
        false => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_call_it_is_in_rbx() {
        let mut memory = [0; 200];
        memory[100..105].copy_from_slice(&ENTERS);
        for (at, there) in
            [(100, false), (103, true), (104, false), (105, true), (106, false), (199, false), (2, false)]
        {
            let found = Registers { rip: at, rsp: 1, rbx: 2, ..Registers::default() };
            let read = |at: u64, out: &mut [u8]| {
                let code = memory.get(at as usize..at as usize + out.len());
                code.is_some_and(|code| {
                    out.copy_from_slice(code);
                    true
                })
            };
            assert_eq!(restore(found, read).rsp, if there { 2 } else { 1 }, "{at}");
        }
    }
}
