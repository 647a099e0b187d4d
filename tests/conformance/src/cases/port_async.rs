//! Ports: what happens to waits and packets when handles, objects and ports are closed, and the limits of a port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use abi::{Rights, Status};
use zx::{AsHandleRef, Channel, Event, Handle, HandleRef, MonotonicInstant, Port, Signals};

use super::asleep::{native, until};
use super::{cases, late, raw, soon, user_packet};
use crate::caught_exception::against_policy;
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "port.create.bind_to_interrupt" => create_bind_to_interrupt,
    "port.queue.null" => queue_null,
    "port.queue.type_is_user" => queue_type_is_user,
    "port.queue.too_many" => queue_too_many,
    "port.wait.bad_buffer_keeps" => wait_bad_buffer_keeps,
    "port.wait.first_come" => wait_first_come,
    "port.wait.past_deadline" => wait_past_deadline,
    "port.wait_async.channel" => async_channel,
    "port.wait_async.channel_timed_out" => async_channel_timed_out,
    "port.wait_async.channel_already" => async_channel_already,
    "port.wait_async.close_orders" => async_close_orders,
    "port.wait_async.many_processed" => async_many_processed,
    "port.wait_async.taken_meanwhile" => async_taken_meanwhile,
    "port.wait_async.a_packet_for_each" => async_a_packet_for_each,
    "port.wait_async.again_and_again" => async_again_and_again,
    "port.wait_async.same_key_twice" => async_same_key_twice,
    "port.wait_async.port_itself" => async_port_itself,
    "port.wait_async.many_observers" => async_many_observers,
    "port.wait_async.thread_signals" => async_thread_signals,
    "port.cancel.other_handle" => cancel_other_handle,
    "port.cancel.user_packets_stay" => cancel_user_packets_stay,
    "port.cancel.rights" => cancel_rights,
    "port.cancel.bad_source" => cancel_bad_source,
    "port.cancel_key.all_objects" => cancel_key_all_objects,
    "port.cancel_key.not_there" => cancel_key_not_there,
    "port.cancel_key.options" => cancel_key_options,
    "port.close.with_packets" => close_with_packets,
    "port.close.ends_waits" => close_ends_waits,
    "port.close.queue_race" => close_queue_race,
    "port.stress.close_wait" => stress_close_wait,
    "port.stress.close_wait_async" => stress_close_wait_async,
    "port.stress.signal_close_wait" => stress_signal_close_wait,
    "port.stress.wait_signal_cancel" => stress_wait_signal_cancel,
}

fn nothing(port: &Port) -> Outcome {
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)
}

fn observed(packet: &abi::zx_port_packet_t) -> Signals {
    Signals::from_bits_retain((packet.payload[0] >> 32) as u32)
}

fn join<T>(thread: thread::JoinHandle<T>) -> Result<T, Failure> {
    thread.join().map_err(|_| "a thread panicked".into())
}

fn create_bind_to_interrupt() -> Outcome {
    // The port works like any other.
    let port = Port::create_for_interrupts()?;
    nothing(&port)?;
    port.queue(&user_packet(1, [5, 6, 7, 8]))?;
    equal(port.wait(late())?.key, 1)
}

fn queue_null() -> Outcome {
    let port = Port::create()?;
    for bad in [0_u64, 0x1000, 0xffff_8000_0000_0000] {
        gives(raw!(zx_port_queue, port.raw_handle(), bad), Status::INVALID_ARGS)?;
    }
    nothing(&port)
}

fn queue_type_is_user() -> Outcome {
    // A program cannot forge the system's packets.
    let port = Port::create()?;
    let mut packet = user_packet(1, [5, 6, 7, 8]);
    for kind in [abi::ZX_PKT_TYPE_SIGNAL_ONE, abi::ZX_PKT_TYPE_INTERRUPT, 0xffff_ffff] {
        packet.type_ = kind;
        port.queue(&packet)?;
        let got = port.wait(late())?;
        equal((got.type_, got.payload), (abi::ZX_PKT_TYPE_USER, packet.payload))?;
    }
    Ok(())
}

