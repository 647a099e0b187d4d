//! Waiting for signals of one or several objects.

use std::thread;
use std::time::{Duration, Instant};

use abi::{Rights, Status, zx_wait_item_t};
use zx::{AsHandleRef, Channel, Event, HandleRef, MonotonicInstant, Signals};

use super::{cases, late, raw, soon, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "object.wait_one.already" => one_already,
    "object.wait_one.any_of_several" => one_any_of_several,
    "object.wait_one.past_deadline" => one_past_deadline,
    "object.wait_one.times_out" => one_times_out,
    "object.wait_one.woken_by_a_thread" => one_woken_by_a_thread,
    "object.wait_one.two_waiters" => one_two_waiters,
    "object.wait_one.canceled_by_close" => one_canceled_by_close,
    "object.wait_one.rights" => one_rights,
    "object.wait_one.no_signals" => one_no_signals,
    "object.wait_many.one_of_several" => many_one_of_several,
    "object.wait_many.all_pending_told" => many_all_pending_told,
    "object.wait_many.times_out" => many_times_out,
    "object.wait_many.none_sleeps" => many_none_sleeps,
    "object.wait_many.too_many" => many_too_many,
    "object.wait_many.most" => many_most,
    "object.wait_many.same_twice" => many_same_twice,
    "object.wait_many.bad_handle" => many_bad_handle,
    "object.wait_many.woken_by_a_thread" => many_woken_by_a_thread,
    "object.wait_many.canceled_by_close" => many_canceled_by_close,
}

fn item(object: &impl AsHandleRef, signals: Signals) -> zx_wait_item_t {
    zx_wait_item_t { handle: object.raw_handle(), waitfor: signals.bits(), pending: 0 }
}

/// Runs `action` in a thread a moment from now, when the caller waits already.
fn in_a_moment(action: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        action();
    })
}

fn join(thread: thread::JoinHandle<()>) -> Outcome {
    thread.join().map_err(|_| Failure::from("the other thread panicked"))
}

fn one_already() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::SIGNALED)?;
    let seen = event.wait_one(Signals::SIGNALED, MonotonicInstant::INFINITE)?;
    ensure(seen.contains(Signals::SIGNALED), "it was not observed")
}

fn one_any_of_several() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_1)?;
    let seen = event.wait_one(Signals::USER_0 | Signals::USER_1, MonotonicInstant::INFINITE)?;
    equal(seen.user(), Signals::USER_1)
}

fn one_past_deadline() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_5)?;
    for deadline in [MonotonicInstant::ZERO, MonotonicInstant::INFINITE_PAST, MonotonicInstant(-1)] {
        fails(event.wait_one(Signals::USER_0, deadline), Status::TIMED_OUT)?;
        // What is there already counts, however late it is.
        event.wait_one(Signals::USER_5, deadline)?;
    }
    let mut seen = 0_u32;
    gives(raw!(zx_object_wait_one, event.raw_handle(), 1 << 24, 0, &raw mut seen), Status::TIMED_OUT)?;
    equal(Signals::from_bits_retain(seen).user(), Signals::USER_5)
}

fn one_times_out() -> Outcome {
    let event = Event::create()?;
    let start = Instant::now();
    fails(event.wait_one(Signals::USER_0, soon(30)), Status::TIMED_OUT)?;
    let waited = start.elapsed();
    ensure(waited >= Duration::from_millis(30), &format!("it waited {waited:?} only"))?;
    ensure(waited < Duration::from_secs(2), &format!("it waited {waited:?}"))
}

fn one_woken_by_a_thread() -> Outcome {
    let event = Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    let signaller = in_a_moment(move || {
        let _ = twin.signal(Signals::NONE, Signals::USER_2);
    });
    let seen = event.wait_one(Signals::USER_2, late())?;
    join(signaller)?;
    equal(seen.user(), Signals::USER_2)
}

fn one_two_waiters() -> Outcome {
    let event = Event::create()?;
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let twin = event.duplicate(Rights::SAME_RIGHTS)?;
            Ok(thread::spawn(move || twin.wait_one(Signals::USER_2, late())))
        })
        .collect::<zx::Result<_>>()?;
    thread::sleep(Duration::from_millis(10));
    event.signal(Signals::NONE, Signals::USER_2)?;
    for waiter in waiters {
        waiter.join().map_err(|_| "a waiter panicked")??;
    }
    Ok(())
}

fn one_canceled_by_close() -> Outcome {
    let event = Event::create()?;
    let raw = event.into_handle().into_raw();
    let closer = in_a_moment(move || {
        let _ = raw!(zx_handle_close, raw);
    });
    let result = HandleRef::from_raw(raw).wait_one(Signals::USER_2, late());
    join(closer)?;
    fails(result, Status::CANCELED)
}

