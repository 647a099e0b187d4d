//! Message-signalled interrupts (MSIs): blocks of vectors, each of which can have an interrupt object.
//!
//! A device raises an MSI by writing a value to an address; its driver puts both into the device's registers. A block
//! lives as long as there is a handle to it or an interrupt object of it.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::device::interrupt::Interrupt;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Cache, DeviceError, Frame, IrqSource, Machine, MsiBlock, PAGE};
use crate::memory::vmo::Vmo;

/// The registers that tell a device what to write where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registers {
    /// Its MSI capability: for all its interrupts together.
    Capability,
    /// Its MSI-X table: an entry per interrupt.
    Table,
}

/// ID of an MSI capability.
const CAPABILITY: u32 = 0x05;
/// Bits of its first word: 64-bit addresses; per-vector masking.
const LONG: u32 = 1 << 23;
const MASKS: u32 = 1 << 24;
/// Bytes of an MSI-X table entry: address, value, and control word.
const ENTRY: u64 = 16;
/// Offset of the control word in an entry, and its mask bit.
const CONTROL: u64 = 12;
const MASKED: u32 = 1;

/// Location of a device's MSI registers.
pub type MsiLocation = (Id<Vmo>, u64, Registers);

/// The MSI of a message-signalled interrupt.
pub(crate) struct Message {
    msi: Id<Msi>,
    number: u32,
    /// The VMO with the device's registers, which it keeps alive,
    vmo: Id<Vmo>,
    /// and the location of its mask bit, if it has one.
    mask: Option<Mask>,
}

/// Location of an interrupt's mask bit.
#[derive(Clone, Copy)]
enum Mask {
    /// In the MSI-X table entry at this offset.
    Entry(u64),
    /// In this word of an MSI capability, with a bit per vector.
    Bits(u64),
}

/// A block of message-signalled interrupts.
pub struct Msi {
    /// The vectors that the machine allocated.
    pub block: MsiBlock,
    /// Bitmap of the vectors that have an interrupt object.
    taken: u32,
}

impl Noun for Msi {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_MSI;
}

impl ObjectOps for Msi {
    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.machine.msi_free(self.block);
    }
}

impl Msi {
    /// Maximum number of vectors in a block.
    pub const MOST: u32 = 32;

    /// Number of interrupt objects.
    pub fn interrupts(&self) -> u32 {
        self.taken.count_ones()
    }
}

impl<M: Machine> Kernel<M> {
    /// `msi_allocate`: allocates `count` vectors, a power of two.
    ///
    /// # Errors
    /// `INVALID_ARGS`: invalid count. `NOT_SUPPORTED`: the machine has no such interrupts. `NO_RESOURCES`: not enough
    /// vectors. `NO_MEMORY`.
    pub fn msi_allocate(&mut self, count: u32) -> Result<Id<Msi>, Status> {
        if !count.is_power_of_two() || count > Msi::MOST {
            return Err(Status::INVALID_ARGS);
        }
        if !self.machine.has_message_interrupts() {
            return Err(Status::NOT_SUPPORTED);
        }
        let block = self.machine.msi_alloc(count).map_err(|error| match error {
            DeviceError::OutOfMemory => Status::NO_MEMORY,
            _ => Status::NO_RESOURCES,
        })?;
        let made = self.create(Signals::NONE, Box::new(Msi { block, taken: 0 }));
        made.inspect_err(|_| self.machine.msi_free(block))
    }

    /// `msi_create`: creates the interrupt object of a vector, for a device with registers in a VMO. With an MSI-X
    /// table, fills in its entry. An MSI capability serves all interrupts at once, so the driver writes it; the server
    /// only changes the mask bit of this vector.
    ///
    /// # Errors
    /// `INVALID_ARGS`: it is not in the block, or the registers are invalid. `ALREADY_BOUND`: it has an interrupt
    /// object. `NO_RESOURCES`, `NO_MEMORY`.
    pub fn msi_create(
        &mut self,
        id: Id<Msi>,
        options: u32,
        number: u32,
        place: MsiLocation,
    ) -> Result<Id<Interrupt>, Status> {
        let msi = self.objects.get(id)?;
        if number >= msi.block.count {
            return Err(Status::INVALID_ARGS);
        }
        let mask = self.msi_check(number, place)?;
        let msi = self.objects.get(id)?;
        if msi.taken >> number & 1 != 0 {
            return Err(Status::ALREADY_BOUND);
        }
        let vector = msi.block.first.saturating_add(number);
        let block = msi.block;
        let interrupt = self.interrupt_create(options, IrqSource::Message { vector })?;
        let vmo = place.0;
        let message = Message { msi: id, number, vmo, mask };
        self.objects.get_mut(interrupt)?.message = Some(message);
        self.objects.get_mut(id)?.taken |= 1 << number;
        self.add_ref(id.object());
        self.add_ref(vmo.object());
        let written = match mask {
            Some(Mask::Entry(entry)) => self.msi_fill((vmo, entry), block, number),
            Some(Mask::Bits(word)) => self.msi_mask((vmo, word), number, false),
            None => Ok(()),
        };
        written.inspect_err(|_| self.reaper_enqueue(interrupt.object()))?;
        Ok(interrupt)
    }

