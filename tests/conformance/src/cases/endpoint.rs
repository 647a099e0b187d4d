//! Endpoints of seL4 as objects. They are Hafnon's own; `docs/native.md` has what is promised.

use std::sync::mpsc;
use std::thread;

use abi::{
    HAFNON_DEFAULT_ENDPOINT_RIGHTS, HAFNON_ENDPOINT_BADGES, HAFNON_ENDPOINT_CALL, HAFNON_ENDPOINT_LABELS,
    HAFNON_ENDPOINT_NO_WAIT, HAFNON_ENDPOINT_RECEIVE, HAFNON_ENDPOINT_SEND, HAFNON_ENDPOINT_SLOTS_END,
    HAFNON_ENDPOINT_SLOTS_FROM, HAFNON_OBJ_TYPE_ENDPOINT, HAFNON_RSRC_SYSTEM_ENDPOINT_BASE, Status, ZX_RSRC_KIND_MMIO,
    ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_PROFILE_BASE, hafnon_endpoint_message_t,
};
use libc_probe::pthread;
use zx::{AsHandleRef, Channel, Endpoint, Event, Info, Received, Resource, Rights, Signals, Thread, Words};

use super::{cases, late, raw, root_resource, without};
use crate::check::{Failure, Outcome, equal, fails, gives};
use crate::test_process::{EXCEPTION, KILLED, TestProcess};

cases! {
    "endpoint.create.resource" => create_resource,
    "endpoint.find.nobody" => find_nobody,
    "endpoint.find.name" => find_name,
    "endpoint.mint.options" => mint_options,
    "endpoint.mint.rights" => mint_rights,
    "endpoint.mint.thread" => mint_thread,
    "endpoint.mint.slots" => mint_slots,
    "endpoint.delete.not_found" => delete_not_found,
    "endpoint.connect.own" => connect_own,
    "endpoint.connect.rights" => connect_rights,
    "endpoint.connect.type" => connect_type,
    "endpoint.call.answer" => call_answer,
    "endpoint.call.long" => call_long,
    "endpoint.call.arguments" => call_arguments,
    "endpoint.call.last_handle" => call_last_handle,
    "endpoint.call.deleted" => call_deleted,
    "endpoint.call.cancelled_thread" => call_cancelled_thread,
    "endpoint.send.nobody_waits" => send_nobody_waits,
    "endpoint.call.killed" => || stuck(CALL, HAFNON_ENDPOINT_CALL),
    "endpoint.receive.killed" => || stuck(RECEIVE, HAFNON_ENDPOINT_RECEIVE),
    "endpoint.receive.caller_killed" => receive_caller_killed,
    "endpoint.receive.minted_to_send" => receive_minted_to_send,
}

fn right() -> Result<Resource, Failure> {
    Ok(root_resource()?.create_child(ZX_RSRC_KIND_SYSTEM, HAFNON_RSRC_SYSTEM_ENDPOINT_BASE, 1, "endpoints")?)
}

fn endpoint() -> Result<Endpoint, Failure> {
    Ok(Endpoint::create(&right()?)?)
}

fn this() -> Result<Thread, Failure> {
    Ok(zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?)
}

fn create_resource() -> Outcome {
    let root = root_resource()?;
    let basic = endpoint()?.basic_info()?;
    equal((basic.type_, basic.rights), (HAFNON_OBJ_TYPE_ENDPOINT, HAFNON_DEFAULT_ENDPOINT_RIGHTS.bits()))?;
    let other = root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_PROFILE_BASE, 1, "other")?;
    fails(Endpoint::create(&other), Status::OUT_OF_RANGE)?;
    fails(Endpoint::find(&other, "x"), Status::OUT_OF_RANGE)?;
    let other = root.create_child(ZX_RSRC_KIND_MMIO, 0, 4096, "other")?;
    fails(Endpoint::create(&other), Status::WRONG_TYPE)
}

fn find_nobody() -> Outcome {
    fails(Endpoint::find(&right()?, "nobody offers this"), Status::NOT_FOUND)
}

