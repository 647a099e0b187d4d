//! Calls of threads that go on: the threads' part of the protocol of [`crate::core::continuation`].

use alloc::boxed::Box;

use abi::{Rights, Status, ZX_TIME_INFINITE};

use crate::core::continuation::{Going, Progress};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::blocking::Wait;
use crate::task::thread::Thread;

impl<M: Machine> Kernel<M> {
    /// Step 2, for a thread whose call ended with [`GOES_ON`](crate::core::continuation::GOES_ON).
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn going_begin(&mut self, id: Id<Thread>, number: u32, args: [u64; 8]) -> Result<(), Status> {
        let progress = self.progress.take().ok_or(Status::INTERNAL)?;
        self.going_note(id, Going { number, args, progress, result: None })
    }

    /// The same for a call that is over but for what it has ended.
    ///
    /// # Errors
    /// As [`Kernel::going_begin`].
    pub fn going_ends(&mut self, id: Id<Thread>, number: u32, result: i64) -> Result<(), Status> {
        let process = self.objects.get(id)?.process.object();
        let progress = Progress::new(process, Rights::NONE, 0);
        self.going_note(id, Going { number, args: [0; 8], progress, result: Some(result) })
    }

    fn going_note(&mut self, id: Id<Thread>, going: Going) -> Result<(), Status> {
        let (object, with) = (going.progress.object, going.progress.with);
        self.block(id, Wait::Goes(Box::new(going)), ZX_TIME_INFINITE)?;
        self.add_ref(object);
        with.into_iter().for_each(|with| self.add_ref(with));
        if let Some(machine) = self.objects.get(id)?.machine {
            self.machine.thread_again(machine);
        }
        Ok(())
    }

    /// Steps 4, 5B and 5C: takes the continuation of a thread, if it has one. The call's objects stay alive until the
    /// end of this event.
    pub fn going_take(&mut self, id: Id<Thread>) -> Option<Going> {
        if !self.objects.get(id).is_ok_and(|thread| matches!(thread.wait, Wait::Goes(_))) {
            return None;
        }
        self.upcall_asked(id);
        match self.take_wait(id) {
            Some(Wait::Goes(going)) => Some(*going),
            _ => None,
        }
    }

    /// Step 5A: a call that ran in slices ends with a result.
    pub fn going_over(&mut self, id: Id<Thread>, result: i64) {
        if self.trace_is_on() {
            self.trace_woken(id, Some(result));
        }
    }
}
