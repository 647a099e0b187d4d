//! Calls that do little: the null call, clocks, handles, events, waits that end at once.

use std::hint::black_box;

use zx::{AsHandleRef, Event, MonotonicInstant, Signals};

use super::sampler::Suite;
use super::{call, check, place};

const TIMES: usize = 1_000;
const SAME_RIGHTS: u64 = zx::Rights::SAME_RIGHTS.bits() as u64;
const SIGNAL: u64 = Signals::USER_0.bits() as u64;

pub fn run(suite: &mut Suite) -> zx::Result<()> {
    null(suite)?;
    suite.measure(["clock_get"], TIMES, |[get]| {
        black_box(get.time(|| call!(zx_clock_get_monotonic)));
        Ok(())
    })?;
    suite.measure(["ticks_get"], TIMES, |[get]| {
        black_box(get.time(|| call!(zx_ticks_get)));
        Ok(())
    })?;
    handles(suite)?;
    events(suite)
}

fn null(suite: &mut Suite) -> zx::Result<()> {
    suite.measure(["null0"], TIMES, |[null]| check(null.time(|| call!(zx_syscall_test_0))))?;
    suite.measure(["null8"], TIMES, |[null]| match null.time(|| call!(zx_syscall_test_8, 1, 2, 3, 4, 5, 6, 7, 8)) {
        36 => Ok(()),
        _ => Err(zx::Status::INTERNAL),
    })?;
    // A caller that uses vector registers before and after the call: if the server or the kernel used them, the switch
    // would show in the figure.
    let mut number = 1.0_f64;
    suite.measure(["null0_sse"], TIMES, |[null]| {
        let result = null.time(|| {
            number = black_box(number * 1.000_1);
            let result = call!(zx_syscall_test_0);
            number = black_box(number * 1.000_1);
            result
        });
        check(result)
    })
}

fn handles(suite: &mut Suite) -> zx::Result<()> {
    let event = Event::create()?;
    let mut out = 0_u32;
    suite.measure(["handle_duplicate", "handle_close"], TIMES, |[duplicate, close]| {
        check(duplicate.time(|| call!(zx_handle_duplicate, event.raw_handle(), SAME_RIGHTS, place(&mut out))))?;
        check(close.time(|| call!(zx_handle_close, out)))
    })?;
    let mut handle = Event::create()?.into_handle().into_raw();
    suite.measure(["handle_replace"], TIMES, |[replace]| {
        check(replace.time(|| call!(zx_handle_replace, handle, SAME_RIGHTS, place(&mut out))))?;
        handle = out;
        Ok(())
    })?;
    check(call!(zx_handle_close, handle))?;
    let mut basic = [0_u64; 8];
    suite.measure(["info_handle_basic"], TIMES, |[info]| {
        let (topic, size) = (abi::ZX_INFO_HANDLE_BASIC, size_of::<abi::zx_info_handle_basic_t>());
        check(info.time(|| call!(zx_object_get_info, event.raw_handle(), topic, place(&mut basic), size, 0, 0)))
    })
}

fn events(suite: &mut Suite) -> zx::Result<()> {
    let mut out = 0_u32;
    suite.measure(["event_create", "event_close"], TIMES, |[create, close]| {
        check(create.time(|| call!(zx_event_create, 0, place(&mut out))))?;
        check(close.time(|| call!(zx_handle_close, out)))
    })?;
    let event = Event::create()?;
    let handle = event.raw_handle();
    let mut set = false;
    suite.measure(["object_signal"], TIMES, |[signal]| {
        set = !set;
        let (clear, set) = if set { (0, SIGNAL) } else { (SIGNAL, 0) };
        check(signal.time(|| call!(zx_object_signal, handle, clear, set)))
    })?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    suite.measure(["wait_one_ready"], TIMES, |[wait]| {
        let forever = MonotonicInstant::INFINITE.0;
        check(wait.time(|| call!(zx_object_wait_one, handle, SIGNAL, forever, place(&mut out))))
    })?;
    let mut items = [abi::zx_wait_item_t { handle, waitfor: SIGNAL as u32, pending: 0 }; 8];
    let mut wait_many = |suite: &mut Suite, name, count: usize| {
        suite.measure([name], TIMES, |[wait]| {
            let forever = MonotonicInstant::INFINITE.0;
            check(wait.time(|| call!(zx_object_wait_many, place(&mut items), count, forever)))
        })
    };
    wait_many(suite, "wait_many_1", 1)?;
    wait_many(suite, "wait_many_8", 8)
}
