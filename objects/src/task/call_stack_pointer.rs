//! The stack pointer of a thread in a system call, on a kernel that does not keep it.
//!
//! Such a kernel overwrites `rsp`, so the program must save it itself. All of our vDSO's entry points do that in the
//! same way: `mov rbx, rsp; syscall; mov rsp, rbx`. So a thread at that `syscall`, or at the instruction after it, has
//! its stack pointer in `rbx`, whether or not it has entered the kernel yet. A thread that enters by other code is
//! shown with the kernel's value.

use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, Registers};
use crate::task::thread::Thread;

/// `mov rbx, rsp; syscall`.
const ENTERS: [u8; 5] = [0x48, 0x89, 0xe3, 0x0f, 0x05];
/// Offsets from the start of the sequence: of a thread about to enter or waiting, and of one whose call is over.
const WITHIN: [u64; 2] = [3, 5];

impl<M: Machine> Kernel<M> {
    /// Registers as the machine reports them, with the thread's own stack pointer.
    pub(crate) fn with_stack_pointer(&mut self, thread: Id<Thread>, found: Registers) -> Registers {
        if self.machine.keeps_stack_pointer() {
            return found;
        }
        let Ok(aspace) = self.aspace_of_thread(thread) else { return found };
        let enters = |kernel: &mut Self, back| {
            let mut code = [0; ENTERS.len()];
            let at = found.rip.checked_sub(back);
            at.is_some_and(|at| kernel.copy_in(aspace, at, &mut code).is_ok() && code == ENTERS)
        };
        match WITHIN.into_iter().any(|back| enters(self, back)) {
            true => Registers { rsp: found.rbx, ..found },
            false => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::fake::FakeMachine;
    use crate::machine::Perm;
    use crate::memory::vmar::{MapRequest, Place};

    #[test]
    fn in_a_call_it_is_in_rbx() {
        const RWX: Perm = Perm { read: true, write: true, execute: true };
        let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, root) = kernel.process_create(job, Name::new(b"p")).unwrap();
        let vmo = kernel.vmo_create(4096, false).unwrap();
        let request = MapRequest { vmo, offset: 0, len: 4096, perm: RWX, max: RWX, fixed: false };
        let base = kernel.vmar_map(root, Place::At(0), request).unwrap();
        kernel.process_begin(process, None).unwrap();
        let thread = kernel.thread_create(process, Name::new(b"t")).unwrap();
        kernel.thread_start(thread, &Registers::default()).unwrap();
        let aspace = kernel.aspace_of_thread(thread).unwrap();
        kernel.copy_out(aspace, base + 100, &ENTERS).unwrap();
        for loses in [false, true] {
            kernel.machine.loses_stack_pointer = loses;
            for (at, there) in [(100, false), (103, true), (104, false), (105, true), (106, false), (4096, false)] {
                let found = Registers { rip: base + at, rsp: 1, rbx: 2, ..Registers::default() };
                let rsp = kernel.with_stack_pointer(thread, found).rsp;
                assert_eq!(rsp, if there && loses { 2 } else { 1 }, "{at}");
            }
            let nowhere = Registers { rip: 2, rsp: 1, ..Registers::default() };
            assert_eq!(kernel.with_stack_pointer(thread, nowhere).rsp, 1);
        }
    }
}
