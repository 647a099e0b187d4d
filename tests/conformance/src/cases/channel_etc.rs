//! `zx_channel_write_etc`: messages whose handles are moved or duplicated, and checked and reduced one by one.

use abi::{Rights, Status, zx_handle_disposition_t, zx_handle_info_t};
use zx::{AsHandleRef, Channel, Event, Fifo, Handle, HandleRef, Info, Port};

use super::{cases, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "channel.write_etc.duplicates" => duplicates,
    "channel.write_etc.two_of_one_object" => two_of_one_object,
    "channel.write_etc.duplicate_twice" => duplicate_twice,
    "channel.write_etc.move_twice" => move_twice,
    "channel.write_etc.fewer_rights" => fewer_rights,
    "channel.write_etc.no_rights" => no_rights,
    "channel.write_etc.same_rights" => same_rights,
    "channel.write_etc.same_rights_by_bits" => same_rights_by_bits,
    "channel.write_etc.more_rights" => more_rights,
    "channel.write_etc.same_object" => same_object,
    "channel.write_etc.wrong_type_reported" => wrong_type_reported,
    "channel.write_etc.wrong_type_of_all" => wrong_type_of_all,
    "channel.write_etc.bad_operation" => bad_operation,
    "channel.write_etc.bad_handle_reported" => bad_handle_reported,
    "channel.write_etc.each_result_reported" => each_result_reported,
    "channel.write_etc.good_results_stay" => good_results_stay,
    "channel.write_etc.no_transfer_right" => no_transfer_right,
    "channel.write_etc.no_duplicate_right" => no_duplicate_right,
    "channel.write_etc.itself" => itself,
    "channel.write_etc.nothing_at_all" => nothing_at_all,
    "channel.write_etc.count_of_zero" => count_of_zero,
    "channel.write_etc.handle_counts" => handle_counts,
    "channel.write_etc.largest" => largest,
    "channel.write_etc.too_large" => too_large,
    "channel.write_etc.options" => options,
    "channel.write_etc.no_write_right" => no_write_right,
    "channel.write_etc.not_a_channel" => not_a_channel,
    "channel.write_etc.bad_channel" => bad_channel,
    "channel.write_etc.peer_closed" => peer_closed,
    "channel.write_etc.null_with_size" => null_with_size,
    "channel.write_etc.nothing_on_error" => nothing_on_error,
}

const MOVE: u32 = abi::ZX_HANDLE_OP_MOVE;
const DUPLICATE: u32 = abi::ZX_HANDLE_OP_DUPLICATE;
const ANY: u32 = abi::ZX_OBJ_TYPE_NONE;

fn disposition(operation: u32, handle: u32, type_: u32, rights: Rights) -> zx_handle_disposition_t {
    zx_handle_disposition_t { operation, handle, type_, rights: rights.bits(), result: 0 }
}

fn event() -> Result<u32, Failure> {
    Ok(Event::create()?.into_handle().into_raw())
}

fn is_gone(raw: u32) -> Outcome {
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)
}

/// After a write, failed or not, a handle to move is consumed and a handle to duplicate is still valid; this closes the
/// latter.
fn is_left(raw: u32, operation: u32) -> Outcome {
    match operation {
        MOVE => is_gone(raw),
        _ => gives(raw!(zx_handle_close, raw), Status::OK),
    }
}

/// The next message with the information about its handles. The handles stay open until the process ends.
fn read(channel: &Channel) -> zx::Result<(Vec<u8>, Vec<zx_handle_info_t>)> {
    let mut bytes = vec![0; 65536];
    let mut infos = vec![zx_handle_info_t { handle: 0, type_: 0, rights: 0, unused: 9 }; 64];
    let size = channel.read_etc(&mut bytes, &mut infos).map_err(|(status, _)| status)?;
    bytes.truncate(size.bytes);
    infos.truncate(size.handles);
    Ok((bytes, infos))
}

