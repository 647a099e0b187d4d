//! The server's trace, for holders of the resource for tracing.

use alloc::vec::Vec;

use abi::{
    KTRACE_ACTION_REWIND, KTRACE_ACTION_START, KTRACE_ACTION_START_CIRCULAR, KTRACE_ACTION_STOP, Rights, Status,
    ZX_RSRC_SYSTEM_TRACING_BASE,
};
use objects::containers::growth::Grows;
use objects::core::handle::HandleValue;
use objects::machine::Machine;
use objects::task::job::Job;

use crate::cx::{Cx, MAX_COPY};
use crate::syscalls::resource::need_system;
use crate::user::{InOut, Out};

/// Starts, stops or empties the trace.
pub fn ktrace_control<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    action: u32,
    _options: u32,
    pointer: InOut<u8>,
) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_TRACING_BASE)?;
    match action {
        KTRACE_ACTION_START => {
            let job = if pointer.is_null() {
                None
            } else {
                let job: HandleValue = cx.read(InOut::new(pointer.0).input())?;
                Some(cx.get::<Job>(job, Rights::ENUMERATE)?)
            };
            cx.kernel.trace_start(job)
        }
        KTRACE_ACTION_STOP => {
            cx.kernel.trace_stop();
            Ok(())
        }
        KTRACE_ACTION_REWIND => {
            cx.kernel.trace_rewind();
            Ok(())
        }
        KTRACE_ACTION_START_CIRCULAR => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_ARGS),
    }
}

/// Takes the oldest bytes of the trace, or returns how many there are.
pub fn ktrace_read<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    data: Out<u8>,
    offset: u32,
    len: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_TRACING_BASE)?;
    if offset != 0 {
        return Err(Status::INVALID_ARGS);
    }
    if data.is_null() {
        let waiting = cx.kernel.trace_waiting() as usize;
        return cx.write(actual, waiting);
    }
    // Bytes that are taken are gone, so everything must be valid before.
    let len = len.min(MAX_COPY);
    cx.kernel.check_out(cx.aspace, data.0, len)?;
    cx.kernel.check_out(cx.aspace, actual.0, size_of::<usize>())?;
    let len = len.min(cx.kernel.trace_waiting() as usize);
    let mut bytes = Vec::new();
    bytes.room_exact(len)?;
    bytes.resize(len, 0);
    let taken = cx.kernel.trace_read(&mut bytes)?;
    cx.write_bytes(data, bytes.get(..taken).unwrap_or_default())?;
    cx.write(actual, taken)
}