fn queue_too_many() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    let mut queued = 0_u64;
    let end = against_policy(abi::ZX_EXCP_POLICY_CODE_PORT_TOO_MANY_PACKETS, || {
        loop {
            match port.queue(&user_packet(queued, [0; 4])) {
                Ok(()) if queued > 1 << 20 => return Status::OK,
                Ok(()) => queued += 1,
                Err(status) => return status,
            }
        }
    })?;
    equal(end, Status::SHOULD_WAIT)?;
    ensure(queued >= 2048, "a port holds few packets")?;
    // Packets of objects are still accepted.
    event.wait_async(&port, u64::MAX, Signals::SIGNALED, 0)?;
    event.signal(Signals::NONE, Signals::SIGNALED)?;
    equal(port.wait(late())?.key, 0)?;
    port.queue(&user_packet(queued, [0; 4]))?;
    for key in 1..queued {
        equal(port.wait(late())?.key, key)?;
    }
    equal(port.wait(late())?.key, u64::MAX)?;
    equal(port.wait(late())?.key, queued)?;
    nothing(&port)
}

fn wait_bad_buffer_keeps() -> Outcome {
    let port = Port::create()?;
    port.queue(&user_packet(3, [0; 4]))?;
    for bad in [0x1000_u64, 0x8000_0000_0000, 0xffff_8000_0000_0000] {
        gives(raw!(zx_port_wait, port.raw_handle(), 0, bad), Status::INVALID_ARGS)?;
    }
    equal(port.wait(late())?.key, 3)
}

fn wait_first_come() -> Outcome {
    // Waiting threads get packets in the order in which they came.
    let port = Arc::new(Port::create()?);
    let mut waiters = Vec::new();
    for _ in 0..5 {
        let twin = Arc::clone(&port);
        waiters.push(thread::spawn(move || twin.wait(late()).map(|packet| packet.key)));
        waiters.last().map_or(Ok(()), |waiter| until(native(waiter), &[abi::ZX_THREAD_STATE_BLOCKED_PORT]))?;
    }
    for key in 0..5 {
        port.queue(&user_packet(key, [0; 4]))?;
    }
    for (key, waiter) in waiters.into_iter().enumerate() {
        equal(join(waiter)??, key as u64)?;
    }
    Ok(())
}

fn wait_past_deadline() -> Outcome {
    // A queued packet is returned even if the deadline has passed.
    let port = Port::create()?;
    for deadline in [MonotonicInstant::ZERO, MonotonicInstant::INFINITE_PAST] {
        fails(port.wait(deadline), Status::TIMED_OUT)?;
        port.queue(&user_packet(4, [0; 4]))?;
        equal(port.wait(deadline)?.key, 4)?;
    }
    Ok(())
}

fn async_channel() -> Outcome {
    let (port, (a, b)) = (Port::create()?, Channel::create()?);
    for key in 0..3 {
        b.wait_async(&port, key, Signals::READABLE, 0)?;
        nothing(&port)?;
        a.write(b"message", [])?;
        let packet = port.wait(late())?;
        equal((packet.key, packet.type_), (key, abi::ZX_PKT_TYPE_SIGNAL_ONE))?;
        let seen = Signals::READABLE | Signals::WRITABLE;
        equal((packet.payload[0] as u32, observed(&packet), packet.payload[1]), (Signals::READABLE.bits(), seen, 1))?;
        b.read(&mut [0; 16], &mut []).map_err(|(status, _)| status)?;
        nothing(&port)?;
    }
    b.wait_async(&port, 9, Signals::READABLE | Signals::PEER_CLOSED, 0)?;
    drop(a);
    equal(observed(&port.wait(late())?), Signals::PEER_CLOSED)
}

fn async_channel_timed_out() -> Outcome {
    let (port, (a, b)) = (Port::create()?, Channel::create()?);
    b.wait_async(&port, 5, Signals::READABLE, 0)?;
    fails(port.wait(soon(20)), Status::TIMED_OUT)?;
    // The wait is still pending.
    a.write(b"x", [])?;
    equal(port.wait(late())?.key, 5)?;
    nothing(&port)
}