/// The only handle of the next message, owned.
fn one(channel: &Channel) -> Result<(Handle, zx_handle_info_t), Failure> {
    let (_, infos) = read(channel)?;
    equal(infos.len(), 1)?;
    Ok((Handle::from_raw(infos[0].handle).ok_or("there is no handle")?, infos[0]))
}

fn nothing_came(channel: &Channel) -> Outcome {
    fails(read(channel), Status::SHOULD_WAIT)
}

fn duplicates() -> Outcome {
    let (a, b) = Channel::create()?;
    let event = Event::create()?;
    a.write_etc(b"x", &mut [disposition(DUPLICATE, event.raw_handle(), abi::ZX_OBJ_TYPE_EVENT, Rights::SAME_RIGHTS)])?;
    event.check_valid()?;
    equal(one(&b)?.0.koid()?, event.koid()?)
}

fn two_of_one_object() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [DUPLICATE, MOVE] {
        let event = Event::create()?;
        let (koid, twin) = (event.koid()?, event.duplicate(Rights::SAME_RIGHTS)?.into_handle().into_raw());
        let first = event.into_handle().into_raw();
        let item = |raw| disposition(operation, raw, ANY, Rights::SAME_RIGHTS);
        a.write_etc(b"", &mut [item(first), item(twin)])?;
        is_left(first, operation)?;
        is_left(twin, operation)?;
        let (_, infos) = read(&b)?;
        equal(infos.len(), 2)?;
        for info in infos {
            equal(Handle::from_raw(info.handle).ok_or("there is no handle")?.koid()?, koid)?;
        }
    }
    Ok(())
}

fn duplicate_twice() -> Outcome {
    let (a, b) = Channel::create()?;
    let event = Event::create()?;
    let item = disposition(DUPLICATE, event.raw_handle(), ANY, Rights::SAME_RIGHTS);
    a.write_etc(b"", &mut [item, item])?;
    let (_, infos) = read(&b)?;
    equal(infos.len(), 2)?;
    ensure(infos[0].handle != infos[1].handle, "both are one handle")?;
    for info in infos {
        equal(Handle::from_raw(info.handle).ok_or("there is no handle")?.koid()?, event.koid()?)?;
    }
    event.check_valid().map_err(Into::into)
}

fn move_twice() -> Outcome {
    let (a, b) = Channel::create()?;
    let raw = event()?;
    let mut list = [disposition(MOVE, raw, ANY, Rights::SAME_RIGHTS); 2];
    fails(a.write_etc(b"", &mut list), Status::BAD_HANDLE)?;
    equal((list[0].result, list[1].result), (0, Status::BAD_HANDLE.0))?;
    is_gone(raw)?;
    nothing_came(&b)
}

