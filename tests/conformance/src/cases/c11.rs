//! C11 threads, through the C library's functions.

use std::cell::Cell;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use abi::Signals;
use libc_probe::c11::*;
use libc_probe::{CLOCK_REALTIME, after, errno, set_errno, timespec};
use zx::{AsHandleRef, Duration, Info, MonotonicInstant, Thread, Unowned};

use super::asleep::until_on_futex;
use super::{cases, late, soon};
use crate::check::{Failure, Outcome, ensure, equal};

cases! {
    "c11.mutex.init" => mutex_init,
    "c11.mutex.static_is_the_same" => mutex_static_is_the_same,
    "c11.mutex.contention" => mutex_contention,
    "c11.mutex.try_contention" => mutex_try_contention,
    "c11.mutex.timeout" => mutex_timeout,
    "c11.condition.signal" => condition_signal,
    "c11.condition.signal_before_sleep" => condition_signal_before_sleep,
    "c11.condition.broadcast" => condition_broadcast,
    "c11.condition.timeout" => condition_timeout,
    "c11.thread.handle" => thread_handle,
    "c11.thread.no_name" => thread_no_name,
    "c11.thread.long_name" => thread_long_name,
    "c11.thread.results" => thread_results,
    "c11.thread.detached_continues" => thread_detached_continues,
    "c11.thread.detaches_itself" => thread_detaches_itself,
    "c11.thread.own_errno" => thread_own_errno,
    "c11.thread.sleep" => thread_sleep,
    "c11.once.once" => once_once,
    "c11.storage.destructors" => storage_destructors,
}

/// Starts a thread, which must succeed.
fn start(main: impl FnOnce() -> i32 + Send + 'static) -> Result<thrd_t, Failure> {
    create(main).map_err(|error| format!("thrd_create gave {error}").into())
}

/// Joins a thread, which must succeed; returns its result.
fn finish(thread: thrd_t) -> Result<i32, Failure> {
    join(thread).map_err(|error| format!("thrd_join gave {error}").into())
}

fn mutex_init() -> Outcome {
    for kind in [MTX_PLAIN, MTX_TIMED] {
        let mutex = mtx_t::filled(0xdead_beef);
        equal(mtx_init(&mutex, kind), THRD_SUCCESS)?;
        for _ in 0..3 {
            equal(mtx_lock(&mutex), THRD_SUCCESS)?;
            equal(mtx_trylock(&mutex), THRD_BUSY)?;
            equal(mtx_unlock(&mutex), THRD_SUCCESS)?;
        }
        equal(mtx_trylock(&mutex), THRD_SUCCESS)?;
        equal(mtx_unlock(&mutex), THRD_SUCCESS)?;
        mtx_destroy(&mutex);
    }
    for kind in [MTX_RECURSIVE, MTX_TIMED | MTX_RECURSIVE, 4, -1] {
        equal(mtx_init(&mtx_t::new(), kind), THRD_ERROR)?;
    }
    Ok(())
}

fn mutex_static_is_the_same() -> Outcome {
    static MUTEX: mtx_t = mtx_t::new();
    let automatic = mtx_t::filled(0xffff_ffff);
    equal(mtx_init(&automatic, MTX_PLAIN), THRD_SUCCESS)?;
    equal(automatic.word(), MUTEX.word())?;
    equal(mtx_lock(&MUTEX), THRD_SUCCESS)?;
    ensure(MUTEX.word() != automatic.word(), "a held mutex looks like a free one")?;
    equal(mtx_unlock(&MUTEX), THRD_SUCCESS)?;
    equal(automatic.word(), MUTEX.word())
}

/// A number whose increments are correct only under the mutex.
#[derive(Default)]
struct Counted {
    mutex: mtx_t,
    number: AtomicU32,
}

impl Counted {
    /// Yields to the other threads between the load and the store.
    fn count(&self) {
        let number = self.number.load(Ordering::Relaxed);
        if number.is_multiple_of(4) {
            thrd_yield();
        }
        self.number.store(number + 1, Ordering::Relaxed);
    }
}

const THREADS: u32 = 4;
const ROUNDS: u32 = 200;

fn contend(take: fn(&mtx_t) -> i32) -> Outcome {
    let counted = Arc::new(Counted::default());
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let counted = Arc::clone(&counted);
        threads.push(start(move || {
            let mut failed = 0;
            for _ in 0..ROUNDS {
                failed |= take(&counted.mutex);
                counted.count();
                failed |= mtx_unlock(&counted.mutex);
            }
            failed
        })?);
    }
    for thread in threads {
        equal(finish(thread)?, THRD_SUCCESS)?;
    }
    equal(counted.number.load(Ordering::Relaxed), THREADS * ROUNDS)
}

fn mutex_contention() -> Outcome {
    contend(|mutex| mtx_lock(mutex))
}