fn async_channel_already() -> Outcome {
    let (port, (a, b)) = (Port::create()?, Channel::create()?);
    let wanted = Signals::READABLE | Signals::PEER_CLOSED;
    let packet = |key, seen: Signals| {
        b.wait_async(&port, key, wanted, 0)?;
        let packet = port.wait(MonotonicInstant::ZERO)?;
        equal((packet.key, packet.payload[0] as u32, observed(&packet)), (key, wanted.bits(), seen))?;
        // There is one packet with the count 1, whatever the number of messages.
        equal(packet.payload[1], 1)?;
        nothing(&port)
    };
    for _ in 0..5 {
        a.write(b"123456", [])?;
    }
    packet(6, Signals::READABLE | Signals::WRITABLE)?;
    drop(a);
    packet(7, wanted)
}

fn async_close_orders() -> Outcome {
    // An object, its port and the object's peer are closed in every order, with the wait pending or its packet queued.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for queued in [false, true] {
            let (a, b) = Channel::create()?;
            let port = Port::create()?;
            a.wait_async(&port, 1, Signals::READABLE, 0)?;
            a.wait_async(&port, 2, Signals::PEER_CLOSED, 0)?;
            if queued {
                b.write(b"x", [])?;
            }
            let mut all = [Some(a.into_handle()), Some(b.into_handle()), Some(port.into_handle())];
            for place in order {
                drop(all[place].take());
            }
        }
    }
    // The packets of a destroyed object are still delivered.
    let (port, event) = (Port::create()?, Event::create()?);
    event.wait_async(&port, 3, Signals::SIGNALED, 0)?;
    event.signal(Signals::NONE, Signals::SIGNALED)?;
    drop(event);
    equal(port.wait(late())?.key, 3)
}

fn async_many_processed() -> Outcome {
    // Far more packets than a port accepts from programs: all packets of objects are delivered.
    const EVENTS: u64 = 16 * 1024 + 1;
    let port = Port::create()?;
    let mut events = Vec::new();
    for key in 0..EVENTS {
        let event = Event::create()?;
        event.wait_async(&port, key, Signals::SIGNALED, 0)?;
        event.signal(Signals::NONE, Signals::SIGNALED)?;
        events.push(event);
    }
    for key in 0..EVENTS {
        let packet = port.wait(MonotonicInstant::ZERO)?;
        equal((packet.key, packet.type_), (key, abi::ZX_PKT_TYPE_SIGNAL_ONE))?;
        equal((packet.payload[0] as u32, observed(&packet)), (Signals::SIGNALED.bits(), Signals::SIGNALED))?;
        equal(packet.payload[1], 1)?;
    }
    nothing(&port)
}

fn async_taken_meanwhile() -> Outcome {
    const EVENTS: u64 = 100;
    let port = Arc::new(Port::create()?);
    let events = (0..EVENTS).map(|_| Event::create()).collect::<zx::Result<Vec<_>>>()?;
    for (key, event) in events.iter().enumerate() {
        event.wait_async(&port, key as u64, Signals::USER_0, 0)?;
    }
    let twin = Arc::clone(&port);
    let taker = thread::spawn(move || (0..EVENTS).map(|_| twin.wait(late()).map(|packet| packet.key)).collect());
    for event in events.iter().rev() {
        event.signal(Signals::NONE, Signals::USER_0)?;
    }
    let keys: zx::Result<Vec<u64>> = join(taker)?;
    ensure(keys? == (0..EVENTS).rev().collect::<Vec<_>>(), "packets are lost or out of order")?;
    nothing(&port)
}

fn async_a_packet_for_each() -> Outcome {
    // Three waits on one event and three threads at the port: one signal gives each thread one packet.
    let (port, event) = (Arc::new(Port::create()?), Event::create()?);
    let mut takers = Vec::new();
    for key in 500..503 {
        event.wait_async(&port, key, Signals::SIGNALED, 0)?;
        let twin = Arc::clone(&port);
        takers.push(thread::spawn(move || twin.wait(late()).map(|packet| packet.key)));
    }
    takers.iter().try_for_each(|taker| until(native(taker), &[abi::ZX_THREAD_STATE_BLOCKED_PORT]))?;
    event.signal(Signals::NONE, Signals::SIGNALED)?;
    let mut keys = takers.into_iter().map(|taker| Ok(join(taker)??)).collect::<Result<Vec<u64>, Failure>>()?;
    keys.sort_unstable();
    equal(keys, vec![500, 501, 502])?;
    nothing(&port)
}

