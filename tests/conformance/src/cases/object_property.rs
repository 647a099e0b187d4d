//! `zx_object_get_property` and `zx_object_set_property`, property by property.

use abi::{Rights, Status};
use zx::{AsHandleRef, Channel, Event, Handle, Job, Port, Process, Signals, Socket, Thread, Vmo};

use super::{cases, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::{SPIN, TestProcess};

cases! {
    "object.property.name_of_each_type" => name_of_each_type,
    "object.property.name_of_the_nameless" => name_of_the_nameless,
    "object.property.name_ends_at_a_zero" => name_ends_at_a_zero,
    "object.property.name_exact_lengths" => name_exact_lengths,
    "object.property.name_replaced_whole" => name_replaced_whole,
    "object.property.name_bad_pointer" => name_bad_pointer,
    "object.property.sizes" => sizes,
    "object.property.wrong_type" => wrong_type,
    "object.property.size_before_type" => size_before_type,
    "object.property.cannot_be_set" => cannot_be_set,
    "object.property.cannot_be_read" => cannot_be_read,
    "object.property.all_rights" => all_rights,
    "object.property.bad_handle" => bad_handle,
    "object.property.debug_addr_once" => debug_addr_once,
    "object.property.break_on_load" => break_on_load,
    "object.property.overflow_status" => overflow_status,
    "object.property.overflow_status.values" => overflow_status_values,
    "object.property.vdso_base" => vdso_base,
    "object.property.fs_base" => fs_base,
    "object.property.fs_base_of_another" => fs_base_of_another,
    "object.property.gs_base" => gs_base,
    "object.property.content_size_rights" => content_size_rights,
}

/// All properties with the sizes of their values in bytes; each can be read by a process.
const ALL: [(u32, usize); 9] = [
    (abi::ZX_PROP_NAME, 32),
    (abi::ZX_PROP_REGISTER_FS, 8),
    (abi::ZX_PROP_PROCESS_DEBUG_ADDR, 8),
    (abi::ZX_PROP_PROCESS_BREAK_ON_LOAD, 8),
    (abi::ZX_PROP_PROCESS_VDSO_BASE_ADDRESS, 8),
    (abi::ZX_PROP_SOCKET_RX_THRESHOLD, 8),
    (abi::ZX_PROP_SOCKET_TX_THRESHOLD, 8),
    (abi::ZX_PROP_VMO_CONTENT_SIZE, 8),
    (abi::ZX_PROP_STREAM_MODE_APPEND, 1),
];

fn job() -> Result<Job, Failure> {
    Ok(zx::startup::job_default().ok_or("there is no default job")?.create_child()?)
}

fn unstarted() -> Result<Process, Failure> {
    Ok(job()?.create_process("unstarted")?.0)
}

/// An object that has the property.
fn owner(property: u32) -> Result<Handle, Failure> {
    Ok(match property {
        abi::ZX_PROP_NAME | abi::ZX_PROP_VMO_CONTENT_SIZE => Vmo::create(4096, 0)?.into(),
        abi::ZX_PROP_STREAM_MODE_APPEND => zx::Stream::create(0, &Vmo::create(4096, 0)?, 0)?.into(),
        abi::ZX_PROP_REGISTER_FS => zx::startup::thread_self().duplicate_handle(Rights::SAME_RIGHTS)?,
        abi::ZX_PROP_SOCKET_RX_THRESHOLD => Socket::create(0)?.0.into(),
        abi::ZX_PROP_SOCKET_TX_THRESHOLD => {
            let (a, b) = Socket::create(0)?;
            // The peer must stay open.
            let _ = b.into_handle().into_raw();
            a.into()
        }
        _ => unstarted()?.into(),
    })
}

fn name(object: &impl AsHandleRef) -> zx::Result<Vec<u8>> {
    let name = object.get_name()?;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(name[..length].to_vec())
}

fn name_of_each_type() -> Outcome {
    let process = unstarted()?;
    let thread = process.create_thread("a thread")?;
    equal(name(&process)?, b"unstarted".to_vec())?;
    equal(name(&thread)?, b"a thread".to_vec())?;
    let objects: [Handle; 4] = [job()?.into(), process.into(), thread.into(), Vmo::create(4096, 0)?.into()];
    for object in objects {
        object.set_name("new name")?;
        equal(name(&object)?, b"new name".to_vec())?;
    }
    Ok(())
}

fn name_of_the_nameless() -> Outcome {
    let (socket, _peer) = Socket::create(0)?;
    fails(socket.get_name(), Status::WRONG_TYPE)?;
    fails(socket.set_name("x"), Status::WRONG_TYPE)?;
    // Handles to most types without properties do not even have the rights.
    let event = Event::create()?;
    fails(event.get_name(), Status::ACCESS_DENIED)?;
    fails(event.set_name("x"), Status::ACCESS_DENIED)
}

fn name_ends_at_a_zero() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    vmo.set_property(abi::ZX_PROP_NAME, b"ab\0cd")?;
    let mut told = [0xff; 32];
    vmo.get_property(abi::ZX_PROP_NAME, &mut told)?;
    equal(&told[..3], b"ab\0")?;
    // The rest of the value is zero, too.
    ensure(told[3..].iter().all(|byte| *byte == 0), "there is something behind the end")
}

