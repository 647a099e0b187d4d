//! `getaddrinfo` and `getnameinfo`: numeric addresses and ports, and `localhost`. The network service looks up any other
//! name.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::ptr::null_mut;

use network_protocol::{Error, Name};

use crate::address::{self, AF_INET, AF_INET6, AF_UNSPEC, V6_SIZE};
use crate::c::{EACCES, set_errno};
use crate::net::{IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM};
use crate::{interfaces, network};

const AI_PASSIVE: c_int = 0x1;
const AI_CANONNAME: c_int = 0x2;
const AI_NUMERICHOST: c_int = 0x4;
const AI_V4MAPPED: c_int = 0x8;
const AI_ALL: c_int = 0x10;
/// All known flags.
const AI_KNOWN: c_int = 0x43f;

const EAI_BADFLAGS: c_int = -1;
const EAI_NONAME: c_int = -2;
const EAI_AGAIN: c_int = -3;
const EAI_FAMILY: c_int = -6;
const EAI_SOCKTYPE: c_int = -7;
const EAI_SERVICE: c_int = -8;
/// `errno` says more.
const EAI_SYSTEM: c_int = -11;
const EAI_OVERFLOW: c_int = -12;

const NI_NAMEREQD: c_int = 8;
const NI_NUMERICSCOPE: c_int = 0x100;
/// All known flags. Names of services and hosts are never looked up, so most change nothing.
const NI_KNOWN: c_int = 0x11f;

/// `struct addrinfo`.
#[repr(C)]
pub struct AddressInfo {
    flags: c_int,
    family: c_int,
    kind: c_int,
    protocol: c_int,
    address_len: u32,
    address: *mut [u8; V6_SIZE],
    name: *mut c_char,
    next: *mut AddressInfo,
}

/// The allocation that is freed as a unit: a list element, and what it points to. The element comes first, because C
/// has its address.
#[repr(C)]
struct Element {
    info: AddressInfo,
    address: [u8; V6_SIZE],
    name: [c_char; NAME_MAX],
}

/// Limit on the names in answers, in bytes.
const NAME_MAX: usize = 256;

/// An address without its scope, and the scope's text.
fn split_scope(host: &str) -> (&str, Option<&str>) {
    host.split_once('%').map_or((host, None), |(number, scope)| (number, Some(scope)))
}

/// The scope in a numeric address: an interface's name or number. Only a link-local address has one.
fn scope(host: Option<&str>) -> Result<u32, c_int> {
    let (number, text) = split_scope(host.unwrap_or_default());
    let Some(text) = text else { return Ok(0) };
    let is_local = number.parse().is_ok_and(network_protocol::is_link_local);
    interfaces::scope(text).filter(|_| is_local).ok_or(EAI_NONAME)
}

/// The addresses of a host name.
fn hosts(host: Option<&str>, flags: c_int) -> Result<Vec<IpAddr>, c_int> {
    let Some(host) = host else {
        return Ok(if flags & AI_PASSIVE != 0 {
            alloc::vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
        } else {
            alloc::vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]
        });
    };
    if let Ok(ip) = split_scope(host).0.parse::<IpAddr>() {
        return Ok(alloc::vec![ip]);
    }
    match host.trim_end_matches('.') {
        _ if flags & AI_NUMERICHOST != 0 => Err(EAI_NONAME),
        "" => Err(EAI_NONAME),
        name if name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost") => {
            Ok(alloc::vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()])
        }
        name => {
            let name = Name::new(name).ok_or(EAI_NONAME)?;
            match network::look_up(name) {
                Ok(found) => Ok(found.as_slice().to_vec()),
                Err(Error::NoName) => Err(EAI_NONAME),
                Err(Error::Denied) => {
                    set_errno(EACCES);
                    Err(EAI_SYSTEM)
                }
                Err(_) => Err(EAI_AGAIN),
            }
        }
    }
}

/// The port of a service name, which must be a number.
fn port(service: Option<&str>) -> Result<u16, c_int> {
    service.map_or(Ok(0), |service| service.parse().map_err(|_| EAI_SERVICE))
}

