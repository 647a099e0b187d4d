//! Events of virtual processors, and upcalls (`docs/virtual-processors.md`, "Events").

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use abi::{
    Status, ZX_EXCEPTION_STATE_HANDLED, ZX_THREAD_STATE_BLOCKED_PORT, hafnon_vproc_events_t,
    zx_thread_state_general_regs_t,
};
use zx::probe::upcalls::{enable, hold, with_upcalls};
use zx::{
    AsHandleRef, Event, Events, Exception, Exit, MonotonicInstant, Port, Rights, Signals, Unowned, VirtualProcessor,
    Vmar, Vproc,
};

use super::vproc_suspend::Counter;
use super::{cases, late, until_fast_enough};
use crate::check::{Failure, Outcome, ensure, equal, fails};

cases! {
    "vproc.upcall.registers" => registers,
    "vproc.upcall.each_once" => each_once,
    "vproc.upcall.disabled" => disabled,
    "vproc.upcall.entry" => no_entry,
    "vproc.upcall.own_call" => own_call,
    "vproc.upcall.in_call" => in_call,
    "vproc.upcall.in_wait" => in_wait,
    "vproc.upcall.in_slices" => in_slices,
    "vproc.upcall.before_call" => before_call,
    "vproc.upcall.receiving" => receiving,
    "vproc.upcall.suspended" => suspended,
    "vproc.upcall.exception" => exception,
    "vproc.upcall.wait" => wait,
    "vproc.upcall.killed" => killed,
}

static ROOT: LazyLock<Unowned<'static, Vmar>> = LazyLock::new(zx::startup::vmar_root_self);

pub(super) fn processor() -> Result<VirtualProcessor<'static>, Failure> {
    Ok(VirtualProcessor::create(&ROOT)?)
}

pub(super) fn kicker(processor: &VirtualProcessor<'_>) -> Result<Vproc, Failure> {
    Ok(processor.handle().duplicate(Rights::SAME_RIGHTS)?)
}

pub(super) fn joined<T>(thread: thread::ScopedJoinHandle<'_, zx::Result<T>>) -> Result<T, Failure> {
    Ok(thread.join().map_err(|_| "it panicked")??)
}

pub(super) fn count(seen: &AtomicU64) {
    seen.fetch_add(1, Ordering::SeqCst);
}

/// Waits until a word has reached a value.
pub(super) fn until(word: &AtomicU64, value: u64) {
    while word.load(Ordering::SeqCst) < value {
        thread::yield_now();
    }
}

/// Kicks `times` times, each time after the previous kick was seen.
fn kicks(vproc: &Vproc, seen: &AtomicU64, times: u64) -> zx::Result<()> {
    for n in 0..times {
        until(seen, n);
        vproc.kick()?;
    }
    until(seen, times);
    Ok(())
}

/// All registers of the interrupted code are restored: general and vector registers, flags, and the memory below the
/// stack pointer.
fn registers() -> Outcome {
    let processor = processor()?;
    let (vproc, seen, done) = (kicker(&processor)?, AtomicU64::new(0), AtomicU64::new(0));
    let event = |_: Events| {
        // Uses vector registers itself.
        let sum: f64 = (0..20).map(f64::from).map(f64::sqrt).sum();
        seen.fetch_add(u64::from(std::hint::black_box(sum) > 1.0), Ordering::SeqCst);
    };
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            while seen.load(Ordering::SeqCst) < 60 && done.load(Ordering::SeqCst) == 0 {
                vproc.kick()?;
                thread::yield_now();
            }
            done.store(1, Ordering::SeqCst);
            Ok(())
        });
        let changed = with_upcalls(processor.events(), &event, |events| {
            enable(events, &event);
            hold(&done)
        });
        done.store(1, Ordering::SeqCst);
        joined(kicker)?;
        equal(changed, 0)
    })
}

