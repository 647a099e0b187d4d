//! Virtual memory address regions.

use abi::{
    HAFNON_VM_PAGE_TABLE, Rights, Status, ZX_DEFAULT_VMAR_RIGHTS, ZX_VM_ALIGN_BASE, ZX_VM_ALLOW_FAULTS,
    ZX_VM_CAN_MAP_EXECUTE, ZX_VM_CAN_MAP_READ, ZX_VM_CAN_MAP_SPECIFIC, ZX_VM_CAN_MAP_WRITE, ZX_VM_COMPACT,
    ZX_VM_FAULT_BEYOND_STREAM_SIZE, ZX_VM_MAP_RANGE, ZX_VM_OFFSET_IS_UPPER_LIMIT, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ,
    ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED, ZX_VM_PERM_WRITE, ZX_VM_REQUIRE_NON_RESIZABLE, ZX_VM_SPECIFIC,
    ZX_VM_SPECIFIC_OVERWRITE, ZX_VMAR_OP_ALWAYS_NEED, ZX_VMAR_OP_COMMIT, ZX_VMAR_OP_DECOMMIT, ZX_VMAR_OP_DONT_NEED,
    ZX_VMAR_OP_MAP_RANGE, ZX_VMAR_OP_PREFETCH, ZX_VMAR_OP_ZERO,
};
use objects::Id;
use objects::core::continuation::UNSLICED_BYTES;
use objects::core::handle::HandleValue;
use objects::machine::{Machine, PAGE, Perm};
use objects::memory::vmar::{MapRequest, Place, RangeOp, Vmar, VmarFlags};
use objects::memory::vmo::Vmo;
use objects::time::clock::{Clock, MAPPED_SIZE};

use crate::cx::Cx;
use crate::long_call::SlicedCall;
use crate::user::{InOut, Out};

pub use super::iob::vmar_map_iob;

const ALIGN_MASK: u32 = u32::MAX << ZX_VM_ALIGN_BASE;
const PERMS: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE | ZX_VM_PERM_EXECUTE | ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED;

/// The permissions that options request. The processor has no memory that is executable but not readable, so
/// `ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED` adds the permission to read.
fn asked(options: u32) -> Perm {
    let execute = options & ZX_VM_PERM_EXECUTE != 0;
    Perm {
        read: options & (ZX_VM_PERM_READ | ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED) != 0,
        write: options & ZX_VM_PERM_WRITE != 0,
        execute,
    }
}

/// The same, checked: memory that is writable or executable must be readable.
pub(super) fn perm(options: u32) -> Result<Perm, Status> {
    let perm = asked(options);
    if !perm.read && (perm.write || perm.execute) { Err(Status::INVALID_ARGS) } else { Ok(perm) }
}

/// The rights that a handle needs for these permissions.
fn rights_for(perm: Perm) -> Rights {
    let mut rights = Rights::NONE;
    rights.set(Rights::READ, perm.read);
    rights.set(Rights::WRITE, perm.write);
    rights.set(Rights::EXECUTE, perm.execute);
    rights
}

/// The permissions that rights allow.
pub(super) fn perm_of(rights: Rights) -> Perm {
    Perm {
        read: rights.contains(Rights::READ),
        write: rights.contains(Rights::WRITE),
        execute: rights.contains(Rights::EXECUTE),
    }
}

/// The alignment that options request.
fn align(options: u32) -> Result<u64, Status> {
    match options >> ZX_VM_ALIGN_BASE {
        0 => Ok(PAGE),
        bits @ 10..=32 => Ok(PAGE.max(1 << bits)),
        _ => Err(Status::INVALID_ARGS),
    }
}

