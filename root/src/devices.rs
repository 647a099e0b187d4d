//! The devices that an instance's programs may drive, and how they are stopped when the instance ends.
//!
//! The description names the devices. Devices that the root task or a server uses itself are left out: the serial ports
//! with their interrupt lines, the boot file's device, the timer (whose registers may be read), the ports that switch
//! off or reset the machine, the old interrupt controllers. Device memory and ports are handed over before the server
//! runs. A server requests interrupts one by one ([`service::INTERRUPT`]): the kernel has one authority over all of
//! them, and it stays here.

use description::{Devices as Wanted, Range, System};
use sel4::Slot;
use sel4::bootinfo::IRQ_CONTROL;
use server_boot::service::{self, Interrupt};
use server_boot::{BootInfo, FLAG_PCI, FLAG_RTC, MAX_DEVICES, MAX_PORTS, Ports, Source};

use crate::arch::ports::PORTS;
use crate::error::Error;
use crate::hpet;
use crate::instance::MAX_INSTANCES;
use crate::memory::{InstanceUntyped, Memory};

/// PCI's configuration ports.
pub const PCI: Range = Range { first: 0xcf8, last: 0xcff };
/// The real-time clock's ports.
pub const RTC: Range = Range { first: 0x70, last: 0x71 };

/// I/O ports that are not handed over in ranges.
const OWN: [Range; 10] = [
    Range { first: 0x20, last: 0x21 },   // interrupt controllers that the kernel has masked
    Range { first: 0xa0, last: 0xa1 },   // likewise
    Range { first: 0x92, last: 0x92 },   // reset
    Range { first: 0xb2, last: 0xb3 },   // system management
    Range { first: 0xf4, last: 0xf7 },   // the emulator's exit
    Range { first: 0x510, last: 0x51b }, // the boot file's device
    Range { first: 0x600, last: 0x67f }, // ACPI's power management
    PCI,
    RTC,
    Range { first: 0x3f8, last: 0x3ff }, // the root task's console
];

/// Pins of the only I/O APIC that the kernel drives.
const PINS: u32 = 24;
/// The vectors below this one belong to the instances, two each. This one is the root task's.
pub const ALARM_VECTOR: u64 = 2 * MAX_INSTANCES as u64;
const FIRST_PIN_VECTOR: u64 = ALARM_VECTOR + 1;
/// Then comes one vector for each pin, then those for messages.
const FIRST_MESSAGE: u64 = FIRST_PIN_VECTOR + PINS as u64;
/// Number of vectors.
const VECTORS: u64 = 108;

/// What has been handed out so far.
pub struct Devices<'a> {
    system: System<'a>,
    timer_pins: u32,
    next_message: u64,
}

impl<'a> Devices<'a> {
    /// Nothing has been handed out.
    pub fn new(system: System<'a>, timer_pins: u32) -> Self {
        Devices { system, timer_pins, next_message: FIRST_MESSAGE }
    }

    /// The first range of ports at or after `port` that belongs to the root task or to a server. It reads the
    /// description, so it is called for each range and not for each port.
    fn own_from(&self, port: u64) -> Option<Range> {
        let serials = self.system.instances().flat_map(|i| [i.console, i.link]).flatten();
        let serials = serials.map(|s| Range { first: s.port.into(), last: u64::from(s.port) + 7 });
        OWN.iter().copied().chain(serials).filter(|range| range.last >= port).min_by_key(|range| range.first)
    }

