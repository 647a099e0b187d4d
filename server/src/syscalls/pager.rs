//! Pagers.

use abi::{
    Rights, Status, ZX_DEFAULT_PAGER_RIGHTS, ZX_DEFAULT_VMO_RIGHTS, ZX_PAGER_RESET_VMO_STATS,
    ZX_PAGER_VMO_STATS_MODIFIED, ZX_POL_NEW_PAGER, ZX_VMO_RESIZABLE, ZX_VMO_TRAP_DIRTY, ZX_VMO_UNBOUNDED,
    zx_pager_vmo_stats_t, zx_vmo_dirty_range_t,
};
use alloc::vec::Vec;
use objects::ObjectId;
use objects::containers::growth::Grows;
use objects::core::handle::HandleValue;
use objects::core::port::Port;
use objects::machine::Machine;
use objects::memory::pager::{DirtyQuery, Pager};
use objects::memory::vmo::Vmo;

use crate::cx::Cx;
use crate::user::Out;

/// Creates a pager.
pub fn pager_create<M: Machine>(cx: &mut Cx<'_, M>, options: u32, out: Out<u32>) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(ZX_POL_NEW_PAGER)?;
    let pager = cx.kernel.pager_create()?;
    cx.hand_out(pager, ZX_DEFAULT_PAGER_RIGHTS, out)
}

/// Creates a VMO whose pages a pager supplies.
pub fn pager_create_vmo<M: Machine>(
    cx: &mut Cx<'_, M>,
    pager: HandleValue,
    options: u32,
    port: HandleValue,
    key: u64,
    size: u64,
    out: Out<u32>,
) -> Result<(), Status> {
    let (resizable, unbounded) = (options & ZX_VMO_RESIZABLE != 0, options & ZX_VMO_UNBOUNDED != 0);
    if options & !(ZX_VMO_RESIZABLE | ZX_VMO_TRAP_DIRTY | ZX_VMO_UNBOUNDED) != 0 || resizable && unbounded {
        return Err(Status::INVALID_ARGS);
    }
    let pager = cx.get::<Pager>(pager, Rights::ATTACH_VMO)?;
    let port = cx.get::<Port>(port, Rights::WRITE)?;
    cx.kernel.check_out(cx.aspace, out.0, size_of::<u32>())?;
    let traps = options & ZX_VMO_TRAP_DIRTY != 0;
    let vmo = if unbounded {
        if size > objects::memory::vmo::MAX_SIZE {
            return Err(Status::OUT_OF_RANGE);
        }
        let vmo = cx.kernel.pager_create_vmo(pager, (port, key), objects::memory::vmo::MAX_SIZE, false, traps)?;
        cx.kernel.vmo_note_content_size(vmo, size)?;
        vmo
    } else {
        cx.kernel.pager_create_vmo(pager, (port, key), size, resizable, traps)?
    };
    let mut rights = ZX_DEFAULT_VMO_RIGHTS;
    if resizable {
        rights |= Rights::RESIZE;
    }
    cx.hand_out(vmo, rights, out)
}

/// Detaches a VMO from its pager: no more requests are sent.
pub fn pager_detach_vmo<M: Machine>(cx: &mut Cx<'_, M>, pager: HandleValue, vmo: HandleValue) -> Result<(), Status> {
    let rights = Rights::ATTACH_VMO | Rights::MANAGE_VMO;
    let (work, vmo) = cx.sliced_call_on_two::<Pager, Vmo>((pager, rights), (vmo, Rights::WRITE))?;
    let more = cx.kernel.pager_detach_vmo_slice(work.object, vmo, work.done == 0)?;
    cx.end_slice(&work, more.then_some(1))
}

/// Moves pages into a VMO.
pub fn pager_supply_pages<M: Machine>(
    cx: &mut Cx<'_, M>,
    pager: HandleValue,
    vmo: HandleValue,
    offset: u64,
    length: u64,
    aux: HandleValue,
    aux_offset: u64,
) -> Result<(), Status> {
    let pager = match cx.progress.and_then(|progress| ObjectId::from_word(progress.state[0])) {
        // The pager may have been closed since the call began; its VMOs are then detached.
        Some(pager) => cx.kernel.objects.typed(pager).map_err(|_| Status::BAD_STATE)?,
        None => cx.get::<Pager>(pager, Rights::MANAGE_VMO)?,
    };
    let both = cx.sliced_call_on_two::<Vmo, Vmo>((vmo, Rights::WRITE), (aux, Rights::READ | Rights::WRITE));
    let (mut work, aux) = match both {
        Ok(both) => both,
        Err(status) => {
            // The check that the VMO is this pager's comes before errors of the other VMO's handle.
            let vmo = cx.get::<Vmo>(vmo, Rights::WRITE)?;
            cx.kernel.source_of(pager, vmo)?;
            return Err(status);
        }
    };
    work.state[0] = pager.object().to_word();
    let more = cx.kernel.pager_supply_slice(pager, work.object, (offset, length), (aux, aux_offset), work.done)?;
    cx.end_slice(&work, more)
}

