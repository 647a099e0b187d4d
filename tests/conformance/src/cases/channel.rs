//! Channels: messages of bytes and handles.

use std::sync::Arc;
use std::thread;

use abi::{Rights, Status, zx_wait_item_t};
use zx::{AsHandleRef, Channel, Event, HandleRef, Info, MessageSize, MonotonicInstant, Signals};

use super::asleep::Caller;
use super::{cases, late, raw, without};
use crate::caught_exception::against_policy;
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "channel.create.options" => create_options,
    "channel.create.writable" => create_writable,
    "channel.create.related" => create_related,
    "channel.write.then_read" => write_then_read,
    "channel.write.sizes" => write_sizes,
    "channel.write.empty_message" => write_empty_message,
    "channel.write.order" => write_order,
    "channel.write.largest" => write_largest,
    "channel.write.too_large" => write_too_large,
    "channel.write.peer_closed" => write_peer_closed,
    "channel.write.options" => write_options,
    "channel.write.rights" => write_rights,
    "channel.write.moves_handles" => write_moves_handles,
    "channel.write.most_handles" => write_most_handles,
    "channel.write.too_many_handles" => write_too_many_handles,
    "channel.write.itself" => write_itself,
    "channel.write.handle_twice" => write_handle_twice,
    "channel.write.no_transfer_right" => write_no_transfer_right,
    "channel.write.consumes_on_error" => write_consumes_on_error,
    "channel.write.until_full" => write_until_full,
    "channel.signals.readable" => signals_readable,
    "channel.signal_peer.peer_closed" => signal_peer_closed,
    "channel.wait_many.one_of_two" => wait_many_one_of_two,
    "channel.wait_many.both" => wait_many_both,
    "channel.close.frees_messages" => close_frees_messages,
    "channel.nested.handles_live" => nested_handles_live,
    "channel.nested.hundreds_are_destroyed" => nested_hundreds_are_destroyed,
    "channel.threads.each_message_once" => threads_each_message_once,
}

fn read(channel: &Channel, room: usize) -> zx::Result<Vec<u8>> {
    let mut bytes = vec![0; room];
    let size = channel.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
    bytes.truncate(size.bytes);
    Ok(bytes)
}

fn create_options() -> Outcome {
    let mut out = [0_u32; 2];
    let [a, b] = &mut out;
    gives(raw!(zx_channel_create, 1, &raw mut *a, &raw mut *b), Status::INVALID_ARGS)
}

fn create_writable() -> Outcome {
    let (a, b) = Channel::create()?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE))
}

fn create_related() -> Outcome {
    let (a, b) = Channel::create()?;
    equal((a.basic_info()?.related_koid, b.basic_info()?.related_koid), (b.koid()?, a.koid()?))?;
    equal(a.basic_info()?.type_, abi::ZX_OBJ_TYPE_CHANNEL)?;
    equal(Rights::from_bits_retain(a.basic_info()?.rights), abi::ZX_DEFAULT_CHANNEL_RIGHTS)
}

fn write_then_read() -> Outcome {
    let (a, b) = Channel::create()?;
    for length in [1, 4, 100, 4095, 4096, 4097, 10_000] {
        let message: Vec<u8> = (0..length).map(|index| (index * 7 + length) as u8).collect();
        a.write(&message, [])?;
        ensure(read(&b, 65536)? == message, &format!("{length} bytes came out changed"))?;
    }
    Ok(())
}

fn write_sizes() -> Outcome {
    // Many sizes of data and numbers of handles, in steps that have no common divisor.
    let (a, b) = Channel::create()?;
    let (mut bytes, mut handles) = (vec![0; 65536], [const { None }; 64]);
    for round in 0..400_usize {
        let (length, count) = (round * 1237 % 65537, round * 29 % 65);
        let message: Vec<u8> = (0..length).map(|index| (index + round) as u8).collect();
        let events = (0..count).map(|_| Event::create().map(Event::into_handle)).collect::<zx::Result<Vec<_>>>()?;
        let last = events.last().map(Info::koid).transpose()?;
        a.write_handles(&message, events)?;
        let room = (&mut bytes[..length], &mut handles[..count]);
        let size = b.read(room.0, room.1).map_err(|(status, _)| status)?;
        equal(size, MessageSize { bytes: length, handles: count })?;
        ensure(bytes[..length] == message, &format!("{length} bytes came out changed"))?;
        let got: Vec<_> = handles.iter_mut().map_while(Option::take).collect();
        equal((got.len(), got.last().map(Info::koid).transpose()?), (count, last))?;
    }
    Ok(())
}

