//! Waiting for signals of one or several objects.

use std::thread;
use std::time::{Duration, Instant};

use abi::{Rights, Status, zx_wait_item_t};
use zx::{AsHandleRef, Channel, Event, HandleRef, Info, MonotonicInstant, Signals};

use super::asleep::until;
use super::{cases, late, raw, soon, until_fast_enough, without};
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
    "object.wait_one.no_signals_canceled" => one_no_signals_canceled,
    "object.wait_one.signal_cleared_before" => one_signal_cleared_before,
    "object.wait_one.transient_signals_not_reported" => one_transient_signals_not_reported,
    "object.wait_one.canceled_for_all" => one_canceled_for_all,
    "object.wait_one.canceled_by_replace" => one_canceled_by_replace,
    "object.wait_one.canceled_by_transfer" => one_canceled_by_transfer,
    "object.wait_one.canceled_by_close_many" => one_canceled_by_close_many,
    "object.wait_one.twin_keeps_waiting" => one_twin_keeps_waiting,
    "object.wait_one.reported_when_timed_out" => one_reported_when_timed_out,
    "object.wait_one.peer_closed" => one_peer_closed,
    "object.wait_one.null_observed" => one_null_observed,
    "object.wait_one.nothing_reported_on_failure" => one_nothing_reported_on_failure,
    "object.wait_one.moment_for_all" => one_moment_for_all,
    "object.wait_many.one_of_several" => many_one_of_several,
    "object.wait_many.all_pending_reported" => many_all_pending_reported,
    "object.wait_many.times_out" => many_times_out,
    "object.wait_many.none_sleeps" => many_none_sleeps,
    "object.wait_many.too_many" => many_too_many,
    "object.wait_many.most" => many_most,
    "object.wait_many.same_twice" => many_same_twice,
    "object.wait_many.bad_handle" => many_bad_handle,
    "object.wait_many.woken_by_a_thread" => many_woken_by_a_thread,
    "object.wait_many.canceled_by_close" => many_canceled_by_close,
    "object.wait_many.canceled_item_reported" => many_canceled_item_reported,
    "object.wait_many.transient_signals_not_reported" => many_transient_signals_not_reported,
    "object.wait_many.none_past_deadline" => many_none_past_deadline,
    "object.wait_many.rights" => many_rights,
    "object.wait_many.bad_memory" => many_bad_memory,
    "object.wait_many.too_many_first" => many_too_many_first,
    "object.wait_many.failure_leaves_nothing" => many_failure_leaves_nothing,
    "object.wait_many.same_object_by_two_handles" => many_same_object_by_two_handles,
}

fn item(object: &impl AsHandleRef, signals: Signals) -> zx_wait_item_t {
    zx_wait_item_t { handle: object.raw_handle(), waitfor: signals.bits(), pending: 0 }
}

/// Runs `action` in another thread when the caller is blocked in a wait.
fn in_a_moment(action: impl FnOnce() -> Outcome + Send + 'static) -> thread::JoinHandle<Outcome> {
    let caller = zx::startup::thread_self().raw_handle();
    thread::spawn(move || {
        let waits = until(caller, &[abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE, abi::ZX_THREAD_STATE_BLOCKED_WAIT_MANY]);
        // The action runs in any case, so that the wait ends.
        action().and(waits)
    })
}

fn join(thread: thread::JoinHandle<Outcome>) -> Outcome {
    thread.join().map_err(|_| Failure::from("the other thread panicked"))?
}

fn one_already() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::SIGNALED)?;
    let seen = event.wait_one(Signals::SIGNALED, MonotonicInstant::INFINITE)?;
    equal(seen, Signals::SIGNALED)
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
        // A signal that is set already counts, even with a deadline in the past.
        event.wait_one(Signals::USER_5, deadline)?;
    }
    let mut seen = 0_u32;
    gives(raw!(zx_object_wait_one, event.raw_handle(), 1 << 24, 0, &raw mut seen), Status::TIMED_OUT)?;
    equal(Signals::from_bits_retain(seen).user(), Signals::USER_5)
}

fn one_times_out() -> Outcome {
    let event = Event::create()?;
    // It must not wait for long in each round.
    until_fast_enough(|time| {
        let start = MonotonicInstant::now();
        fails(event.wait_one(Signals::USER_0, start + time), Status::TIMED_OUT)?;
        let waited = MonotonicInstant::now() - start;
        ensure(waited >= time, &format!("it waited {waited:?} only"))?;
        Ok(MonotonicInstant::now() < start + time + zx::Duration::from_seconds(2))
    })
}

