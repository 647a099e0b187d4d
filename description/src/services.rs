//! Services: ordinary programs that `init` starts when a program first connects to them. Drivers are services with
//! parts of the machine.
//!
//! People write `[[service]]` and `[[driver]]` in `system.toml`. The host tool checks them, leaves out those whose
//! device the machine does not have, and puts the rest into the boot image, where `init` reads it. The format is like
//! that of the description of instances: a version byte, then the list in `postcard`'s encoding.

use std::string::String;
use std::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Error, VERSION};

/// One service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its name in `/svc`, and in messages.
    pub name: String,
    /// Its program, a name in the image's `bin`.
    pub program: String,
    /// The program's arguments, without its name.
    pub arguments: Vec<String>,
    /// Every program may connect to it. Otherwise only `init` and the services that use it may.
    pub public: bool,
    /// Programs that may connect to it although it is not public, if the system was booted for them: names in the
    /// image's `bin`. Programs that they start may not.
    pub programs: Vec<String>,
    /// It is a file system, which is mounted at this path for every program.
    pub mount: Option<String>,
    /// Memory quota of its job in bytes; `None`: no quota of its own.
    pub memory: Option<u64>,
    /// The resources that it gets, in this order.
    pub resources: Vec<Resource>,
    /// The services that it is connected to, in this order: `NAME`, or `NAME/ARGUMENT` with words for that service.
    pub uses: Vec<String>,
    /// What programs get of it, if not all get the same.
    pub rules: Vec<ProgramRule>,
}

/// What a program gets of a service. It holds for the program that the system was booted for, and for everything that
/// it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRule {
    /// The program: a name in the image's `bin`, or the path of another one in the image (`run/NAME`); `*` for all that
    /// have no rule of their own.
    pub program: String,
    /// What it gets.
    pub access: Access,
}

/// What a program gets of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// No connection.
    Nothing,
    /// What every program gets of a service without rules.
    All,
    /// What the service makes of these bytes, which come with each connection: from 1 to [`PART`]. [`decode`] refuses
    /// others.
    Part(Vec<u8>),
}

/// Maximum size of a part in bytes.
pub const PART: usize = 2048;

/// The name of the rule for all programs without a rule of their own.
pub const OTHERS: &str = "*";

impl Service {
    /// What the program with this name gets; without a name, what a program gets that is not in the image.
    pub fn access(&self, program: Option<&str>) -> &Access {
        let of = |name: &str| self.rules.iter().find(|rule| rule.program == name).map(|rule| &rule.access);
        program.and_then(of).or_else(|| of(OTHERS)).unwrap_or(&Access::All)
    }
}

/// A part of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// I/O ports.
    Ports {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
    /// The interrupt at a pin of the interrupt controller.
    Pin(u8),
    /// Device memory.
    Memory {
        /// The first byte.
        first: u64,
        /// The last.
        last: u64,
    },
    /// The right to make IOMMU objects, and with them the right to let devices reach memory.
    Iommu,
    /// The right to take message-signalled interrupts.
    Msi,
}

/// Writes a list of services.
///
/// # Errors
/// [`Error::Malformed`] if it cannot be written.
pub fn encode(services: &[Service]) -> Result<Vec<u8>, Error> {
    postcard::to_extend(services, vec![VERSION]).map_err(|_| Error::Malformed)
}

/// Reads a list of services.
///
/// # Errors
/// [`Error`] if the bytes are no list of this version.
pub fn decode(bytes: &[u8]) -> Result<Vec<Service>, Error> {
    let services: Vec<Service> = match bytes.split_first() {
        Some((&VERSION, list)) => postcard::from_bytes(list).map_err(|_| Error::Malformed)?,
        Some(_) => return Err(Error::Version),
        None => return Err(Error::Malformed),
    };
    // Without a part, a service would give all.
    let is_valid = |rule: &ProgramRule| match &rule.access {
        Access::Nothing | Access::All => true,
        Access::Part(part) => (1..=PART).contains(&part.len()),
    };
    if services.iter().flat_map(|service| &service.rules).all(is_valid) { Ok(services) } else { Err(Error::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_data_is_read() {
        let service = Service {
            name: "disk".into(),
            program: "virtio-blk".into(),
            arguments: vec!["-v".into()],
            public: true,
            programs: vec!["disk".into()],
            mount: Some("/disk".into()),
            memory: Some(1 << 20),
            resources: vec![Resource::Ports { first: 0x3e8, last: 0x3ef }, Resource::Pin(5), Resource::Msi],
            uses: vec!["pci/1af4:1042".into()],
            rules: vec![
                ProgramRule { program: "sh".into(), access: Access::All },
                ProgramRule { program: "web".into(), access: Access::Part(vec![1, 2]) },
                ProgramRule { program: OTHERS.into(), access: Access::Nothing },
            ],
        };
        let bytes = encode(std::slice::from_ref(&service)).unwrap();
        assert_eq!(decode(&bytes), Ok(vec![service]));
        assert_eq!(decode(&[VERSION + 1]), Err(Error::Version));
        assert_eq!(decode(&[]), Err(Error::Malformed));
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn programs_get_what_their_rule_says() {
        let mut service = Service::default();
        assert_eq!((service.access(Some("web")), service.access(None)), (&Access::All, &Access::All));
        service.rules.push(ProgramRule { program: "web".into(), access: Access::Part(vec![1]) });
        assert_eq!(service.access(Some("web")), &Access::Part(vec![1]));
        assert_eq!((service.access(Some("other")), service.access(None)), (&Access::All, &Access::All));
        service.rules.push(ProgramRule { program: OTHERS.into(), access: Access::Nothing });
        assert_eq!(service.access(Some("web")), &Access::Part(vec![1]));
        assert_eq!((service.access(Some("other")), service.access(None)), (&Access::Nothing, &Access::Nothing));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }
}
