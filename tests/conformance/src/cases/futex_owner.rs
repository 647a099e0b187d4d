//! Futexes: owners, the order of waiters, invalid addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use abi::Status;
use zx::{AsHandleRef, Event, HandleRef, Info};

use super::asleep::{native, until_on_futex};
use super::futex::Waiters;
use super::{cases, late, raw, soon};
use crate::check::{Outcome, equal, fails, gives};

cases! {
    "futex.wait_wake.event" => event_signaling,
    "futex.wait.bad_address" => wait_bad_address,
    "futex.wait.value_before_owner" => wait_value_before_owner,
    "futex.wait.owner_not_started" => wait_owner_not_started,
    "futex.wait.owner_of_another_process" => wait_owner_of_another_process,
    "futex.wait.gone_after_timeout" => wait_gone_after_timeout,
    "futex.wake.first_come" => wake_first_come,
    "futex.wake.bad_address" => wake_bad_address,
    "futex.requeue.times_out_there" => requeue_times_out_there,
    "futex.requeue.unaligned" => requeue_unaligned,
    "futex.requeue.bad_owner" => requeue_bad_owner,
    "futex.requeue.value_before_owner" => requeue_value_before_owner,
    "futex.requeue.owners" => requeue_owners,
    "futex.requeue_single_owner.hands_over" => requeue_single_owner_hands_over,
    "futex.get_owner.handed_over" => get_owner_handed_over,
    "futex.get_owner.wake_clears" => get_owner_wake_clears,
    "futex.get_owner.bad_address" => get_owner_bad_address,
    "futex.get_owner.ended" => get_owner_ended,
}

fn event_signaling() -> Outcome {
    // An event made of a word: 0 is clear, 1 is signalled. Each of three threads waits for its turn and signals the
    // next one.
    const TURNS: u32 = 30;
    let words: Arc<Vec<AtomicU32>> = Arc::new((0..=TURNS).map(|_| AtomicU32::new(0)).collect());
    let signal = |word: &AtomicU32| {
        word.store(1, Ordering::SeqCst);
        zx::futex_wake(word, u32::MAX)
    };
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                for turn in (number..TURNS).step_by(3) {
                    while words[turn as usize].load(Ordering::SeqCst) == 0 {
                        match zx::futex_wait(&words[turn as usize], 0, None, late()) {
                            Ok(()) | Err(Status::BAD_STATE) => {}
                            Err(status) => return Err(status),
                        }
                    }
                    signal(&words[turn as usize + 1])?;
                }
                Ok(())
            })
        })
        .collect();
    signal(&words[0])?;
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    equal(words[TURNS as usize].load(Ordering::SeqCst), 1)
}

/// Aligned addresses at which no program has a word.
const BAD: [u64; 6] = [0, 0x1000, 0x7fff_ffff_f000, 0x8000_0000_0000, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_fffc];

