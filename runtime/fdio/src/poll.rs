//! `poll`: waiting for several descriptors.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_int, c_short, c_ulong};

use abi::{Signals, Status, zx_wait_item_t};
use zx::{AsHandleRef, Duration, HandleRef, MonotonicInstant, Port};

use crate::c::{self, EINVAL, EOPNOTSUPP, O_ACCMODE, O_RDONLY, O_RDWR, O_WRONLY, Result};
use crate::description::Description;
use crate::eventfd;
use crate::object::Object;
use crate::readiness::{Asked, Events};
use crate::table;
use crate::unix::Watched;

pub const POLLIN: c_short = 0x1;
pub const POLLOUT: c_short = 0x4;
pub const POLLERR: c_short = 0x8;
pub const POLLHUP: c_short = 0x10;
pub const POLLNVAL: c_short = 0x20;
const POLLRDNORM: c_short = 0x40;
const POLLWRNORM: c_short = 0x100;
const POLLRDHUP: c_short = 0x2000;

/// Events that `poll` reports even if the caller does not ask for them.
pub const UNASKED: c_short = POLLERR | POLLHUP;
const READ: c_short = POLLIN | POLLRDNORM;
const WRITE: c_short = POLLOUT | POLLWRNORM;

/// `struct pollfd`.
#[repr(C)]
pub struct PollFd {
    pub fd: c_int,
    pub events: c_short,
    pub revents: c_short,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int {
    c::cancellation_point();
    let fds = if count == 0 {
        &mut []
    } else {
        // SAFETY: the caller's array.
        unsafe { core::slice::from_raw_parts_mut(fds, count as usize) }
    };
    let deadline = match timeout {
        ..0 => MonotonicInstant::INFINITE,
        0 => MonotonicInstant::ZERO,
        milliseconds => MonotonicInstant::after(Duration::from_millis(milliseconds.into())),
    };
    c::int(wait(fds, deadline))
}

/// `poll` with a timeout in nanoseconds. There are no signals, so the signal mask has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    fds: *mut PollFd,
    count: c_ulong,
    timeout: *const [i64; 2],
    _mask: *const core::ffi::c_void,
) -> c_int {
    c::cancellation_point();
    let fds = if count == 0 {
        &mut []
    } else {
        // SAFETY: the caller's array.
        unsafe { core::slice::from_raw_parts_mut(fds, count as usize) }
    };
    // SAFETY: the caller's structure of seconds and nanoseconds, or null.
    c::int(deadline_of(unsafe { timeout.as_ref() }, 1).and_then(|deadline| wait(fds, deadline)))
}

/// The deadline of a timeout of seconds and `unit` nanoseconds; infinite for `None`.
pub fn deadline_of(timeout: Option<&[i64; 2]>, unit: i64) -> Result<MonotonicInstant> {
    let Some([seconds, parts]) = timeout else { return Ok(MonotonicInstant::INFINITE) };
    let nanos = parts.checked_mul(unit).filter(|nanos| (0..1_000_000_000).contains(nanos)).ok_or(EINVAL)?;
    if *seconds < 0 {
        return Err(EINVAL);
    }
    let span = Duration::from_seconds(*seconds).into_nanos().saturating_add(nanos);
    Ok(if span == 0 { MonotonicInstant::ZERO } else { MonotonicInstant::after(Duration::from_nanos(span)) })
}

