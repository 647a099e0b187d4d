//! Exceptions, as handlers see them.

use abi::{Rights, Status};
use objects::core::handle::HandleValue;
use objects::machine::Machine;
use objects::task::exception::Exception;

use crate::cx::Cx;
use crate::user::Out;

/// Returns a handle to the exception's thread.
pub fn exception_get_thread<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, out: Out<u32>) -> Result<(), Status> {
    let exception = cx.get::<Exception>(value, Rights::NONE)?;
    let exception = cx.kernel.objects.get(exception)?;
    let (thread, rights) = (exception.thread, exception.thread_rights());
    let new = cx.kernel.give(cx.process, thread.object(), rights)?;
    cx.write(out, new).inspect_err(|_| cx.discard(new))
}

/// Returns a handle to the exception's process, for handlers that serve more than one thread.
pub fn exception_get_process<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, out: Out<u32>) -> Result<(), Status> {
    let exception = cx.get::<Exception>(value, Rights::NONE)?;
    let exception = cx.kernel.objects.get(exception)?;
    let rights = exception.process_rights()?;
    let process = cx.kernel.objects.get(exception.thread)?.process;
    let new = cx.kernel.give(cx.process, process.object(), rights)?;
    cx.write(out, new).inspect_err(|_| cx.discard(new))
}
