//! C's socket addresses: `sockaddr_in`, `sockaddr_in6`, `sockaddr_un`.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use file_protocol::SOCKET_NAME_MAX;

use crate::c::{EAFNOSUPPORT, EFAULT, EINVAL, EOPNOTSUPP, Result};

pub const AF_UNSPEC: c_int = 0;
pub const AF_UNIX: c_int = 1;
pub const AF_INET: c_int = 2;
pub const AF_INET6: c_int = 10;

/// Size of `sockaddr_in` in bytes.
pub const V4_SIZE: usize = 16;
/// Size of `sockaddr_in6` in bytes.
pub const V6_SIZE: usize = 28;

/// Size of the address family field in bytes.
const FAMILY: usize = 2;
/// Size of the longest address in bytes: the family, and the longest name with its NUL.
const LONGEST: usize = FAMILY + SOCKET_NAME_MAX + 1;

/// Name of a UNIX socket: a path; empty for a socket without a name.
pub type Name = Vec<u8>;

/// An address of any family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address on the network.
    Network(SocketAddr),
    /// A UNIX socket's name in a file system.
    Unix(Name),
}

impl Address {
    /// The C representation: the bytes, and their number.
    fn to_c(&self) -> ([u8; LONGEST], usize) {
        let mut bytes = [0; LONGEST];
        let len = match self {
            Address::Network(address) => {
                let (address, len) = to_c(*address);
                bytes[..V6_SIZE].copy_from_slice(&address);
                len
            }
            Address::Unix(name) => {
                let name = &name[..name.len().min(SOCKET_NAME_MAX)];
                bytes[..FAMILY].copy_from_slice(&(AF_UNIX as u16).to_ne_bytes());
                bytes[FAMILY..][..name.len()].copy_from_slice(name);
                // Only a non-empty name is followed by a NUL.
                if name.is_empty() { FAMILY } else { FAMILY + name.len() + 1 }
            }
        };
        (bytes, len)
    }
}

/// The C representation of a network address: the bytes, and their number.
pub fn to_c(address: SocketAddr) -> ([u8; V6_SIZE], usize) {
    let mut bytes = [0; V6_SIZE];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    let (family, size) = match address {
        SocketAddr::V4(address) => {
            bytes[4..8].copy_from_slice(&address.ip().octets());
            (AF_INET, V4_SIZE)
        }
        SocketAddr::V6(address) => {
            bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&address.ip().octets());
            bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
            (AF_INET6, V6_SIZE)
        }
    };
    bytes[0..2].copy_from_slice(&(family as u16).to_ne_bytes());
    (bytes, size)
}

/// Parses a network address from its C representation.
///
/// # Errors
/// `EINVAL`: too few bytes. `EAFNOSUPPORT`: another address family.
pub fn from_c(bytes: &[u8]) -> Result<SocketAddr> {
    let family = bytes.first_chunk::<2>().map(|family| u16::from_ne_bytes(*family)).ok_or(EINVAL)?;
    match c_int::from(family) {
        AF_INET => {
            let bytes = bytes.first_chunk::<V4_SIZE>().ok_or(EINVAL)?;
            let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
            Ok(SocketAddrV4::new(ip, u16::from_be_bytes([bytes[2], bytes[3]])).into())
        }
        AF_INET6 => {
            let bytes = bytes.first_chunk::<V6_SIZE>().ok_or(EINVAL)?;
            let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let mut ip = [0; 16];
            ip.copy_from_slice(&bytes[8..24]);
            let port = u16::from_be_bytes([bytes[2], bytes[3]]);
            Ok(SocketAddrV6::new(Ipv6Addr::from(ip), port, word(4), word(24)).into())
        }
        _ => Err(EAFNOSUPPORT),
    }
}

/// The path in the C representation of a UNIX socket's address.
///
/// # Errors
/// `EINVAL`: the path is empty or too long. `EAFNOSUPPORT`: another address family. `EOPNOTSUPP`: the name is not a
/// path.
fn path_of(bytes: &[u8]) -> Result<Name> {
    let (family, path) = bytes.split_first_chunk::<FAMILY>().ok_or(EINVAL)?;
    match c_int::from(u16::from_ne_bytes(*family)) {
        AF_UNIX if path.is_empty() || path.len() > SOCKET_NAME_MAX => Err(EINVAL),
        // A leading NUL marks an abstract name, which is specific to Linux.
        AF_UNIX if path[0] == 0 => Err(EOPNOTSUPP),
        AF_UNIX => Ok(path.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()),
        _ => Err(EAFNOSUPPORT),
    }
}

/// Reads a UNIX socket's address from the caller's memory; `None` for the family `AF_UNSPEC`.
///
/// # Safety
/// `address` is null or has `len` bytes.
pub unsafe fn read_path(address: *const c_void, len: u32) -> Result<Option<Name>> {
    if address.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: as the caller says; `path_of` rejects a name that is longer.
    let bytes = unsafe { core::slice::from_raw_parts(address.cast(), (len as usize).min(LONGEST)) };
    let family = bytes.first_chunk::<FAMILY>().map(|family| u16::from_ne_bytes(*family));
    if family.map(c_int::from) == Some(AF_UNSPEC) { Ok(None) } else { path_of(bytes).map(Some) }
}

/// Reads a network address from the caller's memory.
///
/// # Safety
/// `address` is null or has `len` bytes.
pub unsafe fn read(address: *const c_void, len: u32) -> Result<SocketAddr> {
    if address.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: as the caller says; no address is longer than `V6_SIZE`.
    from_c(unsafe { core::slice::from_raw_parts(address.cast(), (len as usize).min(V6_SIZE)) })
}

/// Writes an address to the caller's memory, cut to the size of its buffer, and writes the address's full length.
///
/// # Safety
/// `len` is null or holds the size of the buffer at `address`; `address` may be null.
pub unsafe fn write(told: &Address, address: *mut c_void, len: *mut u32) {
    if len.is_null() {
        return;
    }
    let (bytes, size) = told.to_c();
    let bytes = &bytes[..size];
    // SAFETY: as the caller says.
    unsafe {
        if !address.is_null() {
            let room = bytes.len().min(*len as usize);
            address.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), room);
        }
        *len = bytes.len() as u32;
    }
}
