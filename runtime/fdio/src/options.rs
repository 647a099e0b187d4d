//! `getsockopt` and `setsockopt`. Timeouts are part of the open description; the network service has the other options.

use core::ffi::{c_int, c_void};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::Ordering;

use abi::ZX_SOCKET_DATAGRAM;
use network_protocol::{Choice, Reply, Request};

use crate::address::{AF_INET, AF_INET6, AF_UNIX};
use crate::c::{self, EADDRNOTAVAIL, ECONNRESET, EFAULT, EINVAL, EMFILE, ENOBUFS, ENODEV, ENOPROTOOPT, Errno, Result};
use crate::description::Description;
use crate::net::{AnySocket, IPPROTO_TCP, SOCK_DGRAM, SOCK_STREAM, with_socket};
use crate::object::take_reset;
use crate::tcp_info;
use crate::{interfaces, network};

const SOL_SOCKET: c_int = 1;
const IPPROTO_IP: c_int = 0;
const IPPROTO_IPV6: c_int = 41;
const EDOM: Errno = Errno(33);

/// A socket option.
#[derive(Clone, Copy, PartialEq)]
enum SocketOption {
    /// An `int` that the network service has.
    Number(Choice),
    /// `SO_LINGER`
    Linger,
    /// `SO_RCVTIMEO` (true) or `SO_SNDTIMEO` (false).
    Timeout(bool),
    /// `SO_ERROR`
    Error,
    /// `SO_TYPE`
    Type,
    /// `SO_DOMAIN`
    Domain,
    /// `SO_PROTOCOL`
    Protocol,
    /// `TCP_INFO`, which cannot be set.
    Information,
    /// `IP_ADD_MEMBERSHIP` (true) or `IP_DROP_MEMBERSHIP` (false).
    Group(bool),
    /// `IP_MULTICAST_IF`
    GroupInterface,
    /// `IPV6_JOIN_GROUP` (true) or `IPV6_LEAVE_GROUP` (false).
    GroupV6(bool),
}

fn option(level: c_int, name: c_int) -> Result<SocketOption> {
    use SocketOption::{
        Domain, Error, Group, GroupInterface, GroupV6, Information, Linger, Number, Protocol, Timeout, Type,
    };
    Ok(match (level, name) {
        (SOL_SOCKET, 2) => Number(Choice::ReuseAddress),
        (SOL_SOCKET, 3) => Type,
        (SOL_SOCKET, 4) => Error,
        (SOL_SOCKET, 6) => Number(Choice::Broadcast),
        (SOL_SOCKET, 7) => Number(Choice::SendBuffer),
        (SOL_SOCKET, 8) => Number(Choice::ReceiveBuffer),
        (SOL_SOCKET, 9) => Number(Choice::KeepAlive),
        (SOL_SOCKET, 13) => Linger,
        (SOL_SOCKET, 15) => Number(Choice::ReusePort),
        (SOL_SOCKET, 20) => Timeout(true),
        (SOL_SOCKET, 21) => Timeout(false),
        (SOL_SOCKET, 30) => Number(Choice::Accepting),
        (SOL_SOCKET, 38) => Protocol,
        (SOL_SOCKET, 39) => Domain,
        (IPPROTO_TCP, 1) => Number(Choice::NoDelay),
        (IPPROTO_TCP, 2) => Number(Choice::MaxSegment),
        (IPPROTO_TCP, 11) => Information,
        (IPPROTO_TCP, 4) => Number(Choice::KeepIdle),
        (IPPROTO_TCP, 5) => Number(Choice::KeepInterval),
        (IPPROTO_TCP, 6) => Number(Choice::KeepCount),
        (IPPROTO_IP, 2) => Number(Choice::Ttl),
        (IPPROTO_IP, 33) => Number(Choice::MulticastTtl),
        (IPPROTO_IP, 34) => Number(Choice::MulticastLoop),
        (IPPROTO_IP, 32) => GroupInterface,
        (IPPROTO_IP, 35) => Group(true),
        (IPPROTO_IP, 36) => Group(false),
        (IPPROTO_IPV6, 17) => Number(Choice::MulticastInterfaceV6),
        (IPPROTO_IPV6, 20) => GroupV6(true),
        (IPPROTO_IPV6, 21) => GroupV6(false),
        (IPPROTO_IPV6, 16) => Number(Choice::Hops),
        (IPPROTO_IPV6, 18) => Number(Choice::MulticastHops),
        (IPPROTO_IPV6, 19) => Number(Choice::MulticastLoopV6),
        (IPPROTO_IPV6, 26) => Number(Choice::OnlyV6),
        _ => return Err(ENOPROTOOPT),
    })
}

