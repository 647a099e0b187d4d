//! Handles.

use abi::{Rights, Status, ZX_RIGHT_SAME_RIGHTS};
use objects::core::continuation::Progress;
use objects::core::continuation::SliceTimer;
use objects::core::handle::{Handle, HandleValue, INVALID};
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::{In, Out};

/// Closes a handle. Closing the invalid handle does nothing.
pub fn handle_close<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    if value == INVALID {
        return Ok(());
    }
    let handle = cx.kernel.take(cx.process, value)?;
    cx.kernel.close_at_once(handle);
    Ok(())
}

/// Maximum number of handles that one call closes, because other threads wait until it is done.
const MAX_CLOSE: usize = 1 << 16;

/// Closes all handles of an array, including those after an invalid one.
pub fn handle_close_many<M: Machine>(cx: &mut Cx<'_, M>, values: In<u32>, count: usize) -> Result<(), Status> {
    /// Added to the progress if a handle was invalid.
    const BAD: u64 = 1 << 32;
    if count > MAX_CLOSE {
        return Err(Status::OUT_OF_RANGE);
    }
    let mut done = cx.progress.take().map_or(0, |progress| progress.done);
    cx.wait_in(values.0, count * size_of::<u32>())?;
    let mut slice = SliceTimer::default();
    while ((done & !BAD) as usize) < count {
        let value = cx.read(values.nth((done & !BAD) as usize))?;
        if handle_close(cx, value).is_err() {
            done |= BAD;
        }
        done += 1;
        // The reaper destroys the closed objects now and then, so that its list stays short.
        if done.is_multiple_of(64) {
            cx.kernel.reap();
        }
        if cx.kernel.slice_over(&mut slice) {
            let progress = Progress::new(cx.process.object(), Rights::NONE, done);
            return Err(cx.kernel.continue_call(progress));
        }
    }
    if done & BAD == 0 { Ok(()) } else { Err(Status::BAD_HANDLE) }
}

/// The rights of a new handle if `wanted` are requested and the old handle has `held`.
pub fn reduce(held: Rights, wanted: u32) -> Result<Rights, Status> {
    if wanted == ZX_RIGHT_SAME_RIGHTS {
        return Ok(held);
    }
    let wanted = Rights::from_bits(wanted).ok_or(Status::INVALID_ARGS)?;
    if held.contains(wanted) { Ok(wanted) } else { Err(Status::INVALID_ARGS) }
}

/// Duplicates a handle.
pub fn handle_duplicate<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    rights: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    let handle = cx.get_any(value, Rights::DUPLICATE)?;
    let rights = reduce(handle.rights, rights)?;
    let new = cx.kernel.give(cx.process, handle.object, rights)?;
    cx.write(out, new).inspect_err(|_| cx.discard(new))
}

/// Replaces a handle by one with other rights. The old handle is closed regardless of the result.
pub fn handle_replace<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    rights: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    cx.wait_out(out.0, size_of::<u32>())?;
    let old = cx.kernel.take(cx.process, value)?;
    let rights = reduce(old.rights, rights).inspect_err(|_| cx.kernel.close(old))?;
    let new = cx.kernel.put(cx.process, Handle { object: old.object, rights })?;
    cx.write(out, new).inspect_err(|_| cx.discard(new))
}

/// Whether a value is a handle of the caller.
pub fn handle_check_valid<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    cx.kernel.handle(cx.process, value).map(|_| ())
}
