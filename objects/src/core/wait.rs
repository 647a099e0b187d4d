//! Signals and their observers.
//!
//! An [`Observer`] is a thread in `object_wait_one` or `wait_many`, or a port packet requested by `object_wait_async`.
//! Observers that wait for the same signals of the same object form an [`Interest`], so that a change of signals costs
//! only the observers that it concerns, however many others there are. The protocol:
//!
//! 1. A wait looks at the signals; if one of them is set, it ends at once and enters no list.
//! 2. Otherwise an observer enters an interest in each object and the list of the handle through which it waits, and
//!    the thread is blocked, with a deadline if it has one.
//! 3. The first of these events ends the wait, and removes all the thread's observers from their lists:
//!    - 3A a signal is set ([`Kernel::signal`]),
//!    - 3B the deadline expires ([`Kernel::expire`]),
//!    - 3C the handle is closed or transferred ([`Kernel::cancel_waits_through`]),
//!    - 3D the thread is killed.
//!
//! If an object has only one waiting thread, and the thread waits only for this object, no lists are used: see
//! [`crate::core::sole_waiter`].
//!
//! Of the observers that one change of signals satisfies, the newest is notified first, whatever signals each waits
//! for, as in Zircon. A sole waiter came before all others, so it is the last.
//!
//! Many observers may wait for one signal or through one handle, and other threads must not have to wait until all are
//! notified. So 3A and 3C notify [`AT_ONCE`] observers directly, and the reaper ([`crate::kernel::reaper`]) the rest in
//! slices, before the call is answered:
//!
//! 4. A satisfied interest leaves its object and is *settled*: it stores the signals of that time. Whatever ends the
//!    waits of its observers later, they report these signals ([`Kernel::signals_wait_over`],
//!    [`Kernel::cancel_observer`]). Later waits get another interest.
//! 5. Observers through a closed handle move as a whole from its list to a list of observers to cancel. An observer
//!    does not know which of the two lists it is in. Removal from a ring needs the list only for its first entry, and
//!    that is compared ([`Kernel::unobserve`]).
//!
//! Because the kernel does one thing at a time, the end of one wait otherwise never overlaps another.

use alloc::vec::Vec;

use abi::{Signals, Status};

use crate::containers::list::{Chain, Link, List};
use crate::containers::slab::Key;
use crate::core::handle::HandleValue;
use crate::core::object::{Id, Object, ObjectId};
use crate::core::sole_waiter::SoleWaiter;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// Number of observers notified directly.
const AT_ONCE: usize = 64;
/// Looking at this many interests costs as much as notifying one observer.
const LOOKS: usize = 16;
/// Maximum number of different signal sets of one object that have waiters: each change of its signals looks at all of
/// them.
const INTERESTS: usize = 256;

/// Most bytes that a thread's waits take, for as many objects as one call can name. The thread is charged for them from
/// the start, so that no wait fails for its job's quota.
pub(crate) const WAITS: u64 =
    abi::ZX_WAIT_MANY_MAX_ITEMS as u64 * (size_of::<Observer>() + size_of::<Interest>() + size_of::<Key>()) as u64;

/// A set of signals of an object, with the observers that wait for any of them.
pub(crate) struct Interest {
    pub(crate) object: ObjectId,
    signals: Signals,
    /// For a settled interest (step 4): the object's signals when one of these was set.
    pub(crate) settled: Option<Signals>,
    observers: List<Alike>,
    link: Link,
}

/// What an observer notifies.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// A thread, whose wait ends.
    Thread(ObjectId),
    /// A packet, which is queued on its port.
    Packet(Key),
}

/// An observer.
pub(crate) struct Observer {
    pub(crate) interest: Key,
    /// Sequence number: a newer observer has a higher one.
    number: u64,
    pub(crate) target: Target,
    /// The handle through which it waits.
    pub(crate) process: ObjectId,
    pub(crate) handle: HandleValue,
    /// The handle was closed, which ends the wait (3C).
    pub(crate) closed: bool,
    alike: Link,
    through: Link,
}

#[cfg(any(test, feature = "fake"))]
impl Observer {
    /// Whether it belongs to a thread.
    pub fn is_thread(&self, id: ObjectId) -> bool {
        matches!(self.target, Target::Thread(thread) if thread == id)
    }