fn one_rights() -> Outcome {
    let blind = without(&Event::create()?, Rights::WAIT)?;
    fails(blind.wait_one(Signals::USER_0, MonotonicInstant::ZERO), Status::ACCESS_DENIED)
}

fn one_no_signals() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_ALL)?;
    fails(event.wait_one(Signals::NONE, soon(10)), Status::TIMED_OUT)
}

fn many_one_of_several() -> Outcome {
    let events = [Event::create()?, Event::create()?, Event::create()?];
    events[1].signal(Signals::NONE, Signals::USER_6)?;
    let mut items = [0, 1, 2].map(|index: usize| item(&events[index], Signals::USER_6));
    zx::wait_many(&mut items, MonotonicInstant::INFINITE)?;
    equal(
        items.map(|item| Signals::from_bits_retain(item.pending).user()),
        [Signals::NONE, Signals::USER_6, Signals::NONE],
    )
}

fn many_all_pending_told() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"x", [])?;
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_0 | Signals::USER_1)?;
    let mut items = [item(&a, Signals::READABLE), item(&event, Signals::USER_0)];
    zx::wait_many(&mut items, MonotonicInstant::INFINITE)?;
    let pending = Signals::from_bits_retain(items[0].pending);
    ensure(pending.contains(Signals::READABLE | Signals::WRITABLE), "the channel's signals are not all told")?;
    equal(Signals::from_bits_retain(items[1].pending).user(), Signals::USER_0 | Signals::USER_1)
}

fn many_times_out() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_1)?;
    let mut items = [item(&event, Signals::USER_0)];
    let start = Instant::now();
    fails(zx::wait_many(&mut items, soon(20)), Status::TIMED_OUT)?;
    ensure(start.elapsed() >= Duration::from_millis(20), "it did not wait")?;
    equal(Signals::from_bits_retain(items[0].pending).user(), Signals::USER_1)
}

fn many_none_sleeps() -> Outcome {
    let start = Instant::now();
    fails(zx::wait_many(&mut [], soon(20)), Status::TIMED_OUT)?;
    ensure(start.elapsed() >= Duration::from_millis(20), "it did not wait")
}

fn many_too_many() -> Outcome {
    let event = Event::create()?;
    let mut items = [item(&event, Signals::USER_0); 65];
    fails(zx::wait_many(&mut items, MonotonicInstant::ZERO), Status::OUT_OF_RANGE)
}

fn many_most() -> Outcome {
    let events = (0..64).map(|_| Event::create()).collect::<zx::Result<Vec<_>>>()?;
    events[63].signal(Signals::NONE, Signals::USER_0)?;
    let mut items: Vec<_> = events.iter().map(|event| item(event, Signals::USER_0)).collect();
    zx::wait_many(&mut items, late())?;
    ensure(items[63].pending != 0 && items[0].pending & (1 << 24) == 0, "the wrong item is pending")
}

fn many_same_twice() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_1)?;
    let mut items = [item(&event, Signals::USER_0), item(&event, Signals::USER_1)];
    zx::wait_many(&mut items, late())?;
    equal(items[0].pending, items[1].pending)
}

fn many_bad_handle() -> Outcome {
    let event = Event::create()?;
    let mut items = [item(&event, Signals::USER_0), item(&HandleRef::from_raw(0xffff_ffff), Signals::USER_0)];
    fails(zx::wait_many(&mut items, MonotonicInstant::ZERO), Status::BAD_HANDLE)
}

fn many_woken_by_a_thread() -> Outcome {
    let events = [Event::create()?, Event::create()?];
    let twin = events[1].duplicate(Rights::SAME_RIGHTS)?;
    let signaller = in_a_moment(move || {
        let _ = twin.signal(Signals::NONE, Signals::USER_3);
    });
    let mut items = [item(&events[0], Signals::USER_3), item(&events[1], Signals::USER_3)];
    let result = zx::wait_many(&mut items, late());
    join(signaller)?;
    result?;
    equal(Signals::from_bits_retain(items[1].pending).user(), Signals::USER_3)
}

fn many_canceled_by_close() -> Outcome {
    let event = Event::create()?;
    let other = Event::create()?;
    let mut items = [item(&other, Signals::USER_3), item(&event, Signals::USER_3)];
    let raw = event.into_handle().into_raw();
    let closer = in_a_moment(move || {
        let _ = raw!(zx_handle_close, raw);
    });
    let result = zx::wait_many(&mut items, late());
    join(closer)?;
    fails(result, Status::CANCELED)?;
    ensure(items[1].pending & Signals::HANDLE_CLOSED.bits() != 0, "the closed handle is not told")
}
