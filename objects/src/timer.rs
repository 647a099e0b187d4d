//! Timers: a signal at a time.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Body, Id};

/// A timer.
pub struct Timer {
    /// `ZX_TIMER_SLACK_*`, as created.
    pub slack_mode: u32,
    /// When it fires, if it is set.
    pub deadline: Option<i64>,
    /// The slack given with the deadline, in nanoseconds.
    pub slack: i64,
    pub(crate) number: u32,
}

impl<M: Machine> Kernel<M> {
    /// `timer_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn timer_create(&mut self, slack_mode: u32) -> Result<Id<Timer>, Status> {
        let timer = Timer { slack_mode, deadline: None, slack: 0, number: 0 };
        self.create(Signals::NONE, Body::Timer(Box::new(timer)))
    }

    /// `timer_set`: forgets an earlier setting. A deadline that has passed signals at once.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn timer_set(&mut self, id: Id<Timer>, deadline: i64, slack: i64) -> Result<(), Status> {
        self.timer_cancel(id)?;
        if deadline <= self.machine.now() {
            self.signal(id.object(), Signals::NONE, Signals::TIMER_SIGNALED);
            return Ok(());
        }
        let number = self.objects.get(id)?.number;
        self.arm(deadline, id.object(), number)?;
        let timer = self.objects.get_mut(id)?;
        timer.deadline = Some(deadline);
        timer.slack = slack;
        Ok(())
    }

    /// `timer_cancel`: the timer is not set, and not signalled.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn timer_cancel(&mut self, id: Id<Timer>) -> Result<(), Status> {
        let timer = self.objects.get_mut(id)?;
        if timer.deadline.take().is_some() {
            timer.number = timer.number.wrapping_add(1);
            self.disarm();
        }
        self.signal(id.object(), Signals::TIMER_SIGNALED, Signals::NONE);
        Ok(())
    }

    pub(crate) fn timer_fired(&mut self, id: Id<Timer>) {
        if let Ok(timer) = self.objects.get_mut(id) {
            timer.deadline = None;
            timer.number = timer.number.wrapping_add(1);
            self.signal(id.object(), Signals::NONE, Signals::TIMER_SIGNALED);
        }
    }

    pub(crate) fn timer_unreachable(&mut self, id: Id<Timer>) {
        // Nobody can wait for it any more; its deadline finds nothing.
        if self.objects.get_mut(id).is_ok_and(|t| t.deadline.take().is_some()) {
            self.disarm();
        }
    }
}
