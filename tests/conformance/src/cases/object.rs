//! Calls that work on every object: information, properties, signals.

use abi::{Rights, Status};
use zx::{AsHandleRef, Channel, Counter, Event, EventPair, Handle, Info, Job, Port, Signals, Socket, Timer, Vmo};

use super::{cases, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "object.get_info.basic" => get_info_basic,
    "object.get_info.koids_differ" => get_info_koids_differ,
    "object.get_info.related" => get_info_related,
    "object.get_info.buffer_too_small" => get_info_buffer_too_small,
    "object.get_info.unknown_topic" => get_info_unknown_topic,
    "object.get_info.wrong_type" => get_info_wrong_type,
    "object.get_info.handle_valid" => get_info_handle_valid,
    "object.get_child.rights" => get_child_rights,
    "object.get_child.not_found" => get_child_not_found,
    "object.get_child.self" => get_child_self,
    "object.get_child.bad_handle" => get_child_bad_handle,
    "object.get_child.more_rights" => get_child_more_rights,
    "object.get_child.wrong_type" => get_child_wrong_type,
    "object.get_child.of_another_parent" => get_child_of_another_parent,
    "object.get_child.bad_pointer_gives_nothing" => get_child_bad_pointer_gives_nothing,
    "object.signal.bad_masks_change_nothing" => signal_bad_masks_change_nothing,
    "object.signal.each_type" => signal_each_type,
    "object.property.name" => property_name,
    "object.property.name_is_cut" => property_name_is_cut,
    "object.property.small_buffer" => property_small_buffer,
    "object.property.unknown" => property_unknown,
    "object.property.rights" => property_rights,
    "object.signal.sets_and_clears" => signal_sets_and_clears,
    "object.signal.system_signals" => signal_system_signals,
    "object.signal.rights" => signal_rights,
    "object.signal_peer.reaches_the_peer" => signal_peer_reaches_the_peer,
    "object.signal_peer.closed" => signal_peer_closed,
    "object.signal_peer.no_peer" => signal_peer_no_peer,
}

fn get_info_basic() -> Outcome {
    let (a, _b) = Channel::create()?;
    equal(a.basic_info()?.type_, abi::ZX_OBJ_TYPE_CHANNEL)?;
    equal(Event::create()?.basic_info()?.type_, abi::ZX_OBJ_TYPE_EVENT)?;
    equal(EventPair::create()?.0.basic_info()?.type_, abi::ZX_OBJ_TYPE_EVENTPAIR)?;
    equal(Socket::create(0)?.0.basic_info()?.type_, abi::ZX_OBJ_TYPE_SOCKET)?;
    equal(Port::create()?.basic_info()?.type_, abi::ZX_OBJ_TYPE_PORT)?;
    equal(Timer::create(0)?.basic_info()?.type_, abi::ZX_OBJ_TYPE_TIMER)?;
    equal(Vmo::create(1, 0)?.basic_info()?.type_, abi::ZX_OBJ_TYPE_VMO)?;
    equal(zx::startup::process_self().basic_info()?.type_, abi::ZX_OBJ_TYPE_PROCESS)?;
    equal(zx::startup::thread_self().basic_info()?.type_, abi::ZX_OBJ_TYPE_THREAD)?;
    equal(zx::startup::vmar_root_self().basic_info()?.type_, abi::ZX_OBJ_TYPE_VMAR)
}

fn get_info_koids_differ() -> Outcome {
    let mut koids = Vec::new();
    for _ in 0..100 {
        // A koid is not used again even when its object has been destroyed.
        koids.push(Event::create()?.koid()?);
    }
    let count = koids.len();
    koids.sort_unstable();
    koids.dedup();
    equal(koids.len(), count)?;
    ensure(koids[0] >= abi::ZX_KOID_FIRST, "a koid is below the first one")
}

