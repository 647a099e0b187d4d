//! Calls that threads, processes and jobs have in common.

use abi::{
    Rights, Status, ZX_DEFAULT_SUSPEND_TOKEN_RIGHTS, ZX_EXCEPTION_CHANNEL_DEBUGGER, ZX_POL_NEW_CHANNEL,
    ZX_TASK_RETCODE_SYSCALL_KILL,
};
use objects::core::handle::HandleValue;
use objects::machine::Machine;
use objects::task::exception::Task;
use objects::task::suspend_token::SuspendedTask;
use objects::task::thread::Thread;

use crate::Answer;
use crate::cx::Cx;
use crate::user::Out;

/// Ends a process or a job with everything in it, which may include the caller. A thread cannot be killed, because it
/// would leave half-done work and held locks behind.
pub fn task_kill<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<Answer, Status> {
    let handle = cx.get_any(value, Rights::DESTROY)?;
    match cx.kernel.task(handle.object)? {
        Task::Process(id) => cx.kernel.process_kill(id, ZX_TASK_RETCODE_SYSCALL_KILL),
        Task::Job(id) => cx.kernel.job_kill(id, ZX_TASK_RETCODE_SYSCALL_KILL),
        Task::Thread(_) => return Err(Status::WRONG_TYPE),
    }
    let gone = cx.kernel.objects.get(cx.thread).map_or(true, Thread::has_ended);
    Ok(if gone { Answer::Nothing } else { Answer::Done(0) })
}

/// Suspends a thread, or all threads of a process, while the returned token exists.
pub fn task_suspend<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, token: Out<u32>) -> Result<(), Status> {
    let handle = cx.get_any(value, Rights::WRITE)?;
    let task = match cx.kernel.task(handle.object)? {
        Task::Thread(id) => SuspendedTask::Thread(id),
        Task::Process(id) => SuspendedTask::Process(id),
        Task::Job(_) => return Err(Status::WRONG_TYPE),
    };
    // A suspended caller could not be given the token.
    if task == SuspendedTask::Thread(cx.thread) || task == SuspendedTask::Process(cx.own_process()?) {
        return Err(Status::NOT_SUPPORTED);
    }
    let id = cx.kernel.task_suspend(task)?;
    cx.hand_out(id, ZX_DEFAULT_SUSPEND_TOKEN_RIGHTS, token)
}

/// The same call under its older name.
pub fn task_suspend_token<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, token: Out<u32>) -> Result<(), Status> {
    task_suspend(cx, value, token)
}

/// The rights of an exception channel's reading end.
const EXCEPTION_CHANNEL_RIGHTS: Rights = Rights::TRANSFER.union(Rights::WAIT).union(Rights::READ);

/// Creates the channel that delivers a task's exceptions.
pub fn task_create_exception_channel<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    if options & !ZX_EXCEPTION_CHANNEL_DEBUGGER != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(ZX_POL_NEW_CHANNEL)?;
    let handle = cx.get_any(value, Rights::NONE)?;
    let mut needed = Rights::INSPECT | Rights::DUPLICATE | Rights::TRANSFER | Rights::MANAGE_THREAD;
    let task = cx.kernel.task(handle.object)?;
    if !matches!(task, Task::Thread(_)) {
        needed |= Rights::ENUMERATE;
    }
    if !handle.rights.contains(needed) {
        return Err(Status::ACCESS_DENIED);
    }
    let debugger = options & ZX_EXCEPTION_CHANNEL_DEBUGGER != 0;
    let channel = cx.kernel.exception_channel_create(task, debugger, handle.rights)?;
    cx.hand_out(channel, EXCEPTION_CHANNEL_RIGHTS, out)
}
