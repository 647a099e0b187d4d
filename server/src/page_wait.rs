//! Calls and faults that wait for a pager: steps 2 and 6 of the protocol in [`objects::memory::pager`].

use abi::Status;
use objects::Kernel;
use objects::containers::failure_injection;
use objects::core::wait::Waiting;
use objects::machine::{Machine, ThreadKey};
use objects::task::page_wait::AfterPageWait;

use crate::cx::Cx;
use crate::{Answer, fault, restart_call};

/// Maximum number of threads that continue after one event. The others continue after the next event, which is then due
/// at once.
const AT_ONCE: usize = 64;

/// Step 2: the call cannot be made before a pager has acted. The server keeps its arguments as it read them.
pub fn wait<M: Machine>(cx: &mut Cx<'_, M>, number: u32, args: [u64; 4]) -> Answer {
    let [a, b, c, d] = args;
    // A call that has not read arguments 5 to 8 does not have them.
    let [e, f, g, h] = cx.extra.unwrap_or_default();
    match cx.kernel.page_wait(cx.thread, AfterPageWait::Call { number, args: [a, b, c, d, e, f, g, h] }) {
        Ok(Waiting::Blocked) => Answer::Blocked,
        Ok(Waiting::Over(status)) | Err(status) => Answer::Done(i64::from(status.0)),
    }
}

/// Step 6: threads whose pages have arrived, or will not arrive, continue.
#[cold]
#[inline(never)]
pub fn resume<M: Machine>(kernel: &mut Kernel<M>) {
    for _ in 0..AT_ONCE {
        let Some((thread, then, result)) = kernel.page_wait_next() else { return };
        kernel.failure_plan_arm(thread.object().index());
        match then {
            AfterPageWait::Fault { address, write, execute } => {
                fault::retry(kernel, thread, (address, write, execute), result)
            }
            AfterPageWait::Call { number, args } => {
                let key = ThreadKey(thread.object().index());
                let answer = match result {
                    Ok(()) => restart_call(kernel, key, number, args, None),
                    Err(status) => Answer::Done(i64::from(status.0)),
                };
                match answer {
                    Answer::Done(result) => kernel.thread_return(thread, result),
                    Answer::Yield => kernel.thread_return(thread, i64::from(Status::OK.0)),
                    // It waits again, for a page or for the call's own event, or it has ended.
                    Answer::Blocked | Answer::Resume | Answer::Nothing => {}
                }
            }
            AfterPageWait::Hand { .. } | AfterPageWait::Answer(_) => kernel.page_wait_resume(thread, then, result),
        }
        failure_injection::arm(false);
        kernel.failure_plan_reap(Kernel::reap);
    }
    if kernel.page_waits_done() {
        let now = kernel.machine.now();
        kernel.machine.set_deadline(now);
    }
}
