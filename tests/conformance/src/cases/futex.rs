//! Futexes, through the system calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use abi::Status;
use zx::{AsHandleRef, Event, HandleRef, Info, MonotonicInstant};

use super::asleep::{native, until_on_futex};
use super::{cases, late, raw, soon};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "futex.wait.changed_already" => wait_changed_already,
    "futex.wait.times_out" => wait_times_out,
    "futex.wait.unaligned" => wait_unaligned,
    "futex.wait.owner_is_no_thread" => wait_owner_is_no_thread,
    "futex.wait.owner_is_waiter" => wait_owner_is_waiter,
    "futex.wake.nobody" => wake_nobody,
    "futex.wake.unaligned" => wake_unaligned,
    "futex.wake.null" => wake_null,
    "futex.wake.one" => wake_one,
    "futex.wake.some" => wake_some,
    "futex.wake.all" => wake_all,
    "futex.wake.other_address" => wake_other_address,
    "futex.wake_single_owner.wakes" => wake_single_owner_wakes,
    "futex.requeue.moves" => requeue_moves,
    "futex.requeue.changed" => requeue_changed,
    "futex.requeue.same_address" => requeue_same_address,
    "futex.get_owner.returns_the_owner" => get_owner_returns_the_owner,
    "futex.wait_wake.many_rounds" => many_rounds,
}

/// Threads that wait for a word, and the number of those that have woken.
pub struct Waiters {
    pub word: Arc<AtomicU32>,
    woken: Arc<AtomicU32>,
    threads: Vec<JoinHandle<zx::Result<()>>>,
}

