//! Processes.

use abi::{Rights, Status, ZX_DEFAULT_PROCESS_RIGHTS, ZX_DEFAULT_VMAR_RIGHTS, ZX_PROCESS_SHARED};
use alloc::vec::Vec;
use objects::arch::{Architecture, GeneralRegisters, Native, Registers};
use objects::containers::growth::Grows;
use objects::containers::slab::Key;
use objects::core::continuation::SLICE_COPY_BYTES;
use objects::core::handle::{Handle, HandleValue, INVALID};
use objects::machine::Machine;
use objects::memory::vmar::Vmar;
use objects::task::job::Job;
use objects::task::process::{Process, ProcessState};
use objects::task::thread::{Thread, ThreadState};

use crate::Answer;
use crate::cx::{Cx, MAX_COPY};
use crate::long_call::SlicedCall;
use crate::syscalls::thread::read_name;
use crate::user::{In, Out};

/// Creates a process in a job, with its root VMAR.
pub fn process_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    job: HandleValue,
    name: In<u8>,
    name_len: usize,
    options: u32,
    out_process: Out<u32>,
    out_vmar: Out<u32>,
) -> Result<(), Status> {
    if options & !ZX_PROCESS_SHARED != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let name = read_name(cx, name, name_len)?;
    cx.may(abi::ZX_POL_NEW_PROCESS)?;
    let job = cx.get::<Job>(job, Rights::MANAGE_PROCESS)?;
    check_handles(cx, [out_process, out_vmar])?;
    let made = match options & ZX_PROCESS_SHARED {
        0 => cx.kernel.process_create(job, name),
        _ => cx.kernel.process_create_prototype(job, name),
    };
    let made = cx.or_retry_after_reaper(made)?;
    hand_out(cx, made, out_process, out_vmar)
}

/// Creates a process that shares the upper half of its address space, its handles and its futexes with another. Returns
/// also the root VMAR of its lower half.
pub fn process_create_shared<M: Machine>(
    cx: &mut Cx<'_, M>,
    shared_proc: HandleValue,
    options: u32,
    name: In<u8>,
    name_len: usize,
    out_process: Out<u32>,
    out_vmar: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_PROCESS)?;
    let name = read_name(cx, name, name_len)?;
    let shared = cx.get::<Process>(shared_proc, Rights::MANAGE_PROCESS | Rights::GET_PROPERTY)?;
    check_handles(cx, [out_process, out_vmar])?;
    let made = cx.kernel.process_create_shared(shared, name);
    let made = cx.or_retry_after_reaper(made)?;
    hand_out(cx, made, out_process, out_vmar)
}

/// Checks that handles can be written to these places.
fn check_handles<M: Machine>(cx: &mut Cx<'_, M>, places: [Out<u32>; 2]) -> Result<(), Status> {
    places.into_iter().try_for_each(|out| cx.kernel.check_out(cx.aspace, out.0, size_of::<u32>()))
}

/// Gives the caller handles to a new process and its root VMAR.
fn hand_out<M: Machine>(
    cx: &mut Cx<'_, M>,
    (process, vmar): (objects::Id<Process>, objects::Id<Vmar>),
    out_process: Out<u32>,
    out_vmar: Out<u32>,
) -> Result<(), Status> {
    let rights = ZX_DEFAULT_VMAR_RIGHTS | Rights::READ | Rights::WRITE | Rights::EXECUTE;
    // A process without handles still belongs to its job, so it is killed.
    let given = cx.hand_out(process, ZX_DEFAULT_PROCESS_RIGHTS, out_process);
    given.inspect_err(|_| cx.kernel.process_kill(process, 0))?;
    // If this fails, the process's handle is in the caller's table, but the caller may not know its value, so the
    // process is killed.
    cx.hand_out(vmar, rights, out_vmar).inspect_err(|_| cx.kernel.process_kill(process, 0))
}