fn fewer_rights() -> Outcome {
    let (a, b) = Channel::create()?;
    let rights = Rights::WAIT | Rights::INSPECT;
    for operation in [DUPLICATE, MOVE] {
        let raw = event()?;
        let before = HandleRef::from_raw(raw).basic_info()?.rights;
        a.write_etc(b"x", &mut [disposition(operation, raw, ANY, rights)])?;
        if operation == DUPLICATE {
            equal(HandleRef::from_raw(raw).basic_info()?.rights, before)?;
        }
        is_left(raw, operation)?;
        let (handle, info) = one(&b)?;
        equal((info.type_, handle.basic_info()?.type_), (abi::ZX_OBJ_TYPE_EVENT, abi::ZX_OBJ_TYPE_EVENT))?;
        equal((info.rights, handle.basic_info()?.rights), (rights.bits(), rights.bits()))?;
        // The right to transfer is among the removed rights.
        fails(b.write(b"", [handle]), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn no_rights() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [DUPLICATE, MOVE] {
        let raw = event()?;
        a.write_etc(b"", &mut [disposition(operation, raw, ANY, Rights::NONE)])?;
        is_left(raw, operation)?;
        let (handle, info) = one(&b)?;
        equal((info.rights, info.type_), (0, abi::ZX_OBJ_TYPE_EVENT))?;
        equal(handle.basic_info()?.rights, 0)?;
        fails(handle.duplicate_handle(Rights::SAME_RIGHTS), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn same_rights() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [DUPLICATE, MOVE] {
        let port = Port::create()?.into_handle();
        let rights = port.basic_info()?.rights;
        a.write_etc(b"", &mut [disposition(operation, port.raw_handle(), ANY, Rights::SAME_RIGHTS)])?;
        if operation == MOVE {
            is_gone(port.into_raw())?;
        }
        equal(one(&b)?.1.rights, rights)?;
    }
    Ok(())
}

fn same_rights_by_bits() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [DUPLICATE, MOVE] {
        let fifo = Fifo::create(8, 8)?.0.into_handle();
        let rights = fifo.basic_info()?.rights;
        let raw = fifo.into_raw();
        let item = disposition(operation, raw, abi::ZX_OBJ_TYPE_FIFO, Rights::from_bits_retain(rights));
        a.write_etc(b"", &mut [item])?;
        is_left(raw, operation)?;
        let (handle, info) = one(&b)?;
        equal((info.rights, info.type_), (rights, abi::ZX_OBJ_TYPE_FIFO))?;
        equal(handle.basic_info()?.rights, rights)?;
    }
    Ok(())
}

fn more_rights() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [DUPLICATE, MOVE] {
        let event = without(&Event::create()?, Rights::SIGNAL)?;
        let raw = event.into_raw();
        let mut list = [disposition(operation, raw, ANY, Rights::BASIC | Rights::SIGNAL)];
        fails(a.write_etc(b"", &mut list), Status::INVALID_ARGS)?;
        equal(list[0].result, Status::INVALID_ARGS.0)?;
        equal(HandleRef::from_raw(raw).check_valid().is_ok(), operation == DUPLICATE)?;
    }
    nothing_came(&b)
}

fn same_object() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [DUPLICATE, MOVE] {
        let event = Event::create()?;
        let before = event.basic_info()?;
        let raw = event.into_handle().into_raw();
        a.write_etc(b"", &mut [disposition(operation, raw, ANY, Rights::SAME_RIGHTS)])?;
        is_left(raw, operation)?;
        let (handle, info) = one(&b)?;
        equal((info.type_, info.unused), (abi::ZX_OBJ_TYPE_EVENT, 0))?;
        let after = handle.basic_info()?;
        equal((after.koid, after.rights, after.type_), (before.koid, before.rights, before.type_))?;
    }
    Ok(())
}

fn wrong_type_reported() -> Outcome {
    let (a, b) = Channel::create()?;
    let (good, wrong) = (event()?, event()?);
    let mut list = [
        disposition(MOVE, good, abi::ZX_OBJ_TYPE_EVENT, Rights::SAME_RIGHTS),
        disposition(MOVE, wrong, abi::ZX_OBJ_TYPE_PORT, Rights::SAME_RIGHTS),
    ];
    fails(a.write_etc(b"x", &mut list), Status::WRONG_TYPE)?;
    equal((list[0].result, list[1].result), (0, Status::WRONG_TYPE.0))?;
    // Handles to move are consumed in any case.
    is_gone(good)?;
    is_gone(wrong)?;
    nothing_came(&b)
}

fn wrong_type_of_all() -> Outcome {
    let (a, b) = Channel::create()?;
    for type_ in (0..256).filter(|type_| ![ANY, abi::ZX_OBJ_TYPE_EVENT].contains(type_)) {
        for operation in [DUPLICATE, MOVE] {
            let raw = event()?;
            let mut list = [disposition(operation, raw, type_, Rights::SAME_RIGHTS)];
            fails(a.write_etc(b"x", &mut list), Status::WRONG_TYPE)?;
            equal(list[0].result, Status::WRONG_TYPE.0)?;
            is_left(raw, operation)?;
        }
    }
    nothing_came(&b)
}

fn bad_operation() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [2, 77, u32::MAX] {
        let raw = event()?;
        let mut list = [disposition(operation, raw, ANY, Rights::SAME_RIGHTS)];
        fails(a.write_etc(b"x", &mut list), Status::INVALID_ARGS)?;
        equal(list[0].result, Status::INVALID_ARGS.0)?;
        is_gone(raw)?;
    }
    nothing_came(&b)
}

