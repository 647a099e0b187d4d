//! Channels: messages of bytes and handles.

use std::sync::Arc;
use std::thread;

use abi::{Rights, Status, zx_handle_disposition_t, zx_handle_info_t};
use zx::{AsHandleRef, Channel, Event, Handle, HandleRef, Info, MessageSize, MonotonicInstant, Signals};

use super::{cases, late, raw, without};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "channel.create.options" => create_options,
    "channel.create.writable" => create_writable,
    "channel.write.then_read" => write_then_read,
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
    "channel.write_etc.duplicates" => write_etc_duplicates,
    "channel.write_etc.fewer_rights" => write_etc_fewer_rights,
    "channel.write_etc.wrong_type_told" => write_etc_wrong_type_told,
    "channel.write_etc.bad_operation" => write_etc_bad_operation,
    "channel.read.empty" => read_empty,
    "channel.read.peer_closed" => read_peer_closed,
    "channel.read.what_is_left" => read_what_is_left,
    "channel.read.small_buffer_keeps" => read_small_buffer_keeps,
    "channel.read.small_handle_buffer_keeps" => read_small_handle_buffer_keeps,
    "channel.read.may_discard" => read_may_discard,
    "channel.read.rights" => read_rights,
    "channel.read_etc.tells" => read_etc_tells,
    "channel.signals.readable" => signals_readable,
    "channel.close.frees_messages" => close_frees_messages,
    "channel.nested.handles_live" => nested_handles_live,
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

fn write_then_read() -> Outcome {
    let (a, b) = Channel::create()?;
    for length in [1, 4, 100, 4095, 4096, 4097, 10_000] {
        let message: Vec<u8> = (0..length).map(|index| (index * 7 + length) as u8).collect();
        a.write(&message, [])?;
        ensure(read(&b, 65536)? == message, &format!("{length} bytes came out changed"))?;
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
    let events = (0..65).map(|_| Event::create().map(|event| event.into_handle().into_raw()));
    let events = events.collect::<zx::Result<Vec<u32>>>()?;
    gives(raw!(zx_channel_write, a.raw_handle(), 0, 0, 0, events.as_ptr(), 65), Status::OUT_OF_RANGE)?;
    fails(read(&b, 0), Status::SHOULD_WAIT)
}

fn write_itself() -> Outcome {
    let (a, b) = Channel::create()?;
    let raw = a.raw_handle();
    let handles = [raw];
    gives(raw!(zx_channel_write, raw, 0, 0, 0, handles.as_ptr(), 1), Status::NOT_SUPPORTED)?;
    fails(
        read(&b, 0).map(drop),
        if b.signals()?.contains(Signals::PEER_CLOSED) { Status::PEER_CLOSED } else { Status::SHOULD_WAIT },
    )?;
    // The call may have consumed it; closing what is gone would close something else.
    std::mem::forget(a);
    Ok(())
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
    drop(b);
    let event = Event::create()?.into_handle();
    let raw = event.raw_handle();
    fails(a.write(b"x", [event]), Status::PEER_CLOSED)?;
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)
}

fn disposition(operation: u32, handle: u32, type_: u32, rights: Rights) -> zx_handle_disposition_t {
    zx_handle_disposition_t { operation, handle, type_, rights: rights.bits(), result: 0 }
}

fn write_etc_duplicates() -> Outcome {
    let (a, b) = Channel::create()?;
    let event = Event::create()?;
    let mut list =
        [disposition(abi::ZX_HANDLE_OP_DUPLICATE, event.raw_handle(), abi::ZX_OBJ_TYPE_EVENT, Rights::SAME_RIGHTS)];
    a.write_etc(b"x", &mut list)?;
    event.check_valid()?;
    let mut handles = [None];
    b.read(&mut [0; 1], &mut handles).map_err(|(status, _)| status)?;
    equal(handles[0].take().ok_or("there is no handle")?.koid()?, event.koid()?)
}

fn write_etc_fewer_rights() -> Outcome {
    let (a, b) = Channel::create()?;
    let raw = Event::create()?.into_handle().into_raw();
    let rights = Rights::WAIT | Rights::INSPECT;
    let mut list = [disposition(abi::ZX_HANDLE_OP_MOVE, raw, abi::ZX_OBJ_TYPE_NONE, rights)];
    a.write_etc(b"x", &mut list)?;
    let mut handles = [None];
    b.read(&mut [0; 1], &mut handles).map_err(|(status, _)| status)?;
    equal(handles[0].take().ok_or("there is no handle")?.basic_info()?.rights, rights.bits())
}

fn write_etc_wrong_type_told() -> Outcome {
    let (a, b) = Channel::create()?;
    let good = Event::create()?.into_handle().into_raw();
    let wrong = Event::create()?.into_handle().into_raw();
    let mut list = [
        disposition(abi::ZX_HANDLE_OP_MOVE, good, abi::ZX_OBJ_TYPE_EVENT, Rights::SAME_RIGHTS),
        disposition(abi::ZX_HANDLE_OP_MOVE, wrong, abi::ZX_OBJ_TYPE_PORT, Rights::SAME_RIGHTS),
    ];
    fails(a.write_etc(b"x", &mut list), Status::WRONG_TYPE)?;
    equal((list[0].result, list[1].result), (0, Status::WRONG_TYPE.0))?;
    fails(read(&b, 1), Status::SHOULD_WAIT)?;
    // Handles to be moved are gone whatever happens.
    fails(HandleRef::from_raw(good).check_valid(), Status::BAD_HANDLE)
}

