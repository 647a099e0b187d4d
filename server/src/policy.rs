//! Policies: the consequences for a thread whose call violates its job's policy.
//!
//! A call that creates something checks [`crate::cx::Cx::may`] first. Any action beyond "deny" is carried out when the
//! call is over. Handle look-ups check no policy: this module examines a call that ends with `BAD_HANDLE` or
//! `WRONG_TYPE` afterwards. So a call that violates nothing pays for two comparisons.

use abi::{
    Status, ZX_EXCP_POLICY_CODE_NEW_IOB, ZX_EXCP_POLICY_CODE_NEW_SAMPLER, ZX_INFO_HANDLE_VALID,
    ZX_POL_ACTION_ALLOW_EXCEPTION, ZX_POL_ACTION_DENY_EXCEPTION, ZX_POL_ACTION_KILL, ZX_POL_BAD_HANDLE, ZX_POL_NEW_IOB,
    ZX_POL_NEW_SAMPLER, ZX_POL_WRONG_OBJECT, ZX_TASK_RETCODE_POLICY_KILL, nr,
};
use objects::machine::Machine;

use crate::Answer;
use crate::cx::Cx;

/// Records that the caller does what `condition` names; `action` is not "allow".
#[cold]
pub fn offends<M: Machine>(cx: &mut Cx<'_, M>, condition: u32, action: u32) -> Result<(), Status> {
    cx.offence.get_or_insert(condition);
    if action == ZX_POL_ACTION_ALLOW_EXCEPTION { Ok(()) } else { Err(Status::ACCESS_DENIED) }
}

/// Whether [`judge`] must look at a finished call.
#[inline(always)]
pub fn may_have_offended<M: Machine>(cx: &Cx<'_, M>, answer: Answer) -> bool {
    matches!(answer, Answer::Done(result) if result < 0) || cx.offence.is_some()
}

/// Applies the caller's policy to a finished call. `answer` is the call's answer.
pub fn judge<M: Machine>(cx: &mut Cx<'_, M>, number: u32, args: [u64; 4], answer: Answer) -> Answer {
    let Some(condition) = cx.offence.or_else(|| looked_up(number, args, answer)) else { return answer };
    let Ok(process) = cx.kernel.objects.get(cx.process) else { return answer };
    match process.policy.action(condition) {
        ZX_POL_ACTION_KILL => {
            let process = cx.own_process().unwrap_or(cx.process);
            cx.kernel.process_kill(process, ZX_TASK_RETCODE_POLICY_KILL);
            Answer::Nothing
        }
        ZX_POL_ACTION_ALLOW_EXCEPTION | ZX_POL_ACTION_DENY_EXCEPTION => {
            cx.policy_exception(exception_code(condition), 0, answer)
        }
        _ => answer,
    }
}

/// `ZX_EXCP_POLICY_CODE_*` of a condition. Conditions that are older than the codes have the same numbers.
fn exception_code(condition: u32) -> u32 {
    match condition {
        ZX_POL_NEW_IOB => ZX_EXCP_POLICY_CODE_NEW_IOB,
        ZX_POL_NEW_SAMPLER => ZX_EXCP_POLICY_CODE_NEW_SAMPLER,
        _ => condition,
    }
}

/// The condition that a failed handle look-up violates. A call that only asks whether a handle is valid violates
/// nothing.
fn looked_up(number: u32, args: [u64; 4], answer: Answer) -> Option<u32> {
    let asks =
        number == nr::HANDLE_CHECK_VALID || number == nr::OBJECT_GET_INFO && args[1] as u32 == ZX_INFO_HANDLE_VALID;
    let Answer::Done(result) = answer else { return None };
    match i32::try_from(result).map(Status) {
        Ok(Status::BAD_HANDLE) if !asks => Some(ZX_POL_BAD_HANDLE),
        Ok(Status::WRONG_TYPE) => Some(ZX_POL_WRONG_OBJECT),
        _ => None,
    }
}