fn bad_handle_reported() -> Outcome {
    let (a, b) = Channel::create()?;
    let closed = Event::create()?.raw_handle();
    for bad in [0, 1, closed, 0xffff_fffb, u32::MAX] {
        for operation in [DUPLICATE, MOVE] {
            let mut list = [disposition(operation, bad, ANY, Rights::SAME_RIGHTS)];
            fails(a.write_etc(b"x", &mut list), Status::BAD_HANDLE)?;
            equal(list[0].result, Status::BAD_HANDLE.0)?;
        }
    }
    nothing_came(&b)
}

fn each_result_reported() -> Outcome {
    let (a, b) = Channel::create()?;
    let kept = without(&Event::create()?, Rights::DUPLICATE)?;
    let mut list = [
        disposition(MOVE, event()?, ANY, Rights::SAME_RIGHTS),
        disposition(MOVE, event()?, abi::ZX_OBJ_TYPE_TIMER, Rights::SAME_RIGHTS),
        disposition(DUPLICATE, kept.raw_handle(), ANY, Rights::SAME_RIGHTS),
        disposition(MOVE, 0, ANY, Rights::SAME_RIGHTS),
        disposition(MOVE, event()?, ANY, Rights::READ | Rights::EXECUTE),
        disposition(9, event()?, ANY, Rights::SAME_RIGHTS),
        disposition(MOVE, event()?, abi::ZX_OBJ_TYPE_EVENT, Rights::WAIT),
    ];
    // The call returns the first of the errors.
    fails(a.write_etc(b"x", &mut list), Status::WRONG_TYPE)?;
    let expected = [
        Status::OK,
        Status::WRONG_TYPE,
        Status::ACCESS_DENIED,
        Status::BAD_HANDLE,
        Status::INVALID_ARGS,
        Status::INVALID_ARGS,
        Status::OK,
    ];
    equal(list.map(|item| Status(item.result)), expected)?;
    kept.check_valid()?;
    for item in list.iter().filter(|item| item.operation != DUPLICATE) {
        is_gone(item.handle)?;
    }
    nothing_came(&b)
}

fn good_results_stay() -> Outcome {
    // The server writes the result only of failed entries: the field of a valid entry keeps its old value.
    let (a, b) = Channel::create()?;
    let odd = |handle, type_| zx_handle_disposition_t {
        result: Status::UNAVAILABLE.0,
        ..disposition(MOVE, handle, type_, Rights::SAME_RIGHTS)
    };
    let mut list = [odd(event()?, ANY), odd(event()?, abi::ZX_OBJ_TYPE_PORT)];
    fails(a.write_etc(b"x", &mut list), Status::WRONG_TYPE)?;
    equal(list.map(|item| Status(item.result)), [Status::UNAVAILABLE, Status::WRONG_TYPE])?;
    let mut list = [odd(event()?, ANY)];
    a.write_etc(b"x", &mut list)?;
    equal(Status(list[0].result), Status::UNAVAILABLE)?;
    one(&b).map(drop)
}

fn no_transfer_right() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [DUPLICATE, MOVE] {
        let raw = without(&Event::create()?, Rights::TRANSFER)?.into_raw();
        let mut list = [disposition(operation, raw, ANY, Rights::SAME_RIGHTS)];
        fails(a.write_etc(b"x", &mut list), Status::ACCESS_DENIED)?;
        equal(list[0].result, Status::ACCESS_DENIED.0)?;
        equal(HandleRef::from_raw(raw).check_valid().is_ok(), operation == DUPLICATE)?;
    }
    nothing_came(&b)
}