fn find_name() -> Outcome {
    fails(Endpoint::find(&right()?, ""), Status::INVALID_ARGS)?;
    fails(Endpoint::find(&right()?, &"x".repeat(31)), Status::NOT_FOUND)?;
    fails(Endpoint::find(&right()?, &"x".repeat(32)), Status::INVALID_ARGS)
}

fn mint_options() -> Outcome {
    let (endpoint, this) = (endpoint()?, this()?);
    fails(endpoint.mint(&this, 0, 0), Status::INVALID_ARGS)?;
    fails(endpoint.mint(&this, 8, 0), Status::INVALID_ARGS)?;
    fails(endpoint.mint(&this, HAFNON_ENDPOINT_SEND, HAFNON_ENDPOINT_BADGES), Status::OUT_OF_RANGE)?;
    let slot = endpoint.mint(&this, HAFNON_ENDPOINT_SEND, HAFNON_ENDPOINT_BADGES - 1)?;
    Ok(Endpoint::delete(&this, slot)?)
}

fn mint_rights() -> Outcome {
    let (endpoint, this) = (endpoint()?, this()?);
    let sending = without(&endpoint, Rights::READ)?;
    fails(Endpoint::from(sending).mint(&this, HAFNON_ENDPOINT_RECEIVE, 0), Status::ACCESS_DENIED)?;
    let nothing = without(&endpoint, Rights::WRITE)?;
    fails(Endpoint::from(nothing).mint(&this, HAFNON_ENDPOINT_SEND, 0), Status::ACCESS_DENIED)?;
    let other = Thread::from(without(&this, Rights::MANAGE_THREAD)?);
    fails(endpoint.mint(&other, HAFNON_ENDPOINT_SEND, 0), Status::ACCESS_DENIED)?;
    fails(Endpoint::delete(&other, HAFNON_ENDPOINT_SLOTS_FROM), Status::ACCESS_DENIED)
}

/// A thread that has not started or has ended has no slots.
fn mint_thread() -> Outcome {
    let endpoint = endpoint()?;
    let tiny = TestProcess::new(CALL)?;
    fails(endpoint.mint(&tiny.thread, HAFNON_ENDPOINT_SEND, 0), Status::BAD_STATE)?;
    tiny.process.kill()?;
    fails(endpoint.mint(&tiny.thread, HAFNON_ENDPOINT_SEND, 0), Status::BAD_STATE)
}

/// The lowest free slot is used, and their number is limited.
fn mint_slots() -> Outcome {
    let (endpoint, this) = (endpoint()?, this()?);
    for slot in HAFNON_ENDPOINT_SLOTS_FROM..HAFNON_ENDPOINT_SLOTS_END {
        equal(endpoint.mint(&this, HAFNON_ENDPOINT_SEND, 1)?, slot)?;
    }
    fails(endpoint.mint(&this, HAFNON_ENDPOINT_SEND, 1), Status::NO_RESOURCES)?;
    Endpoint::delete(&this, 7)?;
    equal(endpoint.mint(&this, HAFNON_ENDPOINT_SEND, 1)?, 7)?;
    drop(endpoint);
    fails(Endpoint::delete(&this, 7), Status::NOT_FOUND)
}

/// An endpoint that is not a component's passes nothing on; the channel's end is consumed nevertheless.
fn connect_own() -> Outcome {
    let (ours, theirs) = Channel::create()?;
    fails(endpoint()?.connect(theirs), Status::NOT_SUPPORTED)?;
    fails(ours.write(b"x", []), Status::PEER_CLOSED)
}

/// The channel's end is consumed if either handle is refused, like handles in a message.
fn connect_rights() -> Outcome {
    let nothing = Endpoint::from(without(&endpoint()?, Rights::WRITE)?);
    let (ours, theirs) = Channel::create()?;
    fails(nothing.connect(theirs), Status::ACCESS_DENIED)?;
    fails(ours.write(b"x", []), Status::PEER_CLOSED)?;
    let (ours, theirs) = Channel::create()?;
    let kept = theirs.replace(abi::ZX_DEFAULT_CHANNEL_RIGHTS & !Rights::TRANSFER)?;
    fails(endpoint()?.connect(kept), Status::ACCESS_DENIED)?;
    fails(ours.write(b"x", []), Status::PEER_CLOSED)
}

