//! POSIX threads, through the C library's functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use libc_probe::pthread::*;
use libc_probe::stack::stack_pointer;
use libc_probe::{CLOCK_MONOTONIC, CLOCK_REALTIME, after, errno, timespec};
use zx::{AsHandleRef, Duration, Info, MonotonicInstant, Signals, Thread, Unowned};

use super::asleep::until_on_futex;
use super::{cases, late};
use crate::check::{Failure, Outcome, ensure, equal};

cases! {
    "pthread.basic" => basic,
    "pthread.self.main" => self_main,
    "pthread.stack.main" => stack_main,
    "pthread.stack.other" => stack_other,
    "pthread.stack.explicit" => stack_explicit,
    "pthread.stack.big" => stack_big,
    "pthread.stack.too_big" => stack_too_big,
    "pthread.attr.values" => attr_values,
    "pthread.mutex.kinds" => mutex_kinds,
    "pthread.mutex.holder_is_known" => mutex_holder_is_known,
    "pthread.mutex.timeout" => mutex_timeout,
    "pthread.condition.signal_wakes_one" => condition_signal_wakes_one,
    "pthread.condition.clocks" => condition_clocks,
    "pthread.rwlock.readers_and_writers" => rwlock_readers_and_writers,
    "pthread.barrier.no_threads" => barrier_no_threads,
    "pthread.barrier.one_wins" => barrier_one_wins,
    "pthread.barrier.one_wins_each_round" => barrier_one_wins_each_round,
    "pthread.barrier.destroyed_by_the_winner" => barrier_destroyed_by_the_winner,
    "pthread.spin.excludes" => spin_excludes,
    "pthread.semaphore.counts" => semaphore_counts,
    "pthread.semaphore.wakes" => semaphore_wakes,
    "pthread.keys.own_values" => keys_own_values,
    "pthread.keys.destructors" => keys_destructors,
    "pthread.keys.set_again" => keys_set_again,
    "pthread.keys.used_up" => keys_used_up,
    "pthread.name.kept" => name_kept,
    "pthread.join.itself" => join_itself,
    "pthread.create.detached" => create_detached,
    "pthread.create.thousand" => create_thousand,
    "pthread.exit.main" => exit_main,
    "pthread.std.native_handle" => std_native_handle,
}

/// Starts a thread, which must succeed.
fn start(main: impl FnOnce() -> usize + Send + 'static) -> Result<pthread_t, Failure> {
    start_with(None, main)
}

fn start_with(
    attr: Option<&pthread_attr_t>,
    main: impl FnOnce() -> usize + Send + 'static,
) -> Result<pthread_t, Failure> {
    create(attr, main).map_err(|error| format!("pthread_create gave {error}").into())
}

/// Joins a thread, which must succeed; returns its result.
fn finish(thread: pthread_t) -> Result<usize, Failure> {
    join(thread).map_err(|error| format!("pthread_join gave {error}").into())
}

fn attributes() -> Result<pthread_attr_t, Failure> {
    let attr = pthread_attr_t::new();
    equal(pthread_attr_init(&attr), 0)?;
    Ok(attr)
}

/// A number that threads increment under a mutex, and a condition variable for its changes.
#[derive(Default)]
struct Counted {
    mutex: pthread_mutex_t,
    changed: pthread_cond_t,
    number: AtomicU32,
}

fn basic() -> Outcome {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 50;
    let counted = Arc::new(Counted::default());
    equal(pthread_mutex_init(&counted.mutex, None), 0)?;
    equal(pthread_cond_init(&counted.changed, None), 0)?;
    let mut threads = Vec::new();
    for turn in 0..THREADS {
        let counted = Arc::clone(&counted);
        // Each thread increments the number in its turn: that needs the mutex, the condition variable, and a wake of
        // all threads.
        threads.push(start(move || {
            let mut failed = 0;
            for _ in 0..ROUNDS {
                failed |= pthread_mutex_lock(&counted.mutex);
                while counted.number.load(Ordering::Relaxed) % THREADS != turn {
                    failed |= pthread_cond_wait(&counted.changed, &counted.mutex);
                }
                let number = counted.number.load(Ordering::Relaxed);
                counted.number.store(number + 1, Ordering::Relaxed);
                failed |= pthread_cond_broadcast(&counted.changed);
                failed |= pthread_mutex_unlock(&counted.mutex);
            }
            if failed == 0 { turn as usize } else { usize::MAX }
        })?);
    }
    for (turn, thread) in threads.into_iter().enumerate() {
        equal(finish(thread)?, turn)?;
    }
    equal(counted.number.load(Ordering::Relaxed), THREADS * ROUNDS)?;
    equal(pthread_cond_destroy(&counted.changed), 0)?;
    equal(pthread_mutex_destroy(&counted.mutex), 0)
}

