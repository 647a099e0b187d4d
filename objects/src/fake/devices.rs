//! The fake machine's devices: device memory, interrupts that a test raises, ports that a test sets and reads.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::FakeMachine;
use crate::machine::{
    DeviceError, DeviceFrame, Devices, Frame, Interrupts, Irq, IrqKey, IrqSource, MessageInterrupts, MsiBlock, PAGE,
    PortIo, PortWidth,
};

/// Number of pins of the fake interrupt controller.
pub const PINS: u32 = 24;
/// Number of vectors for messages.
pub const VECTORS: u32 = 64;
/// Difference between the value of a message and its vector.
const MESSAGE: u32 = 0x40;

/// A watched interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FakeIrq {
    /// Its source.
    pub source: IrqSource,
    /// The key by which it is reported.
    pub key: IrqKey,
    /// It has occurred and is not acknowledged.
    pub shut: bool,
}

/// See the module's description.
#[derive(Debug)]
pub struct FakeDevices {
    /// Ranges of device memory: address, bytes, and whether it is writable.
    pub memory: Vec<(u64, u64, bool)>,
    frames: Vec<(u64, bool)>,
    /// Content of device memory in units of four bytes, by physical address; 0 where absent.
    pub registers: BTreeMap<u64, u32>,
    /// Pins reserved for the system.
    pub own_pins: BTreeSet<u32>,
    /// Watched interrupts, by number.
    pub irqs: BTreeMap<u32, FakeIrq>,
    /// Maximum number of watched interrupts.
    pub irq_limit: usize,
    next_irq: u32,
    messages: BTreeMap<u32, u32>,
    /// Ports reserved for the system.
    pub own_ports: BTreeSet<u16>,
    /// Value of each port that was written or set.
    pub ports: BTreeMap<u16, u8>,
    /// All writes to ports, in order.
    pub port_log: Vec<(u16, PortWidth, u32)>,
}

impl Default for FakeDevices {
    fn default() -> Self {
        FakeDevices {
            memory: Vec::new(),
            frames: Vec::new(),
            registers: BTreeMap::new(),
            own_pins: BTreeSet::new(),
            irqs: BTreeMap::new(),
            irq_limit: 8,
            next_irq: 0,
            messages: BTreeMap::new(),
            own_ports: BTreeSet::new(),
            ports: BTreeMap::new(),
            port_log: Vec::new(),
        }
    }
}

impl FakeDevices {
    /// A device raises an interrupt. Returns the key for the server; none if it is not watched, or not acknowledged
    /// since it last occurred.
    pub fn fire(&mut self, wanted: IrqSource) -> Option<IrqKey> {
        let irq = self.irqs.values_mut().find(|irq| irq.source == wanted && !irq.shut)?;
        irq.shut = matches!(irq.source, IrqSource::Pin { level: true, .. });
        Some(irq.key)
    }

    /// A device sends a message.
    pub fn message(&mut self, block: MsiBlock, number: u32) -> Option<IrqKey> {
        self.fire(IrqSource::Message { vector: block.data + number - MESSAGE })
    }

    pub(super) fn address(&self, frame: Frame) -> u64 {
        self.frames[(frame.0 - Frame::DEVICE) as usize].0
    }

    pub(super) fn writable(&self, frame: Frame) -> bool {
        self.frames[(frame.0 - Frame::DEVICE) as usize].1
    }

    pub(super) fn frame(&mut self, address: u64) -> Result<DeviceFrame, DeviceError> {
        assert_eq!(address % PAGE, 0);
        let holds = |&&(base, len, _): &&(u64, u64, bool)| base <= address && address - base < len;
        let writable = self.memory.iter().find(holds).ok_or(DeviceError::Denied)?.2;
        let known = self.frames.iter().position(|frame| frame.0 == address);
        let index = known.unwrap_or_else(|| {
            self.frames.push((address, writable));
            self.frames.len() - 1
        });
        Ok(DeviceFrame { frame: Frame(Frame::DEVICE + index as u32), writable })
    }