/// An object that is not a channel is refused and consumed as well.
fn connect_type() -> Outcome {
    let event = Event::create()?;
    let other = event.duplicate_handle(Rights::SAME_RIGHTS)?;
    let raw = other.raw_handle();
    fails(endpoint()?.connect(Channel::from(other)), Status::WRONG_TYPE)?;
    gives(raw!(zx_handle_close, raw), Status::BAD_HANDLE)
}

fn delete_not_found() -> Outcome {
    let this = this()?;
    for slot in [0, 1, 2, 3, 15, 16, u32::MAX] {
        fails(Endpoint::delete(&this, slot), Status::NOT_FOUND)?;
    }
    Ok(())
}

/// A thread that answers `count` calls: with the sum of the words, their number, and the badge as the label.
fn adder(endpoint: &Endpoint, count: usize) -> Result<thread::JoinHandle<zx::Result<()>>, Failure> {
    let endpoint = endpoint.duplicate(Rights::SAME_RIGHTS)?;
    Ok(thread::spawn(move || {
        let own = endpoint.mint_here(&zx::startup::thread_self(), HAFNON_ENDPOINT_RECEIVE | HAFNON_ENDPOINT_SEND, 0)?;
        let mut words = Words::new(&[]);
        let mut received = own.receive(&mut words)?;
        for done in 1..=count {
            let sum = words.as_slice().iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
            words = Words::new(&[sum, words.as_slice().len() as u64]);
            if done == count {
                return own.answer_only(received.badge, &words);
            }
            received = own.answer(received.badge, &mut words)?;
        }
        Ok(())
    }))
}

fn call_answer() -> Outcome {
    let endpoint = endpoint()?;
    let adder = adder(&endpoint, 2)?;
    let slot = endpoint.mint_here(&this()?, HAFNON_ENDPOINT_CALL, 77)?;
    let mut words = Words::new(&[1, 2, 3]);
    equal(slot.call(5, &mut words)?, 77)?;
    equal(words.as_slice(), &[6, 3][..])?;
    let mut words = Words::new(&[]);
    equal(slot.call(5, &mut words)?, 77)?;
    equal(words.as_slice(), &[0, 0][..])?;
    adder.join().map_err(|_| "the adder panicked")??;
    Ok(())
}

/// Words that do not fit into registers arrive, too.
fn call_long() -> Outcome {
    let endpoint = endpoint()?;
    let adder = adder(&endpoint, 1)?;
    let slot = endpoint.mint_here(&this()?, HAFNON_ENDPOINT_CALL, 1)?;
    let all: Vec<u64> = (0..Words::MOST as u64).map(|n| n * n).collect();
    let mut words = Words::new(&all);
    slot.call(0, &mut words)?;
    equal(words.as_slice(), &[all.iter().sum(), Words::MOST as u64][..])?;
    adder.join().map_err(|_| "the adder panicked")??;
    Ok(())
}

