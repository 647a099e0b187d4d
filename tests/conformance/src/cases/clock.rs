//! Clock objects: their values, their updates, and their guarantees.

use abi::{
    Rights, Status, ZX_CLOCK_OPT_AUTO_START, ZX_CLOCK_OPT_BOOT, ZX_CLOCK_OPT_CONTINUOUS, ZX_CLOCK_OPT_MONOTONIC,
    zx_clock_details_v1_t, zx_clock_update_args_v1_t, zx_clock_update_args_v2_t,
};
use zx::{AsHandleRef, Clock, Handle, Info, MonotonicInstant, Port, Signals};

use super::{cases, late, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "clock.create.options" => create_options,
    "clock.create.not_started" => create_not_started,
    "clock.create.auto_start" => create_auto_start,
    "clock.create.backstop" => create_backstop,
    "clock.create.backstop_bad" => create_backstop_bad,
    "clock.create.arguments" => create_arguments,
    "clock.create.rights" => create_rights,
    "clock.update.starts" => update_starts,
    "clock.update.value_needed_first" => update_value_needed_first,
    "clock.update.value" => update_value,
    "clock.update.rate" => update_rate,
    "clock.update.rate_bounds" => update_rate_bounds,
    "clock.update.error_bound" => update_error_bound,
    "clock.update.all_at_once" => update_all_at_once,
    "clock.update.reference" => update_reference,
    "clock.update.reference_and_rate" => update_reference_and_rate,
    "clock.update.reference_alone" => update_reference_alone,
    "clock.update.reference_in_version_1" => update_reference_in_version_1,
    "clock.update.backstop" => update_backstop,
    "clock.update.monotonic" => update_monotonic,
    "clock.update.continuous" => update_continuous,
    "clock.update.nothing" => update_nothing,
    "clock.update.options" => update_options,
    "clock.update.bad_arguments" => update_bad_arguments,
    "clock.update.rights" => update_rights,
    "clock.update.far_values" => update_far_values,
    "clock.update.strobes" => update_strobes,
    "clock.details.not_started" => details_not_started,
    "clock.details.agree" => details_agree,
    "clock.details.of_ticks" => details_of_ticks,
    "clock.details.update_times" => details_update_times,
    "clock.details.version" => details_version,
    "clock.signal.own_only" => signal_own_only,
    "clock.read.rights" => read_rights,
}

const V1: u64 = abi::ZX_CLOCK_ARGS_VERSION_1;
const V2: u64 = abi::ZX_CLOCK_ARGS_VERSION_2;
const VALUE: u64 = abi::ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID;
const RATE: u64 = abi::ZX_CLOCK_UPDATE_OPTION_RATE_ADJUST_VALID;
const ERROR: u64 = abi::ZX_CLOCK_UPDATE_OPTION_ERROR_BOUND_VALID;
const REFERENCE: u64 = abi::ZX_CLOCK_UPDATE_OPTION_REFERENCE_VALUE_VALID;

fn create(options: u64, backstop: Option<i64>) -> Result<Clock, Status> {
    let mut out = 0_u32;
    let (options, args) = match &backstop {
        None => (options, std::ptr::null()),
        Some(backstop) => (options | V1, &raw const *backstop),
    };
    match raw!(zx_clock_create, options, args, &raw mut out) {
        Status::OK => Ok(Clock::from(Handle::from_raw(out).ok_or(Status::INTERNAL)?)),
        status => Err(status),
    }
}

/// An update with the arguments of version 1: value, rate, error bound. `options` says which of them are valid.
fn update(clock: &Clock, options: u64, value: i64, rate: i32, error: u64) -> Status {
    let args = zx_clock_update_args_v1_t { rate_adjust: rate, value, error_bound: error, ..Default::default() };
    raw!(zx_clock_update, clock.raw_handle(), V1 | options, &raw const args)
}

/// An update with the arguments of version 2.
fn update_at(clock: &Clock, options: u64, reference: i64, value: i64, rate: i32) -> Status {
    let args = zx_clock_update_args_v2_t {
        rate_adjust: rate,
        reference_value: reference,
        synthetic_value: value,
        ..Default::default()
    };
    raw!(zx_clock_update, clock.raw_handle(), V2 | options, &raw const args)
}

