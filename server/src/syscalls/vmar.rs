//! Virtual memory address regions.

use abi::{
    Rights, Status, ZX_DEFAULT_VMAR_RIGHTS, ZX_VM_ALIGN_BASE, ZX_VM_ALLOW_FAULTS, ZX_VM_CAN_MAP_EXECUTE,
    ZX_VM_CAN_MAP_READ, ZX_VM_CAN_MAP_SPECIFIC, ZX_VM_CAN_MAP_WRITE, ZX_VM_COMPACT, ZX_VM_MAP_RANGE,
    ZX_VM_OFFSET_IS_UPPER_LIMIT, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED,
    ZX_VM_PERM_WRITE, ZX_VM_REQUIRE_NON_RESIZABLE, ZX_VM_SPECIFIC, ZX_VM_SPECIFIC_OVERWRITE,
};
use objects::handle::HandleValue;
use objects::machine::{Machine, PAGE, Perm};
use objects::vmar::{MapRequest, Place, Vmar, VmarFlags};
use objects::vmo::Vmo;

use crate::cx::Cx;
use crate::user::Out;

const ALIGN_MASK: u32 = u32::MAX << ZX_VM_ALIGN_BASE;
const PERMS: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE | ZX_VM_PERM_EXECUTE | ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED;

/// What a mapping's options allow. Memory that can be executed but not read cannot be had, so asking for it without a
/// word about that is refused; asking for write without read is too.
fn perm(options: u32) -> Result<Perm, Status> {
    let mut perm = Perm {
        read: options & ZX_VM_PERM_READ != 0,
        write: options & ZX_VM_PERM_WRITE != 0,
        execute: options & ZX_VM_PERM_EXECUTE != 0,
    };
    if perm.execute && !perm.read && options & ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED != 0 {
        perm.read = true;
    }
    if perm.write && !perm.read {
        return Err(Status::INVALID_ARGS);
    }
    Ok(perm)
}