/// The value of an option in C: one or two numbers of four or eight bytes, or a structure.
struct Value {
    bytes: [u8; tcp_info::SIZE],
    len: usize,
    /// A caller with less room gets the beginning.
    can_be_cut: bool,
}

impl Value {
    fn new(value: &[u8]) -> Value {
        let mut bytes = [0; tcp_info::SIZE];
        bytes[..value.len()].copy_from_slice(value);
        Value { bytes, len: value.len(), can_be_cut: false }
    }

    fn int(number: c_int) -> Value {
        Value::new(&number.to_ne_bytes())
    }

    fn linger(on: bool, seconds: c_int) -> Value {
        let mut value = Value::int(on.into());
        value.bytes[4..8].copy_from_slice(&seconds.to_ne_bytes());
        value.len = 8;
        value
    }

    fn time(nanos: i64) -> Value {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(nanos / 1_000_000_000).to_ne_bytes());
        bytes[8..].copy_from_slice(&(nanos % 1_000_000_000 / 1000).to_ne_bytes());
        Value::new(&bytes)
    }
}

fn get(description: &Description, socket: &AnySocket<'_>, option: SocketOption) -> Result<Value> {
    let datagram = match socket {
        AnySocket::Network(network) => network.is_datagram(),
        AnySocket::Unix(socket) => socket.is_datagram(),
        AnySocket::Pair(socket) => socket.info()?.options & ZX_SOCKET_DATAGRAM != 0,
    };
    Ok(match (option, socket) {
        (SocketOption::Timeout(reading), _) => Value::time(description.timeout(reading).load(Ordering::Relaxed)),
        (SocketOption::Type, _) => Value::int(if datagram { SOCK_DGRAM } else { SOCK_STREAM }),
        (SocketOption::Error, AnySocket::Network(network)) => {
            Value::int(network.take_error()?.map_or(0, |error| error.0))
        }
        // The call that meets another error returns it, so no other is ever pending.
        (SocketOption::Error, AnySocket::Unix(socket)) => {
            Value::int(if socket.take_reset() { ECONNRESET.0 } else { 0 })
        }
        (SocketOption::Error, AnySocket::Pair(socket)) => Value::int(if take_reset(socket) { ECONNRESET.0 } else { 0 }),
        (SocketOption::Domain, AnySocket::Unix(_) | AnySocket::Pair(_)) => Value::int(AF_UNIX),
        (SocketOption::Number(Choice::Accepting), AnySocket::Unix(socket)) => Value::int(socket.listens().into()),
        (SocketOption::Domain, AnySocket::Network(network)) => {
            Value::int(if network.address(Request::LocalAddress)?.is_ipv4() { AF_INET } else { AF_INET6 })
        }
        (SocketOption::Protocol, AnySocket::Network(network)) => Value::int(network.choice(Choice::Protocol)? as c_int),
        (SocketOption::Information, AnySocket::Network(network)) => match network.ask(Request::Information)? {
            Reply::Information(information) => Value { can_be_cut: true, ..Value::new(&tcp_info::to_c(&information)) },
            _ => return Err(EINVAL),
        },
        (SocketOption::Linger, AnySocket::Network(network)) => match network.choice(Choice::Linger)? {
            0 => Value::linger(false, 0),
            seconds => Value::linger(true, (seconds - 1) as c_int),
        },
        (SocketOption::Number(choice), AnySocket::Network(network)) => Value::int(network.choice(choice)? as c_int),
        (SocketOption::GroupInterface, AnySocket::Network(network)) => {
            Value::new(&network.choice(Choice::MulticastInterface)?.to_be_bytes())
        }
        (SocketOption::Group(_) | SocketOption::GroupV6(_), _)
        | (SocketOption::GroupInterface, AnySocket::Unix(_) | AnySocket::Pair(_))
        | (
            SocketOption::Protocol | SocketOption::Linger | SocketOption::Information | SocketOption::Number(_),
            AnySocket::Unix(_) | AnySocket::Pair(_),
        ) => {
            return Err(ENOPROTOOPT);
        }
    })
}

fn address_at(bytes: &[u8], at: usize) -> Result<Ipv4Addr> {
    let four = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    four.map(|octets| Ipv4Addr::from(*octets)).ok_or(EINVAL)
}

