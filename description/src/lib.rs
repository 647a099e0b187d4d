//! The system description: what the root task starts, and what each part gets.
//!
//! People write `system.toml`; the host tool checks it and turns it into a few bytes that are embedded in the root
//! task, so that the root task needs neither a parser for text nor memory from a heap. A description is a version
//! byte, the number of instances, then the instances one after the other, each in `postcard`'s encoding. Names are
//! borrowed from the bytes; [`System::decode`] reads everything once, so that what [`System::instances`] yields later
//! is known to be well formed.
//!
//! An *instance* is one server with its own memory and devices and everything that runs on it. Two instances share
//! nothing.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
pub mod services;

use serde::{Deserialize, Serialize};

/// First byte of an encoded description; another value means that host tool and root task do not belong together.
pub const VERSION: u8 = 3;

/// How much memory an instance gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// Hundredths of the memory that is free when the root task has taken its own, 1 to 100.
    Percent(u8),
    /// Bytes, a multiple of 4096.
    Bytes(u64),
}

/// The device that an instance uses for deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timer {
    /// The High Precision Event Timer of a PC: its registers' page and one of its comparators' interrupts.
    Hpet,
}

/// A 16550 serial port of a PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serial {
    /// First of its eight I/O ports.
    pub port: u16,
    /// Its line of the interrupt controller (ISA numbering).
    pub irq: u8,
}

impl Serial {
    /// The first serial port where PCs have it.
    pub const COM1: Serial = Serial { port: 0x3f8, irq: 4 };
    /// The second serial port where PCs have it.
    pub const COM2: Serial = Serial { port: 0x2f8, irq: 3 };
}

/// From which importance on a message goes to the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Everything.
    Debug,
    /// What happens, and what is wrong.
    Info,
    /// What is wrong.
    Warning,
    /// What ends something.
    Error,
}

/// Numbers from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The first.
    pub first: u64,
    /// The last, not below the first.
    pub last: u64,
}

impl Range {
    /// Whether two ranges have a number in common.
    pub fn meets(&self, other: &Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Up to [`RANGES`] ranges.
pub type Ranges = [Option<Range>; RANGES];
/// How many ranges of one kind can be named.
pub const RANGES: usize = 8;

/// Devices that programs may drive. What the root task or a server needs for itself is left out of it, whatever is
/// named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// Physical addresses; of them, whatever is not memory.
    pub memory: Ranges,
    /// I/O ports.
    pub ports: Ranges,
    /// Pins of the interrupt controllers: bit `n` for pin `n`.
    pub pins: u32,
    /// How many vectors for message-signalled interrupts, as far as there are so many.
    pub messages: u8,
}

impl Devices {
    /// Whatever there is.
    pub const ALL: Devices = {
        let mut memory = [None; RANGES];
        memory[0] = Some(Range { first: 0, last: u64::MAX });
        let mut ports = [None; RANGES];
        ports[0] = Some(Range { first: 0, last: 0xffff });
        Devices { memory, ports, pins: u32::MAX, messages: u8::MAX }
    };

    /// Nothing.
    pub const NONE: Devices = Devices { memory: [None; RANGES], ports: [None; RANGES], pins: 0, messages: 0 };
}

/// One server with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance<'a> {
    /// Its name in messages.
    #[serde(borrow)]
    pub name: &'a str,
    /// Its share of the memory.
    pub memory: Memory,
    /// Its source of deadlines.
    pub timer: Timer,
    /// Where its log goes; the root task writes there too. `None`: it keeps its log to itself.
    pub console: Option<Serial>,
    /// The raw port to the host's tool. `None`: no host link.
    pub link: Option<Serial>,
    /// What of its log goes to the console.
    pub log: Level,
    /// Its programs may turn the machine off: it gets the ports for that.
    pub power: bool,
    /// It gets the boot file (the BOOTFS image).
    pub boot_files: bool,
    /// What its programs may drive, beside the devices above.
    pub devices: Devices,
}

/// Why bytes are no description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// They start with another version than [`VERSION`].
    Version,
    /// They end early, hold something undefined, or more than they should.
    Malformed,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Version => "the system description is of another version",
            Error::Malformed => "the system description is malformed",
        })
    }
}

impl core::error::Error for Error {}

/// A description whose bytes have been checked.
#[derive(Clone, Copy, Debug)]
pub struct System<'a> {
    count: usize,
    instances: &'a [u8],
}

impl<'a> System<'a> {
    /// Reads and checks `bytes`.
    ///
    /// # Errors
    /// [`Error`] where they are no description of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<System<'a>, Error> {
        let (&[version, count], instances) = bytes.split_first_chunk().ok_or(Error::Malformed)?;
        if version != VERSION {
            return Err(Error::Version);
        }
        let system = System { count: usize::from(count), instances };
        let mut rest = instances;
        for _ in 0..system.count {
            (_, rest) = take(rest)?;
        }
        if rest.is_empty() { Ok(system) } else { Err(Error::Malformed) }
    }

    /// The instances in the order of the file.
    pub fn instances(&self) -> impl Iterator<Item = Instance<'a>> + use<'a> {
        let mut rest = self.instances;
        (0..self.count).map_while(move |_| {
            let (instance, after) = take(rest).ok()?;
            rest = after;
            Some(instance)
        })
    }
}

fn take(bytes: &[u8]) -> Result<(Instance<'_>, &[u8]), Error> {
    postcard::take_from_bytes(bytes).map_err(|_| Error::Malformed)
}

/// Writes a description.
///
/// # Errors
/// [`Error::Malformed`] with more than 255 instances.
#[cfg(feature = "std")]
pub fn encode(instances: &[Instance<'_>]) -> Result<Vec<u8>, Error> {
    let count = u8::try_from(instances.len()).map_err(|_| Error::Malformed)?;
    let mut bytes = vec![VERSION, count];
    for instance in instances {
        bytes = postcard::to_extend(instance, bytes).map_err(|_| Error::Malformed)?;
    }
    Ok(bytes)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Instance<'static> {
        Instance {
            name: "main",
            memory: Memory::Percent(100),
            timer: Timer::Hpet,
            console: Some(Serial::COM1),
            link: Some(Serial::COM2),
            log: Level::Info,
            power: true,
            boot_files: true,
            devices: Devices::ALL,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let devices = Devices { pins: 1 << 8, messages: 3, ..Devices::NONE };
        let other = Instance { name: "second", memory: Memory::Bytes(64 << 20), link: None, devices, ..sample() };
        let bytes = encode(&[sample(), other]).unwrap();
        let read: Vec<_> = System::decode(&bytes).unwrap().instances().collect();
        assert_eq!(read, [sample(), other]);
    }

    #[test]
    fn truncated_or_longer_bytes_are_refused() {
        let bytes = encode(&[sample()]).unwrap();
        for end in 0..bytes.len() {
            assert!(System::decode(&bytes[..end]).is_err(), "{end} bytes were taken for a description");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(System::decode(&longer).unwrap_err(), Error::Malformed);
        let mut other = bytes;
        other[0] = VERSION + 1;
        assert_eq!(System::decode(&other).unwrap_err(), Error::Version);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(system) = System::decode(&bytes) {
                prop_assert_eq!(system.instances().count(), usize::from(bytes[1]));
            }
        }
    }
}
