//! Handles: closing, duplicating, replacing.

use abi::zx_info_handle_count_t;
use zx::{AsHandleRef, Channel, Event, Handle, HandleRef, Info, Rights, Status};

use super::{cases, raw};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "handle.close.ends_the_value" => close_ends_the_value,
    "handle.close.null_is_ok" => close_null_is_ok,
    "handle.close.twice" => close_twice,
    "handle.close.value_reused_late" => close_value_reused_late,
    "handle.close_many.all" => close_many_all,
    "handle.close_many.closes_the_others" => close_many_closes_the_others,
    "handle.close_many.none" => close_many_none,
    "handle.close_many.same_twice" => close_many_same_twice,
    "handle.close_many.nulls" => close_many_nulls,
    "handle.close_many.hundreds" => close_many_hundreds,
    "handle.close_many.too_many" => close_many_too_many,
    "handle.check_valid.of_all_kinds" => check_valid_of_all_kinds,
    "handle.transfer.read_through_the_new_handle" => transfer_read_through_the_new_handle,
    "handle.transfer.value_is_gone" => transfer_value_is_gone,
    "handle.create.fixed_bits" => create_fixed_bits,
    "handle.create.many" => create_many,
    "handle.duplicate.same_object" => duplicate_same_object,
    "handle.duplicate.fewer_rights" => duplicate_fewer_rights,
    "handle.duplicate.more_rights" => duplicate_more_rights,
    "handle.duplicate.without_right" => duplicate_without_right,
    "handle.duplicate.outlives_the_first" => duplicate_outlives_the_first,
    "handle.duplicate.no_rights" => duplicate_no_rights,
    "handle.duplicate.unknown_rights" => duplicate_unknown_rights,
    "handle.duplicate.bad_pointer_gives_nothing" => duplicate_bad_pointer_gives_nothing,
    "handle.replace.fewer_rights" => replace_fewer_rights,
    "handle.replace.more_rights_closes" => replace_more_rights_closes,
    "handle.replace.ends_the_value" => replace_ends_the_value,
    "handle.replace.needs_no_right" => replace_needs_no_right,
    "handle.replace.bad_pointer_closes" => replace_bad_pointer_closes,
    "handle.replace.unknown_rights_close" => replace_unknown_rights_close,
}

fn rights(handle: &impl AsHandleRef) -> zx::Result<Rights> {
    Ok(Rights::from_bits_retain(handle.as_handle_ref().basic_info()?.rights))
}

fn close_ends_the_value() -> Outcome {
    let raw = Event::create()?.into_handle().into_raw();
    gives(raw!(zx_handle_close, raw), Status::OK)?;
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)
}

fn close_null_is_ok() -> Outcome {
    gives(raw!(zx_handle_close, 0), Status::OK)
}

fn close_twice() -> Outcome {
    let raw = Event::create()?.into_handle().into_raw();
    gives(raw!(zx_handle_close, raw), Status::OK)?;
    gives(raw!(zx_handle_close, raw), Status::BAD_HANDLE)
}

fn close_many_all() -> Outcome {
    let raw = [Event::create()?, Event::create()?, Event::create()?].map(|event| event.into_handle().into_raw());
    let list = [raw[0], 0, raw[1], raw[2]];
    gives(raw!(zx_handle_close_many, list.as_ptr(), list.len()), Status::OK)?;
    raw.iter().try_for_each(|raw| fails(HandleRef::from_raw(*raw).check_valid(), Status::BAD_HANDLE))
}

fn close_many_closes_the_others() -> Outcome {
    let raw = [Event::create()?, Event::create()?].map(|event| event.into_handle().into_raw());
    let list = [raw[0], 0xffff_ffff, raw[1]];
    gives(raw!(zx_handle_close_many, list.as_ptr(), list.len()), Status::BAD_HANDLE)?;
    raw.iter().try_for_each(|raw| fails(HandleRef::from_raw(*raw).check_valid(), Status::BAD_HANDLE))
}

fn close_many_none() -> Outcome {
    gives(raw!(zx_handle_close_many, 0, 0), Status::OK)
}

fn create_fixed_bits() -> Outcome {
    for _ in 0..64 {
        let event = Event::create()?;
        equal(event.raw_handle() & 3, 3)?;
    }
    Ok(())
}

fn create_many() -> Outcome {
    let events = (0..5000).map(|_| Event::create()).collect::<zx::Result<Vec<Event>>>()?;
    let mut values: Vec<u32> = events.iter().map(AsHandleRef::raw_handle).collect();
    values.sort_unstable();
    values.dedup();
    equal(values.len(), 5000)?;
    drop(events);
    fails(HandleRef::from_raw(values[0]).check_valid(), Status::BAD_HANDLE)?;
    fails(HandleRef::from_raw(values[4999]).check_valid(), Status::BAD_HANDLE)
}

fn duplicate_same_object() -> Outcome {
    let event = Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    ensure(twin.raw_handle() != event.raw_handle(), "the values are the same")?;
    equal(twin.koid()?, event.koid()?)?;
    equal(rights(&twin)?, rights(&event)?)
}

