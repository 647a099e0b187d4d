//! The configuration registers of PCI devices, and the messages of the bus driver's clients.
//!
//! Each device has 256 bytes of registers (more on PCI Express, which no driver here needs): its vendor, the addresses
//! of its windows (BARs), and a list of capabilities. Only the bus driver can access them. A device's driver asks it on
//! a channel that stands for that one device.

/// The location of a device on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    /// The bus.
    pub bus: u8,
    /// The device on the bus, 0 to 31.
    pub device: u8,
    /// The function of the device, 0 to 7.
    pub function: u8,
}

impl PciAddress {
    /// The location as one 16-bit number.
    pub fn number(self) -> u16 {
        u16::from(self.bus) << 8 | u16::from(self.device & 31) << 3 | u16::from(self.function & 7)
    }
}

/// Access to the configuration registers of all devices.
pub trait Registers {
    /// Reads four bytes at a multiple of four. Without a device, all bits are ones.
    fn read(&self, place: PciAddress, offset: u8) -> u32;
    /// Writes four bytes.
    fn write(&self, place: PciAddress, offset: u8, value: u32);
}

/// The register with the command in the lower half and the status in the upper half.
pub const COMMAND: u8 = 0x04;
/// In the command: the device responds at the addresses of its memory windows.
pub const MEMORY: u32 = 1 << 1;
/// In the command: the device may access memory by itself (bus mastering).
pub const MASTER: u32 = 1 << 2;
/// In the command: the device does not use the interrupt pin.
pub const NO_PIN: u32 = 1 << 10;
/// The first window's register.
const WINDOWS: u8 = 0x10;
/// In the status: there is a list of capabilities.
const HAS_CAPABILITIES: u32 = 1 << 20;
/// The MSI-X capability.
const MSIX: u8 = 0x11;
/// In the upper half of the first word of MSI-X: messages are enabled.
const MSIX_ON: u32 = 1 << 31;
/// There: all messages are masked.
const MSIX_MASKED: u32 = 1 << 30;

/// A device that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciDevice {
    /// Its location.
    pub place: PciAddress,
    /// The number of its vendor.
    pub vendor: u16,
    /// The vendor's number for it.
    pub device: u16,
    /// Its class and subclass.
    pub class: u16,
}

/// Finds all devices, also those on buses behind bridges.
pub fn find(registers: &impl Registers) -> Vec<PciDevice> {
    let mut found = Vec::new();
    let mut busses = vec![0];
    let mut at = 0;
    while let Some(&bus) = busses.get(at) {
        at += 1;
        for device in 0..32 {
            let first = PciAddress { bus, device, function: 0 };
            if registers.read(first, 0) as u16 == u16::MAX {
                continue;
            }
            let several = registers.read(first, 0x0c) >> 16 & 0x80 != 0;
            for function in 0..if several { 8 } else { 1 } {
                let place = PciAddress { function, ..first };
                let id = registers.read(place, 0);
                if id as u16 == u16::MAX {
                    continue;
                }
                let class = (registers.read(place, 8) >> 16) as u16;
                found.push(PciDevice { place, vendor: id as u16, device: (id >> 16) as u16, class });
                if registers.read(place, 0x0c) >> 16 & 0x7f == 1 {
                    let behind = (registers.read(place, 0x18) >> 8) as u8;
                    // Visits each bus once, whatever the bridges report.
                    if !busses.contains(&behind) {
                        busses.push(behind);
                    }
                }
            }
        }
    }
    found
}

/// A window of a device (BAR): a range of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The number of its register.
    pub index: u8,
    /// Its physical address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The memory windows of a device that have an address. Windows of I/O ports are left out.
pub fn windows(registers: &impl Registers, place: PciAddress) -> Vec<Window> {
    // Writing ones to a window's register shows the window's size. The device must not respond there meanwhile.
    let command = registers.read(place, COMMAND) & 0xffff;
    registers.write(place, COMMAND, command & !(MEMORY | 1));
    let sized = |offset: u8| {
        let before = registers.read(place, offset);
        registers.write(place, offset, u32::MAX);
        let mask = registers.read(place, offset);
        registers.write(place, offset, before);
        (before, mask)
    };
    let mut windows = Vec::new();
    let mut index = 0;
    while index < 6 {
        let offset = WINDOWS + 4 * index;
        let (low, low_mask) = sized(offset);
        let is_ports = low & 1 != 0;
        let is_long = !is_ports && low & 6 == 4 && index < 5;
        let (high, high_mask) = if is_long { sized(offset + 4) } else { (0, u32::MAX) };
        let address = u64::from(high) << 32 | u64::from(low & !0xf);
        let size = (!(u64::from(high_mask) << 32 | u64::from(low_mask & !0xf))).wrapping_add(1);
        if !is_ports && low_mask != 0 && address != 0 {
            windows.push(Window { index, address, size });
        }
        index += if is_long { 2 } else { 1 };
    }
    registers.write(place, COMMAND, command);
    windows
}