/// The place for `len` bytes in a VMAR that options and offset request.
#[inline(always)]
fn place(vmar: &Vmar, options: u32, offset: usize, len: u64) -> Result<Place, Status> {
    let offset = offset as u64;
    let has = |option| options & option != 0;
    let align = align(options)?;
    if vmar.aspace.is_none() {
        return Err(Status::BAD_STATE);
    }
    let specific = has(ZX_VM_SPECIFIC | ZX_VM_SPECIFIC_OVERWRITE);
    let limited = has(ZX_VM_OFFSET_IS_UPPER_LIMIT);
    if len == 0 || specific && limited || !specific && !limited && offset != 0 || !offset.is_multiple_of(PAGE) {
        return Err(Status::INVALID_ARGS);
    }
    if (specific || limited) && !vmar.flags.specific {
        return Err(Status::ACCESS_DENIED);
    }
    let fits =
        if limited { offset <= vmar.len && len <= offset } else { offset < vmar.len && len <= vmar.len - offset };
    if !fits || specific && !(vmar.base + offset).is_multiple_of(align) {
        return Err(Status::INVALID_ARGS);
    }
    Ok(if has(ZX_VM_SPECIFIC_OVERWRITE) {
        Place::Over(offset)
    } else if specific {
        Place::At(offset)
    } else {
        Place::Anywhere { align, limit: limited.then_some(offset) }
    })
}

/// Creates a VMAR within a VMAR.
pub fn vmar_allocate<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    offset: usize,
    size: usize,
    out: Out<u32>,
    out_address: Out<usize>,
) -> Result<(), Status> {
    let known = ZX_VM_COMPACT
        | ZX_VM_SPECIFIC
        | ZX_VM_CAN_MAP_SPECIFIC
        | ZX_VM_CAN_MAP_READ
        | ZX_VM_CAN_MAP_WRITE
        | ZX_VM_CAN_MAP_EXECUTE
        | ZX_VM_OFFSET_IS_UPPER_LIMIT
        | ALIGN_MASK;
    let can = Perm {
        read: options & ZX_VM_CAN_MAP_READ != 0,
        write: options & ZX_VM_CAN_MAP_WRITE != 0,
        execute: options & ZX_VM_CAN_MAP_EXECUTE != 0,
    };
    let parent = cx.get::<Vmar>(value, rights_for(can))?;
    if options & !known != 0 || !(size as u64).is_multiple_of(PAGE) {
        return Err(Status::INVALID_ARGS);
    }
    let Perm { read, write, execute } = can;
    let flags = VmarFlags { specific: options & ZX_VM_CAN_MAP_SPECIFIC != 0, read, write, execute };
    let place = place(cx.kernel.objects.get(parent)?, options, offset, size as u64)?;
    let (child, address) = cx.kernel.vmar_allocate(parent, place, size as u64, flags)?;
    let child_rights = ZX_DEFAULT_VMAR_RIGHTS | rights_for(can);
    let written = cx.write(out_address, address as usize).and_then(|()| cx.hand_out(child, child_rights, out));
    if written.is_err() {
        cx.kernel.vmar_destroy(child)?;
    }
    written
}

/// Maps a VMO.
#[allow(clippy::too_many_arguments)]
pub fn vmar_map<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    offset: usize,
    vmo: HandleValue,
    vmo_offset: u64,
    len: usize,
    out: Out<usize>,
) -> Result<(), Status> {
    if cx.progress.is_some() {
        return map_on(cx, value, options, offset, vmo_offset, len, out);
    }
    let (vmar, vmar_rights) = cx.get_with_rights::<Vmar>(value, Rights::NONE)?;
    let (vmo, vmo_rights) = cx.get_with_rights::<Vmo>(vmo, Rights::MAP)?;
    map_common(cx, (vmar, vmar_rights), options, offset, (vmo, vmo_rights), vmo_offset, len, out)
}