fn write_etc_bad_operation() -> Outcome {
    let (a, b) = Channel::create()?;
    let raw = Event::create()?.into_handle().into_raw();
    let mut list = [disposition(77, raw, abi::ZX_OBJ_TYPE_NONE, Rights::SAME_RIGHTS)];
    fails(a.write_etc(b"x", &mut list), Status::INVALID_ARGS)?;
    fails(read(&b, 1), Status::SHOULD_WAIT)
}

fn read_empty() -> Outcome {
    let (a, _b) = Channel::create()?;
    fails(read(&a, 1), Status::SHOULD_WAIT)
}

fn read_peer_closed() -> Outcome {
    let (a, b) = Channel::create()?;
    drop(b);
    fails(read(&a, 1), Status::PEER_CLOSED)?;
    equal(a.signals()?, Signals::PEER_CLOSED)
}

fn read_what_is_left() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"last words", [])?;
    drop(b);
    equal(a.signals()?, Signals::READABLE | Signals::PEER_CLOSED)?;
    equal(read(&a, 64)?, b"last words".to_vec())?;
    fails(read(&a, 64), Status::PEER_CLOSED)
}

fn read_small_buffer_keeps() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"twelve bytes", [])?;
    let result = a.read(&mut [0; 4], &mut []);
    equal(result, Err((Status::BUFFER_TOO_SMALL, MessageSize { bytes: 12, handles: 0 })))?;
    equal(read(&a, 12)?, b"twelve bytes".to_vec())
}

fn read_small_handle_buffer_keeps() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"x", [Event::create()?.into_handle(), Event::create()?.into_handle()])?;
    let result = a.read(&mut [0; 4], &mut [None]);
    equal(result, Err((Status::BUFFER_TOO_SMALL, MessageSize { bytes: 1, handles: 2 })))?;
    let mut handles = [None, None];
    a.read(&mut [0; 4], &mut handles).map_err(|(status, _)| status)?;
    ensure(handles.iter().all(Option::is_some), "a handle is missing")
}

fn read_may_discard() -> Outcome {
    let (a, b) = Channel::create()?;
    let event = Event::create()?;
    let (local, remote) = Channel::create()?;
    b.write(b"long message", [event.into_handle(), remote.into_handle()])?;
    let discard = abi::ZX_CHANNEL_READ_MAY_DISCARD;
    let mut actual = [0_u32; 2];
    let [bytes, handles] = &mut actual;
    let status = raw!(zx_channel_read, a.raw_handle(), discard, 0, 0, 0, 0, &raw mut *bytes, &raw mut *handles);
    gives(status, Status::BUFFER_TOO_SMALL)?;
    equal(actual, [12, 2])?;
    fails(read(&a, 64), Status::SHOULD_WAIT)?;
    ensure(local.signals()?.contains(Signals::PEER_CLOSED), "the message's handles live on")
}

fn read_rights() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"x", [])?;
    let a = a.replace(Rights::WRITE | Rights::WAIT | Rights::TRANSFER)?;
    fails(read(&a, 1), Status::ACCESS_DENIED)
}

fn read_etc_tells() -> Outcome {
    let (a, b) = Channel::create()?;
    let rights = Rights::WAIT | Rights::TRANSFER | Rights::INSPECT;
    let event = Event::create()?.replace(rights)?;
    b.write(b"x", [event.into_handle(), Channel::create()?.0.into_handle()])?;
    let mut infos = [zx_handle_info_t { handle: 0, type_: 0, rights: 0, unused: 9 }; 4];
    let size = a.read_etc(&mut [0; 8], &mut infos).map_err(|(status, _)| status)?;
    equal(size, MessageSize { bytes: 1, handles: 2 })?;
    equal((infos[0].type_, infos[0].rights, infos[0].unused), (abi::ZX_OBJ_TYPE_EVENT, rights.bits(), 0))?;
    equal(infos[1].type_, abi::ZX_OBJ_TYPE_CHANNEL)?;
    for info in &infos[..2] {
        let handle = Handle::from_raw(info.handle).ok_or("a handle is null")?;
        handle.check_valid()?;
    }
    Ok(())
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

fn close_frees_messages() -> Outcome {
    let (a, b) = Channel::create()?;
    let (local, remote) = Channel::create()?;
    a.write(b"x", [remote.into_handle()])?;
    equal(local.signals()?, Signals::WRITABLE)?;
    drop((a, b));
    ensure(local.signals()?.contains(Signals::PEER_CLOSED), "a handle in a message outlives its channel")
}

fn nested_handles_live() -> Outcome {
    // A channel in a message of a channel in a message, ten deep, with a word at the bottom.
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

fn threads_each_message_once() -> Outcome {
    const MESSAGES: u32 = 2000;
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
        all.extend(reader.join().map_err(|_| "a reader panicked")??);
    }
    all.sort_unstable();
    ensure(all == (0..MESSAGES).collect::<Vec<_>>(), "messages are lost or came twice")?;
    fails(b.wait_one(Signals::READABLE, MonotonicInstant::ZERO), Status::TIMED_OUT)
}