fn details(clock: &Clock) -> Result<zx_clock_details_v1_t, Status> {
    let mut details = zx_clock_details_v1_t::default();
    match raw!(zx_clock_get_details, clock.raw_handle(), V1, &raw mut details) {
        Status::OK => Ok(details),
        status => Err(status),
    }
}

fn now() -> i64 {
    MonotonicInstant::now().0
}

/// The clock's value must lie between the values of `line` for two readings of the monotonic clock.
fn follows(clock: &Clock, line: impl Fn(i128) -> i128) -> Outcome {
    let before = now();
    let shown = i128::from(clock.read()?);
    let after = now();
    let (low, high) = (line(i128::from(before)), line(i128::from(after)));
    ensure(low <= shown && shown <= high, &format!("it shows {shown}, expected {low} to {high}"))
}

fn create_options() -> Outcome {
    for good in [
        0,
        ZX_CLOCK_OPT_MONOTONIC,
        ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS,
        ZX_CLOCK_OPT_BOOT,
        ZX_CLOCK_OPT_AUTO_START | ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS | ZX_CLOCK_OPT_BOOT,
    ] {
        equal(details(&create(good, None)?)?.options, good)?;
    }
    for bad in [ZX_CLOCK_OPT_CONTINUOUS, ZX_CLOCK_OPT_CONTINUOUS | ZX_CLOCK_OPT_AUTO_START, 1 << 5, 1 << 40] {
        fails(create(bad, None), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn create_not_started() -> Outcome {
    let clock = create(0, None)?;
    equal((clock.read()?, clock.signals()?), (0, Signals::NONE))?;
    fails(clock.wait_one(Signals::CLOCK_STARTED, MonotonicInstant::ZERO), Status::TIMED_OUT)
}

fn create_auto_start() -> Outcome {
    for options in [0, ZX_CLOCK_OPT_MONOTONIC, ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS, ZX_CLOCK_OPT_BOOT] {
        let clock = create(options | ZX_CLOCK_OPT_AUTO_START, None)?;
        equal(clock.signals()?, Signals::CLOCK_STARTED)?;
        follows(&clock, |time| time)?;
    }
    Ok(())
}

fn create_backstop() -> Outcome {
    let clock = create(0, Some(5500))?;
    equal((clock.read()?, details(&clock)?.backstop_time), (5500, 5500))?;
    // A clock that starts at once must not begin below its backstop.
    let clock = create(ZX_CLOCK_OPT_AUTO_START, Some(1))?;
    follows(&clock, |time| time)?;
    fails(create(ZX_CLOCK_OPT_AUTO_START, Some(i64::MAX)), Status::INVALID_ARGS)
}

fn create_backstop_bad() -> Outcome {
    fails(create(0, Some(-1)), Status::INVALID_ARGS)?;
    fails(create(0, Some(i64::MIN)), Status::INVALID_ARGS)
}

fn create_arguments() -> Outcome {
    let mut out = 0_u32;
    let backstop = 7_i64;
    for (options, args) in [
        // A structure without a version, versions without a structure, and versions that do not exist.
        (0, &raw const backstop as u64),
        (V1, 0),
        (V1, 0x1000),
        (V2, &raw const backstop as u64),
        (abi::ZX_CLOCK_ARGS_VERSION_MASK, &raw const backstop as u64),
    ] {
        gives(raw!(zx_clock_create, options, args, &raw mut out), Status::INVALID_ARGS)?;
    }
    equal(out, 0)
}

fn create_rights() -> Outcome {
    let clock = create(0, None)?;
    equal(Rights::from_bits_retain(clock.basic_info()?.rights), abi::ZX_DEFAULT_CLOCK_RIGHTS)
}

fn update_starts() -> Outcome {
    for options in [0, ZX_CLOCK_OPT_MONOTONIC, ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS] {
        let clock = create(options, None)?;
        let before = now();
        gives(update(&clock, VALUE, 1500, 0, 0), Status::OK)?;
        let after = now();
        equal(clock.signals()?, Signals::CLOCK_STARTED)?;
        let shown = clock.read()?;
        ensure(shown >= 1500 && shown <= 1500 + (now() - before), "it shows another time")?;
        let began = details(&clock)?.reference_to_synthetic.reference_offset;
        ensure(before <= began && began <= after, "it began at another time")?;
    }
    Ok(())
}

fn update_value_needed_first() -> Outcome {
    let clock = create(0, None)?;
    gives(update(&clock, RATE, 0, 5, 0), Status::BAD_STATE)?;
    gives(update(&clock, ERROR, 0, 0, 5), Status::BAD_STATE)?;
    gives(update_at(&clock, REFERENCE | RATE, 0, 0, 5), Status::BAD_STATE)?;
    equal((clock.signals()?, details(&clock)?.generation_counter), (Signals::NONE, 0))?;
    // A rate is valid together with a value.
    gives(update(&clock, VALUE | RATE, 10, 5, 0), Status::OK)?;
    equal(details(&clock)?.reference_to_synthetic.rate.synthetic_ticks, 1_000_005)
}

fn update_value() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    for value in [1_000_000_000_000, 5, 1 << 60] {
        gives(update(&clock, VALUE, value, 0, 0), Status::OK)?;
        let line = details(&clock)?.reference_to_synthetic;
        equal(line.synthetic_offset, value)?;
        follows(&clock, |time| time - i128::from(line.reference_offset) + i128::from(value))?;
    }
    Ok(())
}

fn update_rate() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    for rate in [1000, -1000, 23, 0, 1] {
        let shown = clock.read()?;
        gives(update(&clock, RATE, 0, rate, 0), Status::OK)?;
        let line = details(&clock)?.reference_to_synthetic;
        // The new transformation begins at the value that the old one has reached.
        ensure(line.synthetic_offset >= shown, "it went back")?;
        equal(line.rate.synthetic_ticks, (1_000_000 + rate) as u32)?;
        follows(&clock, |time| {
            let passed = time - i128::from(line.reference_offset);
            (passed * i128::from(1_000_000 + rate)).div_euclid(1_000_000) + i128::from(line.synthetic_offset)
        })?;
    }
    Ok(())
}

fn update_rate_bounds() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    for rate in [-1000, 1000] {
        gives(update(&clock, RATE, 0, rate, 0), Status::OK)?;
    }
    let before = details(&clock)?;
    for rate in [-1001, 1001, i32::MIN, i32::MAX] {
        gives(update(&clock, RATE, 0, rate, 0), Status::INVALID_ARGS)?;
        gives(update(&clock, RATE | VALUE | ERROR, 5, rate, 5), Status::INVALID_ARGS)?;
    }
    let after = details(&clock)?;
    equal(after.generation_counter, before.generation_counter)?;
    equal(after.reference_to_synthetic.rate.synthetic_ticks, 1_001_000)
}

