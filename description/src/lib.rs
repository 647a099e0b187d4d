//! The system description: what the root task starts, and the resources of each part.
//!
//! People write `system.toml`. The host tool checks it and encodes it to a few bytes that are embedded in the root
//! task, so the root task needs neither a text parser nor a heap. A description is a version byte, the numbers of
//! instances and of components, then the instances one after the other and the components, each in `postcard`'s
//! encoding. Names are borrowed from the bytes. [`System::decode`] reads everything once, so what [`System::instances`]
//! and [`System::components`] yield later is well formed.
//!
//! An *instance* is one server with its own memory and devices and everything that runs on it. Two instances share
//! nothing. A *component* is a program directly on seL4 beside them ([`Component`]).
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

mod component;
#[cfg(feature = "std")]
pub mod network;
#[cfg(feature = "std")]
pub mod services;
#[cfg(feature = "std")]
pub mod switch;

pub use component::{COMPONENTS, Component, OFFERS};
use serde::{Deserialize, Serialize};

/// First byte of an encoded description. If it differs, host tool and root task are of different versions.
pub const VERSION: u8 = 7;

/// The memory of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// Percentage of the memory that is free when the root task has taken its own, 1 to 100.
    Percent(u8),
    /// Bytes, a multiple of 4096.
    Bytes(u64),
}

/// The device that an instance uses for deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timer {
    /// The High Precision Event Timer of a PC: the page of its registers, and a separate comparator with its interrupt.
    Hpet,
}

/// A 16550 serial port of a PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serial {
    /// First of its eight I/O ports.
    pub port: u16,
    /// Its interrupt line (ISA numbering).
    pub irq: u8,
}

impl Serial {
    /// The first serial port of a PC.
    pub const COM1: Serial = Serial { port: 0x3f8, irq: 4 };
    /// The second serial port of a PC.
    pub const COM2: Serial = Serial { port: 0x2f8, irq: 3 };
}

/// The lowest severity of messages that go to the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Everything.
    Debug,
    /// Information, warnings and errors.
    Info,
    /// Warnings and errors.
    Warning,
    /// Errors that end something.
    Error,
}

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The first.
    pub first: u64,
    /// The last number, not below the first.
    pub last: u64,
}

impl Range {
    /// Whether two ranges overlap.
    pub fn meets(&self, other: &Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Up to [`RANGES`] ranges.
pub type Ranges = [Option<Range>; RANGES];
/// Maximum number of ranges of one kind.
pub const RANGES: usize = 8;

/// Devices that programs may drive. Devices that the root task or a server uses itself are always left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// Physical addresses. Memory within them is left out.
    pub memory: Ranges,
    /// I/O ports.
    pub ports: Ranges,
    /// Pins of the interrupt controllers: bit `n` stands for pin `n`.
    pub pins: u32,
    /// Number of vectors for message-signalled interrupts, or as many as are left.
    pub messages: u8,
}

impl Devices {
    /// All devices.
    pub const ALL: Devices = {
        let mut memory = [None; RANGES];
        memory[0] = Some(Range { first: 0, last: u64::MAX });
        let mut ports = [None; RANGES];
        ports[0] = Some(Range { first: 0, last: 0xffff });
        Devices { memory, ports, pins: u32::MAX, messages: u8::MAX }
    };

    /// No devices.
    pub const NONE: Devices = Devices { memory: [None; RANGES], ports: [None; RANGES], pins: 0, messages: 0 };
}

/// The restart policy of an instance whose server has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// How often it is started again within the time below. After that it is not started again.
    pub times: u32,
    /// Milliseconds from the first of these ends. A later end counts as a first one again.
    pub within: u32,
    /// Milliseconds before the first restart; the delay doubles with each further one.
    pub after: u32,
}

impl Restart {
    /// It is never started again.
    pub const NEVER: Restart = Restart { times: 0, within: 0, after: 0 };
    /// The policy if the description gives none.
    pub const DEFAULT: Restart = Restart { times: 3, within: 60_000, after: 0 };
}

