//! PCI configuration.

use abi::{Status, ZX_RSRC_KIND_IOPORT};
use objects::core::handle::HandleValue;
use objects::machine::{Machine, PortWidth};

use crate::cx::Cx;
use crate::syscalls::resource::need_range;
use crate::user::InOut;

/// The port that selects a register of a device.
const ADDRESS: u16 = 0xcf8;
/// The ports that access the selected register.
const DATA: u16 = 0xcfc;
/// Number of ports of both.
const PORTS: u32 = 8;
/// The enable bit of an address.
const ENABLE: u32 = 1 << 31;

/// Reads or writes a register of a device by I/O ports.
#[allow(clippy::too_many_arguments)]
pub fn pci_cfg_pio_rw<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    bus: u8,
    device: u8,
    function: u8,
    offset: u8,
    value: InOut<u32>,
    width: usize,
    write: u32,
) -> Result<(), Status> {
    need_range(cx, resource, ZX_RSRC_KIND_IOPORT, ADDRESS.into(), PORTS.into())?;
    let width = match width {
        8 => PortWidth::Byte,
        16 => PortWidth::Word,
        32 => PortWidth::Long,
        _ => return Err(Status::INVALID_ARGS),
    };
    let within = u16::from(offset % 4);
    if device >= 32 || function >= 8 || within + width.bytes() > 4 {
        return Err(Status::INVALID_ARGS);
    }
    let new = if write != 0 { Some(cx.read(value.input())?) } else { None };
    if !cx.kernel.machine.ports_usable(ADDRESS, PORTS) {
        return Err(Status::NOT_SUPPORTED);
    }
    let address =
        ENABLE | u32::from(bus) << 16 | u32::from(device) << 11 | u32::from(function) << 8 | u32::from(offset & !3);
    // The old selection is restored afterwards, for a program that uses the ports itself.
    let machine = &mut cx.kernel.machine;
    let before = machine.port_read(ADDRESS, PortWidth::Long);
    machine.port_write(ADDRESS, PortWidth::Long, address);
    let found = match new {
        Some(new) => {
            machine.port_write(DATA + within, width, new & width.all_ones());
            None
        }
        None => Some(machine.port_read(DATA + within, width)),
    };
    machine.port_write(ADDRESS, PortWidth::Long, before);
    match found {
        Some(found) => cx.write(value.output(), found),
        None => Ok(()),
    }
}
