//! Sockets as far as there are any: connected pairs. There is no network, and no names to bind to.

use alloc::sync::Arc;
use core::ffi::{c_int, c_void};

use abi::{ZX_SOCKET_DATAGRAM, ZX_SOCKET_DISPOSITION_WRITE_DISABLED, ZX_SOCKET_PEEK, ZX_SOCKET_STREAM};
use zx::Socket;

use crate::c::{
    self, EAFNOSUPPORT, EINVAL, EISCONN, ENOPROTOOPT, ENOTSOCK, EOPNOTSUPP, EPROTOTYPE, IoVec, O_NONBLOCK, O_RDWR,
    Result,
};
use crate::description::Description;
use crate::io::{add_two, to_fill, to_take};
use crate::object::Object;
use crate::table;

const AF_UNIX: c_int = 1;
const SOCK_STREAM: c_int = 1;
const SOCK_DGRAM: c_int = 2;
const SOCK_NONBLOCK: c_int = 0o4000;
const SOCK_CLOEXEC: c_int = 0o2_000_000;
const SOL_SOCKET: c_int = 1;
const SO_TYPE: c_int = 3;
const SO_ERROR: c_int = 4;
const MSG_PEEK: c_int = 2;
const MSG_DONTWAIT: c_int = 0x40;
const MSG_NOSIGNAL: c_int = 0x4000;
const SHUT_RD: c_int = 0;
const SHUT_WR: c_int = 1;
const SHUT_RDWR: c_int = 2;

#[unsafe(no_mangle)]
pub extern "C" fn socket(_domain: c_int, _kind: c_int, _protocol: c_int) -> c_int {
    c::done(Err(EAFNOSUPPORT))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int {
    let made = (|| {
        if domain != AF_UNIX || protocol != 0 {
            return Err(EAFNOSUPPORT);
        }
        let options = match kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC) {
            SOCK_STREAM => ZX_SOCKET_STREAM,
            SOCK_DGRAM => ZX_SOCKET_DATAGRAM,
            _ => return Err(EPROTOTYPE),
        };
        let flags = if kind & SOCK_NONBLOCK != 0 { O_NONBLOCK } else { 0 };
        let (a, b) = Socket::create(options)?;
        let open = |socket| Arc::new(Description::new(Object::Socket { socket, is_socket: true }, O_RDWR | flags));
        add_two(open(a), open(b), kind & SOCK_CLOEXEC != 0)
    })();
    // SAFETY: the caller's array of two.
    c::done(made.map(|pair| unsafe { fds.cast::<[c_int; 2]>().write(pair) }))
}

/// Does something with a descriptor that is a socket.
fn with_socket<T>(fd: c_int, act: impl FnOnce(&Description, &Socket) -> Result<T>) -> Result<T> {
    let description = table::get(fd)?;
    match &description.object {
        Object::Socket { socket, is_socket: true } => act(&description, socket),
        _ => Err(ENOTSOCK),
    }
}

fn receive(fd: c_int, bytes: &mut [u8], flags: c_int) -> Result<usize> {
    with_socket(fd, |description, _| {
        if flags & !(MSG_PEEK | MSG_DONTWAIT | MSG_NOSIGNAL) != 0 {
            return Err(EOPNOTSUPP);
        }
        let options = if flags & MSG_PEEK != 0 { ZX_SOCKET_PEEK } else { 0 };
        description.object.read(bytes, options, description.waits() && flags & MSG_DONTWAIT == 0)
    })
}