fn self_main() -> Outcome {
    let me = pthread_self();
    ensure(me != 0, "the main thread is none")?;
    ensure(pthread_equal(me, pthread_self()) != 0, "it is not itself")?;
    equal(pthread_get_zx_handle(me), zx::startup::thread_self().raw_handle())?;
    let other = start(|| pthread_self())?;
    let seen = finish(other)?;
    ensure(pthread_equal(seen, other) != 0 && pthread_equal(seen, me) == 0, "another thread is the main thread")
}

/// The calling thread's stack: lowest address and size. The thread must run on it.
fn own_stack() -> Result<(usize, usize), Failure> {
    let attr = attributes()?;
    equal(pthread_getattr_np(pthread_self(), &attr), 0)?;
    let (mut stack, mut size) = (0, 0);
    equal(pthread_attr_getstack(&attr, &mut stack, &mut size), 0)?;
    equal(pthread_attr_destroy(&attr), 0)?;
    let here = stack_pointer();
    ensure(stack != 0 && stack < here && here < stack + size, "the thread is elsewhere")?;
    Ok((stack, size))
}

/// [`own_stack`] as a thread's result: the size, or 0.
fn own_stack_size() -> usize {
    own_stack().map_or(0, |(_, size)| size)
}

fn stack_main() -> Outcome {
    let (stack, size) = own_stack()?;
    ensure(size >= 1 << 20, "the main thread's stack is small")?;
    equal((stack % 4096, size % 4096), (0, 0))
}

fn stack_other() -> Outcome {
    let main = own_stack()?.0;
    let thread = start(|| own_stack().map_or(0, |(stack, _)| stack))?;
    let stack = finish(thread)?;
    ensure(stack != 0 && stack != main, "it has no stack of its own")
}

fn stack_explicit() -> Outcome {
    for size in [32 << 10, 64 << 10, 1 << 20] {
        let attr = attributes()?;
        equal(pthread_attr_setstacksize(&attr, size), 0)?;
        let found = finish(start_with(Some(&attr), own_stack_size)?)?;
        equal(found, size)?;
    }
    Ok(())
}

/// Uses `bytes` of the stack, page by page.
fn dig(bytes: usize) -> usize {
    let page = std::hint::black_box([1_u8; 4096]);
    let below = if bytes > 8192 { dig(bytes - 4096) } else { 0 };
    below + usize::from(page[bytes % 4096])
}

fn stack_big() -> Outcome {
    const SIZE: usize = 16 << 20;
    let attr = attributes()?;
    equal(pthread_attr_setstacksize(&attr, SIZE), 0)?;
    let thread = start_with(Some(&attr), || if own_stack_size() == SIZE { dig(SIZE / 2) } else { 0 })?;
    ensure(finish(thread)? > SIZE / 2 / 4096 / 2, "it did not use its stack")
}

fn stack_too_big() -> Outcome {
    // Threads are started until no address space is left. Then the call fails, and the earlier threads continue.
    let attr = attributes()?;
    let before = in_use()?;
    equal(pthread_attr_setstacksize(&attr, 1), EINVAL)?;
    equal(pthread_attr_setstacksize(&attr, usize::MAX), EINVAL)?;
    equal(pthread_attr_setstacksize(&attr, 1 << 40), 0)?;
    let mut threads = Vec::new();
    let error = loop {
        let number = threads.len();
        match create(Some(&attr), move || number) {
            Ok(thread) => threads.push(thread),
            Err(error) => break error,
        }
        ensure(number < 200, "there is no end of addresses")?;
    };
    equal(error, EAGAIN)?;
    for (number, thread) in threads.into_iter().enumerate() {
        equal(finish(thread)?, number)?;
    }
    equal(in_use()?, before)?;
    equal(finish(start(|| 5)?)?, 5)
}