fn place(options: u32, offset: usize, flags: VmarFlags) -> Result<Place, Status> {
    let align_bits = options >> ZX_VM_ALIGN_BASE;
    let specific = options & (ZX_VM_SPECIFIC | ZX_VM_SPECIFIC_OVERWRITE) != 0;
    let limited = options & ZX_VM_OFFSET_IS_UPPER_LIMIT != 0;
    if specific && !flags.specific {
        return Err(Status::ACCESS_DENIED);
    }
    if align_bits != 0 && !(10..=32).contains(&align_bits) || specific && limited {
        return Err(Status::INVALID_ARGS);
    }
    let align = if align_bits == 0 { PAGE } else { PAGE.max(1 << align_bits) };
    let offset = offset as u64;
    if options & ZX_VM_SPECIFIC_OVERWRITE != 0 {
        return Ok(Place::Over(offset));
    }
    if specific {
        // An alignment beside a fixed place must agree with it; whether it does depends on the region's base.
        return if align_bits == 0 { Ok(Place::At(offset)) } else { Err(Status::INVALID_ARGS) };
    }
    if offset != 0 && !limited {
        return Err(Status::INVALID_ARGS);
    }
    if limited && !offset.is_multiple_of(PAGE) {
        return Err(Status::INVALID_ARGS);
    }
    Ok(Place::Anywhere { align, limit: limited.then_some(offset) })
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
    if options & !known != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let (parent, rights) = cx.get_with_rights::<Vmar>(value, Rights::NONE)?;
    let held = cx.kernel.objects.get(parent)?.flags;
    let flags = VmarFlags {
        specific: options & ZX_VM_CAN_MAP_SPECIFIC != 0,
        read: options & ZX_VM_CAN_MAP_READ != 0,
        write: options & ZX_VM_CAN_MAP_WRITE != 0,
        execute: options & ZX_VM_CAN_MAP_EXECUTE != 0,
    };
    let denied = flags.read && !(held.read && rights.contains(Rights::READ))
        || flags.write && !(held.write && rights.contains(Rights::WRITE))
        || flags.execute && !(held.execute && rights.contains(Rights::EXECUTE))
        || flags.specific && !held.specific;
    if denied {
        return Err(Status::ACCESS_DENIED);
    }
    let place = place(options, offset, held)?;
    let (child, address) = cx.kernel.vmar_allocate(parent, place, size as u64, flags)?;
    let mut child_rights = ZX_DEFAULT_VMAR_RIGHTS;
    child_rights.set(Rights::READ, flags.read);
    child_rights.set(Rights::WRITE, flags.write);
    child_rights.set(Rights::EXECUTE, flags.execute);
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
    let known = PERMS
        | ZX_VM_COMPACT
        | ZX_VM_SPECIFIC
        | ZX_VM_SPECIFIC_OVERWRITE
        | ZX_VM_MAP_RANGE
        | ZX_VM_REQUIRE_NON_RESIZABLE
        | ZX_VM_ALLOW_FAULTS
        | ZX_VM_OFFSET_IS_UPPER_LIMIT
        | ALIGN_MASK;
    let (vmar, vmar_rights) = cx.get_with_rights::<Vmar>(value, Rights::NONE)?;
    let (vmo, vmo_rights) = cx.get_with_rights::<Vmo>(vmo, Rights::MAP)?;
    if options & !known != 0 {
        return Err(Status::INVALID_ARGS);
    }
    if options & ZX_VM_MAP_RANGE != 0 && options & ZX_VM_SPECIFIC_OVERWRITE != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let perm = perm(options)?;
    if perm.write && perm.execute {
        cx.may(abi::ZX_POL_VMAR_WX)?;
    }
    let flags = cx.kernel.objects.get(vmar)?.flags;
    let max = Perm {
        read: flags.read && vmar_rights.contains(Rights::READ) && vmo_rights.contains(Rights::READ),
        write: flags.write && vmar_rights.contains(Rights::WRITE) && vmo_rights.contains(Rights::WRITE),
        execute: flags.execute && vmar_rights.contains(Rights::EXECUTE) && vmo_rights.contains(Rights::EXECUTE),
    };
    if perm.read && !max.read || perm.write && !max.write || perm.execute && !max.execute {
        return Err(Status::ACCESS_DENIED);
    }
    let target = cx.kernel.objects.get(vmo)?;
    let (resizable, is_vdso, vmo_size) = (target.resizable, target.is_vdso, target.size);
    if resizable && options & ZX_VM_REQUIRE_NON_RESIZABLE != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let place = place(options, offset, flags)?;
    let fixed = is_vdso && perm.execute;
    if fixed && cx.kernel.vdso_is_mapped(vmar)? {
        return Err(Status::ACCESS_DENIED);
    }
    if is_vdso && (perm.write || vmo_offset.checked_add(len as u64).is_none_or(|end| end > vmo_size)) {
        return Err(Status::ACCESS_DENIED);
    }
    let request = MapRequest { vmo, offset: vmo_offset, len: len as u64, perm, max, fixed };
    // The address must be deliverable before anything is replaced.
    cx.kernel.check_out(cx.aspace, out.0, size_of::<usize>())?;
    let address = cx.kernel.vmar_map(vmar, place, request)?;
    if fixed {
        cx.kernel.vdso_mapped(vmar, address.wrapping_sub(vmo_offset))?;
    }
    if options & ZX_VM_MAP_RANGE != 0
        && let Some(aspace) = cx.kernel.objects.get(vmar)?.aspace
    {
        cx.kernel.vmar_prefault(aspace, address, len as u64);
    }
    cx.write(out, address as usize)
}

/// Removes mappings and VMARs.
pub fn vmar_unmap<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    address: usize,
    len: usize,
) -> Result<(), Status> {
    let vmar = cx.get::<Vmar>(value, Rights::NONE)?;
    cx.kernel.vmar_unmap(vmar, address as u64, len as u64)
}

/// Changes what mappings allow.
pub fn vmar_protect<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    address: usize,
    len: usize,
) -> Result<(), Status> {
    if options & !PERMS != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let perm = perm(options)?;
    let mut rights = Rights::NONE;
    rights.set(Rights::READ, perm.read);
    rights.set(Rights::WRITE, perm.write);
    rights.set(Rights::EXECUTE, perm.execute);
    let vmar = cx.get::<Vmar>(value, rights)?;
    if perm.write && perm.execute {
        cx.may(abi::ZX_POL_VMAR_WX)?;
    }
    cx.kernel.vmar_protect(vmar, address as u64, len as u64, perm)
}

/// Unmaps everything in a VMAR and ends it.
pub fn vmar_destroy<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let vmar = cx.get::<Vmar>(value, Rights::OP_CHILDREN)?;
    cx.kernel.vmar_destroy(vmar)
}