    pub(super) fn range(&self, address: u64, pages: u64) -> Result<bool, DeviceError> {
        let end = pages.checked_mul(PAGE).and_then(|len| address.checked_add(len)).ok_or(DeviceError::Denied)?;
        let (mut at, mut writable) = (address, true);
        while at < end {
            let holds = |&&(base, len, _): &&(u64, u64, bool)| base <= at && at - base < len;
            let &(base, len, write) = self.memory.iter().find(holds).ok_or(DeviceError::Denied)?;
            writable &= write;
            at = base + len;
        }
        Ok(writable)
    }

    pub(super) fn read(&self, frame: Frame, offset: usize) -> Option<u32> {
        let known = frame.is_device() && offset.is_multiple_of(4) && (offset as u64) < PAGE;
        known.then(|| self.registers.get(&(self.address(frame) + offset as u64)).copied().unwrap_or(0))
    }

    pub(super) fn write(&mut self, frame: Frame, offset: usize, value: u32) -> bool {
        let can = self.read(frame, offset).is_some() && self.writable(frame);
        if can {
            self.registers.insert(self.address(frame) + offset as u64, value);
        }
        can
    }

    pub(super) fn irq_open(&mut self, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError> {
        let same = |other: IrqSource| match (source, other) {
            (IrqSource::Pin { number: a, .. }, IrqSource::Pin { number: b, .. }) => a == b,
            (a, b) => a == b,
        };
        match source {
            IrqSource::Pin { number, .. } if number >= PINS || self.own_pins.contains(&number) => {
                return Err(DeviceError::Denied);
            }
            IrqSource::Message { vector } => {
                let allocated = self.messages.iter().any(|(first, count)| (*first..first + count).contains(&vector));
                assert!(allocated, "vector {vector} watched that nobody has");
            }
            IrqSource::Pin { .. } => {}
        }
        if self.irqs.values().any(|irq| same(irq.source)) {
            return Err(DeviceError::Taken);
        }
        if self.irqs.len() >= self.irq_limit {
            return Err(DeviceError::NoneLeft);
        }
        self.next_irq += 1;
        self.irqs.insert(self.next_irq, FakeIrq { source, key, shut: false });
        Ok(Irq(self.next_irq))
    }

    pub(super) fn irq_ack(&mut self, irq: Irq) {
        self.irqs.get_mut(&irq.0).expect("interrupt watched").shut = false;
    }

    pub(super) fn irq_close(&mut self, irq: Irq) {
        assert!(self.irqs.remove(&irq.0).is_some(), "interrupt closed twice");
    }

    pub(super) fn msi_alloc(&mut self, count: u32) -> Result<MsiBlock, DeviceError> {
        if !count.is_power_of_two() || count > 32 {
            return Err(DeviceError::Denied);
        }
        let free = |first: &u32| self.messages.iter().all(|(at, len)| first + count <= *at || *first >= at + len);
        let first = (0..VECTORS).step_by(count as usize).find(free).ok_or(DeviceError::NoneLeft)?;
        self.messages.insert(first, count);
        Ok(MsiBlock { first, count, address: 0xfee0_0000, data: MESSAGE + first })
    }

    pub(super) fn msi_free(&mut self, block: MsiBlock) {
        let range = block.first..block.first + block.count;
        let watched = |irq: &FakeIrq| matches!(irq.source, IrqSource::Message { vector } if range.contains(&vector));
        assert!(!self.irqs.values().any(watched), "vectors given back while they are watched");
        assert_eq!(self.messages.remove(&block.first), Some(block.count), "vectors given back twice");
    }

    /// Number of allocated vectors.
    pub fn messages_in_use(&self) -> u32 {
        self.messages.values().sum()
    }

    pub(super) fn ports_usable(&self, first: u16, count: u32) -> bool {
        let end = u32::from(first) + count;
        end <= 0x1_0000 && !self.own_ports.iter().any(|port| (u32::from(first)..end).contains(&u32::from(*port)))
    }

    pub(super) fn port_read(&mut self, port: u16, width: PortWidth) -> u32 {
        if !self.ports_usable(port, width.bytes().into()) {
            return width.all_ones();
        }
        let byte = |at: u16| u32::from(self.ports.get(&at).copied().unwrap_or(0xff));
        (0..width.bytes()).rev().fold(0, |value, i| value << 8 | byte(port + i))
    }

    pub(super) fn port_write(&mut self, port: u16, width: PortWidth, value: u32) {
        if !self.ports_usable(port, width.bytes().into()) {
            return;
        }
        self.port_log.push((port, width, value & width.all_ones()));
        for i in 0..width.bytes() {
            self.ports.insert(port + i, (value >> (8 * i)) as u8);
        }
    }
}

impl Devices for FakeMachine {
    fn device_frame(&mut self, address: u64) -> Result<DeviceFrame, DeviceError> {
        self.devices.frame(address)
    }

