//! `getifaddrs`, `if_nameindex` and their kin: the network service tells the state of the card.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::net::{IpAddr, SocketAddr, SocketAddrV6};
use core::ptr::null_mut;

use crate::address::{self, V6_SIZE};
use crate::c::{self, EFAULT, ENODEV, ENXIO, Result};
use crate::interfaces::{self, Interface, InterfaceAddress, NAME_SIZE};
use crate::network;

/// An address as in a `sockaddr_in6`, or the shorter `sockaddr_in`.
#[repr(C, align(8))]
struct Place([u8; V6_SIZE]);

/// `struct ifaddrs`.
#[repr(C)]
pub struct InterfaceEntry {
    next: *mut InterfaceEntry,
    name: *mut c_char,
    flags: c_uint,
    address: *mut Place,
    mask: *mut Place,
    broadcast: *mut Place,
    data: *mut c_void,
}

/// The allocation that is freed as a unit: a list element, and what it points to. The element comes first, because C
/// has its address.
#[repr(C)]
struct Element {
    entry: InterfaceEntry,
    name: [c_char; NAME_SIZE],
    address: Place,
    mask: Place,
    broadcast: Place,
}

/// `struct if_nameindex`.
#[repr(C)]
pub struct NameIndex {
    index: c_uint,
    name: *mut c_char,
}

/// The list of `if_nameindex` with the names that it points to. The list comes first, because C has its address. Its
/// last element is zero.
#[repr(C)]
struct Names {
    list: [NameIndex; INTERFACES + 1],
    names: [[c_char; NAME_SIZE]; INTERFACES],
}

/// Limit on the interfaces: the loopback and one card.
const INTERFACES: usize = 2;

fn all() -> Result<Vec<Interface>> {
    let card = network::card()?;
    Ok(interfaces::all(card.as_ref()))
}

fn name_of(interface: &Interface) -> [c_char; NAME_SIZE] {
    let mut name = [0; NAME_SIZE];
    for (place, byte) in name.iter_mut().zip(interface.name.bytes().take(NAME_SIZE - 1)) {
        *place = byte as c_char;
    }
    name
}

fn place(ip: Option<IpAddr>) -> Place {
    Place(ip.map_or([0; V6_SIZE], |ip| address::to_c(SocketAddr::new(ip, 0)).0))
}

/// An address of an interface. A link-local one has the interface's number as its scope.
fn place_of(ip: Option<IpAddr>, index: u32) -> Place {
    match ip {
        Some(IpAddr::V6(ip)) if network_protocol::is_link_local(ip) => {
            Place(address::to_c(SocketAddrV6::new(ip, 0, 0, index).into()).0)
        }
        other => place(other),
    }
}

/// An element in front of `next`. An interface without an address has one element, whose address is null.
fn element(interface: &Interface, its: Option<&InterfaceAddress>, next: *mut InterfaceEntry) -> *mut InterfaceEntry {
    let broadcast = its.and_then(|its| its.broadcast);
    let entry = InterfaceEntry {
        next,
        name: null_mut(),
        flags: interface.flags,
        address: null_mut(),
        mask: null_mut(),
        broadcast: null_mut(),
        data: null_mut(),
    };
    let element = Box::into_raw(Box::new(Element {
        entry,
        name: name_of(interface),
        address: place_of(its.map(|its| its.ip), interface.index),
        mask: place(its.map(|its| its.mask)),
        broadcast: place(broadcast),
    }));
    // SAFETY: the element was just made; its address does not change until the list is freed.
    unsafe {
        (*element).entry.name = (&raw mut (*element).name).cast();
        if its.is_some() {
            (*element).entry.address = &raw mut (*element).address;
            (*element).entry.mask = &raw mut (*element).mask;
        }
        if broadcast.is_some() {
            (*element).entry.broadcast = &raw mut (*element).broadcast;
        }
    }
    element.cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getifaddrs(out: *mut *mut InterfaceEntry) -> c_int {
    c::done((|| {
        if out.is_null() {
            return Err(EFAULT);
        }
        let mut next = null_mut();
        for interface in all()?.iter().rev() {
            match interface.addresses.as_slice() {
                [] => next = element(interface, None, next),
                addresses => {
                    next = addresses.iter().rev().fold(next, |next, its| element(interface, Some(its), next));
                }
            }
        }
        // SAFETY: the caller's memory for a list.
        unsafe { out.write(next) };
        Ok(())
    })())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn freeifaddrs(mut list: *mut InterfaceEntry) {
    while !list.is_null() {
        // SAFETY: `getifaddrs` made the element, and it is freed only once.
        let element = unsafe { Box::from_raw(list.cast::<Element>()) };
        list = element.entry.next;
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_nametoindex(name: *const c_char) -> c_uint {
    let found = (|| {
        if name.is_null() {
            return Err(EFAULT);
        }
        // SAFETY: a C string, as the caller says.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        all()?.iter().find(|one| one.name.as_bytes() == name).map(|one| one.index).ok_or(ENODEV)
    })();
    found.unwrap_or_else(|error| {
        c::set_errno(error);
        0
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_indextoname(index: c_uint, name: *mut c_char) -> *mut c_char {
    let found = all().and_then(|all| all.iter().find(|one| one.index == index).map(name_of).ok_or(ENXIO));
    match found {
        Ok(found) => {
            // SAFETY: the caller's buffer has `IF_NAMESIZE` bytes.
            unsafe { name.cast::<[c_char; NAME_SIZE]>().write(found) };
            name
        }
        Err(error) => {
            c::set_errno(error);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn if_nameindex() -> *mut NameIndex {
    let all = match all() {
        Ok(all) => all,
        Err(error) => {
            c::set_errno(error);
            return null_mut();
        }
    };
    let list = [const { NameIndex { index: 0, name: null_mut() } }; INTERFACES + 1];
    let names = Box::into_raw(Box::new(Names { list, names: [[0; NAME_SIZE]; INTERFACES] }));
    for (at, interface) in all.iter().enumerate().take(INTERFACES) {
        // SAFETY: the list was just made, and `at` is below the length of both arrays.
        unsafe {
            (*names).names[at] = name_of(interface);
            (*names).list[at] = NameIndex { index: interface.index, name: (&raw mut (*names).names[at]).cast() };
        }
    }
    names.cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_freenameindex(list: *mut NameIndex) {
    if !list.is_null() {
        // SAFETY: `if_nameindex` made the list, and it is freed only once.
        drop(unsafe { Box::from_raw(list.cast::<Names>()) });
    }
}