fn wait_bad_address() -> Outcome {
    for bad in BAD {
        gives(raw!(zx_futex_wait, bad, 0, 0, 0), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn wait_value_before_owner() -> Outcome {
    // If the word has changed, the owner's handle is not checked.
    let (word, event) = (AtomicU32::new(1), Event::create()?);
    for owner in [HandleRef::from_raw(0xffff_fffb), event.as_handle_ref(), zx::startup::thread_self_ref()] {
        fails(zx::futex_wait(&word, 0, Some(owner), late()), Status::BAD_STATE)?;
    }
    Ok(())
}

fn wait_owner_not_started() -> Outcome {
    let word = AtomicU32::new(0);
    let thread = zx::startup::process_self().create_thread("never started")?;
    fails(zx::futex_wait(&word, 0, Some(thread.as_handle_ref()), soon(10)), Status::INVALID_ARGS)
}

fn wait_owner_of_another_process() -> Outcome {
    let word = AtomicU32::new(0);
    let spinning = crate::test_process::spinning()?;
    fails(zx::futex_wait(&word, 0, Some(spinning.thread.as_handle_ref()), soon(10)), Status::INVALID_ARGS)?;
    spinning.process.kill().map_err(Into::into)
}

fn wait_gone_after_timeout() -> Outcome {
    // A waiter that timed out takes no wake-up from the remaining waiters.
    let word = Arc::new(AtomicU32::new(0));
    let twin = Arc::clone(&word);
    let impatient = thread::spawn(move || zx::futex_wait(&twin, 0, None, soon(30)));
    thread::sleep(Duration::from_millis(10));
    let twin = Arc::clone(&word);
    let patient = thread::spawn(move || zx::futex_wait(&twin, 0, None, late()));
    fails(impatient.join().map_err(|_| "a waiter panicked")?, Status::TIMED_OUT)?;
    until_on_futex(native(&patient))?;
    zx::futex_wake(&word, 1)?;
    patient.join().map_err(|_| "a waiter panicked")?.map_err(Into::into)
}

fn wake_first_come() -> Outcome {
    let word = Arc::new(AtomicU32::new(0));
    let (order, count) = (Arc::new(std::sync::Mutex::new(Vec::new())), 5);
    let mut threads = Vec::new();
    for number in 0..count {
        let (word, order) = (Arc::clone(&word), Arc::clone(&order));
        threads.push(thread::spawn(move || {
            let result = zx::futex_wait(&word, 0, None, late());
            order.lock().map_err(|_| Status::INTERNAL)?.push(number);
            result
        }));
        threads.last().map_or(Ok(()), |thread| until_on_futex(native(thread)))?;
    }
    for woken in 1..=count {
        zx::futex_wake(&word, 1)?;
        while order.lock().map_err(|_| "poisoned")?.len() < woken {
            thread::sleep(Duration::from_millis(1));
        }
    }
    for thread in threads {
        thread.join().map_err(|_| "a waiter panicked")??;
    }
    let order = order.lock().map_err(|_| "poisoned")?;
    equal(order.as_slice(), &(0..count).collect::<Vec<_>>()[..])
}

fn wake_bad_address() -> Outcome {
    for bad in [0, 0x8000_0000_0000, 0xffff_8000_0000_0000_u64, 0xffff_ffff_ffff_fffc] {
        gives(raw!(zx_futex_wake, bad, 1), Status::INVALID_ARGS)?;
        gives(raw!(zx_futex_wake_single_owner, bad), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn requeue_times_out_there() -> Outcome {
    // A requeued thread that timed out is in neither queue.
    let (first, second) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let twin = Arc::clone(&first);
    let impatient = thread::spawn(move || zx::futex_wait(&twin, 0, None, soon(60)));
    thread::sleep(Duration::from_millis(20));
    zx::futex_requeue(&first, 0, 0, &second, 1, None)?;
    let twin = Arc::clone(&second);
    let patient = thread::spawn(move || zx::futex_wait(&twin, 0, None, late()));
    fails(impatient.join().map_err(|_| "a waiter panicked")?, Status::TIMED_OUT)?;
    // The only wake-up goes to the remaining waiter.
    until_on_futex(native(&patient))?;
    zx::futex_wake(&second, 1)?;
    patient.join().map_err(|_| "a waiter panicked")?.map_err(Into::into)
}

fn requeue_unaligned() -> Outcome {
    let words = [0_u32; 4];
    let (good, other) = (words.as_ptr() as u64, words.as_ptr() as u64 + 8);
    for (from, to) in [(good + 1, other), (good, other + 2), (good, 0), (0, other), (good, 0xffff_8000_0000_0000)] {
        gives(raw!(zx_futex_requeue, from, 1, 0, to, 1, 0), Status::INVALID_ARGS)?;
        gives(raw!(zx_futex_requeue_single_owner, from, 0, to, 1, 0), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn requeue_bad_owner() -> Outcome {
    let (waiters, other, event) = (Waiters::start(2)?, AtomicU32::new(0), Event::create()?);
    let bad = Some(HandleRef::from_raw(0xffff_fffb));
    fails(zx::futex_requeue(&waiters.word, 1, 0, &other, 1, bad), Status::BAD_HANDLE)?;
    let wrong = Some(event.as_handle_ref());
    fails(zx::futex_requeue(&waiters.word, 1, 0, &other, 1, wrong), Status::WRONG_TYPE)?;
    // No thread was woken or requeued.
    waiters.awake(0)?;
    zx::futex_wake(&other, u32::MAX)?;
    waiters.awake(0)?;
    waiters.finish(None)
}

fn requeue_value_before_owner() -> Outcome {
    let (word, other) = (AtomicU32::new(1), AtomicU32::new(0));
    let bad = Some(HandleRef::from_raw(0xffff_fffb));
    fails(zx::futex_requeue(&word, 1, 0, &other, 1, bad), Status::BAD_STATE)?;
    gives(raw!(zx_futex_requeue_single_owner, word.as_ptr(), 0, other.as_ptr(), 1, 0xffff_fffb_u32), Status::BAD_STATE)
}

fn requeue_owners() -> Outcome {
    let (waiters, other) = (Waiters::start(3)?, AtomicU32::new(0));
    let me = zx::startup::thread_self();
    zx::futex_requeue(&waiters.word, 1, 0, &other, 1, Some(me.as_handle_ref()))?;
    // The first word has no owner; the second has the named one.
    equal((zx::futex_get_owner(&waiters.word)?, zx::futex_get_owner(&other)?), (0, me.koid()?))?;
    zx::futex_wake(&other, 1)?;
    equal(zx::futex_get_owner(&other)?, 0)?;
    waiters.finish(Some(&other))
}

fn requeue_single_owner_hands_over() -> Outcome {
    let (waiters, other) = (Waiters::start(3)?, AtomicU32::new(0));
    let me = zx::startup::thread_self();
    gives(
        raw!(zx_futex_requeue_single_owner, waiters.word.as_ptr(), 0, other.as_ptr(), 1, me.raw_handle()),
        Status::OK,
    )?;
    waiters.awake(1)?;
    equal(zx::futex_get_owner(&other)?, me.koid()?)?;
    // One thread still waits at the first word; the woken thread owned that word until it ended.
    zx::futex_wake(&waiters.word, 1)?;
    waiters.awake(2)?;
    waiters.finish(Some(&other))
}

fn get_owner_handed_over() -> Outcome {
    // Threads that report their koid, wait, and after the wake stay alive until they are released.
    let (word, hold) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (send, koids) = std::sync::mpsc::channel();
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (word, hold, send) = (Arc::clone(&word), Arc::clone(&hold), send.clone());
        threads.push(thread::spawn(move || {
            send.send(zx::startup::thread_self().koid()?).map_err(|_| Status::INTERNAL)?;
            zx::futex_wait(&word, 0, None, late())?;
            match zx::futex_wait(&hold, 0, None, late()) {
                Ok(()) | Err(Status::BAD_STATE) => Ok(()),
                Err(status) => Err(status),
            }
        }));
        threads.last().map_or(Ok(()), |thread| until_on_futex(native(thread)))?;
    }
    let first = koids.recv().map_err(|_| "no koid came")?;
    let result = (|| {
        equal(zx::futex_get_owner(&word)?, 0)?;
        zx::futex_wake_single_owner(&word)?;
        // One thread still waits, so the woken thread owns the word.
        equal(zx::futex_get_owner(&word)?, first)?;
        zx::futex_wake_single_owner(&word)?;
        // No thread waits, so the word has no owner.
        equal(zx::futex_get_owner(&word)?, 0)
    })();
    zx::futex_wake(&word, u32::MAX)?;
    hold.store(1, Ordering::SeqCst);
    zx::futex_wake(&hold, u32::MAX)?;
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    result
}

fn get_owner_wake_clears() -> Outcome {
    let word = Arc::new(AtomicU32::new(0));
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (twin, me) = (Arc::clone(&word), zx::startup::thread_self().duplicate_handle(zx::Rights::SAME_RIGHTS)?);
        let thread = thread::spawn(move || zx::futex_wait(&twin, 0, Some(me.as_handle_ref()), late()));
        until_on_futex(native(&thread))?;
        threads.push(thread);
    }
    let before = zx::futex_get_owner(&word)?;
    // A wake of 0 threads clears the owner, too.
    zx::futex_wake(&word, 0)?;
    let after = zx::futex_get_owner(&word)?;
    zx::futex_wake(&word, u32::MAX)?;
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    equal((before, after), (zx::startup::thread_self().koid()?, 0))
}

fn get_owner_bad_address() -> Outcome {
    let mut koid = 0_u64;
    let words = [0_u32; 2];
    for bad in [0, words.as_ptr() as u64 + 2, 0xffff_8000_0000_0000] {
        gives(raw!(zx_futex_get_owner, bad, &raw mut koid), Status::INVALID_ARGS)?;
    }
    gives(raw!(zx_futex_get_owner, words.as_ptr(), 0x1000), Status::INVALID_ARGS)
}

fn get_owner_ended() -> Outcome {
    // A thread that has ended owns nothing, although a waiter and a handle to the thread exist.
    let word = Arc::new(AtomicU32::new(0));
    let (send, handles) = std::sync::mpsc::channel();
    let (leave, told) = std::sync::mpsc::channel::<()>();
    let owner = thread::spawn(move || {
        send.send(zx::startup::thread_self().duplicate_handle(zx::Rights::SAME_RIGHTS)?)
            .map_err(|_| Status::INTERNAL)?;
        let _ = told.recv();
        Ok::<_, Status>(())
    });
    let handle = Arc::new(handles.recv().map_err(|_| "no handle came")?);
    let (twin, named) = (Arc::clone(&word), Arc::clone(&handle));
    let waiter = thread::spawn(move || zx::futex_wait(&twin, 0, Some(named.as_handle_ref()), late()));
    until_on_futex(native(&waiter))?;
    let while_alive = zx::futex_get_owner(&word)?;
    drop(leave);
    owner.join().map_err(|_| "the owner panicked")??;
    handle.wait_one(zx::Signals::THREAD_TERMINATED, late())?;
    let afterwards = zx::futex_get_owner(&word)?;
    // Naming a thread that has ended sets no owner.
    let result = zx::futex_wait(&AtomicU32::new(0), 0, Some(handle.as_handle_ref()), soon(5));
    zx::futex_wake(&word, 1)?;
    waiter.join().map_err(|_| "the waiter panicked")??;
    equal((while_alive, afterwards), (handle.koid()?, 0))?;
    fails(result, Status::TIMED_OUT)
}
