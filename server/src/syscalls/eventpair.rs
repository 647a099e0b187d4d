//! Event pairs.

use abi::{Status, ZX_DEFAULT_EVENTPAIR_RIGHTS};
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::Out;

/// Creates an event pair and returns both ends.
pub fn eventpair_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u32,
    out0: Out<u32>,
    out1: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    cx.may(abi::ZX_POL_NEW_EVENTPAIR)?;
    let pair = cx.kernel.eventpair_create()?;
    cx.hand_out_pair(pair, ZX_DEFAULT_EVENTPAIR_RIGHTS, (out0, out1))
}