/// `pthread_cancel` does not make its target repeat a request, if the target is at no cancellation point.
fn call_cancelled_thread() -> Outcome {
    let endpoint = endpoint()?;
    let (received, wait_received) = mpsc::channel();
    let (go, wait_go) = mpsc::channel();
    let of_server = endpoint.duplicate(Rights::SAME_RIGHTS)?;
    let server = thread::spawn(move || -> zx::Result<()> {
        let options = HAFNON_ENDPOINT_RECEIVE | HAFNON_ENDPOINT_SEND;
        let own = of_server.mint_here(&zx::startup::thread_self(), options, 0)?;
        let mut words = Words::new(&[]);
        let request = own.receive(&mut words)?;
        let _ = received.send(());
        let _ = wait_go.recv();
        // This is the answer to nobody if the request has been taken back.
        own.answer_only(request.badge, &words)
    });
    let answered = Event::create()?;
    let by_client = answered.duplicate(Rights::SAME_RIGHTS)?;
    let client = pthread::create(None, move || {
        let Ok(slot) = endpoint.mint_here(&zx::startup::thread_self(), HAFNON_ENDPOINT_CALL, 1) else { return 1 };
        let called = slot.call(0, &mut Words::new(&[1]));
        let _ = by_client.signal(Signals::NONE, Signals::USER_0);
        usize::from(called.is_err())
    })
    .map_err(|error| format!("pthread_create gave {error}"))?;
    wait_received.recv().map_err(|_| "the server has no request")?;
    equal(pthread::pthread_cancel(client), 0)?;
    let _ = go.send(());
    answered.wait_one(Signals::USER_0, late())?;
    equal(pthread::join(client), Ok(0))?;
    server.join().map_err(|_| "the server panicked")??;
    Ok(())
}

/// Slots that are not for endpoints, and messages that cannot be sent.
fn call_arguments() -> Outcome {
    let empty = hafnon_endpoint_message_t { label: 0, badge: 0, count: 0, words: [0; Words::MOST] };
    for slot in [0, 1, 2, HAFNON_ENDPOINT_SLOTS_END, u32::MAX] {
        let mut message = empty;
        gives(raw!(zx_endpoint_call, slot, &raw mut message), Status::INVALID_ARGS)?;
        gives(raw!(zx_endpoint_send, slot, 0, &raw const message), Status::INVALID_ARGS)?;
        gives(raw!(zx_endpoint_receive, slot, &raw mut message), Status::INVALID_ARGS)?;
        gives(raw!(zx_endpoint_answer_receive, slot, &raw mut message), Status::INVALID_ARGS)?;
    }
    let endpoint = endpoint()?;
    let slot = endpoint.mint(&this()?, HAFNON_ENDPOINT_CALL | HAFNON_ENDPOINT_RECEIVE, 1)?;
    for wrong in [
        hafnon_endpoint_message_t { label: HAFNON_ENDPOINT_LABELS, ..empty },
        hafnon_endpoint_message_t { count: Words::MOST as u64 + 1, ..empty },
    ] {
        let mut message = wrong;
        gives(raw!(zx_endpoint_call, slot, &raw mut message), Status::INVALID_ARGS)?;
        gives(raw!(zx_endpoint_send, slot, 0, &raw const message), Status::INVALID_ARGS)?;
        gives(raw!(zx_endpoint_answer, &raw const message), Status::INVALID_ARGS)?;
        gives(raw!(zx_endpoint_answer_receive, slot, &raw mut message), Status::INVALID_ARGS)?;
    }
    gives(raw!(zx_endpoint_send, slot, 2, &raw const empty), Status::INVALID_ARGS)?;
    gives(raw!(zx_endpoint_send, slot, HAFNON_ENDPOINT_NO_WAIT, &raw const empty), Status::OK)
}

/// A thread that makes a call that no thread receives; returns its handle and its slot when the call is about to begin.
fn caller(endpoint: &Endpoint) -> Result<(thread::JoinHandle<zx::Result<u64>>, Thread, u32), Failure> {
    let endpoint = endpoint.duplicate(Rights::SAME_RIGHTS)?;
    let (send, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        let slot = endpoint.mint_here(&zx::startup::thread_self(), HAFNON_ENDPOINT_CALL, 1)?;
        drop(endpoint);
        let _ = send.send((zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?, slot.number()));
        slot.call(1, &mut Words::new(&[]))
    });
    let (handle, slot) = told.recv().map_err(|_| "the caller could not begin")?;
    thread::sleep(std::time::Duration::from_millis(20));
    Ok((thread, handle, slot))
}

/// Closing the last handle deletes everything that was minted, and waiting calls fail.
fn call_last_handle() -> Outcome {
    waiting_call_fails(|endpoint| {
        let (caller, ..) = caller(&endpoint)?;
        drop(endpoint);
        Ok(caller)
    })
}

