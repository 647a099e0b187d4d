//! Topics about memory: VMOs, VMARs, what a process has mapped.

use core::mem::offset_of;

use abi::{Rights, Status, zx_info_maps_t, zx_info_task_stats_t, zx_info_vmar_t, zx_info_vmo_t};
use objects::aspace::Mapping;
use objects::handle::HandleValue;
use objects::machine::{Machine, PAGE};
use objects::process::Process;
use objects::vmar::Vmar;
use objects::vmo::Vmo;
use objects::{Id, Kernel};

use super::sink::Sink;
use crate::cx::Cx;

/// Where older versions of `zx_info_vmo_t` end.
pub const VMO_V1: usize = offset_of!(zx_info_vmo_t, metadata_bytes);
pub const VMO_V2: usize = offset_of!(zx_info_vmo_t, populated_bytes);
pub const VMO_V3: usize = offset_of!(zx_info_vmo_t, committed_private_bytes);
/// Where the older version of `zx_info_task_stats_t` ends.
pub const TASK_STATS_V1: usize = offset_of!(zx_info_task_stats_t, mem_fractional_scaled_shared_bytes);

pub fn vmar<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Vmar>(value, Rights::INSPECT)?;
    let vmar = cx.kernel.objects.get(id)?;
    let record = zx_info_vmar_t { base: vmar.base as usize, len: vmar.len as usize };
    sink.one(cx, record)
}

pub fn vmo<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let (id, rights) = cx.get_with_rights::<Vmo>(value, Rights::NONE)?;
    let record = vmo_record(cx.kernel, id, rights)?;
    sink.one(cx, record)
}

fn vmo_record<M: Machine>(kernel: &Kernel<M>, id: Id<Vmo>, rights: Rights) -> Result<zx_info_vmo_t, Status> {
    let committed = kernel.vmo_committed(id)?;
    let koid = kernel.koid(id.object());
    let vmo = kernel.objects.get(id)?;
    let mut flags = abi::ZX_INFO_VMO_TYPE_PAGED;
    if vmo.resizable {
        flags |= abi::ZX_INFO_VMO_RESIZABLE;
    }
    Ok(zx_info_vmo_t {
        koid,
        name: *vmo.name.bytes(),
        size_bytes: vmo.size,
        parent_koid: vmo.parent_koid,
        num_children: vmo.children as usize,
        flags,
        committed_bytes: committed,
        populated_bytes: committed,
        handle_rights: rights.bits(),
        ..Default::default()
    })
}

pub fn process_maps<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Process>(value, Rights::INSPECT)?;
    let aspace = cx.kernel.objects.get(id)?.aspace.ok_or(Status::BAD_STATE)?;
    let avail = cx.kernel.aspace(aspace).map_or(0, |space| space.mappings.len());
    sink.many(cx, Some(avail), 0, |kernel, from| {
        let Some(mapping) = kernel.aspace(aspace).and_then(|space| space.mappings.range(*from..).next()) else {
            return Ok(None);
        };
        *from = mapping.1.end();
        Ok(Some(maps_record(kernel, mapping.1)))
    })
}

fn maps_record<M: Machine>(kernel: &Kernel<M>, mapping: &Mapping) -> zx_info_maps_t {
    let perm = mapping.perm;
    let mut record = zx_info_maps_t {
        name: *mapping.name.bytes(),
        base: mapping.base as usize,
        size: mapping.len as usize,
        depth: 1,
        type_: abi::ZX_INFO_MAPS_TYPE_MAPPING,
        ..Default::default()
    };
    record.mapping.mmu_flags = u32::from(perm.read) | u32::from(perm.write) << 1 | u32::from(perm.execute) << 2;
    record.mapping.vmo_koid = kernel.koid(mapping.vmo.object());
    record.mapping.vmo_offset = mapping.offset;
    record
}

pub fn task_stats<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Process>(value, Rights::INSPECT)?;
    let aspace = cx.kernel.objects.get(id)?.aspace.ok_or(Status::BAD_STATE)?;
    let space = cx.kernel.aspace(aspace).ok_or(Status::BAD_STATE)?;
    let (mut mapped, mut committed) = (0, 0);
    for mapping in space.mappings.values() {
        mapped += mapping.len;
        let pages = mapping.offset / PAGE..(mapping.offset + mapping.len) / PAGE;
        committed += cx.kernel.vmo_count(mapping.vmo, pages) * PAGE;
    }
    let record = zx_info_task_stats_t {
        mem_mapped_bytes: mapped as usize,
        mem_private_bytes: committed as usize,
        ..Default::default()
    };
    sink.one(cx, record)
}
