//! Signals and those who wait for them.
//!
//! Whoever waits is an [`Observer`] in the object's list: a thread in `object_wait_one` or `wait_many`, or a port
//! that asked by `object_wait_async`. The protocol:
//!
//! 1. A wait looks at the signals; if one is there, it ends at once and nothing is put on a list.
//! 2. Otherwise an observer is put on each object's list, the handle that it went through is marked as watched, and
//!    the thread is blocked, with a deadline if it has one.
//! 3. The wait ends by whichever comes first, and what ends it takes all the thread's observers off the lists:
//!    - 3A a signal is set ([`Kernel::signal`]),
//!    - 3B the deadline comes ([`Kernel::expire`]),
//!    - 3C the handle that it went through is closed or transferred ([`Kernel::cancel_waits_through`]),
//!    - 3D the thread is killed.
//!
//! Because the kernel does one thing at a time, no end can meet another one half done.

use alloc::vec::Vec;

use abi::{Signals, Status, ZX_WAIT_ASYNC_BOOT_TIMESTAMP, ZX_WAIT_ASYNC_EDGE, ZX_WAIT_ASYNC_TIMESTAMP};

use crate::handle::HandleValue;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Id, ObjectId};
use crate::port::Port;
use crate::process::Process;
use crate::slab::Key;
use crate::thread::{Thread, Wait};

/// Who is told.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// The thread's wait ends.
    Thread(Id<Thread>),
    /// A packet is queued.
    Port { port: Id<Port>, key: u64, options: u32 },
}

/// One that waits for signals of one object.
pub(crate) struct Observer {
    pub object: ObjectId,
    pub signals: Signals,
    pub target: Target,
    /// The handle that the wait went through.
    pub process: Id<Process>,
    pub handle: HandleValue,
    /// That handle is gone, which is what ends the wait (3C).
    closed: bool,
    prev: Option<Key>,
    next: Option<Key>,
    /// The port's own list of what it observes.
    pub port_prev: Option<Key>,
    pub port_next: Option<Key>,
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

impl<M: Machine> Kernel<M> {
    pub(crate) fn observe(
        &mut self,
        object: ObjectId,
        signals: Signals,
        target: Target,
        process: Id<Process>,
        handle: HandleValue,
    ) -> Result<Key, Status> {
        let head = self.objects.any(object)?.observers;
        let observer = Observer {
            object,
            signals,
            target,
            process,
            handle,
            closed: false,
            prev: None,
            next: head,
            port_prev: None,
            port_next: None,
        };
        let key = self.observers.insert(observer).map_err(|_| Status::NO_MEMORY)?;
        if let Some(head) = head.and_then(|h| self.observers.get_mut(h)) {
            head.prev = Some(key);
        }
        self.objects.any_mut(object)?.observers = Some(key);
        if let Ok(process) = self.objects.get_mut(process) {
            process.handles.watch(handle);
        }
        Ok(key)
    }

    /// Takes an observer off its lists.
    pub(crate) fn unobserve(&mut self, key: Key) -> Option<Observer> {
        if let Some(Target::Port { port, .. }) = self.observers.get(key).map(|o| o.target) {
            self.port_forget(port, key);
        }
        let observer = self.observers.remove(key)?;
        if let Some(next) = observer.next.and_then(|k| self.observers.get_mut(k)) {
            next.prev = observer.prev;
        }
        match observer.prev.and_then(|k| self.observers.get_mut(k)) {
            Some(prev) => prev.next = observer.next,
            None => {
                if let Ok(object) = self.objects.any_mut(observer.object) {
                    object.observers = observer.next;
                }
            }
        }
        Some(observer)
    }

    /// Takes several observers off their lists.
    pub(crate) fn unobserve_all(&mut self, observers: Vec<Key>) {
        for key in observers {
            self.unobserve(key);
        }
    }

    /// Ends whatever still observes an object that is about to go.
    pub(crate) fn drop_observers_of(&mut self, object: ObjectId) {
        while let Some(key) = self.objects.any(object).ok().and_then(|o| o.observers) {
            if let Some(Observer { target: Target::Thread(thread), .. }) = self.unobserve(key) {
                self.finish_wait(thread, Status::CANCELED);
            }
        }
    }

    /// The signals of an object.
    pub fn signals(&self, object: ObjectId) -> Signals {
        self.objects.any(object).map_or(Signals::NONE, |o| o.signals)
    }

    /// Changes the signals of an object and ends the waits (3A) that this satisfies.
    pub fn signal(&mut self, id: ObjectId, clear: Signals, set: Signals) {
        let Ok(object) = self.objects.any_mut(id) else { return };
        let before = object.signals;
        let after = (before & !clear) | set;
        object.signals = after;
        if object.observers.is_none() || after == before {
            return;
        }
        self.notify(id, before, after);
    }