fn attr_values() -> Outcome {
    let attr = attributes()?;
    let (mut size, mut state) = (0, 0);
    equal(pthread_attr_getdetachstate(&attr, &mut state), 0)?;
    equal(state, 0)?;
    equal(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0)?;
    equal(pthread_attr_getdetachstate(&attr, &mut state), 0)?;
    equal(state, PTHREAD_CREATE_DETACHED)?;
    equal(pthread_attr_setdetachstate(&attr, 2), EINVAL)?;
    equal(pthread_attr_setdetachstate(&attr, 0), 0)?;
    equal(pthread_attr_getguardsize(&attr, &mut size), 0)?;
    equal(size, 4096)?;
    equal(pthread_attr_setguardsize(&attr, 3 * 4096 + 1), 0)?;
    equal(pthread_attr_getguardsize(&attr, &mut size), 0)?;
    equal(size, 3 * 4096 + 1)?;
    // A running thread's guard has whole pages.
    let guard = || {
        let (attr, mut size) = (pthread_attr_t::new(), 0);
        let failed = pthread_getattr_np(pthread_self(), &attr) | pthread_attr_getguardsize(&attr, &mut size);
        if failed == 0 { size } else { usize::MAX }
    };
    equal(finish(start_with(Some(&attr), guard)?)?, 4 * 4096)?;
    equal(finish(start(guard)?)?, 4096)
}

fn mutex_of(kind: i32) -> Result<pthread_mutex_t, Failure> {
    let (attr, mutex, mut found) = (pthread_mutexattr_t::new(), pthread_mutex_t::new(), -1);
    equal(pthread_mutexattr_init(&attr), 0)?;
    equal(pthread_mutexattr_settype(&attr, kind), 0)?;
    equal(pthread_mutexattr_gettype(&attr, &mut found), 0)?;
    equal(found, kind)?;
    equal(pthread_mutex_init(&mutex, Some(&attr)), 0)?;
    Ok(mutex)
}

/// The results of another thread that tries to lock the mutex, and that unlocks it without holding it.
fn from_outside(mutex: &Arc<pthread_mutex_t>) -> Result<(i32, i32), Failure> {
    let twin = Arc::clone(mutex);
    let tried = finish(start(move || pthread_mutex_trylock(&twin) as usize)?)? as i32;
    let twin = Arc::clone(mutex);
    Ok((tried, finish(start(move || pthread_mutex_unlock(&twin) as usize)?)? as i32))
}

fn mutex_kinds() -> Outcome {
    let normal = mutex_of(PTHREAD_MUTEX_NORMAL)?;
    equal(pthread_mutex_lock(&normal), 0)?;
    equal(pthread_mutex_trylock(&normal), EBUSY)?;
    // The holder would wait for itself.
    equal(pthread_mutex_timedlock(&normal, &after(CLOCK_REALTIME, 10)), ETIMEDOUT)?;
    equal(pthread_mutex_unlock(&normal), 0)?;

    let recursive = Arc::new(mutex_of(PTHREAD_MUTEX_RECURSIVE)?);
    for _ in 0..3 {
        equal(pthread_mutex_lock(&recursive), 0)?;
        equal(pthread_mutex_trylock(&recursive), 0)?;
    }
    for _ in 0..5 {
        equal(pthread_mutex_unlock(&recursive), 0)?;
        equal(from_outside(&recursive)?, (EBUSY, EPERM))?;
    }
    equal(pthread_mutex_unlock(&recursive), 0)?;
    equal(pthread_mutex_unlock(&recursive), EPERM)?;

    let checking = Arc::new(mutex_of(PTHREAD_MUTEX_ERRORCHECK)?);
    equal(pthread_mutex_unlock(&checking), EPERM)?;
    equal(pthread_mutex_lock(&checking), 0)?;
    equal(pthread_mutex_lock(&checking), EDEADLK)?;
    equal(pthread_mutex_trylock(&checking), EBUSY)?;
    equal(from_outside(&checking)?, (EBUSY, EPERM))?;
    equal(pthread_mutex_unlock(&checking), 0)?;

    let attr = pthread_mutexattr_t::new();
    equal(pthread_mutexattr_init(&attr), 0)?;
    equal(pthread_mutexattr_settype(&attr, 3), EINVAL)?;
    equal([0, 1, 2, 3].map(|protocol| pthread_mutexattr_setprotocol(&attr, protocol)), [0, ENOTSUP, ENOTSUP, EINVAL])
}

