//! Timers.

use std::thread;

use abi::{Status, ZX_INFO_TIMER, zx_info_timer_t};
use zx::{AsHandleRef, Duration, Handle, Info, MonotonicInstant, Port, Signals, Timer};

use super::{cases, late, raw, soon, until_fast_enough};
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
    "timer.create.boot_clock" => create_boot_clock,
    "timer.set.slack_early" => set_slack_early,
    "timer.set.slack_late" => set_slack_late,
    "timer.set.slack_center" => set_slack_center,
    "timer.set.slack_of_another_kind" => set_slack_of_another_kind,
    "timer.set.alone_is_exact" => set_alone_is_exact,
    "timer.set.never" => set_never,
    "timer.set.rights" => set_rights,
    "timer.cancel.twice" => cancel_twice,
    "timer.close.while_set" => close_while_set,
    "timer.info.past" => info_past,
    "timer.info.fires_again" => info_fires_again,
    "timer.info.restarted" => info_restarted,
    "timer.set.asserted_at_once" => set_asserted_at_once,
    "timer.set.restart_race" => set_restart_race,
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
    until_fast_enough(|ahead| {
        let deadline = MonotonicInstant::after(ahead);
        timer.set(deadline, NONE)?;
        not_before(&timer, deadline)?;
        timer.wait_one(Signals::TIMER_SIGNALED, late())?;
        let now = MonotonicInstant::now();
        ensure(now >= deadline, "it fired early")?;
        // It must not fire very late in each round.
        Ok(now < deadline + Duration::from_seconds(1))
    })
}

/// The timer's signal is not set, or its deadline has passed by now.
fn not_before(timer: &Timer, deadline: MonotonicInstant) -> Outcome {
    let signals = timer.signals()?;
    ensure(signals == Signals::NONE || MonotonicInstant::now() >= deadline, "its signal is set early")
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
    not_before(&timer, deadline)?;
    timer.wait_one(Signals::TIMER_SIGNALED, late())?;
    ensure(MonotonicInstant::now() >= deadline, "it fired early")
}

fn set_negative_slack() -> Outcome {
    let timer = Timer::create(0)?;
    fails(timer.set(soon(10), Duration(-1)), Status::OUT_OF_RANGE)?;
    fails(timer.set(MonotonicInstant::ZERO, Duration(-1)), Status::OUT_OF_RANGE)?;
    tells(&timer, 0)
}

/// `ZX_INFO_TIMER` must have this deadline; the options and the slack are 0.
fn tells(timer: &Timer, deadline: i64) -> Outcome {
    let mut info = [zx_info_timer_t::default()];
    timer.get_info_records(ZX_INFO_TIMER, &mut info)?;
    equal((info[0].options, info[0].deadline, info[0].slack), (0, deadline, 0))
}

/// A deadline that has passed, also one before the clock's start, sets the signal at once, and the timer is not set.
fn info_past() -> Outcome {
    for deadline in [MonotonicInstant(-1), MonotonicInstant::INFINITE_PAST] {
        let timer = Timer::create(0)?;
        tells(&timer, 0)?;
        timer.set(deadline, NONE)?;
        tells(&timer, 0)?;
        equal(timer.wait_one(Signals::TIMER_SIGNALED, MonotonicInstant::INFINITE_PAST)?, Signals::TIMER_SIGNALED)?;
        tells(&timer, 0)?;
    }
    Ok(())
}

