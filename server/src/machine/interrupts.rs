//! Interrupts for programs.
//!
//! The root task keeps the kernel's authority over interrupts. It puts the handler capability of one interrupt into a
//! slot if the instance may have it ([`server_boot::service::INTERRUPT`]). The kernel then signals the server's only
//! notification, and a bit of the badge tells which interrupt it was. So at most [`LINES`] interrupts can be watched at
//! a time.
//!
//! The kernel masks a pin when its interrupt arrives, until the acknowledgement. For a level-triggered pin this is what
//! the driver needs: it acknowledges when the device no longer asserts the level. An edge that arrives while a pin is
//! masked would be lost, so the machine acknowledges edges at once, before the driver looks at the device. Messages
//! cannot be masked.
//!
//! If a bit is still pending when its interrupt is given up, it must not be taken for the next interrupt that gets the
//! bit. So [`Interrupts::close`] takes all pending bits and signals the others again.

use alloc::vec::Vec;

use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{DeviceError, Irq, IrqKey, IrqSource, MsiBlock};
use server_boot::service::{self, Interrupt};
use server_boot::{BootInfo, VECTOR_BASE};

use super::Sel4;
use super::arch::message_address;
use super::memory::Memory;
use super::sys;
use super::thread::NOTIFICATION;

/// The lowest bit of the badge for programs' interrupts.
const FIRST_BIT: u32 = 3;
/// Maximum number of interrupts watched at a time.
pub const LINES: usize = 23;
const _: () = assert!(1u64 << (FIRST_BIT + LINES as u32 - 1) < super::thread::FAULT);

/// Maximum number of vectors in a device's block.
const BLOCK: u32 = 32;

/// One bit of the badge.
struct Line {
    /// The server's notification with this bit as badge. Created once, and kept.
    notification: u64,
    watched: Option<Watched>,
}

struct Watched {
    source: IrqSource,
    key: IrqKey,
    /// The slot of the handler's capability.
    handler: u64,
}

/// See the module's description.
pub struct Interrupts {
    lines: Vec<Line>,
    /// Pins that programs may have.
    pins: u32,
    /// The first vector for message-signalled interrupts.
    first: u32,
    /// For each vector for message-signalled interrupts, whether it is allocated.
    vectors: Vec<bool>,
    /// The address that devices write messages to.
    address: u64,
    /// The server's own badged notifications, which may be pending as well: bit and slot.
    own: [(u64, u64); 3],
}

impl Interrupts {
    /// Takes over the interrupts that the root task allows this instance.
    pub fn new(boot: &BootInfo) -> Result<Self, OutOfMemory> {
        let mut vectors = Vec::new();
        vectors.room_exact(boot.messages as usize)?;
        vectors.resize(boot.messages as usize, false);
        let mut lines = Vec::new();
        lines.room_exact(LINES)?;
        Ok(Interrupts {
            lines,
            pins: boot.pins as u32,
            first: boot.first_message as u32,
            vectors,
            address: message_address(),
            own: [(0, 0); 3],
        })
    }

    /// Records a badged notification of the server's own.
    pub fn own_notification(&mut self, bit: u64, slot: u64) {
        if let Some(place) = self.own.iter_mut().find(|place| place.1 == 0) {
            *place = (bit, slot);
        }
    }

    /// Number of pins, and number of vectors for message-signalled interrupts.
    pub fn counts(&self) -> (u32, u32) {
        (u32::BITS - self.pins.leading_zeros(), self.vectors.len() as u32)
    }