    fn device_range(&self, address: u64, pages: u64) -> Result<bool, DeviceError> {
        self.devices.range(address, pages)
    }

    fn device_read(&mut self, frame: Frame, offset: usize) -> Option<u32> {
        self.devices.read(frame, offset)
    }

    fn device_write(&mut self, frame: Frame, offset: usize, value: u32) -> bool {
        self.devices.write(frame, offset, value)
    }
}

impl Interrupts for FakeMachine {
    fn irq_open(&mut self, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError> {
        self.devices.irq_open(source, key)
    }

    fn irq_ack(&mut self, irq: Irq) {
        self.devices.irq_ack(irq);
    }

    fn irq_close(&mut self, irq: Irq) {
        self.devices.irq_close(irq);
    }

    fn irq_counts(&self) -> (u32, u32) {
        (PINS, VECTORS)
    }
}

impl MessageInterrupts for FakeMachine {
    fn has_message_interrupts(&self) -> bool {
        !self.is_bare
    }

    fn msi_alloc(&mut self, count: u32) -> Result<MsiBlock, DeviceError> {
        self.devices.msi_alloc(count)
    }

    fn msi_free(&mut self, block: MsiBlock) {
        self.devices.msi_free(block);
    }
}

impl PortIo for FakeMachine {
    fn has_ports(&self) -> bool {
        !self.is_bare
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

#[cfg(test)]
mod tests {
    use crate::fake::FakeMachine;
    use crate::machine::{AddressSpaces, Cache, Memory, Perm};

    use super::*;

    const RW: Perm = Perm { read: true, write: true, execute: false };

    #[test]
    fn contiguous_frames_follow_each_other() {
        let mut machine = FakeMachine::new(64);
        let odd = machine.frame_alloc().unwrap();
        let first = machine.frames_contiguous(8, 14).unwrap();
        assert_eq!(machine.frame_address(first) % (1 << 14), 0);
        for i in 0..8 {
            assert_eq!(machine.frame_address(Frame(first.0 + i)), machine.frame_address(first) + u64::from(i) * PAGE);
        }
        assert_eq!(machine.frames_in_use(), 9);
        // Frames skipped for the alignment are allocated later, and a free gap is found again.
        let next = machine.frame_alloc().unwrap();
        assert!(next.0 < first.0);
        for i in 0..8 {
            machine.frame_free(Frame(first.0 + i));
        }
        assert_eq!(machine.frames_contiguous(8, 14), Ok(first));
        assert!(machine.frames_contiguous(64, 12).is_err());
        assert_eq!(machine.frames_in_use(), 10);
        machine.frame_free(odd);
    }

    #[test]
    fn a_device_page_has_one_number_and_is_there_only_where_devices_are() {
        let mut machine = FakeMachine::new(4);
        machine.devices.memory = alloc::vec![(0xfe00_0000, 2 * PAGE, true), (0xfed0_0000, PAGE, false)];
        let page = machine.device_frame(0xfe00_1000).unwrap();
        assert!(page.writable && page.frame.is_device());
        assert_eq!(machine.device_frame(0xfe00_1000), Ok(page));
        assert_eq!(machine.frame_address(page.frame), 0xfe00_1000);
        assert_eq!(machine.device_frame(0xfe00_2000), Err(DeviceError::Denied));
        assert_eq!(machine.device_range(0xfe00_0000, 2), Ok(true));
        assert_eq!(machine.device_range(0xfe00_1000, 2), Err(DeviceError::Denied));
        assert_eq!(machine.device_range(0xfe00_0000, u64::MAX), Err(DeviceError::Denied));
        assert_eq!(machine.device_range(0xfed0_0000, 1), Ok(false));
        let timer = machine.device_frame(0xfed0_0000).unwrap();
        assert!(!timer.writable && !machine.device_write(timer.frame, 0, 1));
        assert!(machine.device_write(page.frame, 0x10, 7) && !machine.device_write(page.frame, 0x1000, 7));
        assert_eq!((machine.device_read(page.frame, 0x10), machine.device_read(page.frame, 2)), (Some(7), None));
        let space = machine.aspace_create().unwrap();
        machine.map(space, 0x1000, page.frame, RW, Cache::UncachedDevice).unwrap();
        assert_eq!(machine.caches[&(space.0, 0x1000)], Cache::UncachedDevice);
        machine.unmap(space, 0x1000, 1);
        assert!(machine.caches.is_empty());
    }

    #[test]
    fn a_level_interrupt_stays_shut_until_it_is_acknowledged_an_edge_does_not() {
        let mut machine = FakeMachine::new(4);
        machine.devices.own_pins.insert(2);
        let level = IrqSource::Pin { number: 20, level: true, active_low: true };
        let edge = IrqSource::Pin { number: 8, level: false, active_low: false };
        let taken = IrqSource::Pin { number: 2, level: false, active_low: false };
        assert_eq!(machine.irq_open(taken, IrqKey(0)), Err(DeviceError::Denied));
        let first = machine.irq_open(level, IrqKey(1)).unwrap();
        let second = machine.irq_open(edge, IrqKey(2)).unwrap();
        assert_eq!(machine.irq_open(level, IrqKey(3)), Err(DeviceError::Taken));
        assert_eq!(machine.devices.fire(level), Some(IrqKey(1)));
        assert_eq!(machine.devices.fire(level), None);
        machine.irq_ack(first);
        assert_eq!(machine.devices.fire(level), Some(IrqKey(1)));
        assert_eq!(machine.devices.fire(edge), Some(IrqKey(2)));
        assert_eq!(machine.devices.fire(edge), Some(IrqKey(2)));
        machine.irq_close(first);
        machine.irq_close(second);
        assert_eq!(machine.devices.fire(edge), None);
    }

    #[test]
    fn vectors_for_messages_are_aligned_and_come_back() {
        let mut machine = FakeMachine::new(4);
        let one = machine.msi_alloc(1).unwrap();
        let four = machine.msi_alloc(4).unwrap();
        assert_eq!(four.data % 4, 0);
        assert_eq!(machine.msi_alloc(3), Err(DeviceError::Denied));
        let irq = machine.irq_open(IrqSource::Message { vector: four.first + 3 }, IrqKey(7)).unwrap();
        assert_eq!(machine.devices.message(four, 3), Some(IrqKey(7)));
        assert_eq!(machine.devices.message(four, 2), None);
        machine.irq_close(irq);
        machine.msi_free(one);
        machine.msi_free(four);
        assert_eq!(machine.devices.messages_in_use(), 0);
    }

    #[test]
    fn io_ports_read_back_except_the_systems_own() {
        let mut machine = FakeMachine::new(4);
        machine.devices.own_ports.insert(0x3f8);
        machine.port_write(0x100, PortWidth::Long, 0x1234_5678);
        assert_eq!(machine.port_read(0x101, PortWidth::Word), 0x3456);
        assert_eq!(machine.port_read(0xffff, PortWidth::Byte), 0xff);
        machine.port_write(0x3f8, PortWidth::Byte, 1);
        assert_eq!(machine.port_read(0x3f8, PortWidth::Byte), 0xff);
        assert!(machine.ports_usable(0x3f0, 8) && !machine.ports_usable(0x3f0, 9));
        assert!(machine.ports_usable(0xffff, 1) && !machine.ports_usable(0xffff, 2));
        assert_eq!(machine.devices.port_log, [(0x100, PortWidth::Long, 0x1234_5678)]);
    }
}
