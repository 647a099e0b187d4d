//! Device memory and I/O ports for programs, as the root task handed them over.
//!
//! **Device memory** comes as untypeds of any size up to the end of the physical address space. For a requested page,
//! the server halves the untyped that contains it until a *block* of 2^[`BLOCK`] bytes is left, then cuts the block
//! into pages. So the first page of a device takes some dozens of slots, and each further page little more than one.
//! Blocks are permanent, so a page keeps its number forever. The root task cut the timer's page; it is read-only.
//!
//! **Ports** come as ranges. An access must lie within one range, because the kernel checks it against one capability.
//! The reset register is a byte among PCI's configuration ports. Only an instance that may switch off the machine may
//! access it by one or two bytes; four bytes there access PCI's address register.

use alloc::collections::BTreeMap;
use core::ptr;

use objects::containers::growth::OutOfMemory;
use objects::machine::{DeviceError, DeviceFrame, Frame, PAGE, PortWidth};
use server_boot::cspace::{DEVICES_AT, PORT_RESET, PORT_RTC, PORTS_AT, SOURCES_LEAF, TIMER_PAGE, leaf_slot, root_slot};
use server_boot::layout::SCRATCH;
use server_boot::{BootInfo, FLAG_PCI, FLAG_POWER, FLAG_RTC, MAX_DEVICES, MAX_PORTS, Ports};

use super::Sel4;
use super::arch::ports;
use super::memory::Memory;
use super::sys::{self, Object};

/// Binary logarithm of the bytes of a block.
const BLOCK: u8 = 16;
/// Pages in a block.
const BLOCK_PAGES: usize = 1 << (BLOCK - 12);

const RESET: u16 = 0xcf9;

/// A part of device memory. The map's key is its physical address.
#[derive(Clone, Copy)]
enum DeviceRange {
    /// An untyped of 2^`bits` bytes.
    Untyped { slot: u64, bits: u8 },
    /// 2^`bits` bytes of pages, beginning with `first`.
    Pages { first: Frame, bits: u8 },
}

impl DeviceRange {
    fn bits(self) -> u8 {
        match self {
            DeviceRange::Untyped { bits, .. } | DeviceRange::Pages { bits, .. } => bits,
        }
    }
}

/// See the module's description.
pub struct Devices {
    parts: BTreeMap<u64, DeviceRange>,
    timer: Option<Frame>,
    /// Ranges of ports with their capabilities, unordered and disjoint.
    ports: [(Ports, u64); MAX_PORTS + 2],
    port_ranges: usize,
    may_reset: bool,
}

impl Devices {
    /// Takes over the devices that the root task gave.
    pub fn new(boot: &BootInfo, memory: &mut Memory) -> Result<Self, OutOfMemory> {
        let mut devices = Devices {
            parts: BTreeMap::new(),
            timer: None,
            ports: [(Ports { first: 0, last: 0 }, 0); MAX_PORTS + 2],
            port_ranges: 0,
            may_reset: boot.flags & FLAG_POWER != 0,
        };
        for (source, i) in boot.device.iter().take((boot.devices as usize).min(MAX_DEVICES)).zip(0..) {
            let slot = leaf_slot(SOURCES_LEAF, DEVICES_AT + i);
            devices.parts.insert(source.address, DeviceRange::Untyped { slot, bits: source.bits as u8 });
        }
        if boot.timer_page != 0 {
            let first = memory.device_pages_add(boot.timer_page, &[TIMER_PAGE])?;
            devices.parts.insert(boot.timer_page, DeviceRange::Pages { first, bits: 12 });
            devices.timer = Some(first);
        }
        let given = boot.port.iter().take((boot.ports as usize).min(MAX_PORTS)).zip(0..);
        let given = given.map(|(ports, i)| (*ports, leaf_slot(SOURCES_LEAF, PORTS_AT + i), true));
        let special = [
            (Ports { first: 0xcf8, last: 0xcff }, root_slot(PORT_RESET), boot.flags & FLAG_PCI != 0),
            (Ports { first: 0x70, last: 0x71 }, root_slot(PORT_RTC), boot.flags & FLAG_RTC != 0),
        ];
        for (place, (ports, slot, _)) in devices.ports.iter_mut().zip(given.chain(special).filter(|(.., there)| *there))
        {
            *place = (ports, slot);
            devices.port_ranges += 1;
        }
        Ok(devices)
    }

