//! IOBuffers.

use alloc::vec::Vec;

use abi::{
    Rights, Status, ZX_DEFAULT_IOB_RIGHTS, ZX_DEFAULT_IOB_SHARED_REGION_RIGHTS, ZX_IOB_ACCESS_EP0_CAN_MEDIATED_READ,
    ZX_IOB_ACCESS_EP1_CAN_MEDIATED_READ, ZX_IOB_DISCIPLINE_TYPE_ID_ALLOCATOR,
    ZX_IOB_DISCIPLINE_TYPE_MEDIATED_WRITE_RING_BUFFER, ZX_IOB_DISCIPLINE_TYPE_NONE, ZX_IOB_REGION_TYPE_PRIVATE,
    ZX_IOB_REGION_TYPE_SHARED, ZX_VM_MAP_RANGE, ZX_VM_OFFSET_IS_UPPER_LIMIT, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    ZX_VM_SPECIFIC, ZX_VM_SPECIFIC_OVERWRITE, zx_iob_discipline_t, zx_iob_region_t, zx_iovec_t,
};
use objects::containers::growth::Grows;
use objects::core::handle::HandleValue;
use objects::ipc::iob::{Blob, Discipline, Iob, IobSharedRegion, MAX_REGIONS, Region, RegionSpec, Source};
use objects::ipc::stream::UserBuffer;
use objects::machine::{Machine, PAGE};
use objects::memory::vmar::Vmar;

use crate::cx::Cx;
use crate::syscalls::stream::parts;
use crate::syscalls::vmar::{map_common, map_on};
use crate::user::{In, Out};

/// All bits of `ZX_IOB_ACCESS_*`.
const ACCESS: u32 = 0xff;

/// Decodes a program's description of a region. The objects check the rest.
fn spec<M: Machine>(cx: &Cx<'_, M>, region: &zx_iob_region_t) -> Result<RegionSpec, Status> {
    if region.access == 0 || region.access & !ACCESS != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let discipline = match region.discipline.type_ {
        ZX_IOB_DISCIPLINE_TYPE_NONE => Discipline::None,
        ZX_IOB_DISCIPLINE_TYPE_ID_ALLOCATOR => Discipline::IdAllocator,
        ZX_IOB_DISCIPLINE_TYPE_MEDIATED_WRITE_RING_BUFFER => {
            // Programs read rings by mapping them.
            if region.access & (ZX_IOB_ACCESS_EP0_CAN_MEDIATED_READ | ZX_IOB_ACCESS_EP1_CAN_MEDIATED_READ) != 0 {
                return Err(Status::INVALID_ARGS);
            }
            let [tag, ..] = region.discipline.extension;
            Discipline::Ring { tag }
        }
        _ => return Err(Status::INVALID_ARGS),
    };
    let [first, padding @ ..] = region.extension;
    let source = match region.type_ {
        ZX_IOB_REGION_TYPE_PRIVATE if first == 0 => Source::Private(region.size),
        ZX_IOB_REGION_TYPE_SHARED if first as u32 == 0 && padding == [0; 3] && region.size == 0 => {
            Source::Shared(cx.get::<IobSharedRegion>((first >> 32) as u32, Rights::NONE)?)
        }
        _ => return Err(Status::INVALID_ARGS),
    };
    Ok(RegionSpec { source, access: region.access, discipline })
}

/// Creates an IOBuffer and returns both ends.
pub fn iob_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u64,
    regions: In<u8>,
    count: usize,
    out0: Out<u32>,
    out1: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_IOB)?;
    if count > MAX_REGIONS {
        return Err(Status::OUT_OF_RANGE);
    }
    if count == 0 || regions.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    let regions = cx.read_array::<zx_iob_region_t>(In::new(regions.0), count)?;
    let mut specs = Vec::new();
    specs.room_exact(count)?;
    for region in &regions {
        specs.push(spec(cx, region)?);
    }
    let pair = cx.kernel.iob_create(cx.process, &specs)?;
    cx.hand_out_pair(pair, ZX_DEFAULT_IOB_RIGHTS, (out0, out1))
}