    /// See [`objects::machine::Interrupts::irq_open`].
    pub fn open(&mut self, memory: &mut Memory, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError> {
        let wanted = match source {
            IrqSource::Pin { number, level, active_low } if number < 32 && self.pins >> number & 1 != 0 => {
                Interrupt::Pin { pin: number as u8, level, active_low }
            }
            IrqSource::Message { vector } if self.vector(vector).is_some_and(|given| *given) => {
                Interrupt::Message { vector: vector as u8 }
            }
            _ => return Err(DeviceError::Denied),
        };
        if self.lines.iter().filter_map(|line| line.watched.as_ref()).any(|watched| same(watched.source, source)) {
            return Err(DeviceError::Taken);
        }
        let line = match self.lines.iter().position(|line| line.watched.is_none()) {
            Some(line) => line,
            None => self.add_line(memory)?,
        };
        let handler = memory.slot_alloc()?;
        let (status, _) = sys::call_root(service::INTERRUPT, [handler, wanted.encode()]);
        if status != service::OK {
            memory.slot_free(handler);
            return Err(if status == service::TAKEN { DeviceError::Taken } else { DeviceError::Denied });
        }
        if sys::irq_listen(handler, self.lines[line].notification).is_err() {
            sys::delete(handler);
            memory.slot_free(handler);
            return Err(DeviceError::OutOfMemory);
        }
        self.lines[line].watched = Some(Watched { source, key, handler });
        Ok(Irq(line as u32))
    }

    fn add_line(&mut self, memory: &mut Memory) -> Result<usize, DeviceError> {
        let line = self.lines.len();
        if line == LINES {
            return Err(DeviceError::NoneLeft);
        }
        let notification = memory.slot_alloc()?;
        if sys::mint_notification(notification, NOTIFICATION | bit(line)).is_err() {
            memory.slot_free(notification);
            return Err(DeviceError::OutOfMemory);
        }
        memory.slots_keep(1);
        self.lines.push(Line { notification, watched: None });
        Ok(line)
    }

    fn watched(&self, irq: Irq) -> Option<&Watched> {
        self.lines.get(irq.0 as usize)?.watched.as_ref()
    }

    /// See [`objects::machine::Interrupts::irq_ack`].
    pub fn ack(&self, irq: Irq) {
        if let Some(watched) = self.watched(irq) {
            sys::irq_ack(watched.handler);
        }
    }

    /// See [`objects::machine::Interrupts::irq_close`].
    pub fn close(&mut self, memory: &mut Memory, irq: Irq) {
        let Some(line) = self.lines.get_mut(irq.0 as usize) else { return };
        let Some(watched) = line.watched.take() else { return };
        sys::delete(watched.handler);
        memory.slot_free(watched.handler);
        let pending = sys::take_signals() & !bit(irq.0 as usize);
        let own = self.own.iter().copied().filter(|(_, slot)| *slot != 0);
        let lines = self.lines.iter().enumerate().map(|(i, line)| (bit(i), line.notification));
        for (_, slot) in own.chain(lines).filter(|(bit, _)| pending & bit != 0) {
            sys::signal(slot);
        }
    }

    /// The interrupts in a badge.
    pub fn of_badge(badge: u64) -> impl Iterator<Item = Irq> {
        (0..LINES).filter(move |line| badge & bit(*line) != 0).map(|line| Irq(line as u32))
    }

    /// An interrupt has arrived: returns its key, if it is watched.
    pub fn came(&self, irq: Irq) -> Option<IrqKey> {
        let watched = self.watched(irq)?;
        if !matches!(watched.source, IrqSource::Pin { level: true, .. }) {
            sys::irq_ack(watched.handler);
        }
        Some(watched.key)
    }

    fn vector(&self, vector: u32) -> Option<&bool> {
        self.vectors.get(vector.checked_sub(self.first)? as usize)
    }

    /// See [`objects::machine::MessageInterrupts::msi_alloc`].
    pub fn msi_alloc(&mut self, count: u32) -> Result<MsiBlock, DeviceError> {
        if !count.is_power_of_two() || count > BLOCK {
            return Err(DeviceError::Denied);
        }
        // The value that a device writes, not the kernel's number, must be a multiple of `count`.
        let data = |i: usize| self.first + i as u32 + VECTOR_BASE as u32;
        let all = self.vectors.windows(count as usize).enumerate().filter(|(i, _)| data(*i) % count == 0);
        let mut fits = all.clone().filter(|(_, run)| run.iter().all(|given| !given)).map(|(i, _)| i);
        let Some(i) = fits.next() else {
            return Err(if all.count() == 0 { DeviceError::Denied } else { DeviceError::NoneLeft });
        };
        let block = MsiBlock { first: self.first + i as u32, count, address: self.address, data: data(i) };
        self.vectors[i..i + count as usize].fill(true);
        Ok(block)
    }

    /// See [`objects::machine::MessageInterrupts::msi_free`].
    pub fn msi_free(&mut self, block: MsiBlock) {
        let first = block.first.saturating_sub(self.first) as usize;
        if let Some(run) = self.vectors.get_mut(first..first + block.count as usize) {
            run.fill(false);
        }
    }
}

fn bit(line: usize) -> u64 {
    1 << (FIRST_BIT + line as u32)
}

/// Whether two sources are the same pin or vector.
fn same(one: IrqSource, other: IrqSource) -> bool {
    match (one, other) {
        (IrqSource::Pin { number: a, .. }, IrqSource::Pin { number: b, .. }) => a == b,
        (a, b) => a == b,
    }
}

impl objects::machine::Interrupts for Sel4 {
    fn irq_open(&mut self, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError> {
        self.interrupts.open(&mut self.memory, source, key)
    }

    fn irq_ack(&mut self, irq: Irq) {
        self.interrupts.ack(irq);
    }

    fn irq_close(&mut self, irq: Irq) {
        self.interrupts.close(&mut self.memory, irq);
    }

    fn irq_counts(&self) -> (u32, u32) {
        self.interrupts.counts()
    }
}

impl objects::machine::MessageInterrupts for Sel4 {
    fn has_message_interrupts(&self) -> bool {
        true
    }

    fn msi_alloc(&mut self, count: u32) -> Result<MsiBlock, DeviceError> {
        self.interrupts.msi_alloc(count)
    }

    fn msi_free(&mut self, block: MsiBlock) {
        self.interrupts.msi_free(block);
    }
}
