//! Signals and those who wait for them.
//!
//! Whoever waits is an [`Observer`]: a thread in `object_wait_one` or `wait_many`, or a packet of a port that was asked
//! for by `object_wait_async`. Observers that wait for the same signals of the same object form an [`Interest`], so that
//! a change of signals costs those alone whom it concerns, however many others wait. The protocol:
//!
//! 1. A wait looks at the signals; if one is there, it ends at once and nothing is put on a list.
//! 2. Otherwise an observer is put into an interest in each object and on the list of the handle that it went through,
//!    and the thread is blocked, with a deadline if it has one.
//! 3. The wait ends by whichever comes first, and what ends it takes all the thread's observers off their lists:
//!    - 3A a signal is set ([`Kernel::signal`]),
//!    - 3B the deadline comes ([`Kernel::expire`]),
//!    - 3C the handle that it went through is closed or transferred ([`Kernel::cancel_waits_through`]),
//!    - 3D the thread is killed.
//!
//! A thread that is the only one to wait for the only object that it waits for does without lists: see [`crate::sole`].
//!
//! Because the kernel does one thing at a time, no end can meet another one half done.

use alloc::vec::Vec;

use abi::{
    Signals, Status, ZX_TIME_INFINITE, ZX_WAIT_ASYNC_BOOT_TIMESTAMP, ZX_WAIT_ASYNC_EDGE, ZX_WAIT_ASYNC_TIMESTAMP,
};

use crate::handle::HandleValue;
use crate::kernel::Kernel;
use crate::list::{Chain, Link, List};
use crate::machine::Machine;
use crate::object::{Id, Object, ObjectId};
use crate::port::Port;
use crate::process::Process;
use crate::refusal::Grows;
use crate::slab::Key;
use crate::sole::Sole;
use crate::thread::{Thread, Wait};
use crate::vmo::PAGE_WAIT;

/// Signals of an object, any of which some wait for.
pub(crate) struct Interest {
    object: ObjectId,
    signals: Signals,
    observers: List<Alike>,
    link: Link,
}

/// Who is told.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// The thread's wait ends.
    Thread(Id<Thread>),
    /// The packet is queued on its port.
    Packet(Key),
}

/// One that waits.
pub(crate) struct Observer {
    interest: Key,
    target: Target,
    /// The handle that the wait went through.
    process: Id<Process>,
    handle: HandleValue,
    /// That handle is gone, which is what ends the wait (3C).
    closed: bool,
    alike: Link,
    through: Link,
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
    /// Observers of one interest, those that have waited longest first.
    Alike = Observer.alike;
    /// Observers through one handle.
    Through = Observer.through;
}

/// What one waits for, in `object_wait_many`.
#[derive(Clone, Copy)]
pub struct WaitItem {
    /// The object.
    pub object: ObjectId,
    /// The handle that the wait goes through.
    pub handle: HandleValue,
    /// Any of these ends the wait.
    pub signals: Signals,
}

/// How a wait stands after it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It is over; a wait on objects finds these signals.
    Over(Status),
    /// The thread is blocked.
    Blocked,
}

/// Signals of an object that were set, and that somebody may wait for.
pub(crate) struct News {
    set: Signals,
    now: Signals,
    sole: Option<Sole>,
    alone: bool,
}

impl Object {
    /// Changes the signals; what [`Kernel::tell`] is to be told.
    #[inline(always)]
    pub(crate) fn change_signals(&mut self, clear: Signals, set: Signals) -> Option<News> {
        let before = self.signals;
        let now = (before & !clear) | set;
        self.signals = now;
        let (sole, alone) = (self.sole, self.interests.is_empty());
        if before.contains(now) || sole.is_none() && alone {
            return None;
        }
        Some(News { set: now & !before, now, sole, alone })
    }
}