fn mutex_try_contention() -> Outcome {
    contend(|mutex| {
        loop {
            match mtx_trylock(mutex) {
                THRD_BUSY => thrd_yield(),
                other => return other,
            }
        }
    })?;
    // `mtx_trylock` fails on a mutex that another thread holds, and does not disturb it.
    let mutex = Arc::new(mtx_t::new());
    equal(mtx_lock(&mutex), THRD_SUCCESS)?;
    let twin = Arc::clone(&mutex);
    equal(finish(start(move || mtx_trylock(&twin))?)?, THRD_BUSY)?;
    equal(mtx_unlock(&mutex), THRD_SUCCESS)?;
    let twin = Arc::clone(&mutex);
    equal(finish(start(move || mtx_trylock(&twin) + mtx_unlock(&twin))?)?, THRD_SUCCESS)
}

fn mutex_timeout() -> Outcome {
    let mutex = Arc::new(mtx_t::new());
    equal(mtx_init(&mutex, MTX_TIMED), THRD_SUCCESS)?;
    equal(mtx_lock(&mutex), THRD_SUCCESS)?;
    let twin = Arc::clone(&mutex);
    let waiter = start(move || {
        for _ in 0..4 {
            let start = MonotonicInstant::now();
            if mtx_timedlock(&twin, &after(CLOCK_REALTIME, 20)) != THRD_TIMEDOUT {
                return 1;
            }
            if MonotonicInstant::now() - start < Duration::from_millis(20) {
                return 2;
            }
        }
        if mtx_timedlock(&twin, &timespec { tv_sec: 0, tv_nsec: 0 }) != THRD_TIMEDOUT {
            return 3;
        }
        0
    })?;
    equal(finish(waiter)?, 0)?;
    equal(mtx_unlock(&mutex), THRD_SUCCESS)?;
    // A free mutex is locked, whatever the timeout.
    equal(mtx_timedlock(&mutex, &timespec { tv_sec: 0, tv_nsec: 0 }), THRD_SUCCESS)?;
    // A mutex that is unlocked before the timeout is locked as well.
    let twin = Arc::clone(&mutex);
    let waiter = start(move || mtx_timedlock(&twin, &after(CLOCK_REALTIME, 5000)) + mtx_unlock(&twin))?;
    until_on_futex(thrd_get_zx_handle(waiter))?;
    equal(mtx_unlock(&mutex), THRD_SUCCESS)?;
    equal(finish(waiter)?, THRD_SUCCESS)
}

/// Threads that wait for a condition variable.
#[derive(Default)]
struct Room {
    mutex: mtx_t,
    condition: cnd_t,
    /// Written only with the mutex held.
    inside: AtomicU32,
    let_go: AtomicU32,
    /// How often a thread woke up.
    woken: AtomicU32,
    gone: AtomicU32,
}

/// Waits until the thread may leave: each signal lets one thread leave.
fn visit(room: &Room) -> i32 {
    let mut failed = mtx_lock(&room.mutex);
    room.inside.fetch_add(1, Ordering::Relaxed);
    while room.let_go.load(Ordering::Relaxed) == 0 {
        failed |= cnd_wait(&room.condition, &room.mutex);
        room.woken.fetch_add(1, Ordering::Relaxed);
    }
    room.let_go.fetch_sub(1, Ordering::Relaxed);
    room.gone.fetch_add(1, Ordering::Relaxed);
    failed | mtx_unlock(&room.mutex)
}

fn visitors(count: u32) -> Result<(Arc<Room>, Vec<thrd_t>), Failure> {
    let room = Arc::new(Room::default());
    equal(cnd_init(&room.condition), THRD_SUCCESS)?;
    let mut threads = Vec::new();
    for _ in 0..count {
        let twin = Arc::clone(&room);
        threads.push(start(move || visit(&twin))?);
    }
    while room.inside.load(Ordering::Relaxed) < count {
        thrd_yield();
    }
    threads.iter().try_for_each(|&thread| until_on_futex(thrd_get_zx_handle(thread)))?;
    Ok((room, threads))
}

fn condition_signal() -> Outcome {
    let (room, threads) = visitors(3)?;
    for gone in 1..=3 {
        equal(mtx_lock(&room.mutex), THRD_SUCCESS)?;
        room.let_go.fetch_add(1, Ordering::Relaxed);
        equal(cnd_signal(&room.condition), THRD_SUCCESS)?;
        equal(mtx_unlock(&room.mutex), THRD_SUCCESS)?;
        let limit = late();
        while room.gone.load(Ordering::Relaxed) < gone && MonotonicInstant::now() < limit {
            thrd_yield();
        }
        equal(room.gone.load(Ordering::Relaxed), gone)?;
        // The signal did not wake the others.
        zx::nanosleep(soon(5))?;
        equal(room.woken.load(Ordering::Relaxed), gone)?;
    }
    threads.into_iter().try_for_each(|thread| equal(finish(thread)?, THRD_SUCCESS))
}

