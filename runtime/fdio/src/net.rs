//! The POSIX functions on sockets: on [`network`](crate::network) sockets, on [`unix`](crate::unix) sockets, and on
//! connected pairs, which are sockets of Zircon and have no names.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use abi::{ZX_SOCKET_DATAGRAM, ZX_SOCKET_DISPOSITION_WRITE_DISABLED, ZX_SOCKET_PEEK, ZX_SOCKET_STREAM};
use network_protocol::{Family, Kind, Request};
use zx::{MonotonicInstant, Socket};

use crate::address::{self, AF_INET, AF_INET6, AF_UNIX, Address, Name};
use crate::c::{
    self, EAFNOSUPPORT, EAGAIN, EINVAL, EISCONN, ENOTSOCK, EOPNOTSUPP, EPROTONOSUPPORT, ESOCKTNOSUPPORT, IoVec,
    O_NONBLOCK, O_RDWR, Result,
};
use crate::description::Description;
use crate::epoll;
use crate::io::{add_two, is_datagram, slice, to_fill, to_take};
use crate::network::Network;
use crate::object::Object;
use crate::table;
use crate::unix::UnixSocket;

pub const SOCK_STREAM: c_int = 1;
pub const SOCK_DGRAM: c_int = 2;
const SOCK_RAW: c_int = 3;
const SOCK_NONBLOCK: c_int = 0o4000;
const SOCK_CLOEXEC: c_int = 0o2_000_000;
const IPPROTO_ICMP: c_int = 1;
pub const IPPROTO_TCP: c_int = 6;
pub const IPPROTO_UDP: c_int = 17;
const IPPROTO_ICMPV6: c_int = 58;
const MSG_PEEK: c_int = 2;
const MSG_TRUNC: c_int = 0x20;
const MSG_DONTWAIT: c_int = 0x40;
const MSG_WAITALL: c_int = 0x100;
/// The peer's hardware address is right: a hint.
const MSG_CONFIRM: c_int = 0x800;
const MSG_NOSIGNAL: c_int = 0x4000;
/// More bytes will follow: a hint for a stream.
const MSG_MORE: c_int = 0x8000;
/// Descriptors that come with a message are closed in children; none come.
const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;
/// Limit on the bytes that one `recvmsg` with several buffers returns, if it does not wait for all of them.
const ROOM: usize = 1 << 20;
const SHUT_RD: c_int = 0;
const SHUT_WR: c_int = 1;
const SHUT_RDWR: c_int = 2;

#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    c::int((|| {
        let family = match domain {
            AF_INET => Family::V4,
            AF_INET6 => Family::V6,
            AF_UNIX => return unix_socket(kind, protocol),
            _ => return Err(EAFNOSUPPORT),
        };
        let carried = match (kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC), protocol) {
            (SOCK_STREAM, 0 | IPPROTO_TCP) => Kind::Stream,
            (SOCK_DGRAM, 0 | IPPROTO_UDP) => Kind::Datagram,
            (SOCK_DGRAM, IPPROTO_ICMP) if family == Family::V4 => Kind::Echo,
            (SOCK_DGRAM, IPPROTO_ICMPV6) if family == Family::V6 => Kind::Echo,
            (SOCK_STREAM | SOCK_DGRAM, _) => return Err(EPROTONOSUPPORT),
            (SOCK_RAW, _) => return Err(EOPNOTSUPP),
            _ => return Err(ESOCKTNOSUPPORT),
        };
        add(Object::Network(Network::open(family, carried)?), kind)
    })())
}

fn unix_socket(kind: c_int, protocol: c_int) -> Result<usize> {
    let datagrams = match (kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC), protocol) {
        (SOCK_STREAM, 0 | AF_UNIX) => false,
        (SOCK_DGRAM, 0 | AF_UNIX) => true,
        (SOCK_STREAM | SOCK_DGRAM, _) => return Err(EPROTONOSUPPORT),
        _ => return Err(ESOCKTNOSUPPORT),
    };
    add(Object::Unix(UnixSocket::new(datagrams)?), kind)
}

