//! `epoll`: waiting for events of many descriptors, over a port.
//!
//! Each descriptor in a set has a key:
//! 1. The port waits for the descriptor's objects: one packet with the key, as soon as one of the signals is set.
//! 2. A thread in `epoll_wait` takes packets.
//! 3. For each it lets the port wait again, then looks at the events that there are now, and returns those. A change
//!    after the look gives another packet, so none is lost; one before it may give a packet of which nothing is left.
//!
//! With `EPOLLET` step 3 waits for signals that *become* set (`ZX_WAIT_ASYNC_EDGE`). Without it, the port has the next
//! packet at once while the descriptor is ready. With `EPOLLONESHOT` there is no step 3 until the program asks again.
//!
//! Some states of sockets have no signal (an unconnected socket can be written). Such a key is in [`Set::ready`], and an
//! event of this library's own gives the packet. [`changed`] waits anew for a socket that has got another state.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ffi::{c_int, c_short, c_void};
use core::mem::MaybeUninit;

use abi::{Signals, Status, ZX_WAIT_ASYNC_EDGE};
use sync::Lock;
use zx::{AsHandleRef, Duration, Event, MonotonicInstant, Port};

use crate::c::{self, EEXIST, EFAULT, EINVAL, ENOENT, EPERM, O_CLOEXEC, O_RDWR, Result};
use crate::description::Description;
use crate::eventfd;
use crate::object::Object;
use crate::poll::{UNASKED, watch};
use crate::table;

const EPOLL_CLOEXEC: c_int = 0x8_0000;

const ADD: c_int = 1;
const DEL: c_int = 2;
const MOD: c_int = 3;

/// `EPOLLIN`, `EPOLLOUT`, `EPOLLRDHUP` and the others that `poll` has, with the same values.
const EVENTS: u32 = 0x27df;
const EXCLUSIVE: u32 = 1 << 28;
/// Keeps the machine awake, which it always is.
const WAKE_UP: u32 = 1 << 29;
const ONE_SHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;

/// Limit on the events of one call.
const EVENTS_MAX: usize = 1024;
/// The key of [`Epoll::bell`].
const BELL: u64 = 0;
const RUNG: Signals = Signals::USER_0;

/// `struct epoll_event`.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct EpollEvent {
    events: u32,
    data: u64,
}

/// A descriptor in a set.
struct Member {
    place: Place,
    description: Weak<Description>,
    /// `EPOLL*`
    events: u32,
    /// The program's own word.
    data: u64,
    /// False after an event with `EPOLLONESHOT`.
    wanted: bool,
    /// How many objects the port waits for. The bell is one if the key is in [`Set::ready`].
    objects: usize,
}

/// The address of a description, which no other one has while a [`Weak`] keeps it, and the number of a descriptor.
type Place = (usize, c_int);

struct Set {
    keys: BTreeMap<Place, u64>,
    members: BTreeMap<u64, Member>,
    /// Keys to look at without a packet of their own.
    ready: BTreeSet<u64>,
    next_key: u64,
    /// Whether the port waits for [`Epoll::bell`].
    listens: bool,
    /// With how many members those are removed whose descriptors are closed.
    sweep_at: usize,
}

/// A set of descriptors.
pub struct Epoll {
    port: Port,
    /// Its signal says that [`Set::ready`] has keys.
    bell: Event,
    set: Lock<Set>,
}

/// All sets, for [`changed`].
static ALL: Lock<Vec<Weak<Epoll>>> = Lock::new(Vec::new());

/// The events that `poll` has.
fn bits(events: u32) -> c_short {
    (events & EVENTS) as c_short
}

/// The events that a description has now.
fn pending(description: &Arc<Description>, events: c_short) -> Result<c_short> {
    let mut found = 0;
    let always = watch(description, events, |target, _| {
        found |= target.told(target.handle().signals()?);
        Ok(())
    })?;
    Ok((found | always) & (events | UNASKED))
}