/// Starts a process with its first thread and its first handle, which is consumed.
pub fn process_start<M: Machine>(
    cx: &mut Cx<'_, M>,
    process: HandleValue,
    thread: HandleValue,
    entry: usize,
    stack: usize,
    arg1: HandleValue,
    arg2: usize,
) -> Result<(), Status> {
    let checked = check_start(cx, process, thread);
    let argument = if arg1 == INVALID { Ok(None) } else { cx.kernel.take(cx.process, arg1).map(Some) };
    // The argument is consumed regardless of the result.
    let (ids, argument) = match (checked, argument) {
        (Ok(ids), Ok(argument)) => (ids, argument),
        (Err(status), Ok(argument)) => return refuse(cx, argument, status),
        (Err(status), Err(_)) | (Ok(_), Err(status)) => return Err(status),
    };
    if argument.is_some_and(|handle| !handle.rights.contains(Rights::TRANSFER)) {
        return refuse(cx, argument, Status::ACCESS_DENIED);
    }
    if !Native::is_user_address(entry as u64) {
        return refuse(cx, argument, Status::INVALID_ARGS);
    }
    let (process, thread) = ids;
    let ready = cx.kernel.objects.get(thread)?.state == ThreadState::Initial
        && cx.kernel.objects.get(process)?.state == ProcessState::Created;
    if !ready {
        return refuse(cx, argument, Status::BAD_STATE);
    }
    let value = cx.kernel.process_begin(process, argument)?;
    let registers = Registers::initial(entry as u64, stack as u64, [u64::from(value), arg2 as u64]);
    // A process whose first thread cannot run ends.
    cx.kernel.thread_start(thread, &registers).inspect_err(|_| cx.kernel.process_kill(process, 0))
}

/// Closes the argument of a process that is not started.
fn refuse<M: Machine>(cx: &mut Cx<'_, M>, argument: Option<Handle>, status: Status) -> Result<(), Status> {
    argument.into_iter().for_each(|handle| cx.kernel.close(handle));
    Err(status)
}

fn check_start<M: Machine>(
    cx: &Cx<'_, M>,
    process: HandleValue,
    thread: HandleValue,
) -> Result<(objects::Id<Process>, objects::Id<Thread>), Status> {
    let process = cx.get::<Process>(process, Rights::WRITE)?;
    let thread = cx.get::<Thread>(thread, Rights::WRITE)?;
    if cx.kernel.objects.get(thread)?.process != process {
        return Err(Status::ACCESS_DENIED);
    }
    Ok((process, thread))
}

/// Ends the calling process.
pub fn process_exit<M: Machine>(cx: &mut Cx<'_, M>, code: i64) -> Answer {
    let process = cx.own_process().unwrap_or(cx.process);
    cx.kernel.process_kill(process, code);
    Answer::Nothing
}

/// Another process whose memory is read or written, and its address space.
fn space_of<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    rights: Rights,
    len: usize,
) -> Result<(SlicedCall<Process>, Key), Status> {
    if len == 0 || len > 64 * 1024 * 1024 {
        return Err(Status::INVALID_ARGS);
    }
    let work = cx.sliced_call::<Process>(value, rights)?;
    let space = cx.kernel.objects.get(work.object)?.aspace.ok_or(Status::BAD_STATE)?;
    Ok((work, space))
}

/// The end of the next slice of such a copy.
fn slice_limit(done: usize, len: usize) -> usize {
    len.min(done.saturating_add(SLICE_COPY_BYTES as usize))
}

/// Reads a process's memory, up to the end of the mapping that the address is in.
pub fn process_read_memory<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    address: usize,
    buffer: Out<u8>,
    len: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    if buffer.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    let (work, space) = space_of(cx, value, Rights::READ | Rights::WRITE, len)?;
    let len = within_mapping(cx, space, address, len)?;
    let mut bytes = Vec::new();
    let mut done = work.done as usize;
    let end = slice_limit(done, len);
    while done < end {
        let part = (end - done).min(MAX_COPY);
        bytes.room(part)?;
        bytes.resize(part, 0);
        cx.kernel.copy_in_forced(space, (address + done) as u64, &mut bytes)?;
        cx.write_bytes(Out::new(buffer.0.wrapping_add(done as u64)), &bytes)?;
        done += part;
    }
    cx.end_slice(&work, (done < len).then_some(done as u64))?;
    cx.write(actual, done)
}

/// Writes a process's memory, up to the end of the mapping that the address is in.
pub fn process_write_memory<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    address: usize,
    buffer: In<u8>,
    len: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    if buffer.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    let (work, space) = space_of(cx, value, Rights::WRITE, len)?;
    let len = within_mapping(cx, space, address, len)?;
    if cx.kernel.is_vdso_at(space, address as u64) {
        return Err(Status::ACCESS_DENIED);
    }
    let mut done = work.done as usize;
    let end = slice_limit(done, len);
    while done < end {
        let part = (end - done).min(MAX_COPY);
        let bytes = cx.read_bytes(In::new(buffer.0.wrapping_add(done as u64)), part)?;
        cx.kernel.copy_out_forced(cx.process, space, (address + done) as u64, &bytes)?;
        done += part;
    }
    cx.end_slice(&work, (done < len).then_some(done as u64))?;
    cx.write(actual, done)
}

fn within_mapping<M: Machine>(cx: &Cx<'_, M>, space: Key, address: usize, len: usize) -> Result<usize, Status> {
    let left = cx.kernel.mapped_from(space, address as u64).ok_or(Status::NO_MEMORY)?;
    Ok(len.min(left as usize))
}
