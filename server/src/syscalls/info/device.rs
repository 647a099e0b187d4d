//! Topics about drivers' objects.

use abi::{Rights, Status, zx_info_bti_t, zx_info_interrupt_t, zx_info_msi_t};
use objects::core::handle::HandleValue;
use objects::device::bti::Bti;
use objects::device::interrupt::Interrupt;
use objects::device::iommu::Iommu;
use objects::device::msi::Msi;
use objects::machine::Machine;

use super::sink::Sink;
use crate::cx::Cx;

pub fn interrupt<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Interrupt>(value, Rights::INSPECT)?;
    let record = zx_info_interrupt_t { options: cx.kernel.objects.get(id)?.options };
    sink.one(cx, record)
}

pub fn bti<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Bti>(value, Rights::INSPECT)?;
    let bti = cx.kernel.objects.get(id)?;
    let record = zx_info_bti_t {
        minimum_contiguity: Iommu::CONTIGUITY,
        aspace_size: Iommu::REACH,
        pmo_count: bti.tokens,
        quarantine_count: bti.quarantined,
    };
    sink.one(cx, record)
}

pub fn msi<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Msi>(value, Rights::INSPECT)?;
    let msi = cx.kernel.objects.get(id)?;
    let record = zx_info_msi_t {
        target_addr: msi.block.address,
        target_data: msi.block.data,
        base_irq_id: msi.block.first,
        num_irq: msi.block.count,
        interrupt_count: msi.interrupts(),
    };
    sink.one(cx, record)
}
