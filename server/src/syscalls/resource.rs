//! Resources.

use abi::{
    Rights, Status, ZX_DEFAULT_RESOURCE_RIGHTS, ZX_RSRC_FLAG_EXCLUSIVE, ZX_RSRC_KIND_COUNT, ZX_RSRC_KIND_MMIO,
    ZX_RSRC_KIND_ROOT, ZX_RSRC_KIND_SYSTEM,
};
use objects::core::handle::HandleValue;
use objects::device::resource::Resource;
use objects::machine::Machine;

use crate::cx::Cx;
use crate::syscalls::thread::read_name;
use crate::user::{In, Out};

/// Checks that a handle covers the system facility with this base (`ZX_RSRC_SYSTEM_*_BASE`), or is the root resource.
pub fn need_system<M: Machine>(cx: &Cx<'_, M>, value: HandleValue, base: u64) -> Result<(), Status> {
    need_range(cx, value, ZX_RSRC_KIND_SYSTEM, base, 1)
}

/// Checks that a handle covers a range of a kind, or is the root resource.
pub fn need_range<M: Machine>(
    cx: &Cx<'_, M>,
    value: HandleValue,
    kind: u32,
    base: u64,
    size: u64,
) -> Result<(), Status> {
    need(cx, value, kind, |resource| resource.covers(kind, base, size))
}

/// As [`need_range`], for device memory that is to be mapped.
pub fn need_pages<M: Machine>(cx: &Cx<'_, M>, value: HandleValue, base: u64, size: u64) -> Result<(), Status> {
    need(cx, value, ZX_RSRC_KIND_MMIO, |resource| resource.covers_pages(ZX_RSRC_KIND_MMIO, base, size))
}

fn need<M: Machine>(
    cx: &Cx<'_, M>,
    value: HandleValue,
    kind: u32,
    covers: impl Fn(&Resource) -> bool,
) -> Result<(), Status> {
    let resource = cx.get::<Resource>(value, Rights::NONE)?;
    let resource = cx.kernel.objects.get(resource)?;
    match resource.kind {
        other if other != kind && other != ZX_RSRC_KIND_ROOT => Err(Status::WRONG_TYPE),
        _ if covers(resource) => Ok(()),
        _ => Err(Status::OUT_OF_RANGE),
    }
}

/// Creates a resource from another.
#[allow(clippy::too_many_arguments)]
pub fn resource_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    parent: HandleValue,
    options: u32,
    base: u64,
    size: usize,
    name: In<u8>,
    name_len: usize,
    out: Out<u32>,
) -> Result<(), Status> {
    if base.checked_add(size as u64).is_none() {
        return Err(Status::INVALID_ARGS);
    }
    let parent = cx.get::<Resource>(parent, Rights::WRITE)?;
    let (kind, flags) = (options & 0xffff, options & !0xffff);
    if kind >= ZX_RSRC_KIND_COUNT || flags & !ZX_RSRC_FLAG_EXCLUSIVE != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let name = read_name(cx, name, name_len)?;
    let resource = Resource { kind, flags, base, size: size as u64, name };
    let id = cx.kernel.resource_create(parent, resource)?;
    cx.hand_out(id, ZX_DEFAULT_RESOURCE_RIGHTS, out)
}