impl<M: Machine> Kernel<M> {
    /// An interest in signals of an object, which lasts as long as it has observers.
    fn interest(&mut self, object: ObjectId, signals: Signals) -> Result<Key, Status> {
        let list = self.objects.any(object)?.interests;
        let alike = |&key: &Key| self.interests.get(key).is_some_and(|interest| interest.signals == signals);
        if let Some(key) = list.iter(&self.interests).find(alike) {
            return Ok(key);
        }
        let interest = Interest { object, signals, observers: List::default(), link: Link::default() };
        let key = self.interests.insert(interest).map_err(|_| Status::NO_MEMORY)?;
        self.objects.any_mut(object)?.interests.push(&mut self.interests, key);
        Ok(key)
    }

    /// Ends an interest that nobody has any more.
    fn interest_settle(&mut self, key: Key) {
        let Some(interest) = self.interests.get(key).filter(|interest| interest.observers.is_empty()) else { return };
        if let Ok(object) = self.objects.any_mut(interest.object) {
            object.interests.remove(&mut self.interests, key);
        }
        self.interests.remove(key);
    }

    fn observe(&mut self, item: WaitItem, target: Target, process: Id<Process>) -> Result<Key, Status> {
        let interest = self.interest(item.object, item.signals)?;
        let observer = Observer {
            interest,
            target,
            process,
            handle: item.handle,
            closed: false,
            alike: Link::default(),
            through: Link::default(),
        };
        let Ok(key) = self.observers.insert(observer) else {
            self.interest_settle(interest);
            return Err(Status::NO_MEMORY);
        };
        if let Some(interest) = self.interests.get_mut(interest) {
            interest.observers.push(&mut self.observers, key);
        }
        if let Some(watchers) = self.objects.get_mut(process).ok().and_then(|p| p.handles.watchers(item.handle)) {
            watchers.push(&mut self.observers, key);
        }
        Ok(key)
    }

    /// Takes an observer off its lists. Its packet, if it has one, is the caller's to queue or to drop.
    pub(crate) fn unobserve(&mut self, key: Key) {
        let Some(&Observer { interest, process, handle, .. }) = self.observers.get(key) else { return };
        if let Some(interest) = self.interests.get_mut(interest) {
            interest.observers.remove(&mut self.observers, key);
        }
        self.interest_settle(interest);
        if let Some(watchers) = self.objects.get_mut(process).ok().and_then(|p| p.handles.watchers(handle)) {
            watchers.remove(&mut self.observers, key);
        }
        self.observers.remove(key);
    }

    /// Takes several observers off their lists.
    pub(crate) fn unobserve_all(&mut self, observers: Vec<Key>) {
        for key in observers {
            self.unobserve(key);
        }
    }

    /// Ends the wait of an observer for which there will be no signal.
    fn cancel_observer(&mut self, key: Key) {
        let Some(target) = self.observers.get(key).map(|observer| observer.target) else { return };
        match target {
            Target::Thread(thread) => self.finish_wait(thread, Status::CANCELED),
            Target::Packet(packet) => self.packet_drop(packet),
        }
        // The wait's end has taken it off; nothing is left to be done.
        self.unobserve(key);
    }

    /// Ends whatever still observes an object that is about to go.
    pub(crate) fn drop_observers_of(&mut self, object: ObjectId) {
        self.sole_cancel(object);
        while let Some(interest) = self.objects.any(object).ok().and_then(|o| o.interests.first()) {
            match self.interests.get(interest).and_then(|interest| interest.observers.first()) {
                Some(observer) => self.cancel_observer(observer),
                None => self.interest_settle(interest),
            }
        }
    }

    /// The signals of an object.
    #[inline]
    pub fn signals(&self, object: ObjectId) -> Signals {
        self.objects.any(object).map_or(Signals::NONE, |o| o.signals)
    }

    /// Changes the signals of an object and ends the waits (3A) that this satisfies.
    #[inline]
    pub fn signal(&mut self, id: ObjectId, clear: Signals, set: Signals) {
        let Ok(object) = self.objects.any_mut(id) else { return };
        let news = object.change_signals(clear, set);
        self.tell(id, news);
    }

