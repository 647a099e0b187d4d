//! Ports: packets of programs and of observed objects.

use std::sync::Arc;
use std::thread;

use abi::{Rights, Status, zx_port_packet_t};
use zx::{AsHandleRef, Channel, Event, MonotonicInstant, Port, Signals};

use super::{cases, late, raw, soon, user_packet, without};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "port.create.options" => create_options,
    "port.queue.delivered" => queue_delivered,
    "port.queue.order" => queue_order,
    "port.queue.rights" => queue_rights,
    "port.wait.times_out" => wait_times_out,
    "port.wait.one_packet_one_thread" => wait_one_packet_one_thread,
    "port.wait_async.packet" => async_packet,
    "port.wait_async.newest_first" => async_newest_first,
    "port.wait_async.already" => async_already,
    "port.wait_async.once" => async_once,
    "port.wait_async.edge" => async_edge,
    "port.wait_async.timestamp" => async_timestamp,
    "port.wait_async.rights" => async_rights,
    "port.wait_async.closed_handle" => async_closed_handle,
    "port.wait_async.options" => async_options,
    "port.cancel.pending" => cancel_pending,
    "port.cancel.queued" => cancel_queued,
    "port.cancel.not_there" => cancel_not_there,
}

/// Trigger, observed signals, count.
fn signal_packet(packet: &zx_port_packet_t) -> (Signals, Signals, u64) {
    let words = packet.payload;
    (Signals::from_bits_retain(words[0] as u32), Signals::from_bits_retain((words[0] >> 32) as u32), words[1])
}

fn create_options() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_port_create, 0x8000_u32, &raw mut out), Status::INVALID_ARGS)
}

fn queue_delivered() -> Outcome {
    let port = Port::create()?;
    let mut sent = user_packet(7, [1, 2, 3, u64::MAX]);
    sent.status = -5;
    port.queue(&sent)?;
    let got = port.wait(MonotonicInstant::INFINITE)?;
    equal((got.key, got.type_, got.status, got.payload), (7, abi::ZX_PKT_TYPE_USER, -5, [1, 2, 3, u64::MAX]))
}

fn queue_order() -> Outcome {
    let port = Port::create()?;
    for key in 0..500 {
        port.queue(&user_packet(key, [0; 4]))?;
    }
    for key in 0..500 {
        equal(port.wait(MonotonicInstant::INFINITE)?.key, key)?;
    }
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)
}

fn queue_rights() -> Outcome {
    let port = Port::create()?;
    fails(Port::from(without(&port, Rights::WRITE)?).queue(&user_packet(1, [0; 4])), Status::ACCESS_DENIED)?;
    fails(Port::from(without(&port, Rights::READ)?).wait(MonotonicInstant::ZERO), Status::ACCESS_DENIED)
}

fn wait_times_out() -> Outcome {
    let port = Port::create()?;
    let start = std::time::Instant::now();
    fails(port.wait(soon(20)), Status::TIMED_OUT)?;
    ensure(start.elapsed().as_millis() >= 20, "it did not wait")
}

fn wait_one_packet_one_thread() -> Outcome {
    const PACKETS: u64 = 800;
    let port = Arc::new(Port::create()?);
    let taker = || {
        let port = Arc::clone(&port);
        thread::spawn(move || {
            let mut keys = Vec::new();
            loop {
                match port.wait(late())?.key {
                    u64::MAX => return Ok::<_, Status>(keys),
                    key => keys.push(key),
                }
            }
        })
    };
    let takers = [taker(), taker(), taker(), taker()];
    for key in 0..PACKETS {
        port.queue(&user_packet(key, [0; 4]))?;
    }
    for _ in 0..takers.len() {
        port.queue(&user_packet(u64::MAX, [0; 4]))?;
    }
    let mut all = Vec::new();
    for taker in takers {
        all.extend(taker.join().map_err(|_| "a taker panicked")??);
    }
    all.sort_unstable();
    ensure(all == (0..PACKETS).collect::<Vec<_>>(), "packets are lost or came twice")
}

fn async_packet() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    event.wait_async(&port, 99, Signals::USER_0 | Signals::USER_1, 0)?;
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    event.signal(Signals::NONE, Signals::USER_1 | Signals::USER_5)?;
    let packet = port.wait(late())?;
    equal((packet.key, packet.type_, packet.status), (99, abi::ZX_PKT_TYPE_SIGNAL_ONE, 0))?;
    let (trigger, observed, count) = signal_packet(&packet);
    equal(trigger, Signals::USER_0 | Signals::USER_1)?;
    equal(observed.user(), Signals::USER_1 | Signals::USER_5)?;
    equal(count, 1)
}

fn async_newest_first() -> Outcome {
    // The newest wait gets its packet first, whichever of the changed signals each wait is for.
    let (port, event) = (Port::create()?, Event::create()?);
    for key in 0..7 {
        event.wait_async(&port, key, Signals::SIGNALED, 0)?;
    }
    event.signal(Signals::NONE, Signals::SIGNALED)?;
    for key in (0..7).rev() {
        let packet = port.wait(late())?;
        equal((packet.key, packet.type_, signal_packet(&packet).2), (key, abi::ZX_PKT_TYPE_SIGNAL_ONE, 1))?;
    }
    event.signal(Signals::SIGNALED, Signals::NONE)?;
    let wanted =
        [Signals::USER_0, Signals::USER_1, Signals::USER_0, Signals::USER_2, Signals::USER_1 | Signals::USER_2];
    for (key, signals) in (0..).zip(wanted.iter().chain(&wanted)) {
        event.wait_async(&port, key, *signals, 0)?;
    }
    event.signal(Signals::NONE, Signals::USER_0 | Signals::USER_1)?;
    for key in (0..10).rev().filter(|key| key % 5 != 3) {
        equal(port.wait(late())?.key, key)?;
    }
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    event.signal(Signals::NONE, Signals::USER_2)?;
    equal((port.wait(late())?.key, port.wait(late())?.key), (8, 3))
}