fn mutex_holder_is_known() -> Outcome {
    // The futex's word is in the mutex; the futex's owner is the thread that holds the mutex.
    let mutex = Arc::new(pthread_mutex_t::new());
    equal(pthread_mutex_lock(&mutex), 0)?;
    let twin = Arc::clone(&mutex);
    let waiter = start(move || (pthread_mutex_lock(&twin) + pthread_mutex_unlock(&twin)) as usize)?;
    until_on_futex(pthread_get_zx_handle(waiter))?;
    let words = std::ptr::from_ref(&*mutex).expose_provenance();
    let me = zx::startup::thread_self().koid()?;
    let mut owners = Vec::new();
    for word in 0..4 {
        let mut koid = 0_u64;
        let status = super::raw!(zx_futex_get_owner, words + 4 * word, &raw mut koid);
        crate::check::gives(status, abi::Status::OK)?;
        owners.push(koid);
    }
    equal(pthread_mutex_unlock(&mutex), 0)?;
    equal(finish(waiter)?, 0)?;
    ensure(owners.contains(&me), "nobody is named as the holder")
}

fn mutex_timeout() -> Outcome {
    let mutex = Arc::new(pthread_mutex_t::new());
    equal(pthread_mutex_lock(&mutex), 0)?;
    let twin = Arc::clone(&mutex);
    let waiter = start(move || {
        let start = MonotonicInstant::now();
        let late = pthread_mutex_timedlock(&twin, &after(CLOCK_REALTIME, 20));
        let past = pthread_mutex_timedlock(&twin, &timespec { tv_sec: 0, tv_nsec: 0 });
        let never = pthread_mutex_timedlock(&twin, &timespec { tv_sec: 0, tv_nsec: 1_000_000_000 });
        let waited = MonotonicInstant::now() - start >= Duration::from_millis(20);
        usize::from(waited && (late, past, never) == (ETIMEDOUT, ETIMEDOUT, EINVAL))
    })?;
    equal(finish(waiter)?, 1)?;
    equal(pthread_mutex_unlock(&mutex), 0)?;
    equal(pthread_mutex_timedlock(&mutex, &timespec { tv_sec: 0, tv_nsec: 0 }), 0)
}

fn condition_signal_wakes_one() -> Outcome {
    const THREADS: usize = 3;
    let counted = Arc::new(Counted::default());
    let woken = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let (counted, woken) = (Arc::clone(&counted), Arc::clone(&woken));
        threads.push(start(move || {
            let mut failed = pthread_mutex_lock(&counted.mutex);
            for _ in 0..2 {
                counted.number.fetch_add(1, Ordering::SeqCst);
                failed |= pthread_cond_wait(&counted.changed, &counted.mutex);
            }
            woken.fetch_add(1, Ordering::SeqCst);
            failed |= pthread_mutex_unlock(&counted.mutex);
            failed as usize
        })?);
    }
    // A thread that has incremented the number and released the mutex is waiting.
    let waiting = |count: u32| -> Outcome {
        let limit = late();
        loop {
            equal(pthread_mutex_lock(&counted.mutex), 0)?;
            let number = counted.number.load(Ordering::SeqCst);
            equal(pthread_mutex_unlock(&counted.mutex), 0)?;
            if number == count {
                return Ok(());
            }
            ensure(MonotonicInstant::now() < limit, "they do not wait")?;
            std::thread::yield_now();
        }
    };
    waiting(THREADS as u32)?;
    equal(pthread_cond_broadcast(&counted.changed), 0)?;
    waiting(2 * THREADS as u32)?;
    for n in 1..=THREADS {
        equal(pthread_cond_signal(&counted.changed), 0)?;
        let limit = late();
        while woken.load(Ordering::SeqCst) < n {
            ensure(MonotonicInstant::now() < limit, "nobody wakes up")?;
            std::thread::yield_now();
        }
        // The others fall asleep, or are asleep already; a thread that was woken by mistake would not.
        let asleep = || -> Result<usize, Failure> {
            let left = threads
                .iter()
                .map(|thread| Unowned::<Thread>::from_raw(pthread_get_zx_handle(*thread)).ok_or("no handle"))
                .map(|thread| Ok::<_, Failure>(thread?.info()?.state))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(left.iter().filter(|state| **state == abi::ZX_THREAD_STATE_BLOCKED_FUTEX).count())
        };
        // The woken thread may be blocked on something else while it ends.
        while asleep()? < THREADS - n {
            ensure(MonotonicInstant::now() < limit, "more than one was woken")?;
            std::thread::yield_now();
        }
        equal(woken.load(Ordering::SeqCst), n)?;
    }
    threads.into_iter().try_for_each(|thread| equal(finish(thread)?, 0))
}