fn get_info_related() -> Outcome {
    let (a, b) = Channel::create()?;
    let (a, b) = (a.basic_info()?, b.basic_info()?);
    equal((a.related_koid, b.related_koid), (b.koid, a.koid))?;
    equal(Event::create()?.basic_info()?.related_koid, 0)
}

fn get_info_buffer_too_small() -> Outcome {
    let event = Event::create()?;
    fails(event.get_info(abi::ZX_INFO_HANDLE_BASIC, &mut [0; 8]), Status::BUFFER_TOO_SMALL)
}

fn get_info_unknown_topic() -> Outcome {
    let event = Event::create()?;
    fails(event.get_info(0x0fff_fff0, &mut [0; 256]), Status::NOT_SUPPORTED)
}

fn get_info_wrong_type() -> Outcome {
    let event = Event::create()?;
    fails(event.get_info(abi::ZX_INFO_PROCESS, &mut [0; 256]), Status::WRONG_TYPE)?;
    fails(event.get_info(abi::ZX_INFO_THREAD, &mut [0; 256]), Status::WRONG_TYPE)?;
    fails(event.get_info(abi::ZX_INFO_VMAR, &mut [0; 256]), Status::WRONG_TYPE)?;
    fails(event.get_info_koids(abi::ZX_INFO_JOB_PROCESSES, &mut [0; 4]), Status::WRONG_TYPE)
}

fn get_info_handle_valid() -> Outcome {
    let event = Event::create()?;
    event.get_info(abi::ZX_INFO_HANDLE_VALID, &mut [])?;
    let raw = event.into_handle().into_raw();
    gives(raw!(zx_handle_close, raw), Status::OK)?;
    gives(raw!(zx_object_get_info, raw, abi::ZX_INFO_HANDLE_VALID, 0, 0, 0, 0), Status::BAD_HANDLE)
}

fn get_child_rights() -> Outcome {
    // The server checks the right to enumerate first; neither an event nor a thread has it.
    fails(Event::create()?.get_child(1, Rights::SAME_RIGHTS), Status::ACCESS_DENIED)?;
    fails(zx::startup::thread_self().get_child(1, Rights::SAME_RIGHTS), Status::ACCESS_DENIED)
}

fn get_child_not_found() -> Outcome {
    let event = Event::create()?;
    fails(zx::startup::process_self().get_child(event.koid()?, Rights::SAME_RIGHTS), Status::NOT_FOUND)
}

fn get_child_self() -> Outcome {
    let koid = zx::startup::thread_self().koid()?;
    let thread = zx::startup::process_self().get_child(koid, Rights::SAME_RIGHTS)?;
    equal(thread.koid()?, koid)?;
    equal(thread.basic_info()?.related_koid, zx::startup::process_self().koid()?)
}

fn job() -> Result<Job, Failure> {
    Ok(zx::startup::job_default().ok_or("there is no default job")?.create_child()?)
}

fn get_child_bad_handle() -> Outcome {
    let parent = job()?;
    let child = parent.create_child()?;
    let (process, _vmar) = parent.create_process("child")?;
    let mut out = 0x5a5a_5a5a_u32;
    let koids = [child.koid()?, process.koid()?, 0, 1, u64::MAX];
    let closed = [child.raw_handle(), process.raw_handle(), parent.raw_handle()];
    drop((child, process, parent));
    for value in closed.into_iter().chain([0, 1, 0xffff_ffff]) {
        for koid in koids {
            let same = Rights::SAME_RIGHTS.bits();
            gives(raw!(zx_object_get_child, value, koid, same, &raw mut out), Status::BAD_HANDLE)?;
        }
    }
    equal(out, 0x5a5a_5a5a)
}

