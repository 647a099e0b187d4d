//! Handles: closing, duplicating, replacing.

use zx::{AsHandleRef, Event, Handle, HandleRef, Info, Rights, Status};

use super::{cases, raw};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "handle.close.ends_the_value" => close_ends_the_value,
    "handle.close.null_is_ok" => close_null_is_ok,
    "handle.close.twice" => close_twice,
    "handle.close_many.all" => close_many_all,
    "handle.close_many.closes_the_others" => close_many_closes_the_others,
    "handle.close_many.none" => close_many_none,
    "handle.create.fixed_bits" => create_fixed_bits,
    "handle.create.many" => create_many,
    "handle.duplicate.same_object" => duplicate_same_object,
    "handle.duplicate.fewer_rights" => duplicate_fewer_rights,
    "handle.duplicate.more_rights" => duplicate_more_rights,
    "handle.duplicate.without_right" => duplicate_without_right,
    "handle.duplicate.outlives_the_first" => duplicate_outlives_the_first,
    "handle.replace.fewer_rights" => replace_fewer_rights,
    "handle.replace.more_rights_closes" => replace_more_rights_closes,
    "handle.replace.ends_the_value" => replace_ends_the_value,
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
    fails(event.duplicate(Rights::WAIT | Rights::SIGNAL), Status::INVALID_ARGS)
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