/// Maps a VMO as the rights of both handles allow.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn map_common<M: Machine>(
    cx: &mut Cx<'_, M>,
    (vmar, vmar_rights): (Id<Vmar>, Rights),
    options: u32,
    offset: usize,
    (vmo, vmo_rights): (Id<Vmo>, Rights),
    vmo_offset: u64,
    len: usize,
    out: Out<usize>,
) -> Result<(), Status> {
    let known = PERMS
        | ZX_VM_SPECIFIC
        | ZX_VM_SPECIFIC_OVERWRITE
        | ZX_VM_MAP_RANGE
        | ZX_VM_REQUIRE_NON_RESIZABLE
        | ZX_VM_ALLOW_FAULTS
        | ZX_VM_OFFSET_IS_UPPER_LIMIT
        | ZX_VM_FAULT_BEYOND_STREAM_SIZE
        | ALIGN_MASK;
    let has = |option| options & option != 0;
    let perm = perm(options)?;
    if has(ZX_VM_MAP_RANGE) && has(ZX_VM_SPECIFIC_OVERWRITE)
        || has(ZX_VM_CAN_MAP_READ | ZX_VM_CAN_MAP_WRITE | ZX_VM_CAN_MAP_EXECUTE)
    {
        return Err(Status::INVALID_ARGS);
    }
    if perm.write && perm.execute {
        cx.may(abi::ZX_POL_VMAR_WX)?;
    }
    let max = perm_of(vmar_rights & vmo_rights);
    if !max.allows(perm) {
        return Err(Status::ACCESS_DENIED);
    }
    if options & !known == HAFNON_VM_PAGE_TABLE {
        return map_page_table(cx, vmar, (options, offset), (vmo, vmo_rights), (vmo_offset, len), out);
    }
    if has(ZX_VM_FAULT_BEYOND_STREAM_SIZE) && !has(ZX_VM_ALLOW_FAULTS) || options & !known != 0 {
        return Err(Status::INVALID_ARGS);
    }
    align(options)?;
    let target = cx.kernel.objects.get(vmo)?;
    let is_vdso = target.is_vdso;
    if target.resizable && has(ZX_VM_REQUIRE_NON_RESIZABLE) {
        return Err(Status::NOT_SUPPORTED);
    }
    if target.is_discardable() && !has(ZX_VM_ALLOW_FAULTS) {
        return Err(Status::NOT_SUPPORTED);
    }
    if !vmo_offset.is_multiple_of(PAGE) {
        return Err(Status::INVALID_ARGS);
    }
    let rounded = (len as u64).checked_next_multiple_of(PAGE).ok_or(Status::OUT_OF_RANGE)?;
    vmo_offset.checked_add(rounded).ok_or(Status::OUT_OF_RANGE)?;
    let region = cx.kernel.objects.get(vmar)?;
    let flags = region.flags;
    let place = place(region, options, offset, rounded)?;
    let within = Perm { read: flags.read, write: flags.write, execute: flags.execute };
    if !within.allows(perm) {
        return Err(Status::ACCESS_DENIED);
    }
    let fixed = is_vdso && perm.execute;
    if fixed && cx.kernel.vdso_is_mapped(vmar)? {
        return Err(Status::ACCESS_DENIED);
    }
    if is_vdso {
        let size = cx.kernel.vmo_size(vmo)?;
        if perm.write || vmo_offset.checked_add(len as u64).is_none_or(|end| end > size) {
            return Err(Status::ACCESS_DENIED);
        }
    }
    let request = MapRequest { vmo, offset: vmo_offset, len: len as u64, perm, max, fixed };
    // Checked before anything is done that cannot be undone, so that the address can be delivered.
    let for_good = fixed || matches!(place, Place::Over(_));
    if for_good {
        cx.kernel.check_out(cx.aspace, out.0, size_of::<usize>())?;
    }
    let content_only = has(ZX_VM_FAULT_BEYOND_STREAM_SIZE);
    let in_slices = matches!(place, Place::Over(_)) && rounded > UNSLICED_BYTES && !fixed;
    let address = match place {
        Place::Over(offset) if in_slices => {
            map_over(cx, (vmar, vmar_rights), offset, vmo_rights, (request, content_only))?
        }
        _ => cx.kernel.vmar_map(vmar, place, request)?,
    };
    if fixed {
        cx.kernel.vdso_mapped(vmar, address.wrapping_sub(vmo_offset))?;
    }
    // A mapping made in slices has this property from the start; by now another mapping may be at this address.
    if content_only
        && !in_slices
        && let Some(aspace) = cx.kernel.objects.get(vmar)?.aspace
    {
        cx.kernel.mapping_ends_with_content(aspace, address);
    }
    if perm.execute {
        crate::debugger::code_mapped(cx);
    }
    let written = cx.write(out, address as usize);
    if written.is_err() && !for_good {
        cx.kernel.vmar_unmap(vmar, address, rounded, false)?;
    }
    written?;
    if has(ZX_VM_MAP_RANGE) { prefault(cx, vmar, address) } else { Ok(()) }
}