/// Operates on a range of a VMO: fails requests, marks pages dirty, begins or ends a writeback.
pub fn pager_op_range<M: Machine>(
    cx: &mut Cx<'_, M>,
    pager: HandleValue,
    op: u32,
    vmo: HandleValue,
    offset: u64,
    length: u64,
    data: u64,
) -> Result<(), Status> {
    let (work, vmo) = cx.sliced_call_on_two::<Pager, Vmo>((pager, Rights::MANAGE_VMO), (vmo, Rights::WRITE))?;
    let more = cx.kernel.pager_op_range_slice(work.object, op, vmo, (offset, length), data, work.done)?;
    cx.end_slice(&work, more)
}

/// Lists the dirty ranges of a VMO.
#[allow(clippy::too_many_arguments)]
pub fn pager_query_dirty_ranges<M: Machine>(
    cx: &mut Cx<'_, M>,
    pager: HandleValue,
    vmo: HandleValue,
    offset: u64,
    length: u64,
    buffer: Out<u8>,
    buffer_size: usize,
    actual: Out<usize>,
    avail: Out<usize>,
) -> Result<(), Status> {
    let (mut work, vmo) = cx.sliced_call_on_two::<Pager, Vmo>((pager, Rights::MANAGE_VMO), (vmo, Rights::READ))?;
    let room = (buffer_size / size_of::<zx_vmo_dirty_range_t>()) as u64;
    let [mut found, at, start, end, zero, ..] = work.state;
    let mut query = DirtyQuery { has_begun: work.done != 0, at, start, end, zero: zero != 0 };
    let mut told = Vec::new();
    let more = cx.kernel.pager_query_dirty_ranges(work.object, vmo, (offset, length), &mut query, |range| {
        told.room(1)?;
        told.push(range);
        Ok(())
    })?;
    for range in told {
        if found < room {
            cx.write(Out::<zx_vmo_dirty_range_t>::new(buffer.0).nth(found as usize), range)?;
        }
        found += 1;
    }
    let DirtyQuery { at, start, end, zero, .. } = query;
    (work.state[0], work.state[1], work.state[2], work.state[3], work.state[4]) = (found, at, start, end, zero.into());
    cx.end_slice(&work, more.then_some(work.done + 1))?;
    cx.write_optional(actual, found.min(room) as usize)?;
    cx.write_optional(avail, found as usize)
}

/// Returns whether a VMO was modified.
pub fn pager_query_vmo_stats<M: Machine>(
    cx: &mut Cx<'_, M>,
    pager: HandleValue,
    vmo: HandleValue,
    options: u32,
    buffer: Out<u8>,
    buffer_size: usize,
) -> Result<(), Status> {
    let (mut work, vmo) = cx.sliced_call_on_two::<Pager, Vmo>((pager, Rights::MANAGE_VMO), (vmo, Rights::READ))?;
    if options & !ZX_PAGER_RESET_VMO_STATS != 0 {
        return Err(Status::INVALID_ARGS);
    }
    if buffer_size < size_of::<zx_pager_vmo_stats_t>() {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    let out = Out::<zx_pager_vmo_stats_t>::new(buffer.0);
    let modified = match options & ZX_PAGER_RESET_VMO_STATS {
        0 => cx.kernel.pager_query_modified(work.object, vmo)?,
        _ if work.done != 0 => work.state[0] != 0,
        _ => {
            cx.kernel.check_out(cx.aspace, out.0, size_of::<zx_pager_vmo_stats_t>())?;
            cx.kernel.pager_reset_modified(work.object, vmo)?
        }
    };
    if modified && options & ZX_PAGER_RESET_VMO_STATS != 0 {
        work.state[0] = modified.into();
        let more = cx.kernel.pager_protect_slice(vmo, work.done)?;
        cx.end_slice(&work, more)?;
    }
    let stats = zx_pager_vmo_stats_t { modified: if modified { ZX_PAGER_VMO_STATS_MODIFIED } else { 0 } };
    cx.write(out, stats)
}
