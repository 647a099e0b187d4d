//! Zircon's libsync: mutexes, condition variables and completions on futexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use abi::Status;
use libc_probe::sync::*;
use zx::{AsHandleRef, Duration, Info, MonotonicInstant};

use super::asleep::{joined, native, until_on_futex};
use super::{cases, late, raw, soon};
use crate::check::{Outcome, ensure, equal, gives};
use crate::test_process::EXCEPTION;

cases! {
    "sync.mutex.contention" => mutex_contention,
    "sync.mutex.try_contention" => mutex_try_contention,
    "sync.mutex.timeout" => mutex_timeout,
    "sync.mutex.no_recursion" => mutex_no_recursion,
    "sync.mutex.assert_held" => mutex_assert_held,
    "sync.mutex.holder_is_known" => mutex_holder_is_known,
    "sync.mutex.holder_has_ended" => mutex_holder_has_ended,
    "sync.condition.signals" => condition_signals,
    "sync.condition.timeout" => condition_timeout,
    "sync.completion.init" => completion_init,
    "sync.completion.one_waits" => completion_one_waits,
    "sync.completion.many_wait" => completion_many_wait,
    "sync.completion.one_late_waiter" => completion_one_late_waiter,
    "sync.completion.many_late_waiters" => completion_many_late_waiters,
    "sync.completion.resets" => completion_resets,
    "sync.completion.many_resets" => completion_many_resets,
    "sync.completion.reset_at_once" => completion_reset_at_once,
    "sync.completion.times_out" => completion_times_out,
    "sync.completion.many_time_out" => completion_many_time_out,
    "sync.completion.stray_wake" => completion_stray_wake,
    "sync.completion.requeue" => completion_requeue,
}

const OK: i32 = Status::OK.0;
const TIMED_OUT: i32 = Status::TIMED_OUT.0;
const BAD_STATE: i32 = Status::BAD_STATE.0;
const MANY: u32 = 8;

/// A number whose increments are correct only under the mutex.
#[derive(Default)]
struct Counted {
    mutex: sync_mutex_t,
    number: AtomicU32,
}

fn contend(take: fn(&sync_mutex_t)) -> Outcome {
    const ROUNDS: u32 = 200;
    let counted = Arc::new(Counted::default());
    let work = || {
        let counted = Arc::clone(&counted);
        thread::spawn(move || {
            for round in 0..ROUNDS {
                take(&counted.mutex);
                let number = counted.number.load(Ordering::Relaxed);
                if round % 4 == 0 {
                    thread::yield_now();
                }
                counted.number.store(number + 1, Ordering::Relaxed);
                sync_mutex_unlock(&counted.mutex);
            }
        })
    };
    let threads: Vec<_> = (0..4).map(|_| work()).collect();
    threads.into_iter().try_for_each(joined)?;
    equal(counted.number.load(Ordering::Relaxed), 4 * ROUNDS)
}

fn mutex_contention() -> Outcome {
    contend(|mutex| sync_mutex_lock(mutex))?;
    contend(|mutex| sync_mutex_lock_with_waiter(mutex))
}

fn mutex_try_contention() -> Outcome {
    contend(|mutex| {
        while sync_mutex_trylock(mutex) != OK {
            thread::yield_now();
        }
    })?;
    let mutex = Arc::new(sync_mutex_t::new());
    sync_mutex_lock(&mutex);
    let twin = Arc::clone(&mutex);
    equal(joined(thread::spawn(move || sync_mutex_trylock(&twin)))?, BAD_STATE)?;
    sync_mutex_unlock(&mutex);
    equal(sync_mutex_trylock(&mutex), OK)?;
    sync_mutex_unlock(&mutex);
    // Unlocking a free mutex has no effect.
    sync_mutex_unlock(&mutex);
    equal([sync_mutex_trylock(&mutex), sync_mutex_trylock(&mutex)], [OK, BAD_STATE])
}

fn mutex_timeout() -> Outcome {
    let mutex = Arc::new(sync_mutex_t::new());
    sync_mutex_lock(&mutex);
    let twin = Arc::clone(&mutex);
    let waiter = thread::spawn(move || -> Outcome {
        for _ in 0..4 {
            let deadline = soon(20);
            equal(sync_mutex_timedlock(&twin, deadline.0), TIMED_OUT)?;
            ensure(MonotonicInstant::now() >= deadline, "it came back early")?;
        }
        equal(sync_mutex_timedlock(&twin, 0), TIMED_OUT)
    });
    joined(waiter)??;
    // The mutex is unlocked in time: the waiter gets it.
    let twin = Arc::clone(&mutex);
    let waiter = thread::spawn(move || sync_mutex_timedlock(&twin, late().0));
    until_on_futex(native(&waiter))?;
    sync_mutex_unlock(&mutex);
    equal(joined(waiter)?, OK)?;
    equal(sync_mutex_trylock(&mutex), BAD_STATE)
}