    /// The page at a page-aligned physical address.
    pub fn frame(&mut self, memory: &mut Memory, address: u64) -> Result<DeviceFrame, DeviceError> {
        loop {
            let (&base, &part) = self.parts.range(..=address).next_back().ok_or(DeviceError::Denied)?;
            if (address - base) >> part.bits() != 0 {
                return Err(DeviceError::Denied);
            }
            match part {
                DeviceRange::Pages { first, .. } => {
                    let frame = Frame(first.0 + ((address - base) / PAGE) as u32);
                    return Ok(DeviceFrame { frame, writable: self.timer != Some(frame) });
                }
                DeviceRange::Untyped { slot, bits } if bits > BLOCK => self.halve(memory, base, slot, bits - 1)?,
                DeviceRange::Untyped { slot, bits } => self.cut(memory, base, slot, bits)?,
            }
        }
    }

    /// See [`objects::machine::Devices::device_range`]. The cost is linear in the number of parts in the range.
    pub fn range(&self, address: u64, pages: u64) -> Result<bool, DeviceError> {
        let end = pages.checked_mul(PAGE).and_then(|len| address.checked_add(len)).ok_or(DeviceError::Denied)?;
        let (mut at, mut writable) = (address, true);
        while at < end {
            let (&base, &part) = self.parts.range(..=at).next_back().ok_or(DeviceError::Denied)?;
            let after = base + (1 << part.bits());
            if at >= after {
                return Err(DeviceError::Denied);
            }
            writable &= !matches!(part, DeviceRange::Pages { first, .. } if self.timer == Some(first));
            at = after;
        }
        Ok(writable)
    }

    /// Cuts an untyped into two of `bits` bits. It stays in its slot but is not used any more.
    fn halve(&mut self, memory: &mut Memory, base: u64, slot: u64, bits: u8) -> Result<(), OutOfMemory> {
        let mut halves = [0; 2];
        make(memory, slot, Object::Untyped(bits), &mut halves)?;
        memory.slots_keep(halves.len());
        self.parts.insert(base, DeviceRange::Untyped { slot: halves[0], bits });
        self.parts.insert(base + (1 << bits), DeviceRange::Untyped { slot: halves[1], bits });
        Ok(())
    }

    /// Cuts an untyped of at most a block into pages.
    fn cut(&mut self, memory: &mut Memory, base: u64, slot: u64, bits: u8) -> Result<(), OutOfMemory> {
        let mut pages = [0; BLOCK_PAGES];
        let count = (1 << bits.saturating_sub(12)).min(BLOCK_PAGES);
        let pages = &mut pages[..count];
        make(memory, slot, Object::Page, pages)?;
        match memory.device_pages_add(base, pages) {
            Ok(first) => {
                memory.slots_keep(pages.len());
                self.parts.insert(base, DeviceRange::Pages { first, bits });
                Ok(())
            }
            Err(error) => {
                unmake(memory, pages);
                Err(error)
            }
        }
    }

    /// Maps a page at the server's scratch address for an access to four bytes of it.
    fn with_register<R>(
        &self,
        memory: &mut Memory,
        frame: Frame,
        offset: usize,
        access: impl FnOnce(usize) -> R,
    ) -> Option<R> {
        if !frame.is_device() || !offset.is_multiple_of(4) || offset as u64 >= PAGE {
            return None;
        }
        let slot = memory.mapping_take(frame).ok()?;
        let write = self.timer != Some(frame);
        let mapped = sys::page_map(slot, sys::OWN_VSPACE, SCRATCH, write, sys::Caching::Uncacheable.not_executed());
        let result = mapped.ok().map(|()| access(SCRATCH as usize + offset));
        memory.mapping_give(slot);
        result
    }

    /// See [`objects::machine::Devices::device_read`].
    pub fn read(&self, memory: &mut Memory, frame: Frame, offset: usize) -> Option<u32> {
        // SAFETY: the device's page is mapped there, and the aligned word lies within it.
        self.with_register(memory, frame, offset, |at| unsafe { ptr::read_volatile(ptr::with_exposed_provenance(at)) })
    }