    fn notify(&mut self, id: ObjectId, before: Signals, after: Signals) {
        // Threads and ports are served after the walk, because serving one changes the list.
        let mut cursor = self.objects.any(id).ok().and_then(|o| o.observers);
        let mut threads = core::mem::take(&mut self.scratch);
        threads.clear();
        while let Some(key) = cursor {
            let Some(observer) = self.observers.get(key) else { break };
            cursor = observer.next;
            let wanted = observer.signals;
            match observer.target {
                Target::Thread(thread) => {
                    if wanted.intersects(after) && threads.try_reserve(1).is_ok() {
                        threads.push(thread.object());
                    }
                }
                Target::Port { port, key: packet_key, options } => {
                    let fires = if options & ZX_WAIT_ASYNC_EDGE != 0 {
                        wanted.intersects(after & !before)
                    } else {
                        wanted.intersects(after)
                    };
                    if fires {
                        let through = (observer.process, observer.handle);
                        self.unobserve(key);
                        self.port_signalled(port, (id, through), packet_key, options, wanted, after);
                    }
                }
            }
        }
        // The list has the newest first; those who waited longest are served first.
        while let Some(thread) = threads.pop() {
            self.finish_wait(Id::new(thread), Status::OK);
        }
        self.scratch = threads;
    }

    /// Ends the waits (3C) that went through a handle which is no longer in its process's table.
    pub(crate) fn cancel_waits_through(&mut self, object: ObjectId, process: Id<Process>, handle: HandleValue) {
        let mut cursor = self.objects.any(object).ok().and_then(|o| o.observers);
        let mut threads = core::mem::take(&mut self.scratch);
        threads.clear();
        while let Some(key) = cursor {
            let Some(observer) = self.observers.get_mut(key) else { break };
            cursor = observer.next;
            if observer.handle != handle || observer.process != process {
                continue;
            }
            observer.closed = true;
            match observer.target {
                Target::Thread(thread) => {
                    if threads.try_reserve(1).is_ok() {
                        threads.push(thread.object());
                    }
                }
                Target::Port { .. } => {
                    self.unobserve(key);
                }
            }
        }
        while let Some(thread) = threads.pop() {
            self.finish_wait(Id::new(thread), Status::CANCELED);
        }
        self.scratch = threads;
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
        if deadline <= self.machine.now() {
            let found = self.write_observed(thread, items.iter().map(|i| (i.object, false)), out);
            return Ok(Waiting::Over(if found == Status::OK { Status::TIMED_OUT } else { found }));
        }
        let process = self.objects.get(thread)?.process;
        let mut observers = Vec::new();
        observers.try_reserve_exact(items.len()).map_err(|_| Status::NO_MEMORY)?;
        for item in items {
            match self.observe(item.object, item.signals, Target::Thread(thread), process, item.handle) {
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
            let closed = if closed { Signals::HANDLE_CLOSED } else { Signals::NONE };
            let signals = (self.signals(object) | closed).bits();
            let address = match out {
                Observed::Nowhere => return Status::OK,
                Observed::One(address) => address,
                // `pending` is the third of the item's 4-byte fields.
                Observed::Many(address) => address.wrapping_add(i as u64 * 12 + 8),
            };
            if let Err(status) = self.copy_out(aspace, address, &signals.to_le_bytes()) {
                return status;
            }
        }
        Status::OK
    }

    /// What a wait on signals leaves behind when it ends with `status`; returns the status to report.
    pub(crate) fn signals_wait_over(
        &mut self,
        thread: Id<Thread>,
        observers: Vec<Key>,
        out: Observed,
        status: Status,
    ) -> Status {
        let mut objects = Vec::new();
        if objects.try_reserve_exact(observers.len()).is_ok() {
            objects.extend(observers.iter().filter_map(|&key| self.observers.get(key).map(|o| (o.object, o.closed))));
        }
        self.unobserve_all(observers);
        let written = self.write_observed(thread, objects.into_iter(), out);
        if status == Status::OK { written } else { status }
    }

    /// `object_wait_async`.
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
    ) -> Result<(), Status> {
        debug_assert!(options & !(ZX_WAIT_ASYNC_EDGE | ZX_WAIT_ASYNC_TIMESTAMP | ZX_WAIT_ASYNC_BOOT_TIMESTAMP) == 0);
        self.port_reserve(port)?;
        let now = self.signals(item.object);
        if options & ZX_WAIT_ASYNC_EDGE == 0 && now.intersects(item.signals) {
            let source = (item.object, (process, item.handle));
            self.port_signalled(port, source, key, options, item.signals, now);
            return Ok(());
        }
        let target = Target::Port { port, key, options };
        let observer = self.observe(item.object, item.signals, target, process, item.handle)?;
        self.port_remember(port, observer);
        Ok(())
    }

    /// Ends the waits that a port set up on an object with a key (`port_cancel`). Says whether there was one.
    pub(crate) fn cancel_async(
        &mut self,
        object: ObjectId,
        handle: Option<(Id<Process>, HandleValue)>,
        port: Id<Port>,
        key: u64,
    ) -> bool {
        let mut cursor = self.objects.any(object).ok().and_then(|o| o.observers);
        let mut found = false;
        while let Some(at) = cursor {
            let Some(observer) = self.observers.get(at) else { break };
            cursor = observer.next;
            let same_handle = handle.is_none_or(|(p, h)| observer.process == p && observer.handle == h);
            if same_handle && matches!(observer.target, Target::Port { port: p, key: k, .. } if p == port && k == key) {
                self.unobserve(at);
                found = true;
            }
        }
        found
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