/// Makes a page table.
#[cold]
#[inline(never)]
fn map_page_table<M: Machine>(
    cx: &mut Cx<'_, M>,
    vmar: Id<Vmar>,
    (options, offset): (u32, usize),
    (vmo, rights): (Id<Vmo>, Rights),
    (vmo_offset, len): (u64, usize),
    out: Out<usize>,
) -> Result<(), Status> {
    let places = ZX_VM_SPECIFIC | ZX_VM_OFFSET_IS_UPPER_LIMIT | ALIGN_MASK;
    if options & !places != HAFNON_VM_PAGE_TABLE || vmo_offset != 0 {
        return Err(Status::INVALID_ARGS);
    }
    align(options)?;
    if !rights.contains(Rights::SET_PROPERTY) {
        return Err(Status::ACCESS_DENIED);
    }
    let len = (len as u64).checked_next_multiple_of(PAGE).ok_or(Status::OUT_OF_RANGE)?;
    let place = place(cx.kernel.objects.get(vmar)?, options, offset, len)?;
    let address = cx.kernel.page_table_create(vmar, place, vmo, len)?;
    let written = cx.write(out, address as usize);
    if written.is_err() {
        cx.kernel.vmar_unmap(vmar, address, len, false)?;
    }
    written
}

/// A slice of a mapping that replaces old ones. Returns the address when all of it is mapped.
#[cold]
#[inline(never)]
fn map_over<M: Machine>(
    cx: &mut Cx<'_, M>,
    (vmar, rights): (Id<Vmar>, Rights),
    offset: u64,
    vmo_rights: Rights,
    (request, content_only): (MapRequest, bool),
) -> Result<u64, Status> {
    let mut work = SlicedCall::begins(vmar, rights);
    work.with = Some(request.vmo.object());
    work.state[0] = vmo_rights.bits().into();
    let done = cx.progress.take().map_or(0, |progress| progress.done);
    let (address, more) = cx.kernel.vmar_map_over_slice(vmar, offset, (request, content_only), done)?;
    cx.end_slice(&work, more)?;
    Ok(address)
}

/// Continues a mapping call: either it replaces the rest of the old mappings, or the mapping is complete and the call
/// maps its pages in advance. If another thread has unmapped it meanwhile, nothing remains to be done.
#[cold]
#[inline(never)]
pub fn map_on<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    offset: usize,
    vmo_offset: u64,
    len: usize,
    out: Out<usize>,
) -> Result<(), Status> {
    let progress = cx.progress;
    let SlicedCall { object: vmar, with, rights, done, state } = cx.sliced_call::<Vmar>(value, Rights::NONE)?;
    let Some(vmo) = with else { return prefault(cx, vmar, done) };
    cx.progress = progress;
    let vmo = (cx.kernel.objects.typed(vmo)?, Rights::from_bits_retain(state[0] as u32));
    map_common(cx, (vmar, rights), options, offset, vmo, vmo_offset, len, out)
}

/// Maps pages of a mapping in advance from an address on, one slice. The call's progress is the address.
fn prefault<M: Machine>(cx: &mut Cx<'_, M>, vmar: Id<Vmar>, from: u64) -> Result<(), Status> {
    let more = cx.kernel.vmar_prefault(vmar, from);
    cx.end_slice(&SlicedCall::begins(vmar, Rights::NONE), more)
}

/// Maps a mappable clock.
pub fn vmar_map_clock<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    offset: usize,
    clock: HandleValue,
    len: usize,
    out: Out<usize>,
) -> Result<(), Status> {
    // It is read-only and has no stream size.
    let not =
        ZX_VM_PERM_WRITE | ZX_VM_PERM_EXECUTE | ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED | ZX_VM_FAULT_BEYOND_STREAM_SIZE;
    if options & not != 0 || len as u64 != MAPPED_SIZE {
        return Err(Status::INVALID_ARGS);
    }
    let (clock, rights) = cx.get_with_rights::<Clock>(clock, Rights::NONE)?;
    let page = cx.kernel.objects.get(clock)?.page.ok_or(Status::INVALID_ARGS)?;
    let vmar = cx.get_with_rights::<Vmar>(value, Rights::NONE)?;
    if !rights.contains(Rights::MAP) {
        return Err(Status::ACCESS_DENIED);
    }
    map_common(cx, vmar, options, offset, (page, rights & Rights::READ), 0, len, out)
}