/// The address of the interface in a `struct ip_mreqn`, by its number if that is set, or in one of the shorter forms.
fn interface(bytes: &[u8], at: usize) -> Result<Ipv4Addr> {
    let index = bytes.get(8..).and_then(<[u8]>::first_chunk::<4>).map_or(0, |index| u32::from_ne_bytes(*index));
    if index == 0 {
        return address_at(bytes, at);
    }
    let all = interfaces::all(network::card()?.as_ref());
    let found = all.iter().find(|one| one.index == index).ok_or(ENODEV)?;
    let ips = found.addresses.iter().filter_map(|one| if let IpAddr::V4(ip) = one.ip { Some(ip) } else { None });
    ips.into_iter().next().ok_or(EADDRNOTAVAIL)
}

fn set(description: &Description, socket: &AnySocket<'_>, option: SocketOption, bytes: &[u8]) -> Result<()> {
    let int = |at: usize| {
        let four = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
        four.map(|bytes| c_int::from_ne_bytes(*bytes)).ok_or(EINVAL)
    };
    let long = |at: usize| {
        let eight = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>);
        eight.map(|bytes| i64::from_ne_bytes(*bytes)).ok_or(EINVAL)
    };
    let ip = |at: usize| address_at(bytes, at);
    let value = match (option, socket) {
        (SocketOption::Timeout(reading), _) => {
            let (seconds, micros) = (long(0)?, long(8)?);
            if !(0..1_000_000).contains(&micros) {
                return Err(EDOM);
            }
            let nanos = seconds.max(0).saturating_mul(1_000_000_000).saturating_add(micros * 1000);
            description.timeout(reading).store(nanos, Ordering::Relaxed);
            return Ok(());
        }
        (SocketOption::Group(join) | SocketOption::GroupV6(join), AnySocket::Network(network)) => {
            let request = if option == SocketOption::Group(join) {
                Request::Group { join, group: ip(0)?, interface: interface(bytes, 4)? }
            } else {
                // `struct ipv6_mreq`
                let group = bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets)).ok_or(EINVAL)?;
                Request::GroupV6 { join, group, interface: int(16)? as u32 }
            };
            let done = network.ask(request).map(drop);
            return done.map_err(|error| match error {
                EMFILE => ENOBUFS,
                // A group that one joins is not there only for lack of its interface.
                EADDRNOTAVAIL if join => ENODEV,
                error => error,
            });
        }
        (SocketOption::GroupInterface, AnySocket::Network(_)) => {
            let at = if bytes.len() < 8 { 0 } else { 4 };
            (Choice::MulticastInterface, interface(bytes, at)?.to_bits())
        }
        (SocketOption::Linger, AnySocket::Network(_)) => {
            let (on, seconds) = (int(0)? != 0, int(4)?);
            let seconds = u32::try_from(seconds).unwrap_or(0).min(u32::MAX - 1);
            (Choice::Linger, if on { seconds + 1 } else { 0 })
        }
        (SocketOption::Number(choice), AnySocket::Network(_)) => {
            let default = match choice {
                Choice::Ttl | Choice::Hops => Some(64),
                Choice::MulticastTtl | Choice::MulticastHops => Some(1),
                _ => None,
            };
            let value = match (int(0)?, default) {
                // -1 restores the default.
                (-1, Some(default)) => default,
                (number, Some(_)) => u32::try_from(number).map_err(|_| EINVAL)?,
                (number, None) => number as u32,
            };
            (choice, value)
        }
        _ => return Err(ENOPROTOOPT),
    };
    match socket {
        AnySocket::Network(network) => network.ask(Request::Set(value.0, value.1)).map(drop),
        AnySocket::Unix(_) | AnySocket::Pair(_) => Err(ENOPROTOOPT),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(fd: c_int, level: c_int, name: c_int, place: *mut c_void, len: *mut u32) -> c_int {
    c::done(with_socket(fd, |description, socket| {
        let value = get(description, &socket, option(level, name)?)?;
        if place.is_null() || len.is_null() {
            return Err(EFAULT);
        }
        // SAFETY: the caller's memory.
        unsafe {
            if (*len as usize) < value.len && !value.can_be_cut {
                return Err(EINVAL);
            }
            let room = value.len.min(*len as usize);
            place.cast::<u8>().copy_from_nonoverlapping(value.bytes.as_ptr(), room);
            *len = room as u32;
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: u32) -> c_int {
    c::done(with_socket(fd, |description, socket| {
        // SAFETY: the caller's value.
        let bytes = unsafe { crate::io::to_take(value, len as usize) };
        set(description, &socket, option(level, name)?, bytes)
    }))
}