fn write_empty_message() -> Outcome {
    let (a, b) = Channel::create()?;
    a.write(&[], [])?;
    ensure(b.signals()?.contains(Signals::READABLE), "it is not readable")?;
    equal(read(&b, 8)?, Vec::new())?;
    fails(read(&b, 8), Status::SHOULD_WAIT)
}

fn write_order() -> Outcome {
    let (a, b) = Channel::create()?;
    for number in 0..1000_u32 {
        a.write(&number.to_le_bytes(), [])?;
    }
    for number in 0..1000_u32 {
        equal(read(&b, 4)?, number.to_le_bytes().to_vec())?;
    }
    fails(read(&b, 4), Status::SHOULD_WAIT)
}

fn write_largest() -> Outcome {
    let (a, b) = Channel::create()?;
    let message: Vec<u8> = (0..65536_u32).map(|index| (index >> 3) as u8).collect();
    a.write(&message, [])?;
    ensure(read(&b, 65536)? == message, "it came out changed")
}

fn write_too_large() -> Outcome {
    let (a, b) = Channel::create()?;
    fails(a.write(&[0; 65537], []), Status::OUT_OF_RANGE)?;
    fails(read(&b, 65536), Status::SHOULD_WAIT)
}

fn write_peer_closed() -> Outcome {
    let (a, b) = Channel::create()?;
    drop(b);
    fails(a.write(b"x", []), Status::PEER_CLOSED)
}

fn write_options() -> Outcome {
    let (a, _b) = Channel::create()?;
    gives(raw!(zx_channel_write, a.raw_handle(), 1, 0, 0, 0, 0), Status::INVALID_ARGS)
}

fn write_rights() -> Outcome {
    let (a, _b) = Channel::create()?;
    let a = a.replace(Rights::READ | Rights::WAIT | Rights::TRANSFER)?;
    fails(a.write(b"x", []), Status::ACCESS_DENIED)
}

fn write_moves_handles() -> Outcome {
    let (a, b) = Channel::create()?;
    let event = Event::create()?;
    let (koid, raw) = (event.koid()?, event.raw_handle());
    event.signal(Signals::NONE, Signals::USER_1)?;
    a.write(b"take it", [event.into_handle()])?;
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)?;
    let (mut bytes, mut handles) = ([0; 16], [None, None]);
    let size = b.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?;
    equal(size, MessageSize { bytes: 7, handles: 1 })?;
    let event = handles[0].take().ok_or("there is no handle")?;
    equal(event.koid()?, koid)?;
    ensure(event.signals()?.contains(Signals::USER_1), "its state is lost")
}

fn write_most_handles() -> Outcome {
    let (a, b) = Channel::create()?;
    let events = (0..64).map(|_| Event::create().map(Event::into_handle)).collect::<zx::Result<Vec<_>>>()?;
    let koids = events.iter().map(Info::koid).collect::<zx::Result<Vec<_>>>()?;
    a.write_handles(&[], events)?;
    let mut handles = [const { None }; 64];
    let size = b.read(&mut [], &mut handles).map_err(|(status, _)| status)?;
    equal(size.handles, 64)?;
    let received = handles.iter().flatten().map(Info::koid).collect::<zx::Result<Vec<_>>>()?;
    ensure(received == koids, "they came out in another order")
}

fn write_too_many_handles() -> Outcome {
    let (a, b) = Channel::create()?;
    for count in [65, 200] {
        let events = (0..count).map(|_| Event::create().map(|event| event.into_handle().into_raw()));
        let events = events.collect::<zx::Result<Vec<u32>>>()?;
        gives(raw!(zx_channel_write, a.raw_handle(), 0, 0, 0, events.as_ptr(), count), Status::OUT_OF_RANGE)?;
        for event in events {
            fails(HandleRef::from_raw(event).check_valid(), Status::BAD_HANDLE)?;
        }
    }
    fails(read(&b, 0), Status::SHOULD_WAIT)
}

fn write_itself() -> Outcome {
    let (a, b) = Channel::create()?;
    let raw = a.into_handle().into_raw();
    let handles = [raw];
    gives(raw!(zx_channel_write, raw, 0, 0, 0, handles.as_ptr(), 1), Status::NOT_SUPPORTED)?;
    // The call consumes the handle, as every failed write does.
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)?;
    fails(read(&b, 0), Status::PEER_CLOSED)
}

fn write_handle_twice() -> Outcome {
    let (a, b) = Channel::create()?;
    let raw = Event::create()?.into_handle().into_raw();
    let handles = [raw, raw];
    gives(raw!(zx_channel_write, a.raw_handle(), 0, 0, 0, handles.as_ptr(), 2), Status::BAD_HANDLE)?;
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)?;
    fails(read(&b, 0), Status::SHOULD_WAIT)
}