fn condition_clocks() -> Outcome {
    for clock in [CLOCK_REALTIME, CLOCK_MONOTONIC] {
        let (attr, condition, mutex) = (pthread_condattr_t::new(), pthread_cond_t::new(), pthread_mutex_t::new());
        let mut found = -1;
        equal(pthread_condattr_init(&attr), 0)?;
        equal(pthread_condattr_setclock(&attr, clock), 0)?;
        equal(pthread_condattr_getclock(&attr, &mut found), 0)?;
        equal(found, clock)?;
        equal(pthread_cond_init(&condition, Some(&attr)), 0)?;
        equal(pthread_mutex_lock(&mutex), 0)?;
        let start = MonotonicInstant::now();
        equal(pthread_cond_timedwait(&condition, &mutex, &after(clock, 20)), ETIMEDOUT)?;
        let waited = MonotonicInstant::now() - start;
        ensure(waited >= Duration::from_millis(20) && waited < Duration::from_seconds(5), "another clock")?;
        equal(pthread_mutex_trylock(&mutex), EBUSY)?;
        equal(pthread_mutex_unlock(&mutex), 0)?;
    }
    equal(pthread_condattr_setclock(&pthread_condattr_t::new(), 77), EINVAL)
}

fn rwlock_readers_and_writers() -> Outcome {
    let lock = Arc::new(pthread_rwlock_t::new());
    equal(pthread_rwlock_init(&lock, None), 0)?;
    equal([pthread_rwlock_rdlock(&lock), pthread_rwlock_tryrdlock(&lock)], [0, 0])?;
    equal(pthread_rwlock_trywrlock(&lock), EBUSY)?;
    equal(pthread_rwlock_timedwrlock(&lock, &after(CLOCK_REALTIME, 10)), ETIMEDOUT)?;
    let twin = Arc::clone(&lock);
    let writer = start(move || (pthread_rwlock_wrlock(&twin) + pthread_rwlock_unlock(&twin)) as usize)?;
    until_on_futex(pthread_get_zx_handle(writer))?;
    // A waiting writer blocks new readers.
    equal(pthread_rwlock_tryrdlock(&lock), EBUSY)?;
    equal([pthread_rwlock_unlock(&lock), pthread_rwlock_unlock(&lock)], [0, 0])?;
    equal(finish(writer)?, 0)?;
    equal(pthread_rwlock_wrlock(&lock), 0)?;
    equal(pthread_rwlock_tryrdlock(&lock), EBUSY)?;
    equal(pthread_rwlock_timedrdlock(&lock, &after(CLOCK_REALTIME, 10)), ETIMEDOUT)?;
    equal(pthread_rwlock_unlock(&lock), 0)?;
    equal([pthread_rwlock_tryrdlock(&lock), pthread_rwlock_unlock(&lock)], [0, 0])
}

fn barrier_no_threads() -> Outcome {
    equal(pthread_barrier_init(&pthread_barrier_t::new(), None, 0), EINVAL)
}

/// Threads that meet at a barrier for some rounds; returns how many got `PTHREAD_BARRIER_SERIAL_THREAD` in each round.
fn meet(threads: u32, rounds: usize) -> Result<Vec<u32>, Failure> {
    let barrier = Arc::new(pthread_barrier_t::new());
    equal(pthread_barrier_init(&barrier, None, threads), 0)?;
    let winners: Arc<Vec<AtomicU32>> = Arc::new((0..rounds).map(|_| AtomicU32::new(0)).collect());
    // No thread may be ahead: all threads have arrived before a round ends.
    let arrived = Arc::new(AtomicU32::new(0));
    let mut running = Vec::new();
    for _ in 0..threads {
        let (barrier, winners, arrived) = (Arc::clone(&barrier), Arc::clone(&winners), Arc::clone(&arrived));
        running.push(start(move || {
            for (round, won) in winners.iter().enumerate() {
                arrived.fetch_add(1, Ordering::SeqCst);
                match pthread_barrier_wait(&barrier) {
                    PTHREAD_BARRIER_SERIAL_THREAD => won.fetch_add(1, Ordering::SeqCst),
                    0 => 0,
                    _ => return 1,
                };
                if arrived.load(Ordering::SeqCst) < (round as u32 + 1) * threads {
                    return 2;
                }
            }
            0
        })?);
    }
    running.into_iter().try_for_each(|thread| equal(finish(thread)?, 0))?;
    equal(pthread_barrier_destroy(&barrier), 0)?;
    Ok(winners.iter().map(|won| won.load(Ordering::SeqCst)).collect())
}

