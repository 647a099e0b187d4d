//! Threads that wait for signals of objects and for packets of ports: the threads' part of the protocols of
//! [`crate::core::wait`], [`crate::core::sole_waiter`] and [`crate::core::port`].

use alloc::vec::Vec;

use abi::{
    Signals, Status, ZX_TIME_INFINITE, ZX_WAIT_ASYNC_BOOT_TIMESTAMP, ZX_WAIT_ASYNC_EDGE, ZX_WAIT_ASYNC_TIMESTAMP,
};

use crate::containers::growth::Grows;
use crate::containers::slab::Key;
use crate::core::continuation::PAGE_WAIT;
use crate::core::handle::{HandleTable, HandleValue};
use crate::core::object::{Id, ObjectId, Objects};
use crate::core::port::{PACKET_SIZE, Port};
use crate::core::wait::{Observed, Observer, Target, WaitItem, Waiting, met};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::blocking::Wait;
use crate::task::process::Process;
use crate::task::thread::Thread;

impl Objects {
    /// The handle table of a process.
    #[inline]
    pub(crate) fn handles(&self, process: ObjectId) -> Option<&HandleTable> {
        self.get(Id::<Process>::new(process)).ok().map(|process| &process.handles)
    }

    /// The same, mutable.
    #[inline]
    pub(crate) fn handles_mut(&mut self, process: ObjectId) -> Option<&mut HandleTable> {
        self.get_mut(Id::<Process>::new(process)).ok().map(|process| &mut process.handles)
    }
}