/// Waits until a descriptor has events, and returns the number of such descriptors.
pub fn wait(fds: &mut [PollFd], deadline: MonotonicInstant) -> Result<usize> {
    // Keeps the handles open during the wait.
    let mut waited: Vec<(usize, WaitTarget)> = Vec::new();
    let mut items: Vec<zx_wait_item_t> = Vec::new();
    let mut ready = false;
    for (index, entry) in fds.iter_mut().enumerate() {
        entry.revents = 0;
        if entry.fd < 0 {
            continue;
        }
        entry.revents = match table::get(entry.fd) {
            Err(_) => POLLNVAL,
            Ok(description) => watch(&description, entry.events, |target, signals| {
                let handle = target.handle().raw_handle();
                items.push(zx_wait_item_t { handle, waitfor: signals.bits(), pending: 0 });
                waited.push((index, target));
                Ok(())
            })?,
        };
        ready |= entry.revents != 0;
    }
    let deadline = if ready { MonotonicInstant::ZERO } else { deadline };
    let waiting = if items.is_empty() {
        if ready { Ok(()) } else { c::sleep_until(deadline) }
    } else {
        wait_for_any(&mut items, deadline)
    };
    match waiting {
        Ok(()) | Err(Status::TIMED_OUT) => {}
        Err(status) => return Err(status.into()),
    }
    for (item, (index, waited)) in items.iter().zip(&waited) {
        let entry = &mut fds[*index];
        // A UNIX socket can have two items.
        entry.revents |= waited.told(Signals::from_bits_retain(item.pending)) & (entry.events | UNASKED);
    }
    Ok(fds.iter().filter(|entry| entry.revents != 0).count())
}

/// Calls `add` for each object to wait for before the description has some of `events`, with the signals. Returns the
/// events that it has whatever the signals are.
///
/// # Errors
/// `EOPNOTSUPP`: no wait can be for a descriptor of `epoll`, because no object says that a port has a packet. Those of
/// `add`.
pub fn watch(
    description: &Arc<Description>,
    events: c_short,
    mut add: impl FnMut(WaitTarget, Signals) -> Result<()>,
) -> Result<c_short> {
    let itself = || WaitTarget::Description(description.clone());
    let asked = Asked { read: events & READ != 0, write: events & WRITE != 0, ended: events & POLLRDHUP != 0 };
    let now = match &description.object {
        Object::Socket { .. } => {
            add(itself(), signals_for(events, description.flags() & O_ACCMODE))?;
            0
        }
        Object::Network(network) => match network.wanted(asked)? {
            Signals::NONE => poll_bits(&network.events(Signals::NONE)),
            wanted => {
                add(itself(), wanted)?;
                0
            }
        },
        Object::Unix(socket) => {
            let (watched, now) = socket.watched(asked);
            for one in watched {
                let wanted = match &one {
                    Watched::Stream(_) => signals_for(events, O_RDWR),
                    other => other.wanted(asked.read),
                };
                add(WaitTarget::Unix(one), wanted)?;
            }
            poll_bits(&now)
        }
        Object::EventFd(_) => {
            let mut signals = Signals::NONE;
            signals.set(eventfd::READABLE, asked.read);
            signals.set(eventfd::WRITABLE, asked.write);
            add(itself(), signals)?;
            0
        }
        Object::Epoll(_) => return Err(EOPNOTSUPP),
        Object::Log { .. } => WRITE,
        // These objects never block.
        _ => READ | WRITE,
    };
    Ok(now & (events | UNASKED))
}

/// The object that an item is for.
pub enum WaitTarget {
    Description(Arc<Description>),
    /// A part of a UNIX socket.
    Unix(Watched),
}

impl WaitTarget {
    /// The handle to wait for.
    pub fn handle(&self) -> HandleRef<'_> {
        match self {
            WaitTarget::Unix(watched) => watched.handle(),
            WaitTarget::Description(description) => match &description.object {
                Object::Socket { socket, .. } => socket.as_handle_ref(),
                Object::Network(network) => network.data().as_handle_ref(),
                Object::EventFd(counter) => counter.event().as_handle_ref(),
                // Never a target.
                _ => HandleRef::from_raw(0),
            },
        }
    }

    /// The events that these signals stand for.
    pub fn told(&self, signals: Signals) -> c_short {
        let description = match self {
            WaitTarget::Unix(Watched::Stream(_)) => return events_of(signals, O_RDWR),
            WaitTarget::Unix(watched) => return poll_bits(&watched.events(signals)),
            WaitTarget::Description(description) => description,
        };
        match &description.object {
            Object::EventFd(_) => {
                let readable = if signals.contains(eventfd::READABLE) { READ } else { 0 };
                let writable = if signals.contains(eventfd::WRITABLE) { WRITE } else { 0 };
                readable | writable
            }
            Object::Network(network) => poll_bits(&network.events(signals)),
            _ => events_of(signals, description.flags() & O_ACCMODE),
        }
    }
}

