//! Names of hosts, and their addresses.

use core::net::{IpAddr, Ipv4Addr};

/// Limit on a name in bytes.
pub const NAME_MAX: usize = 253;
/// Limit on a part of a name in bytes.
const LABEL_MAX: usize = 63;
/// Limit on the addresses of an answer.
pub const ADDRESSES: usize = 8;

/// The name of a host: parts of letters, digits, `-` and `_`, with dots between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a>(&'a str);

impl<'a> Name<'a> {
    /// Checks a name. A dot at the end is left out.
    pub fn new(text: &'a str) -> Option<Name<'a>> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| (1..=LABEL_MAX).contains(&label.len()) && label.bytes().all(fits);
        (text.len() <= NAME_MAX && text.split('.').all(is_label)).then_some(Name(text))
    }

    /// Decodes a name, which has no dot at the end.
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Option<Name<'a>> {
        let text = core::str::from_utf8(bytes).ok()?;
        Name::new(text).filter(|name| name.0.len() == text.len())
    }

    /// The name.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

/// The addresses of a host: one at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    all: [IpAddr; ADDRESSES],
    len: usize,
}

impl Addresses {
    /// The first addresses of these. `None`: there is none.
    pub fn new(from: impl IntoIterator<Item = IpAddr>) -> Option<Addresses> {
        let mut addresses = Addresses { all: [IpAddr::V4(Ipv4Addr::UNSPECIFIED); ADDRESSES], len: 0 };
        for (place, address) in addresses.all.iter_mut().zip(from) {
            *place = address;
            addresses.len += 1;
        }
        (addresses.len > 0).then_some(addresses)
    }

    /// The addresses.
    pub fn as_slice(&self) -> &[IpAddr] {
        &self.all[..self.len]
    }
}