/// The location of a device's message-signalled interrupts (MSI-X).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Offset of the capability.
    pub at: u8,
    /// Number of messages.
    pub count: u16,
    /// The window that contains the table.
    pub window: u8,
    /// Offset of the table in the window.
    pub offset: u32,
}

/// Finds a device's message-signalled interrupts.
pub fn messages(registers: &impl Registers, place: PciAddress) -> Option<Messages> {
    if registers.read(place, COMMAND) & HAS_CAPABILITIES == 0 {
        return None;
    }
    let mut at = registers.read(place, 0x34) as u8 & 0xfc;
    // No more capabilities fit into the registers. The bound also ends a circular list.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        let head = registers.read(place, at);
        if head as u8 == MSIX {
            let table = registers.read(place, at + 4);
            let count = (head >> 16 & 0x7ff) as u16 + 1;
            return Some(Messages { at, count, window: table as u8 & 7, offset: table & !7 });
        }
        at = (head >> 8) as u8 & 0xfc;
    }
    None
}

/// Enables a device's message-signalled interrupts, or masks all of them. Masked ones stay enabled: a device without them
/// would go over to its interrupt pin, and QEMU's `e1000e` ends QEMU if a message waits for its time then.
pub fn enable_messages(registers: &impl Registers, place: PciAddress, messages: &Messages, on: bool) {
    let head = registers.read(place, messages.at);
    let head = if on { head & !MSIX_MASKED | MSIX_ON } else { head | MSIX_MASKED };
    registers.write(place, messages.at, head);
}

/// The new command: `before` with those bits of `wanted` that a driver may change. Bits that could harm other devices
/// keep their value.
pub fn command_for_driver(before: u32, wanted: u32) -> u32 {
    let own = MEMORY | MASTER | NO_PIN;
    (before & 0xffff & !own) | (wanted & own)
}

/// A driver's request to the bus driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads four bytes of the device's registers.
    Read(u8),
    /// Writes four bytes there. Only the command can be written.
    Write(u8, u32),
    /// Asks for a window: its address, its size and its memory.
    Window(u8),
    /// Asks for the BTI, with which the driver gives the device access to memory.
    Bti,
    /// Asks for an interrupt.
    Interrupt(u16),
}

/// Size of a request in bytes: transaction number, kind, offset, value.
pub const REQUEST: usize = 12;
/// Size of an answer in bytes: transaction number, status, two values.
pub const ANSWER: usize = 24;

impl Request {
    /// Encodes it for a message. The first four bytes are left for the server's transaction number.
    pub fn to_bytes(self) -> [u8; REQUEST] {
        let (kind, place, value) = match self {
            Request::Read(offset) => (0, u16::from(offset), 0),
            Request::Write(offset, value) => (1, u16::from(offset), value),
            Request::Window(index) => (2, u16::from(index), 0),
            Request::Bti => (3, 0, 0),
            Request::Interrupt(index) => (4, index, 0),
        };
        let mut bytes = [0; REQUEST];
        bytes[4] = kind;
        bytes[6..8].copy_from_slice(&place.to_le_bytes());
        bytes[8..].copy_from_slice(&u32::to_le_bytes(value));
        bytes
    }

    /// Decodes a message: the transaction number and the request.
    pub fn from_bytes(bytes: &[u8]) -> Option<([u8; 4], Request)> {
        let &[a, b, c, d, kind, 0, low, high, ref value @ ..] = bytes else { return None };
        let (place, value) = (u16::from_le_bytes([low, high]), u32::from_le_bytes(value.try_into().ok()?));
        let request = match kind {
            0 => Request::Read(u8::try_from(place).ok()?),
            1 => Request::Write(u8::try_from(place).ok()?, value),
            2 => Request::Window(u8::try_from(place).ok()?),
            3 => Request::Bti,
            4 => Request::Interrupt(place),
            _ => return None,
        };
        Some(([a, b, c, d], request))
    }
}

/// Encodes an answer.
pub fn answer(number: [u8; 4], status: i32, one: u64, two: u64) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    bytes[..4].copy_from_slice(&number);
    bytes[4..8].copy_from_slice(&status.to_le_bytes());
    bytes[8..16].copy_from_slice(&one.to_le_bytes());
    bytes[16..].copy_from_slice(&two.to_le_bytes());
    bytes
}

