//! Bus transaction initiators, and memory pinned for them.

use abi::{
    Rights, Status, ZX_BTI_COMPRESS, ZX_BTI_CONTIGUOUS, ZX_BTI_PERM_EXECUTE, ZX_BTI_PERM_READ, ZX_BTI_PERM_WRITE,
    ZX_DEFAULT_BTI_RIGHTS, ZX_DEFAULT_PMT_RIGHTS,
};
use objects::Id;
use objects::core::handle::HandleValue;
use objects::device::bti::{Bti, Pmt};
use objects::device::iommu::Iommu;
use objects::machine::{Machine, PAGE};
use objects::memory::vmo::Vmo;

use crate::cx::Cx;
use crate::user::Out;

/// Number of addresses written at a time.
const STRIDE: usize = 64;

/// Creates a bus transaction initiator.
pub fn bti_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    iommu: HandleValue,
    options: u32,
    number: u64,
    out: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let iommu = cx.get::<Iommu>(iommu, Rights::NONE)?;
    let bti = cx.kernel.bti_create(iommu, number)?;
    cx.hand_out(bti, ZX_DEFAULT_BTI_RIGHTS, out)
}

/// Pins pages and returns their addresses for the device.
#[allow(clippy::too_many_arguments)]
pub fn bti_pin<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    vmo: HandleValue,
    offset: u64,
    size: u64,
    addresses: Out<usize>,
    count: usize,
    out: Out<u32>,
) -> Result<(), Status> {
    let bti = cx.get::<Bti>(value, Rights::MAP)?;
    if size == 0 || !offset.is_multiple_of(PAGE) || !size.is_multiple_of(PAGE) {
        return Err(Status::INVALID_ARGS);
    }
    let (vmo, rights) = cx.get_with_rights::<Vmo>(vmo, Rights::MAP)?;
    // On this processor, a device needs only read permission to execute.
    let permissions =
        [(ZX_BTI_PERM_READ, Rights::READ), (ZX_BTI_PERM_WRITE, Rights::WRITE), (ZX_BTI_PERM_EXECUTE, Rights::READ)];
    if permissions.iter().any(|(bit, right)| options & bit != 0 && !rights.contains(*right)) {
        return Err(Status::ACCESS_DENIED);
    }
    let all = ZX_BTI_PERM_READ | ZX_BTI_PERM_WRITE | ZX_BTI_PERM_EXECUTE;
    let contiguous = options & ZX_BTI_CONTIGUOUS != 0;
    let pages = size / PAGE;
    // The stub IOMMU's memory is contiguous only page by page, so a compressed list is as long as a full one.
    let wanted = if contiguous { 1 } else { pages };
    if options & all == 0
        || options & !(all | ZX_BTI_COMPRESS | ZX_BTI_CONTIGUOUS) != 0
        || contiguous && (options & ZX_BTI_COMPRESS != 0 || !cx.kernel.vmo_is_contiguous(vmo))
        || count as u64 != wanted
    {
        return Err(Status::INVALID_ARGS);
    }
    let end = offset.checked_add(size).ok_or(Status::OUT_OF_RANGE)?;
    if end > cx.kernel.vmo_size(vmo)? {
        return Err(Status::OUT_OF_RANGE);
    }
    let bytes = count.checked_mul(size_of::<usize>()).ok_or(Status::INVALID_ARGS)?;
    cx.kernel.check_out(cx.aspace, addresses.0, bytes)?;
    cx.kernel.check_out(cx.aspace, out.0, size_of::<u32>())?;
    let pmt = cx.kernel.bti_pin(bti, vmo, offset, size)?;
    let given = cx.kernel.give_new(cx.process, pmt, ZX_DEFAULT_PMT_RIGHTS)?;
    tell(cx, pmt, addresses, count).and_then(|()| cx.write(out, given)).inspect_err(|_| {
        // The addresses have not been returned, so no device can use them.
        cx.kernel.pmt_unpin(pmt);
        cx.discard(given);
    })
}

/// Writes the addresses of the first `count` pages of a token.
fn tell<M: Machine>(cx: &mut Cx<'_, M>, pmt: Id<Pmt>, out: Out<usize>, count: usize) -> Result<(), Status> {
    let mut bytes = [0; STRIDE * size_of::<usize>()];
    let mut done = 0;
    while done < count {
        let part = (count - done).min(STRIDE);
        for (i, place) in bytes.chunks_exact_mut(size_of::<usize>()).take(part).enumerate() {
            let address = cx.kernel.pmt_address(pmt, (done + i) as u64).ok_or(Status::INTERNAL)?;
            place.copy_from_slice(&address.to_le_bytes());
        }
        let written = bytes.get(..part * size_of::<usize>()).unwrap_or_default();
        cx.write_bytes(Out::new(out.nth(done).0), written)?;
        done += part;
    }
    Ok(())
}

/// Unpins the memory that stayed pinned when its holder ended.
pub fn bti_release_quarantine<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let bti = cx.get::<Bti>(value, Rights::WRITE)?;
    cx.kernel.bti_release_quarantine(bti);
    Ok(())
}