/// Each kick causes one upcall, and there is no other upcall.
fn each_once() -> Outcome {
    const KICKS: u64 = 2000;
    let processor = processor()?;
    let (vproc, seen) = (kicker(&processor)?, AtomicU64::new(0));
    let event = |events: Events| {
        let (enabled, pending) = (events.are_enabled(), events.is_pending());
        seen.fetch_add(if enabled || pending { KICKS } else { 1 }, Ordering::SeqCst);
    };
    thread::scope(|scope| {
        let kicker = scope.spawn(|| kicks(&vproc, &seen, KICKS));
        let mut turns = 0_u64;
        with_upcalls(processor.events(), &event, |events| {
            enable(events, &event);
            while seen.load(Ordering::SeqCst) < KICKS {
                turns += 1;
                // Most upcalls interrupt the loop. To yield a whole time slice for each kick would take half a minute.
                if turns.is_multiple_of(4096) {
                    thread::yield_now();
                }
            }
        });
        joined(kicker)?;
        equal(seen.load(Ordering::SeqCst), KICKS)?;
        ensure(turns > 0, "it never ran")
    })
}

/// Events that arrive while events are disabled stay pending, and are taken once.
fn disabled() -> Outcome {
    let processor = processor()?;
    let seen = AtomicU64::new(0);
    let event = |_: Events| count(&seen);
    with_upcalls(processor.events(), &event, |events| {
        ensure(!events.is_pending() && !events.take(), "there was no event")?;
        for _ in 0..3 {
            processor.handle().kick()?;
        }
        ensure(events.is_pending() && !events.are_enabled(), "it is not pending")?;
        equal(seen.load(Ordering::SeqCst), 0)?;
        ensure(events.enable(), "enabling does not tell of it")?;
        events.disable();
        ensure(events.take() && !events.take(), "it is to be taken once")?;
        ensure(!events.enable(), "it comes again")?;
        equal(seen.load(Ordering::SeqCst), 0)?;
        processor.handle().kick()?;
        equal(seen.load(Ordering::SeqCst), 1)
    })
}

/// Without an entry vector, or with a non-canonical one, events stay pending.
fn no_entry() -> Outcome {
    let processor = processor()?;
    let events = processor.events();
    let words = std::ptr::from_ref(processor.page()).addr() + abi::HAFNON_VPROC_EVENTS_OFFSET as usize;
    for ip in [0_u64, 1 << 47, u64::MAX] {
        let entry_ip = words + std::mem::offset_of!(hafnon_vproc_events_t, entry_ip);
        equal(zx::startup::process_self().write_memory(entry_ip, &ip.to_le_bytes())?, 8)?;
        // An invalid entry counts as none; an unmapped entry would be the owner's own error.
        if ip != 0 {
            ensure(!events.enable(), "nothing has come")?;
            processor.handle().kick()?;
            ensure(events.is_pending() && events.are_enabled(), "it is not pending")?;
        }
        events.disable();
        equal(events.take(), ip != 0)?;
    }
    Ok(())
}

/// A kick by the owner itself is reported after the call returns, with the call's result.
fn own_call() -> Outcome {
    let processor = processor()?;
    let seen = AtomicU64::new(0);
    let event = |_: Events| count(&seen);
    with_upcalls(processor.events(), &event, |events| {
        ensure(!events.enable(), "nothing has come")?;
        for n in 1..=100 {
            processor.handle().kick()?;
            equal(seen.load(Ordering::SeqCst), n)?;
        }
        Ok(())
    })
}

/// A call that waits is not interrupted: the event is delivered at its end, and its result does not change.
fn in_call() -> Outcome {
    let (port, this) = (Port::create()?, zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?);
    until_fast_enough(|time| {
        let processor = processor()?;
        let (vproc, seen, when) = (kicker(&processor)?, AtomicU64::new(0), Cell::new(MonotonicInstant::ZERO));
        let event = |_: Events| {
            when.set(MonotonicInstant::now());
            seen.fetch_add(1, Ordering::SeqCst);
        };
        let deadline = MonotonicInstant::after(time);
        thread::scope(|scope| {
            // Kicks while the call waits; returns whether it was still waiting after that.
            let kicker = scope.spawn(|| {
                while this.info()?.state != ZX_THREAD_STATE_BLOCKED_PORT && MonotonicInstant::now() < deadline {
                    thread::yield_now();
                }
                vproc.kick()?;
                vproc.kick()?;
                Ok(MonotonicInstant::now() < deadline)
            });
            let seen_at_its_end = with_upcalls(processor.events(), &event, |events| {
                ensure(!events.enable(), "nothing has come")?;
                fails(port.wait(deadline), Status::TIMED_OUT)?;
                Ok::<_, Failure>(seen.load(Ordering::SeqCst))
            });
            let in_time = joined(kicker)?;
            let seen_at_its_end = seen_at_its_end?;
            if in_time {
                equal(seen_at_its_end, 1)?;
                ensure(when.get() >= deadline, "it was told before the call's end")?;
            }
            Ok(in_time)
        })
    })
}