fn get_child_more_rights() -> Outcome {
    let parent = job()?;
    let koid = parent.create_child()?;
    let weak = parent.duplicate(Rights::ENUMERATE | Rights::INSPECT)?;
    fails(weak.get_child(koid.koid()?, Rights::INSPECT | Rights::MANAGE_JOB), Status::ACCESS_DENIED)?;
    fails(weak.get_child(koid.koid()?, Rights::from_bits_retain(1 << 30)), Status::ACCESS_DENIED)?;
    // The server checks the requested rights before the koid.
    fails(weak.get_child(1, Rights::MANAGE_JOB), Status::ACCESS_DENIED)?;
    let child = weak.get_child(koid.koid()?, Rights::SAME_RIGHTS)?;
    equal(child.basic_info()?.rights, (Rights::ENUMERATE | Rights::INSPECT).bits())
}

fn get_child_wrong_type() -> Outcome {
    // The server checks the right to enumerate before the type, and an object that can have no children has no such
    // right.
    for object in [Event::create()?.into_handle(), Vmo::create(1, 0)?.into(), Channel::create()?.0.into()] {
        fails(object.get_child(object.koid()?, Rights::SAME_RIGHTS), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn get_child_of_another_parent() -> Outcome {
    let (first, second) = (job()?, job()?);
    let child = first.create_child()?;
    let (process, _vmar) = child.create_process("grandchild")?;
    fails(second.get_child(child.koid()?, Rights::SAME_RIGHTS), Status::NOT_FOUND)?;
    // Only direct children count, and an object is not its own child.
    fails(first.get_child(process.koid()?, Rights::SAME_RIGHTS), Status::NOT_FOUND)?;
    fails(first.get_child(first.koid()?, Rights::SAME_RIGHTS), Status::NOT_FOUND)?;
    first.get_child(child.koid()?, Rights::SAME_RIGHTS)?;
    process.kill()?;
    fails(child.get_child(process.koid()?, Rights::SAME_RIGHTS), Status::NOT_FOUND)
}

fn get_child_bad_pointer_gives_nothing() -> Outcome {
    let parent = job()?;
    let child = parent.create_child()?;
    let (koid, same) = (child.koid()?, Rights::SAME_RIGHTS.bits());
    gives(raw!(zx_object_get_child, parent.raw_handle(), koid, same, 0x1000), Status::INVALID_ARGS)?;
    let count: abi::zx_info_handle_count_t = child.info_record(abi::ZX_INFO_HANDLE_COUNT)?;
    equal(count.handle_count, 1)
}

fn signal_bad_masks_change_nothing() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    let bad = Signals::HANDLE_CLOSED;
    fails(event.signal(Signals::USER_0 | bad, Signals::USER_1), Status::INVALID_ARGS)?;
    fails(event.signal(Signals::USER_0, Signals::USER_1 | bad), Status::INVALID_ARGS)?;
    equal(event.signals()?, Signals::USER_0)?;
    let (a, b) = EventPair::create()?;
    fails(a.signal_peer(Signals::NONE, Signals::USER_1 | Signals::PEER_CLOSED), Status::INVALID_ARGS)?;
    equal(b.signals()?, Signals::NONE)
}

fn signal_each_type() -> Outcome {
    let own = Signals::SIGNALED;
    let job = job()?;
    let (process, _vmar) = job.create_process("signalled")?;
    let thread = process.create_thread("signalled")?;
    let objects: [(Handle, bool); 9] = [
        (Counter::create()?.into(), true),
        (Event::create()?.into(), true),
        (EventPair::create()?.0.into_handle(), true),
        (Timer::create(0)?.into(), false),
        (Vmo::create(1, 0)?.into(), false),
        (Socket::create(0)?.0.into(), false),
        (job.duplicate_handle(Rights::SAME_RIGHTS)?, false),
        (process.duplicate_handle(Rights::SAME_RIGHTS)?, false),
        (thread.duplicate_handle(Rights::SAME_RIGHTS)?, false),
    ];
    for (object, has_own) in objects {
        let before = object.signals()?;
        object.signal(Signals::NONE, Signals::USER_ALL)?;
        equal(object.signals()?, before | Signals::USER_ALL)?;
        object.signal(Signals::USER_ALL, Signals::NONE)?;
        equal(object.signals()?, before)?;
        // Only some types of objects have a signal of their own that programs can set.
        if has_own {
            object.signal(Signals::NONE, own)?;
            equal(object.signals()?, before | own)?;
        } else {
            fails(object.signal(Signals::NONE, own), Status::INVALID_ARGS)?;
        }
    }
    Ok(())
}

fn name(object: &impl AsHandleRef) -> zx::Result<String> {
    let name = object.get_name()?;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..length]).into_owned())
}

