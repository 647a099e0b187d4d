//! Properties of objects.
//!
//! The GS base belongs to the system, which finds a thread's IPC buffer by it.

use abi::{
    HAFNON_PROP_JOB_HANDLE_LIMIT, HAFNON_PROP_JOB_JOB_LIMIT, HAFNON_PROP_JOB_MEMORY_LIMIT, HAFNON_PROP_JOB_MEMORY_USED,
    HAFNON_PROP_JOB_MESSAGE_LIMIT, HAFNON_PROP_JOB_PROCESS_LIMIT, HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT,
    HAFNON_PROP_JOB_THREAD_LIMIT, HAFNON_PROP_PROCESS_OVERFLOW_STATUS, Rights, Status, ZX_MAX_NAME_LEN,
    ZX_PROP_EXCEPTION_STATE, ZX_PROP_EXCEPTION_STRATEGY, ZX_PROP_JOB_KILL_ON_OOM, ZX_PROP_NAME,
    ZX_PROP_PROCESS_BREAK_ON_LOAD, ZX_PROP_PROCESS_DEBUG_ADDR, ZX_PROP_PROCESS_HW_TRACE_CONTEXT_ID,
    ZX_PROP_PROCESS_VDSO_BASE_ADDRESS, ZX_PROP_REGISTER_FS, ZX_PROP_REGISTER_GS, ZX_PROP_SOCKET_RX_THRESHOLD,
    ZX_PROP_SOCKET_TX_THRESHOLD, ZX_PROP_STREAM_MODE_APPEND, ZX_PROP_VMO_CONTENT_SIZE,
};
use objects::Id;
use objects::ObjectId;
use objects::arch::{Architecture, Native};
use objects::containers::name::Name;
use objects::core::account::CountKind;
use objects::core::handle::HandleValue;
use objects::ipc::socket::Socket;
use objects::ipc::stream::Stream;
use objects::machine::Machine;
use objects::memory::vmo::Vmo;
use objects::task::exception::Exception;
use objects::task::job::Job;
use objects::task::process::Process;
use objects::task::thread::Thread;

use crate::cx::Cx;
use crate::long_call::SlicedCall;
use crate::user::{In, Out};

/// Checks that a value of `needed` bytes fits.
fn fits(size: usize, needed: usize) -> Result<(), Status> {
    if size < needed { Err(Status::BUFFER_TOO_SMALL) } else { Ok(()) }
}

/// Reads a property. Its size is checked first, then the object's type.
pub fn object_get_property<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    property: u32,
    out: Out<u8>,
    size: usize,
) -> Result<(), Status> {
    let object = cx.get_any(value, Rights::GET_PROPERTY)?.object;
    match property {
        ZX_PROP_NAME => {
            fits(size, ZX_MAX_NAME_LEN)?;
            let name = cx.kernel.objects.any(object)?.body.name().ok_or(Status::WRONG_TYPE)?;
            cx.write_bytes(out, name.bytes())
        }
        ZX_PROP_REGISTER_FS
        | ZX_PROP_REGISTER_GS
        | ZX_PROP_PROCESS_DEBUG_ADDR
        | ZX_PROP_PROCESS_BREAK_ON_LOAD
        | ZX_PROP_PROCESS_VDSO_BASE_ADDRESS
        | ZX_PROP_SOCKET_RX_THRESHOLD
        | ZX_PROP_SOCKET_TX_THRESHOLD
        | ZX_PROP_VMO_CONTENT_SIZE
        | HAFNON_PROP_PROCESS_OVERFLOW_STATUS
        | HAFNON_PROP_JOB_MEMORY_LIMIT
        | HAFNON_PROP_JOB_MEMORY_USED
        | HAFNON_PROP_JOB_PROCESS_LIMIT
        | HAFNON_PROP_JOB_THREAD_LIMIT
        | HAFNON_PROP_JOB_JOB_LIMIT
        | HAFNON_PROP_JOB_HANDLE_LIMIT
        | HAFNON_PROP_JOB_MESSAGE_LIMIT
        | HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT => {
            fits(size, size_of::<u64>())?;
            let word = word_of(cx, object, property)?;
            cx.write(Out::new(out.0), word)
        }
        ZX_PROP_EXCEPTION_STATE | ZX_PROP_EXCEPTION_STRATEGY => {
            fits(size, size_of::<u32>())?;
            let exception = cx.kernel.objects.get(cx.kernel.objects.typed::<Exception>(object)?)?;
            let is_state = property == ZX_PROP_EXCEPTION_STATE;
            cx.write(Out::new(out.0), if is_state { exception.state() } else { exception.strategy() })
        }
        ZX_PROP_STREAM_MODE_APPEND => {
            fits(size, size_of::<u8>())?;
            let append = cx.kernel.objects.get(cx.kernel.objects.typed::<Stream>(object)?)?.append;
            cx.write(out, u8::from(append))
        }
        // As Zircon without debugging features answers.
        ZX_PROP_PROCESS_HW_TRACE_CONTEXT_ID => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_ARGS),
    }
}

