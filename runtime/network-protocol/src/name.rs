//! Names of hosts, and their addresses.

use core::fmt;
use core::net::Ipv4Addr;

/// Limit on a name in bytes.
pub const NAME_MAX: usize = 253;
/// Limit on a part of a name in bytes.
const LABEL_MAX: usize = 63;
/// Limit on the addresses of an answer.
const ADDRESSES: usize = 8;

/// The name of a host: parts of letters, digits, `-` and `_`, with dots between them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
}

impl Name {
    /// Checks a name. A dot at the end is left out.
    pub fn new(text: &str) -> Option<Name> {
        Name::from_bytes(text.strip_suffix('.').unwrap_or(text).as_bytes())
    }

    pub(crate) fn from_bytes(text: &[u8]) -> Option<Name> {
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &[u8]| (1..=LABEL_MAX).contains(&label.len()) && label.iter().all(fits);
        if text.len() > NAME_MAX || !text.split(|byte| *byte == b'.').all(is_label) {
            return None;
        }
        let mut name = Name { bytes: [0; NAME_MAX], len: text.len() };
        name.bytes[..text.len()].copy_from_slice(text);
        Some(name)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        // It is ASCII, as `from_bytes` has checked.
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// The addresses of a host: one at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    all: [Ipv4Addr; ADDRESSES],
    len: usize,
}

impl Addresses {
    /// The first addresses of these. `None`: there is none.
    pub fn new(from: impl IntoIterator<Item = Ipv4Addr>) -> Option<Addresses> {
        let mut addresses = Addresses { all: [Ipv4Addr::UNSPECIFIED; ADDRESSES], len: 0 };
        for (place, address) in addresses.all.iter_mut().zip(from) {
            *place = address;
            addresses.len += 1;
        }
        (addresses.len > 0).then_some(addresses)
    }

    /// The addresses.
    pub fn as_slice(&self) -> &[Ipv4Addr] {
        &self.all[..self.len]
    }
}