fn no_duplicate_right() -> Outcome {
    let (a, b) = Channel::create()?;
    let event = without(&Event::create()?, Rights::DUPLICATE)?;
    let mut list = [disposition(DUPLICATE, event.raw_handle(), ANY, Rights::SAME_RIGHTS)];
    fails(a.write_etc(b"x", &mut list), Status::ACCESS_DENIED)?;
    equal(list[0].result, Status::ACCESS_DENIED.0)?;
    nothing_came(&b)?;
    a.write_etc(b"x", &mut [disposition(MOVE, event.into_raw(), ANY, Rights::SAME_RIGHTS)])?;
    one(&b).map(drop)
}

fn itself() -> Outcome {
    for operation in [DUPLICATE, MOVE] {
        let (a, b) = Channel::create()?;
        let raw = a.into_handle().into_raw();
        let mut list = [disposition(operation, raw, ANY, Rights::SAME_RIGHTS)];
        let status = raw!(zx_channel_write_etc, raw, 0, 0, 0, list.as_mut_ptr(), 1);
        gives(status, Status::NOT_SUPPORTED)?;
        equal(list[0].result, Status::NOT_SUPPORTED.0)?;
        // A handle to move was consumed, as in every failed write.
        equal(HandleRef::from_raw(raw).check_valid().is_ok(), operation == DUPLICATE)?;
        fails(read(&b), if operation == DUPLICATE { Status::SHOULD_WAIT } else { Status::PEER_CLOSED })?;
    }
    Ok(())
}

fn nothing_at_all() -> Outcome {
    let (a, b) = Channel::create()?;
    gives(raw!(zx_channel_write_etc, a.raw_handle(), 0, 0, 0, 0, 0), Status::OK)?;
    equal(read(&b)?.0.len(), 0)
}

fn count_of_zero() -> Outcome {
    let (a, b) = Channel::create()?;
    for operation in [DUPLICATE, MOVE] {
        let events = (0..64).map(|_| Event::create()).collect::<zx::Result<Vec<_>>>()?;
        let item = |event: &Event| disposition(operation, event.raw_handle(), ANY, Rights::SAME_RIGHTS);
        let mut list: Vec<_> = events.iter().map(item).collect();
        gives(raw!(zx_channel_write_etc, a.raw_handle(), 0, 0, 0, list.as_mut_ptr(), 0), Status::OK)?;
        equal(read(&b)?.1.len(), 0)?;
        for event in &events {
            event.check_valid()?;
        }
    }
    Ok(())
}

fn handle_counts() -> Outcome {
    let (a, b) = Channel::create()?;
    for (count, operation) in [0, 1, 2, 63, 64, 65, 130].into_iter().flat_map(|n| [(n, DUPLICATE), (n, MOVE)]) {
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(disposition(operation, event()?, ANY, Rights::SAME_RIGHTS));
        }
        let result = a.write_etc(b"", &mut list);
        if count > 64 {
            fails(result, Status::OUT_OF_RANGE)?;
            nothing_came(&b)?;
        } else {
            result?;
            let infos = read(&b)?.1;
            equal(infos.len(), count)?;
            infos.iter().for_each(|info| drop(Handle::from_raw(info.handle)));
        }
        for item in &list {
            is_left(item.handle, operation)?;
        }
    }
    Ok(())
}

fn largest() -> Outcome {
    let (a, b) = Channel::create()?;
    let message: Vec<u8> = (0..65536_u32).map(|index| (index % 253) as u8).collect();
    a.write_etc(&message, &mut [])?;
    ensure(read(&b)?.0 == message, "it came out changed")
}

fn too_large() -> Outcome {
    let (a, b) = Channel::create()?;
    let raw = event()?;
    let mut list = [disposition(MOVE, raw, ANY, Rights::SAME_RIGHTS)];
    fails(a.write_etc(&[0; 65537], &mut list), Status::OUT_OF_RANGE)?;
    is_gone(raw)?;
    nothing_came(&b)
}