fn write_no_transfer_right() -> Outcome {
    let (a, _b) = Channel::create()?;
    let event = without(&Event::create()?, Rights::TRANSFER)?;
    let raw = event.raw_handle();
    fails(a.write(b"x", [event]), Status::ACCESS_DENIED)?;
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)
}

fn write_consumes_on_error() -> Outcome {
    let (a, b) = Channel::create()?;
    let gone = |status: Status, channel: u32, options: u32, bytes: (u64, u32)| {
        let handles = [(); 3].map(|()| Event::create().map(|event| event.into_handle().into_raw()));
        let [x, y, z] = handles;
        let handles = [x?, y?, z?];
        gives(raw!(zx_channel_write, channel, options, bytes.0, bytes.1, handles.as_ptr(), 3), status)?;
        handles.iter().try_for_each(|&raw| fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE))
    };
    gone(Status::INVALID_ARGS, a.raw_handle(), 1, (0, 0))?;
    gone(Status::BAD_HANDLE, 0, 0, (0, 0))?;
    gone(Status::WRONG_TYPE, Event::create()?.raw_handle(), 0, (0, 0))?;
    gone(Status::INVALID_ARGS, a.raw_handle(), 0, (0, 1))?;
    gone(Status::OUT_OF_RANGE, a.raw_handle(), 0, (0, 65537))?;
    fails(read(&b, 0), Status::SHOULD_WAIT)?;
    drop(b);
    gone(Status::PEER_CLOSED, a.raw_handle(), 0, (0, 0))
}

fn write_until_full() -> Outcome {
    let (a, b) = Channel::create()?;
    let mut written = 0_u32;
    // The server treats the writer as a runaway: it raises an exception, and the call fails with a status if a handler
    // handles that.
    let end = against_policy(abi::ZX_EXCP_POLICY_CODE_CHANNEL_FULL_WRITE, || {
        loop {
            match a.write(&written.to_le_bytes(), []) {
                Ok(()) if written > 100_000 => return Status::OK,
                Ok(()) => written += 1,
                Err(status) => return status,
            }
        }
    })?;
    equal(end, Status::SHOULD_WAIT)?;
    ensure(written >= 1000, "a channel holds very few messages")?;
    equal(read(&b, 4)?, 0_u32.to_le_bytes().to_vec())?;
    a.write(&written.to_le_bytes(), [])?;
    for number in 1..=written {
        equal(read(&b, 4)?, number.to_le_bytes().to_vec())?;
    }
    fails(read(&b, 4), Status::SHOULD_WAIT)
}

fn signals_readable() -> Outcome {
    let (a, b) = Channel::create()?;
    a.write(b"1", [])?;
    a.write(b"2", [])?;
    equal(b.signals()?, Signals::READABLE | Signals::WRITABLE)?;
    equal(a.signals()?, Signals::WRITABLE)?;
    read(&b, 1)?;
    ensure(b.signals()?.contains(Signals::READABLE), "one message is left")?;
    read(&b, 1)?;
    equal(b.signals()?, Signals::WRITABLE)
}

fn signal_peer_closed() -> Outcome {
    let (a, b) = Channel::create()?;
    a.signal_peer(Signals::NONE, Signals::USER_0)?;
    ensure(b.signals()?.contains(Signals::USER_0), "the peer has not the signal")?;
    drop(b);
    fails(a.signal_peer(Signals::NONE, Signals::USER_0), Status::PEER_CLOSED)
}

/// A thread waits for two channels while messages are written to those numbered in `writes`; returns how many messages
/// arrived from each until both peers were closed.
fn wait_many(writes: &'static [usize]) -> Result<[u32; 2], Failure> {
    let (ends, others): (Vec<_>, Vec<_>) = [Channel::create()?, Channel::create()?].into_iter().unzip();
    let wanted = Signals::READABLE | Signals::PEER_CLOSED;
    let reader = Caller::new(abi::ZX_THREAD_STATE_BLOCKED_WAIT_MANY, move || {
        let item = |end: &Channel| zx_wait_item_t { handle: end.raw_handle(), waitfor: wanted.bits(), pending: 0 };
        let mut items: Vec<_> = ends.iter().map(item).collect();
        let mut came = [0; 2];
        loop {
            zx::wait_many(&mut items, late())?;
            let pending = [0, 1].map(|number: usize| Signals::from_bits_retain(items[number].pending));
            match pending.iter().position(|signals| signals.contains(Signals::READABLE)) {
                Some(number) => came[number] += u32::from(read(&ends[number], 8)? == b"x"),
                None if pending == [Signals::PEER_CLOSED; 2] => return Ok::<_, Status>(came),
                // A channel whose peer is closed is not waited for any longer.
                None => (0..2).filter(|&n| pending[n] == Signals::PEER_CLOSED).for_each(|n| items[n].waitfor = 0),
            }
        }
    })?;
    for &number in writes {
        others[number].write(b"x", [])?;
    }
    drop(others);
    Ok(reader.join()??)
}

