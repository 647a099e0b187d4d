//! Timers.

use abi::Status;
use zx::{AsHandleRef, Duration, MonotonicInstant, Port, Signals, Timer};

use super::{cases, late, raw, soon};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "timer.create.options" => create_options,
    "timer.create.clock" => create_clock,
    "timer.create.not_signaled" => create_not_signaled,
    "timer.set.fires_in_time" => set_fires_in_time,
    "timer.set.past_fires_at_once" => set_past_fires_at_once,
    "timer.set.again_replaces" => set_again_replaces,
    "timer.set.negative_slack" => set_negative_slack,
    "timer.set.order_of_many" => set_order_of_many,
    "timer.cancel.does_not_fire" => cancel_does_not_fire,
    "timer.cancel.clears" => cancel_clears,
    "timer.wait_async.packet" => wait_async_packet,
}

const NONE: Duration = Duration(0);

fn create_options() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_timer_create, 0x80, 0, &raw mut out), Status::INVALID_ARGS)
}

fn create_clock() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_timer_create, 0, 77, &raw mut out), Status::INVALID_ARGS)
}

fn create_not_signaled() -> Outcome {
    equal(Timer::create(0)?.signals()?, Signals::NONE)
}

fn set_fires_in_time() -> Outcome {
    let timer = Timer::create(0)?;
    let deadline = soon(20);
    timer.set(deadline, NONE)?;
    equal(timer.signals()?, Signals::NONE)?;
    timer.wait_one(Signals::TIMER_SIGNALED, late())?;
    let now = MonotonicInstant::now();
    ensure(now >= deadline, "it fired early")?;
    ensure(now < deadline + Duration::from_seconds(1), "it fired very late")
}

fn set_past_fires_at_once() -> Outcome {
    let timer = Timer::create(0)?;
    timer.set(MonotonicInstant::ZERO, NONE)?;
    ensure(timer.signals()?.contains(Signals::TIMER_SIGNALED), "it did not fire")
}

fn set_again_replaces() -> Outcome {
    let timer = Timer::create(0)?;
    timer.set(MonotonicInstant::ZERO, NONE)?;
    let deadline = soon(30);
    timer.set(deadline, NONE)?;
    equal(timer.signals()?, Signals::NONE)?;
    timer.wait_one(Signals::TIMER_SIGNALED, late())?;
    ensure(MonotonicInstant::now() >= deadline, "it fired early")
}

fn set_negative_slack() -> Outcome {
    fails(Timer::create(0)?.set(soon(10), Duration(-1)), Status::OUT_OF_RANGE)
}

fn set_order_of_many() -> Outcome {
    let port = Port::create()?;
    let start = MonotonicInstant::now();
    let timers = (0..50).map(|_| Timer::create(0)).collect::<zx::Result<Vec<_>>>()?;
    for (index, timer) in timers.iter().enumerate() {
        // Set in an order that is not that of the deadlines.
        let place = (index * 7 % 50) as i64;
        timer.wait_async(&port, place as u64, Signals::TIMER_SIGNALED, 0)?;
        timer.set(start + Duration::from_millis(30 + place), NONE)?;
    }
    for place in 0..50 {
        equal(port.wait(late())?.key, place)?;
    }
    Ok(())
}

fn cancel_does_not_fire() -> Outcome {
    let timer = Timer::create(0)?;
    timer.set(soon(15), NONE)?;
    timer.cancel()?;
    fails(timer.wait_one(Signals::TIMER_SIGNALED, soon(40)), Status::TIMED_OUT)
}

fn cancel_clears() -> Outcome {
    let timer = Timer::create(0)?;
    timer.set(MonotonicInstant::ZERO, NONE)?;
    timer.cancel()?;
    equal(timer.signals()?, Signals::NONE)
}

fn wait_async_packet() -> Outcome {
    let (timer, port) = (Timer::create(0)?, Port::create()?);
    timer.wait_async(&port, 3, Signals::TIMER_SIGNALED, 0)?;
    timer.set(soon(10), NONE)?;
    equal(port.wait(late())?.key, 3)
}