impl Set {
    fn remove(&mut self, key: u64) {
        if let Some(member) = self.members.remove(&key) {
            self.keys.remove(&member.place);
            self.ready.remove(&key);
        }
    }

    /// Removes members whose descriptors are closed, if there may be many.
    fn sweep(&mut self) {
        if self.members.len() < self.sweep_at {
            return;
        }
        let Set { keys, members, ready, .. } = self;
        members.retain(|key, member| {
            let open = member.description.strong_count() > 0;
            if !open {
                keys.remove(&member.place);
                ready.remove(key);
            }
            open
        });
        self.sweep_at = (2 * self.members.len()).max(64);
    }
}

impl Epoll {
    fn new() -> Result<Arc<Epoll>> {
        let set = Set {
            keys: BTreeMap::new(),
            members: BTreeMap::new(),
            ready: BTreeSet::new(),
            next_key: BELL + 1,
            listens: false,
            sweep_at: 64,
        };
        let new = Arc::new(Epoll { port: Port::create()?, bell: Event::create()?, set: Lock::new(set) });
        new.listen(&mut new.set.lock())?;
        let mut all = ALL.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&new));
        Ok(new)
    }

    /// Lets the port wait for the objects of a member (1, 3).
    fn arm(&self, set: &mut Set, key: u64, description: &Arc<Description>, edge: bool) -> Result<()> {
        let Some(member) = set.members.get_mut(&key) else { return Ok(()) };
        if member.objects > 1 {
            // The port may still wait for one of them.
            self.cancel(key);
        }
        member.objects = 0;
        let always = watch(description, bits(member.events), |target, signals| {
            let (signals, options) = match &description.object {
                // A write to a counter is an event even if it can be read already.
                Object::EventFd(_) if edge && signals.contains(eventfd::READABLE) => {
                    (signals | eventfd::WRITTEN, ZX_WAIT_ASYNC_EDGE)
                }
                _ => (signals, if edge { ZX_WAIT_ASYNC_EDGE } else { 0 }),
            };
            target.handle().wait_async(&self.port, key, signals, options)?;
            member.objects += 1;
            Ok(())
        })?;
        if always != 0 && !edge {
            self.ring(set, [key])?;
        }
        Ok(())
    }

    /// Has the next call look at these keys.
    fn ring(&self, set: &mut Set, keys: impl IntoIterator<Item = u64>) -> Result<()> {
        for key in keys {
            set.ready.insert(key);
            set.members.get_mut(&key).into_iter().for_each(|member| member.objects += 1);
        }
        self.bell.signal(Signals::NONE, RUNG)?;
        Ok(self.listen(set)?)
    }

    /// Lets the port wait for the bell. Where that fails, the next call tries again.
    fn listen(&self, set: &mut Set) -> core::result::Result<(), Status> {
        if !set.listens {
            self.bell.wait_async(&self.port, BELL, RUNG, 0)?;
            set.listens = true;
        }
        Ok(())
    }

    /// Ends the waits for a member, and removes its packets.
    fn cancel(&self, key: u64) {
        // There may be none.
        let _ = self.port.cancel_key(key);
    }

    fn control(&self, operation: c_int, fd: c_int, event: Option<EpollEvent>) -> Result<()> {
        let description = table::get(fd)?;
        let place = (Arc::as_ptr(&description).addr(), fd);
        if !matches!(
            description.object,
            Object::Socket { .. } | Object::Network(_) | Object::Unix(_) | Object::EventFd(_)
        ) {
            return Err(EPERM);
        }
        let event = match operation {
            ADD | MOD => Some(event.ok_or(EFAULT)?),
            DEL => None,
            _ => return Err(EINVAL),
        };
        if let Some(EpollEvent { events, .. }) = event {
            let also = if operation == ADD { EXCLUSIVE } else { 0 };
            // Waking one thread of several sets is a permission, not a duty; but Linux refuses to combine it.
            if events & !(EVENTS | WAKE_UP | ONE_SHOT | EDGE | also) != 0
                || events & (EXCLUSIVE | ONE_SHOT) == EXCLUSIVE | ONE_SHOT
            {
                return Err(EINVAL);
            }
        }
        let mut set = self.set.lock();
        let known = set.keys.get(&place).copied();
        let key = match (event, known) {
            (Some(_), Some(_)) if operation == ADD => return Err(EEXIST),
            (_, None) if operation != ADD => return Err(ENOENT),
            (Some(EpollEvent { events, data }), None) => {
                set.sweep();
                let key = set.next_key;
                set.next_key += 1;
                let description = Arc::downgrade(&description);
                set.keys.insert(place, key);
                set.members.insert(key, Member { place, description, events, data, wanted: true, objects: 0 });
                key
            }
            (Some(EpollEvent { events, data }), Some(key)) => {
                self.cancel(key);
                if let Some(member) = set.members.get_mut(&key) {
                    (member.events, member.data, member.wanted, member.objects) = (events, data, true, 0);
                }
                key
            }
            (None, key) => {
                let key = key.ok_or(ENOENT)?;
                self.cancel(key);
                set.remove(key);
                return Ok(());
            }
        };
        self.arm(&mut set, key, &description, false).inspect_err(|_| {
            self.cancel(key);
            set.remove(key);
        })
    }

    /// The events of a member now, after the port waits for it again (3).
    fn look(&self, set: &mut Set, key: u64) -> Result<Option<EpollEvent>> {
        let Some(member) = set.members.get(&key) else { return Ok(None) };
        let (events, data) = (member.events, member.data);
        let Some(description) = member.description.upgrade() else {
            set.remove(key);
            return Ok(None);
        };
        if !member.wanted {
            return Ok(None);
        }
        let once = events & ONE_SHOT != 0;
        if !once {
            self.arm(set, key, &description, events & EDGE != 0)?;
        }
        let now = pending(&description, bits(events))?;
        if once {
            match now {
                0 => self.arm(set, key, &description, false)?,
                _ => set.members.get_mut(&key).into_iter().for_each(|member| member.wanted = false),
            }
        }
        Ok((now != 0).then_some(EpollEvent { events: now as u16 as u32, data }))
    }

    /// Takes the keys of packets, of as many as there are, at most `max` (2).
    fn keys(&self, max: usize, deadline: MonotonicInstant) -> core::result::Result<Vec<u64>, Status> {
        self.listen(&mut self.set.lock())?;
        let mut keys = Vec::new();
        let mut until = deadline;
        while keys.len() < max {
            match c::wait_key(&self.port, until) {
                Ok(BELL) => {
                    let mut set = self.set.lock();
                    set.listens = false;
                    while keys.len() < max
                        && let Some(key) = set.ready.pop_first()
                    {
                        keys.push(key);
                    }
                    let heard = if set.ready.is_empty() { self.bell.signal(RUNG, Signals::NONE) } else { Ok(()) };
                    match heard.and_then(|()| self.listen(&mut set)) {
                        Err(status) if keys.is_empty() => return Err(status),
                        _ => {}
                    }
                }
                Ok(key) => keys.push(key),
                // The keys that were taken are in no packet any more. An error comes again with the next call.
                Err(_) if !keys.is_empty() => break,
                Err(status) => return Err(status),
            }
            until = MonotonicInstant::ZERO;
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Waits for events until a deadline; returns their number.
    fn wait(&self, out: &mut [MaybeUninit<EpollEvent>], deadline: MonotonicInstant) -> Result<usize> {
        // The keys that were looked at after the deadline.
        let mut late = BTreeSet::new();
        loop {
            let keys = match self.keys(out.len(), deadline) {
                Err(Status::TIMED_OUT) => return Ok(0),
                keys => keys?,
            };
            let mut set = self.set.lock();
            let mut done = 0;
            for (at, &key) in keys.iter().enumerate() {
                match self.look(&mut set, key) {
                    Ok(Some(event)) => {
                        out[done].write(event);
                        done += 1;
                    }
                    Ok(None) => {}
                    // The next call looks at these again. Events come before an error.
                    Err(error) => {
                        self.ring(&mut set, keys[at..].iter().copied())?;
                        if done == 0 {
                            return Err(error);
                        }
                        break;
                    }
                }
            }
            if done > 0 {
                return Ok(done);
            }
            // Packets without an event must not keep a call beyond its time. Each key is looked at once.
            if MonotonicInstant::now() >= deadline {
                let known = late.len();
                late.extend(keys);
                if late.len() == known {
                    return Ok(0);
                }
            }
        }
    }

    /// Waits anew for the descriptors of a description.
    fn arm_again(&self, address: usize) {
        let mut set = self.set.lock();
        let keys: Vec<u64> = set.keys.range((address, 0)..=(address, c_int::MAX)).map(|(_, &key)| key).collect();
        for key in keys {
            let Some(member) = set.members.get_mut(&key).filter(|member| member.wanted) else { continue };
            let Some(description) = member.description.upgrade() else { continue };
            self.cancel(key);
            member.objects = 0;
            if self.arm(&mut set, key, &description, false).is_err() {
                // The next call tries again, and returns the error.
                let _ = self.ring(&mut set, [key]);
            }
        }
    }
}

/// A socket has another state, in which other signals count.
pub fn changed(description: &Description) {
    let address = core::ptr::from_ref(description).addr();
    let all: Vec<Arc<Epoll>> = ALL.lock().iter().filter_map(Weak::upgrade).collect();
    for one in all {
        one.arm_again(address);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn epoll_create1(flags: c_int) -> c_int {
    c::int((|| {
        if flags & !(O_CLOEXEC | EPOLL_CLOEXEC) != 0 {
            return Err(EINVAL);
        }
        let open = Description::new(Object::Epoll(Epoll::new()?), O_RDWR);
        table::add(Arc::new(open), 0, flags != 0)
    })())
}

/// The size is a hint of old systems.
#[unsafe(no_mangle)]
pub extern "C" fn epoll_create(size: c_int) -> c_int {
    if size <= 0 { c::done(Err(EINVAL)) } else { epoll_create1(0) }
}

/// Calls `act` with the set of a descriptor.
fn with_set<T>(fd: c_int, act: impl FnOnce(&Epoll) -> Result<T>) -> Result<T> {
    match &table::get(fd)?.object {
        Object::Epoll(set) => act(set),
        _ => Err(EINVAL),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *const EpollEvent) -> c_int {
    c::done(with_set(set, |epoll| {
        if fd == set {
            return Err(EINVAL);
        }
        // SAFETY: null, or the caller's structure.
        epoll.control(operation, fd, (!event.is_null()).then(|| unsafe { event.read_unaligned() }))
    }))
}

fn wait_in(fd: c_int, events: *mut EpollEvent, count: c_int, deadline: MonotonicInstant) -> Result<usize> {
    let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(EINVAL)?;
    if events.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: the caller's array; the structure has no alignment.
    let out =
        unsafe { core::slice::from_raw_parts_mut(events.cast::<MaybeUninit<EpollEvent>>(), count.min(EVENTS_MAX)) };
    with_set(fd, |epoll| epoll.wait(out, deadline))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(fd: c_int, events: *mut EpollEvent, count: c_int, timeout: c_int) -> c_int {
    c::cancellation_point();
    let deadline = match timeout {
        ..0 => MonotonicInstant::INFINITE,
        0 => MonotonicInstant::ZERO,
        milliseconds => MonotonicInstant::after(Duration::from_millis(milliseconds.into())),
    };
    c::int(wait_in(fd, events, count, deadline))
}

/// `epoll_wait` with a mask of signals, which has no effect, as that of `ppoll`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    fd: c_int,
    events: *mut EpollEvent,
    count: c_int,
    timeout: c_int,
    _mask: *const c_void,
) -> c_int {
    // SAFETY: the same conditions.
    unsafe { epoll_wait(fd, events, count, timeout) }
}