impl<M: Machine> Kernel<M> {
    /// `object_wait_one` and `object_wait_many`: steps 1 and 2. The observed signals are written to the user's memory
    /// at `out`: one word, or the `pending` field of each item.
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
            let found = self.write_observed(thread, items.iter().map(|i| (i.object, Signals::NONE)), out);
            return Ok(Waiting::Over(found));
        }
        if deadline != ZX_TIME_INFINITE && deadline <= self.machine.now() {
            let found = self.write_observed(thread, items.iter().map(|i| (i.object, Signals::NONE)), out);
            return Ok(Waiting::Over(if found == Status::OK { Status::TIMED_OUT } else { found }));
        }
        let process = self.objects.get(thread)?.holder;
        if let [item] = items
            && self.sole_waiter_set(thread.object(), process.object(), item)
        {
            return self.block(thread, Wait::SoleWaiter { object: item.object, out, closed: false }, deadline);
        }
        let mut observers = Vec::new();
        observers.room_exact(items.len())?;
        for item in items {
            match self.observe(*item, Target::Thread(thread.object()), process.object()) {
                Ok(key) => observers.push(key),
                Err(status) => {
                    self.unobserve_all(observers);
                    return Err(status);
                }
            }
        }
        self.block(thread, Wait::Signals { observers, out }, deadline)
    }

    /// Writes the signals of each object, together with those that the wait met.
    fn write_observed(
        &mut self,
        thread: Id<Thread>,
        objects: impl Iterator<Item = (ObjectId, Signals)>,
        out: Observed,
    ) -> Status {
        let Ok(aspace) = self.aspace_of_thread(thread) else { return Status::OK };
        for (i, (object, met)) in objects.enumerate() {
            let Some(address) = out.place(i) else { return Status::OK };
            let signals = self.found(object, met);
            if let Err(status) = self.copy_out(aspace, address, &signals.to_le_bytes()) {
                return status;
            }
        }
        Status::OK
    }

    /// Ends a thread's wait on signals with `status`: removes its observers and writes their signals. Returns the
    /// status to report; if the memory must be waited for, returns what to write there.
    pub(crate) fn signals_wait_over(
        &mut self,
        thread: Id<Thread>,
        observers: Vec<Key>,
        out: Observed,
        status: Status,
    ) -> Result<Status, Vec<(u64, Vec<u8>)>> {
        let mut objects = Vec::new();
        let mut status = status;
        if objects.room_exact(observers.len()).is_ok() {
            let found = |observer: &Observer| {
                let interest = self.interests.get(observer.interest)?;
                if interest.settled.is_some() && matches!(status, Status::TIMED_OUT | Status::CANCELED) {
                    status = Status::OK;
                }
                Some((interest.object, met(observer.closed) | interest.settled.unwrap_or(Signals::NONE)))
            };
            objects.extend(observers.iter().filter_map(|&key| self.observers.get(key)).filter_map(found));
        }
        self.unobserve_all(observers);
        match self.write_observed(thread, objects.iter().copied(), out) {
            PAGE_WAIT => {
                let one = |(i, &(object, met)): (usize, &(ObjectId, Signals))| {
                    Some((out.place(i)?, self.found(object, met).to_le_bytes().to_vec()))
                };
                Err(objects.iter().enumerate().filter_map(one).collect())
            }
            written => Ok(if status == Status::OK { written } else { status }),
        }
    }

    /// `object_wait_async`. Says whether the port has more waits than is reasonable.
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
        let packet = self.packet_promise(port, key, item.signals, (process.object(), item.handle), options)?;
        let now = self.signals(item.object);
        if options & ZX_WAIT_ASYNC_EDGE == 0 && now.intersects(item.signals) {
            self.packet_satisfied(packet, now);
            return Ok(false);
        }
        let observer = self.observe(item, Target::Packet(packet), process.object());
        let observer = observer.inspect_err(|_| self.packet_drop(packet))?;
        self.packet_observes(packet, observer);
        Ok(self.port_is_overwatched(port))
    }

    /// The same because its handle is closed or transferred. A thread may have waited for several objects through that
    /// handle.
    pub(crate) fn cancel_closed(&mut self, key: Key) {
        let Some(&Observer { target, process, handle, .. }) = self.observers.get(key) else { return };
        if let Target::Thread(thread) = target
            && let Ok(Thread { wait: Wait::Signals { observers, .. }, .. }) = self.objects.get(Id::new(thread))
        {
            for &key in observers {
                if let Some(observer) = self.observers.get_mut(key) {
                    observer.closed |= (observer.process, observer.handle) == (process, handle);
                }
            }
        }
        self.cancel_observer(key);
    }

    /// Ends a thread's wait with a status, if it is such a wait; says whether it was. Writes the observed signals to
    /// where the thread wants them.
    #[inline]
    pub(crate) fn sole_waiter_finish(&mut self, id: Id<Thread>, status: Status) -> bool {
        let Ok(thread) = self.objects.get_mut(id) else { return false };
        let Wait::SoleWaiter { object, out, closed } = thread.wait else { return false };
        let (aspace, machine) = (thread.aspace, thread.at_hand());
        if thread.over() {
            self.disarm();
        }
        self.sole_waiter_clear(object);
        let mut status = status;
        if let (Some(address), Some(aspace)) = (out.place(0), aspace) {
            let found = self.found(object, met(closed)).to_le_bytes();
            match self.copy_out(aspace, address, &found) {
                Err(PAGE_WAIT) => {
                    self.page_write_results(id, alloc::vec![(address, found.to_vec())], status);
                    return true;
                }
                Err(failure) if status == Status::OK => status = failure,
                _ => {}
            }
        }
        self.wake_machine(id, machine, i64::from(status.0));
        true
    }

    /// Ends the wait (3C) through a handle that is about to leave its process's table.
    pub(crate) fn sole_waiter_cancel_through(&mut self, process: ObjectId, handle: HandleValue) {
        let marked = self.objects.handles(process).and_then(|handles| handles.sole_waiter(handle));
        let Some(sole_waiter) = marked.and_then(|object| self.objects.any(object).ok()?.sole_waiter) else { return };
        if let Ok(Thread { wait: Wait::SoleWaiter { closed, .. }, .. }) =
            self.objects.get_mut(Id::new(sole_waiter.thread))
        {
            *closed = true;
        }
        self.finish_wait(Id::new(sole_waiter.thread), Status::CANCELED);
    }

    /// `port_wait`: returns a packet, or blocks the thread until there is one, which is then written to `out`.
    ///
    /// # Errors
    /// `TIMED_OUT`, `NO_MEMORY`.
    pub fn port_wait(
        &mut self,
        port: Id<Port>,
        thread: Id<Thread>,
        deadline: i64,
        out: u64,
    ) -> Result<Option<[u8; PACKET_SIZE]>, Status> {
        if let Some(packet) = self.port_pop(port) {
            return Ok(Some(packet));
        }
        if deadline <= self.machine.now() {
            return Err(Status::TIMED_OUT);
        }
        self.objects.enlist(port, |p| &mut p.waiters, thread.object());
        match self.block(thread, Wait::Port { port, out }, deadline) {
            Ok(Waiting::Blocked) => Ok(None),
            Ok(Waiting::Over(status)) | Err(status) => {
                self.port_forget_waiter(port, thread.object());
                Err(status)
            }
        }
    }

    /// Gives a packet that was just queued to a waiting thread, if there is one.
    #[inline(always)]
    pub(crate) fn port_hand_at_once(&mut self, port: Id<Port>, thread: Id<Thread>, bytes: &[u8; PACKET_SIZE]) -> bool {
        let Ok(&Thread { wait: Wait::Port { out, .. }, .. }) = self.objects.get(thread) else { return false };
        self.port_forget_waiter(port, thread.object());
        self.end_wait(thread);
        self.port_deliver(thread, out, bytes);
        true
    }

    /// Gives the first packet to a waiting thread.
    pub(crate) fn port_hand_over(&mut self, port: Id<Port>, thread: Id<Thread>) {
        let Some(Wait::Port { out, .. }) = self.take_wait(thread) else {
            self.port_forget_waiter(port, thread.object());
            return;
        };
        match self.port_pop(port) {
            Some(packet) => self.port_deliver(thread, out, &packet),
            None => self.wake(thread, Status::INTERNAL),
        }
    }

    /// Ends a thread's wait with a packet, which is written to `out`.
    fn port_deliver(&mut self, thread: Id<Thread>, out: u64, packet: &[u8; PACKET_SIZE]) {
        match self.aspace_of_thread(thread).and_then(|aspace| self.copy_out(aspace, out, packet)) {
            Err(PAGE_WAIT) => self.page_write_results(thread, alloc::vec![(out, packet.to_vec())], Status::OK),
            written => self.wake(thread, written.err().unwrap_or(Status::OK)),
        }
    }
}