fn mutex_no_recursion() -> Outcome {
    let mutex = sync_mutex_t::new();
    sync_mutex_lock(&mutex);
    equal(sync_mutex_trylock(&mutex), BAD_STATE)?;
    sync_mutex_unlock(&mutex);
    // A thread that locks its own mutex again ends the process.
    for how in ["lock-twice", "timedlock-twice"] {
        equal(super::process::child(&["sync", how])?, EXCEPTION)?;
    }
    Ok(())
}

fn mutex_assert_held() -> Outcome {
    let mutex = sync_mutex_t::new();
    sync_mutex_lock(&mutex);
    sync_mutex_assert_held(&mutex);
    for how in ["assert-free", "assert-other"] {
        equal(super::process::child(&["sync", how])?, EXCEPTION)?;
    }
    Ok(())
}

/// Runs in a process that is expected to end in it. Returns 1 if it does not.
pub fn child(how: &str) -> i32 {
    let mutex = Arc::new(sync_mutex_t::new());
    match how {
        "lock-twice" => {
            sync_mutex_lock(&mutex);
            sync_mutex_lock(&mutex);
        }
        "timedlock-twice" => {
            sync_mutex_lock(&mutex);
            let _ = sync_mutex_timedlock(&mutex, soon(10).0);
        }
        "assert-free" => sync_mutex_assert_held(&mutex),
        "assert-other" => {
            let twin = Arc::clone(&mutex);
            let _ = thread::spawn(move || sync_mutex_lock(&twin)).join();
            sync_mutex_assert_held(&mutex);
        }
        _ => return 2,
    }
    1
}

fn mutex_holder_is_known() -> Outcome {
    let mutex = Arc::new(sync_mutex_t::new());
    sync_mutex_lock(&mutex);
    let twin = Arc::clone(&mutex);
    let waiter = thread::spawn(move || {
        sync_mutex_lock(&twin);
        sync_mutex_unlock(&twin);
    });
    until_on_futex(native(&waiter))?;
    let mut koid = 0_u64;
    let status = raw!(zx_futex_get_owner, std::ptr::from_ref(&*mutex).expose_provenance(), &raw mut koid);
    sync_mutex_unlock(&mutex);
    joined(waiter)?;
    gives(status, Status::OK)?;
    equal(koid, zx::startup::thread_self().koid()?)
}

fn mutex_holder_has_ended() -> Outcome {
    // The mutex is held by a thread that has ended. There is no owner to name, but waiting works, and another thread
    // can unlock it.
    let mutex = Arc::new(sync_mutex_t::new());
    let twin = Arc::clone(&mutex);
    joined(thread::spawn(move || sync_mutex_lock(&twin)))?;
    equal(sync_mutex_timedlock(&mutex, soon(10).0), TIMED_OUT)?;
    let twin = Arc::clone(&mutex);
    let waiter = thread::spawn(move || sync_mutex_timedlock(&twin, late().0));
    until_on_futex(native(&waiter))?;
    sync_mutex_unlock(&mutex);
    equal(joined(waiter)?, OK)
}

/// A queue of threads that wait for a condition variable.
#[derive(Default)]
struct Room {
    mutex: sync_mutex_t,
    changed: sync_condition_t,
    inside: AtomicU32,
    let_go: AtomicU32,
    /// How often a thread woke up.
    woken: AtomicU32,
    gone: AtomicU32,
}

fn condition_signals() -> Outcome {
    let room = Arc::new(Room::default());
    let visit = || {
        let room = Arc::clone(&room);
        thread::spawn(move || {
            sync_mutex_lock(&room.mutex);
            room.inside.fetch_add(1, Ordering::SeqCst);
            while room.let_go.load(Ordering::SeqCst) == 0 {
                sync_condition_wait(&room.changed, &room.mutex);
                sync_mutex_assert_held(&room.mutex);
                room.woken.fetch_add(1, Ordering::SeqCst);
            }
            room.let_go.fetch_sub(1, Ordering::SeqCst);
            room.gone.fetch_add(1, Ordering::SeqCst);
            sync_mutex_unlock(&room.mutex);
        })
    };
    let threads: Vec<_> = (0..5).map(|_| visit()).collect();
    while room.inside.load(Ordering::SeqCst) < 5 {
        thread::yield_now();
    }
    threads.iter().try_for_each(|thread| until_on_futex(native(thread)))?;
    let let_go = |count: u32, tell: fn(&sync_condition_t), gone: u32| -> Outcome {
        sync_mutex_lock(&room.mutex);
        room.let_go.fetch_add(count, Ordering::SeqCst);
        tell(&room.changed);
        sync_mutex_unlock(&room.mutex);
        let limit = late();
        while room.gone.load(Ordering::SeqCst) < gone && MonotonicInstant::now() < limit {
            thread::yield_now();
        }
        // The signal woke no others.
        zx::nanosleep(soon(5))?;
        equal((room.gone.load(Ordering::SeqCst), room.woken.load(Ordering::SeqCst)), (gone, gone))
    };
    let_go(1, |condition| sync_condition_signal(condition), 1)?;
    let_go(1, |condition| sync_condition_signal(condition), 2)?;
    let_go(3, |condition| sync_condition_broadcast(condition), 5)?;
    threads.into_iter().try_for_each(joined)
}