fn one_woken_by_a_thread() -> Outcome {
    let event = Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    let signaller = in_a_moment(move || Ok(twin.signal(Signals::NONE, Signals::USER_2)?));
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
    let closer = in_a_moment(move || gives(raw!(zx_handle_close, raw), Status::OK));
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
    fails(event.wait_one(Signals::NONE, soon(10)), Status::TIMED_OUT)?;
    let (event, mut seen) = (Event::create()?, u32::MAX);
    gives(raw!(zx_object_wait_one, event.raw_handle(), 0, soon(1).0, &raw mut seen), Status::TIMED_OUT)?;
    equal(seen, 0)
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

fn many_all_pending_reported() -> Outcome {
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
    let signaller = in_a_moment(move || Ok(twin.signal(Signals::NONE, Signals::USER_3)?));
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
    let closer = in_a_moment(move || gives(raw!(zx_handle_close, raw), Status::OK));
    let result = zx::wait_many(&mut items, late());
    join(closer)?;
    fails(result, Status::CANCELED)?;
    ensure(items[1].pending & Signals::HANDLE_CLOSED.bits() != 0, "the closed handle is not told")?;
    ensure(items[0].pending & Signals::HANDLE_CLOSED.bits() == 0, "one that is open is told as closed")
}

/// Waits through a handle's value in another thread; returns the status and the observed signals.
fn waiter(value: u32, signals: Signals) -> thread::JoinHandle<(Status, Signals)> {
    thread::spawn(move || {
        let mut seen = 0_u32;
        let status = raw!(zx_object_wait_one, value, signals.bits(), late().0, &raw mut seen);
        (status, Signals::from_bits_retain(seen))
    })
}

fn result(waiter: thread::JoinHandle<(Status, Signals)>) -> Result<(Status, Signals), Failure> {
    waiter.join().map_err(|_| Failure::from("the waiter panicked"))
}

/// Waits until `count` threads of this process are blocked in `object_wait_one`.
fn until_waiting(count: usize) -> Outcome {
    let process = zx::startup::process_self();
    for _ in 0..2000 {
        let mut koids = [0; 64];
        let found = process.get_info_koids(abi::ZX_INFO_PROCESS_THREADS, &mut koids)?.actual;
        let mut waiting = 0;
        for koid in &koids[..found] {
            // A thread that has ended meanwhile does not count.
            let Ok(thread) = process.thread(*koid) else { continue };
            waiting += usize::from(thread.info()?.state == abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE);
        }
        if waiting >= count {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err("they never waited".into())
}

/// Starts waiters through one handle value, and waits until they are blocked.
fn waiters(value: u32, signals: Signals, count: usize) -> Result<Vec<thread::JoinHandle<(Status, Signals)>>, Failure> {
    let waiters = (0..count).map(|_| waiter(value, signals)).collect();
    until_waiting(count)?;
    Ok(waiters)
}

const CANCELED: Status = Status::CANCELED;

fn one_no_signals_canceled() -> Outcome {
    let value = Event::create()?.into_handle().into_raw();
    let waiters = waiters(value, Signals::NONE, 1)?;
    gives(raw!(zx_handle_close, value), Status::OK)?;
    for waiter in waiters {
        equal(result(waiter)?, (CANCELED, Signals::HANDLE_CLOSED))?;
    }
    Ok(())
}

fn one_signal_cleared_before() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_2)?;
    event.signal(Signals::USER_2, Signals::NONE)?;
    for deadline in [soon(5), MonotonicInstant::INFINITE_PAST] {
        let mut seen = u32::MAX;
        let wanted = Signals::USER_2.bits();
        let status = raw!(zx_object_wait_one, event.raw_handle(), wanted, deadline.0, &raw mut seen);
        gives(status, Status::TIMED_OUT)?;
        equal(seen, 0)?;
    }
    Ok(())
}

fn one_transient_signals_not_reported() -> Outcome {
    let event = Event::create()?;
    let waiters = waiters(event.raw_handle(), Signals::USER_0, 1)?;
    // This signal is set and cleared while the other thread waits for a different one.
    event.signal(Signals::NONE, Signals::USER_1)?;
    event.signal(Signals::USER_1, Signals::NONE)?;
    event.signal(Signals::NONE, Signals::USER_0 | Signals::USER_3)?;
    for waiter in waiters {
        let (status, seen) = result(waiter)?;
        gives(status, Status::OK)?;
        equal(seen.user(), Signals::USER_0 | Signals::USER_3)?;
    }
    Ok(())
}

fn one_canceled_for_all() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_5)?;
    let value = event.into_handle().into_raw();
    let waiters = waiters(value, Signals::USER_0, 4)?;
    gives(raw!(zx_handle_close, value), Status::OK)?;
    for waiter in waiters {
        equal(result(waiter)?, (CANCELED, Signals::HANDLE_CLOSED | Signals::USER_5))?;
    }
    Ok(())
}

