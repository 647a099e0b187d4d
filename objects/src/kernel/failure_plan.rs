//! Failure injection per task: whose requests for memory count in a plan ([`crate::containers::failure_injection`]).

use crate::containers::failure_injection::{Plan, PlanResults, arm, fail_all, made, plan};
use crate::core::object::ObjectId;
use crate::kernel::Kernel;
use crate::machine::Machine;

impl<M: Machine> Kernel<M> {
    /// Sets a plan for a task's threads, or removes it. Returns the results of the previous one.
    pub fn failure_plan_set(&mut self, new: Option<(u64, Plan)>) -> PlanResults {
        let made = made();
        self.failure_plan_task = new.map(|(koid, _)| koid);
        if let Some((_, new)) = new {
            plan(new);
        }
        self.update_slow_path();
        made
    }

    /// Whether there is a plan.
    #[inline]
    pub fn failure_plan_is_set(&self) -> bool {
        self.failure_plan_task.is_some()
    }

    /// Step 2 for an event of the thread with this number.
    pub fn failure_plan_arm(&self, thread: u32) {
        let counts = |koid| self.thread_at(thread).is_some_and(|thread| self.is_within(thread.object(), koid));
        arm(self.failure_plan_task.is_some_and(counts));
    }

    /// Step 4: runs the reaper, whose requests of the plan's kind fail.
    pub fn failure_plan_reap(&mut self, end: impl FnOnce(&mut Self)) {
        if !self.failure_plan_is_set() {
            return end(self);
        }
        fail_all(|| end(self));
    }

    /// Whether a thread, its process or one of the jobs above it has this koid.
    fn is_within(&self, thread: ObjectId, koid: u64) -> bool {
        let mut next = Some(thread);
        // The number of levels is limited by the maximum height of the job tree.
        while let Some(id) = next {
            if self.koid(id) == koid {
                return true;
            }
            next = self.objects.any(id).ok().and_then(|object| object.body.parent());
        }
        false
    }

    /// Sets whether the machine must report each call before it runs.
    pub(crate) fn update_slow_path(&mut self) {
        let on = self.trace_is_on() || self.failure_plan_is_set() || self.reaper_has_work();
        self.machine.force_slow_path(on);
    }
}