/// Adds a descriptor for a socket; `kind` holds flags.
fn add(socket: Object, kind: c_int) -> Result<usize> {
    let flags = if kind & SOCK_NONBLOCK != 0 { O_NONBLOCK } else { 0 };
    let open = Description::new(socket, O_RDWR | flags);
    table::add(Arc::new(open), 0, kind & SOCK_CLOEXEC != 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int {
    let made = (|| {
        if domain != AF_UNIX {
            return Err(if matches!(domain, AF_INET | AF_INET6) { EOPNOTSUPP } else { EAFNOSUPPORT });
        }
        if !matches!(protocol, 0 | AF_UNIX) {
            return Err(EPROTONOSUPPORT);
        }
        let options = match kind & !(SOCK_NONBLOCK | SOCK_CLOEXEC) {
            SOCK_STREAM => ZX_SOCKET_STREAM,
            SOCK_DGRAM => ZX_SOCKET_DATAGRAM,
            _ => return Err(ESOCKTNOSUPPORT),
        };
        let flags = if kind & SOCK_NONBLOCK != 0 { O_NONBLOCK } else { 0 };
        let (a, b) = Socket::create(options)?;
        let open = |socket| Arc::new(Description::new(Object::Socket { socket, is_socket: true }, O_RDWR | flags));
        add_two(open(a), open(b), kind & SOCK_CLOEXEC != 0)
    })();
    // SAFETY: the caller's array of two.
    c::done(made.map(|pair| unsafe { fds.cast::<[c_int; 2]>().write(pair) }))
}

/// A socket: of the network, a UNIX socket, or one of a connected pair.
pub enum AnySocket<'a> {
    Network(&'a Network),
    Unix(&'a UnixSocket),
    Pair(&'a Socket),
}

/// Calls `act` if the descriptor is a socket.
pub fn with_socket<T>(fd: c_int, act: impl FnOnce(&Description, AnySocket<'_>) -> Result<T>) -> Result<T> {
    let description = table::get(fd)?;
    match &description.object {
        Object::Network(network) => act(&description, AnySocket::Network(network)),
        Object::Unix(socket) => act(&description, AnySocket::Unix(socket)),
        Object::Socket { socket, is_socket: true } => act(&description, AnySocket::Pair(socket)),
        _ => Err(ENOTSOCK),
    }
}

fn until(flags: c_int, description: MonotonicInstant) -> MonotonicInstant {
    if flags & MSG_DONTWAIT != 0 { MonotonicInstant::ZERO } else { description }
}

fn receive(fd: c_int, bytes: &mut [u8], flags: c_int) -> Result<(usize, Option<Address>)> {
    with_socket(fd, |description, socket| {
        if flags & !(MSG_PEEK | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_WAITALL | MSG_CMSG_CLOEXEC) != 0 {
            return Err(EOPNOTSUPP);
        }
        let options = if flags & MSG_PEEK != 0 { ZX_SOCKET_PEEK } else { 0 };
        let until = until(flags, description.read_until());
        let once = |bytes: &mut [u8]| -> Result<(usize, Option<Address>)> {
            match &socket {
                AnySocket::Network(network) => {
                    let (len, from) = network.receive(bytes, options, until)?;
                    Ok((len, from.map(Address::Network)))
                }
                AnySocket::Unix(socket) => {
                    let (len, from) = socket.receive(bytes, options, until)?;
                    Ok((len, from.map(Address::Unix)))
                }
                AnySocket::Pair(_) => Ok((description.object.read(bytes, options, until)?, None)),
            }
        };
        let (mut done, from) = once(bytes)?;
        // `MSG_WAITALL` applies to streams only. The end of the stream, an error or a timeout ends the call early.
        while flags & MSG_WAITALL != 0 && options == 0 && from.is_none() && done > 0 && done < bytes.len() {
            match once(&mut bytes[done..]) {
                Ok((0, _)) | Err(_) => break,
                Ok((len, _)) => done += len,
            }
        }
        Ok((done, from))
    })
}

/// Sends to the caller's address, or to the connected peer if `to` is null.
///
/// # Safety
/// `to` is null or has `to_len` bytes.
unsafe fn send_bytes(fd: c_int, bytes: &[u8], to: *const c_void, to_len: u32, flags: c_int) -> Result<usize> {
    with_socket(fd, |description, socket| {
        // `MSG_MORE` joins datagrams of the network, which is no hint.
        let joins = matches!(&socket, AnySocket::Network(network) if network.is_datagram());
        let known = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CONFIRM | if joins { 0 } else { MSG_MORE };
        if flags & !known != 0 {
            return Err(EOPNOTSUPP);
        }
        let until = until(flags, description.write_until());
        match socket {
            AnySocket::Network(network) => {
                // SAFETY: as the caller says.
                let to = if to.is_null() { None } else { Some(unsafe { address::read(to, to_len) }?) };
                // A stream ignores the address: it is connected to its peer.
                network.send(bytes, to.filter(|_| network.is_datagram()), until)
            }
            AnySocket::Unix(socket) => {
                // SAFETY: as the caller says.
                let to = if to.is_null() { None } else { unsafe { address::read_path(to, to_len) }? };
                let sent = socket.send(bytes, to.as_deref(), until);
                if to.is_some() && sent == Err(EAGAIN) {
                    // No object of this socket says when that receiver has room.
                    epoll::changed(description);
                }
                sent
            }
            AnySocket::Pair(_) if !to.is_null() => Err(EISCONN),
            AnySocket::Pair(_) => description.object.write(bytes, until),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> isize {
    c::cancellation_point();
    // SAFETY: the caller's buffer.
    c::number(receive(fd, unsafe { to_fill(buffer, len) }, flags).map(|(len, _)| len))
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
    c::cancellation_point();
    // SAFETY: the caller's buffer, and memory for an address, or null.
    c::number(receive(fd, unsafe { to_fill(buffer, len) }, flags).map(|(len, from)| {
        // SAFETY: as above.
        unsafe { give_address(fd, from, address, address_len) };
        len
    }))
}

/// Writes the sender's address; for a connected stream, the peer's.
///
/// # Safety
/// `len` is null or holds the size of the buffer at `address`; `address` may be null.
unsafe fn give_address(fd: c_int, from: Option<Address>, address: *mut c_void, len: *mut u32) {
    if len.is_null() || address.is_null() {
        return;
    }
    let from = from.or_else(|| with_socket(fd, |_, socket| peer_address(&socket)).ok());
    // SAFETY: as the caller says.
    unsafe { address::write(&from.unwrap_or(Address::Unix(Name::new())), address, len) };
}

fn own_address(socket: &AnySocket<'_>) -> Result<Address> {
    match socket {
        AnySocket::Network(network) => network.address(Request::LocalAddress).map(Address::Network),
        AnySocket::Unix(socket) => Ok(Address::Unix(socket.own_name())),
        AnySocket::Pair(_) => Ok(Address::Unix(Name::new())),
    }
}

fn peer_address(socket: &AnySocket<'_>) -> Result<Address> {
    match socket {
        AnySocket::Network(network) => network.address(Request::PeerAddress).map(Address::Network),
        AnySocket::Unix(socket) => socket.peer_name().map(Address::Unix),
        AnySocket::Pair(_) => Ok(Address::Unix(Name::new())),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, buffer: *const c_void, len: usize, flags: c_int) -> isize {
    c::cancellation_point();
    // SAFETY: the caller's buffer.
    c::number(unsafe { send_bytes(fd, to_take(buffer, len), core::ptr::null(), 0, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    len: usize,
    flags: c_int,
    address: *const c_void,
    address_len: u32,
) -> isize {
    c::cancellation_point();
    // SAFETY: the caller's address and buffer.
    c::number(unsafe { send_bytes(fd, to_take(buffer, len), address, address_len, flags) })
}

/// The fields of `struct msghdr` that this library uses.
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

/// Concatenates several buffers, to send them as one datagram.
///
/// # Safety
/// The buffers are valid.
pub unsafe fn gather(vectors: &[IoVec]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(vectors.iter().map(|vector| vector.len).sum());
    for vector in vectors {
        // SAFETY: as the caller says.
        bytes.extend_from_slice(unsafe { to_take(vector.base, vector.len) });
    }
    bytes
}

/// Distributes bytes over several buffers.
///
/// # Safety
/// The buffers are valid.
pub unsafe fn scatter(mut bytes: &[u8], vectors: &[IoVec]) {
    for vector in vectors {
        // SAFETY: as the caller says.
        let place = unsafe { to_fill(vector.base, vector.len.min(bytes.len())) };
        let (part, rest) = bytes.split_at(place.len());
        place.copy_from_slice(part);
        bytes = rest;
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const Message, flags: c_int) -> isize {
    c::cancellation_point();
    // SAFETY: the caller's structure, buffers and address.
    c::number(unsafe {
        (|| {
            let message = &*message;
            // File descriptors cannot be sent with a message (`SCM_RIGHTS`).
            if message.control_len != 0 {
                return with_socket(fd, |_, _| Err(EOPNOTSUPP));
            }
            let (to, to_len) = (message.name, message.name_len);
            match slice(message.vectors, message.count)? {
                [vector] => send_bytes(fd, to_take(vector.base, vector.len), to, to_len, flags),
                vectors => send_bytes(fd, &gather(vectors), to, to_len, flags),
            }
        })()
    })
}

/// Fills the buffers one after the other from a stream, until one stays short. An error after the first bytes ends the
/// call early, as with one buffer.
///
/// # Safety
/// The buffers are valid.
unsafe fn receive_all(fd: c_int, vectors: &[IoVec], flags: c_int) -> Result<(usize, Option<Address>)> {
    let mut done = 0;
    for vector in vectors.iter().filter(|vector| vector.len > 0) {
        // SAFETY: as the caller says.
        match receive(fd, unsafe { to_fill(vector.base, vector.len) }, flags) {
            Ok((len, _)) => {
                done += len;
                if len < vector.len {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok((done, None))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut Message, flags: c_int) -> isize {
    c::cancellation_point();
    // SAFETY: the caller's structure, buffers and memory for an address.
    c::number(unsafe {
        (|| {
            let message = &mut *message;
            let mut cut = false;
            let vectors = slice(message.vectors, message.count)?;
            let (len, from) = match vectors {
                [vector] if !is_datagram(&*table::get(fd)?) => receive(fd, to_fill(vector.base, vector.len), flags)?,
                vectors if flags & (MSG_WAITALL | MSG_PEEK) == MSG_WAITALL && !is_datagram(&*table::get(fd)?) => {
                    receive_all(fd, vectors, flags)?
                }
                vectors => {
                    // With room for one byte more than the caller has, to learn whether a datagram was longer.
                    let room = vectors.iter().fold(0usize, |all, vector| all.saturating_add(vector.len)).min(ROOM);
                    let mut bytes = alloc::vec![0; room + usize::from(is_datagram(&*table::get(fd)?))];
                    let (len, from) = receive(fd, &mut bytes, flags)?;
                    cut = len > room;
                    let len = len.min(room);
                    scatter(&bytes[..len], vectors);
                    (len, from)
                }
            };
            (message.control_len, message.flags) = (0, if cut { MSG_TRUNC } else { 0 });
            give_address(fd, from, message.name, &mut message.name_len);
            Ok(len)
        })()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    const STOP: u32 = ZX_SOCKET_DISPOSITION_WRITE_DISABLED;
    c::done(with_socket(fd, |description, socket| {
        let (reading, writing) = match how {
            SHUT_RD => (true, false),
            SHUT_WR => (false, true),
            SHUT_RDWR => (true, true),
            _ => return Err(EINVAL),
        };
        match socket {
            AnySocket::Network(network) => network.shutdown(reading, writing),
            AnySocket::Unix(socket) => {
                let done = socket.shutdown(reading, writing);
                if socket.is_datagram() {
                    // No object says that this socket cannot be written any more.
                    epoll::changed(description);
                }
                done
            }
            AnySocket::Pair(socket) => {
                let [own, peer] = [writing, reading].map(|stop| if stop { STOP } else { 0 });
                Ok(socket.set_disposition(own, peer)?)
            }
        }
    }))
}

/// Writes an address of a socket.
///
/// # Safety
/// `len` holds the size of the buffer at `place`.
unsafe fn name(
    fd: c_int,
    of: impl FnOnce(&AnySocket<'_>) -> Result<Address>,
    place: *mut c_void,
    len: *mut u32,
) -> c_int {
    c::done(with_socket(fd, |_, socket| {
        let address = of(&socket)?;
        // SAFETY: as the caller says.
        unsafe { address::write(&address, place, len) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, address: *mut c_void, address_len: *mut u32) -> c_int {
    // SAFETY: the caller's memory.
    unsafe { name(fd, own_address, address, address_len) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, address: *mut c_void, address_len: *mut u32) -> c_int {
    // SAFETY: the caller's memory.
    unsafe { name(fd, peer_address, address, address_len) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, address: *const c_void, len: u32) -> c_int {
    c::done(with_socket(fd, |_, socket| match socket {
        // SAFETY: the caller's address.
        AnySocket::Network(network) => network.ask(Request::Bind(unsafe { address::read(address, len) }?)).map(drop),
        // SAFETY: as above.
        AnySocket::Unix(socket) => socket.bind(unsafe { address::read_path(address, len) }?.ok_or(EINVAL)?),
        AnySocket::Pair(_) => Err(EINVAL),
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    c::done(with_socket(fd, |description, socket| {
        let done = match socket {
            AnySocket::Network(network) => network.listen(backlog.max(0) as u32),
            // As on Linux, a negative backlog means the largest.
            AnySocket::Unix(socket) => socket.listen(backlog as u32),
            AnySocket::Pair(_) => Err(EINVAL),
        };
        epoll::changed(description);
        done
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const c_void, len: u32) -> c_int {
    c::cancellation_point();
    c::done(with_socket(fd, |description, socket| {
        let until = description.write_until();
        let done = match socket {
            // SAFETY: the caller's address.
            AnySocket::Network(network) => network.connect(unsafe { address::read(address, len) }?, until),
            // SAFETY: as above.
            AnySocket::Unix(socket) => socket.connect(unsafe { address::read_path(address, len) }?, until),
            AnySocket::Pair(_) => Err(EISCONN),
        };
        // Also if it failed: the attempt may go on.
        epoll::changed(description);
        done
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, address: *mut c_void, len: *mut u32) -> c_int {
    // SAFETY: the same conditions.
    unsafe { accept4(fd, address, len, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(fd: c_int, address: *mut c_void, len: *mut u32, flags: c_int) -> c_int {
    c::cancellation_point();
    c::int(with_socket(fd, |description, socket| {
        if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 {
            return Err(EINVAL);
        }
        let until = description.read_until();
        let (accepted, peer) = match socket {
            AnySocket::Network(network) => {
                let (accepted, peer) = network.accept(until)?;
                (Object::Network(accepted), Address::Network(peer))
            }
            AnySocket::Unix(socket) => {
                let (accepted, peer) = socket.accept(until)?;
                (Object::Unix(accepted), Address::Unix(peer))
            }
            AnySocket::Pair(_) => return Err(EINVAL),
        };
        // SAFETY: the caller's memory.
        unsafe { address::write(&peer, address, len) };
        add(accepted, flags)
    }))
}