fn barrier_one_wins() -> Outcome {
    equal(meet(5, 1)?, vec![1])?;
    equal(meet(1, 1)?, vec![1])
}

fn barrier_one_wins_each_round() -> Outcome {
    equal(meet(5, 30)?, vec![1; 30])
}

fn barrier_destroyed_by_the_winner() -> Outcome {
    for _ in 0..20 {
        let barrier = Arc::new(pthread_barrier_t::new());
        equal(pthread_barrier_init(&barrier, None, 3), 0)?;
        let threads = (0..3).map(|_| {
            let barrier = Arc::clone(&barrier);
            start(move || match pthread_barrier_wait(&barrier) {
                PTHREAD_BARRIER_SERIAL_THREAD => {
                    let failed = pthread_barrier_destroy(&barrier);
                    // The memory is used for another barrier now.
                    (failed | pthread_barrier_init(&barrier, None, 2)) as usize
                }
                other => other as usize,
            })
        });
        for thread in threads.collect::<Result<Vec<_>, _>>()? {
            equal(finish(thread)?, 0)?;
        }
    }
    Ok(())
}

fn spin_excludes() -> Outcome {
    let lock = Arc::new((pthread_spinlock_t::new(), AtomicU32::new(0)));
    equal(pthread_spin_init(&lock.0, 0), 0)?;
    let threads = (0..3).map(|_| {
        let lock = Arc::clone(&lock);
        start(move || {
            for _ in 0..100 {
                pthread_spin_lock(&lock.0);
                let number = lock.1.load(Ordering::Relaxed);
                if number.is_multiple_of(8) {
                    sched_yield();
                }
                lock.1.store(number + 1, Ordering::Relaxed);
                pthread_spin_unlock(&lock.0);
            }
            0
        })
    });
    for thread in threads.collect::<Result<Vec<_>, _>>()? {
        finish(thread)?;
    }
    equal(lock.1.load(Ordering::Relaxed), 300)?;
    equal([pthread_spin_trylock(&lock.0), pthread_spin_trylock(&lock.0)], [0, EBUSY])
}

fn semaphore_counts() -> Outcome {
    let semaphore = sem_t::new();
    let value = || {
        let mut value = -1;
        sem_getvalue(&semaphore, &mut value);
        value
    };
    equal((sem_init(&semaphore, 0, u32::MAX), errno()), (-1, EINVAL))?;
    equal(sem_init(&semaphore, 0, 2), 0)?;
    equal(value(), 2)?;
    equal([sem_wait(&semaphore), sem_trywait(&semaphore)], [0, 0])?;
    equal((sem_trywait(&semaphore), errno()), (-1, EAGAIN))?;
    equal((sem_timedwait(&semaphore, &after(CLOCK_REALTIME, 10)), errno()), (-1, ETIMEDOUT))?;
    equal((sem_post(&semaphore), value(), sem_wait(&semaphore), value()), (0, 1, 0, 0))?;
    equal(sem_init(&semaphore, 0, i32::MAX as u32), 0)?;
    equal((sem_post(&semaphore), value()), (-1, i32::MAX))?;
    equal(sem_destroy(&semaphore), 0)
}

fn semaphore_wakes() -> Outcome {
    let semaphore = Arc::new(sem_t::new());
    equal(sem_init(&semaphore, 0, 0), 0)?;
    let threads = (0..3).map(|_| {
        let semaphore = Arc::clone(&semaphore);
        start(move || sem_wait(&semaphore) as usize)
    });
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    threads.iter().try_for_each(|&thread| until_on_futex(pthread_get_zx_handle(thread)))?;
    for _ in 0..3 {
        equal(sem_post(&semaphore), 0)?;
    }
    threads.into_iter().try_for_each(|thread| equal(finish(thread)?, 0))?;
    equal(sem_trywait(&semaphore), -1)
}