/// Reads a property that is a word.
fn word_of<M: Machine>(cx: &mut Cx<'_, M>, object: ObjectId, property: u32) -> Result<u64, Status> {
    if property == HAFNON_PROP_JOB_MEMORY_USED {
        cx.kernel.ahead_reclaim();
    }
    let objects = &cx.kernel.objects;
    Ok(match property {
        ZX_PROP_REGISTER_FS | ZX_PROP_REGISTER_GS => {
            let thread = own_thread(cx, object)?;
            if property == ZX_PROP_REGISTER_GS {
                return Err(Status::NOT_SUPPORTED);
            }
            cx.kernel.thread_pointer(thread)?
        }
        ZX_PROP_PROCESS_DEBUG_ADDR => objects.get(objects.typed::<Process>(object)?)?.debug_addr,
        ZX_PROP_PROCESS_BREAK_ON_LOAD => objects.get(objects.typed::<Process>(object)?)?.break_on_load,
        HAFNON_PROP_PROCESS_OVERFLOW_STATUS => {
            u64::from(objects.get(objects.typed::<Process>(object)?)?.overflow_status)
        }
        ZX_PROP_PROCESS_VDSO_BASE_ADDRESS => {
            let aspace = objects.get(objects.typed::<Process>(object)?)?.aspace;
            aspace.and_then(|aspace| cx.kernel.aspace(aspace)).map_or(0, |space| space.vdso_base)
        }
        ZX_PROP_SOCKET_RX_THRESHOLD => objects.get(objects.typed::<Socket>(object)?)?.read_threshold as u64,
        ZX_PROP_SOCKET_TX_THRESHOLD => objects.get(objects.typed::<Socket>(object)?)?.write_threshold as u64,
        ZX_PROP_VMO_CONTENT_SIZE => cx.kernel.vmo_content_size(objects.typed::<Vmo>(object)?)?,
        HAFNON_PROP_JOB_MEMORY_LIMIT => cx.kernel.job_memory(objects.typed::<Job>(object)?)?.1,
        HAFNON_PROP_JOB_MEMORY_USED => cx.kernel.job_memory(objects.typed::<Job>(object)?)?.0,
        _ => {
            let what = counted_by(property).ok_or(Status::NOT_SUPPORTED)?;
            cx.kernel.job_count(objects.typed::<Job>(object)?, what)?.limit
        }
    })
}

/// The resource whose number a job's property limits.
fn counted_by(property: u32) -> Option<CountKind> {
    Some(match property {
        HAFNON_PROP_JOB_PROCESS_LIMIT => CountKind::Processes,
        HAFNON_PROP_JOB_THREAD_LIMIT => CountKind::Threads,
        HAFNON_PROP_JOB_JOB_LIMIT => CountKind::Jobs,
        HAFNON_PROP_JOB_HANDLE_LIMIT => CountKind::Handles,
        HAFNON_PROP_JOB_MESSAGE_LIMIT => CountKind::Messages,
        HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT => CountKind::QueuedBytes,
        _ => return None,
    })
}

/// The object, if it is the calling thread. Only a thread itself may access its segment bases, because another thread
/// could find it in the middle of something.
fn own_thread<M: Machine>(cx: &Cx<'_, M>, object: ObjectId) -> Result<Id<Thread>, Status> {
    let thread = cx.kernel.objects.typed::<Thread>(object)?;
    if thread == cx.thread { Ok(thread) } else { Err(Status::ACCESS_DENIED) }
}

/// Sets a VMO's content size, as `vmo_set_stream_size`. It runs in slices, so the value is read once.
fn set_content_size<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    from: In<u8>,
    size: usize,
) -> Result<(), Status> {
    let work = if cx.progress.is_some() {
        cx.sliced_call::<Vmo>(value, Rights::NONE)?
    } else {
        let handle = cx.get_any(value, Rights::SET_PROPERTY)?;
        fits(size, size_of::<u64>())?;
        let vmo = cx.kernel.objects.typed::<Vmo>(handle.object)?;
        if !handle.rights.contains(Rights::WRITE) {
            return Err(Status::ACCESS_DENIED);
        }
        let content = cx.read(In::<u64>::new(from.0))?;
        let mut work = SlicedCall::begins(vmo, handle.rights);
        work.state[0] = content;
        work
    };
    let more = cx.kernel.vmo_set_content_size_slice(work.object, work.state[0])?;
    cx.end_slice(&work, more.then_some(work.done + 1))
}

