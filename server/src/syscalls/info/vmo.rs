//! Topics about VMOs: one VMO by its handle, and all VMOs that a process can reach.

use core::mem::offset_of;

use abi::{
    Rights, Status, ZX_INFO_VMO_CONTIGUOUS, ZX_INFO_VMO_DISCARDABLE, ZX_INFO_VMO_IMMUTABLE, ZX_INFO_VMO_IS_COW_CLONE,
    ZX_INFO_VMO_PAGER_BACKED, ZX_INFO_VMO_RESIZABLE, ZX_INFO_VMO_TYPE_PAGED, ZX_INFO_VMO_VIA_HANDLE,
    ZX_INFO_VMO_VIA_IOB_HANDLE, ZX_INFO_VMO_VIA_MAPPING, zx_info_vmo_t,
};
use objects::core::continuation;
use objects::core::handle::HandleValue;
use objects::ipc::iob::Iob;
use objects::machine::Machine;
use objects::memory::tree_walk::{Node, Walk};
use objects::memory::vmar::Vmar;
use objects::memory::vmo::{Kind, Vmo};
use objects::task::process::Process;
use objects::{Id, Kernel};

use super::sink::{ListPosition, ReportedList, Sink, Step};
use crate::cx::Cx;

/// Bytes of older versions of the record.
pub const V1: usize = offset_of!(zx_info_vmo_t, metadata_bytes);
pub const V2: usize = offset_of!(zx_info_vmo_t, populated_bytes);
pub const V3: usize = offset_of!(zx_info_vmo_t, committed_private_bytes);

pub fn vmo<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let (id, rights) = cx.get_with_rights::<Vmo>(value, Rights::NONE)?;
    let record = record(cx.kernel, id, ZX_INFO_VMO_VIA_HANDLE, rights)?;
    sink.one(cx, record)
}

/// A VMO's record; `via` is the flag for how it was found.
fn record<M: Machine>(kernel: &Kernel<M>, id: Id<Vmo>, via: u32, rights: Rights) -> Result<zx_info_vmo_t, Status> {
    let memory = kernel.vmo_memory(id)?;
    let (scaled, fraction) = memory.scaled_bytes();
    let vmo = kernel.objects.get(id)?;
    let kind = kernel.vmo_kind(id)?;
    let mut flags = via;
    for (flag, is) in [
        (ZX_INFO_VMO_TYPE_PAGED, !matches!(kind, Kind::Physical { .. })),
        (ZX_INFO_VMO_RESIZABLE, vmo.resizable),
        (ZX_INFO_VMO_IS_COW_CLONE, vmo.is_clone),
        (ZX_INFO_VMO_PAGER_BACKED, kernel.vmo_is_paged(id)?),
        (ZX_INFO_VMO_CONTIGUOUS, kind == Kind::Contiguous),
        (ZX_INFO_VMO_DISCARDABLE, vmo.is_discardable()),
        (ZX_INFO_VMO_IMMUTABLE, vmo.is_immutable),
    ] {
        flags |= if is { flag } else { 0 };
    }
    Ok(zx_info_vmo_t {
        koid: kernel.koid(id.object()),
        name: *vmo.name.bytes(),
        size_bytes: kernel.vmo_size(id)?,
        parent_koid: kernel.vmo_parent_koid(id),
        num_children: vmo.children as usize,
        num_mappings: vmo.num_mappings,
        share_count: vmo.share_count().max(1),
        flags,
        committed_bytes: memory.committed,
        handle_rights: rights.bits(),
        cache_policy: kernel.vmo_cache(id)? as u32,
        metadata_bytes: vmo.metadata_bytes() as u64,
        populated_bytes: memory.committed,
        committed_private_bytes: memory.private,
        populated_private_bytes: memory.private,
        committed_scaled_bytes: scaled,
        populated_scaled_bytes: scaled,
        committed_fractional_scaled_bytes: fraction,
        populated_fractional_scaled_bytes: fraction,
        ..Default::default()
    })
}

/// The VMOs that a process can reach: first those behind its handles, then those that it has mapped.
struct ReachableVmos {
    /// The process that holds the handle table.
    holder: Id<Process>,
    roots: (Id<Vmar>, Option<Id<Vmar>>),
}

/// The progress of the list.
struct Position {
    /// Index into the handle table.
    handle: usize,
    /// The next region, if the handle there refers to an IOBuffer.
    region: usize,
    /// The position of the tree walk through the mappings.
    walk: [u64; 2],
}

impl ListPosition for Position {
    fn of(&[handle, region, vmar, from, ..]: &continuation::ContinuationState) -> Self {
        Position { handle: handle as usize, region: region as usize, walk: [vmar, from] }
    }

    fn words(&self) -> continuation::ContinuationState {
        let [vmar, from] = self.walk;
        [self.handle as u64, self.region as u64, vmar, from, 0, 0, 0]
    }
}

impl<M: Machine> ReportedList<M> for ReachableVmos {
    type Position = Position;
    type Record = zx_info_vmo_t;
    // A record may cover many pages.
    const WORK: u32 = 16;

    fn next(&self, kernel: &Kernel<M>, place: &mut Position) -> Result<Step<Self::Record>, Status> {
        if let Some(found) = kernel.objects.get(self.holder)?.handles.at(place.handle) {
            if let Some((_, handle)) = found
                && let Ok(end) = kernel.objects.typed::<Iob>(handle.object)
                && let Some(region) = kernel.objects.get(end)?.regions().get(place.region)
            {
                place.region += 1;
                return record(kernel, region.vmo, ZX_INFO_VMO_VIA_IOB_HANDLE, handle.rights).map(Step::Record);
            }
            (place.handle, place.region) = (place.handle + 1, 0);
            if let Some((_, handle)) = found
                && let Ok(vmo) = kernel.objects.typed::<Vmo>(handle.object)
            {
                return record(kernel, vmo, ZX_INFO_VMO_VIA_HANDLE, handle.rights).map(Step::Record);
            }
            return Ok(Step::Nothing);
        }
        let mut walk = Walk::stopped(self.roots, place.walk);
        let next = kernel.walk_next(&mut walk);
        place.walk = walk.place();
        match next {
            None => Ok(Step::End),
            Some((_, Node::Vmar(_) | Node::End)) => Ok(Step::Nothing),
            Some((_, Node::Mapping(mapping))) => {
                let told = kernel.vmo_to_report(mapping.named);
                record(kernel, told, ZX_INFO_VMO_VIA_MAPPING, Rights::NONE).map(Step::Record)
            }
        }
    }

    fn len(&self, _: &Kernel<M>) -> Option<usize> {
        None
    }
}

pub fn process_vmos<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let work = cx.sliced_call::<Process>(value, Rights::INSPECT)?;
    let roots = cx.kernel.roots(work.object)?;
    let holder = cx.kernel.objects.get(work.object)?.holder(work.object);
    let reached = ReachableVmos { holder, roots };
    sink.many(cx, work, &reached)
}
