//! Message-signalled interrupts.

use abi::{
    Rights, Status, ZX_DEFAULT_INTERRUPT_RIGHTS, ZX_DEFAULT_MSI_RIGHTS, ZX_MSI_MODE_MSI_X, ZX_RSRC_SYSTEM_MSI_BASE,
};
use objects::core::handle::HandleValue;
use objects::device::msi::{Msi, Registers};
use objects::machine::Machine;
use objects::memory::vmo::Vmo;

use crate::cx::Cx;
use crate::syscalls::resource::need_system;
use crate::user::Out;

/// Allocates a block of message-signalled interrupts.
pub fn msi_allocate<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    count: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    need_system(cx, resource, ZX_RSRC_SYSTEM_MSI_BASE)?;
    let msi = cx.kernel.msi_allocate(count)?;
    cx.hand_out(msi, ZX_DEFAULT_MSI_RIGHTS, out)
}

/// Creates the interrupt object for one interrupt of a block.
pub fn msi_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    number: u32,
    vmo: HandleValue,
    offset: usize,
    out: Out<u32>,
) -> Result<(), Status> {
    let msi = cx.get::<Msi>(value, Rights::NONE)?;
    let vmo = cx.get::<Vmo>(vmo, Rights::MAP)?;
    let registers = match options {
        0 => Registers::Capability,
        ZX_MSI_MODE_MSI_X => Registers::Table,
        _ => return Err(Status::INVALID_ARGS),
    };
    let interrupt = cx.kernel.msi_create(msi, options, number, (vmo, offset as u64, registers))?;
    cx.hand_out(interrupt, ZX_DEFAULT_INTERRUPT_RIGHTS, out)
}