    /// Whether its target exists and waits.
    pub fn is_of<M: Machine>(&self, kernel: &Kernel<M>) -> bool {
        let waits = match self.target {
            Target::Packet(packet) => kernel.packets.get(packet).is_some(),
            Target::Thread(thread) => {
                let thread = kernel.objects.get::<crate::task::thread::Thread>(Id::new(thread));
                thread.is_ok_and(|thread| matches!(thread.wait, crate::task::blocking::Wait::Signals { .. }))
            }
        };
        waits && kernel.interests.get(self.interest).is_some()
    }
}

macro_rules! chains {
    ($($(#[$doc:meta])* $chain:ident = $entry:ident.$field:ident;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $chain;

            impl Chain for $chain {
                type Entry = $entry;
                fn link(entry: &$entry) -> Option<&Link> {
                    Some(&entry.$field)
                }
                fn link_mut(entry: &mut $entry) -> Option<&mut Link> {
                    Some(&mut entry.$field)
                }
            }
        )*
    };
}

chains! {
    /// Interests in one object.
    Interests = Interest.link;
    /// Observers of one interest, newest first.
    Alike = Observer.alike;
    /// Observers through one handle.
    WaitHandle = Observer.through;
}

/// Threads that wait for the same thing, in order of arrival.
pub struct Waiters;

/// One object of a wait.
#[derive(Clone, Copy)]
pub struct WaitItem {
    /// The object.
    pub object: ObjectId,
    /// The handle through which it waits.
    pub handle: HandleValue,
    /// Any of these signals ends the wait.
    pub signals: Signals,
}

/// The state of a wait after it was requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It is over; a wait on objects reports these signals.
    Over(Status),
    /// The thread is blocked.
    Blocked,
}

/// A change of an object's signals that may satisfy observers.
pub(crate) struct SignalChange {
    set: Signals,
    now: Signals,
    sole_waiter: Option<SoleWaiter>,
    alone: bool,
}

/// The satisfied interest whose newest observer is to be notified first.
struct Newest {
    interest: Key,
    /// The number of the newest observer in any other satisfied interest; 0 if there is none.
    others: u64,
    /// Number of interests that were looked at to find it.
    looks: usize,
}

impl Object {
    /// Changes the signals; returns the argument for [`Kernel::notify_change`].
    #[inline(always)]
    pub(crate) fn change_signals(&mut self, clear: Signals, set: Signals) -> Option<SignalChange> {
        let before = self.signals;
        let now = (before & !clear) | set;
        self.signals = now;
        let (sole_waiter, alone) = (self.sole_waiter, self.interests.is_empty());
        if before.contains(now) || sole_waiter.is_none() && alone {
            return None;
        }
        Some(SignalChange { set: now & !before, now, sole_waiter, alone })
    }
}

impl<M: Machine> Kernel<M> {
    /// Finds or creates the interest in signals of an object. It lasts as long as it has observers.
    fn interest(&mut self, object: ObjectId, signals: Signals) -> Result<Key, Status> {
        let list = self.objects.any(object)?.interests;
        let mut others = 0;
        for key in list.iter(&self.interests) {
            if self.interests.get(key).is_some_and(|interest| interest.signals == signals) {
                return Ok(key);
            }
            others += 1;
        }
        if others >= INTERESTS {
            return Err(Status::NO_MEMORY);
        }
        let interest = Interest { object, signals, settled: None, observers: List::default(), link: Link::default() };
        let key = self.interests.insert(interest).map_err(|_| Status::NO_MEMORY)?;
        self.objects.any_mut(object)?.interests.push(&mut self.interests, key);
        Ok(key)
    }

    /// Destroys an interest without observers.
    fn interest_free_if_empty(&mut self, key: Key) {
        let Some(interest) = self.interests.get(key).filter(|interest| interest.observers.is_empty()) else { return };
        if interest.settled.is_some() {
            self.reaper.settled.remove(&mut self.interests, key);
        } else if let Ok(object) = self.objects.any_mut(interest.object) {
            object.interests.remove(&mut self.interests, key);
        }
        self.interests.remove(key);
    }

    pub(crate) fn observe(&mut self, item: WaitItem, target: Target, process: ObjectId) -> Result<Key, Status> {
        let interest = self.interest(item.object, item.signals)?;
        self.observed += 1;
        let observer = Observer {
            interest,
            number: self.observed,
            target,
            process,
            handle: item.handle,
            closed: false,
            alike: Link::default(),
            through: Link::default(),
        };
        let Ok(key) = self.observers.insert(observer) else {
            self.interest_free_if_empty(interest);
            return Err(Status::NO_MEMORY);
        };
        if let Some(interest) = self.interests.get_mut(interest) {
            interest.observers.push_first(&mut self.observers, key);
        }
        if let Some(watchers) = self.objects.handles_mut(process).and_then(|handles| handles.watchers(item.handle)) {
            watchers.push(&mut self.observers, key);
        }
        Ok(key)
    }

