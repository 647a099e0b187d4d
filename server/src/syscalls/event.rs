//! Events.

use abi::{Status, ZX_DEFAULT_EVENT_RIGHTS};
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::Out;

/// Creates an event.
pub fn event_create<M: Machine>(cx: &mut Cx<'_, M>, options: u32, out: Out<u32>) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_EVENT)?;
    let event = cx.kernel.event_create()?;
    cx.hand_out(event, ZX_DEFAULT_EVENT_RIGHTS, out)
}