fn list(
    host: Option<&str>,
    service: Option<&str>,
    flags: c_int,
    family: c_int,
    kind: c_int,
    protocol: c_int,
) -> Result<*mut AddressInfo, c_int> {
    if host.is_none() && service.is_none() {
        return Err(EAI_NONAME);
    }
    if flags & !AI_KNOWN != 0 || flags & AI_CANONNAME != 0 && host.is_none() {
        return Err(EAI_BADFLAGS);
    }
    if !matches!(family, AF_UNSPEC | AF_INET | AF_INET6) {
        return Err(EAI_FAMILY);
    }
    let kinds: &[(c_int, c_int)] = match (kind, protocol) {
        (0, 0) => &[(SOCK_STREAM, IPPROTO_TCP), (SOCK_DGRAM, IPPROTO_UDP)],
        (0 | SOCK_STREAM, 0 | IPPROTO_TCP) => &[(SOCK_STREAM, IPPROTO_TCP)],
        (0 | SOCK_DGRAM, 0 | IPPROTO_UDP) => &[(SOCK_DGRAM, IPPROTO_UDP)],
        _ => return Err(EAI_SOCKTYPE),
    };
    let port = port(service)?;
    let name = host.filter(|_| flags & AI_CANONNAME != 0).unwrap_or_default();
    if name.len() >= NAME_MAX {
        return Err(EAI_OVERFLOW);
    }
    let mut found = hosts(host, flags)?;
    let scope = scope(host)?;
    if family == AF_INET6 && flags & AI_V4MAPPED != 0 && (flags & AI_ALL != 0 || !found.iter().any(|ip| ip.is_ipv6())) {
        for ip in &mut found {
            if let IpAddr::V4(v4) = ip {
                *ip = v4.to_ipv6_mapped().into();
            }
        }
    }
    found.retain(|ip| family == AF_UNSPEC || ip.is_ipv4() == (family == AF_INET));
    if found.is_empty() {
        return Err(EAI_NONAME);
    }
    let mut next = null_mut();
    for ip in found.into_iter().rev() {
        for (kind, protocol) in kinds.iter().rev() {
            let to = match ip {
                IpAddr::V4(_) => SocketAddr::new(ip, port),
                IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
            };
            let (address, len) = address::to_c(to);
            let family = if ip.is_ipv4() { AF_INET } else { AF_INET6 };
            let info = AddressInfo {
                flags,
                family,
                kind: *kind,
                protocol: *protocol,
                address_len: len as u32,
                address: null_mut(),
                name: null_mut(),
                next,
            };
            let mut element = Box::new(Element { info, address, name: [0; NAME_MAX] });
            for (place, byte) in element.name.iter_mut().zip(name.bytes()) {
                *place = byte as c_char;
            }
            let element = Box::into_raw(element);
            // SAFETY: the element was just made; its address does not change until the list is freed.
            unsafe {
                (*element).info.address = &raw mut (*element).address;
                if !name.is_empty() {
                    (*element).info.name = (&raw mut (*element).name).cast();
                }
            }
            next = element.cast();
        }
    }
    Ok(next)
}

/// A C string, or `None` for null.
///
/// # Safety
/// `string` is null or a C string.
unsafe fn optional<'a>(string: *const c_char) -> Result<Option<&'a str>, c_int> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(string) }.to_str().map(Some).map_err(|_| EAI_NONAME)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    host: *const c_char,
    service: *const c_char,
    hints: *const AddressInfo,
    out: *mut *mut AddressInfo,
) -> c_int {
    // SAFETY: the caller's strings, and structure or null.
    let made = unsafe {
        (|| {
            let (host, service) = (optional(host)?, optional(service)?);
            match hints.as_ref() {
                Some(hints) => list(host, service, hints.flags, hints.family, hints.kind, hints.protocol),
                None => list(host, service, 0, AF_UNSPEC, 0, 0),
            }
        })()
    };
    match made {
        Ok(list) => {
            // SAFETY: the caller's memory for a list.
            unsafe { out.write(list) };
            0
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn freeaddrinfo(mut list: *mut AddressInfo) {
    while !list.is_null() {
        // SAFETY: `getaddrinfo` made the element, and it is freed only once.
        let element = unsafe { Box::from_raw(list.cast::<Element>()) };
        list = element.info.next;
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getnameinfo(
    address: *const c_void,
    len: u32,
    host: *mut c_char,
    host_len: u32,
    service: *mut c_char,
    service_len: u32,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's address.
    let Ok(address) = (unsafe { address::read(address, len) }) else { return EAI_FAMILY };
    if flags & !NI_KNOWN != 0 {
        return EAI_BADFLAGS;
    }
    if host.is_null() && service.is_null() || flags & NI_NAMEREQD != 0 {
        return EAI_NONAME;
    }
    let name = match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => match interfaces::name_of_scope(v6.scope_id()) {
            Some(name) if flags & NI_NUMERICSCOPE == 0 => format!("{}%{name}", v6.ip()),
            _ => format!("{}%{}", v6.ip(), v6.scope_id()),
        },
        address => format!("{}", address.ip()),
    };
    let port = format!("{}", address.port());
    for (text, place, room) in [(name, host, host_len), (port, service, service_len)] {
        if place.is_null() || room == 0 {
            continue;
        }
        // SAFETY: the caller's buffers.
        if unsafe { crate::c::give_text(text.as_bytes(), place, room as usize) }.is_err() {
            return EAI_OVERFLOW;
        }
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn gai_strerror(error: c_int) -> *const c_char {
    let text = match error {
        EAI_BADFLAGS => c"Invalid flags",
        EAI_NONAME => c"Name does not resolve",
        EAI_AGAIN => c"Try again: there is no name server, or none answers",
        -4 => c"Non-recoverable error",
        EAI_FAMILY => c"Unrecognized address family or invalid length",
        EAI_SOCKTYPE => c"Unrecognized socket type",
        EAI_SERVICE => c"Unrecognized service",
        -10 => c"Out of memory",
        EAI_SYSTEM => c"System error",
        EAI_OVERFLOW => c"Overflow",
        _ => c"Unknown error",
    };
    text.as_ptr()
}