    /// Removes an observer from its lists. The caller queues or drops its packet, if it has one.
    pub(crate) fn unobserve(&mut self, key: Key) {
        let Some(&Observer { interest, process, handle, .. }) = self.observers.get(key) else { return };
        if let Some(interest) = self.interests.get_mut(interest) {
            interest.observers.remove(&mut self.observers, key);
        }
        self.interest_free_if_empty(interest);
        if self.reaper.cancelled.first() == Some(key) {
            self.reaper.cancelled.remove(&mut self.observers, key);
        } else {
            // Step 5: after its handle was closed, this is the list of another handle, in which the observer is not the
            // first, or there is none.
            let watchers = self.objects.handles_mut(process).and_then(|handles| handles.watchers(handle));
            watchers.unwrap_or(&mut List::default()).remove(&mut self.observers, key);
        }
        self.observers.remove(key);
    }

    /// Removes several observers from their lists.
    pub(crate) fn unobserve_all(&mut self, observers: Vec<Key>) {
        for key in observers {
            self.unobserve(key);
        }
    }

    /// Ends the wait of an observer whose signals will not come; a packet of a settled interest is delivered (step 4).
    pub(crate) fn cancel_observer(&mut self, key: Key) {
        let Some(&Observer { target, interest, .. }) = self.observers.get(key) else { return };
        match (target, self.interests.get(interest).and_then(|interest| interest.settled)) {
            (Target::Packet(_), Some(now)) => self.satisfy_one(key, now),
            (Target::Packet(packet), None) => self.packet_drop(packet),
            (Target::Thread(thread), _) => self.finish_wait(Id::new(thread), Status::CANCELED),
        }
        // If the end of the wait has removed it, this does nothing.
        self.unobserve(key);
    }

    /// Ends a wait on an object that is being destroyed; says whether there was one.
    pub(crate) fn drop_observer_of(&mut self, object: ObjectId) -> bool {
        self.sole_waiter_cancel(object);
        let Some(interest) = self.objects.any(object).ok().and_then(|o| o.interests.first()) else { return false };
        match self.interests.get(interest).and_then(|interest| interest.observers.first()) {
            Some(observer) => self.cancel_observer(observer),
            None => self.interest_free_if_empty(interest),
        }
        true
    }

    /// The signals of an object.
    #[inline]
    pub fn signals(&self, object: ObjectId) -> Signals {
        self.objects.any(object).map_or(Signals::NONE, |o| o.signals)
    }

    /// Changes the signals of an object and ends the waits (3A) that the change satisfies.
    #[inline]
    pub fn signal(&mut self, id: ObjectId, clear: Signals, set: Signals) {
        let Ok(object) = self.objects.any_mut(id) else { return };
        let change = object.change_signals(clear, set);
        self.notify_change(id, change);
    }

    /// Ends the waits (3A) that a change of an object's signals satisfies.
    #[inline(always)]
    pub(crate) fn notify_change(&mut self, id: ObjectId, change: Option<SignalChange>) {
        let Some(SignalChange { set, now, sole_waiter, alone }) = change else { return };
        if !alone {
            self.notify(id, set, now);
        }
        self.sole_waiter_notify(sole_waiter, set);
    }

    /// Signals of an object were set. An observer of one of them waits because it was not set, or for it to be set
    /// again, so the whole interest is satisfied.
    fn notify(&mut self, id: ObjectId, set: Signals, now: Signals) {
        let mut at_once = AT_ONCE;
        while at_once > 0 {
            let Some(Newest { interest, others, looks }) = self.newest(id, set) else { return };
            at_once = at_once.saturating_sub(looks / LOOKS);
            while at_once > 0
                && let Some(observer) = self.interests.get(interest).and_then(|interest| interest.observers.first())
                && self.observers.get(observer).is_some_and(|observer| observer.number > others)
            {
                at_once -= 1;
                self.satisfy_one(observer, now);
            }
        }
        self.settle_all(id, set, now);
    }