fn info_fires_again() -> Outcome {
    let timer = Timer::create(0)?;
    fails(timer.wait_one(Signals::TIMER_SIGNALED, MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    for _ in 0..3 {
        timer.set(soon(10), NONE)?;
        equal(timer.wait_one(Signals::TIMER_SIGNALED, late())?, Signals::TIMER_SIGNALED)?;
        tells(&timer, 0)?;
    }
    Ok(())
}

fn info_restarted() -> Outcome {
    let timer = Timer::create(0)?;
    for _ in 0..10 {
        let deadline = MonotonicInstant::after(Duration::from_seconds(60 * 60 * 24 * 365));
        timer.set(deadline, NONE)?;
        tells(&timer, deadline.0)?;
        fails(timer.wait_one(Signals::TIMER_SIGNALED, soon(1)), Status::TIMED_OUT)?;
        tells(&timer, deadline.0)?;
    }
    Ok(())
}

fn set_asserted_at_once() -> Outcome {
    let timer = Timer::create(0)?;
    for _ in 0..100 {
        timer.set(MonotonicInstant::now(), NONE)?;
        equal(timer.signals()?, Signals::TIMER_SIGNALED)?;
        timer.cancel()?;
        equal(timer.signals()?, Signals::NONE)?;
    }
    Ok(())
}

/// The timer is set again and again around the moments at which it fires.
fn set_restart_race() -> Outcome {
    let timer = Timer::create(0)?;
    let end = soon(50);
    while MonotonicInstant::now() < end {
        timer.set(MonotonicInstant::after(Duration::from_micros(100)), NONE)?;
    }
    timer.cancel()?;
    equal(timer.signals()?, Signals::NONE)
}

fn set_order_of_many() -> Outcome {
    let port = Port::create()?;
    let timers = (0..50).map(|_| Timer::create(0)).collect::<zx::Result<Vec<_>>>()?;
    // On a slow machine, timers are set after their deadlines, and fire as they are set. Such a round says nothing.
    until_fast_enough(|ahead| {
        let first = MonotonicInstant::now() + ahead;
        for (index, timer) in timers.iter().enumerate() {
            // They are set in an order that differs from that of their deadlines.
            let place = (index * 7 % 50) as i64;
            timer.set(first + Duration::from_millis(place), NONE)?;
            timer.wait_async(&port, place as u64, Signals::TIMER_SIGNALED, 0)?;
        }
        let in_time = MonotonicInstant::now() < first;
        for place in 0..50 {
            let key = port.wait(late())?.key;
            if in_time {
                equal(key, place)?;
            }
        }
        Ok(in_time)
    })
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

fn create_boot_clock() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_timer_create, 0, abi::ZX_CLOCK_BOOT, &raw mut out), Status::OK)?;
    let timer = Timer::from(Handle::from_raw(out).ok_or("there is no handle")?);
    timer.set(soon(5), NONE)?;
    timer.wait_one(Signals::TIMER_SIGNALED, late())?;
    Ok(())
}

const HOUR: Duration = Duration::from_seconds(3600);

fn set_slack_early() -> Outcome {
    // A timer with early slack fires together with an earlier one.
    let (first, second) = (Timer::create(0)?, Timer::create(abi::ZX_TIMER_SLACK_EARLY)?);
    until_fast_enough(|ahead| {
        let deadline = MonotonicInstant::after(ahead);
        first.set(deadline, NONE)?;
        second.set(MonotonicInstant::after(Duration::from_seconds(60)), HOUR)?;
        if MonotonicInstant::now() >= deadline {
            // The first may have fired before the second was set.
            return Ok(false);
        }
        first.wait_one(Signals::TIMER_SIGNALED, late())?;
        second.wait_one(Signals::TIMER_SIGNALED, late())?;
        Ok(true)
    })
}

fn set_slack_late() -> Outcome {
    // A timer with late slack fires together with a later one, and not before.
    let (first, second) = (Timer::create(0)?, Timer::create(abi::ZX_TIMER_SLACK_LATE)?);
    until_fast_enough(|ahead| {
        let deadline = MonotonicInstant::after(ahead);
        first.set(deadline, NONE)?;
        second.set(soon(5), HOUR)?;
        if MonotonicInstant::now() >= deadline {
            // The first may have fired before the second was set.
            return Ok(false);
        }
        second.wait_one(Signals::TIMER_SIGNALED, late())?;
        ensure(MonotonicInstant::now() >= deadline, "it did not wait for the other")?;
        first.wait_one(Signals::TIMER_SIGNALED, late())?;
        Ok(true)
    })
}