fn condition_timeout() -> Outcome {
    let (mutex, condition) = (sync_mutex_t::new(), sync_condition_t::new());
    sync_mutex_lock(&mutex);
    for milliseconds in [-10, 0, 20] {
        let deadline = soon(milliseconds);
        equal(sync_condition_timedwait(&condition, &mutex, deadline.0), TIMED_OUT)?;
        ensure(MonotonicInstant::now() >= deadline, "it came back early")?;
        sync_mutex_assert_held(&mutex);
    }
    // The signal comes in time, possibly before this thread sleeps.
    let both = Arc::new((mutex, condition));
    for _ in 0..20 {
        let twin = Arc::clone(&both);
        let signaler = thread::spawn(move || {
            sync_mutex_lock(&twin.0);
            sync_condition_signal(&twin.1);
            sync_mutex_unlock(&twin.0);
        });
        until_on_futex(native(&signaler))?;
        equal(sync_condition_timedwait(&both.1, &both.0, late().0), OK)?;
        joined(signaler)?;
    }
    Ok(())
}

type Wait = fn(&sync_completion_t) -> i32;

/// Both calls that wait, without a timeout.
const FOREVER: [Wait; 2] = [
    |completion| sync_completion_wait(completion, i64::MAX),
    |completion| sync_completion_wait_deadline(completion, i64::MAX),
];

/// Starts threads that wait. Returns when every thread has reached its wait: a thread that is blocked on a futex from
/// then on is blocked in the wait, not in the start of a thread.
fn waiters(completion: &Arc<sync_completion_t>, count: u32, wait: Wait) -> Vec<JoinHandle<i32>> {
    let begun = Arc::new(AtomicU32::new(0));
    let start = || {
        let (completion, begun) = (Arc::clone(completion), Arc::clone(&begun));
        thread::spawn(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            wait(&completion)
        })
    };
    let threads = (0..count).map(|_| start()).collect();
    while begun.load(Ordering::Relaxed) < count {
        thread::yield_now();
    }
    threads
}

fn all_asleep(threads: &[JoinHandle<i32>]) -> Outcome {
    threads.iter().try_for_each(|thread| until_on_futex(native(thread)))
}

/// Checks that all are blocked now.
fn asleep_now(threads: &[JoinHandle<i32>]) -> Outcome {
    for thread in threads {
        let thread = zx::Unowned::<zx::Thread>::from_raw(native(thread)).ok_or("a thread without a handle")?;
        equal(thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_FUTEX)?;
    }
    Ok(())
}

fn all_give(threads: Vec<JoinHandle<i32>>, status: i32) -> Outcome {
    threads.into_iter().try_for_each(|thread| equal(joined(thread)?, status))
}

fn completion_init() -> Outcome {
    static COMPLETION: sync_completion_t = sync_completion_t::new();
    // A completion consists of zeroes, so zeroed memory is a valid one.
    let fresh = sync_completion_t::new();
    for place in [&COMPLETION, &fresh] {
        let mut bytes = [0xff; size_of::<sync_completion_t>()];
        let address = std::ptr::from_ref(place).expose_provenance();
        equal(zx::startup::process_self().read_memory(address, &mut bytes)?, bytes.len())?;
        equal(bytes, [0; size_of::<sync_completion_t>()])?;
    }
    ensure(!sync_completion_signaled(&COMPLETION), "a new one is signaled")?;
    equal(sync_completion_wait(&COMPLETION, 0), TIMED_OUT)?;
    sync_completion_signal(&COMPLETION);
    ensure(sync_completion_signaled(&COMPLETION), "it is not signaled")?;
    equal(sync_completion_wait(&COMPLETION, 0), OK)?;
    // Signalling or resetting twice has the same effect as once.
    sync_completion_signal(&COMPLETION);
    sync_completion_reset(&COMPLETION);
    ensure(!sync_completion_signaled(&COMPLETION), "it is still signaled")?;
    sync_completion_reset(&COMPLETION);
    equal(sync_completion_wait(&COMPLETION, 0), TIMED_OUT)
}

