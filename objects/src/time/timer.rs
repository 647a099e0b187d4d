//! Timers: objects that are signalled at a time.

use alloc::boxed::Box;

use abi::{Signals, Status, ZX_TIMER_SLACK_EARLY, ZX_TIMER_SLACK_LATE};

use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::time::deadline::DeadlineKind;

/// A timer.
pub struct Timer {
    /// `ZX_TIMER_SLACK_*`, as created.
    pub slack_mode: u32,
    /// The requested time, if the timer is set.
    pub deadline: Option<i64>,
    /// The slack given with the deadline, in nanoseconds.
    pub slack: i64,
    /// The time when it fires, within the slack of the deadline.
    fires: i64,
    pub(crate) number: u32,
}

impl Noun for Timer {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_TIMER;
}

impl ObjectOps for Timer {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        // No observer can wait for it any more.
        if kernel.timer_unset(id) {
            kernel.disarm();
        }
    }

    #[inline(always)]
    fn has_deadline(&self, number: u32) -> bool {
        self.deadline.is_some() && self.number == number
    }

    #[inline(always)]
    fn deadline_reached<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.timer_fired(id);
    }
}

impl<M: Machine> Kernel<M> {
    /// `timer_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn timer_create(&mut self, slack_mode: u32) -> Result<Id<Timer>, Status> {
        let timer = Timer { slack_mode, deadline: None, slack: 0, fires: 0, number: 0 };
        self.create(Signals::NONE, Box::new(timer))
    }

    /// `timer_set`: replaces an earlier setting. A deadline that has passed signals immediately.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn timer_set(&mut self, id: Id<Timer>, deadline: i64, slack: i64) -> Result<(), Status> {
        self.timer_cancel(id)?;
        if deadline <= self.machine.now() {
            self.signal(id.object(), Signals::NONE, Signals::TIMER_SIGNALED);
            return Ok(());
        }
        let timer = self.objects.get(id)?;
        let (number, slack) = (timer.number, slack.max(0));
        let (early, late) = match timer.slack_mode {
            ZX_TIMER_SLACK_EARLY => (slack, 0),
            ZX_TIMER_SLACK_LATE => (0, slack),
            _ => (slack, slack),
        };
        let fires = self.deadlines.timer_set(deadline, deadline.saturating_sub(early), deadline.saturating_add(late));
        self.arm(DeadlineKind::Timer, fires, id.object(), number).inspect_err(|_| self.deadlines.timer_unset(fires))?;
        let timer = self.objects.get_mut(id)?;
        timer.deadline = Some(deadline);
        timer.slack = slack;
        timer.fires = fires;
        Ok(())
    }

    /// `timer_cancel`: clears the setting and the signal.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn timer_cancel(&mut self, id: Id<Timer>) -> Result<(), Status> {
        if self.timer_unset(id) {
            self.disarm();
        }
        self.signal(id.object(), Signals::TIMER_SIGNALED, Signals::NONE);
        Ok(())
    }

    /// Clears the setting, so that its deadline has no effect. Says whether the timer was set.
    fn timer_unset(&mut self, id: Id<Timer>) -> bool {
        let Ok(timer) = self.objects.get_mut(id) else { return false };
        if timer.deadline.take().is_none() {
            return false;
        }
        timer.number = timer.number.wrapping_add(1);
        let fires = timer.fires;
        self.deadlines.timer_unset(fires);
        true
    }

    pub(crate) fn timer_fired(&mut self, id: Id<Timer>) {
        if self.timer_unset(id) {
            self.signal(id.object(), Signals::NONE, Signals::TIMER_SIGNALED);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use abi::ZX_TIMER_SLACK_CENTER;
    use proptest::prelude::*;

    use crate::fake::FakeMachine;

    use super::*;

    /// A timer: slack mode, deadline, slack.
    type Setting = (u32, i64, i64);

    fn setting() -> impl Strategy<Value = Setting> {
        (ZX_TIMER_SLACK_CENTER..=ZX_TIMER_SLACK_LATE, 1_i64..1000, 0_i64..100)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Every timer fires once, within its slack of its deadline, and shares its interrupt with an earlier timer
        /// that lies within its slack.
        #[test]
        fn timers_fire_within_their_slack(settings in prop::collection::vec(setting(), 1..40)) {
            let mut kernel = Kernel::new(FakeMachine::default()).unwrap();
            let timers: Vec<_> = settings.iter().map(|&(mode, ..)| kernel.timer_create(mode).unwrap()).collect();
            let mut moments: Vec<i64> = Vec::new();
            for (&timer, &(mode, deadline, slack)) in timers.iter().zip(&settings) {
                kernel.timer_set(timer, deadline, slack).unwrap();
                let early = if mode == ZX_TIMER_SLACK_LATE { 0 } else { slack };
                let late = if mode == ZX_TIMER_SLACK_EARLY { 0 } else { slack };
                let window = deadline - early..=deadline + late;
                let fires = kernel.objects.get(timer).unwrap().fires;
                prop_assert!(window.contains(&fires));
                let nearest = moments.iter().filter(|at| window.contains(at)).map(|at| at.abs_diff(deadline)).min();
                prop_assert_eq!(fires.abs_diff(deadline), nearest.unwrap_or(0));
                moments.push(fires);
            }
            for now in 0..1200 {
                kernel.machine.time = now;
                kernel.expire();
                for (&timer, &fires) in timers.iter().zip(&moments) {
                    prop_assert_eq!(kernel.signals(timer.object()).contains(Signals::TIMER_SIGNALED), fires <= now);
                }
            }
        }
    }
}
