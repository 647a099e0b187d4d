//! Ports that are bound to virtual processors (`docs/virtual-processors.md`, "Events").

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use abi::{
    HAFNON_VPROC_BIND, HAFNON_VPROC_UNBIND, Status, ZX_THREAD_STATE_BLOCKED_PORT, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ,
    hafnon_vproc_run_t, hafnon_vproc_state_t, zx_port_packet_t,
};
use zx::probe::upcalls::{enable, with_upcalls};
use zx::{AsHandleRef, Event, Events, Exit, Interrupt, MonotonicInstant, Port, Rights, Signals, Timer, map_runs};

use super::vproc_events::{joined, processor, until};
use super::{asleep, cases, late, without};
use crate::check::{Outcome, ensure, equal, fails};
use crate::test_process::{OwnJob, SPIN, code};

cases! {
    "vproc.bind.packets" => bind_packets,
    "vproc.bind.timer" => bind_timer,
    "vproc.bind.interrupt" => bind_interrupt,
    "vproc.bind.signals" => bind_signals,
    "vproc.bind.before" => bind_before,
    "vproc.bind.waiter" => bind_waiter,
    "vproc.bind.undone" => bind_undone,
    "vproc.bind.arguments" => bind_arguments,
    "vproc.bind.sub_domain" => bind_sub_domain,
}

fn packet(key: u64) -> zx_port_packet_t {
    zx_port_packet_t { key, ..Default::default() }
}

/// Dequeues all packets of a port; counts them and adds up their keys.
fn drain(port: &Port, sum: &AtomicU64, count: &AtomicU64) {
    while let Ok(packet) = port.wait(MonotonicInstant::ZERO) {
        sum.fetch_add(packet.key, Ordering::SeqCst);
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// Packets of two ports: each is reported exactly once.
fn bind_packets() -> Outcome {
    const PACKETS: u64 = 500;
    let processor = processor()?;
    let ports = [Port::create()?, Port::create()?];
    ports.iter().try_for_each(|port| processor.handle().bind(port))?;
    let (sum, count, events_seen) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let event = |_: Events| {
        events_seen.fetch_add(1, Ordering::SeqCst);
        ports.iter().for_each(|port| drain(port, &sum, &count));
    };
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            for key in 1..=PACKETS {
                ports[(key % 2) as usize].queue(&packet(key))?;
                if key % 7 == 0 {
                    thread::yield_now();
                }
            }
            Ok(())
        });
        with_upcalls(processor.events(), &event, |events| {
            while count.load(Ordering::SeqCst) < PACKETS {
                enable(events, &event);
                std::hint::black_box((0..50).sum::<u64>());
                events.disable();
            }
        });
        joined(sender)?;
        equal((count.load(Ordering::SeqCst), sum.load(Ordering::SeqCst)), (PACKETS, PACKETS * (PACKETS + 1) / 2))?;
        ensure(events_seen.load(Ordering::SeqCst) <= PACKETS, "there were more events than packets")
    })
}

/// A timer that sends its packet to a port, and is set again by the upcall.
fn bind_timer() -> Outcome {
    const TICKS: u64 = 50;
    let processor = processor()?;
    let (port, timer) = (Port::create()?, Timer::create(0)?);
    processor.handle().bind(&port)?;
    let set = || {
        timer.set(MonotonicInstant::after(zx::Duration::from_micros(300)), zx::Duration::from_nanos(0))?;
        timer.wait_async(&port, 9, Signals::TIMER_SIGNALED, 0)
    };
    let (sum, count, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let event = |_: Events| {
        drain(&port, &sum, &count);
        failed.fetch_add(set().is_err().into(), Ordering::SeqCst);
    };
    set()?;
    let mut turns = 0_u64;
    with_upcalls(processor.events(), &event, |events| {
        enable(events, &event);
        while count.load(Ordering::SeqCst) < TICKS {
            turns += 1;
        }
    });
    equal((sum.load(Ordering::SeqCst), failed.load(Ordering::SeqCst)), (9 * count.load(Ordering::SeqCst), 0))?;
    ensure(turns > 0, "it never ran")
}

/// An interrupt bound to a port.
fn bind_interrupt() -> Outcome {
    const TIMES: u64 = 50;
    let processor = processor()?;
    let (port, interrupt) = (Port::create_for_interrupts()?, Interrupt::create_virtual()?);
    interrupt.bind(&port, 5)?;
    processor.handle().bind(&port)?;
    let (sum, count, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let event = |_: Events| {
        drain(&port, &sum, &count);
        failed.fetch_add(interrupt.ack().is_err().into(), Ordering::SeqCst);
    };
    thread::scope(|scope| {
        let device = scope.spawn(|| {
            for n in 0..TIMES {
                until(&count, n);
                interrupt.trigger(MonotonicInstant(n as i64))?;
            }
            Ok(())
        });
        with_upcalls(processor.events(), &event, |events| {
            enable(events, &event);
            while count.load(Ordering::SeqCst) < TIMES {
                std::hint::spin_loop();
            }
        });
        joined(device)?;
        equal((sum.load(Ordering::SeqCst), failed.load(Ordering::SeqCst)), (5 * TIMES, 0))
    })
}

/// Awaited signals, also those that are set already, and those of a wait by the owner itself.
fn bind_signals() -> Outcome {
    let processor = processor()?;
    let (port, object) = (Port::create()?, Event::create()?);
    processor.handle().bind(&port)?;
    let (sum, count) = (AtomicU64::new(0), AtomicU64::new(0));
    let event = |_: Events| drain(&port, &sum, &count);
    with_upcalls(processor.events(), &event, |events| {
        enable(events, &event);
        object.wait_async(&port, 1, Signals::USER_0, 0)?;
        equal(count.load(Ordering::SeqCst), 0)?;
        object.signal(Signals::NONE, Signals::USER_0)?;
        equal(count.load(Ordering::SeqCst), 1)?;
        object.wait_async(&port, 2, Signals::USER_0, 0)?;
        equal((count.load(Ordering::SeqCst), sum.load(Ordering::SeqCst)), (2, 3))
    })
}

/// Packets that were queued before the port is bound are an event at once.
fn bind_before() -> Outcome {
    let (processor, port) = (processor()?, Port::create()?);
    processor.handle().bind(&port)?;
    ensure(!processor.events().is_pending(), "an empty port has nothing to tell")?;
    processor.handle().unbind(&port)?;
    port.queue(&packet(3))?;
    ensure(!processor.events().is_pending(), "it is not bound")?;
    processor.handle().bind(&port)?;
    ensure(processor.events().is_pending(), "what is there was not told")
}

/// A packet that a waiting thread receives is not an event.
fn bind_waiter() -> Outcome {
    let (processor, port) = (processor()?, Port::create()?);
    processor.handle().bind(&port)?;
    let waiting = AtomicU64::new(0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            waiting.store(zx::startup::thread_self().raw_handle().into(), Ordering::SeqCst);
            port.wait(late())
        });
        until(&waiting, 1);
        asleep::until(waiting.load(Ordering::SeqCst) as u32, &[ZX_THREAD_STATE_BLOCKED_PORT])?;
        port.queue(&packet(8))?;
        equal(joined(waiter)?.key, 8)?;
        ensure(!processor.events().is_pending(), "it was told twice")
    })
}