/// Creates a region that IOBuffers can share.
pub fn iob_create_shared_region<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u64,
    size: u64,
    out: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_IOB)?;
    let region = cx.kernel.iob_create_shared_region(cx.process, size)?;
    cx.hand_out(region, ZX_DEFAULT_IOB_SHARED_REGION_RIGHTS, out)
}

/// Allocates an ID for a blob.
pub fn iob_allocate_id<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    index: u32,
    blob: In<u8>,
    size: usize,
    out: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let mut work = cx.sliced_call::<Iob>(value, Rights::WRITE)?;
    if work.done == 0 {
        cx.kernel.check_out(cx.aspace, out.0, size_of::<u32>())?;
    }
    let part = UserBuffer { address: blob.0, len: size as u64 };
    let [checked, at, copied, ..] = work.state;
    let mut blob = Blob { checked, at, copied };
    let number = cx.kernel.iob_allocate_id_slice(work.object, index, cx.aspace, part, &mut blob)?;
    (work.state[0], work.state[1], work.state[2]) = (blob.checked, blob.at, blob.copied);
    match number {
        Some(number) => cx.write(out, number),
        None => cx.end_slice(&work, Some(1)),
    }
}

/// Writes a record to a ring.
pub fn iob_writev<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u64,
    index: u32,
    vectors: In<zx_iovec_t>,
    count: usize,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let iob = cx.get::<Iob>(value, Rights::WRITE)?;
    let parts = parts(cx, vectors, count)?;
    cx.kernel.iob_write(iob, index, cx.aspace, &parts)
}

/// Maps a region.
#[allow(clippy::too_many_arguments)]
pub fn vmar_map_iob<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    offset: usize,
    end: HandleValue,
    index: u32,
    region_offset: u64,
    len: usize,
    out: Out<usize>,
) -> Result<(), Status> {
    let known = ZX_VM_SPECIFIC
        | ZX_VM_SPECIFIC_OVERWRITE
        | ZX_VM_OFFSET_IS_UPPER_LIMIT
        | ZX_VM_PERM_READ
        | ZX_VM_PERM_WRITE
        | ZX_VM_MAP_RANGE;
    if cx.progress.is_some() {
        return map_on(cx, value, options, offset, region_offset, len, out);
    }
    let (vmar, vmar_rights) = cx.get_with_rights::<Vmar>(value, Rights::NONE)?;
    let (iob, rights) = cx.get_with_rights::<Iob>(end, Rights::MAP)?;
    if options & !known != 0 || len == 0 || !len.is_multiple_of(PAGE as usize) || !region_offset.is_multiple_of(PAGE) {
        return Err(Status::INVALID_ARGS);
    }
    let last = region_offset.checked_add(len as u64).ok_or(Status::OUT_OF_RANGE)?;
    let (window, size, access) = cx.kernel.iob_window(cx.process, iob, index)?;
    let mut allowed = Rights::NONE;
    allowed.set(Rights::READ, access.read);
    allowed.set(Rights::WRITE, access.write);
    let mapped = if size < last {
        Err(Status::BUFFER_TOO_SMALL)
    } else {
        let window = (window, rights & allowed);
        map_common(cx, (vmar, vmar_rights), options, offset, window, region_offset, len, out)
    };
    cx.kernel.iob_window_made(window);
    mapped
}

/// The record that describes a region to a program.
pub fn told(region: &Region, access: u32) -> zx_iob_region_t {
    let (type_, size) = match region.spec.source {
        Source::Private(_) => (ZX_IOB_REGION_TYPE_PRIVATE, region.size),
        Source::Shared(_) => (ZX_IOB_REGION_TYPE_SHARED, region.size),
    };
    let mut discipline = zx_iob_discipline_t::default();
    discipline.type_ = match region.spec.discipline {
        Discipline::None => ZX_IOB_DISCIPLINE_TYPE_NONE,
        Discipline::IdAllocator => ZX_IOB_DISCIPLINE_TYPE_ID_ALLOCATOR,
        Discipline::Ring { tag } => {
            let [first, ..] = &mut discipline.extension;
            *first = tag;
            ZX_IOB_DISCIPLINE_TYPE_MEDIATED_WRITE_RING_BUFFER
        }
    };
    zx_iob_region_t { type_, access, size, discipline, ..Default::default() }
}