/// For tests: the root task ends the instance's server at its current instruction, at random ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of times.
    pub times: u32,
    /// The lowest age, in microseconds since its server's start.
    pub from: u32,
    /// The highest age, not below the lowest.
    pub to: u32,
    /// Seed of the random numbers.
    pub seed: u32,
}

/// One server with its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance<'a> {
    /// Its name in messages.
    #[serde(borrow)]
    pub name: &'a str,
    /// Its share of the memory.
    pub memory: Memory,
    /// Its timer.
    pub timer: Timer,
    /// The port for its log, to which the root task writes as well. `None`: its log is not written to a port.
    pub console: Option<Serial>,
    /// The raw port to the host tool. `None`: no host link.
    pub link: Option<Serial>,
    /// The part of its log that goes to the console.
    pub log: Level,
    /// Its programs may switch off the machine: it gets the ports for that.
    pub power: bool,
    /// It gets the boot file (the BOOTFS image).
    pub boot_files: bool,
    /// Devices that its programs may drive, in addition to the devices above.
    pub devices: Devices,
    /// Its restart policy.
    pub restart: Restart,
    /// Its trial, for tests.
    pub trial: Option<Trial>,
}

/// Maximum number of instances.
pub const INSTANCES: usize = 8;
/// Maximum length of the name of an instance or of a component, in bytes.
pub const NAME: usize = 31;

/// Why a description cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nothing was embedded.
    Absent,
    /// It has another version than [`VERSION`].
    Version,
    /// It is too short or too long, or contains something undefined.
    Malformed,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Absent => "no system description is embedded",
            Error::Version => "the system description is of another version",
            Error::Malformed => "the system description is malformed",
        })
    }
}

impl core::error::Error for Error {}

/// A description whose bytes have been checked.
#[derive(Clone, Copy, Debug)]
pub struct System<'a> {
    instances: List<'a>,
    components: List<'a>,
}

/// A list of encoded items.
#[derive(Clone, Copy, Debug)]
struct List<'a> {
    count: u8,
    bytes: &'a [u8],
}

impl<'a> List<'a> {
    /// Decodes the items.
    fn items<T: Deserialize<'a>>(self) -> impl Iterator<Item = T> + use<'a, T> {
        let mut rest = self.bytes;
        (0..self.count).map_while(move |_| {
            let (item, after) = take(rest).ok()?;
            rest = after;
            Some(item)
        })
    }

    /// Decodes all items; returns the bytes behind them.
    fn check<T: Deserialize<'a>>(self) -> Result<&'a [u8], Error> {
        (0..self.count).try_fold(self.bytes, |rest, _| take::<T>(rest).map(|(_, after)| after))
    }
}

/// Marks the place in the root task's program where the description is embedded. Its length follows as two bytes in
/// little-endian order, then the description.
pub const EMBEDDED: [u8; 16] = *b"\x7fhafnon system\x00\x01";
const HEAD: usize = EMBEDDED.len() + 2;

impl<'a> System<'a> {
    /// Reads and checks what [`embed`] wrote.
    ///
    /// # Errors
    /// [`Error`] if nothing was written, or something else.
    pub fn embedded(place: &'a [u8]) -> Result<System<'a>, Error> {
        let &[low, high] = place.get(EMBEDDED.len()..HEAD).and_then(|bytes| bytes.try_into().ok()).unwrap_or(&[0, 0]);
        match usize::from(u16::from_le_bytes([low, high])) {
            0 => Err(Error::Absent),
            len => System::decode(place.get(HEAD..HEAD + len).ok_or(Error::Malformed)?),
        }
    }

    /// Reads and checks `bytes`.
    ///
    /// # Errors
    /// [`Error`] if they are no description of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<System<'a>, Error> {
        let (&[version, instances, components], rest) = bytes.split_first_chunk().ok_or(Error::Malformed)?;
        if version != VERSION {
            return Err(Error::Version);
        }
        let instances = List { count: instances, bytes: rest };
        let components = List { count: components, bytes: instances.check::<Instance<'_>>()? };
        let rest = components.check::<Component<'_>>()?;
        if rest.is_empty() { Ok(System { instances, components }) } else { Err(Error::Malformed) }
    }

    /// The instances in the order of the file.
    pub fn instances(&self) -> impl Iterator<Item = Instance<'a>> + use<'a> {
        self.instances.items()
    }

    /// The components in the order of the file.
    pub fn components(&self) -> impl Iterator<Item = Component<'a>> + use<'a> {
        self.components.items()
    }
}

fn take<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), Error> {
    postcard::take_from_bytes(bytes).map_err(|_| Error::Malformed)
}