fn duplicate_fewer_rights() -> Outcome {
    let event = Event::create()?;
    let twin = event.duplicate(Rights::WAIT | Rights::INSPECT)?;
    equal(rights(&twin)?, Rights::WAIT | Rights::INSPECT)?;
    fails(twin.signal(zx::Signals::NONE, zx::Signals::USER_0), Status::ACCESS_DENIED)
}

fn duplicate_more_rights() -> Outcome {
    let event = Event::create()?.replace(Rights::WAIT | Rights::DUPLICATE)?;
    fails(event.duplicate(Rights::WAIT | Rights::SIGNAL), Status::INVALID_ARGS)?;
    let event = Event::create()?;
    fails(event.duplicate(Rights::WAIT | Rights::EXECUTE), Status::INVALID_ARGS)?;
    event.check_valid().map_err(Into::into)
}

fn duplicate_without_right() -> Outcome {
    let event = Event::create()?.replace(Rights::WAIT)?;
    fails(event.duplicate(Rights::SAME_RIGHTS), Status::ACCESS_DENIED)
}

fn duplicate_outlives_the_first() -> Outcome {
    let event = Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    event.signal(zx::Signals::NONE, zx::Signals::USER_3)?;
    drop(event);
    ensure(twin.signals()?.contains(zx::Signals::USER_3), "the signal is gone")
}

fn replace_fewer_rights() -> Outcome {
    let event = Event::create()?;
    let koid = event.koid()?;
    let event = event.replace(Rights::INSPECT)?;
    equal(event.koid()?, koid)?;
    equal(rights(&event)?, Rights::INSPECT)
}

fn replace_more_rights_closes() -> Outcome {
    let event = Event::create()?.replace(Rights::INSPECT)?;
    let raw = event.raw_handle();
    fails(event.replace(Rights::INSPECT | Rights::SIGNAL), Status::INVALID_ARGS)?;
    fails(HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)
}

fn replace_ends_the_value() -> Outcome {
    let event = Event::create()?;
    let before = event.raw_handle();
    let event: Handle = event.into_handle().replace(Rights::SAME_RIGHTS)?;
    ensure(event.raw_handle() != before, "the value is the same")?;
    fails(HandleRef::from_raw(before).check_valid(), Status::BAD_HANDLE)
}

fn count(object: &impl AsHandleRef) -> zx::Result<u32> {
    let record: zx_info_handle_count_t = object.as_handle_ref().info_record(abi::ZX_INFO_HANDLE_COUNT)?;
    Ok(record.handle_count)
}

fn close_many_same_twice() -> Outcome {
    let event = Event::create()?;
    let raw = [(); 3].map(|()| event.duplicate(Rights::SAME_RIGHTS).map(|twin| twin.into_handle().into_raw()));
    let [a, b, c] = [raw[0]?, raw[1]?, raw[2]?];
    let list = [a, b, a, b, c];
    gives(raw!(zx_handle_close_many, list.as_ptr(), list.len()), Status::BAD_HANDLE)?;
    // All are closed, and none twice.
    equal(count(&event)?, 1)
}

fn close_many_nulls() -> Outcome {
    let list = [0_u32; 100];
    gives(raw!(zx_handle_close_many, list.as_ptr(), list.len()), Status::OK)?;
    // Among valid handles they have no effect.
    let (near, far): (Vec<_>, Vec<_>) =
        (0..4).map(|_| zx::EventPair::create()).collect::<zx::Result<Vec<_>>>()?.into_iter().unzip();
    let mut list: Vec<u32> = near.into_iter().map(|end| end.into_handle().into_raw()).collect();
    list.extend([0, 0]);
    gives(raw!(zx_handle_close_many, list.as_ptr(), list.len()), Status::OK)?;
    far.iter().try_for_each(|end| equal(end.signals()?, zx::Signals::PEER_CLOSED))
}

fn close_value_reused_late() -> Outcome {
    let event = Event::create()?;
    let first = event.duplicate(Rights::SAME_RIGHTS)?.raw_handle();
    for round in 1..2048 {
        let value = event.duplicate(Rights::SAME_RIGHTS)?.raw_handle();
        ensure(value != first, &format!("it comes again in round {round}"))?;
    }
    fails(HandleRef::from_raw(first).check_valid(), Status::BAD_HANDLE)
}

fn close_many_hundreds() -> Outcome {
    let event = Event::create()?;
    let mut list = Vec::new();
    for _ in 0..3000 {
        list.push(event.duplicate(Rights::SAME_RIGHTS)?.into_handle().into_raw());
    }
    equal(count(&event)?, 3001)?;
    gives(raw!(zx_handle_close_many, list.as_ptr(), list.len()), Status::OK)?;
    equal(count(&event)?, 1)
}