fn keys_own_values() -> Outcome {
    const COUNT: usize = 40;
    let mut keys = [0; COUNT];
    for key in &mut keys {
        equal(pthread_key_create(key, None), 0)?;
        equal(pthread_getspecific(*key), 0)?;
        equal(pthread_setspecific(*key, 1 + *key as usize), 0)?;
    }
    let threads = (2..6_usize).map(|factor| {
        start(move || {
            let wrong = |value: &dyn Fn(u32) -> usize| keys.iter().any(|&key| pthread_getspecific(key) != value(key));
            if wrong(&|_| 0) {
                return 1;
            }
            let failed = keys.iter().any(|&key| pthread_setspecific(key, factor * key as usize) != 0);
            sched_yield();
            usize::from(failed || wrong(&|key| factor * key as usize))
        })
    });
    for thread in threads.collect::<Result<Vec<_>, _>>()? {
        equal(finish(thread)?, 0)?;
    }
    for key in keys {
        equal(pthread_getspecific(key), 1 + key as usize)?;
        equal(pthread_key_delete(key), 0)?;
        equal(pthread_key_delete(key), EINVAL)?;
    }
    let mut sorted = keys;
    sorted.sort_unstable();
    ensure(sorted.windows(2).all(|pair| pair[0] < pair[1]), "a key was given out twice")
}

fn keys_destructors() -> Outcome {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    static SUM: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn destroy(value: usize) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        SUM.fetch_add(value, Ordering::Relaxed);
    }
    let (mut with, mut without, mut unset) = (0, 0, 0);
    equal(pthread_key_create(&mut with, Some(destroy)), 0)?;
    equal(pthread_key_create(&mut without, None), 0)?;
    equal(pthread_key_create(&mut unset, Some(destroy)), 0)?;
    let set = move |value| (pthread_setspecific(with, value) + pthread_setspecific(without, value)) as usize;
    equal(finish(start(move || set(7))?)?, 0)?;
    equal((CALLS.load(Ordering::Relaxed), SUM.load(Ordering::Relaxed)), (1, 7))?;
    // The destructor also runs after `pthread_exit`, and not for a value that was reset to 0.
    let left = start(move || {
        set(8);
        pthread_exit(55)
    })?;
    equal(finish(left)?, 55)?;
    equal(finish(start(move || set(9) + set(0))?)?, 0)?;
    equal((CALLS.load(Ordering::Relaxed), SUM.load(Ordering::Relaxed)), (2, 15))?;
    [with, without, unset].into_iter().try_for_each(|key| equal(pthread_key_delete(key), 0))
}

fn keys_set_again() -> Outcome {
    static KEY: AtomicU32 = AtomicU32::new(0);
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Sets its value again as long as it is greater than 1: with 3 it is called three times, with `usize::MAX` it would
    // never end.
    extern "C" fn count_down(value: usize) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        if value > 1 {
            pthread_setspecific(KEY.load(Ordering::Relaxed), value - 1);
        }
    }
    let mut key = 0;
    equal(pthread_key_create(&mut key, Some(count_down)), 0)?;
    KEY.store(key, Ordering::Relaxed);
    equal(finish(start(move || pthread_setspecific(key, 3) as usize)?)?, 0)?;
    equal(CALLS.load(Ordering::Relaxed), 3)?;
    equal(finish(start(move || pthread_setspecific(key, usize::MAX) as usize)?)?, 0)?;
    // PTHREAD_DESTRUCTOR_ITERATIONS is 4.
    equal(CALLS.load(Ordering::Relaxed), 3 + 4)?;
    equal(pthread_key_delete(key), 0)
}

fn keys_used_up() -> Outcome {
    let mut keys = Vec::new();
    let last = loop {
        let mut key = 0;
        match pthread_key_create(&mut key, None) {
            0 => keys.push(key),
            error => break error,
        }
        ensure(keys.len() < 10_000, "there is no end of keys")?;
    };
    equal(last, EAGAIN)?;
    ensure(keys.len() >= 64, "there are few keys")?;
    keys.into_iter().try_for_each(|key| equal(pthread_key_delete(key), 0))?;
    equal(pthread_setspecific(100_000, 1), EINVAL)?;
    equal(pthread_getspecific(100_000), 0)
}

fn name_kept() -> Outcome {
    let me = pthread_self();
    let before = name(me, 32).map_err(|error| format!("pthread_getname_np gave {error}"))?;
    equal(set_name(me, c"another"), 0)?;
    equal(name(me, 32), Ok("another".to_owned()))?;
    equal(name(me, 8), Ok("another".to_owned()))?;
    equal(name(me, 7), Err(ERANGE))?;
    let before = std::ffi::CString::new(before).map_err(|_| "a zero in the name")?;
    equal(set_name(me, &before), 0)
}

