//! I/O ports.

use abi::{Status, ZX_RSRC_KIND_IOPORT};
use objects::core::handle::HandleValue;
use objects::machine::Machine;

use crate::cx::Cx;
use crate::syscalls::resource::need_range;

/// Grants I/O ports to the caller's process.
pub fn ioports_request<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    first: u16,
    count: u32,
) -> Result<(), Status> {
    need_range(cx, resource, ZX_RSRC_KIND_IOPORT, first.into(), count.into())?;
    let process = cx.own_process()?;
    cx.kernel.ioports_set(process, first, count, true)
}

/// Revokes the grant.
pub fn ioports_release<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    first: u16,
    count: u32,
) -> Result<(), Status> {
    need_range(cx, resource, ZX_RSRC_KIND_IOPORT, first.into(), count.into())?;
    let process = cx.own_process()?;
    cx.kernel.ioports_set(process, first, count, false)
}
