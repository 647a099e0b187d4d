//! The debug log.

use abi::{
    Rights, Status, ZX_DEFAULT_LOG_RIGHTS, ZX_LOG_FLAG_READABLE, ZX_LOG_RECORD_DATA_MAX, ZX_RSRC_SYSTEM_DEBUGLOG_BASE,
    zx_log_record_t,
};
use objects::core::debuglog::{Debuglog, Level, LogWriter, MAX_TEXT};
use objects::core::handle::{HandleValue, INVALID};
use objects::machine::Machine;
use zerocopy::IntoBytes;

use crate::cx::Cx;
use crate::syscalls::resource::need_system;
use crate::user::{In, Out};

/// Creates a view of the log.
pub fn debuglog_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    options: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    let readable = options & ZX_LOG_FLAG_READABLE != 0;
    // Any program may write records; reading those of all others needs the resource.
    if readable || resource != INVALID {
        need_system(cx, resource, ZX_RSRC_SYSTEM_DEBUGLOG_BASE)?;
    }
    if options & !ZX_LOG_FLAG_READABLE != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let log = cx.kernel.debuglog_create(readable)?;
    let mut rights = ZX_DEFAULT_LOG_RIGHTS;
    rights.set(Rights::READ, readable);
    cx.hand_out(log, rights, out)
}

/// Writes a record.
pub fn debuglog_write<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    buffer: In<u8>,
    len: usize,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.get::<Debuglog>(value, Rights::WRITE)?;
    let text = cx.read_bytes(buffer, len.min(MAX_TEXT))?;
    let who = speaker(cx)?;
    cx.kernel.log(Level::Info, who, &text);
    Ok(())
}

/// The calling program as the writer of a record.
pub fn speaker<M: Machine>(cx: &mut Cx<'_, M>) -> Result<LogWriter, Status> {
    let own = cx.own_process()?;
    let (process, thread) = (cx.kernel.koid(own.object()), cx.kernel.koid(cx.thread.object()));
    let name = cx.kernel.objects.get(own)?.name;
    Ok(LogWriter::Program { name, process, thread })
}

/// Reads the next record; the result is its size.
pub fn debuglog_read<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    buffer: Out<u8>,
    len: usize,
) -> Result<crate::Answer, Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let id = cx.get::<Debuglog>(value, Rights::READ)?;
    // The record is taken only if it can be delivered.
    cx.kernel.check_out(cx.aspace, buffer.0, len.min(size_of::<zx_log_record_t>()))?;
    let record = cx.kernel.debuglog_read(id)?;
    let mut out = zx_log_record_t {
        sequence: record.sequence,
        datalen: record.text.len() as u16,
        severity: record.level.severity(),
        timestamp: record.time,
        pid: record.process,
        tid: record.thread,
        ..Default::default()
    };
    for (to, from) in out.data.iter_mut().zip(&record.text) {
        *to = *from;
    }
    let size = size_of::<zx_log_record_t>() - ZX_LOG_RECORD_DATA_MAX + record.text.len();
    let bytes = out.as_bytes().get(..size.min(len)).unwrap_or_default();
    cx.write_bytes(buffer, bytes)?;
    Ok(crate::Answer::Done(bytes.len() as i64))
}
