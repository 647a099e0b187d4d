//! Continuations of calls: the threads' part of the protocol of [`crate::core::continuation`].

use alloc::boxed::Box;

use abi::{Rights, Status, ZX_TIME_INFINITE};

use crate::core::continuation::{Continuation, Progress};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::blocking::Wait;
use crate::task::thread::Thread;

impl<M: Machine> Kernel<M> {
    /// Step 2, for a thread whose call ended with [`CALL_CONTINUES`](crate::core::continuation::CALL_CONTINUES).
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn continuation_save(&mut self, id: Id<Thread>, number: u32, args: [u64; 8]) -> Result<(), Status> {
        let progress = self.progress.take().ok_or(Status::INTERNAL)?;
        self.continuation_block(id, Continuation { number, args, progress, result: None })
    }

    /// The same for a call that is complete except for the reaper's work.
    ///
    /// # Errors
    /// As [`Kernel::continuation_save`].
    pub fn continuation_await_reaper(&mut self, id: Id<Thread>, number: u32, result: i64) -> Result<(), Status> {
        let process = self.objects.get(id)?.process.object();
        let progress = Progress::new(process, Rights::NONE, 0);
        self.continuation_block(id, Continuation { number, args: [0; 8], progress, result: Some(result) })
    }

    fn continuation_block(&mut self, id: Id<Thread>, continuation: Continuation) -> Result<(), Status> {
        let (object, with) = (continuation.progress.object, continuation.progress.with);
        self.block(id, Wait::Continuation(Box::new(continuation)), ZX_TIME_INFINITE)?;
        self.add_ref(object);
        with.into_iter().for_each(|with| self.add_ref(with));
        if let Some(machine) = self.objects.get(id)?.machine {
            self.machine.thread_restart_call(machine);
        }
        Ok(())
    }

    /// Steps 4, 5B and 5C: takes the continuation of a thread, if it has one. The call's objects stay alive until the
    /// end of this event.
    pub fn continuation_take(&mut self, id: Id<Thread>) -> Option<Continuation> {
        if !self.objects.get(id).is_ok_and(|thread| matches!(thread.wait, Wait::Continuation(_))) {
            return None;
        }
        self.upcall_request(id);
        match self.take_wait(id) {
            Some(Wait::Continuation(continuation)) => Some(*continuation),
            _ => None,
        }
    }

    /// Step 5A: a call that ran in slices ends with a result.
    pub fn continuation_finish(&mut self, id: Id<Thread>, result: i64) {
        if self.trace_is_on() {
            self.trace_woken(id, Some(result));
        }
    }
}