fn send_bytes(fd: c_int, bytes: &[u8], flags: c_int) -> Result<usize> {
    with_socket(fd, |description, _| {
        if flags & !(MSG_DONTWAIT | MSG_NOSIGNAL) != 0 {
            return Err(EOPNOTSUPP);
        }
        description.object.write(bytes, description.waits() && flags & MSG_DONTWAIT == 0)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: the caller's buffer.
    c::number(receive(fd, unsafe { to_fill(buffer, len) }, flags))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: usize,
    flags: c_int,
    address: *mut c_void,
    address_len: *mut u32,
) -> isize {
    // SAFETY: the caller's buffer, and place for an address or null.
    c::number(receive(fd, unsafe { to_fill(buffer, len) }, flags).inspect(|_| {
        // SAFETY: as above. A peer has no name.
        let _ = unsafe { give_no_name(address, address_len) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, buffer: *const c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: the caller's buffer.
    c::number(send_bytes(fd, unsafe { to_take(buffer, len) }, flags))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    len: usize,
    flags: c_int,
    address: *const c_void,
    _address_len: u32,
) -> isize {
    if !address.is_null() {
        return c::number(with_socket(fd, |_, _| Err(EISCONN)));
    }
    // SAFETY: the caller's buffer.
    c::number(send_bytes(fd, unsafe { to_take(buffer, len) }, flags))
}

/// The part of `struct msghdr` that is used.
#[repr(C)]
pub struct Message {
    name: *mut c_void,
    name_len: u32,
    vectors: *mut IoVec,
    count: c_int,
    pad: c_int,
    control: *mut c_void,
    control_len: u32,
    pad2: u32,
    flags: c_int,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const Message, _flags: c_int) -> isize {
    // SAFETY: the caller's structure.
    let message = unsafe { &*message };
    if message.control_len != 0 || !message.name.is_null() {
        return c::number(with_socket(fd, |_, _| Err(EOPNOTSUPP)));
    }
    if let Err(error) = with_socket(fd, |_, _| Ok(())) {
        return c::number(Err(error));
    }
    // SAFETY: the caller's buffers.
    unsafe { crate::io::writev(fd, message.vectors, message.count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut Message, _flags: c_int) -> isize {
    if let Err(error) = with_socket(fd, |_, _| Ok(())) {
        return c::number(Err(error));
    }
    // SAFETY: the caller's structure.
    let message = unsafe { &mut *message };
    (message.control_len, message.name_len, message.flags) = (0, 0, 0);
    // SAFETY: the caller's buffers.
    unsafe { crate::io::readv(fd, message.vectors, message.count) }
}

#[unsafe(no_mangle)]
pub extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    const STOP: u32 = ZX_SOCKET_DISPOSITION_WRITE_DISABLED;
    c::done(with_socket(fd, |_, socket| {
        let (own, peer) = match how {
            SHUT_RD => (0, STOP),
            SHUT_WR => (STOP, 0),
            SHUT_RDWR => (STOP, STOP),
            _ => return Err(EINVAL),
        };
        Ok(socket.set_disposition(own, peer)?)
    }))
}

/// Writes the address of a socket without a name.
///
/// # Safety
/// Both are null, or `address_len` says how much room `address` has.
unsafe fn give_no_name(address: *mut c_void, address_len: *mut u32) -> Result<()> {
    if address_len.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller says.
    unsafe {
        if !address.is_null() && *address_len >= 2 {
            address.cast::<u16>().write_unaligned(AF_UNIX as u16);
        }
        *address_len = 2;
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, address: *mut c_void, address_len: *mut u32) -> c_int {
    // SAFETY: the caller's places.
    c::done(with_socket(fd, |_, _| unsafe { give_no_name(address, address_len) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, address: *mut c_void, address_len: *mut u32) -> c_int {
    // SAFETY: the caller's places.
    c::done(with_socket(fd, |_, _| unsafe { give_no_name(address, address_len) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_int, len: *mut u32) -> c_int {
    c::done(with_socket(fd, |_, socket| {
        let number = match (level, name) {
            // Errors are told by the call that meets them; none waits here.
            (SOL_SOCKET, SO_ERROR) => 0,
            (SOL_SOCKET, SO_TYPE) if socket.info()?.options & ZX_SOCKET_DATAGRAM != 0 => SOCK_DGRAM,
            (SOL_SOCKET, SO_TYPE) => SOCK_STREAM,
            _ => return Err(ENOPROTOOPT),
        };
        // SAFETY: the caller's places.
        unsafe {
            if (*len as usize) < size_of::<c_int>() {
                return Err(EINVAL);
            }
            *value = number;
            *len = size_of::<c_int>() as u32;
        }
        Ok(())
    }))
}

/// Functions that sockets of this kind do not have.
macro_rules! refused {
    ($($error:ident: fn $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(fd: c_int, $($arg: $ty),*) -> c_int {
            c::done(with_socket(fd, |_, _| Err($error)))
        }
    )*};
}

refused! {
    EINVAL: fn bind(_address: *const c_void, _len: u32);
    EINVAL: fn listen(_backlog: c_int);
    EINVAL: fn accept(_address: *mut c_void, _len: *mut u32);
    EINVAL: fn accept4(_address: *mut c_void, _len: *mut u32, _flags: c_int);
    EISCONN: fn connect(_address: *const c_void, _len: u32);
    ENOPROTOOPT: fn setsockopt(_level: c_int, _name: c_int, _value: *const c_void, _len: u32);
}