fn name_exact_lengths() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    let long = [b'x'; 64];
    for length in [0, 1, 30, 31, 32, 33, 64] {
        vmo.set_property(abi::ZX_PROP_NAME, &long[..length])?;
        equal(name(&vmo)?.len(), length.min(31))?;
        let mut told = [0xff; 33];
        vmo.get_property(abi::ZX_PROP_NAME, &mut told)?;
        equal((told[31], told[32]), (0, 0xff))?;
    }
    Ok(())
}

fn name_replaced_whole() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    vmo.set_name("a long name that was here")?;
    vmo.set_name("b")?;
    equal(&vmo.get_name()?[..], &[&b"b"[..], &[0; 31]].concat()[..])
}

fn name_bad_pointer() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    vmo.set_name("kept")?;
    for address in [0_u64, 0x1000, 0xffff_8000_0000_0000, u64::MAX - 3] {
        let handle = vmo.raw_handle();
        gives(raw!(zx_object_set_property, handle, abi::ZX_PROP_NAME, address, 4), Status::INVALID_ARGS)?;
        gives(raw!(zx_object_get_property, handle, abi::ZX_PROP_NAME, address, 32), Status::INVALID_ARGS)?;
    }
    // A value of 0 bytes is not read.
    gives(raw!(zx_object_set_property, vmo.raw_handle(), abi::ZX_PROP_NAME, 0, 0), Status::OK)?;
    equal(name(&vmo)?, Vec::new())
}

fn sizes() -> Outcome {
    for (property, size) in ALL {
        let object = owner(property)?;
        for short in [0, size - 1] {
            fails(object.get_property(property, &mut vec![0; short]), Status::BUFFER_TOO_SMALL)?;
        }
        // A larger buffer is accepted.
        for enough in [size, size + 5] {
            object.get_property(property, &mut vec![0; enough])?;
        }
    }
    for property in [
        abi::ZX_PROP_REGISTER_FS,
        abi::ZX_PROP_PROCESS_DEBUG_ADDR,
        abi::ZX_PROP_PROCESS_BREAK_ON_LOAD,
        abi::ZX_PROP_SOCKET_RX_THRESHOLD,
        abi::ZX_PROP_SOCKET_TX_THRESHOLD,
        abi::ZX_PROP_VMO_CONTENT_SIZE,
    ] {
        for short in [0, 1, 7] {
            fails(owner(property)?.set_property(property, &vec![0; short]), Status::BUFFER_TOO_SMALL)?;
        }
    }
    Ok(())
}

fn wrong_type() -> Outcome {
    let (socket, _peer) = Socket::create(0)?;
    let vmo = Vmo::create(4096, 0)?;
    let wrong = |property| match property {
        abi::ZX_PROP_SOCKET_RX_THRESHOLD | abi::ZX_PROP_SOCKET_TX_THRESHOLD => vmo.as_handle_ref(),
        _ => socket.as_handle_ref(),
    };
    for (property, size) in ALL {
        fails(wrong(property).get_property(property, &mut vec![0; size]), Status::WRONG_TYPE)?;
        if property != abi::ZX_PROP_PROCESS_VDSO_BASE_ADDRESS {
            fails(wrong(property).set_property(property, &vec![1; size]), Status::WRONG_TYPE)?;
        }
    }
    Ok(())
}

fn size_before_type() -> Outcome {
    let (socket, _peer) = Socket::create(0)?;
    for (property, size) in ALL {
        fails(socket.get_property(property, &mut vec![0; size.min(8) - 1]), Status::BUFFER_TOO_SMALL)?;
    }
    fails(socket.set_property(abi::ZX_PROP_PROCESS_DEBUG_ADDR, &[0; 7]), Status::BUFFER_TOO_SMALL)
}

/// Numbers of no property.
const UNKNOWN: [u32; 4] = [0, 1, 100, u32::MAX];

