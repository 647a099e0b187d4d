//! Restricted mode.

use abi::{
    HAFNON_RESTRICTED_STOP_EXCEPTION, HAFNON_RESTRICTED_STOP_KICK, HAFNON_RESTRICTED_STOP_PAGE_FAULT, Rights, Status,
    ZX_DEFAULT_VMO_RIGHTS, ZX_RESTRICTED_REASON_EXCEPTION, ZX_RESTRICTED_REASON_KICK, zx_exception_report_t,
};
use objects::arch::{Architecture, Native, PageFaultAccess};
use objects::core::continuation::PAGE_WAIT;
use objects::core::handle::HandleValue;
use objects::machine::{Machine, PAGE};
use objects::task::thread::Thread;

use crate::Answer;
use crate::cx::Cx;
use crate::fault::{page_fault_report, processor_report};
use crate::user::Out;

/// Binds a new VMO for restricted-mode state to the calling thread.
pub fn restricted_bind_state<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u32,
    out: Out<u32>,
    out_exception: Out<zx_exception_report_t>,
) -> Result<(), Status> {
    if options != 0 || out.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    if !out_exception.is_null() {
        return Err(Status::NOT_SUPPORTED);
    }
    cx.may(abi::ZX_POL_NEW_VMO)?;
    let place = cx.place_optional(out)?;
    let vmo = cx.kernel.vmo_create(PAGE, false)?;
    let value = cx.kernel.give_new(cx.process, vmo, ZX_DEFAULT_VMO_RIGHTS)?;
    let bound = cx.kernel.restricted_bind(cx.thread, vmo).and_then(|()| cx.fill(place, value));
    bound.inspect_err(|_| cx.discard(value))
}

/// Unbinds it.
pub fn restricted_unbind_state<M: Machine>(cx: &mut Cx<'_, M>, options: u32) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.kernel.restricted_unbind(cx.thread);
    Ok(())
}

/// Enters restricted mode, or returns that the thread is kicked. The vDSO handles the return from it.
pub fn restricted_enter<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u32,
    vector_table_ptr: usize,
    _context: usize,
) -> Answer {
    if options != 0 || !Native::is_user_address(vector_table_ptr as u64) {
        return Answer::Done(i64::from(Status::INVALID_ARGS.0));
    }
    Answer::Done(match cx.kernel.restricted_enter(cx.thread) {
        Ok(true) => i64::from(Status::OK.0),
        Ok(false) => ZX_RESTRICTED_REASON_KICK as i64,
        Err(status) => i64::from(status.0),
    })
}

/// Serves a page fault, or returns why the thread left restricted mode: the reason instead of a status.
pub fn restricted_stop<M: Machine>(cx: &mut Cx<'_, M>, kind: u64, place: u64, code: u64) -> Result<Answer, Status> {
    if !cx.kernel.restricted_is_bound(cx.thread) {
        return Err(Status::BAD_STATE);
    }
    let report = match kind {
        HAFNON_RESTRICTED_STOP_KICK => None,
        HAFNON_RESTRICTED_STOP_PAGE_FAULT if Native::page_fault_access(code).user => {
            let PageFaultAccess { write, execute, .. } = Native::page_fault_access(code);
            let aspace = cx.kernel.restricted_aspace(cx.own_process()?)?;
            match cx.kernel.page_fault(aspace, place, write, execute) {
                Ok(()) => return Ok(Answer::Done(i64::from(Status::OK.0))),
                Err(PAGE_WAIT) => return Err(PAGE_WAIT),
                Err(status) => Some(page_fault_report(place, write, execute, status)),
            }
        }
        HAFNON_RESTRICTED_STOP_PAGE_FAULT => Some(processor_report(Native::PAGE_FAULT, code)),
        HAFNON_RESTRICTED_STOP_EXCEPTION => Some(processor_report(place, code)),
        _ => return Err(Status::INVALID_ARGS),
    };
    cx.kernel.restricted_stop(cx.thread, report.as_ref())?;
    let reason = if report.is_some() { ZX_RESTRICTED_REASON_EXCEPTION } else { ZX_RESTRICTED_REASON_KICK };
    Ok(Answer::Done(reason as i64))
}

/// Kicks a thread out of restricted mode.
pub fn restricted_kick<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, options: u32) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let thread = cx.get::<Thread>(value, Rights::MANAGE_THREAD)?;
    cx.kernel.restricted_kick(thread)
}
