//! Whose requests for memory count in a plan of [failure injection](crate::containers::failure_injection).

use crate::containers::failure_injection::{Made, Plan, heed, made, plan, refused_all};
use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::Machine;

impl<M: Machine> Kernel<M> {
    /// Sets a plan for a task's threads, or removes it. Returns the results of the previous one.
    pub fn refusal_plan(&mut self, new: Option<(u64, Plan)>) -> Made {
        let made = made();
        self.refusing = new.map(|(koid, _)| koid);
        if let Some((_, new)) = new {
            plan(new);
        }
        self.attend();
        made
    }

    /// Whether there is a plan.
    #[inline]
    pub fn is_refusing(&self) -> bool {
        self.refusing.is_some()
    }

    /// Step 2 for an event of the thread with this number.
    pub fn refusal_heed(&self, thread: u32) {
        let counts = |koid| self.thread_at(thread).is_some_and(|thread| self.is_within(thread.object(), koid));
        heed(self.refusing.is_some_and(counts));
    }

    /// Step 4: runs the reaper, whose requests of the plan's kind are refused.
    pub fn refusal_of_ends(&mut self, end: impl FnOnce(&mut Self)) {
        if !self.is_refusing() {
            return end(self);
        }
        refused_all(|| end(self));
    }

    /// Whether a thread, its process or one of the jobs above it has this koid.
    fn is_within(&self, thread: ObjectId, koid: u64) -> bool {
        let mut next = Some(thread);
        // There are no more levels than jobs may be nested.
        while let Some(id) = next {
            if self.koid(id) == koid {
                return true;
            }
            next = match self.objects.any(id).map(|object| &object.body) {
                Ok(Body::Thread(thread)) => Some(thread.process.object()),
                Ok(Body::Process(process)) => Some(process.job.object()),
                Ok(Body::Job(job)) => job.parent.map(Id::object),
                _ => None,
            };
        }
        false
    }

    /// Sets whether the machine must report each call first.
    pub(crate) fn attend(&mut self) {
        let on = self.trace_is_on() || self.is_refusing() || self.is_left();
        self.machine.attend(on);
    }
}