    /// See [`objects::machine::Devices::device_write`].
    pub fn write(&self, memory: &mut Memory, frame: Frame, offset: usize, value: u32) -> bool {
        if self.timer == Some(frame) {
            return false;
        }
        let written = self.with_register(memory, frame, offset, |at| {
            // SAFETY: as in `read`; a holder of the device's memory resource may write there.
            unsafe { ptr::write_volatile(ptr::with_exposed_provenance_mut(at), value) };
        });
        written.is_some()
    }

    /// The capability that covers a range of ports, if programs may use it.
    fn ports(&self, first: u16, count: u32) -> Option<u64> {
        let last = u32::from(first) + count.checked_sub(1)?;
        let covers = |ports: &Ports| ports.first <= first && last <= u32::from(ports.last);
        self.ports[..self.port_ranges].iter().find(|(ports, _)| covers(ports)).map(|(_, slot)| *slot)
    }

    /// Whether programs may use a whole range of ports.
    pub fn ports_usable(&self, first: u16, count: u32) -> bool {
        let end = u32::from(first).saturating_add(count);
        let mut at = u32::from(first);
        // Each iteration skips one range.
        while at < end {
            let holds = |(ports, _): &&(Ports, u64)| (u32::from(ports.first)..=ports.last.into()).contains(&at);
            let Some((ports, _)) = self.ports[..self.port_ranges].iter().find(holds) else { return false };
            at = u32::from(ports.last) + 1;
        }
        true
    }

    fn port(&self, port: u16, width: PortWidth) -> Option<u64> {
        let slot = self.ports(port, width.bytes().into())?;
        let reset = width != PortWidth::Long && (port..port.saturating_add(width.bytes())).contains(&RESET);
        (self.may_reset || !reset).then_some(slot)
    }

    /// Reads from a port.
    pub fn port_read(&self, port: u16, width: PortWidth) -> u32 {
        let read = self.port(port, width).and_then(|slot| match width {
            PortWidth::Byte => ports::port_read8(slot, port).map(u32::from),
            PortWidth::Word => ports::port_read16(slot, port).map(u32::from),
            PortWidth::Long => ports::port_read32(slot, port),
        });
        read.unwrap_or(width.all_ones())
    }

    /// Writes to a port.
    pub fn port_write(&self, port: u16, width: PortWidth, value: u32) {
        let Some(slot) = self.port(port, width) else { return };
        match width {
            PortWidth::Byte => ports::port_out(slot, port, value as u8),
            PortWidth::Word => ports::port_out16(slot, port, value as u16),
            PortWidth::Long => ports::port_out32(slot, port, value),
        }
    }
}

/// Fills slots with objects retyped one by one from an untyped without children; all or nothing.
fn make(memory: &mut Memory, untyped: u64, object: Object, slots: &mut [u64]) -> Result<(), OutOfMemory> {
    for i in 0..slots.len() {
        let made = memory.slot_alloc().and_then(|slot| {
            let made = memory.make_at(untyped, object, slot);
            made.map(|()| slot).inspect_err(|_| memory.slot_free(slot))
        });
        match made {
            Ok(slot) => slots[i] = slot,
            Err(error) => {
                unmake(memory, &slots[..i]);
                return Err(error);
            }
        }
    }
    Ok(())
}

fn unmake(memory: &mut Memory, slots: &[u64]) {
    for slot in slots {
        sys::delete(*slot);
        memory.slot_free(*slot);
    }
}

impl objects::machine::Devices for Sel4 {
    fn device_frame(&mut self, address: u64) -> Result<DeviceFrame, DeviceError> {
        self.devices.frame(&mut self.memory, address)
    }

    fn device_range(&self, address: u64, pages: u64) -> Result<bool, DeviceError> {
        self.devices.range(address, pages)
    }

    fn device_read(&mut self, frame: Frame, offset: usize) -> Option<u32> {
        self.devices.read(&mut self.memory, frame, offset)
    }

    fn device_write(&mut self, frame: Frame, offset: usize, value: u32) -> bool {
        self.devices.write(&mut self.memory, frame, offset, value)
    }
}

impl objects::machine::PortIo for Sel4 {
    fn has_ports(&self) -> bool {
        true
    }

    fn ports_usable(&self, first: u16, count: u32) -> bool {
        self.devices.ports_usable(first, count)
    }

    fn port_read(&mut self, port: u16, width: PortWidth) -> u32 {
        self.devices.port_read(port, width)
    }

    fn port_write(&mut self, port: u16, width: PortWidth, value: u32) {
        self.devices.port_write(port, width, value);
    }
}