fn close_many_too_many() -> Outcome {
    // An invalid list closes nothing.
    let event = Event::create()?;
    let value = event.raw_handle();
    gives(raw!(zx_handle_close_many, &raw const value, 1_u64 << 40), Status::OUT_OF_RANGE)?;
    event.as_handle_ref().check_valid()?;
    Ok(())
}

fn check_valid_of_all_kinds() -> Outcome {
    let event = Event::create()?.replace(Rights::NONE)?;
    event.as_handle_ref().check_valid()?;
    for value in [0, 1, 2, 0x7fff_ffff, 0xffff_ffff] {
        fails(HandleRef::from_raw(value).check_valid(), Status::BAD_HANDLE)?;
    }
    Ok(())
}

fn transfer_read_through_the_new_handle() -> Outcome {
    // The holder of a transferred handle reads messages that were written before the transfer.
    let (a, b) = Channel::create()?;
    let (c, d) = Channel::create()?;
    a.write(b"first", [])?;
    let value = b.raw_handle();
    c.write(b"take it", [b.into_handle()])?;
    a.write(b"second", [])?;
    fails(HandleRef::from_raw(value).check_valid(), Status::BAD_HANDLE)?;
    let (mut bytes, mut handles) = ([0; 16], [const { None }; 1]);
    let size = d.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?;
    equal((size.bytes, size.handles), (7, 1))?;
    let b = Channel::from(handles[0].take().ok_or("there is no handle")?);
    for text in [&b"first"[..], b"second"] {
        let size = b.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
        equal(&bytes[..size.bytes], text)?;
    }
    drop(a);
    fails(b.read(&mut bytes, &mut []).map_err(|(status, _)| status), Status::PEER_CLOSED)
}

fn transfer_value_is_gone() -> Outcome {
    let (a, b) = Channel::create()?;
    let event = Event::create()?;
    let (koid, value) = (event.koid()?, event.raw_handle());
    a.write(b"", [event.into_handle()])?;
    fails(HandleRef::from_raw(value).check_valid(), Status::BAD_HANDLE)?;
    let mut handles = [const { None }; 1];
    b.read(&mut [], &mut handles).map_err(|(status, _)| status)?;
    let event = handles[0].take().ok_or("there is no handle")?;
    ensure(event.raw_handle() != value, "it has its old value")?;
    equal(event.koid()?, koid)
}

fn duplicate_no_rights() -> Outcome {
    let event = Event::create()?;
    let bare = event.duplicate(Rights::NONE)?;
    equal(rights(&bare)?, Rights::NONE)?;
    fails(bare.duplicate(Rights::NONE), Status::ACCESS_DENIED)?;
    fails(bare.signal(zx::Signals::NONE, zx::Signals::USER_0), Status::ACCESS_DENIED)
}

fn duplicate_unknown_rights() -> Outcome {
    let event = Event::create()?;
    let mut out = 0x5a5a_5a5a_u32;
    for wanted in [1_u32 << 30, u32::MAX, Rights::SAME_RIGHTS.bits() | 1] {
        gives(raw!(zx_handle_duplicate, event.raw_handle(), wanted, &raw mut out), Status::INVALID_ARGS)?;
    }
    equal((out, count(&event)?), (0x5a5a_5a5a, 1))
}

fn duplicate_bad_pointer_gives_nothing() -> Outcome {
    let event = Event::create()?;
    for (rights, bad) in [(Rights::SAME_RIGHTS, 0x1000_u64), (Rights::SAME_RIGHTS, 0), (Rights::NONE, 0)] {
        gives(raw!(zx_handle_duplicate, event.raw_handle(), rights.bits(), bad), Status::INVALID_ARGS)?;
        equal(count(&event)?, 1)?;
    }
    Ok(())
}

fn replace_needs_no_right() -> Outcome {
    let bare = Event::create()?.replace(Rights::NONE)?;
    let bare = bare.replace(Rights::SAME_RIGHTS)?;
    equal(rights(&bare)?, Rights::NONE)
}

fn replace_bad_pointer_closes() -> Outcome {
    let event = Event::create()?;
    for (rights, bad) in [(Rights::SAME_RIGHTS, 0x1000_u64), (Rights::SAME_RIGHTS, 0), (Rights::NONE, 0)] {
        let twin = event.duplicate(Rights::SAME_RIGHTS)?.into_handle().into_raw();
        gives(raw!(zx_handle_replace, twin, rights.bits(), bad), Status::INVALID_ARGS)?;
        fails(HandleRef::from_raw(twin).check_valid(), Status::BAD_HANDLE)?;
        equal(count(&event)?, 1)?;
    }
    Ok(())
}

fn replace_unknown_rights_close() -> Outcome {
    let event = Event::create()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?.into_handle().into_raw();
    let mut out = 0x5a5a_5a5a_u32;
    gives(raw!(zx_handle_replace, twin, 1_u32 << 30, &raw mut out), Status::INVALID_ARGS)?;
    fails(HandleRef::from_raw(twin).check_valid(), Status::BAD_HANDLE)?;
    equal((out, count(&event)?), (0x5a5a_5a5a, 1))
}