fn property_name() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    equal(name(&vmo)?, String::new())?;
    vmo.set_name("a name")?;
    equal(name(&vmo)?, "a name".to_owned())?;
    vmo.set_name("")?;
    equal(name(&vmo)?, String::new())?;
    let thread = zx::startup::thread_self();
    thread.set_name("renamed")?;
    equal(name(&*thread)?, "renamed".to_owned())
}

fn property_name_is_cut() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    vmo.set_name("0123456789012345678901234567890123456789")?;
    equal(name(&vmo)?, "0123456789012345678901234567890".to_owned())
}

fn property_small_buffer() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    fails(vmo.get_property(abi::ZX_PROP_NAME, &mut [0; 31]), Status::BUFFER_TOO_SMALL)
}

fn property_unknown() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    fails(vmo.get_property(0xffff, &mut [0; 64]), Status::INVALID_ARGS)?;
    fails(vmo.set_property(0xffff, &[0; 8]), Status::INVALID_ARGS)
}

fn property_rights() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    let blind = Vmo::from(without(&vmo, Rights::GET_PROPERTY)?);
    fails(blind.get_name(), Status::ACCESS_DENIED)?;
    let fixed = Vmo::from(without(&vmo, Rights::SET_PROPERTY)?);
    fails(fixed.set_name("no"), Status::ACCESS_DENIED)
}

fn signal_sets_and_clears() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_0 | Signals::USER_7)?;
    equal(event.signals()?.user(), Signals::USER_0 | Signals::USER_7)?;
    event.signal(Signals::USER_0, Signals::USER_1)?;
    equal(event.signals()?.user(), Signals::USER_1 | Signals::USER_7)?;
    // A signal that is both cleared and set ends up set.
    event.signal(Signals::USER_ALL, Signals::USER_2)?;
    equal(event.signals()?.user(), Signals::USER_2)
}

fn signal_system_signals() -> Outcome {
    let (channel, _peer) = Channel::create()?;
    fails(channel.signal(Signals::NONE, Signals::READABLE), Status::INVALID_ARGS)?;
    fails(channel.signal(Signals::WRITABLE, Signals::NONE), Status::INVALID_ARGS)?;
    fails(Event::create()?.signal(Signals::NONE, Signals::PEER_CLOSED), Status::INVALID_ARGS)
}

fn signal_rights() -> Outcome {
    let event = Event::create()?;
    let mute = Event::from(without(&event, Rights::SIGNAL)?);
    fails(mute.signal(Signals::NONE, Signals::USER_0), Status::ACCESS_DENIED)?;
    equal(event.signals()?.user(), Signals::NONE)
}

fn signal_peer_reaches_the_peer() -> Outcome {
    let (a, b) = Channel::create()?;
    a.signal_peer(Signals::NONE, Signals::USER_4)?;
    equal(b.signals()?.user(), Signals::USER_4)?;
    equal(a.signals()?.user(), Signals::NONE)
}

fn signal_peer_closed() -> Outcome {
    let (a, b) = Channel::create()?;
    drop(b);
    fails(a.signal_peer(Signals::NONE, Signals::USER_4), Status::PEER_CLOSED)
}

fn signal_peer_no_peer() -> Outcome {
    // An event has no peer and therefore no right to signal one.
    fails(Event::create()?.signal_peer(Signals::NONE, Signals::USER_4), Status::ACCESS_DENIED)
}
