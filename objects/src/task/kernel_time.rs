//! Kernel time of each job.
//!
//! Kernel time is not part of any thread's run time. The machine counts timer ticks during which the kernel runs. Each
//! tick is charged to the job for which the kernel works at that time, and to all jobs above:
//!
//! - to the job of the thread whose call or fault was handled, at the end of that event
//!   ([`Kernel::kernel_time_charge_event`]): each slice of a long call is one event, and the reaper's work directly
//!   after an event belongs to it;
//! - to the job whose process is being emptied after its end, whichever process ended it;
//! - to the job that was charged for an object that is being destroyed, whichever process had its last handle;
//! - to no job, if the work is for none of them: interrupts, timers, pages of VMOs that are freed later.
//!
//! Checking for a tick compares two words, so it adds no cost to a call. Ticks are charged whole: sums are right over
//! time, and say nothing about a single call.

use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, ThreadKey};
use crate::task::job::Job;
use abi::Status;

impl<M: Machine> Kernel<M> {
    /// An event of a thread, or of none, was handled: charges the ticks since the last one.
    #[inline(always)]
    pub fn kernel_time_charge_event(&mut self, thread: Option<ThreadKey>) {
        if self.machine.own_ticks() != self.ticks_counted {
            self.kernel_time_charge_thread(thread);
        }
    }

    #[cold]
    #[inline(never)]
    fn kernel_time_charge_thread(&mut self, thread: Option<ThreadKey>) {
        let thread = thread.and_then(|thread| self.thread_at(thread.0));
        let process = thread.and_then(|thread| self.objects.get(thread).ok()).map(|thread| thread.process);
        if let Some(account) = process.and_then(|process| self.objects.get(process).ok()).map(|process| process.account)
        {
            self.kernel_time_charge(account);
        }
        self.ticks_counted = self.machine.own_ticks();
    }

    /// Kernel time in nanoseconds for a job and everything below it, including ended processes.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the machine does not know.
    pub fn job_kernel_time(&self, job: Id<Job>) -> Result<u64, Status> {
        let tick = self.machine.own_tick().ok_or(Status::NOT_SUPPORTED)?;
        let account = self.accounts.slab.get(self.objects.get(job)?.account).ok_or(Status::INTERNAL)?;
        Ok(account.work.saturating_mul(tick))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::core::handle::Handle;
    use crate::fake::FakeMachine;
    use crate::machine::{Registers, Threads};
    use crate::task::thread::Thread;
    use abi::Rights;

    fn hold(kernel: &mut Kernel<FakeMachine>, job: Id<Job>) -> Id<Job> {
        kernel.dup_handle(Handle { object: job.object(), rights: Rights::NONE });
        job
    }

    fn start(kernel: &mut Kernel<FakeMachine>, job: Id<Job>) -> Id<Thread> {
        let (process, _) = kernel.process_create(job, Name::default()).unwrap();
        let thread = kernel.thread_create(process, Name::default()).unwrap();
        kernel.process_begin(process, None).unwrap();
        kernel.thread_start(thread, &Registers::default()).unwrap();
        thread
    }

    #[test]
    fn ticks_count_for_whom_the_kernel_works_and_those_above() {
        let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
        let tick = kernel.machine.own_tick().unwrap();
        let root = kernel.root_job().unwrap();
        let [a, b] = [(); 2].map(|()| {
            let job = kernel.job_create(root).unwrap();
            hold(&mut kernel, job)
        });
        let below = kernel.job_create(a).unwrap();
        hold(&mut kernel, below);
        let (caller, other) = (start(&mut kernel, below), start(&mut kernel, b));
        let work =
            |kernel: &Kernel<FakeMachine>| [root, a, below, b].map(|job| kernel.job_kernel_time(job).unwrap() / tick);
        kernel.kernel_time_charge_event(Some(ThreadKey(caller.object().index())));
        assert_eq!(work(&kernel), [0; 4]);
        kernel.machine.own_ticks += 3;
        kernel.kernel_time_charge_event(Some(ThreadKey(caller.object().index())));
        kernel.kernel_time_charge_event(Some(ThreadKey(other.object().index())));
        assert_eq!(work(&kernel), [3, 3, 3, 0]);
        // Charged to no job.
        kernel.machine.own_ticks += 5;
        kernel.kernel_time_charge_event(None);
        kernel.machine.own_ticks += 1;
        kernel.kernel_time_charge_event(Some(ThreadKey(other.object().index())));
        assert_eq!(work(&kernel), [4, 3, 3, 1]);
        // One job kills something in another: the time is charged to the victim's job.
        kernel.machine.own_ticks += 7;
        kernel.job_kill(a, 0);
        kernel.reap();
        kernel.kernel_time_charge_event(Some(ThreadKey(other.object().index())));
        assert_eq!(work(&kernel), [11, 10, 10, 1]);
    }
}