    /// Of the interests that signals satisfy, the one that has the newest observer.
    fn newest(&self, id: ObjectId, set: Signals) -> Option<Newest> {
        let (mut newest, mut number) = (None, 0);
        let (mut others, mut looks) = (0, 0);
        for key in self.objects.any(id).ok()?.interests.iter(&self.interests) {
            looks += 1;
            let Some(interest) = self.interests.get(key).filter(|interest| interest.signals.intersects(set)) else {
                continue;
            };
            let first = interest.observers.first().and_then(|key| self.observers.get(key));
            let Some(first) = first.map(|observer| observer.number) else { continue };
            if first > number {
                others = number;
                (newest, number) = (Some(key), first);
            } else {
                others = others.max(first);
            }
        }
        newest.map(|interest| Newest { interest, others, looks })
    }

    /// Step 4 for all satisfied interests in an object.
    #[cold]
    fn settle_all(&mut self, id: ObjectId, set: Signals, now: Signals) {
        let interests = |kernel: &Self| kernel.objects.any(id).map(|object| object.interests).unwrap_or_default();
        let mut next = interests(self).first();
        while let Some(key) = next {
            next = interests(self).after(&self.interests, next);
            if self.interests.get(key).is_some_and(|interest| interest.signals.intersects(set)) {
                self.settle(key, now);
            }
        }
    }

    /// Step 4 for one interest.
    fn settle(&mut self, key: Key, now: Signals) {
        let Some(interest) = self.interests.get_mut(key) else { return };
        interest.settled = Some(now);
        if let Ok(object) = self.objects.any_mut(interest.object) {
            object.interests.remove(&mut self.interests, key);
        }
        self.reaper.settled.push_first(&mut self.interests, key);
        self.defer_notifications();
    }

    /// Notifies an observer that its interest is satisfied.
    fn satisfy_one(&mut self, key: Key, now: Signals) {
        let Some(target) = self.observers.get(key).map(|observer| observer.target) else { return };
        match target {
            Target::Thread(thread) => {
                self.finish_wait(Id::new(thread), Status::OK);
                self.unobserve(key);
            }
            Target::Packet(packet) => {
                self.unobserve(key);
                self.packet_satisfied(packet, now);
            }
        }
    }

    /// Steps 4 and 5: notifies one observer that was not notified yet. Says whether there was one.
    pub(crate) fn notify_one(&mut self) -> bool {
        if let Some(observer) = self.reaper.cancelled.first() {
            self.cancel_closed(observer);
        } else if let Some(key) = self.reaper.settled.first() {
            let told = |interest: &Interest| Some((interest.observers.first()?, interest.settled?));
            match self.interests.get(key).and_then(told) {
                Some((observer, now)) => self.satisfy_one(observer, now),
                None => self.interest_free_if_empty(key),
            }
        } else {
            return false;
        }
        true
    }

    /// The first observer through a handle.
    fn watcher(&mut self, process: ObjectId, handle: HandleValue) -> Option<Key> {
        self.objects.handles_mut(process)?.watchers(handle)?.first()
    }

    /// Ends the waits (3C) through a handle that is about to leave its process's table.
    pub(crate) fn cancel_waits_through(&mut self, process: ObjectId, handle: HandleValue) {
        self.sole_waiter_cancel_through(process, handle);
        for _ in 0..AT_ONCE {
            let Some(key) = self.watcher(process, handle) else { return };
            self.cancel_closed(key);
        }
        // Step 5.
        if let Some(watchers) = self.objects.handles_mut(process).and_then(|handles| handles.watchers(handle)) {
            self.reaper.cancelled.append(&mut self.observers, core::mem::take(watchers));
            self.defer_notifications();
        }
    }

    /// The signals that a wait reports for an object: the current ones and those that it met.
    pub(crate) fn found(&self, object: ObjectId, met: Signals) -> u32 {
        (self.signals(object) | met).bits()
    }
}

/// The additional signals of a wait whose handle may have been closed.
#[inline(always)]
pub(crate) fn met(closed: bool) -> Signals {
    Signals::from_bits_retain(u32::from(closed) * Signals::HANDLE_CLOSED.bits())
}

/// Where a wait's observed signals are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observed {
    /// Nowhere.
    Nowhere,
    /// The address of one `zx_signals_t`.
    One(u64),
    /// The address of an array of `zx_wait_item_t`.
    Many(u64),
}

impl Observed {
    /// The address for the signals of the `i`th object, if there is one.
    pub(crate) fn place(self, i: usize) -> Option<u64> {
        match self {
            Observed::Nowhere => None,
            Observed::One(address) => Some(address),
            // `pending` is the third of the item's 4-byte fields.
            Observed::Many(address) => Some(address.wrapping_add(i as u64 * 12 + 8)),
        }
    }
}