fn async_again_and_again() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    for key in 0..1000 {
        event.wait_async(&port, key, Signals::USER_0, 0)?;
        event.signal(Signals::NONE, Signals::USER_0)?;
        event.signal(Signals::USER_0, Signals::NONE)?;
        let packet = port.wait(MonotonicInstant::ZERO)?;
        // The packet has the observed signal, even if it is clear again.
        equal((packet.key, observed(&packet)), (key, Signals::USER_0))?;
    }
    nothing(&port)
}

fn async_same_key_twice() -> Outcome {
    // Two waits with the same key are independent.
    let (port, event) = (Port::create()?, Event::create()?);
    event.wait_async(&port, 7, Signals::USER_0, 0)?;
    event.wait_async(&port, 7, Signals::USER_1, 0)?;
    event.signal(Signals::NONE, Signals::USER_0 | Signals::USER_1)?;
    let triggers = [port.wait(late())?.payload[0] as u32, port.wait(late())?.payload[0] as u32];
    equal(triggers.iter().fold(0, |all, one| all | one), (Signals::USER_0 | Signals::USER_1).bits())?;
    nothing(&port)
}

fn async_port_itself() -> Outcome {
    // A port cannot be waited for, because its handle lacks the right.
    let port = Port::create()?;
    let result = port.wait_async(&port, 1, Signals::USER_0, 0);
    match result {
        Err(status) => equal(status, Status::ACCESS_DENIED),
        Ok(()) => {
            drop(port);
            Ok(())
        }
    }
}

fn async_many_observers() -> Outcome {
    const WAITS: u64 = 3000;
    let (port, event) = (Port::create()?, Event::create()?);
    for key in 0..WAITS {
        event.wait_async(&port, key, Signals::USER_0, 0)?;
    }
    event.signal(Signals::NONE, Signals::USER_0)?;
    let mut keys = (0..WAITS).map(|_| Ok(port.wait(MonotonicInstant::ZERO)?.key)).collect::<zx::Result<Vec<_>>>()?;
    keys.sort_unstable();
    ensure(keys == (0..WAITS).collect::<Vec<_>>(), "packets are lost")?;
    nothing(&port)
}

fn async_thread_signals() -> Outcome {
    // Packets report a thread's states: it runs, is suspended, runs again, and terminates.
    let port = Port::create()?;
    let spinning = crate::test_process::spinning()?;
    let thread = &spinning.thread;
    thread.wait_async(&port, 1, Signals::THREAD_RUNNING, 0)?;
    equal(port.wait(late())?.key, 1)?;
    thread.wait_async(&port, 2, Signals::THREAD_SUSPENDED, abi::ZX_WAIT_ASYNC_EDGE)?;
    thread.wait_async(&port, 3, Signals::THREAD_TERMINATED, 0)?;
    nothing(&port)?;
    let suspension = thread.suspend()?;
    let packet = port.wait(late())?;
    equal(packet.key, 2)?;
    ensure(!observed(&packet).contains(Signals::THREAD_RUNNING), "it is suspended and runs")?;
    thread.wait_async(&port, 4, Signals::THREAD_RUNNING, abi::ZX_WAIT_ASYNC_EDGE)?;
    drop(suspension);
    equal(port.wait(late())?.key, 4)?;
    nothing(&port)?;
    spinning.process.kill()?;
    let packet = port.wait(late())?;
    equal(packet.key, 3)?;
    ensure(observed(&packet).contains(Signals::THREAD_TERMINATED), "its end is not told")
}

fn cancel_other_handle() -> Outcome {
    // A wait and its packet belong to the handle through which the wait was made.
    let (port, event) = (Port::create()?, Event::create()?);
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    event.wait_async(&port, 5, Signals::USER_0, 0)?;
    fails(port.cancel(&twin, 5), Status::NOT_FOUND)?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    fails(port.cancel(&twin, 5), Status::NOT_FOUND)?;
    equal(port.wait(late())?.key, 5)
}

fn cancel_user_packets_stay() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    port.queue(&user_packet(5, [0; 4]))?;
    event.wait_async(&port, 5, Signals::NONE | Signals::USER_0, 0)?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    port.cancel(&event, 5)?;
    equal(port.wait(late())?.type_, abi::ZX_PKT_TYPE_USER)?;
    nothing(&port)
}