fn cannot_be_set() -> Outcome {
    let process = unstarted()?;
    let read_only = [abi::ZX_PROP_PROCESS_VDSO_BASE_ADDRESS, abi::ZX_PROP_PROCESS_HW_TRACE_CONTEXT_ID];
    for property in read_only.into_iter().chain(UNKNOWN) {
        fails(process.set_property(property, &[0; 8]), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn cannot_be_read() -> Outcome {
    fails(unstarted()?.get_property(abi::ZX_PROP_PROCESS_HW_TRACE_CONTEXT_ID, &mut [0; 8]), Status::NOT_SUPPORTED)?;
    fails(job()?.get_property(abi::ZX_PROP_JOB_KILL_ON_OOM, &mut [0; 8]), Status::INVALID_ARGS)?;
    for property in UNKNOWN {
        fails(unstarted()?.get_property(property, &mut [0; 8]), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn all_rights() -> Outcome {
    for (property, size) in ALL {
        let object = owner(property)?;
        let blind = without(&object, Rights::GET_PROPERTY)?;
        fails(blind.get_property(property, &mut vec![0; size]), Status::ACCESS_DENIED)?;
        let fixed = without(&object, Rights::SET_PROPERTY)?;
        fails(fixed.set_property(property, &vec![0; size]), Status::ACCESS_DENIED)?;
        // The server checks the right before the property.
        fails(blind.get_property(0xffff, &mut [0; 32]), Status::ACCESS_DENIED)?;
        fails(fixed.set_property(0xffff, &[0; 32]), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn bad_handle() -> Outcome {
    let closed = Event::create()?.raw_handle();
    let mut value = [0_u8; 32];
    for handle in [0, closed, 0xffff_ffff] {
        for (property, size) in ALL {
            let address = value.as_mut_ptr();
            gives(raw!(zx_object_get_property, handle, property, address, size), Status::BAD_HANDLE)?;
            gives(raw!(zx_object_set_property, handle, property, address, size), Status::BAD_HANDLE)?;
        }
    }
    Ok(())
}

fn debug_addr_once() -> Outcome {
    let process = unstarted()?;
    let set = |value: u64| process.set_property(abi::ZX_PROP_PROCESS_DEBUG_ADDR, &value.to_ne_bytes());
    equal(process.get_property_u64(abi::ZX_PROP_PROCESS_DEBUG_ADDR)?, 0)?;
    fails(set(0), Status::INVALID_ARGS)?;
    set(0x1234_5000)?;
    equal(process.get_property_u64(abi::ZX_PROP_PROCESS_DEBUG_ADDR)?, 0x1234_5000)?;
    // The value can be set only once.
    fails(set(0x1234_5000), Status::ACCESS_DENIED)?;
    fails(set(0x5000), Status::ACCESS_DENIED)?;
    fails(set(0), Status::INVALID_ARGS)?;
    equal(process.get_property_u64(abi::ZX_PROP_PROCESS_DEBUG_ADDR)?, 0x1234_5000)
}

fn break_on_load() -> Outcome {
    let process = unstarted()?;
    equal(process.get_property_u64(abi::ZX_PROP_PROCESS_BREAK_ON_LOAD)?, 0)?;
    for value in [1_u64, 0x7000_1234, 0] {
        process.set_property(abi::ZX_PROP_PROCESS_BREAK_ON_LOAD, &value.to_ne_bytes())?;
        equal(process.get_property_u64(abi::ZX_PROP_PROCESS_BREAK_ON_LOAD)?, value)?;
    }
    Ok(())
}

/// The process gets statuses instead of policy exceptions for full channels and ports until this is dropped.
struct Statuses;

impl Statuses {
    fn new() -> zx::Result<Statuses> {
        zx::startup::process_self().set_overflow_status(true).map(|()| Statuses)
    }
}

impl Drop for Statuses {
    fn drop(&mut self) {
        let _ = zx::startup::process_self().set_overflow_status(false);
    }
}

fn overflow_status() -> Outcome {
    // No handler takes exceptions here: a policy exception would end the process.
    let _statuses = Statuses::new()?;
    let (a, b) = Channel::create()?;
    let written = (0_u32..).find(|_| a.write(b"1", []).is_err()).ok_or("it never gets full")?;
    ensure(written >= 3500, "a channel holds very few messages")?;
    fails(a.write(b"1", []), Status::SHOULD_WAIT)?;
    let mut byte = [0];
    b.read(&mut byte, &mut []).map_err(|(status, _)| status)?;
    a.write(b"1", [])?;
    let (port, packet) = (Port::create()?, abi::zx_port_packet_t { key: 7, type_: 0, status: 0, payload: [0; 4] });
    let queued = (0..).find(|_| port.queue(&packet).is_err()).ok_or("it never gets full")?;
    equal(queued, 4096)?;
    fails(port.queue(&packet), Status::SHOULD_WAIT)?;
    let (port, event) = (Port::create()?, Event::create()?);
    for key in 0..50_000 {
        event.wait_async(&port, key, Signals::USER_0, 0)?;
    }
    fails(event.wait_async(&port, 50_000, Signals::USER_0, 0), Status::NO_RESOURCES)?;
    port.cancel(&event, 7)?;
    event.wait_async(&port, 50_000, Signals::USER_0, 0)?;
    Ok(())
}

fn overflow_status_values() -> Outcome {
    let process = unstarted()?;
    let property = abi::HAFNON_PROP_PROCESS_OVERFLOW_STATUS;
    equal(process.get_property_u64(property)?, 0)?;
    process.set_overflow_status(true)?;
    equal(process.get_property_u64(property)?, 1)?;
    fails(process.set_property(property, &2_u64.to_ne_bytes()), Status::INVALID_ARGS)?;
    fails(process.set_property(property, &[1; 7]), Status::BUFFER_TOO_SMALL)?;
    fails(Socket::create(0)?.0.set_property(property, &1_u64.to_ne_bytes()), Status::WRONG_TYPE)?;
    equal(process.get_property_u64(property)?, 1)
}

fn vdso_base() -> Outcome {
    let own = zx::startup::process_self().get_property_u64(abi::ZX_PROP_PROCESS_VDSO_BASE_ADDRESS)?;
    let call = zx::sys::zx_object_get_property as *const () as u64;
    ensure(own != 0 && own.is_multiple_of(4096), &format!("{own:#x} is no place for it"))?;
    ensure((own..own + 0x10_0000).contains(&call), "its calls are not there")?;
    equal(usize::from(zx::probe::read(own as usize)), 0x7f)?;
    // A process without a vDSO has no address.
    let tiny = TestProcess::new(SPIN)?;
    equal(tiny.process.get_property_u64(abi::ZX_PROP_PROCESS_VDSO_BASE_ADDRESS)?, 0)
}

fn set_fs(thread: &Thread, base: u64) -> zx::Result<()> {
    thread.set_property(abi::ZX_PROP_REGISTER_FS, &base.to_ne_bytes())
}

fn fs_base() -> Outcome {
    let thread = zx::startup::thread_self();
    let base = thread.get_property_u64(abi::ZX_PROP_REGISTER_FS)?;
    ensure(base != 0, "this thread has none")?;
    // The value that was set is read back. The old value is the only one with which this thread can continue.
    set_fs(&thread, base)?;
    equal(thread.get_property_u64(abi::ZX_PROP_REGISTER_FS)?, base)?;
    for bad in [1 << 47, 0x8000_0000_0000_0000, 0x7fff_8000_0000_0000] {
        fails(set_fs(&thread, bad), Status::INVALID_ARGS)?;
    }
    equal(thread.get_property_u64(abi::ZX_PROP_REGISTER_FS)?, base)
}

fn fs_base_of_another() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    tiny.start(None, 0)?;
    fails(tiny.thread.get_property_u64(abi::ZX_PROP_REGISTER_FS), Status::ACCESS_DENIED)?;
    fails(set_fs(&tiny.thread, 0x1000), Status::ACCESS_DENIED)?;
    tiny.process.kill()?;
    Ok(())
}

fn gs_base() -> Outcome {
    // The system reserves GS: the call makes its usual checks and is then refused.
    let thread = zx::startup::thread_self();
    fails(thread.get_property(abi::ZX_PROP_REGISTER_GS, &mut [0; 7]), Status::BUFFER_TOO_SMALL)?;
    fails(Vmo::create(4096, 0)?.get_property(abi::ZX_PROP_REGISTER_GS, &mut [0; 8]), Status::WRONG_TYPE)?;
    fails(thread.set_property(abi::ZX_PROP_REGISTER_GS, &(1_u64 << 47).to_ne_bytes()), Status::INVALID_ARGS)?;
    fails(thread.set_property(abi::ZX_PROP_REGISTER_GS, &[0; 8]), Status::NOT_SUPPORTED)
}

fn content_size_rights() -> Outcome {
    let vmo = Vmo::create(8192, 0)?;
    let set = |vmo: &Vmo, size: u64| vmo.set_property(abi::ZX_PROP_VMO_CONTENT_SIZE, &size.to_ne_bytes());
    set(&vmo, 100)?;
    equal(vmo.get_property_u64(abi::ZX_PROP_VMO_CONTENT_SIZE)?, 100)?;
    equal(vmo.get_stream_size()?, 100)?;
    // The size belongs to the content: changing it needs the right to write as well.
    let weak = Vmo::from(without(&vmo, Rights::WRITE)?);
    fails(set(&weak, 50), Status::ACCESS_DENIED)?;
    equal(weak.get_property_u64(abi::ZX_PROP_VMO_CONTENT_SIZE)?, 100)
}