fn async_already() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    event.signal(Signals::NONE, Signals::USER_1)?;
    event.wait_async(&port, 5, Signals::USER_1, 0)?;
    equal(port.wait(MonotonicInstant::ZERO)?.key, 5)
}

fn async_once() -> Outcome {
    let (port, (a, b)) = (Port::create()?, Channel::create()?);
    a.wait_async(&port, 5, Signals::READABLE, 0)?;
    b.write(b"1", [])?;
    b.write(b"2", [])?;
    equal(port.wait(late())?.key, 5)?;
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    a.wait_async(&port, 6, Signals::READABLE, 0)?;
    equal(port.wait(late())?.key, 6)
}

fn async_edge() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    event.signal(Signals::NONE, Signals::USER_1)?;
    event.wait_async(&port, 5, Signals::USER_1, abi::ZX_WAIT_ASYNC_EDGE)?;
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    event.signal(Signals::USER_1, Signals::NONE)?;
    event.signal(Signals::NONE, Signals::USER_1)?;
    equal(port.wait(late())?.key, 5)
}

fn async_timestamp() -> Outcome {
    // One of two waits requests a timestamp, and gets the time of its own signal.
    let port = Port::create()?;
    let events = [Event::create()?, Event::create()?];
    for (timed, untimed) in [(0, 1), (1, 0)] {
        events[timed].wait_async(&port, 1, Signals::USER_1, abi::ZX_WAIT_ASYNC_TIMESTAMP)?;
        events[untimed].wait_async(&port, 2, Signals::USER_1, 0)?;
        let before = MonotonicInstant::now();
        events[timed].signal(Signals::NONE, Signals::USER_1)?;
        let after = MonotonicInstant::now();
        events[untimed].signal(Signals::NONE, Signals::USER_1)?;
        let packet = port.wait(late())?;
        let time = MonotonicInstant(packet.payload[2] as i64);
        equal(packet.key, 1)?;
        ensure(before <= time && time <= after, "the time is not that of the signal")?;
        let packet = port.wait(late())?;
        equal((packet.key, packet.payload[2]), (2, 0))?;
        events.iter().try_for_each(|event| event.signal(Signals::USER_1, Signals::NONE))?;
    }
    Ok(())
}

fn async_rights() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    let blind = without(&event, Rights::WAIT)?;
    fails(blind.wait_async(&port, 5, Signals::USER_1, 0), Status::ACCESS_DENIED)?;
    let full = Port::from(without(&port, Rights::WRITE)?);
    fails(event.wait_async(&full, 5, Signals::USER_1, 0), Status::ACCESS_DENIED)
}

fn async_closed_handle() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    event.wait_async(&port, 5, Signals::USER_1, 0)?;
    drop(event);
    // The wait was cancelled with the handle.
    twin.signal(Signals::NONE, Signals::USER_1)?;
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)
}

fn async_options() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    fails(event.wait_async(&port, 5, Signals::USER_1, 0x8000), Status::INVALID_ARGS)
}

fn cancel_pending() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    for key in [128, 13, 7, 13] {
        event.wait_async(&port, key, Signals::USER_1, 0)?;
    }
    // One cancel removes all waits with its key.
    port.cancel(&event, 13)?;
    fails(port.cancel(&event, 13), Status::NOT_FOUND)?;
    for _ in 0..2 {
        event.signal(Signals::NONE, Signals::USER_1)?;
        event.signal(Signals::USER_1, Signals::NONE)?;
    }
    for key in [7, 128] {
        let packet = port.wait(late())?;
        equal((packet.key, signal_packet(&packet)), (key, (Signals::USER_1, Signals::USER_1, 1)))?;
    }
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    // A dequeued packet cannot be cancelled.
    fails(port.cancel(&event, 128), Status::NOT_FOUND)
}

fn cancel_queued() -> Outcome {
    // Three waits on three objects. Two of them have queued packets. Of the two with the same key, one is queued and
    // one is pending.
    let port = Port::create()?;
    let events = [Event::create()?, Event::create()?, Event::create()?];
    for (event, key) in events.iter().zip([128, 3, 3]) {
        event.wait_async(&port, key, Signals::SIGNALED, 0)?;
    }
    events[0].signal(Signals::NONE, Signals::SIGNALED)?;
    events[1].signal(Signals::NONE, Signals::SIGNALED)?;
    port.cancel(&events[1], 3)?;
    port.cancel(&events[2], 3)?;
    events[2].signal(Signals::NONE, Signals::SIGNALED)?;
    let packet = port.wait(MonotonicInstant::ZERO)?;
    equal((packet.key, signal_packet(&packet)), (128, (Signals::SIGNALED, Signals::SIGNALED, 1)))?;
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)
}

fn cancel_not_there() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    fails(port.cancel(&event, 5), Status::NOT_FOUND)
}