    /// Checks the location of a device's registers in a VMO. Returns the location of the mask bit.
    fn msi_check(&mut self, number: u32, (vmo, offset, registers): MsiLocation) -> Result<Option<Mask>, Status> {
        let size = self.vmo_size(vmo)?;
        if !self.vmo_is_contiguous(vmo) || self.vmo_cache(vmo)? != Cache::UncachedDevice || offset >= size {
            return Err(Status::INVALID_ARGS);
        }
        let (need, mask) = match registers {
            Registers::Table => {
                let entry = ENTRY * u64::from(number);
                (entry + ENTRY, Some(Mask::Entry(offset.saturating_add(entry))))
            }
            Registers::Capability => {
                let word = self.register_read(vmo, offset / 4 * 4)?;
                if word & 0xff != CAPABILITY {
                    return Err(Status::INVALID_ARGS);
                }
                match word & (LONG | MASKS) {
                    0 => (10, None),
                    LONG => (14, None),
                    MASKS => (20, Some(Mask::Bits(offset.saturating_add(12)))),
                    _ => (24, Some(Mask::Bits(offset.saturating_add(16)))),
                }
            }
        };
        if !offset.is_multiple_of(4) || need > size - offset { Err(Status::INVALID_ARGS) } else { Ok(mask) }
    }

    /// Sets or clears a mask bit in an MSI capability.
    fn msi_mask(&mut self, (vmo, word): (Id<Vmo>, u64), number: u32, masked: bool) -> Result<(), Status> {
        let bits = self.register_read(vmo, word)? & !(1 << number);
        self.register_write(vmo, word, bits | u32::from(masked) << number)
    }

    /// Fills in an MSI-X table entry.
    fn msi_fill(&mut self, (vmo, entry): (Id<Vmo>, u64), block: MsiBlock, number: u32) -> Result<(), Status> {
        // Masked while it changes.
        self.register_write(vmo, entry + CONTROL, MASKED)?;
        self.register_write(vmo, entry, block.address as u32)?;
        self.register_write(vmo, entry + 4, (block.address >> 32) as u32)?;
        self.register_write(vmo, entry + 8, block.data.wrapping_add(number))?;
        self.register_write(vmo, entry + CONTROL, 0)
    }

    /// Frame and offset of a device's register; in tests of programs it may be ordinary memory.
    fn register(&mut self, vmo: Id<Vmo>, offset: u64) -> Result<(Frame, usize), Status> {
        let (target, at) = self.vmo_resolve(vmo, offset)?;
        let frame = self.vmo_page(target, at / PAGE, Access::Write)?.ok_or(Status::INVALID_ARGS)?;
        Ok((frame, (at % PAGE) as usize))
    }

    fn register_read(&mut self, vmo: Id<Vmo>, offset: u64) -> Result<u32, Status> {
        let (frame, at) = self.register(vmo, offset)?;
        if frame.is_device() {
            return self.machine.device_read(frame, at).ok_or(Status::INVALID_ARGS);
        }
        let mut word = [0; 4];
        self.machine.frame_read(frame, at, &mut word);
        Ok(u32::from_le_bytes(word))
    }

    fn register_write(&mut self, vmo: Id<Vmo>, offset: u64, value: u32) -> Result<(), Status> {
        let (frame, at) = self.register(vmo, offset)?;
        if !frame.is_device() {
            self.machine.frame_write(frame, at, &value.to_le_bytes());
        } else if !self.machine.device_write(frame, at, value) {
            return Err(Status::INVALID_ARGS);
        }
        Ok(())
    }