fn wait_and_signal(count: u32) -> Outcome {
    for wait in FOREVER {
        let completion = Arc::new(sync_completion_t::new());
        let threads = waiters(&completion, count, wait);
        all_asleep(&threads)?;
        sync_completion_signal(&completion);
        all_give(threads, OK)?;
        ensure(sync_completion_signaled(&completion), "the signal is gone")?;
    }
    Ok(())
}

fn completion_one_waits() -> Outcome {
    wait_and_signal(1)
}

fn completion_many_wait() -> Outcome {
    wait_and_signal(MANY)
}

fn signal_and_wait(count: u32) -> Outcome {
    for wait in FOREVER {
        let completion = Arc::new(sync_completion_t::new());
        sync_completion_signal(&completion);
        all_give(waiters(&completion, count, wait), OK)?;
        all_give(waiters(&completion, count, wait), OK)?;
    }
    Ok(())
}

fn completion_one_late_waiter() -> Outcome {
    signal_and_wait(1)
}

fn completion_many_late_waiters() -> Outcome {
    signal_and_wait(MANY)
}

fn cycles(count: u32) -> Outcome {
    let completion = Arc::new(sync_completion_t::new());
    for wait in FOREVER {
        for _ in 0..3 {
            let threads = waiters(&completion, count, wait);
            all_asleep(&threads)?;
            sync_completion_signal(&completion);
            all_give(threads, OK)?;
            all_give(waiters(&completion, count, wait), OK)?;
            sync_completion_reset(&completion);
            equal(sync_completion_wait(&completion, 0), TIMED_OUT)?;
        }
    }
    Ok(())
}

fn completion_resets() -> Outcome {
    cycles(1)
}

fn completion_many_resets() -> Outcome {
    cycles(MANY)
}

fn completion_reset_at_once() -> Outcome {
    // Threads that waited at the time of the signal continue, even if the reset comes before they run.
    let completion = Arc::new(sync_completion_t::new());
    for _ in 0..20 {
        let threads = waiters(&completion, 3, FOREVER[0]);
        all_asleep(&threads)?;
        sync_completion_signal(&completion);
        sync_completion_reset(&completion);
        all_give(threads, OK)?;
    }
    Ok(())
}

fn time_out(count: u32) -> Outcome {
    let waits: [Wait; 2] = [
        |completion| sync_completion_wait(completion, Duration::from_millis(20).0),
        |completion| sync_completion_wait_deadline(completion, soon(20).0),
    ];
    for wait in waits {
        let completion = Arc::new(sync_completion_t::new());
        let start = MonotonicInstant::now();
        all_give(waiters(&completion, count, wait), TIMED_OUT)?;
        ensure(MonotonicInstant::now() - start >= Duration::from_millis(20), "it came back early")?;
    }
    Ok(())
}

fn completion_times_out() -> Outcome {
    let completion = sync_completion_t::new();
    for timeout in [-1, 0, 1, i64::MIN] {
        equal(sync_completion_wait(&completion, timeout), TIMED_OUT)?;
        equal(sync_completion_wait_deadline(&completion, timeout), TIMED_OUT)?;
    }
    time_out(1)
}

fn completion_many_time_out() -> Outcome {
    time_out(MANY)
}

fn completion_stray_wake() -> Outcome {
    let completion = Arc::new(sync_completion_t::new());
    let threads = waiters(&completion, MANY, FOREVER[0]);
    all_asleep(&threads)?;
    for _ in 0..3 {
        equal(wake(address(&completion), u32::MAX), OK)?;
        // They check the completion and block again.
        zx::nanosleep(soon(5))?;
        all_asleep(&threads)?;
    }
    sync_completion_signal(&completion);
    all_give(threads, OK)
}

fn completion_requeue() -> Outcome {
    let (completion, target) = (Arc::new(sync_completion_t::new()), zx_futex_t::new());
    let threads = waiters(&completion, MANY, FOREVER[0]);
    all_asleep(&threads)?;
    let me = zx::startup::thread_self();
    sync_completion_signal_requeue(&completion, &target, me.raw_handle());
    ensure(sync_completion_signaled(&completion), "it is not signaled")?;
    zx::nanosleep(soon(20))?;
    asleep_now(&threads)?;
    let mut koid = 0_u64;
    gives(raw!(zx_futex_get_owner, target.address(), &raw mut koid), Status::OK)?;
    equal(koid, me.koid()?)?;
    // No thread waits on the completion any more.
    equal(wake(address(&completion), u32::MAX), OK)?;
    zx::nanosleep(soon(5))?;
    asleep_now(&threads)?;
    equal(wake(target.address(), u32::MAX), OK)?;
    all_give(threads, OK)?;
    // Without a waiter, the call only signals.
    let completion = sync_completion_t::new();
    sync_completion_signal_requeue(&completion, &target, 0);
    equal(sync_completion_wait(&completion, 0), OK)
}