fn bind_undone() -> Outcome {
    let (processor, port) = (processor()?, Port::create()?);
    let vproc = processor.handle();
    fails(vproc.unbind(&port), Status::NOT_FOUND)?;
    vproc.bind(&port)?;
    fails(vproc.bind(&port), Status::ALREADY_BOUND)?;
    vproc.unbind(&port)?;
    fails(vproc.unbind(&port), Status::NOT_FOUND)?;
    // The bindings end with their virtual processor.
    vproc.bind(&port)?;
    drop(processor);
    port.queue(&packet(1))?;
    self::processor()?.handle().bind(&port)?;
    Ok(())
}

fn bind_arguments() -> Outcome {
    let (processor, port) = (processor()?, Port::create()?);
    let bind = |vproc: u32, port: u32, options: u32| {
        Status(zx::probe::call(
            zx::sys::zx_vproc_bind as *const () as usize,
            &[vproc.into(), port.into(), options.into()],
        ) as i32)
    };
    let (own, other) = (processor.handle().raw_handle(), port.raw_handle());
    for options in [HAFNON_VPROC_UNBIND + 1, u32::MAX] {
        equal(bind(own, other, options), Status::INVALID_ARGS)?;
    }
    equal(bind(other, own, HAFNON_VPROC_BIND), Status::WRONG_TYPE)?;
    equal(bind(0, other, HAFNON_VPROC_BIND), Status::BAD_HANDLE)?;
    let less = without(&port, Rights::READ)?;
    equal(bind(own, less.raw_handle(), HAFNON_VPROC_BIND), Status::ACCESS_DENIED)?;
    let less = without(processor.handle(), Rights::WRITE)?;
    equal(bind(less.raw_handle(), other, HAFNON_VPROC_BIND), Status::ACCESS_DENIED)
}

/// A packet at a bound port makes an owner return from a sub-domain.
fn bind_sub_domain() -> Outcome {
    let mut processor = processor()?;
    let job = OwnJob::new()?;
    let (domain, vmar) = job.create_process("domain")?;
    let options = ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE;
    let run = hafnon_vproc_run_t { address: 0x100_0000, offset: 0, len: 4096, options, reserved: 0 };
    map_runs(&vmar, &code(SPIN)?, &[run])?;
    let (port, timer) = (Port::create()?, Timer::create(0)?);
    processor.handle().bind(&port)?;
    *processor.state() = hafnon_vproc_state_t { ip: 0x100_0000, flags: 0x202, ..Default::default() };
    for key in 1..=20 {
        timer.set(MonotonicInstant::after(zx::Duration::from_millis(1)), zx::Duration::from_nanos(0))?;
        timer.wait_async(&port, key, Signals::TIMER_SIGNALED, 0)?;
        equal(processor.enter(&domain)?, Exit::Kick)?;
        ensure(!processor.events().is_pending(), "it was taken")?;
        equal(port.wait(MonotonicInstant::ZERO)?.key, key)?;
    }
    Ok(())
}
