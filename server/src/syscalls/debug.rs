//! The host link and the kernel's own commands, for whoever holds the root resource.

use alloc::format;

use abi::{Status, ZX_RSRC_SYSTEM_DEBUG_BASE};
use objects::debuglog::Level;
use objects::handle::HandleValue;
use objects::machine::{Held, Machine};
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

/// The most bytes of a command.
const MAX_COMMAND: usize = 64;

/// Does what a command says; its answer goes to the debug log. There is one: `census` tells what is in being, which is
/// how tests see that everything that a program used comes back.
pub fn debug_send_command<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    buffer: In<u8>,
    len: usize,
) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_DEBUG_BASE)?;
    if len > MAX_COMMAND {
        return Err(Status::INVALID_ARGS);
    }
    match cx.read_bytes(buffer, len)?.trim_ascii() {
        b"census" => {
            cx.kernel.ahead_settle();
            let (objects, observers, spaces) = cx.kernel.census();
            let Held { frames, units, slots } = cx.kernel.machine.held();
            let text = format!(
                "census: objects {objects}, observers {observers}, address-spaces {spaces}, frames {frames}, \
                 units {units}, slots {slots}"
            );
            cx.kernel.log(Level::Debug, "kernel", 0, 0, text.as_bytes());
            Ok(())
        }
        _ => Err(Status::NOT_SUPPORTED),
    }
}