    /// Ends the waits (3A) that a change of an object's signals satisfies.
    #[inline(always)]
    pub(crate) fn tell(&mut self, id: ObjectId, news: Option<News>) {
        let Some(News { set, now, sole, alone }) = news else { return };
        self.sole_notify(sole, set);
        if !alone {
            self.notify(id, set, now);
        }
    }

    /// Signals of an object were set. Whoever waits for one waits because it was not, or for it to be set anew: so an
    /// interest in it is satisfied as a whole.
    fn notify(&mut self, id: ObjectId, set: Signals, now: Signals) {
        let interests = |kernel: &Self| kernel.objects.any(id).map(|object| object.interests).unwrap_or_default();
        let mut next = interests(self).first();
        while let Some(interest) = next {
            let Some(signals) = self.interests.get(interest).map(|interest| interest.signals) else {
                // A thread that waited for several things has taken it along.
                next = interests(self).first();
                continue;
            };
            next = interests(self).after(&self.interests, next);
            if signals.intersects(set) {
                self.satisfy(interest, now);
            }
        }
    }

    /// Tells all observers of an interest.
    fn satisfy(&mut self, interest: Key, now: Signals) {
        while let Some(key) = self.interests.get(interest).and_then(|interest| interest.observers.first()) {
            let Some(target) = self.observers.get(key).map(|observer| observer.target) else { return };
            match target {
                Target::Thread(thread) => {
                    self.finish_wait(thread, Status::OK);
                    self.unobserve(key);
                }
                Target::Packet(packet) => {
                    self.unobserve(key);
                    self.packet_satisfied(packet, now);
                }
            }
        }
    }

    /// The first wait that goes through a handle.
    fn watcher(&mut self, process: Id<Process>, handle: HandleValue) -> Option<Key> {
        self.objects.get_mut(process).ok()?.handles.watchers(handle)?.first()
    }

    /// Ends the waits (3C) that go through a handle which is about to leave its process's table.
    pub(crate) fn cancel_waits_through(&mut self, process: Id<Process>, handle: HandleValue) {
        self.sole_cancel_through(process, handle);
        let Ok(p) = self.objects.get_mut(process) else { return };
        let Some(watchers) = p.handles.watchers(handle).map(|watchers| *watchers) else { return };
        let mut next = watchers.first();
        while let Some(key) = next {
            if let Some(observer) = self.observers.get_mut(key) {
                observer.closed = true;
            }
            next = watchers.after(&self.observers, next);
        }
        while let Some(key) = self.watcher(process, handle) {
            self.cancel_observer(key);
        }
    }