    /// The interrupt object of a vector was destroyed.
    pub(crate) fn msi_released(&mut self, message: &Message) {
        let Message { msi, number, vmo, mask } = *message;
        // A device that was removed, or is not there yet, sends nothing.
        let _ = match mask {
            Some(Mask::Entry(entry)) => self.register_write(vmo, entry + CONTROL, MASKED),
            Some(Mask::Bits(word)) => self.msi_mask((vmo, word), number, true),
            None => Ok(()),
        };
        self.drop_ref(vmo.object());
        if let Ok(msi) = self.objects.get_mut(msi) {
            msi.taken &= !(1 << number);
        }
        self.drop_ref(msi.object());
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use abi::{ZX_DEFAULT_INTERRUPT_RIGHTS, ZX_DEFAULT_MSI_RIGHTS};

    use crate::containers::name::Name;
    use crate::fake::FakeMachine;

    use super::*;

    /// A page of device memory with a table of four entries.
    fn table(kernel: &mut Kernel<FakeMachine>) -> MsiLocation {
        kernel.machine.devices.memory = alloc::vec![(0xfe00_0000, PAGE, true)];
        let vmo = kernel.vmo_create_physical(0xfe00_0000, PAGE).unwrap();
        kernel.vmo_set_cache(vmo, Cache::UncachedDevice).unwrap();
        (vmo, 32, Registers::Table)
    }

    #[test]
    fn a_block_stays_as_long_as_one_of_its_interrupts() {
        let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, _) = kernel.process_create(job, Name::new(b"test")).unwrap();
        for count in [0, 3, 33, 64, u32::MAX] {
            assert_eq!(kernel.msi_allocate(count), Err(Status::INVALID_ARGS));
        }
        let msi = kernel.msi_allocate(4).unwrap();
        let block = kernel.objects.get(msi).unwrap().block;
        let handle = kernel.give_new(process, msi, ZX_DEFAULT_MSI_RIGHTS).unwrap();
        let place = table(&mut kernel);
        assert_eq!(kernel.msi_create(msi, 0, 4, place), Err(Status::INVALID_ARGS));
        let interrupts: Vec<_> = (0..4).map(|n| kernel.msi_create(msi, 0, n, place).unwrap()).collect();
        for n in 0..4 {
            let entry = [0, 4, 8, 12].map(|at| kernel.register_read(place.0, 32 + n * ENTRY + at).unwrap());
            assert_eq!(entry, [0xfee0_0000, 0, block.data + n as u32, 0]);
        }
        let give =
            |kernel: &mut Kernel<FakeMachine>, id| kernel.give_new(process, id, ZX_DEFAULT_INTERRUPT_RIGHTS).unwrap();
        let mut handles: Vec<_> = interrupts.iter().map(|&id| give(&mut kernel, id)).collect();
        assert_eq!(kernel.msi_create(msi, 0, 2, place), Err(Status::ALREADY_BOUND));
        assert_eq!(kernel.objects.get(msi).unwrap().interrupts(), 4);

        // Each has its own message.
        let port = kernel.port_create(true).unwrap();
        let port_handle = kernel.give_new(process, port, abi::ZX_DEFAULT_PORT_RIGHTS).unwrap();
        for (n, &interrupt) in interrupts.iter().enumerate() {
            kernel.interrupt_bind(interrupt, port, n as u64).unwrap();
        }
        let key = kernel.machine.devices.message(block, 2).unwrap();
        kernel.interrupt(key, 77);
        let thread = kernel.thread_create(process, Name::default()).unwrap();
        let packet = kernel.port_wait(port, thread, 0, 0).unwrap().unwrap();
        assert_eq!((packet[0], packet[16]), (2, 77));

        let close = |kernel: &mut Kernel<FakeMachine>, value| {
            let handle = kernel.take(process, value).unwrap();
            kernel.close(handle);
            kernel.reap();
        };
        close(&mut kernel, handle);
        assert_eq!(kernel.machine.devices.messages_in_use(), 4);
        close(&mut kernel, handles.swap_remove(2));
        assert_eq!(kernel.register_read(place.0, 32 + 2 * ENTRY + CONTROL), Ok(MASKED));
        let again = kernel.msi_create(msi, 0, 2, place).unwrap();
        handles.push(give(&mut kernel, again));
        for value in handles {
            assert_eq!(kernel.machine.devices.messages_in_use(), 4);
            close(&mut kernel, value);
        }
        assert_eq!(kernel.machine.devices.messages_in_use(), 0);
        close(&mut kernel, port_handle);
    }

    #[test]
    fn a_capability_that_can_mask_has_the_bits_of_those_that_are_there_cleared() {
        for (control, word) in [(MASKS, 12), (MASKS | LONG, 16)] {
            let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
            let job = kernel.root_job().unwrap();
            let (process, _) = kernel.process_create(job, Name::new(b"test")).unwrap();
            let (vmo, offset, _) = table(&mut kernel);
            kernel.give_new(process, vmo, abi::ZX_DEFAULT_VMO_RIGHTS).unwrap();
            kernel.register_write(vmo, offset, CAPABILITY | control).unwrap();
            kernel.register_write(vmo, offset + word, u32::MAX).unwrap();
            let msi = kernel.msi_allocate(4).unwrap();
            let place = (vmo, offset, Registers::Capability);
            let mut handles = Vec::new();
            for number in [1, 3] {
                let interrupt = kernel.msi_create(msi, 0, number, place).unwrap();
                handles.push(kernel.give_new(process, interrupt, ZX_DEFAULT_INTERRUPT_RIGHTS).unwrap());
            }
            for left in [0b1010, 0b1000, 0] {
                assert_eq!(kernel.register_read(vmo, offset + word), Ok(!left));
                if left != 0 {
                    let handle = kernel.take(process, handles.remove(0)).unwrap();
                    kernel.close(handle);
                    kernel.reap();
                }
            }
        }
    }

    #[test]
    fn no_block_when_there_are_none_left() {
        let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
        let blocks: Vec<_> = core::iter::repeat_with(|| kernel.msi_allocate(32)).take_while(Result::is_ok).collect();
        assert!(!blocks.is_empty());
        assert_eq!(kernel.msi_allocate(32), Err(Status::NO_RESOURCES));
    }
}