fn update_error_bound() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    equal(details(&clock)?.error_bound, abi::ZX_CLOCK_UNKNOWN_ERROR)?;
    for bound in [400_000_000, 0, u64::MAX] {
        let before = details(&clock)?.reference_to_synthetic;
        gives(update(&clock, ERROR, 77, 77, bound), Status::OK)?;
        let after = details(&clock)?;
        equal(after.error_bound, bound)?;
        // The rest is unchanged.
        equal(after.reference_to_synthetic.synthetic_offset, before.synthetic_offset)?;
        equal(after.reference_to_synthetic.rate.synthetic_ticks, before.rate.synthetic_ticks)?;
    }
    follows(&clock, |time| time)
}

fn update_all_at_once() -> Outcome {
    let clock = create(0, None)?;
    gives(update(&clock, VALUE | RATE | ERROR, 100_000, 50, 400), Status::OK)?;
    let found = details(&clock)?;
    let line = found.reference_to_synthetic;
    equal((line.synthetic_offset, line.rate.synthetic_ticks, found.error_bound), (100_000, 1_000_050, 400))
}

fn update_reference() -> Outcome {
    // The transformation passes through a chosen point, in the past or in the future.
    for (ago, rate) in [(1_000_000_000, 0), (-1_000_000_000, 0), (5_000_000_000, 1000), (5_000_000_000, -1000)] {
        let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
        let (reference, value) = (now() - ago, 1 << 50);
        gives(update_at(&clock, REFERENCE | VALUE | RATE, reference, value, rate), Status::OK)?;
        follows(&clock, |time| {
            let passed = time - i128::from(reference);
            (passed * i128::from(1_000_000 + rate)).div_euclid(1_000_000) + i128::from(value)
        })?;
    }
    // The same as the first update.
    let clock = create(ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS, None)?;
    gives(update_at(&clock, REFERENCE | VALUE, 0, 1000, 0), Status::OK)?;
    follows(&clock, |time| time + 1000)
}