/// Removes mappings and VMARs.
pub fn vmar_unmap<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    address: usize,
    len: usize,
) -> Result<(), Status> {
    if len as u64 <= UNSLICED_BYTES && cx.progress.is_none() {
        let (vmar, rights) = cx.get_with_rights::<Vmar>(value, Rights::NONE)?;
        let (range, with_vmars) = ((address as u64, len as u64), rights.contains(Rights::OP_CHILDREN));
        return match cx.kernel.vmar_unmap_slice(vmar, range, with_vmars, 0)? {
            None => Ok(()),
            more => cx.end_slice(&SlicedCall::begins(vmar, rights), more),
        };
    }
    unmap_long(cx, value, address, len)
}

/// As [`vmar_unmap`], for a long range, or a call that continues.
#[inline(never)]
fn unmap_long<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, address: usize, len: usize) -> Result<(), Status> {
    let work = cx.sliced_call::<Vmar>(value, Rights::NONE)?;
    let (range, with_vmars) = ((address as u64, len as u64), work.rights.contains(Rights::OP_CHILDREN));
    let more = cx.kernel.vmar_unmap_slice(work.object, range, with_vmars, work.done)?;
    cx.end_slice(&work, more)
}

/// Changes the permissions of mappings.
pub fn vmar_protect<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    address: usize,
    len: usize,
) -> Result<(), Status> {
    let work = cx.sliced_call::<Vmar>(value, rights_for(asked(options)))?;
    let perm = perm(options)?;
    if options & !PERMS != 0 {
        return Err(Status::INVALID_ARGS);
    }
    if perm.write && perm.execute {
        cx.may(abi::ZX_POL_VMAR_WX)?;
    }
    let (range, with_vmars) = ((address as u64, len as u64), work.rights.contains(Rights::OP_CHILDREN));
    let more = cx.kernel.vmar_protect_slice(work.object, range, perm, with_vmars, work.done)?;
    cx.end_slice(&work, more)
}

/// Operates on the memory that is mapped in a range.
pub fn vmar_op_range<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    op: u32,
    address: usize,
    len: usize,
    buffer: InOut<u8>,
    buffer_size: usize,
) -> Result<(), Status> {
    let work = cx.sliced_call::<Vmar>(value, Rights::NONE)?;
    let SlicedCall { object: vmar, rights, done, .. } = work;
    let (op, needed) = match op {
        ZX_VMAR_OP_COMMIT => (RangeOp::Commit, Rights::WRITE),
        ZX_VMAR_OP_DECOMMIT => (RangeOp::Decommit, Rights::WRITE),
        ZX_VMAR_OP_MAP_RANGE => (RangeOp::MapRange, Rights::READ),
        ZX_VMAR_OP_ZERO => (RangeOp::Zero, Rights::WRITE),
        ZX_VMAR_OP_DONT_NEED => (RangeOp::DontNeed, Rights::NONE),
        ZX_VMAR_OP_ALWAYS_NEED => (RangeOp::AlwaysNeed, Rights::NONE),
        ZX_VMAR_OP_PREFETCH => (RangeOp::Prefetch, Rights::READ),
        _ => return Err(Status::INVALID_ARGS),
    };
    if !rights.contains(needed) {
        return Err(Status::ACCESS_DENIED);
    }
    if buffer.0 != 0 || buffer_size != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let range = (address as u64, len as u64);
    let more = cx.kernel.vmar_op_range_slice(vmar, op, range, rights.contains(Rights::OP_CHILDREN), done)?;
    cx.end_slice(&work, more)
}

/// Destroys a VMAR with everything in it.
pub fn vmar_destroy<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let work = cx.sliced_call::<Vmar>(value, Rights::OP_CHILDREN)?;
    let more = cx.kernel.vmar_destroy_slice(work.object, work.done)?;
    cx.end_slice(&work, more)
}