impl Waiters {
    /// Starts `count` threads; all of them are waiting when this returns.
    pub fn start(count: u32) -> Result<Self, Failure> {
        let (word, woken) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let wait = || {
            let (word, woken) = (Arc::clone(&word), Arc::clone(&woken));
            thread::spawn(move || {
                zx::futex_wait(&word, 0, None, late())?;
                woken.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
        };
        // One after the other: a thread that starts beside others may be blocked on a lock of the library, which is a
        // futex as well.
        let mut threads = Vec::new();
        for _ in 0..count {
            let thread = wait();
            until_on_futex(native(&thread))?;
            threads.push(thread);
        }
        Ok(Self { word, woken, threads })
    }

    /// Exactly `count` threads must have woken after a short time.
    pub fn awake(&self, count: u32) -> Outcome {
        for _ in 0..100 {
            if self.woken.load(Ordering::SeqCst) >= count {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(10));
        equal(self.woken.load(Ordering::SeqCst), count)
    }

    /// Wakes the rest at both words, and joins the threads.
    pub fn finish(self, elsewhere: Option<&AtomicU32>) -> Outcome {
        zx::futex_wake(&self.word, u32::MAX)?;
        if let Some(word) = elsewhere {
            zx::futex_wake(word, u32::MAX)?;
        }
        for thread in self.threads {
            thread.join().map_err(|_| Failure::from("a waiter panicked"))??;
        }
        Ok(())
    }
}

fn wait_changed_already() -> Outcome {
    fails(zx::futex_wait(&AtomicU32::new(1), 0, None, MonotonicInstant::INFINITE), Status::BAD_STATE)
}

fn wait_times_out() -> Outcome {
    let start = std::time::Instant::now();
    fails(zx::futex_wait(&AtomicU32::new(1), 1, None, soon(20)), Status::TIMED_OUT)?;
    ensure(start.elapsed() >= Duration::from_millis(20), "it did not wait")?;
    fails(zx::futex_wait(&AtomicU32::new(1), 1, None, MonotonicInstant::ZERO), Status::TIMED_OUT)
}

fn wait_unaligned() -> Outcome {
    let words = [0_u32; 2];
    let address = words.as_ptr() as u64 + 1;
    gives(raw!(zx_futex_wait, address, 0, 0, 0), Status::INVALID_ARGS)
}

fn wait_owner_is_no_thread() -> Outcome {
    let (word, event) = (AtomicU32::new(0), Event::create()?);
    let owner = Some(event.as_handle_ref());
    fails(zx::futex_wait(&word, 0, owner, MonotonicInstant::ZERO), Status::WRONG_TYPE)?;
    let owner = Some(HandleRef::from_raw(0xffff_fffb));
    fails(zx::futex_wait(&word, 0, owner, MonotonicInstant::ZERO), Status::BAD_HANDLE)
}

fn wait_owner_is_waiter() -> Outcome {
    let word = AtomicU32::new(0);
    let owner = Some(zx::startup::thread_self_ref());
    fails(zx::futex_wait(&word, 0, owner, soon(10)), Status::INVALID_ARGS)
}

fn wake_nobody() -> Outcome {
    zx::futex_wake(&AtomicU32::new(0), 1)?;
    zx::futex_wake(&AtomicU32::new(0), 0)?;
    zx::futex_wake_single_owner(&AtomicU32::new(0)).map_err(Into::into)
}

fn wake_unaligned() -> Outcome {
    let words = [0_u32; 2];
    gives(raw!(zx_futex_wake, words.as_ptr() as u64 + 2, 1), Status::INVALID_ARGS)
}

fn wake_null() -> Outcome {
    gives(raw!(zx_futex_wake, 0, 1), Status::INVALID_ARGS)
}

fn wake_one() -> Outcome {
    let waiters = Waiters::start(3)?;
    zx::futex_wake(&waiters.word, 1)?;
    waiters.awake(1)?;
    waiters.finish(None)
}

fn wake_some() -> Outcome {
    let waiters = Waiters::start(5)?;
    zx::futex_wake(&waiters.word, 3)?;
    waiters.awake(3)?;
    zx::futex_wake(&waiters.word, 0)?;
    waiters.awake(3)?;
    waiters.finish(None)
}

fn wake_all() -> Outcome {
    let waiters = Waiters::start(6)?;
    zx::futex_wake(&waiters.word, u32::MAX)?;
    waiters.awake(6)?;
    waiters.finish(None)
}

fn wake_other_address() -> Outcome {
    let all = [Waiters::start(1)?, Waiters::start(1)?];
    zx::futex_wake(&AtomicU32::new(0), u32::MAX)?;
    all.iter().try_for_each(|waiters| waiters.awake(0))?;
    // A wake at one word does not wake waiters of another one.
    zx::futex_wake(&all[0].word, u32::MAX)?;
    all[0].awake(1)?;
    all[1].awake(0)?;
    zx::futex_wake(&all[1].word, u32::MAX)?;
    all[1].awake(1)?;
    all.into_iter().try_for_each(|waiters| waiters.finish(None))
}

fn wake_single_owner_wakes() -> Outcome {
    let waiters = Waiters::start(2)?;
    zx::futex_wake_single_owner(&waiters.word)?;
    waiters.awake(1)?;
    waiters.finish(None)
}

fn requeue_moves() -> Outcome {
    let (waiters, other) = (Waiters::start(4)?, AtomicU32::new(0));
    zx::futex_requeue(&waiters.word, 1, 0, &other, 2, None)?;
    waiters.awake(1)?;
    // Two threads now wait at the other word, and one still waits at the first.
    zx::futex_wake(&other, u32::MAX)?;
    waiters.awake(3)?;
    waiters.finish(Some(&other))
}

fn requeue_changed() -> Outcome {
    let (waiters, other) = (Waiters::start(1)?, AtomicU32::new(0));
    fails(zx::futex_requeue(&waiters.word, 1, 1, &other, 1, None), Status::BAD_STATE)?;
    waiters.awake(0)?;
    waiters.finish(Some(&other))
}

fn requeue_same_address() -> Outcome {
    let word = AtomicU32::new(0);
    fails(zx::futex_requeue(&word, 1, 0, &word, 1, None), Status::INVALID_ARGS)
}

fn get_owner_returns_the_owner() -> Outcome {
    let word = Arc::new(AtomicU32::new(0));
    equal(zx::futex_get_owner(&word)?, 0)?;
    let me = zx::startup::thread_self().duplicate_handle(zx::Rights::SAME_RIGHTS)?;
    let twin = Arc::clone(&word);
    let waiter = thread::spawn(move || zx::futex_wait(&twin, 0, Some(me.as_handle_ref()), late()));
    until_on_futex(native(&waiter))?;
    let owner = zx::futex_get_owner(&word);
    zx::futex_wake(&word, 1)?;
    waiter.join().map_err(|_| "the waiter panicked")??;
    equal(owner?, zx::startup::thread_self().koid()?)?;
    equal(zx::futex_get_owner(&word)?, 0)
}

fn many_rounds() -> Outcome {
    const ROUNDS: u32 = 500;
    let word = Arc::new(AtomicU32::new(0));
    let twin = Arc::clone(&word);
    // Each thread waits for the number to have its parity, then increments it.
    let turn = |word: &AtomicU32, parity: u32| -> zx::Result<()> {
        loop {
            let now = word.load(Ordering::SeqCst);
            if now >= ROUNDS {
                return Ok(());
            }
            if now % 2 == parity {
                word.store(now + 1, Ordering::SeqCst);
                zx::futex_wake(word, 1)?;
            } else {
                match zx::futex_wait(word, now, None, late()) {
                    Ok(()) | Err(Status::BAD_STATE) => {}
                    Err(status) => return Err(status),
                }
            }
        }
    };
    let other = thread::spawn(move || turn(&twin, 1));
    turn(&word, 0)?;
    other.join().map_err(|_| "the other thread panicked")??;
    equal(word.load(Ordering::SeqCst), ROUNDS)
}
