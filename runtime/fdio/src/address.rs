//! Addresses as C has them: `sockaddr_in`, `sockaddr_in6`.

use core::ffi::{c_int, c_void};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::c::{EAFNOSUPPORT, EFAULT, EINVAL, Result};

pub const AF_UNSPEC: c_int = 0;
pub const AF_UNIX: c_int = 1;
pub const AF_INET: c_int = 2;
pub const AF_INET6: c_int = 10;

/// Bytes of `sockaddr_in`.
pub const V4_SIZE: usize = 16;
/// Bytes of `sockaddr_in6`.
pub const V6_SIZE: usize = 28;

/// An address as C has it: its bytes, and how many they are.
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

/// An address from C's bytes.
///
/// # Errors
/// `EINVAL` for too few bytes, `EAFNOSUPPORT` for another family.
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

/// Reads a caller's address.
///
/// # Safety
/// `address` is null or has `len` bytes.
pub unsafe fn read(address: *const c_void, len: u32) -> Result<SocketAddr> {
    if address.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: as the caller says; no address is longer.
    from_c(unsafe { core::slice::from_raw_parts(address.cast(), (len as usize).min(V6_SIZE)) })
}

/// Writes an address, cut to the caller's room, and how long it is.
///
/// # Safety
/// `len` is null, or says how much room `address` has, which may be null.
pub unsafe fn write(bytes: &[u8], address: *mut c_void, len: *mut u32) {
    if len.is_null() {
        return;
    }
    // SAFETY: as the caller says.
    unsafe {
        if !address.is_null() {
            let room = bytes.len().min(*len as usize);
            address.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), room);
        }
        *len = bytes.len() as u32;
    }
}