fn options() -> Outcome {
    let (a, b) = Channel::create()?;
    for options in [1_u32, 4, 0x8000_0000] {
        for operation in [DUPLICATE, MOVE] {
            let raw = event()?;
            let mut list = [disposition(operation, raw, ANY, Rights::SAME_RIGHTS)];
            let status = raw!(zx_channel_write_etc, a.raw_handle(), options, 0, 0, list.as_mut_ptr(), 1);
            gives(status, Status::INVALID_ARGS)?;
            is_left(raw, operation)?;
        }
    }
    nothing_came(&b)
}

fn no_write_right() -> Outcome {
    let (a, b) = Channel::create()?;
    let a = a.replace(Rights::READ | Rights::WAIT | Rights::TRANSFER)?;
    for operation in [DUPLICATE, MOVE] {
        let raw = event()?;
        let mut list = [disposition(operation, raw, ANY, Rights::SAME_RIGHTS)];
        fails(a.write_etc(b"x", &mut list), Status::ACCESS_DENIED)?;
        is_left(raw, operation)?;
    }
    nothing_came(&b)
}

fn not_a_channel() -> Outcome {
    let port = Port::create()?;
    for operation in [DUPLICATE, MOVE] {
        let raw = event()?;
        let mut list = [disposition(operation, raw, ANY, Rights::SAME_RIGHTS)];
        gives(raw!(zx_channel_write_etc, port.raw_handle(), 0, 0, 0, list.as_mut_ptr(), 1), Status::WRONG_TYPE)?;
        is_left(raw, operation)?;
    }
    port.check_valid().map_err(Into::into)
}

fn bad_channel() -> Outcome {
    let closed = Channel::create()?.0.raw_handle();
    for bad in [0_u32, closed, 0xffff_fffb] {
        for operation in [DUPLICATE, MOVE] {
            let raw = event()?;
            let mut list = [disposition(operation, raw, ANY, Rights::SAME_RIGHTS)];
            gives(raw!(zx_channel_write_etc, bad, 0, 0, 0, list.as_mut_ptr(), 1), Status::BAD_HANDLE)?;
            is_left(raw, operation)?;
        }
    }
    Ok(())
}

fn peer_closed() -> Outcome {
    let (a, b) = Channel::create()?;
    drop(b);
    let (raw, kept) = (event()?, Event::create()?);
    let mut list = [
        disposition(MOVE, raw, ANY, Rights::SAME_RIGHTS),
        disposition(DUPLICATE, kept.raw_handle(), ANY, Rights::SAME_RIGHTS),
    ];
    fails(a.write_etc(b"x", &mut list), Status::PEER_CLOSED)?;
    is_gone(raw)?;
    kept.check_valid().map_err(Into::into)
}

fn null_with_size() -> Outcome {
    let (a, b) = Channel::create()?;
    gives(raw!(zx_channel_write_etc, a.raw_handle(), 0, 0, 1, 0, 0), Status::INVALID_ARGS)?;
    gives(raw!(zx_channel_write_etc, a.raw_handle(), 0, 0, 0, 0, 1), Status::INVALID_ARGS)?;
    let raw = event()?;
    let mut list = [disposition(MOVE, raw, ANY, Rights::SAME_RIGHTS)];
    gives(raw!(zx_channel_write_etc, a.raw_handle(), 0, 0, 1, list.as_mut_ptr(), 1), Status::INVALID_ARGS)?;
    is_gone(raw)?;
    nothing_came(&b)
}

fn nothing_on_error() -> Outcome {
    let (a, b) = Channel::create()?;
    let (local, remote) = Channel::create()?;
    let mut list = [
        disposition(MOVE, remote.into_handle().into_raw(), ANY, Rights::SAME_RIGHTS),
        disposition(MOVE, 0, ANY, Rights::SAME_RIGHTS),
    ];
    fails(a.write_etc(b"x", &mut list), Status::BAD_HANDLE)?;
    nothing_came(&b)?;
    // The handles that were already taken are closed, not leaked.
    ensure(local.signals()?.contains(zx::Signals::PEER_CLOSED), "a handle of the failed message lives on")?;
    a.write(b"next", [])?;
    equal(read(&b)?.0, b"next".to_vec())
}
