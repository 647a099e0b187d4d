//! The host link, for whoever holds the root resource.

use abi::{Status, ZX_RSRC_SYSTEM_DEBUG_BASE};
use objects::handle::HandleValue;
use objects::machine::Machine;
use objects::wait::Waiting;

use crate::cx::{Cx, MAX_COPY};
use crate::syscalls::resource::need_system;
use crate::user::{In, Out};

/// Writes bytes to the host link; waits until all are on their way.
pub fn debug_write<M: Machine>(cx: &mut Cx<'_, M>, bytes: In<u8>, len: usize) -> Result<Waiting, Status> {
    let data = cx.read_bytes(bytes, len.min(MAX_COPY))?;
    cx.kernel.serial_write(cx.thread, data)
}

/// Reads bytes from the host link; waits for the first.
pub fn debug_read<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    buffer: Out<u8>,
    len: usize,
    actual: Out<usize>,
) -> Result<Waiting, Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_DEBUG_BASE)?;
    cx.kernel.serial_read(cx.thread, buffer.0, len as u64, actual.0)
}