/// The events of a network socket or UNIX socket as `poll` bits.
fn poll_bits(events: &Events) -> c_short {
    let each = [
        (events.read, READ),
        (events.write, WRITE),
        (events.error, POLLERR),
        (events.ended, POLLRDHUP),
        (events.hung_up, POLLHUP),
    ];
    each.into_iter().filter(|(is, _)| *is).fold(0, |told, (_, bits)| told | bits)
}

/// Waits for any of the items, whose number has no limit, and stores the signals of each.
fn wait_for_any(items: &mut [zx_wait_item_t], deadline: MonotonicInstant) -> core::result::Result<(), Status> {
    if items.len() <= abi::ZX_WAIT_MANY_MAX_ITEMS {
        return c::wait_many(items, deadline);
    }
    // There are more items than one call takes, so the calls below poll them in groups. If nothing is pending, a port
    // waits for the first packet.
    if ask(items)? || deadline == MonotonicInstant::ZERO {
        return Ok(());
    }
    let port = Port::create()?;
    for item in items.iter().filter(|item| item.waitfor != 0) {
        HandleRef::from_raw(item.handle).wait_async(&port, 0, Signals::from_bits_retain(item.waitfor), 0)?;
    }
    c::wait_packet(&port, deadline)?;
    ask(items).map(drop)
}

/// Stores the signals of each item; returns whether a wanted signal is pending.
fn ask(items: &mut [zx_wait_item_t]) -> core::result::Result<bool, Status> {
    let mut any = false;
    for items in items.chunks_mut(abi::ZX_WAIT_MANY_MAX_ITEMS) {
        match zx::wait_many(items, MonotonicInstant::ZERO) {
            Ok(()) => any = true,
            Err(Status::TIMED_OUT) => {}
            Err(status) => return Err(status),
        }
    }
    Ok(any)
}

/// The signals to wait for: those that stand for the events, and that of a closed peer, which `poll` reports even if the
/// caller does not ask for it.
fn signals_for(events: c_short, mode: c_int) -> Signals {
    let mut signals = Signals::SOCKET_PEER_CLOSED;
    if mode != O_WRONLY {
        signals.set(Signals::SOCKET_READABLE, events & READ != 0);
        signals.set(Signals::SOCKET_PEER_WRITE_DISABLED, events & (READ | POLLRDHUP) != 0);
    }
    if events & WRITE != 0 && mode != O_RDONLY {
        signals |= Signals::SOCKET_WRITABLE | Signals::SOCKET_WRITE_DISABLED;
    }
    signals
}

fn events_of(signals: Signals, mode: c_int) -> c_short {
    let closed = signals.contains(Signals::SOCKET_PEER_CLOSED);
    let ended = closed || signals.contains(Signals::SOCKET_PEER_WRITE_DISABLED);
    let mut events = 0;
    if mode != O_WRONLY {
        if signals.contains(Signals::SOCKET_READABLE) || ended {
            events |= READ;
        }
        if ended {
            events |= POLLRDHUP;
        }
        if closed {
            events |= POLLHUP;
        }
    }
    if mode != O_RDONLY {
        if signals.intersects(Signals::SOCKET_WRITABLE | Signals::SOCKET_WRITE_DISABLED) || closed {
            events |= WRITE;
        }
        if closed {
            events |= POLLERR;
        }
    }
    events
}