/// The same for a call that another thread ends.
fn in_wait() -> Outcome {
    let processor = processor()?;
    let (vproc, seen) = (kicker(&processor)?, AtomicU64::new(0));
    let event = |_: Events| count(&seen);
    let (waited_for, turn) = (Event::create()?, AtomicU64::new(0));
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            for n in 1..=50 {
                until(&turn, n);
                thread::sleep(Duration::from_millis(1));
                vproc.kick()?;
                waited_for.signal(Signals::NONE, Signals::USER_0)?;
            }
            Ok(())
        });
        with_upcalls(processor.events(), &event, |events| {
            ensure(!events.enable(), "nothing has come")?;
            for n in 1..=50 {
                turn.store(n, Ordering::SeqCst);
                let seen_signals = waited_for.wait_one(Signals::USER_0, late())?;
                ensure(seen_signals.contains(Signals::USER_0), "it tells what it waited for")?;
                waited_for.signal(Signals::USER_0, Signals::NONE)?;
                equal(seen.load(Ordering::SeqCst), n)?;
            }
            Outcome::Ok(())
        })?;
        joined(kicker)
    })
}

/// A call that the server makes in slices counts as one call.
fn in_slices() -> Outcome {
    const SIZE: u64 = 48 << 20;
    let processor = processor()?;
    let (vproc, seen, done) = (kicker(&processor)?, AtomicU64::new(0), AtomicU64::new(0));
    let event = |_: Events| count(&seen);
    let memory = zx::Vmo::create(SIZE, 0)?;
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            let mut kicks = 0_u64;
            while done.load(Ordering::SeqCst) == 0 {
                vproc.kick()?;
                kicks += 1;
                thread::yield_now();
            }
            zx::Result::Ok(kicks)
        });
        let made = with_upcalls(processor.events(), &event, |events| {
            enable(events, &event);
            until(&seen, 1);
            let made = (0..3).try_for_each(|_| {
                memory.op_range(abi::ZX_VMO_OP_COMMIT, 0, SIZE)?;
                memory.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, SIZE)
            });
            done.store(1, Ordering::SeqCst);
            made
        });
        made?;
        ensure(joined(kicker)? > 0 && seen.load(Ordering::SeqCst) > 0, "nobody kicked")
    })
}

/// Kicks between calls: each call is made exactly once and returns the right result.
fn before_call() -> Outcome {
    let processor = processor()?;
    let (vproc, seen, done) = (kicker(&processor)?, AtomicU64::new(0), AtomicU64::new(0));
    let event = |_: Events| count(&seen);
    let counter = zx::Counter::create()?;
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            while done.load(Ordering::SeqCst) == 0 {
                vproc.kick()?;
                thread::yield_now();
            }
            Ok(())
        });
        let counted = with_upcalls(processor.events(), &event, |events| {
            enable(events, &event);
            let mut calls = 0;
            while seen.load(Ordering::SeqCst) < 60 {
                counter.add(1)?;
                calls += 1;
                equal(counter.read()?, calls)?;
            }
            Outcome::Ok(())
        });
        done.store(1, Ordering::SeqCst);
        joined(kicker)?;
        counted
    })
}

/// An interrupted receive by the owner is continued.
fn receiving() -> Outcome {
    let (mut processor, counter) = (processor()?, Counter::new()?);
    let (vproc, seen) = (kicker(&processor)?, AtomicU64::new(0));
    let event = |_: Events| count(&seen);
    let enter = Cell::new(None);
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            // The owner receives while the code counts.
            counter.counts_on()?;
            kicks(&vproc, &seen, 20)?;
            counter.counts_on()?;
            counter.domain.process.kill()
        });
        with_upcalls(processor.events(), &event, |events| {
            enable(events, &event);
            enter.set(Some(counter.enter(&mut processor)));
        });
        joined(kicker)?;
        equal(seen.load(Ordering::SeqCst), 20)?;
        ensure(matches!(enter.take(), Some(Ok(Exit::PageFault(_)))), "it did not go on with its receive")
    })
}

