//! Topics about VMOs: one by its handle, and all that a process can reach.

use core::mem::offset_of;

use abi::{
    Rights, Status, ZX_INFO_VMO_CONTIGUOUS, ZX_INFO_VMO_DISCARDABLE, ZX_INFO_VMO_IMMUTABLE, ZX_INFO_VMO_IS_COW_CLONE,
    ZX_INFO_VMO_PAGER_BACKED, ZX_INFO_VMO_RESIZABLE, ZX_INFO_VMO_TYPE_PAGED, ZX_INFO_VMO_VIA_HANDLE,
    ZX_INFO_VMO_VIA_IOB_HANDLE, ZX_INFO_VMO_VIA_MAPPING, zx_info_vmo_t,
};
use objects::handle::HandleValue;
use objects::iob::Iob;
use objects::machine::Machine;
use objects::process::Process;
use objects::vmo::{Kind, Vmo};
use objects::{Id, Kernel};

use super::sink::Sink;
use crate::cx::Cx;

/// Where older versions of the record end.
pub const V1: usize = offset_of!(zx_info_vmo_t, metadata_bytes);
pub const V2: usize = offset_of!(zx_info_vmo_t, populated_bytes);
pub const V3: usize = offset_of!(zx_info_vmo_t, committed_private_bytes);

pub fn vmo<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let (id, rights) = cx.get_with_rights::<Vmo>(value, Rights::NONE)?;
    let record = record(cx.kernel, id, ZX_INFO_VMO_VIA_HANDLE, rights)?;
    sink.one(cx, record)
}

/// `via` says how it was come upon.
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
        share_count: vmo.share_count(),
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

/// How far the list of a process's VMOs has come: first those that it has handles to, then those that it has mapped.
#[derive(Default)]
struct Place {
    handle: usize,
    /// The IOBuffer whose regions are told, and the next one.
    iob: Option<(Id<Iob>, Rights, usize)>,
    address: u64,
}

pub fn process_vmos<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Process>(value, Rights::INSPECT)?;
    let aspace = cx.kernel.objects.get(id)?.aspace.ok_or(Status::BAD_STATE)?;
    sink.many(cx, None, Place::default(), |kernel, place| {
        loop {
            if let Some((end, rights, index)) = &mut place.iob
                && let Some(region) = kernel.objects.get(*end)?.regions().get(*index)
            {
                *index += 1;
                return record(kernel, region.vmo, ZX_INFO_VMO_VIA_IOB_HANDLE, *rights).map(Some);
            }
            place.iob = None;
            let Some((_, handle)) = kernel.objects.get(id)?.handles.next(&mut place.handle) else { break };
            if let Ok(end) = kernel.objects.typed::<Iob>(handle.object) {
                place.iob = Some((end, handle.rights, 0));
            }
            if let Ok(vmo) = kernel.objects.typed::<Vmo>(handle.object) {
                return record(kernel, vmo, ZX_INFO_VMO_VIA_HANDLE, handle.rights).map(Some);
            }
        }
        kernel.aspace(aspace).ok_or(Status::BAD_STATE)?;
        let Some(mapping) = kernel.mapping_from(aspace, place.address) else { return Ok(None) };
        place.address = mapping.end();
        record(kernel, kernel.vmo_told(mapping.named), ZX_INFO_VMO_VIA_MAPPING, Rights::NONE).map(Some)
    })
}