/// Writes a description.
///
/// # Errors
/// [`Error::Malformed`] with more than 255 of one kind.
#[cfg(feature = "std")]
pub fn encode(instances: &[Instance<'_>], components: &[Component<'_>]) -> Result<Vec<u8>, Error> {
    let count = |count: usize| u8::try_from(count).map_err(|_| Error::Malformed);
    let mut bytes = vec![VERSION, count(instances.len())?, count(components.len())?];
    for instance in instances {
        bytes = postcard::to_extend(instance, bytes).map_err(|_| Error::Malformed)?;
    }
    for component in components {
        bytes = postcard::to_extend(component, bytes).map_err(|_| Error::Malformed)?;
    }
    Ok(bytes)
}

/// Writes an encoded description to its place in a root task's program.
///
/// # Errors
/// [`Error::Absent`] if the place does not begin with [`EMBEDDED`], [`Error::Malformed`] if it is too short.
#[cfg(feature = "std")]
pub fn embed(place: &mut [u8], bytes: &[u8]) -> Result<(), Error> {
    let (mark, rest) = place.split_at_mut_checked(EMBEDDED.len()).ok_or(Error::Absent)?;
    if *mark != EMBEDDED {
        return Err(Error::Absent);
    }
    let (length, rest) = rest.split_first_chunk_mut().ok_or(Error::Malformed)?;
    *length = u16::try_from(bytes.len()).map_err(|_| Error::Malformed)?.to_le_bytes();
    rest.get_mut(..bytes.len()).ok_or(Error::Malformed)?.copy_from_slice(bytes);
    Ok(())
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
            restart: Restart::DEFAULT,
            trial: Some(Trial { times: 2, from: 10, to: 20_000, seed: 1 }),
        }
    }

    #[test]
    fn written_data_is_read() {
        let devices = Devices { pins: 1 << 8, messages: 3, ..Devices::NONE };
        let other =
            Instance { name: "second", memory: Memory::Bytes(64 << 20), link: None, devices, trial: None, ..sample() };
        let component = Component {
            name: "vault",
            memory: 1 << 20,
            offers: [Some("keys"), None, None, None],
            offers_to: 0b10,
            client_of: Some(1),
            restart: Restart::DEFAULT,
            trial: None,
        };
        let bytes = encode(&[sample(), other], &[component]).unwrap();
        let system = System::decode(&bytes).unwrap();
        assert_eq!(system.instances().collect::<Vec<_>>(), [sample(), other]);
        assert_eq!(system.components().collect::<Vec<_>>(), [component]);
    }

    #[test]
    fn what_is_embedded_is_read() {
        let bytes = encode(&[sample()], &[]).unwrap();
        let mut place = [0; 256];
        assert_eq!(embed(&mut place, &bytes), Err(Error::Absent));
        place[..EMBEDDED.len()].copy_from_slice(&EMBEDDED);
        assert_eq!(System::embedded(&place).unwrap_err(), Error::Absent);
        embed(&mut place, &bytes).unwrap();
        assert_eq!(System::embedded(&place).unwrap().instances().next(), Some(sample()));
        assert_eq!(embed(&mut place[..HEAD + bytes.len() - 1], &bytes), Err(Error::Malformed));
    }

    #[test]
    fn truncated_or_longer_bytes_are_refused() {
        let bytes = encode(&[sample()], &[]).unwrap();
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