fn condition_signal_before_sleep() -> Outcome {
    // The other thread waits for the mutex. It gets it as soon as this thread waits for the condition variable,
    // possibly before this thread sleeps: its signal must count all the same.
    let both = Arc::new((mtx_t::new(), cnd_t::new()));
    for _ in 0..20 {
        let twin = Arc::clone(&both);
        equal(mtx_lock(&both.0), THRD_SUCCESS)?;
        let signaler = start(move || mtx_lock(&twin.0) | cnd_signal(&twin.1) | mtx_unlock(&twin.0))?;
        until_on_futex(thrd_get_zx_handle(signaler))?;
        equal(cnd_timedwait(&both.1, &both.0, &after(CLOCK_REALTIME, 4000)), THRD_SUCCESS)?;
        equal(mtx_unlock(&both.0), THRD_SUCCESS)?;
        equal(finish(signaler)?, THRD_SUCCESS)?;
    }
    Ok(())
}

fn condition_broadcast() -> Outcome {
    let (room, threads) = visitors(5)?;
    equal(mtx_lock(&room.mutex), THRD_SUCCESS)?;
    room.let_go.store(5, Ordering::Relaxed);
    equal(cnd_broadcast(&room.condition), THRD_SUCCESS)?;
    equal(mtx_unlock(&room.mutex), THRD_SUCCESS)?;
    threads.into_iter().try_for_each(|thread| equal(finish(thread)?, THRD_SUCCESS))?;
    equal(room.gone.load(Ordering::Relaxed), 5)
}

fn condition_timeout() -> Outcome {
    let (mutex, condition) = (mtx_t::new(), cnd_t::new());
    equal(mtx_lock(&mutex), THRD_SUCCESS)?;
    let start = MonotonicInstant::now();
    equal(cnd_timedwait(&condition, &mutex, &after(CLOCK_REALTIME, 30)), THRD_TIMEDOUT)?;
    ensure(MonotonicInstant::now() - start >= Duration::from_millis(30), "it did not wait")?;
    equal(mtx_trylock(&mutex), THRD_BUSY)?;
    // A signal without a waiter is not kept.
    equal(cnd_signal(&condition), THRD_SUCCESS)?;
    equal(cnd_timedwait(&condition, &mutex, &after(CLOCK_REALTIME, 10)), THRD_TIMEDOUT)?;
    equal(cnd_timedwait(&condition, &mutex, &timespec { tv_sec: 0, tv_nsec: 0 }), THRD_TIMEDOUT)?;
    equal(cnd_timedwait(&condition, &mutex, &timespec { tv_sec: 0, tv_nsec: -1 }), THRD_ERROR)?;
    equal(mtx_unlock(&mutex), THRD_SUCCESS)
}

fn thread_handle() -> Outcome {
    let held = Arc::new(mtx_t::new());
    equal(mtx_lock(&held), THRD_SUCCESS)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let twin = Arc::clone(&held);
    let thread = start(move || {
        let own = (thrd_current(), zx::startup::thread_self().raw_handle());
        let _ = sender.send((own, zx::startup::thread_self().koid()));
        mtx_lock(&twin) + mtx_unlock(&twin)
    })?;
    let ((current, own), koid) = receiver.recv().map_err(|_| "the thread said nothing")?;
    ensure(thrd_equal(current, thread) != 0, "the thread takes itself for another")?;
    ensure(thrd_equal(thrd_current(), thread) == 0, "two threads are one")?;
    let handle = thrd_get_zx_handle(thread);
    equal(handle, own)?;
    let native = Unowned::<Thread>::from_raw(handle).ok_or("the thread has no handle")?;
    let info = native.basic_info()?;
    equal(info.type_, abi::ZX_OBJ_TYPE_THREAD)?;
    equal((info.koid, info.related_koid), (koid?, zx::startup::process_self().koid()?))?;
    // The thread object outlives the library's handle, and has terminated when the thread has been joined.
    let kept = native.duplicate(zx::Rights::SAME_RIGHTS)?;
    equal(mtx_unlock(&held), THRD_SUCCESS)?;
    equal(finish(thread)?, THRD_SUCCESS)?;
    kept.wait_one(Signals::THREAD_TERMINATED, MonotonicInstant::ZERO)?;
    equal(kept.info()?.state, abi::ZX_THREAD_STATE_DEAD)
}

/// The name of a thread that was created with `name`, up to the terminating zero.
fn name_of(name: Option<&str>) -> Result<String, Failure> {
    let name = name.map(|name| CString::new(name).map_err(|_| "a zero in the name")).transpose()?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = create_with_name(name.as_deref(), move || {
        let _ = sender.send(zx::startup::thread_self().get_name());
        7
    })
    .map_err(|error| format!("thrd_create_with_name gave {error}"))?;
    let name = receiver.recv().map_err(|_| "the thread said nothing")??;
    equal(finish(thread)?, 7)?;
    Ok(name.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte)).collect())
}