fn cancel_rights() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    event.wait_async(&port, 5, Signals::USER_0, 0)?;
    let mute = Port::from(super::without(&port, Rights::WRITE)?);
    fails(mute.cancel(&event, 5), Status::ACCESS_DENIED)?;
    gives(raw!(zx_port_cancel_key, mute.raw_handle(), 0, 5), Status::ACCESS_DENIED)?;
    port.cancel(&event, 5).map_err(Into::into)
}

fn cancel_bad_source() -> Outcome {
    let port = Port::create()?;
    for bad in [0, 0xffff_fffb] {
        fails(port.cancel(&HandleRef::from_raw(bad), 1), Status::BAD_HANDLE)?;
    }
    Ok(())
}

fn cancel_key_all_objects() -> Outcome {
    let port = Port::create()?;
    let events = (0..6).map(|_| Event::create()).collect::<zx::Result<Vec<_>>>()?;
    for (number, event) in events.iter().enumerate() {
        event.wait_async(&port, number as u64 % 2, Signals::USER_0, 0)?;
    }
    port.queue(&user_packet(1, [0; 4]))?;
    // Some have fired and some have not: everything with the key is cancelled, except packets of programs.
    events[1].signal(Signals::NONE, Signals::USER_0)?;
    events[2].signal(Signals::NONE, Signals::USER_0)?;
    gives(raw!(zx_port_cancel_key, port.raw_handle(), 0, 1), Status::OK)?;
    for event in &events {
        event.signal(Signals::NONE, Signals::USER_0)?;
    }
    equal(port.wait(late())?.type_, abi::ZX_PKT_TYPE_USER)?;
    for _ in 0..3 {
        equal(port.wait(late())?.key, 0)?;
    }
    nothing(&port)
}

fn cancel_key_not_there() -> Outcome {
    let port = Port::create()?;
    port.queue(&user_packet(1, [0; 4]))?;
    gives(raw!(zx_port_cancel_key, port.raw_handle(), 0, 1), Status::NOT_FOUND)?;
    equal(port.wait(late())?.key, 1)
}

fn cancel_key_options() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    event.wait_async(&port, 5, Signals::USER_0, 0)?;
    gives(raw!(zx_port_cancel_key, port.raw_handle(), 1, 5), Status::INVALID_ARGS)?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    equal(port.wait(late())?.key, 5)
}

fn close_with_packets() -> Outcome {
    let (port, event) = (Port::create()?, Event::create()?);
    for key in 0..100 {
        port.queue(&user_packet(key, [0; 4]))?;
        event.wait_async(&port, key, Signals::USER_0, 0)?;
    }
    event.signal(Signals::NONE, Signals::USER_0)?;
    event.signal(Signals::USER_0, Signals::NONE)?;
    event.wait_async(&port, 1, Signals::USER_0, 0)?;
    drop(port);
    // No wait is left on the event.
    event.signal(Signals::NONE, Signals::USER_0).map_err(Into::into)
}

fn close_ends_waits() -> Outcome {
    let port = Arc::new(Port::create()?);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let twin = Arc::clone(&port);
            thread::spawn(move || {
                let result = twin.wait(late()).map(drop);
                std::mem::forget(twin);
                result
            })
        })
        .collect();
    waiters.iter().try_for_each(|waiter| until(native(waiter), &[abi::ZX_THREAD_STATE_BLOCKED_PORT]))?;
    drop(Handle::from_raw(port.raw_handle()));
    for waiter in waiters {
        fails(join(waiter)?, Status::CANCELED)?;
    }
    std::mem::forget(port);
    Ok(())
}