fn set_slack_center() -> Outcome {
    // A timer with slack in both directions fires with the nearest one.
    let (early, late_one) = (Timer::create(0)?, Timer::create(0)?);
    let middle = Timer::create(abi::ZX_TIMER_SLACK_CENTER)?;
    until_fast_enough(|ahead| {
        let now = MonotonicInstant::now();
        early.set(now + ahead, NONE)?;
        late_one.set(now + Duration::from_seconds(600), NONE)?;
        middle.set(now + Duration::from_seconds(300), HOUR)?;
        if MonotonicInstant::now() >= now + ahead {
            // The early one may have fired before the middle one was set.
            return Ok(false);
        }
        middle.wait_one(Signals::TIMER_SIGNALED, late())?;
        ensure(early.signals()?.contains(Signals::TIMER_SIGNALED), "it came before the other")?;
        Ok(true)
    })
}

fn set_slack_of_another_kind() -> Outcome {
    // An earlier deadline does not help a timer with late slack, nor a later one a timer with early slack; nor does
    // slack that is too short.
    let other = Timer::create(0)?;
    let far = MonotonicInstant::after(Duration::from_seconds(60));
    let timers = [abi::ZX_TIMER_SLACK_LATE, abi::ZX_TIMER_SLACK_EARLY].map(Timer::create);
    let [late_one, early] = timers;
    let (late_one, early) = (late_one?, early?);
    until_fast_enough(|ahead| {
        let deadline = MonotonicInstant::after(ahead);
        other.set(deadline, NONE)?;
        late_one.set(far, HOUR)?;
        early.set(far, Duration::from_seconds(10))?;
        let in_time = MonotonicInstant::now() < deadline;
        other.wait_one(Signals::TIMER_SIGNALED, late())?;
        thread::sleep(std::time::Duration::from_millis(20));
        equal((late_one.signals()?, early.signals()?), (Signals::NONE, Signals::NONE))?;
        Ok(in_time)
    })
}

fn set_alone_is_exact() -> Outcome {
    // Slack has no effect if no other timer is near.
    for mode in [abi::ZX_TIMER_SLACK_CENTER, abi::ZX_TIMER_SLACK_EARLY, abi::ZX_TIMER_SLACK_LATE] {
        let timer = Timer::create(mode)?;
        let deadline = soon(20);
        timer.set(deadline, Duration::from_millis(5))?;
        timer.wait_one(Signals::TIMER_SIGNALED, late())?;
        ensure(MonotonicInstant::now() >= deadline, "it fired early")?;
    }
    Ok(())
}

fn set_never() -> Outcome {
    let timer = Timer::create(0)?;
    timer.set(MonotonicInstant::INFINITE, Duration::INFINITE)?;
    fails(timer.wait_one(Signals::TIMER_SIGNALED, soon(20)), Status::TIMED_OUT)?;
    // The same with the earliest time.
    timer.set(MonotonicInstant::INFINITE_PAST, Duration::INFINITE)?;
    equal(timer.signals()?, Signals::TIMER_SIGNALED)
}

fn set_rights() -> Outcome {
    let weak = Timer::from(super::without(&Timer::create(0)?, abi::Rights::WRITE)?);
    fails(weak.set(soon(1), NONE), Status::ACCESS_DENIED)?;
    fails(weak.cancel(), Status::ACCESS_DENIED)
}

fn cancel_twice() -> Outcome {
    let timer = Timer::create(0)?;
    timer.cancel()?;
    timer.set(soon(10), NONE)?;
    timer.cancel()?;
    timer.cancel()?;
    timer.set(soon(10), NONE)?;
    timer.wait_one(Signals::TIMER_SIGNALED, late())?;
    Ok(())
}

fn close_while_set() -> Outcome {
    for _ in 0..200 {
        Timer::create(0)?.set(soon(5), NONE)?;
    }
    // The system and other timers still work.
    let timer = Timer::create(0)?;
    timer.set(soon(20), NONE)?;
    timer.wait_one(Signals::TIMER_SIGNALED, late())?;
    Ok(())
}