fn one_canceled_by_replace() -> Outcome {
    let value = Event::create()?.into_handle().into_raw();
    let waiters = waiters(value, Signals::USER_0, 1)?;
    let mut new = 0_u32;
    gives(raw!(zx_handle_replace, value, Rights::SAME_RIGHTS.bits(), &raw mut new), Status::OK)?;
    for waiter in waiters {
        equal(result(waiter)?, (CANCELED, Signals::HANDLE_CLOSED))?;
    }
    gives(raw!(zx_handle_close, new), Status::OK)
}

fn one_canceled_by_transfer() -> Outcome {
    let (sender, receiver) = Channel::create()?;
    let (near, far) = Channel::create()?;
    let value = near.into_handle().into_raw();
    let waiters = waiters(value, Signals::READABLE | Signals::PEER_CLOSED, 2)?;
    let status = raw!(zx_channel_write, sender.raw_handle(), 0, 0, 0, &raw const value, 1);
    gives(status, Status::OK)?;
    for waiter in waiters {
        let (status, seen) = result(waiter)?;
        gives(status, CANCELED)?;
        ensure(seen.contains(Signals::HANDLE_CLOSED), "that the handle is gone is not told")?;
    }
    // The object still works.
    far.write(b"x", [])?;
    receiver.wait_one(Signals::READABLE, late())?;
    Ok(())
}

fn one_canceled_by_close_many() -> Outcome {
    let value = Event::create()?.into_handle().into_raw();
    let waiters = waiters(value, Signals::USER_0, 2)?;
    let list = [0, value];
    gives(raw!(zx_handle_close_many, list.as_ptr(), 2), Status::OK)?;
    for waiter in waiters {
        equal(result(waiter)?, (CANCELED, Signals::HANDLE_CLOSED))?;
    }
    Ok(())
}

fn one_twin_keeps_waiting() -> Outcome {
    let event = Event::create()?;
    let value = event.duplicate(Rights::SAME_RIGHTS)?.into_handle().into_raw();
    let through_twin = waiter(value, Signals::USER_0);
    let through_event = waiter(event.raw_handle(), Signals::USER_0);
    until_waiting(2)?;
    gives(raw!(zx_handle_close, value), Status::OK)?;
    equal(result(through_twin)?, (CANCELED, Signals::HANDLE_CLOSED))?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    equal(result(through_event)?.0, Status::OK)
}

fn one_reported_when_timed_out() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_4)?;
    let mut seen = 0_u32;
    let deadline = soon(10).0;
    let status = raw!(zx_object_wait_one, event.raw_handle(), Signals::USER_0.bits(), deadline, &raw mut seen);
    gives(status, Status::TIMED_OUT)?;
    equal(Signals::from_bits_retain(seen), Signals::USER_4)
}

fn one_peer_closed() -> Outcome {
    let (a, b) = Channel::create()?;
    let waiters = waiters(a.raw_handle(), Signals::PEER_CLOSED, 1)?;
    drop(b);
    for waiter in waiters {
        let (status, seen) = result(waiter)?;
        gives(status, Status::OK)?;
        ensure(seen.contains(Signals::PEER_CLOSED) && !seen.contains(Signals::WRITABLE), "it can still be written")?;
    }
    Ok(())
}

fn one_null_observed() -> Outcome {
    let event = Event::create()?;
    let wait = |signals: Signals| raw!(zx_object_wait_one, event.raw_handle(), signals.bits(), 0, 0);
    gives(wait(Signals::USER_0), Status::TIMED_OUT)?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    gives(wait(Signals::USER_0), Status::OK)
}

fn one_nothing_reported_on_failure() -> Outcome {
    let blind = without(&Event::create()?, Rights::WAIT)?;
    let mut seen = 0x5a5a_5a5a_u32;
    gives(raw!(zx_object_wait_one, blind.raw_handle(), 8, 0, &raw mut seen), Status::ACCESS_DENIED)?;
    gives(raw!(zx_object_wait_one, 0, 8, 0, &raw mut seen), Status::BAD_HANDLE)?;
    equal(seen, 0x5a5a_5a5a)
}

fn one_moment_for_all() -> Outcome {
    // A signal that is set only for a moment wakes all waiters.
    let event = Event::create()?;
    let waiters = waiters(event.raw_handle(), Signals::USER_6, 3)?;
    event.signal(Signals::NONE, Signals::USER_6)?;
    event.signal(Signals::USER_6, Signals::NONE)?;
    for waiter in waiters {
        let (status, seen) = result(waiter)?;
        gives(status, Status::OK)?;
        equal(seen.user(), Signals::USER_6)?;
    }
    Ok(())
}

