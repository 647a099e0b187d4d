//! Suspend tokens: as long as one is there, its task stands still.
//!
//! A thread goes on only when no token holds it, neither one of its own nor one of its process. Tokens are counted, in
//! the task that each is for, so that suspending is a matter of numbers: [`Kernel::thread_settle`] looks at them and
//! stops the machine's thread or lets it go on. A task can be suspended before it is started, and a process's threads
//! of the future are held as well as those that it has.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Body, Id, ObjectId};
use crate::process::{Process, ProcessState};
use crate::thread::{Thread, ThreadState};

/// What a token holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// One thread.
    Thread(Id<Thread>),
    /// All threads of a process, now and later.
    Process(Id<Process>),
}

impl Held {
    fn object(self) -> ObjectId {
        match self {
            Held::Thread(id) => id.object(),
            Held::Process(id) => id.object(),
        }
    }
}

/// A token.
pub struct SuspendToken {
    task: Held,
}

impl<M: Machine> Kernel<M> {
    /// `task_suspend`. A thread cannot suspend itself or its own process: see to that before.
    ///
    /// # Errors
    /// `BAD_STATE`: the task has ended. `NO_MEMORY`.
    pub fn task_suspend(&mut self, task: Held) -> Result<Id<SuspendToken>, Status> {
        let dead = match task {
            Held::Thread(thread) => self.objects.get(thread)?.state == ThreadState::Dead,
            Held::Process(process) => self.objects.get(process)?.state == ProcessState::Dead,
        };
        if dead {
            return Err(Status::BAD_STATE);
        }
        let token = self.create(Signals::NONE, Body::SuspendToken(Box::new(SuspendToken { task })))?;
        self.add_ref(task.object());
        self.suspend_count(task, 1)?;
        Ok(token)
    }

    /// A token is gone: its task goes on, unless another one holds it.
    pub(crate) fn suspend_token_end(&mut self, token: SuspendToken) {
        // Only a task that is there is counted, and the token saw to that.
        let _ = self.suspend_count(token.task, -1);
        self.drop_ref(token.task.object());
    }

    /// Counts a token more or less for a task, and stops or releases its threads accordingly.
    fn suspend_count(&mut self, task: Held, change: i32) -> Result<(), Status> {
        match task {
            Held::Thread(id) => {
                let thread = self.objects.get_mut(id)?;
                thread.suspends = thread.suspends.saturating_add_signed(change);
                self.thread_settle(id);
            }
            Held::Process(id) => {
                let process = self.objects.get_mut(id)?;
                let before = process.suspends;
                process.suspends = before.saturating_add_signed(change);
                // Only the first and the last token change anything for the threads.
                if (before == 0) != (process.suspends == 0) {
                    self.process_settle(id);
                }
            }
        }
        Ok(())
    }

    /// Settles all threads of a process.
    fn process_settle(&mut self, process: Id<Process>) {
        let Ok(threads) = self.objects.get(process).map(|p| p.threads) else { return };
        let mut next = self.objects.after(threads, None);
        while let Some(thread) = next {
            self.thread_settle(Id::new(thread));
            next = self.objects.after(threads, next);
        }
    }
}