/// Decodes an answer: its status and values.
pub fn answered(bytes: &[u8]) -> Option<(i32, u64, u64)> {
    let bytes: &[u8; ANSWER] = bytes.try_into().ok()?;
    let [_, _, _, _, a, b, c, d, rest @ ..] = bytes;
    let (one, two) = (rest.first_chunk()?, rest.last_chunk()?);
    Some((i32::from_le_bytes([*a, *b, *c, *d]), u64::from_le_bytes(*one), u64::from_le_bytes(*two)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// A bus: its registers, and for each window's register the bits that can be written.
    #[derive(Default)]
    struct Bus {
        values: RefCell<HashMap<(u16, u8), u32>>,
        masks: HashMap<(u16, u8), u32>,
    }

    impl Registers for Bus {
        fn read(&self, place: PciAddress, offset: u8) -> u32 {
            let values = self.values.borrow();
            let there = values.contains_key(&(place.number(), 0));
            values.get(&(place.number(), offset)).copied().unwrap_or(if there { 0 } else { u32::MAX })
        }
        fn write(&self, place: PciAddress, offset: u8, value: u32) {
            let before = self.read(place, offset);
            let mask = self.masks.get(&(place.number(), offset)).copied();
            let mask = mask.unwrap_or(if (0x10..0x28).contains(&offset) { 0 } else { u32::MAX });
            self.values.borrow_mut().insert((place.number(), offset), before & !mask | value & mask);
        }
    }

    const DISK: PciAddress = PciAddress { bus: 1, device: 3, function: 0 };

    fn bus() -> Bus {
        let mut bus = Bus::default();
        let bridge = PciAddress { bus: 0, device: 2, function: 0 };
        let set = |place: PciAddress, offset: u8, value: u32| {
            bus.values.borrow_mut().insert((place.number(), offset), value);
        };
        set(bridge, 0, 0x0001_8086);
        set(bridge, 0x0c, 0x0001_0000);
        // The bridge leads to bus 1, and a bridge there leads back to bus 0.
        set(bridge, 0x18, 0x0000_0100);
        set(DISK, 0, 0x1042_1af4);
        set(DISK, 8, 0x0100_0001);
        set(DISK, 0x04, 0x0010_0003);
        set(DISK, 0x10, 0xc041);
        set(DISK, 0x14, 0xfebd_5000);
        set(DISK, 0x20, 0xfe00_000c);
        set(DISK, 0x24, 0x0000_0080);
        set(DISK, 0x34, 0x98);
        set(DISK, 0x98, 0x8001_4011);
        set(DISK, 0x9c, 0x0000_0801);
        for (offset, mask) in [(0x10, 0xffff_ff80), (0x14, 0xffff_f000), (0x20, 0xffff_c000), (0x24, u32::MAX)] {
            bus.masks.insert((DISK.number(), offset), mask);
        }
        bus
    }

    #[test]
    fn devices_are_found_behind_bridges() {
        let found = find(&bus());
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], PciDevice { place: DISK, vendor: 0x1af4, device: 0x1042, class: 0x0100 });
    }

    #[test]
    fn windows_have_their_size_and_stay_as_they_were() {
        let bus = bus();
        let before = bus.values.borrow().clone();
        let found = windows(&bus, DISK);
        let short = Window { index: 1, address: 0xfebd_5000, size: 0x1000 };
        assert_eq!(found, [short, Window { index: 4, address: 0x80_fe00_0000, size: 0x4000 }]);
        let after = bus.values.borrow();
        before
            .iter()
            .filter(|((_, offset), _)| *offset >= 0x10)
            .for_each(|(key, value)| assert_eq!(after[key], *value));
        assert_eq!(after[&(DISK.number(), 4)] & 0xffff, 3);
    }

    #[test]
    fn messages_are_found_and_circles_end() {
        let bus = bus();
        assert_eq!(messages(&bus, DISK), Some(Messages { at: 0x98, count: 2, window: 1, offset: 0x800 }));
        bus.values.borrow_mut().insert((DISK.number(), 0x98), 0x0000_9809);
        assert_eq!(messages(&bus, DISK), None);
    }

    #[test]
    fn messages_are_masked_and_stay_enabled() {
        let bus = bus();
        let found = messages(&bus, DISK).unwrap();
        let head = || bus.read(DISK, found.at) >> 30;
        enable_messages(&bus, DISK, &found, true);
        assert_eq!(head(), 0b10);
        enable_messages(&bus, DISK, &found, false);
        assert_eq!(head(), 0b11);
        enable_messages(&bus, DISK, &found, true);
        assert_eq!(head(), 0b10);
        assert_eq!(messages(&bus, DISK), Some(found));
    }

    #[test]
    fn a_driver_changes_only_its_own() {
        assert_eq!(command_for_driver(0x0107, u32::MAX), 0x0107 | NO_PIN);
        assert_eq!(command_for_driver(0x0107, 0), 0x0101);
    }

    proptest! {
        #[test]
        fn requests_and_back(kind in 0u8..5, place in any::<u16>(), value in any::<u32>()) {
            let request = match kind {
                0 => Request::Read(place as u8),
                1 => Request::Write(place as u8, value),
                2 => Request::Window(place as u8),
                3 => Request::Bti,
                _ => Request::Interrupt(place),
            };
            prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Some(([0; 4], request)));
            let reply = answer([1, 2, 3, 4], -5, value.into(), place.into());
            prop_assert_eq!(answered(&reply), Some((-5, value.into(), place.into())));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..32)) {
            let _ = Request::from_bytes(&bytes);
            let _ = answered(&bytes);
        }
    }
}
