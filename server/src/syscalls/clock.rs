//! Clocks and sleep. What only reads time is answered in the vDSO.

use abi::{
    Rights, Status, ZX_CLOCK_OPT_AUTO_START, ZX_CLOCK_OPT_BOOT, ZX_CLOCK_OPT_CONTINUOUS, ZX_CLOCK_OPT_MAPPABLE,
    ZX_CLOCK_OPT_MONOTONIC, ZX_DEFAULT_CLOCK_RIGHTS, zx_clock_create_args_v1_t, zx_clock_details_v1_t,
};
use objects::clock::Clock;
use objects::handle::HandleValue;
use objects::machine::Machine;
use objects::wait::Waiting;

use crate::Answer;
use crate::cx::Cx;
use crate::user::{In, Out};

/// Where the version of a structure stands in a call's options.
const VERSION_SHIFT: u32 = 58;

/// Sleeps until a time. If that has passed, other threads run first.
pub fn nanosleep<M: Machine>(cx: &mut Cx<'_, M>, deadline: i64) -> Result<Answer, Status> {
    Ok(match cx.kernel.sleep(cx.thread, deadline)? {
        Waiting::Blocked => Answer::Blocked,
        Waiting::Over(_) => Answer::Yield,
    })
}

/// Creates a clock.
pub fn clock_create<M: Machine>(cx: &mut Cx<'_, M>, options: u64, args: In<u8>, out: Out<u32>) -> Result<(), Status> {
    let known = ZX_CLOCK_OPT_MONOTONIC
        | ZX_CLOCK_OPT_CONTINUOUS
        | ZX_CLOCK_OPT_AUTO_START
        | ZX_CLOCK_OPT_BOOT
        | ZX_CLOCK_OPT_MAPPABLE;
    let version = options >> VERSION_SHIFT;
    let options = options & ((1 << VERSION_SHIFT) - 1);
    let continuous = options & ZX_CLOCK_OPT_CONTINUOUS != 0;
    if options & !known != 0 || continuous && options & ZX_CLOCK_OPT_MONOTONIC == 0 {
        return Err(Status::INVALID_ARGS);
    }
    if options & ZX_CLOCK_OPT_MAPPABLE != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let backstop = match version {
        0 if args.is_null() => 0,
        1 if !args.is_null() => cx.read(In::<zx_clock_create_args_v1_t>::new(args.0))?.backstop_time,
        _ => return Err(Status::INVALID_ARGS),
    };
    if backstop < 0 {
        return Err(Status::INVALID_ARGS);
    }
    let start = options & ZX_CLOCK_OPT_AUTO_START != 0;
    if start && cx.kernel.machine.now() < backstop {
        return Err(Status::INVALID_ARGS);
    }
    let clock = cx.kernel.clock_create(options, backstop, start.then_some(0))?;
    cx.hand_out(clock, ZX_DEFAULT_CLOCK_RIGHTS, out)
}

/// Reads a clock.
pub fn clock_read<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, out: Out<i64>) -> Result<(), Status> {
    let clock = cx.get::<Clock>(value, Rights::READ)?;
    let reading = cx.kernel.clock_read(clock)?;
    cx.write(out, reading)
}

/// Everything about a clock.
pub fn clock_get_details<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u64,
    out: Out<u8>,
) -> Result<(), Status> {
    if options != 1 << VERSION_SHIFT {
        return Err(Status::INVALID_ARGS);
    }
    let id = cx.get::<Clock>(value, Rights::READ)?;
    let ticks = cx.kernel.machine.ticks();
    let clock = cx.kernel.objects.get(id)?;
    let mut details = zx_clock_details_v1_t {
        options: clock.options,
        backstop_time: clock.backstop,
        query_ticks: ticks,
        ..Default::default()
    };
    if let Some(line) = clock.line {
        details.last_value_update_ticks = line.updated;
        details.last_rate_adjust_update_ticks = line.updated;
        details.last_error_bounds_update_ticks = line.updated;
        details.error_bound = line.error_bound;
        details.reference_to_synthetic.reference_offset = line.reference;
        details.reference_to_synthetic.synthetic_offset = line.reading;
        details.reference_to_synthetic.rate.synthetic_ticks = (1_000_000 + line.ppm) as u32;
        details.reference_to_synthetic.rate.reference_ticks = 1_000_000;
    }
    cx.write(Out::new(out.0), details)
}
