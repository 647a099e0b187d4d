//! The host link and the server's debug commands, for holders of the root resource.

use alloc::format;
use alloc::string::String;

use abi::{Rights, Status, ZX_RSRC_SYSTEM_DEBUG_BASE};
use objects::containers::failure_injection::{MemoryRequest, Plan, PlanResults};
use objects::core::continuation::{CALL_CONTINUES, Progress};
use objects::core::debuglog::{Level, LogWriter};
use objects::core::handle::HandleValue;
use objects::core::wait::Waiting;
use objects::device::debug::WRITES;
use objects::machine::{Machine, MachineUsage};

use crate::cx::{Cx, MAX_COPY};
use crate::syscalls::debuglog::speaker;
use crate::syscalls::resource::need_system;
use crate::user::{In, Out};

/// Writes bytes to the host link; waits until all are queued. If another process owns the link, the bytes go to the
/// debug log.
pub fn debug_write<M: Machine>(cx: &mut Cx<'_, M>, bytes: In<u8>, len: usize) -> Result<Waiting, Status> {
    let len = len.min(MAX_COPY);
    if !cx.kernel.serial_may_write(cx.process) {
        let who = speaker(cx)?;
        let data = cx.read_bytes(bytes, len)?;
        cx.kernel.log(Level::Debug, who, &data);
        return Ok(Waiting::Over(Status::OK));
    }
    let written = write_slice(cx, bytes, len);
    if !matches!(written, Err(CALL_CONTINUES) | Ok(Waiting::Blocked)) {
        cx.kernel.serial_written(cx.thread);
    }
    written
}

fn write_slice<M: Machine>(cx: &mut Cx<'_, M>, bytes: In<u8>, len: usize) -> Result<Waiting, Status> {
    let (thread, process) = (cx.thread, cx.process.object());
    let mut done = cx.progress.take().map_or(0, |progress| progress.done as usize);
    let slice = len.saturating_sub(done).min(WRITES);
    let data = cx.read_bytes(bytes.nth(done), slice)?;
    let taken = cx.kernel.serial_write_slice(thread, &data);
    done += taken;
    if done >= len {
        return Ok(Waiting::Over(Status::OK));
    }
    if taken == slice {
        return Err(cx.kernel.continue_call(Progress::new(process, Rights::NONE, done as u64)));
    }
    let rest = cx.read_bytes(bytes.nth(done), len - done)?;
    cx.kernel.serial_write_rest(thread, rest)
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

/// Maximum length of a command, in bytes.
const MAX_COMMAND: usize = 64;

/// Carries out a command; its answer goes to the debug log. `census` reports the resources in use, with which tests
/// check that a program's resources come back. `types` reports the number of objects of each type. `link` gives the
/// caller exclusive use of the host link. `refuse KIND FIRST COUNT TASK` makes a task's memory requests fail by a
/// [plan](objects::containers::failure_injection); with `on` appended, all later requests of the same event fail, too.
/// `refuse` alone ends the plan and reports the outcome.
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
    let bytes = cx.read_bytes(buffer, len)?;
    let command = core::str::from_utf8(&bytes).map_err(|_| Status::NOT_SUPPORTED)?;
    let mut words = command.split_ascii_whitespace();
    let answer = match words.next() {
        Some("census") => {
            cx.await_reaper()?;
            cx.kernel.ahead_reclaim();
            let (objects, observers, spaces) = cx.kernel.census();
            let MachineUsage { frames, units, slots } = cx.kernel.machine.usage();
            format!(
                "census: objects {objects}, observers {observers}, address-spaces {spaces}, frames {frames}, \
                 units {units}, slots {slots}"
            )
        }
        Some("types") => {
            cx.await_reaper()?;
            let counts = cx.kernel.census_of_types();
            let counts = counts.iter().enumerate().filter(|(_, count)| **count != 0);
            counts.fold(String::from("types:"), |text, (code, count)| format!("{text} {code} {count},"))
        }
        Some("link") => return cx.kernel.serial_claim(cx.process),
        Some("refuse") => {
            cx.await_reaper()?;
            let (taken, free) = cx.kernel.machine.heap();
            let PlanResults { made, refused } = cx.kernel.failure_plan_set(plan(words)?);
            format!("refuse: made {made}, refused {refused}, heap {}", taken.saturating_sub(free))
        }
        _ => return Err(Status::NOT_SUPPORTED),
    };
    cx.kernel.log(Level::Debug, LogWriter::Kernel("kernel"), answer.as_bytes());
    Ok(())
}

/// Parses the words after `refuse`: the task, and its plan.
fn plan<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Option<(u64, Plan)>, Status> {
    let Some(kind) = words.next() else { return Ok(None) };
    let (want, _) = *MemoryRequest::ALL.iter().find(|(_, name)| *name == kind).ok_or(Status::INVALID_ARGS)?;
    let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or(Status::INVALID_ARGS);
    let (first, count, koid) = (number()?, number()?, number()?);
    let on = match words.next() {
        None => false,
        Some("on") => true,
        Some(_) => return Err(Status::INVALID_ARGS),
    };
    Ok(Some((koid, Plan { want: Some(want), first, count, on })))
}