    /// Decides which devices an instance gets, and records them in its boot pages. Calls `take` for each piece of
    /// device memory.
    pub fn decide(
        &mut self,
        memory: &mut Memory,
        wanted: &Wanted,
        info: &mut BootInfo,
        mut take: impl FnMut(&InstanceUntyped) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut count = 0;
        for range in wanted.memory.iter().flatten() {
            while let Some(piece) = memory.device_gift(range.first, range.last)? {
                let place = info.device.get_mut(count).ok_or(Error::Pieces("device memory", MAX_DEVICES))?;
                *place = Source { address: piece.address, bits: piece.bits.into() };
                take(&piece)?;
                count += 1;
            }
            if (range.first..=range.last).contains(&hpet::ADDRESS) {
                info.timer_page = hpet::ADDRESS;
            }
        }
        info.devices = count as u64;

        let mut count = 0;
        for range in wanted.ports.iter().flatten() {
            let mut at = range.first;
            while at <= range.last {
                let own = self.own_from(at);
                if let Some(own) = own.filter(|own| own.first <= at) {
                    at = own.last + 1;
                    continue;
                }
                let last = own.map_or(range.last, |own| range.last.min(own.first - 1));
                let place = info.port.get_mut(count).ok_or(Error::Pieces("I/O ports", MAX_PORTS))?;
                *place = Ports { first: at as u16, last: last as u16 };
                count += 1;
                at = last + 1;
            }
        }
        info.ports = count as u64;
        for (special, flag) in [(PCI, FLAG_PCI), (RTC, FLAG_RTC)] {
            info.flags |= if may_use(wanted, special) { flag } else { 0 };
        }

        let lines = self.system.instances().flat_map(|i| [i.console, i.link]).flatten();
        let own = lines.fold(self.timer_pins, |own, serial| own | 1u32.unbounded_shl(serial.irq.into()));
        info.pins = u64::from(wanted.pins & !own & ((1 << PINS) - 1));
        info.first_message = self.next_message;
        info.messages = u64::from(wanted.messages).min(VECTORS - self.next_message);
        self.next_message += info.messages;
        Ok(())
    }
}

/// Whether an instance's programs may use all ports of a range.
pub fn may_use(wanted: &Wanted, ports: Range) -> bool {
    wanted.ports.iter().flatten().any(|range| range.first <= ports.first && ports.last <= range.last)
}

/// Puts the handler capability of an interrupt that an instance may have into a slot; returns a status of [`service`].
pub fn interrupt(info: &BootInfo, to: Slot, wanted: Interrupt) -> u64 {
    let taken = match wanted {
        Interrupt::Pin { pin, level, active_low } if info.pins >> pin.min(63) & 1 != 0 => {
            let pin = u64::from(pin);
            IRQ_CONTROL.get_ioapic(to, 0, pin, level, active_low, FIRST_PIN_VECTOR + pin)
        }
        Interrupt::Message { vector } if u64::from(vector).wrapping_sub(info.first_message) < info.messages => {
            IRQ_CONTROL.get_msi(to, 0, 0, 0, 0, vector.into())
        }
        _ => return service::BAD_REQUEST,
    };
    match taken {
        Ok(()) => service::OK,
        Err(sel4::Error::RevokeFirst) => service::TAKEN,
        Err(_) => service::BAD_REQUEST,
    }
}

/// The PCI configuration of a device's function.
struct Function {
    address: u32,
}

impl Function {
    fn new(bus: u32, device: u32, function: u32) -> Self {
        Function { address: 1 << 31 | bus << 16 | device << 11 | function << 8 }
    }

    fn read(&self, register: u32) -> u32 {
        let selected = PORTS.out32(PCI.first as u16, self.address | register);
        selected.and_then(|()| PORTS.in32(PCI.first as u16 + 4)).unwrap_or(u32::MAX)
    }

    fn write(&self, register: u32, value: u32) {
        let _ = PORTS.out32(PCI.first as u16, self.address | register);
        let _ = PORTS.out32(PCI.first as u16 + 4, value);
    }
}

/// Keeps the devices of an ended instance from writing to memory, which others will get. An instance that may configure
/// PCI devices drives all of them. Bridges lose bus mastering, too, so the devices behind them need no handling.
pub fn silence(wanted: &Wanted) {
    const COMMAND: u32 = 4;
    const BUS_MASTER: u32 = 1 << 2;
    const KIND: u32 = 0xc;
    const SEVERAL: u32 = 1 << 23;
    if !may_use(wanted, PCI) {
        return;
    }
    for device in 0..32 {
        let several = Function::new(0, device, 0).read(KIND) & SEVERAL != 0;
        for function in (0..if several { 8 } else { 1 }).map(|function| Function::new(0, device, function)) {
            if function.read(0) as u16 != u16::MAX {
                // The upper half holds flags that are cleared by writing ones.
                let command = function.read(COMMAND) & 0xffff;
                function.write(COMMAND, command & !BUS_MASTER);
            }
        }
    }
}
