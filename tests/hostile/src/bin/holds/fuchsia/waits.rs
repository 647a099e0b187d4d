//! Operations that concern many waiters: of a signal, of a futex, of a port.

use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Duration;

use conformance::check::{Case, Failure, Outcome, ensure};
use zx::{AsHandleRef, Event, EventPair, MonotonicInstant, Port, Rights, Signals, Timer};

use super::{ends, holds_shortly};

/// Waits on one object.
const WAITS: u64 = 40_000;
/// Timers that expire at the same time.
const TIMERS: usize = 20_000;
/// Threads that wait for the same thing.
const THREADS: usize = 1000;

fn waits(of: &impl AsHandleRef, signals: Signals, key: impl Fn(u64) -> u64) -> Result<Port, Failure> {
    let port = Port::create()?;
    (0..WAITS).try_for_each(|i| of.wait_async(&port, key(i), signals, 0))?;
    Ok(port)
}

/// Takes all packets from a port.
fn packets(port: &Port) -> u64 {
    std::iter::from_fn(|| port.wait(MonotonicInstant::ZERO).ok()).map(|_| 1).sum()
}

fn signal_packets() -> Outcome {
    let event = Event::create()?;
    let port = waits(&event, Signals::USER_0, |i| i)?;
    holds_shortly("signal-packets", || Ok(event.signal(Signals::NONE, Signals::USER_0)?))?;
    ensure(packets(&port) == WAITS, "the call was over before all packets were there")
}

fn close_peer() -> Outcome {
    let (near, far) = EventPair::create()?;
    let port = waits(&near, Signals::EVENTPAIR_PEER_CLOSED, |i| i)?;
    ends("close-peer", far)?;
    ensure(packets(&port) == WAITS, "the call was over before all packets were there")
}

fn close_handle() -> Outcome {
    let event = Event::create()?;
    let other = event.duplicate(Rights::SAME_RIGHTS)?;
    let port = waits(&event, Signals::USER_0, |i| i)?;
    ends("close-handle", event)?;
    holds_shortly("signal-nobody", || Ok(other.signal(Signals::NONE, Signals::USER_0)?))?;
    ensure(packets(&port) == 0, "waits through a handle that was closed")
}

fn close_port() -> Outcome {
    let event = Event::create()?;
    ends("close-port", waits(&event, Signals::USER_0, |i| i)?)
}

fn cancel() -> Outcome {
    let event = Event::create()?;
    let port = waits(&event, Signals::USER_0, |_| 7)?;
    holds_shortly("cancel", || Ok(port.cancel(&event, 7)?))?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    ensure(packets(&port) == 0, "waits that were cancelled")
}

/// Many threads wait, and one action ends all their waits.
fn crowd(kind: &str, wait: impl Fn() + Send + Clone + 'static, act: impl FnOnce() -> Outcome) -> Outcome {
    let start = |_| {
        let wait = wait.clone();
        thread::Builder::new().stack_size(16 << 10).spawn(wait)
    };
    let all = (0..THREADS).map(start).collect::<Result<Vec<_>, _>>()?;
    thread::sleep(Duration::from_millis(200));
    holds_shortly(kind, act)?;
    all.into_iter().try_for_each(|thread| thread.join().map_err(|_| Failure::from("a thread ended")))
}

fn signal_threads() -> Outcome {
    let event = std::sync::Arc::new(Event::create()?);
    let waited = event.clone();
    let wait = move || assert!(waited.wait_one(Signals::USER_0, MonotonicInstant::INFINITE).is_ok());
    crowd("signal-threads", wait, move || Ok(event.signal(Signals::NONE, Signals::USER_0)?))
}

fn futex_wake() -> Outcome {
    static WORD: AtomicU32 = AtomicU32::new(0);
    let wait = || assert!(zx::futex_wait(&WORD, 0, None, MonotonicInstant::INFINITE).is_ok());
    crowd("futex-wake", wait, || Ok(zx::futex_wake(&WORD, u32::MAX)?))
}

fn futex_requeue() -> Outcome {
    static WORD: AtomicU32 = AtomicU32::new(0);
    static OTHER: AtomicU32 = AtomicU32::new(0);
    let wait = || assert!(zx::futex_wait(&WORD, 0, None, MonotonicInstant::INFINITE).is_ok());
    crowd("futex-requeue", wait, || {
        zx::futex_requeue(&WORD, 0, 0, &OTHER, u32::MAX, None)?;
        Ok(zx::futex_wake(&OTHER, u32::MAX)?)
    })
}

fn timers() -> Outcome {
    let all = (0..TIMERS).map(|_| Timer::create(0)).collect::<zx::Result<Vec<_>>>()?;
    let due = MonotonicInstant::after(zx::Duration::from_millis(200));
    all.iter().try_for_each(|timer| timer.set(due, zx::Duration::from_millis(0)))?;
    ensure(MonotonicInstant::now() < due, "they were due before all of them were set")?;
    holds_shortly("timers-due", || {
        let last = all.last().ok_or("there are none")?;
        Ok(last.wait_one(Signals::TIMER_SIGNALED, MonotonicInstant::INFINITE).map(drop)?)
    })?;
    let late = all.iter().find(|timer| timer.wait_one(Signals::TIMER_SIGNALED, MonotonicInstant::ZERO).is_err());
    ensure(late.is_none(), "one went off after the last")
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("holds.cancel", cancel),
        Case::new("holds.close.handle", close_handle),
        Case::new("holds.close.peer", close_peer),
        Case::new("holds.close.port", close_port),
        Case::new("holds.futex.requeue", futex_requeue),
        Case::new("holds.futex.wake", futex_wake),
        Case::new("holds.signal.packets", signal_packets),
        Case::new("holds.signal.threads", signal_threads),
        Case::new("holds.timers", timers),
    ]
}