/// Sets a property.
pub fn object_set_property<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    property: u32,
    from: In<u8>,
    size: usize,
) -> Result<(), Status> {
    if property == ZX_PROP_VMO_CONTENT_SIZE {
        return set_content_size(cx, value, from, size);
    }
    let handle = cx.get_any(value, Rights::SET_PROPERTY)?;
    let object = handle.object;
    if property == ZX_PROP_NAME {
        let bytes = cx.read_bytes(from, size.min(ZX_MAX_NAME_LEN - 1))?;
        return cx.kernel.set_name(object, Name::new(&bytes));
    }
    let word = |cx: &mut Cx<'_, M>| cx.read(In::<u64>::new(from.0));
    match property {
        ZX_PROP_REGISTER_FS | ZX_PROP_REGISTER_GS => {
            fits(size, size_of::<u64>())?;
            let thread = own_thread(cx, object)?;
            let base = word(cx)?;
            if !Native::can_be_pointer(base) {
                return Err(Status::INVALID_ARGS);
            }
            if property == ZX_PROP_REGISTER_GS {
                return Err(Status::NOT_SUPPORTED);
            }
            cx.kernel.thread_set_pointer(thread, base)
        }
        ZX_PROP_PROCESS_DEBUG_ADDR => {
            fits(size, size_of::<u64>())?;
            let process = cx.kernel.objects.typed::<Process>(object)?;
            let address = word(cx)?;
            cx.kernel.process_set_debug_addr(process, address)
        }
        ZX_PROP_PROCESS_BREAK_ON_LOAD => {
            fits(size, size_of::<u64>())?;
            let process = cx.kernel.objects.typed::<Process>(object)?;
            let wanted = word(cx)?;
            cx.kernel.process_set_break_on_load(process, wanted)
        }
        HAFNON_PROP_PROCESS_OVERFLOW_STATUS => {
            fits(size, size_of::<u64>())?;
            let process = cx.kernel.objects.typed::<Process>(object)?;
            let wanted = word(cx)?;
            cx.kernel.process_set_overflow_status(process, wanted)
        }
        ZX_PROP_SOCKET_RX_THRESHOLD | ZX_PROP_SOCKET_TX_THRESHOLD => {
            fits(size, size_of::<usize>())?;
            let socket = cx.kernel.objects.typed::<Socket>(object)?;
            let threshold = word(cx)?;
            let read = property == ZX_PROP_SOCKET_RX_THRESHOLD;
            cx.kernel.socket_set_threshold(socket, read, usize::try_from(threshold).map_err(|_| Status::INVALID_ARGS)?)
        }
        ZX_PROP_JOB_KILL_ON_OOM => {
            fits(size, size_of::<usize>())?;
            let job = cx.kernel.objects.typed::<Job>(object)?;
            let kill = word(cx)?;
            if kill > 1 {
                return Err(Status::INVALID_ARGS);
            }
            cx.kernel.job_set_kill_on_oom(job, kill == 1)
        }
        HAFNON_PROP_JOB_MEMORY_LIMIT
        | HAFNON_PROP_JOB_PROCESS_LIMIT
        | HAFNON_PROP_JOB_THREAD_LIMIT
        | HAFNON_PROP_JOB_JOB_LIMIT
        | HAFNON_PROP_JOB_HANDLE_LIMIT
        | HAFNON_PROP_JOB_MESSAGE_LIMIT
        | HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT => {
            fits(size, size_of::<u64>())?;
            let job = cx.kernel.objects.typed::<Job>(object)?;
            if !handle.rights.contains(Rights::SET_POLICY) {
                return Err(Status::ACCESS_DENIED);
            }
            let limit = word(cx)?;
            match counted_by(property) {
                Some(what) => cx.kernel.job_limit_count(job, what, limit),
                None => cx.kernel.job_limit_memory(job, limit),
            }
        }
        ZX_PROP_EXCEPTION_STATE | ZX_PROP_EXCEPTION_STRATEGY => {
            fits(size, size_of::<u32>())?;
            let exception = cx.kernel.objects.typed::<Exception>(object)?;
            let value = cx.read(In::<u32>::new(from.0))?;
            match property {
                ZX_PROP_EXCEPTION_STATE => cx.kernel.exception_set_state(exception, value),
                _ => cx.kernel.exception_set_strategy(exception, value),
            }
        }
        ZX_PROP_STREAM_MODE_APPEND => {
            fits(size, size_of::<u8>())?;
            let stream = cx.kernel.objects.typed::<Stream>(object)?;
            let append = cx.read(from)?;
            cx.kernel.stream_set_append(stream, append != 0)
        }
        _ => Err(Status::INVALID_ARGS),
    }
}