fn wait_many_one_of_two() -> Outcome {
    equal(wait_many(&[0])?, [1, 0])?;
    equal(wait_many(&[1])?, [0, 1])?;
    // Messages that arrived before the wait count as well.
    let (ends, others): (Vec<_>, Vec<_>) = [Channel::create()?, Channel::create()?].into_iter().unzip();
    others[1].write(b"x", [])?;
    let readable = Signals::READABLE.bits();
    let item = |end: &Channel| zx_wait_item_t { handle: end.raw_handle(), waitfor: readable, pending: 0 };
    let mut items: Vec<_> = ends.iter().map(item).collect();
    zx::wait_many(&mut items, late())?;
    equal([items[0].pending & readable, items[1].pending & readable], [0, readable])
}

fn wait_many_both() -> Outcome {
    equal(wait_many(&[1, 0])?, [1, 1])?;
    equal(wait_many(&[0, 1, 1, 0, 0])?, [3, 2])
}

fn close_frees_messages() -> Outcome {
    // Closing an end frees the messages that it has not read, and none that it has written.
    let (a, b) = Channel::create()?;
    let [(to_b, in_b), (to_a, in_a)] = [Channel::create()?, Channel::create()?];
    a.write(b"x", [in_b.into_handle()])?;
    b.write(b"x", [in_a.into_handle()])?;
    equal((to_a.signals()?, to_b.signals()?), (Signals::WRITABLE, Signals::WRITABLE))?;
    drop(a);
    equal(to_a.signals()?, Signals::PEER_CLOSED)?;
    equal(to_b.signals()?, Signals::WRITABLE)?;
    drop(b);
    equal(to_b.signals()?, Signals::PEER_CLOSED)
}

fn nested_handles_live() -> Outcome {
    // A channel in a message of a channel in a message, ten levels deep, with a text at the bottom.
    let (mut outer, mut end) = Channel::create()?;
    let (bottom, word) = Channel::create()?;
    word.write(b"down here", [])?;
    let mut inner = bottom;
    for _ in 0..10 {
        outer.write(b"n", [inner.into_handle()])?;
        let next = Channel::create()?;
        inner = end;
        (outer, end) = next;
    }
    outer.write(b"n", [inner.into_handle()])?;
    let mut current = end;
    for _ in 0..11 {
        let mut handles = [None];
        current.read(&mut [0; 1], &mut handles).map_err(|(status, _)| status)?;
        current = Channel::from(handles[0].take().ok_or("there is no handle")?);
    }
    equal(read(&current, 64)?, b"down here".to_vec())
}

fn nested_hundreds_are_destroyed() -> Outcome {
    // Both ends of each channel lie in a message of the next channel; a witness shows that the innermost channel has
    // been destroyed.
    let (witness, far) = zx::EventPair::create()?;
    let mut around = Channel::create()?;
    around.0.write(b"n", [far.into_handle()])?;
    for _ in 1..200 {
        let next = Channel::create()?;
        next.0.write(b"n", [around.0.into_handle(), around.1.into_handle()])?;
        around = next;
    }
    equal(witness.signals()?, Signals::NONE)?;
    drop(around);
    witness.wait_one(Signals::PEER_CLOSED, late())?;
    Ok(())
}

fn threads_each_message_once() -> Outcome {
    const MESSAGES: u32 = 3000;
    let (a, b) = Channel::create()?;
    let b = Arc::new(b);
    let reader = |channel: Arc<Channel>| {
        move || {
            let mut got = Vec::new();
            let mut bytes = [0; 4];
            loop {
                match channel.read_wait(&mut bytes, &mut [], late()) {
                    Ok(_) => got.push(u32::from_le_bytes(bytes)),
                    Err(Status::PEER_CLOSED) => return Ok(got),
                    Err(status) => return Err(status),
                }
            }
        }
    };
    let readers: Vec<_> = (0..4).map(|_| thread::spawn(reader(Arc::clone(&b)))).collect();
    for number in 0..MESSAGES {
        a.write(&number.to_le_bytes(), [])?;
    }
    drop(a);
    let mut all = Vec::new();
    for reader in readers {
        let got = reader.join().map_err(|_| "a reader panicked")??;
        ensure(got.is_sorted_by(|one, next| one < next), "a reader got a later message first")?;
        all.extend(got);
    }
    all.sort_unstable();
    ensure(all == (0..MESSAGES).collect::<Vec<_>>(), "messages are lost or came twice")?;
    fails(b.wait_one(Signals::READABLE, MonotonicInstant::ZERO), Status::TIMED_OUT)
}