/// Threads repeat `what` with a handle's value until they are asked to stop, while this thread closes the handle.
fn while_closed(rounds: u32, what: fn(u32) -> Status, allowed: &'static [Status]) -> Outcome {
    for _ in 0..rounds {
        let raw = Port::create()?.into_handle().into_raw();
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let (stop, made) = (Arc::clone(&stop), Arc::clone(&made));
                thread::spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        let status = what(raw);
                        made.fetch_add(1, Ordering::SeqCst);
                        if !allowed.contains(&status) {
                            return Err(Failure::from(format!("gave {status}")));
                        }
                        if status == Status::BAD_HANDLE {
                            break;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        while made.load(Ordering::SeqCst) < 20 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(Handle::from_raw(raw));
        stop.store(true, Ordering::SeqCst);
        for worker in workers {
            join(worker)??;
        }
    }
    Ok(())
}

fn close_queue_race() -> Outcome {
    while_closed(
        10,
        |port| {
            let mut packet = user_packet(1, [0; 4]);
            let queued = raw!(zx_port_queue, port, &raw const packet);
            // Each queued packet is dequeued, so the port does not become full, however late it is closed.
            let taken = raw!(zx_port_wait, port, 0, &raw mut packet);
            if queued == Status::OK && taken != Status::CANCELED { taken } else { queued }
        },
        &[Status::OK, Status::BAD_HANDLE],
    )
}

fn stress_close_wait() -> Outcome {
    while_closed(
        10,
        |port| {
            let mut packet = user_packet(0, [0; 4]);
            raw!(zx_port_wait, port, soon(2).0, &raw mut packet)
        },
        &[Status::TIMED_OUT, Status::CANCELED, Status::BAD_HANDLE],
    )
}

fn stress_close_wait_async() -> Outcome {
    // The event outlives all ports and the waits that belonged to them.
    static EVENT: AtomicU32 = AtomicU32::new(0);
    let event = Event::create()?;
    EVENT.store(event.raw_handle(), Ordering::SeqCst);
    while_closed(
        10,
        |port| raw!(zx_object_wait_async, EVENT.load(Ordering::SeqCst), port, 0, Signals::SIGNALED.bits(), 0),
        &[Status::OK, Status::BAD_HANDLE],
    )?;
    let port = Port::create()?;
    event.wait_async(&port, 1, Signals::SIGNALED, 0)?;
    event.signal(Signals::NONE, Signals::SIGNALED)?;
    equal(port.wait(late())?.key, 1)?;
    nothing(&port)
}

fn stress_signal_close_wait() -> Outcome {
    // One thread dequeues packets; others signal events with pending waits and close them.
    const ROUNDS: u64 = 300;
    let port = Arc::new(Port::create()?);
    let worker = |first: u64, port: Arc<Port>| {
        thread::spawn(move || {
            for key in first..first + ROUNDS {
                let event = Event::create()?;
                event.wait_async(&port, key, Signals::USER_0, 0)?;
                event.signal(Signals::NONE, Signals::USER_0)?;
            }
            Ok::<_, Status>(())
        })
    };
    let workers = [worker(0, Arc::clone(&port)), worker(10_000, Arc::clone(&port))];
    let mut keys = (0..2 * ROUNDS).map(|_| Ok(port.wait(late())?.key)).collect::<zx::Result<Vec<_>>>()?;
    for worker in workers {
        join(worker)??;
    }
    keys.sort_unstable();
    ensure(keys == (0..ROUNDS).chain(10_000..10_000 + ROUNDS).collect::<Vec<_>>(), "packets are lost")?;
    nothing(&port)
}

fn stress_wait_signal_cancel() -> Outcome {
    // A wait is cancelled while another thread may signal the event: its packet may or may not be queued, but after a
    // successful cancel it is not.
    let (port, event) = (Port::create()?, Arc::new(Event::create()?));
    let stop = Arc::new(AtomicBool::new(false));
    let (twin, told) = (Arc::clone(&event), Arc::clone(&stop));
    let signaller = thread::spawn(move || {
        while !told.load(Ordering::SeqCst) {
            twin.signal(Signals::NONE, Signals::USER_0)?;
            twin.signal(Signals::USER_0, Signals::NONE)?;
            thread::yield_now();
        }
        Ok::<_, Status>(())
    });
    let mut result = Ok(());
    for key in 0..200 {
        let options = if key % 2 == 0 { 0 } else { abi::ZX_WAIT_ASYNC_EDGE };
        event.wait_async(&port, key, Signals::USER_0, options)?;
        if key % 3 == 0 {
            thread::yield_now();
        }
        // The wait is pending or its packet is queued, because no other thread dequeues packets.
        result = port.cancel(&*event, key).map_err(Failure::from).and_then(|()| nothing(&port));
        if result.is_err() {
            break;
        }
    }
    stop.store(true, Ordering::SeqCst);
    join(signaller)??;
    result
}
