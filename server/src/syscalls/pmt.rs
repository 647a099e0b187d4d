//! Pinned memory.

use abi::Status;
use objects::core::handle::HandleValue;
use objects::device::bti::Pmt;
use objects::machine::Machine;

use crate::cx::Cx;

/// Unpins memory. The handle is closed even if it is of another type.
pub fn pmt_unpin<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let handle = cx.kernel.take(cx.process, value)?;
    let pmt = cx.kernel.objects.typed::<Pmt>(handle.object);
    if let Ok(pmt) = pmt {
        cx.kernel.pmt_unpin(pmt);
    }
    cx.kernel.close(handle);
    pmt.map(|_| ())
}