/// A suspended owner gets its upcall when it resumes.
fn suspended() -> Outcome {
    let processor = processor()?;
    let (vproc, seen, turns) = (kicker(&processor)?, AtomicU64::new(0), AtomicU64::new(0));
    let event = |_: Events| count(&seen);
    let this = zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?;
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            for n in 0..20 {
                until(&turns, 1);
                let suspend = this.suspend()?;
                this.wait_one(Signals::THREAD_SUSPENDED, late())?;
                vproc.kick()?;
                thread::sleep(Duration::from_millis(1));
                if seen.load(Ordering::SeqCst) != n {
                    return Err(Status::BAD_STATE);
                }
                drop(suspend);
                until(&seen, n + 1);
            }
            Ok(())
        });
        with_upcalls(processor.events(), &event, |events| {
            enable(events, &event);
            while !kicker.is_finished() {
                turns.fetch_add(1, Ordering::SeqCst);
            }
        });
        joined(kicker)?;
        equal(seen.load(Ordering::SeqCst), 20)
    })
}

/// An owner in an exception gets its upcall when the handler lets it continue.
fn exception() -> Outcome {
    let processor = processor()?;
    let (vproc, seen) = (kicker(&processor)?, AtomicU64::new(0));
    let event = |_: Events| count(&seen);
    let channel = zx::startup::thread_self().create_exception_channel(0)?;
    thread::scope(|scope| {
        let handler = scope.spawn(|| {
            let (exception, _) = Exception::receive(&channel, late())?;
            let thread = exception.thread()?;
            vproc.kick()?;
            let before = seen.load(Ordering::SeqCst);
            let mut state: zx_thread_state_general_regs_t = thread.registers()?;
            state.rip += 2;
            thread.set_registers(&state)?;
            exception.set_state(ZX_EXCEPTION_STATE_HANDLED)?;
            zx::Result::Ok((before, state.rip))
        });
        with_upcalls(processor.events(), &event, |events| {
            enable(events, &event);
            zx::probe::undefined_instruction();
            let (before, ip) = joined(handler)?;
            equal((before, seen.load(Ordering::SeqCst)), (0, 1))?;
            equal(events.interrupted(), ip)
        })
    })
}

/// A wait ends with an event, also with one that arrived before.
fn wait() -> Outcome {
    let processor = processor()?;
    let (vproc, turn) = (kicker(&processor)?, AtomicU64::new(0));
    let events = processor.events();
    processor.handle().kick()?;
    events.wait();
    ensure(events.take() && !events.take(), "it is to be taken once")?;
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            for n in 1..=100 {
                until(&turn, n);
                if n % 2 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                vproc.kick()?;
            }
            Ok(())
        });
        for n in 1..=100 {
            turn.store(n, Ordering::SeqCst);
            events.wait();
            ensure(events.take() && !events.take(), "it is to be taken once")?;
        }
        joined(kicker)
    })
}

/// An owner that ends in the middle of its upcalls leaves nothing behind.
fn killed() -> Outcome {
    for n in 0..20_u64 {
        let ended = thread::spawn(move || {
            let processor = processor()?;
            let seen = AtomicU64::new(0);
            let event = |_: Events| count(&seen);
            let vproc = kicker(&processor)?;
            with_upcalls(processor.events(), &event, |events| {
                enable(events, &event);
                for _ in 0..n {
                    processor.handle().kick()?;
                }
                Outcome::Ok(())
            })?;
            drop(processor);
            equal(seen.load(Ordering::SeqCst), n)?;
            Ok::<Vproc, Failure>(vproc)
        });
        let vproc = ended.join().map_err(|_| "it panicked")??;
        while vproc.kick().is_ok() {
            thread::yield_now();
        }
        fails(vproc.kick(), Status::BAD_STATE)?;
        fails(vproc.bind(&Port::create()?), Status::BAD_STATE)?;
    }
    Ok(())
}