fn update_reference_and_rate() -> Outcome {
    // The new rate applies from a point of the old transformation.
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    gives(update_at(&clock, REFERENCE | RATE, 1000, 77, 1000), Status::OK)?;
    follows(&clock, |time| ((time - 1000) * 1_001_000).div_euclid(1_000_000) + 1000)
}

fn update_reference_alone() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    gives(update_at(&clock, REFERENCE, 1000, 0, 0), Status::INVALID_ARGS)?;
    gives(update_at(&clock, REFERENCE | ERROR, 1000, 0, 0), Status::INVALID_ARGS)?;
    follows(&clock, |time| time)
}

fn update_reference_in_version_1() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    gives(update(&clock, VALUE | REFERENCE, 1000, 0, 0), Status::INVALID_ARGS)?;
    follows(&clock, |time| time)
}

fn update_backstop() -> Outcome {
    let clock = create(0, Some(10_000))?;
    gives(update(&clock, VALUE, 9_999, 0, 0), Status::INVALID_ARGS)?;
    gives(update(&clock, VALUE, -1, 0, 0), Status::INVALID_ARGS)?;
    equal(clock.read()?, 10_000)?;
    // The point is above the backstop, but the value now would be below it.
    gives(update_at(&clock, VALUE | REFERENCE, i64::MAX, 20_000, 0), Status::INVALID_ARGS)?;
    gives(update(&clock, VALUE, 10_000, 0, 0), Status::OK)?;
    gives(update(&clock, VALUE, 9_999, 0, 0), Status::INVALID_ARGS)?;
    ensure(clock.read()? >= 10_000, "it is below its backstop")
}

fn update_monotonic() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_AUTO_START, None)?;
    // A value without a reference could be in the past when the call is executed, so it is always refused.
    gives(update(&clock, VALUE, i64::MAX, 0, 0), Status::INVALID_ARGS)?;
    gives(update_at(&clock, VALUE | REFERENCE | RATE, now(), i64::MAX / 2, 5), Status::INVALID_ARGS)?;
    gives(update_at(&clock, REFERENCE | RATE, now(), 0, 5), Status::INVALID_ARGS)?;
    // One nanosecond back.
    gives(update_at(&clock, VALUE | REFERENCE, 1000, 999, 0), Status::INVALID_ARGS)?;
    follows(&clock, |time| time)?;
    gives(update_at(&clock, VALUE | REFERENCE, 1000, 1000, 0), Status::OK)?;
    gives(update_at(&clock, VALUE | REFERENCE, 1000, 5000, 0), Status::OK)?;
    follows(&clock, |time| time + 4000)?;
    let mut last = clock.read()?;
    for rate in [-1000, 1000, 0, -1, 1, -1000] {
        gives(update(&clock, RATE, 0, rate, 0), Status::OK)?;
        for _ in 0..100 {
            let shown = clock.read()?;
            ensure(shown >= last, "it went back")?;
            last = shown;
        }
    }
    Ok(())
}

fn update_continuous() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS | ZX_CLOCK_OPT_AUTO_START, None)?;
    gives(update(&clock, VALUE, i64::MAX, 0, 0), Status::INVALID_ARGS)?;
    gives(update_at(&clock, VALUE | REFERENCE, now(), now(), 0), Status::INVALID_ARGS)?;
    gives(update_at(&clock, RATE | REFERENCE, now(), 0, 5), Status::INVALID_ARGS)?;
    follows(&clock, |time| time)?;
    gives(update(&clock, RATE | ERROR, 0, 500, 5), Status::OK)?;
    // The rate changes at the current value: the point lies on the old transformation.
    let line = details(&clock)?.reference_to_synthetic;
    equal(line.synthetic_offset, line.reference_offset)
}

