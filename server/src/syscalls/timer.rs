//! Timers.

use abi::{
    Rights, Status, ZX_CLOCK_BOOT, ZX_CLOCK_MONOTONIC, ZX_DEFAULT_TIMER_RIGHTS, ZX_TIMER_SLACK_CENTER,
    ZX_TIMER_SLACK_EARLY, ZX_TIMER_SLACK_LATE,
};
use objects::core::handle::HandleValue;
use objects::machine::Machine;
use objects::time::timer::Timer;

use crate::cx::Cx;
use crate::user::Out;

/// Creates a timer. Boot and monotonic time are the same here: the system is never suspended.
pub fn timer_create<M: Machine>(cx: &mut Cx<'_, M>, options: u32, clock: u32, out: Out<u32>) -> Result<(), Status> {
    if !matches!(options, ZX_TIMER_SLACK_CENTER | ZX_TIMER_SLACK_EARLY | ZX_TIMER_SLACK_LATE) {
        return Err(Status::INVALID_ARGS);
    }
    if clock != ZX_CLOCK_MONOTONIC && clock != ZX_CLOCK_BOOT {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_TIMER)?;
    let timer = cx.kernel.timer_create(options)?;
    cx.hand_out(timer, ZX_DEFAULT_TIMER_RIGHTS, out)
}

/// Sets a timer.
pub fn timer_set<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, deadline: i64, slack: i64) -> Result<(), Status> {
    if slack < 0 {
        return Err(Status::OUT_OF_RANGE);
    }
    let timer = cx.get::<Timer>(value, Rights::WRITE)?;
    cx.kernel.timer_set(timer, deadline, slack)
}

/// Cancels a timer.
pub fn timer_cancel<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let timer = cx.get::<Timer>(value, Rights::WRITE)?;
    cx.kernel.timer_cancel(timer)
}