    /// `object_wait_one` and `object_wait_many`: steps 1 and 2. What was observed is written to the user's memory at
    /// `out`: one word of signals, or the `pending` field of each item.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn wait(
        &mut self,
        thread: Id<Thread>,
        items: &[WaitItem],
        deadline: i64,
        out: Observed,
    ) -> Result<Waiting, Status> {
        if items.iter().any(|item| self.signals(item.object).intersects(item.signals)) {
            let found = self.write_observed(thread, items.iter().map(|i| (i.object, false)), out);
            return Ok(Waiting::Over(found));
        }
        if deadline != ZX_TIME_INFINITE && deadline <= self.machine.now() {
            let found = self.write_observed(thread, items.iter().map(|i| (i.object, false)), out);
            return Ok(Waiting::Over(if found == Status::OK { Status::TIMED_OUT } else { found }));
        }
        let process = self.objects.get(thread)?.holder;
        if let [item] = items
            && self.sole_begin(thread, process, item)
        {
            return self.block(thread, Wait::Sole { object: item.object, out, closed: false }, deadline);
        }
        let mut observers = Vec::new();
        observers.room_exact(items.len())?;
        for item in items {
            match self.observe(*item, Target::Thread(thread), process) {
                Ok(key) => observers.push(key),
                Err(status) => {
                    self.unobserve_all(observers);
                    return Err(status);
                }
            }
        }
        self.block(thread, Wait::Signals { observers, out }, deadline)
    }

    /// Writes what a wait found of each object, and whether the handle to it was closed meanwhile.
    fn write_observed(
        &mut self,
        thread: Id<Thread>,
        objects: impl Iterator<Item = (ObjectId, bool)>,
        out: Observed,
    ) -> Status {
        let Ok(aspace) = self.aspace_of_thread(thread) else { return Status::OK };
        for (i, (object, closed)) in objects.enumerate() {
            let Some(address) = out.place(i) else { return Status::OK };
            let signals = self.found(object, closed);
            if let Err(status) = self.copy_out(aspace, address, &signals.to_le_bytes()) {
                return status;
            }
        }
        Status::OK
    }

    /// What a wait finds of an object.
    pub(crate) fn found(&self, object: ObjectId, closed: bool) -> u32 {
        let closed = if closed { Signals::HANDLE_CLOSED } else { Signals::NONE };
        (self.signals(object) | closed).bits()
    }

    /// What a wait on signals leaves behind when it ends with `status`; returns the status to report, or, if the memory
    /// for it must be waited for, what is to be written there.
    pub(crate) fn signals_wait_over(
        &mut self,
        thread: Id<Thread>,
        observers: Vec<Key>,
        out: Observed,
        status: Status,
    ) -> Result<Status, Vec<(u64, Vec<u8>)>> {
        let mut objects = Vec::new();
        if objects.room_exact(observers.len()).is_ok() {
            let found = |observer: &Observer| Some((self.interests.get(observer.interest)?.object, observer.closed));
            objects.extend(observers.iter().filter_map(|&key| found(self.observers.get(key)?)));
        }
        self.unobserve_all(observers);
        match self.write_observed(thread, objects.iter().copied(), out) {
            PAGE_WAIT => {
                let one = |(i, &(object, closed)): (usize, &(ObjectId, bool))| {
                    Some((out.place(i)?, self.found(object, closed).to_le_bytes().to_vec()))
                };
                Err(objects.iter().enumerate().filter_map(one).collect())
            }
            written => Ok(if status == Status::OK { written } else { status }),
        }
    }

    /// `object_wait_async`. Says whether more waits are bound to the port than anybody needs.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn wait_async(
        &mut self,
        process: Id<Process>,
        item: WaitItem,
        port: Id<Port>,
        key: u64,
        options: u32,
    ) -> Result<bool, Status> {
        debug_assert!(options & !(ZX_WAIT_ASYNC_EDGE | ZX_WAIT_ASYNC_TIMESTAMP | ZX_WAIT_ASYNC_BOOT_TIMESTAMP) == 0);
        let packet = self.packet_promise(port, key, item.signals, (process, item.handle), options)?;
        let now = self.signals(item.object);
        if options & ZX_WAIT_ASYNC_EDGE == 0 && now.intersects(item.signals) {
            self.packet_satisfied(packet, now);
            return Ok(false);
        }
        let observer = self.observe(item, Target::Packet(packet), process);
        let observer = observer.inspect_err(|_| self.packet_drop(packet))?;
        self.packet_observes(packet, observer);
        Ok(self.port_is_overwatched(port))
    }
}

/// Where a wait's findings go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observed {
    /// The caller does not want them.
    Nowhere,
    /// The address of one `zx_signals_t`.
    One(u64),
    /// The address of an array of `zx_wait_item_t`.
    Many(u64),
}

impl Observed {
    /// Where the signals of the `i`th object go, if they are wanted.
    pub(crate) fn place(self, i: usize) -> Option<u64> {
        match self {
            Observed::Nowhere => None,
            Observed::One(address) => Some(address),
            // `pending` is the third of the item's 4-byte fields.
            Observed::Many(address) => Some(address.wrapping_add(i as u64 * 12 + 8)),
        }
    }
}