fn update_nothing() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    gives(update(&clock, 0, 0, 0, 0), Status::INVALID_ARGS)?;
    equal(details(&clock)?.generation_counter, 0)
}

fn update_options() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    for odd in [1 << 4, 1 << 30, 1 << 57] {
        gives(update(&clock, VALUE | odd, 0, 0, 0), Status::INVALID_ARGS)?;
        gives(update_at(&clock, VALUE | odd, 0, 0, 0), Status::INVALID_ARGS)?;
    }
    let args = zx_clock_update_args_v2_t::default();
    for version in [0, 3 << 58, abi::ZX_CLOCK_ARGS_VERSION_MASK] {
        let status = raw!(zx_clock_update, clock.raw_handle(), version | VALUE, &raw const args);
        gives(status, Status::INVALID_ARGS)?;
    }
    follows(&clock, |time| time)
}

fn update_bad_arguments() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    for version in [V1, V2] {
        for bad in [0_u64, 0x1000, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, u64::MAX - 7] {
            let status = raw!(zx_clock_update, clock.raw_handle(), version | VALUE, bad);
            gives(status, Status::INVALID_ARGS)?;
        }
    }
    follows(&clock, |time| time)
}

fn update_rights() -> Outcome {
    let clock = create(ZX_CLOCK_OPT_AUTO_START, None)?;
    let weak = Clock::from(without(&clock, Rights::WRITE)?);
    gives(update(&weak, VALUE, 5, 0, 0), Status::ACCESS_DENIED)?;
    follows(&weak, |time| time)
}

fn update_far_values() -> Outcome {
    // Values outside the range of a time are clamped to its bounds.
    let clock = create(0, None)?;
    gives(update_at(&clock, VALUE | REFERENCE | RATE, i64::MIN, i64::MAX, 1000), Status::OK)?;
    equal(clock.read()?, i64::MAX)?;
    gives(update_at(&clock, VALUE | REFERENCE, i64::MAX, i64::MIN, 0), Status::INVALID_ARGS)?;
    gives(update_at(&clock, VALUE | REFERENCE, i64::MIN, i64::MIN, 0), Status::OK)?;
    follows(&clock, |time| (time - i128::from(i64::MIN)) * 1_001_000 / 1_000_000 + i128::from(i64::MIN))
}

fn update_strobes() -> Outcome {
    let (clock, port) = (create(0, None)?, Port::create()?);
    clock.wait_async(&port, 1, Signals::CLOCK_UPDATED, 0)?;
    gives(update(&clock, RATE, 0, 5, 0), Status::BAD_STATE)?;
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    for key in 1..4 {
        gives(update(&clock, VALUE, key, 0, 0), Status::OK)?;
        // The waiter gets both signals; afterwards `CLOCK_UPDATED` is clear.
        equal(clock.signals()?, Signals::CLOCK_STARTED)?;
        let packet = port.wait(late())?;
        equal(
            (packet.key, (packet.payload[0] >> 32) as u32),
            (1, (Signals::CLOCK_STARTED | Signals::CLOCK_UPDATED).bits()),
        )?;
        let options = if key % 2 == 0 { 0 } else { abi::ZX_WAIT_ASYNC_EDGE };
        clock.wait_async(&port, 1, Signals::CLOCK_UPDATED, options)?;
        fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    }
    Ok(())
}

fn details_not_started() -> Outcome {
    let found = details(&create(0, Some(123))?)?;
    for line in [found.reference_to_synthetic, found.reference_ticks_to_synthetic] {
        equal((line.reference_offset, line.synthetic_offset), (0, 123))?;
        equal((line.rate.synthetic_ticks, line.rate.reference_ticks), (0, 1))?;
    }
    equal((found.error_bound, found.generation_counter), (abi::ZX_CLOCK_UNKNOWN_ERROR, 0))?;
    let times =
        [found.last_value_update_ticks, found.last_rate_adjust_update_ticks, found.last_error_bounds_update_ticks];
    equal(times, [0; 3])
}