fn many_canceled_item_reported() -> Outcome {
    let events = [Event::create()?, Event::create()?, Event::create()?];
    events[0].signal(Signals::NONE, Signals::USER_1)?;
    let value = events[1].duplicate(Rights::SAME_RIGHTS)?.into_handle().into_raw();
    let twin = HandleRef::from_raw(value);
    let mut items = [
        item(&events[0], Signals::USER_3),
        item(&twin, Signals::USER_3),
        item(&events[1], Signals::USER_3),
        item(&twin, Signals::USER_4),
    ];
    let closer = in_a_moment(move || gives(raw!(zx_handle_close, value), Status::OK));
    let result = zx::wait_many(&mut items, late());
    join(closer)?;
    fails(result, CANCELED)?;
    let closed = Signals::HANDLE_CLOSED;
    // Closing a handle does not affect other handles to the same object.
    let expected = [Signals::USER_1, closed, Signals::NONE, closed];
    equal(items.map(|item| Signals::from_bits_retain(item.pending)), expected)
}

fn many_transient_signals_not_reported() -> Outcome {
    let events = [Event::create()?, Event::create()?];
    let twins = [events[0].duplicate(Rights::SAME_RIGHTS)?, events[1].duplicate(Rights::SAME_RIGHTS)?];
    let signaller = in_a_moment(move || {
        twins[0].signal(Signals::NONE, Signals::USER_1)?;
        twins[0].signal(Signals::USER_1, Signals::NONE)?;
        twins[1].signal(Signals::NONE, Signals::USER_2)?;
        twins[1].signal(Signals::USER_2, Signals::NONE)?;
        twins[1].signal(Signals::NONE, Signals::USER_0)?;
        Ok(())
    });
    let mut items = [item(&events[0], Signals::USER_0), item(&events[1], Signals::USER_0)];
    let result = zx::wait_many(&mut items, late());
    join(signaller)?;
    result?;
    equal(items.map(|item| Signals::from_bits_retain(item.pending).user()), [Signals::NONE, Signals::USER_0])
}

fn many_none_past_deadline() -> Outcome {
    fails(zx::wait_many(&mut [], MonotonicInstant::INFINITE_PAST), Status::TIMED_OUT)?;
    // Without items the server does not access the memory.
    gives(raw!(zx_object_wait_many, 0xffff_8000_0000_0000_u64, 0, 0), Status::TIMED_OUT)
}

fn many_rights() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    let blind = without(&event, Rights::WAIT)?;
    // Although the first object has the signal.
    let mut items = [item(&event, Signals::USER_0), item(&blind, Signals::USER_0)];
    fails(zx::wait_many(&mut items, MonotonicInstant::ZERO), Status::ACCESS_DENIED)
}

fn many_bad_memory() -> Outcome {
    for address in [0_u64, 0x1000, 0xffff_8000_0000_0000, u64::MAX - 7] {
        gives(raw!(zx_object_wait_many, address, 1, 0), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn many_too_many_first() -> Outcome {
    for count in [65_u64, 1 << 32, u64::MAX] {
        gives(raw!(zx_object_wait_many, 0, count, 0), Status::OUT_OF_RANGE)?;
    }
    Ok(())
}

fn many_failure_leaves_nothing() -> Outcome {
    // A wait that failed because of its second handle leaves no observer at its first object.
    let event = Event::create()?;
    for _ in 0..100 {
        let mut items = [item(&event, Signals::USER_0), item(&HandleRef::from_raw(0), Signals::USER_0)];
        fails(zx::wait_many(&mut items, late()), Status::BAD_HANDLE)?;
    }
    event.signal(Signals::NONE, Signals::USER_0)?;
    let mut items = [item(&event, Signals::USER_0)];
    zx::wait_many(&mut items, late())?;
    fails(event.wait_one(Signals::USER_1, soon(5)), Status::TIMED_OUT)
}

fn many_same_object_by_two_handles() -> Outcome {
    let event = Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    let third = event.duplicate(Rights::SAME_RIGHTS)?;
    let signaller = in_a_moment(move || Ok(third.signal(Signals::NONE, Signals::USER_1)?));
    let mut items = [item(&event, Signals::USER_0), item(&twin, Signals::USER_1)];
    let result = zx::wait_many(&mut items, late());
    join(signaller)?;
    result?;
    equal(items.map(|item| Signals::from_bits_retain(item.pending)), [Signals::USER_1; 2])
}
