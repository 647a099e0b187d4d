//! IOMMUs.

use abi::{Status, ZX_DEFAULT_IOMMU_RIGHTS, ZX_IOMMU_TYPE_STUB, ZX_RSRC_SYSTEM_IOMMU_BASE};
use objects::core::handle::HandleValue;
use objects::machine::Machine;

use crate::cx::Cx;
use crate::syscalls::resource::need_system;
use crate::user::{In, Out};

/// Maximum size of a description, in bytes.
const MAX_DESCRIPTION: usize = 4096;
/// Size of a stub's description in bytes. Its content has no meaning.
const STUB_DESCRIPTION: usize = 1;

/// Creates an IOMMU.
pub fn iommu_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    kind: u32,
    description: In<u8>,
    size: usize,
    out: Out<u32>,
) -> Result<(), Status> {
    need_system(cx, resource, ZX_RSRC_SYSTEM_IOMMU_BASE)?;
    if size > MAX_DESCRIPTION {
        return Err(Status::INVALID_ARGS);
    }
    cx.read_bytes(description, size)?;
    match kind {
        ZX_IOMMU_TYPE_STUB if size == STUB_DESCRIPTION => {
            let iommu = cx.kernel.iommu_create_stub()?;
            cx.hand_out(iommu, ZX_DEFAULT_IOMMU_RIGHTS, out)
        }
        ZX_IOMMU_TYPE_STUB => Err(Status::INVALID_ARGS),
        _ => Err(Status::NOT_SUPPORTED),
    }
}
