//! Locks between threads: mutual exclusion, no lost wake-up, and who comes first.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use super::host::{Host, now};
use crate::rwlock::Access;
use crate::{Condition, Futex, Mutex, RwLock, Slept};

const THREADS: usize = 6;
const ROUNDS: u32 = 3000;

/// A number that no two threads may change at once.
fn bump(number: &AtomicU64) {
    let seen = number.load(Ordering::Relaxed);
    if seen.is_multiple_of(64) {
        thread::yield_now();
    }
    number.store(seen + 1, Ordering::Relaxed);
}

#[test]
fn mutex_flags() {
    assert!(Mutex::new(0).is_none() && Mutex::new(4).is_none());
    let spin = Mutex::new(1).unwrap();
    assert!(spin.is_spin() && !spin.comes_after_cpu());
    let owned = Mutex::new(2).unwrap();
    assert!(!owned.is_spin() && !owned.comes_after_cpu());
    assert!(Mutex::new(3).unwrap().comes_after_cpu());
    assert!(owned.try_enter(7) && !owned.try_enter(8));
    assert_eq!(owned.owner(), 7);
    owned.exit::<Host>();
    assert_eq!((owned.owner(), owned.is_held()), (0, false));
    // Only an owned mutex knows its owner.
    assert!(spin.try_enter(7));
    assert_eq!((spin.owner(), spin.is_held()), (0, true));
}

#[test]
fn mutex_excludes() {
    let (mutex, number) = (Mutex::new(2).unwrap(), AtomicU64::new(0));
    thread::scope(|scope| {
        for me in 1..=THREADS {
            let (mutex, number) = (&mutex, &number);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    mutex.enter::<Host>(me);
                    assert_eq!(mutex.owner(), me);
                    bump(number);
                    mutex.exit::<Host>();
                }
            });
        }
    });
    assert_eq!(number.into_inner(), THREADS as u64 * u64::from(ROUNDS));
    assert!(!mutex.is_held());
}

/// Counts calls, and never sleeps.
struct Counting;

static WAKES: AtomicU32 = AtomicU32::new(0);

impl Futex for Counting {
    fn sleep(_: &AtomicU32, _: u32, _: i64) -> Slept {
        panic!("it sleeps");
    }

    fn wake(_: &AtomicU32, _: u32) {
        WAKES.fetch_add(1, Ordering::Relaxed);
    }
}

/// What nobody waits for makes no call.
#[test]
fn no_call_without_waiters() {
    let (condition, mutex, lock) = (Condition::new(), Mutex::internal(), RwLock::new());
    condition.signal::<Counting>();
    condition.broadcast::<Counting>();
    mutex.enter::<Counting>(1);
    mutex.exit::<Counting>();
    for access in [Access::Read, Access::Write] {
        lock.enter::<Counting>(access, 1);
        lock.exit::<Counting>();
    }
    assert_eq!(WAKES.load(Ordering::Relaxed), 0);
    // One that waited and has been woken makes no second call, even before it has left.
    let ticket = condition.ticket();
    assert_eq!(condition.waiters(), 1);
    condition.broadcast::<Counting>();
    condition.broadcast::<Counting>();
    condition.signal::<Counting>();
    assert_eq!(WAKES.load(Ordering::Relaxed), 1);
    assert_eq!(condition.sleep::<Counting>(ticket, Counting::FOREVER), Slept::Woken);
    condition.leave();
    assert_eq!(condition.waiters(), 0);
}

/// Tokens go round: each thread takes one and puts one back, by signals to one waiter.
#[test]
fn signals_are_not_lost() {
    let (mutex, condition, tokens) = (Mutex::internal(), Condition::new(), AtomicU64::new(2));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    mutex.enter::<Host>(0);
                    while tokens.load(Ordering::Relaxed) == 0 {
                        let ticket = condition.ticket();
                        mutex.exit::<Host>();
                        let _ = condition.sleep::<Host>(ticket, Host::FOREVER);
                        condition.leave();
                        mutex.enter::<Host>(0);
                    }
                    tokens.store(tokens.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
                    mutex.exit::<Host>();
                    thread::yield_now();
                    mutex.enter::<Host>(0);
                    bump(&tokens);
                    condition.signal::<Host>();
                    mutex.exit::<Host>();
                }
            });
        }
    });
    assert_eq!(tokens.into_inner(), 2);
    assert_eq!(condition.waiters(), 0);
}