fn details_agree() -> Outcome {
    let clock = create(0, None)?;
    gives(update(&clock, VALUE | RATE, 1 << 40, -777, 0), Status::OK)?;
    let line = details(&clock)?.reference_to_synthetic;
    follows(&clock, |time| {
        let passed = time - i128::from(line.reference_offset);
        let rate = (i128::from(line.rate.synthetic_ticks), i128::from(line.rate.reference_ticks));
        (passed * rate.0).div_euclid(rate.1) + i128::from(line.synthetic_offset)
    })
}

fn details_of_ticks() -> Outcome {
    let clock = create(0, None)?;
    for rate in [0, 1000, -999] {
        gives(update(&clock, VALUE | RATE, 1 << 40, rate, 0), Status::OK)?;
        let before = (clock.read()?, zx::ticks_get());
        let found = details(&clock)?;
        let after = (clock.read()?, zx::ticks_get());
        ensure(before.1 <= found.query_ticks && found.query_ticks <= after.1, "the ticks are of another counter")?;
        let line = found.reference_ticks_to_synthetic;
        let passed = i128::from(found.query_ticks) - i128::from(line.reference_offset);
        let rate = (i128::from(line.rate.synthetic_ticks), i128::from(line.rate.reference_ticks));
        let shown = (passed * rate.0).div_euclid(rate.1) + i128::from(line.synthetic_offset);
        let bounds = i128::from(before.0) - 5..=i128::from(after.0) + 5;
        ensure(bounds.contains(&shown), &format!("by ticks it shows {shown}, expected {bounds:?}"))?;
    }
    Ok(())
}

fn details_update_times() -> Outcome {
    let clock = create(0, None)?;
    let times = |clock: &Clock| -> Result<[i64; 3], Failure> {
        let found = details(clock)?;
        Ok([found.last_value_update_ticks, found.last_rate_adjust_update_ticks, found.last_error_bounds_update_ticks])
    };
    for (generation, (options, place)) in [(VALUE, 0), (RATE, 1), (ERROR, 2), (RATE, 1)].into_iter().enumerate() {
        let (old, before) = (times(&clock)?, zx::ticks_get());
        gives(update(&clock, options, 5, 6, 7), Status::OK)?;
        let (new, after) = (times(&clock)?, zx::ticks_get());
        equal(details(&clock)?.generation_counter, generation as u32 + 1)?;
        for other in 0..3 {
            if other == place {
                ensure(before <= new[other] && new[other] <= after, "the time is not that of the update")?;
            } else {
                equal(new[other], old[other])?;
            }
        }
    }
    Ok(())
}

fn details_version() -> Outcome {
    let clock = create(0, None)?;
    let mut found = zx_clock_details_v1_t::default();
    for options in [0, V2, V1 | 1, abi::ZX_CLOCK_ARGS_VERSION_MASK] {
        let status = raw!(zx_clock_get_details, clock.raw_handle(), options, &raw mut found);
        gives(status, Status::INVALID_ARGS)?;
    }
    for bad in [0_u64, 0x1000, 0xffff_8000_0000_0000] {
        gives(raw!(zx_clock_get_details, clock.raw_handle(), V1, bad), Status::INVALID_ARGS)?;
    }
    equal(size_of::<zx_clock_details_v1_t>(), 112)
}

fn signal_own_only() -> Outcome {
    // Programs cannot set the signals that the clock itself sets.
    let clock = create(0, None)?;
    fails(clock.signal(Signals::NONE, Signals::CLOCK_STARTED), Status::INVALID_ARGS)?;
    fails(clock.signal(Signals::NONE, Signals::CLOCK_UPDATED), Status::INVALID_ARGS)?;
    clock.signal(Signals::NONE, Signals::USER_0)?;
    equal(clock.signals()?, Signals::USER_0)
}

fn read_rights() -> Outcome {
    let weak = Clock::from(without(&create(0, None)?, Rights::READ)?);
    fails(weak.read(), Status::ACCESS_DENIED)?;
    fails(details(&weak), Status::ACCESS_DENIED)
}
