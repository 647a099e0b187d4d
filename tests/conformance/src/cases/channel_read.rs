//! Reading of messages from channels.

use abi::{Rights, Status, zx_handle_info_t};
use zx::{AsHandleRef, Channel, Event, Fifo, Handle, Info, MessageSize, Signals};

use super::{cases, raw};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "channel.read.empty" => empty,
    "channel.read.peer_closed" => peer_closed,
    "channel.read.what_is_left" => what_is_left,
    "channel.read.small_buffer_keeps" => small_buffer_keeps,
    "channel.read.small_handle_buffer_keeps" => small_handle_buffer_keeps,
    "channel.read.may_discard" => may_discard,
    "channel.read.may_discard_bytes" => may_discard_bytes,
    "channel.read.may_discard_handles" => may_discard_handles,
    "channel.read.may_discard_small" => may_discard_small,
    "channel.read.may_discard_zero" => may_discard_zero,
    "channel.read.may_discard_fits" => may_discard_fits,
    "channel.read.options" => options,
    "channel.read.bad_buffer_keeps" => bad_buffer_keeps,
    "channel.read.overlapping_buffers" => overlapping_buffers,
    "channel.read.rights" => rights,
    "channel.read_etc.types_and_rights" => read_etc_types_and_rights,
}

fn read(channel: &Channel, room: usize) -> zx::Result<Vec<u8>> {
    let mut bytes = vec![0; room];
    let size = channel.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
    bytes.truncate(size.bytes);
    Ok(bytes)
}

fn empty() -> Outcome {
    let (a, _b) = Channel::create()?;
    fails(read(&a, 1), Status::SHOULD_WAIT)
}

fn peer_closed() -> Outcome {
    let (a, b) = Channel::create()?;
    drop(b);
    fails(read(&a, 1), Status::PEER_CLOSED)?;
    equal(a.signals()?, Signals::PEER_CLOSED)
}

fn what_is_left() -> Outcome {
    let (a, b) = Channel::create()?;
    for number in 0..4_u8 {
        b.write(&[number; 5], [])?;
    }
    drop(b);
    for number in 0..4 {
        equal(a.signals()?, Signals::READABLE | Signals::PEER_CLOSED)?;
        equal(read(&a, 64)?, vec![number; 5])?;
    }
    equal(a.signals()?, Signals::PEER_CLOSED)?;
    fails(read(&a, 64), Status::PEER_CLOSED)
}

fn small_buffer_keeps() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"twelve bytes", [])?;
    let result = a.read(&mut [0; 4], &mut []);
    equal(result, Err((Status::BUFFER_TOO_SMALL, MessageSize { bytes: 12, handles: 0 })))?;
    equal(read(&a, 12)?, b"twelve bytes".to_vec())
}

fn small_handle_buffer_keeps() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"x", [Event::create()?.into_handle(), Event::create()?.into_handle()])?;
    let result = a.read(&mut [0; 4], &mut [None]);
    equal(result, Err((Status::BUFFER_TOO_SMALL, MessageSize { bytes: 1, handles: 2 })))?;
    let mut handles = [None, None];
    a.read(&mut [0; 4], &mut handles).map_err(|(status, _)| status)?;
    ensure(handles.iter().all(Option::is_some), "a handle is missing")
}

/// A message of 12 bytes and two handles does not fit and is discarded with its handles. The arguments give for the
/// bytes and for the handles the length of the buffer, and whether its address is null.
fn discarded((bytes, null_bytes): (usize, bool), (handles, null_handles): (usize, bool)) -> Outcome {
    let (a, b) = Channel::create()?;
    let (local, remote) = Channel::create()?;
    b.write(b"long message", [Event::create()?.into_handle(), remote.into_handle()])?;
    b.write(b"next", [])?;
    let (mut byte_room, mut handle_room) = ([7_u8; 12], [7_u32; 2]);
    let (mut actual_bytes, mut actual_handles) = (0_u32, 0_u32);
    let status = raw!(
        zx_channel_read,
        a.raw_handle(),
        abi::ZX_CHANNEL_READ_MAY_DISCARD,
        if null_bytes { std::ptr::null_mut() } else { byte_room.as_mut_ptr() },
        if null_handles { std::ptr::null_mut() } else { handle_room.as_mut_ptr() },
        bytes,
        handles,
        &raw mut actual_bytes,
        &raw mut actual_handles
    );
    gives(status, Status::BUFFER_TOO_SMALL)?;
    equal((actual_bytes, actual_handles), (12, 2))?;
    equal((byte_room, handle_room), ([7; 12], [7; 2]))?;
    ensure(local.signals()?.contains(Signals::PEER_CLOSED), "the message's handles live on")?;
    equal(read(&a, 64)?, b"next".to_vec())
}

fn may_discard() -> Outcome {
    discarded((0, true), (0, true))
}

fn may_discard_bytes() -> Outcome {
    discarded((0, true), (2, false))?;
    // A message that does not fit is discarded before the server checks the buffer's address.
    discarded((1, true), (2, false))?;
    discarded((11, true), (2, true))
}