fn thread_no_name() -> Outcome {
    name_of(None)?;
    equal(name_of(Some("short"))?, "short".to_owned())?;
    equal(name_of(Some(""))?, String::new())
}

fn thread_long_name() -> Outcome {
    let long = "a name that is longer than what the system keeps of names";
    equal(name_of(Some(long))?, long[..31].to_owned())?;
    equal(name_of(Some(&long.repeat(200)))?, long[..31].to_owned())
}

fn thread_results() -> Outcome {
    for result in [0, 1, -1, i32::MIN, i32::MAX] {
        equal(finish(start(move || result)?)?, result)?;
        equal(finish(start(move || thrd_exit(result))?)?, result)?;
    }
    Ok(())
}

fn thread_detached_continues() -> Outcome {
    let event = zx::Event::create()?;
    let twin = event.duplicate(zx::Rights::SAME_RIGHTS)?;
    let thread = start(move || {
        let told = twin.wait_one(Signals::USER_0, late()).and_then(|_| twin.signal(Signals::NONE, Signals::USER_1));
        i32::from(told.is_err())
    })?;
    equal(thrd_detach(thread), THRD_SUCCESS)?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    event.wait_one(Signals::USER_1, late())?;
    Ok(())
}

fn thread_detaches_itself() -> Outcome {
    for _ in 0..20 {
        let event = zx::Event::create()?;
        let twin = event.duplicate(zx::Rights::SAME_RIGHTS)?;
        start(move || {
            // The thread also frees the values that it received.
            let given = twin;
            let detached = thrd_detach(thrd_current());
            let signal = if detached == THRD_SUCCESS { Signals::USER_0 } else { Signals::USER_1 };
            let _ = given.signal(Signals::NONE, signal);
            drop(given);
            thrd_exit(0)
        })?;
        let seen = event.wait_one(Signals::USER_0 | Signals::USER_1, late())?;
        ensure(seen.contains(Signals::USER_0), "a thread cannot detach itself")?;
    }
    Ok(())
}

fn thread_own_errno() -> Outcome {
    set_errno(17);
    let other = start(|| {
        let first = errno();
        set_errno(42);
        thrd_yield();
        first * 100 + errno()
    })?;
    let seen = finish(other)?;
    equal(errno(), 17)?;
    equal(seen, 42)
}

fn thread_sleep() -> Outcome {
    let start = MonotonicInstant::now();
    equal(thrd_sleep(&timespec { tv_sec: 0, tv_nsec: 15_000_000 }, None), 0)?;
    ensure(MonotonicInstant::now() - start >= Duration::from_millis(15), "it slept less")?;
    ensure(thrd_sleep(&timespec { tv_sec: 0, tv_nsec: -1 }, None) < -1, "it slept a time that is none")
}

fn once_once() -> Outcome {
    static ONCE: once_flag = once_flag::new();
    static CALLS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn slowly() {
        let _ = zx::nanosleep(soon(20));
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    let call = || {
        call_once(&ONCE, slowly);
        CALLS.load(Ordering::Relaxed) as i32
    };
    let threads = (0..4).map(|_| start(call)).collect::<Result<Vec<_>, _>>()?;
    // All callers return only after one of them has completed the function.
    threads.into_iter().try_for_each(|thread| equal(finish(thread)?, 1))?;
    equal(call(), 1)
}

fn storage_destructors() -> Outcome {
    static DESTROYED: AtomicU32 = AtomicU32::new(0);
    thread_local!(static OWN: Cell<usize> = const { Cell::new(0) });
    extern "C" fn destroy(value: usize) {
        DESTROYED.fetch_add(value as u32, Ordering::Relaxed);
    }
    let mut key = 0;
    equal(tss_create(&mut key, Some(destroy)), THRD_SUCCESS)?;
    equal(tss_get(key), 0)?;
    equal(tss_set(key, 1), THRD_SUCCESS)?;
    let threads = (0..3).map(|number| {
        start(move || {
            let before = tss_get(key);
            let set = tss_set(key, 10 + number);
            OWN.set(number);
            thrd_yield();
            i32::from(before != 0 || set != THRD_SUCCESS || tss_get(key) != 10 + OWN.get())
        })
    });
    for thread in threads.collect::<Result<Vec<_>, _>>()? {
        equal(finish(thread)?, 0)?;
    }
    equal(DESTROYED.load(Ordering::Relaxed), 10 + 11 + 12)?;
    equal(tss_get(key), 1)?;
    tss_delete(key);
    equal(DESTROYED.load(Ordering::Relaxed), 33)
}
