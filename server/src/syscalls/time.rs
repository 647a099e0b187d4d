//! Sleep. What only reads time is answered in the vDSO.

use abi::Status;
use objects::machine::Machine;
use objects::wait::Waiting;

use crate::cx::Cx;

/// Sleeps until a time.
pub fn nanosleep<M: Machine>(cx: &mut Cx<'_, M>, deadline: i64) -> Result<Waiting, Status> {
    cx.kernel.sleep(cx.thread, deadline)
}