/// `ends` starts a caller and ends its call, which must fail. A call that comes later is refused; in one of several
/// attempts it must have been waiting.
fn waiting_call_fails(ends: impl Fn(Endpoint) -> Result<thread::JoinHandle<zx::Result<u64>>, Failure>) -> Outcome {
    for _ in 0..10 {
        let result = ends(endpoint()?)?.join().map_err(|_| "the caller panicked")?;
        if result != Err(Status::ACCESS_DENIED) {
            return fails(result, Status::PEER_CLOSED);
        }
    }
    Err("the call never waited".into())
}

/// A call through a slot fails when the slot is emptied.
fn call_deleted() -> Outcome {
    waiting_call_fails(|endpoint| {
        let (caller, thread, slot) = caller(&endpoint)?;
        Endpoint::delete(&thread, slot)?;
        Ok(caller)
    })
}

fn send_nobody_waits() -> Outcome {
    let slot = endpoint()?.mint_here(&this()?, HAFNON_ENDPOINT_SEND, 1)?;
    slot.try_send(1, &Words::new(&[1, 2, 3, 4, 5, 6]))?;
    // The endpoint was destroyed with its last handle.
    slot.send(1, &Words::new(&[]))?;
    fails(slot.call(1, &mut Words::new(&[])), Status::ACCESS_DENIED)
}

/// Calls through slot 3, where no thread answers.
const CALL: &[u8] = &[
    0x48, 0xc7, 0xc2, 0xff, 0xff, 0xff, 0xff, // mov rdx, -1
    0xbf, 0x03, 0x00, 0x00, 0x00, // mov edi, 3
    0x31, 0xf6, // xor esi, esi
    0x0f, 0x05, // syscall
    0x0f, 0x0b, // ud2
];
/// Receives from slot 3, where no thread sends.
const RECEIVE: &[u8] = &[
    0x48, 0xc7, 0xc2, 0xfb, 0xff, 0xff, 0xff, // mov rdx, -5
    0xbf, 0x03, 0x00, 0x00, 0x00, // mov edi, 3
    0x31, 0xf6, // xor esi, esi
    0x0f, 0x05, // syscall
    0x0f, 0x0b, // ud2
];

/// A process whose thread is blocked in seL4, and its endpoint.
fn held(code: &[u8], options: u32) -> Result<(TestProcess, Endpoint), Failure> {
    let (endpoint, tiny) = (endpoint()?, TestProcess::new(code)?);
    let token = tiny.process.suspend()?;
    tiny.start(None, 0)?;
    equal(endpoint.mint(&tiny.thread, options, 1)?, HAFNON_ENDPOINT_SLOTS_FROM)?;
    drop(token);
    thread::sleep(std::time::Duration::from_millis(20));
    Ok((tiny, endpoint))
}

/// A thread that is blocked in seL4 is suspended, stays blocked after the resume, and is killed.
fn stuck(code: &[u8], options: u32) -> Outcome {
    let (tiny, _endpoint) = held(code, options)?;
    for _ in 0..2 {
        let token = tiny.thread.suspend()?;
        tiny.thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
        drop(token);
        tiny.thread.wait_one(Signals::THREAD_RUNNING, late())?;
    }
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)
}

/// A receiver can answer a caller that no longer exists; nothing happens.
fn receive_caller_killed() -> Outcome {
    let (tiny, endpoint) = held(CALL, HAFNON_ENDPOINT_CALL)?;
    let own = endpoint.mint_here(&this()?, HAFNON_ENDPOINT_RECEIVE, 0)?;
    let mut words = Words::new(&[]);
    equal(own.receive(&mut words)?, Received { badge: 1, label: 0 })?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)?;
    Ok(own.answer_only(1, &words)?)
}

/// seL4 raises an exception for a receive through a slot without that right.
fn receive_minted_to_send() -> Outcome {
    let (tiny, _endpoint) = held(RECEIVE, HAFNON_ENDPOINT_SEND)?;
    equal(tiny.end()?, EXCEPTION)
}
