//! The stack pointer of a thread in a system call, on a kernel that does not keep it.

use crate::arch::{GeneralRegisters, Registers};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::thread::Thread;

impl<M: Machine> Kernel<M> {
    /// Registers as the machine reports them, with the thread's own stack pointer.
    pub(crate) fn with_stack_pointer(&mut self, thread: Id<Thread>, found: Registers) -> Registers {
        if self.machine.keeps_stack_pointer() {
            return found;
        }
        let Ok(aspace) = self.aspace_of_thread(thread) else { return found };
        found.with_saved_sp(|at, code| self.copy_in(aspace, at, code).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::ENTERS;
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