/// All threads meet again and again: the last one wakes the others, and holds no mutex while it does.
#[test]
fn broadcasts_are_not_lost() {
    let (mutex, condition) = (Mutex::internal(), Condition::new());
    let (arrived, round) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for mine in 0..u64::from(ROUNDS) {
                    mutex.enter::<Host>(0);
                    bump(&arrived);
                    if arrived.load(Ordering::Relaxed) == THREADS as u64 * (mine + 1) {
                        round.store(mine + 1, Ordering::Relaxed);
                        mutex.exit::<Host>();
                        condition.broadcast::<Host>();
                        continue;
                    }
                    while round.load(Ordering::Relaxed) == mine {
                        let ticket = condition.ticket();
                        mutex.exit::<Host>();
                        let _ = condition.sleep::<Host>(ticket, Host::FOREVER);
                        condition.leave();
                        mutex.enter::<Host>(0);
                    }
                    mutex.exit::<Host>();
                }
            });
        }
    });
    assert_eq!(round.into_inner(), u64::from(ROUNDS));
}

#[test]
fn condition_ends_at_its_deadline() {
    let condition = Condition::new();
    for wait in [0, 1, 1_000_000] {
        let ticket = condition.ticket();
        let deadline = now() + wait;
        assert_eq!(condition.sleep::<Host>(ticket, deadline), Slept::TimedOut);
        assert!(now() >= deadline);
        condition.leave();
    }
}

#[test]
fn rwlock_excludes() {
    let (lock, number, readers) = (RwLock::new(), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for me in 1..=THREADS {
            let (lock, number, readers) = (&lock, &number, &readers);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if (round as usize + me).is_multiple_of(3) {
                        lock.enter::<Host>(Access::Write, me);
                        assert!(lock.is_held(Access::Write, me) && !lock.is_held(Access::Write, me + 1));
                        assert_eq!(readers.load(Ordering::SeqCst), 0);
                        bump(number);
                        if round.is_multiple_of(2) {
                            lock.downgrade::<Host>();
                            assert!(lock.is_held(Access::Read, me) && !lock.is_held(Access::Write, me));
                        }
                    } else {
                        lock.enter::<Host>(Access::Read, me);
                        readers.fetch_add(1, Ordering::SeqCst);
                        assert!(lock.is_held(Access::Read, me));
                        readers.fetch_sub(1, Ordering::SeqCst);
                        if lock.try_upgrade(me) {
                            assert!(lock.is_held(Access::Write, me));
                        }
                    }
                    lock.exit::<Host>();
                }
            });
        }
    });
    assert!(lock.is_free());
    let writes = (1..=THREADS).flat_map(|me| (0..ROUNDS).filter(move |round| (*round as usize + me).is_multiple_of(3)));
    assert_eq!(number.into_inner(), writes.count() as u64);
}

#[test]
fn writers_come_first() {
    let lock = RwLock::new();
    assert!(lock.try_enter(Access::Read, 1));
    thread::scope(|scope| {
        scope.spawn(|| {
            lock.enter::<Host>(Access::Write, 2);
            lock.exit::<Host>();
        });
        // Once the writer waits, no reader enters any more.
        while lock.try_enter(Access::Read, 3) {
            lock.exit::<Host>();
            thread::yield_now();
        }
        // The only reader may still become a writer, and a reader again, before the writer that waits.
        assert!(lock.try_upgrade(1));
        lock.downgrade::<Host>();
        assert!(lock.is_held(Access::Read, 1));
        lock.exit::<Host>();
    });
    assert!(lock.is_free());
}