fn join_itself() -> Outcome {
    equal(finish(start(|| join(pthread_self()).err().unwrap_or(0) as usize)?)?, EDEADLK as usize)
}

fn create_detached() -> Outcome {
    let attr = attributes()?;
    equal(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0)?;
    let event = zx::Event::create()?;
    let twin = event.duplicate(zx::Rights::SAME_RIGHTS)?;
    start_with(Some(&attr), move || {
        let attr = pthread_attr_t::new();
        let mut state = 0;
        pthread_getattr_np(pthread_self(), &attr);
        pthread_attr_getdetachstate(&attr, &mut state);
        let seen = if state == PTHREAD_CREATE_DETACHED { Signals::USER_0 } else { Signals::USER_1 };
        let _ = twin.signal(Signals::NONE, seen);
        0
    })?;
    let seen = event.wait_one(Signals::USER_0 | Signals::USER_1, late())?;
    ensure(seen.contains(Signals::USER_0), "it does not know that it is detached")
}

/// Number of this process's handles, and bytes of address space that it has mapped.
fn in_use() -> Result<(u64, usize), Failure> {
    let process = zx::startup::process_self();
    let mut counts = [0; 8 * 64];
    process.get_info(abi::ZX_INFO_PROCESS_HANDLE_STATS, &mut counts)?;
    let handles =
        counts.chunks_exact(4).map(|count| u64::from(u32::from_le_bytes([count[0], count[1], count[2], count[3]])));
    Ok((handles.sum(), process.task_stats()?.mem_mapped_bytes))
}

fn create_thousand() -> Outcome {
    let round = |joined: bool| -> Outcome {
        for batch in 0..20_usize {
            let threads = (0..25).map(|number| start(move || batch * number)).collect::<Result<Vec<_>, _>>()?;
            for (number, thread) in threads.into_iter().enumerate() {
                if joined {
                    equal(finish(thread)?, batch * number)?;
                } else {
                    equal(pthread_detach(thread), 0)?;
                }
            }
        }
        Ok(())
    };
    // The library keeps some memory for the next threads. The count therefore begins after it has that memory.
    let many = (0..64).map(|_| start(|| 0)).collect::<Result<Vec<_>, _>>()?;
    many.into_iter().try_for_each(|thread| equal(finish(thread)?, 0))?;
    let before = in_use()?;
    round(true)?;
    equal(in_use()?, before)?;
    round(false)?;
    // Each thread that ends frees the memory of those before it, so only little is left of the last ones.
    let limit = late();
    while in_use()?.0 > before.0 + 8 {
        ensure(MonotonicInstant::now() < limit, "detached threads leave what they had")?;
        zx::nanosleep(super::soon(5))?;
    }
    while in_use()?.0 > before.0 && MonotonicInstant::now() < limit {
        finish(start(|| 0)?)?;
    }
    equal(in_use()?, before)
}

fn exit_main() -> Outcome {
    // The main thread ends. Another thread then prints and exits, which ends the process normally.
    equal(super::process::child(&["pthread", "exit-main"])?, 0)
}

/// Runs in the child of [`exit_main`].
pub fn child_that_leaves_main() -> ! {
    let main = zx::startup::thread_self().duplicate_handle(zx::Rights::SAME_RIGHTS);
    let other = create(None, move || {
        let ended = main.map_err(Failure::from).and_then(|main| {
            main.wait_one(Signals::THREAD_TERMINATED, late())?;
            Ok(())
        });
        if ended.is_err() {
            std::process::exit(3)
        }
        0
    });
    if other.is_err() {
        std::process::exit(4)
    }
    pthread_exit(0)
}

fn std_native_handle() -> Outcome {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let koid = zx::startup::thread_self().koid();
        let _ = receiver.recv();
        koid
    });
    let native = Unowned::<Thread>::from_raw(super::asleep::native(&thread)).ok_or("the thread has no handle")?;
    let info = native.basic_info()?;
    let kept = native.duplicate(zx::Rights::SAME_RIGHTS)?;
    drop(sender);
    equal(info.type_, abi::ZX_OBJ_TYPE_THREAD)?;
    equal(super::asleep::joined(thread)??, info.koid)?;
    kept.wait_one(Signals::THREAD_TERMINATED, MonotonicInstant::ZERO)?;
    Ok(())
}