fn may_discard_handles() -> Outcome {
    discarded((12, false), (0, true))?;
    discarded((12, false), (1, true))?;
    discarded((12, true), (1, true))
}

fn may_discard_small() -> Outcome {
    discarded((11, false), (2, false))?;
    discarded((12, false), (1, false))?;
    discarded((11, false), (1, false))
}

fn may_discard_zero() -> Outcome {
    discarded((0, false), (0, false))
}

fn may_discard_fits() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"fits", [])?;
    let mut bytes = [0_u8; 4];
    let option = abi::ZX_CHANNEL_READ_MAY_DISCARD;
    gives(raw!(zx_channel_read, a.raw_handle(), option, bytes.as_mut_ptr(), 0, 4, 0, 0, 0), Status::OK)?;
    equal(&bytes, b"fits")
}

fn options() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"x", [])?;
    for options in [2_u32, 0x8000_0000, 3] {
        gives(raw!(zx_channel_read, a.raw_handle(), options, 0, 0, 0, 0, 0, 0), Status::NOT_SUPPORTED)?;
    }
    equal(read(&a, 1)?, b"x".to_vec())
}

fn bad_buffer_keeps() -> Outcome {
    let (a, b) = Channel::create()?;
    let event = Event::create()?;
    let koid = event.koid()?;
    b.write(b"stay", [event.into_handle()])?;
    let (mut bytes, mut handles, mut actual) = ([0_u8; 4], [0_u32; 1], 0_u32);
    let (bytes_at, handles_at) = (bytes.as_mut_ptr() as u64, handles.as_mut_ptr() as u64);
    let actual_at = &raw mut actual as u64;
    const BAD: u64 = 0x1000;
    for [to_bytes, to_handles, size, count] in [
        [BAD, handles_at, actual_at, actual_at],
        [bytes_at, BAD, actual_at, actual_at],
        [bytes_at, handles_at, BAD, actual_at],
        [bytes_at, handles_at, actual_at, BAD],
    ] {
        let status = raw!(zx_channel_read, a.raw_handle(), 0, to_bytes, to_handles, 4, 1, size, count);
        gives(status, Status::INVALID_ARGS)?;
    }
    ensure(a.signals()?.contains(Signals::READABLE), "the message is lost")?;
    let mut handles = [None];
    a.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?;
    equal(&bytes, b"stay")?;
    equal(handles[0].take().ok_or("the handle is lost")?.koid()?, koid)
}

fn overlapping_buffers() -> Outcome {
    // The bytes are written first, then the handles over them.
    let (a, b) = Channel::create()?;
    b.write(&[0xee; 8], [Event::create()?.into_handle()])?;
    let mut words = [0_u32; 2];
    let address = words.as_mut_ptr();
    gives(raw!(zx_channel_read, a.raw_handle(), 0, address, address, 8, 1, 0, 0), Status::OK)?;
    equal(words[1], 0xeeee_eeee)?;
    let handle = Handle::from_raw(words[0]).ok_or("there is no handle")?;
    handle.check_valid().map_err(Into::into)
}

fn rights() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"x", [])?;
    let a = a.replace(Rights::WRITE | Rights::WAIT | Rights::TRANSFER)?;
    fails(read(&a, 1), Status::ACCESS_DENIED)
}

fn read_etc_types_and_rights() -> Outcome {
    let (a, b) = Channel::create()?;
    let rights = Rights::WAIT | Rights::TRANSFER | Rights::INSPECT;
    let (near, far) = Fifo::create(32, 8)?;
    let event = Event::create()?;
    let weak = Event::create()?.replace(rights)?;
    let channel = Channel::create()?.0.into_handle();
    b.write(b"x", [near.into_handle(), event.into_handle(), weak.into_handle(), far.into_handle(), channel])?;
    let mut infos = [zx_handle_info_t { handle: 0, type_: 0, rights: 0, unused: 9 }; 6];
    let size = a.read_etc(&mut [0; 8], &mut infos).map_err(|(status, _)| status)?;
    equal(size, MessageSize { bytes: 1, handles: 5 })?;
    let expected = [
        (abi::ZX_OBJ_TYPE_FIFO, abi::ZX_DEFAULT_FIFO_RIGHTS),
        (abi::ZX_OBJ_TYPE_EVENT, abi::ZX_DEFAULT_EVENT_RIGHTS),
        (abi::ZX_OBJ_TYPE_EVENT, rights),
        (abi::ZX_OBJ_TYPE_FIFO, abi::ZX_DEFAULT_FIFO_RIGHTS),
        (abi::ZX_OBJ_TYPE_CHANNEL, abi::ZX_DEFAULT_CHANNEL_RIGHTS),
    ];
    for (info, (type_, rights)) in infos.iter().zip(expected) {
        equal((info.type_, info.rights, info.unused), (type_, rights.bits(), 0))?;
        // The reported information is that of the handle.
        let handle = Handle::from_raw(info.handle).ok_or("a handle is null")?;
        equal((handle.basic_info()?.type_, handle.basic_info()?.rights), (type_, rights.bits()))?;
    }
    equal((infos[5].handle, infos[5].unused), (0, 9))
}
