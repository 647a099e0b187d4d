//! What threads, processes and jobs have in common.

use abi::{Rights, Status, ZX_TASK_RETCODE_SYSCALL_KILL};
use objects::Id;
use objects::handle::HandleValue;
use objects::job::Job;
use objects::machine::Machine;
use objects::object::Body;
use objects::process::Process;
use objects::thread::{Thread, ThreadState};

use crate::Answer;
use crate::cx::Cx;

/// Ends a task and all that is in it. The caller does not survive if it is among that.
pub fn task_kill<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<Answer, Status> {
    let handle = cx.get_any(value, Rights::DESTROY)?;
    let objects = &cx.kernel.objects;
    match objects.any(handle.object)?.body {
        Body::Thread(_) => {
            let id: Id<Thread> = objects.typed(handle.object)?;
            cx.kernel.thread_kill(id);
        }
        Body::Process(_) => {
            let id: Id<Process> = objects.typed(handle.object)?;
            cx.kernel.process_kill(id, ZX_TASK_RETCODE_SYSCALL_KILL);
        }
        Body::Job(_) => {
            let id: Id<Job> = objects.typed(handle.object)?;
            cx.kernel.job_kill(id, ZX_TASK_RETCODE_SYSCALL_KILL);
        }
        _ => return Err(Status::WRONG_TYPE),
    }
    let gone = cx.kernel.objects.get(cx.thread).map_or(true, |t| t.state == ThreadState::Dead);
    Ok(if gone { Answer::Nothing } else { Answer::Done(0) })
}
