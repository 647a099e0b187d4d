//! The HPET: found, started, and read once beside the processor's counter.
//!
//! Its registers' page goes to the server that uses the timer. It holds nothing but the timer.

use sel4::{Caching, Page};

use crate::console::tsc;
use crate::error::Error;
use crate::memory::Memory;

/// Where PCs have it.
pub const ADDRESS: u64 = 0xfed0_0000;
const CONFIGURATION: u64 = 0x10;
const COUNTER: u64 = 0xf0;
const TIMER: u64 = 0x100;
const ENABLE: u64 = 1;
const LEGACY: u64 = 2;

/// See the module's description.
pub struct Hpet {
    /// Its registers.
    pub page: Page,
    /// The I/O APIC's pin for the first comparator.
    pub pin: u8,
    /// The processor's counter at some moment.
    pub tsc: u64,
    /// The HPET's counter at that moment.
    pub count: u64,
}

impl Hpet {
    /// Starts the counter.
    pub fn new(memory: &mut Memory) -> Result<Self, Error> {
        let page = memory.device_page(ADDRESS)?;
        let base = memory.map_own(page, 4096, Caching::Uncacheable)?;
        let at = |register: u64| core::ptr::with_exposed_provenance_mut::<u64>((base + register) as usize);
        // SAFETY: all of the following accesses registers of the page just mapped, which reach no memory.
        let read = |register| unsafe { at(register).read_volatile() };
        // SAFETY: as above.
        let write = |register, value| unsafe { at(register).write_volatile(value) };
        if read(0) >> 32 == 0 || read(0) == u64::MAX {
            return Err(Error::Device("HPET"));
        }
        write(CONFIGURATION, read(CONFIGURATION) & !LEGACY | ENABLE);
        let pins = (read(TIMER) >> 32) as u32;
        // Pins 16 to 23 are PCI's, where few devices have the fourth. Pin 8 is the real-time clock's, for a driver.
        let free = [19, 18, 17, 16, 23, 22, 21, 20, 8].into_iter().find(|pin| pins >> pin & 1 != 0);
        let pin = free.ok_or(Error::Device("free interrupt line for the HPET"))?;
        // The reading with the least delay between the two counters.
        let (mut best, mut tsc0, mut count0) = (u64::MAX, 0, 0);
        for _ in 0..8 {
            let (before, count, after) = (tsc(), read(COUNTER), tsc());
            if after - before < best {
                (best, tsc0, count0) = (after - before, before + (after - before) / 2, count);
            }
        }
        Ok(Hpet { page, pin, tsc: tsc0, count: count0 })
    }
}
