//! The HPET: the root task finds it, starts it, and reads it once together with the processor's time-stamp counter.
//! Each instance gets a comparator with its interrupt, and the root task keeps the last one for its own timeouts
//! ([`Alarm`]).
//!
//! The registers of all comparators are in one page, which every server maps. The page contains nothing but the timer,
//! so a faulty server can spoil the other servers' deadlines, but nothing else.

use core::ptr;

use sel4::bootinfo::{INIT_TCB, IRQ_CONTROL};
use sel4::{Caching, IrqHandler, Notification, ObjectType, Page};

use crate::arch::tsc;
use crate::devices::ALARM_VECTOR;
use crate::error::{Context, Error};
use crate::make::{ObjectMaker, own_slot};
use crate::memory::Memory;

/// The HPET's address on PCs.
pub const ADDRESS: u64 = 0xfed0_0000;
const CAPABILITIES: u64 = 0;
const CONFIGURATION: u64 = 0x10;
const COUNTER: u64 = 0xf0;
const TIMERS: u64 = 0x100;
const TIMER_SIZE: u64 = 0x20;
/// Offset of a comparator's value from its configuration.
const COMPARATOR: u64 = 8;
const ENABLE: u64 = 1;
const LEGACY: u64 = 2;
const TIMER_ENABLE: u64 = 1 << 2;
const TIMER_ROUTE_SHIFT: u32 = 9;
/// Maximum number of comparators.
const MOST: usize = 32;
/// Pins for comparators, the best first: 16 to 23 are PCI's, of which few devices use the first four. Pin 8 is the
/// real-time clock's, for a driver.
const PINS: [u8; 9] = [19, 18, 17, 16, 23, 22, 21, 20, 8];

/// The registers.
#[derive(Clone, Copy)]
struct Registers(u64);

impl Registers {
    fn at(self, register: u64) -> *mut u64 {
        ptr::with_exposed_provenance_mut((self.0 + register) as usize)
    }

    fn read(self, register: u64) -> u64 {
        // SAFETY: the page is mapped for as long as the root task lives, and its registers make no device access
        // memory.
        unsafe { self.at(register).read_volatile() }
    }

    fn write(self, register: u64, value: u64) {
        // SAFETY: as in `read`.
        unsafe { self.at(register).write_volatile(value) }
    }
}

/// See the module's description.
pub struct Hpet {
    /// Its registers.
    pub page: Page,
    /// The processor's time-stamp counter at one moment.
    pub tsc: u64,
    /// The HPET's counter at the same moment.
    pub count: u64,
    registers: Registers,
    /// The I/O APIC pin of each comparator that has one.
    pins: [Option<u8>; MOST],
}

impl Hpet {
    /// Starts the counter.
    pub fn new(memory: &mut Memory) -> Result<Self, Error> {
        let page = memory.device_page(ADDRESS)?;
        let registers = Registers(memory.map_own(page, 4096, Caching::Uncacheable)?);
        let capabilities = registers.read(CAPABILITIES);
        if capabilities >> 32 == 0 || capabilities == u64::MAX {
            return Err(Error::Device("HPET"));
        }
        registers.write(CONFIGURATION, registers.read(CONFIGURATION) & !LEGACY | ENABLE);
        let mut pins = [None; MOST];
        let count = (capabilities >> 8 & 0x1f) as usize + 1;
        for n in 0..count {
            let possible = registers.read(TIMERS + n as u64 * TIMER_SIZE) >> 32;
            pins[n] = PINS.into_iter().find(|pin| possible >> pin & 1 != 0 && !pins.contains(&Some(*pin)));
        }
        // The reading with the least delay between the two counters.
        let (mut best, mut tsc0, mut count0) = (u64::MAX, 0, 0);
        for _ in 0..8 {
            let (before, count, after) = (tsc(), registers.read(COUNTER), tsc());
            if after - before < best {
                (best, tsc0, count0) = (after - before, before + (after - before) / 2, count);
            }
        }
        Ok(Hpet { page, tsc: tsc0, count: count0, registers, pins })
    }

    /// The pin of a comparator.
    pub fn pin(&self, comparator: usize) -> Result<u8, Error> {
        let pin = self.pins.get(comparator).copied().flatten();
        pin.ok_or(Error::Device("comparator of the HPET with a free interrupt line for each instance"))
    }

    /// The pins of all comparators, as a bitmap.
    pub fn all_pins(&self) -> u32 {
        self.pins.iter().flatten().fold(0, |all, pin| all | 1 << pin)
    }

    /// The last comparator for the root task, if the instances leave one.
    pub fn alarm(&self, memory: &mut Memory, instances: usize) -> Result<Option<Alarm>, Error> {
        let Some(last) = self.pins.iter().rposition(Option::is_some).filter(|last| *last >= instances) else {
            return Ok(None);
        };
        let timer = TIMERS + last as u64 * TIMER_SIZE;
        let pin = u64::from(self.pin(last)?);
        let notification = Notification(memory.make(ObjectType::Notification)?);
        let badged = memory.slot()?;
        let badge = sel4::CapData::badge(Alarm::BADGE);
        own_slot(badged)
            .mint_from(own_slot(notification.cptr().0), sel4::Rights::ALL, badge)
            .context("the root task's notification")?;
        INIT_TCB.bind_notification(notification).context("the root task's notification")?;
        let handler = IrqHandler::new(memory.slot()?);
        IRQ_CONTROL
            .get_ioapic(own_slot(handler.cptr().0), 0, pin, false, false, ALARM_VECTOR)
            .context("the root task's interrupt")?;
        handler.set_notification(Notification::new(badged)).context("the root task's interrupt")?;
        handler.ack().context("the root task's interrupt")?;
        self.registers.write(timer, pin << TIMER_ROUTE_SHIFT);
        // Femtoseconds per count.
        let period = (self.registers.read(CAPABILITIES) >> 32).max(1);
        Ok(Some(Alarm { registers: self.registers, timer, handler, period }))
    }
}

/// The root task's comparator. It signals the notification that is bound to the root task's thread.
pub struct Alarm {
    registers: Registers,
    timer: u64,
    handler: IrqHandler,
    period: u64,
}

impl Alarm {
    /// The badge of its signal; the badges of instances are larger.
    pub const BADGE: u64 = 1;

    /// Sets the alarm to this many microseconds from now, instead of its previous time.
    pub fn set(&self, micros: u64) {
        let configuration = self.registers.read(self.timer) & (0x1f << TIMER_ROUTE_SHIFT);
        // If the target had already passed, the comparator would match only after the counter has wrapped around.
        let mut counts = micros.saturating_mul(1_000_000_000) / self.period + 50;
        loop {
            let target = self.registers.read(COUNTER).wrapping_add(counts);
            self.registers.write(self.timer, configuration | TIMER_ENABLE);
            self.registers.write(self.timer + COMPARATOR, target);
            if (self.registers.read(COUNTER).wrapping_sub(target) as i64) < 0 {
                return;
            }
            counts = counts.saturating_mul(2);
        }
    }

    /// Must be called when the alarm has fired.
    pub fn fired(&self) {
        let _ = self.handler.ack();
    }
}
