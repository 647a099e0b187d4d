//! Clocks and sleep. The vDSO answers calls that only read time.

use abi::{
    Rights, Status, ZX_CLOCK_ARGS_VERSION_1, ZX_CLOCK_ARGS_VERSION_2, ZX_CLOCK_ARGS_VERSION_MASK,
    ZX_CLOCK_OPT_AUTO_START, ZX_CLOCK_OPT_CONTINUOUS, ZX_CLOCK_OPT_MAPPABLE, ZX_CLOCK_OPT_MONOTONIC, ZX_CLOCK_OPTS_ALL,
    ZX_CLOCK_UPDATE_OPTION_ERROR_BOUND_VALID, ZX_CLOCK_UPDATE_OPTION_RATE_ADJUST_VALID,
    ZX_CLOCK_UPDATE_OPTION_REFERENCE_VALUE_VALID, ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID,
    ZX_DEFAULT_CLOCK_RIGHTS, zx_clock_create_args_v1_t, zx_clock_update_args_v1_t, zx_clock_update_args_v2_t,
};
use objects::core::handle::HandleValue;
use objects::core::wait::Waiting;
use objects::machine::Machine;
use objects::time::clock::{Clock, ClockUpdate};

use crate::Answer;
use crate::cx::Cx;
use crate::user::{In, Out};

/// Sleeps until a deadline. If it has passed, the thread yields.
pub fn nanosleep<M: Machine>(cx: &mut Cx<'_, M>, deadline: i64) -> Result<Answer, Status> {
    Ok(match cx.kernel.sleep(cx.thread, deadline)? {
        Waiting::Blocked => Answer::Blocked,
        Waiting::Over(_) => Answer::Yield,
    })
}

/// Creates a clock.
pub fn clock_create<M: Machine>(cx: &mut Cx<'_, M>, options: u64, args: In<u8>, out: Out<u32>) -> Result<(), Status> {
    let version = options & ZX_CLOCK_ARGS_VERSION_MASK;
    let options = options & !ZX_CLOCK_ARGS_VERSION_MASK;
    let continuous = options & ZX_CLOCK_OPT_CONTINUOUS != 0;
    if options & !ZX_CLOCK_OPTS_ALL != 0 || continuous && options & ZX_CLOCK_OPT_MONOTONIC == 0 {
        return Err(Status::INVALID_ARGS);
    }
    let backstop = match version {
        0 if args.is_null() => 0,
        ZX_CLOCK_ARGS_VERSION_1 => cx.read(In::<zx_clock_create_args_v1_t>::new(args.0))?.backstop_time,
        _ => return Err(Status::INVALID_ARGS),
    };
    if backstop < 0 {
        return Err(Status::INVALID_ARGS);
    }
    let start = options & ZX_CLOCK_OPT_AUTO_START != 0;
    if start && cx.kernel.machine.now() < backstop {
        return Err(Status::INVALID_ARGS);
    }
    let clock = cx.kernel.clock_create(Some(cx.process), options, backstop, start.then_some(0))?;
    let mut rights = ZX_DEFAULT_CLOCK_RIGHTS;
    rights.set(Rights::MAP, options & ZX_CLOCK_OPT_MAPPABLE != 0);
    cx.hand_out(clock, rights, out)
}

/// Reads a clock.
pub fn clock_read<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, out: Out<i64>) -> Result<(), Status> {
    let clock = cx.get::<Clock>(value, Rights::READ)?;
    let reading = cx.kernel.clock_read(clock)?;
    cx.write(out, reading)
}

/// Returns everything about a clock.
pub fn clock_get_details<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u64,
    out: Out<u8>,
) -> Result<(), Status> {
    if options != ZX_CLOCK_ARGS_VERSION_1 {
        return Err(Status::INVALID_ARGS);
    }
    let id = cx.get::<Clock>(value, Rights::READ)?;
    let details = cx.kernel.clock_details(id)?;
    cx.write(Out::new(out.0), details)
}

/// Starts, sets or adjusts a clock.
pub fn clock_update<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u64,
    args: In<u8>,
) -> Result<(), Status> {
    let version = options & ZX_CLOCK_ARGS_VERSION_MASK;
    let asked = options & !ZX_CLOCK_ARGS_VERSION_MASK;
    let mut known = ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID
        | ZX_CLOCK_UPDATE_OPTION_RATE_ADJUST_VALID
        | ZX_CLOCK_UPDATE_OPTION_ERROR_BOUND_VALID;
    if version == ZX_CLOCK_ARGS_VERSION_2 {
        known |= ZX_CLOCK_UPDATE_OPTION_REFERENCE_VALUE_VALID;
    }
    if asked & !known != 0 || asked == 0 {
        return Err(Status::INVALID_ARGS);
    }
    let id = cx.get::<Clock>(value, Rights::WRITE)?;
    let args = match version {
        ZX_CLOCK_ARGS_VERSION_1 => {
            let v1 = cx.read(In::<zx_clock_update_args_v1_t>::new(args.0))?;
            zx_clock_update_args_v2_t {
                rate_adjust: v1.rate_adjust,
                synthetic_value: v1.value,
                error_bound: v1.error_bound,
                ..Default::default()
            }
        }
        ZX_CLOCK_ARGS_VERSION_2 => cx.read(In::<zx_clock_update_args_v2_t>::new(args.0))?,
        _ => return Err(Status::INVALID_ARGS),
    };
    let given = |option| asked & option != 0;
    let update = ClockUpdate {
        value: given(ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID).then_some(args.synthetic_value),
        reference: given(ZX_CLOCK_UPDATE_OPTION_REFERENCE_VALUE_VALID).then_some(args.reference_value),
        ppm: given(ZX_CLOCK_UPDATE_OPTION_RATE_ADJUST_VALID).then_some(args.rate_adjust),
        error_bound: given(ZX_CLOCK_UPDATE_OPTION_ERROR_BOUND_VALID).then_some(args.error_bound),
    };
    cx.kernel.clock_update(id, &update)
}
