//! Ports: a queue of packets, filled by programs and by waits on signals, emptied by any number of threads.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use abi::{Signals, Status, ZX_PKT_TYPE_SIGNAL_ONE, ZX_WAIT_ASYNC_BOOT_TIMESTAMP, ZX_WAIT_ASYNC_TIMESTAMP};

use crate::handle::HandleValue;
use crate::kernel::Kernel;
use crate::list::List;
use crate::machine::Machine;
use crate::object::{Body, Id, ObjectId, Waiters};
use crate::process::Process;
use crate::slab::Key;
use crate::thread::{Thread, Wait};
use crate::wait::{Target, Waiting};

/// Packets that programs may queue before `port_queue` refuses.
const MAX_QUEUED: usize = 16 * 1024;

/// Bytes in a packet.
pub const PACKET_SIZE: usize = 48;

/// The handle that a wait was made with.
type Through = (Id<Process>, HandleValue);

/// A packet, laid out as `zx_port_packet_t`.
#[derive(Clone, Copy)]
struct Packet {
    bytes: [u8; PACKET_SIZE],
    /// For packets of waits: the object and the handle, so that `port_cancel` finds them.
    source: Option<(ObjectId, Through)>,
    key: u64,
}

/// A port.
pub struct Port {
    queue: VecDeque<Packet>,
    /// Packets in the queue that programs put there.
    by_users: usize,
    waiters: List<Waiters>,
    observers: Option<Key>,
    /// Observers on the list: each may queue one packet, for which there is room.
    observing: usize,
}

impl<M: Machine> Kernel<M> {
    /// `port_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn port_create(&mut self) -> Result<Id<Port>, Status> {
        let port =
            Port { queue: VecDeque::new(), by_users: 0, waiters: List::default(), observers: None, observing: 0 };
        self.create(Signals::NONE, Body::Port(Box::new(port)))
    }

    /// `port_queue`: the packet as the program gave it, its type already set.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: too many packets wait. `NO_MEMORY`.
    pub fn port_queue(&mut self, port: Id<Port>, bytes: [u8; PACKET_SIZE]) -> Result<(), Status> {
        let p = self.objects.get_mut(port)?;
        if p.by_users >= MAX_QUEUED {
            return Err(Status::SHOULD_WAIT);
        }
        p.queue.try_reserve(1 + p.observing).map_err(|_| Status::NO_MEMORY)?;
        p.by_users += 1;
        self.port_push(port, Packet { bytes, source: None, key: 0 });
        Ok(())
    }

    fn port_push(&mut self, port: Id<Port>, packet: Packet) {
        let Ok(p) = self.objects.get_mut(port) else { return };
        p.queue.push_back(packet);
        while let Some(thread) = self.port_first_waiter(port) {
            if self.port_hand_over(port, thread) {
                break;
            }
        }
    }

    fn port_first_waiter(&self, port: Id<Port>) -> Option<Id<Thread>> {
        self.objects.after(self.objects.get(port).ok()?.waiters, None).map(Id::new)
    }

    /// Gives the first packet to a thread that waits. Says whether it took it.
    fn port_hand_over(&mut self, port: Id<Port>, thread: Id<Thread>) -> bool {
        let Some(Wait::Port { out, .. }) = self.take_wait(thread) else {
            self.port_forget_waiter(port, thread);
            return false;
        };
        let Some(packet) = self.port_pop(port) else {
            self.wake(thread, Status::INTERNAL);
            return false;
        };
        let written = self.aspace_of_thread(thread).and_then(|aspace| self.copy_out(aspace, out, &packet));
        self.wake(thread, written.err().unwrap_or(Status::OK));
        true
    }

    fn port_pop(&mut self, port: Id<Port>) -> Option<[u8; PACKET_SIZE]> {
        let p = self.objects.get_mut(port).ok()?;
        let packet = p.queue.pop_front()?;
        if packet.source.is_none() {
            p.by_users -= 1;
        }
        Some(packet.bytes)
    }

    /// `port_wait`: the packet, or the thread is blocked until there is one; it is then written to `out`.
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
                self.port_forget_waiter(port, thread);
                Err(status)
            }
        }
    }

    pub(crate) fn port_forget_waiter(&mut self, port: Id<Port>, thread: Id<Thread>) {
        self.objects.delist(port, |p| &mut p.waiters, thread.object());
    }

    /// Makes room for the packet of one more wait.
    pub(crate) fn port_reserve(&mut self, port: Id<Port>) -> Result<(), Status> {
        let p = self.objects.get_mut(port)?;
        p.queue.try_reserve(p.observing + 1).map_err(|_| Status::NO_MEMORY)
    }

    pub(crate) fn port_remember(&mut self, port: Id<Port>, key: Key) {
        let Ok(p) = self.objects.get_mut(port) else { return };
        let head = p.observers.replace(key);
        p.observing += 1;
        if let Some(next) = head.and_then(|h| self.observers.get_mut(h)) {
            next.port_prev = Some(key);
        }
        if let Some(observer) = self.observers.get_mut(key) {
            observer.port_next = head;
        }
    }

    /// An observer of this port is about to go.
    pub(crate) fn port_forget(&mut self, port: Id<Port>, key: Key) {
        let Some(observer) = self.observers.get(key) else { return };
        let (prev, next) = (observer.port_prev, observer.port_next);
        if let Some(next) = next.and_then(|k| self.observers.get_mut(k)) {
            next.port_prev = prev;
        }
        let Ok(p) = self.objects.get_mut(port) else { return };
        p.observing = p.observing.saturating_sub(1);
        match prev.and_then(|k| self.observers.get_mut(k)) {
            Some(prev) => prev.port_next = next,
            None => p.observers = next,
        }
    }

    /// A wait that the port set up is satisfied.
    pub(crate) fn port_signalled(
        &mut self,
        port: Id<Port>,
        source: (ObjectId, Through),
        key: u64,
        options: u32,
        trigger: Signals,
        observed: Signals,
    ) {
        let mut bytes = [0; PACKET_SIZE];
        bytes[0..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..12].copy_from_slice(&ZX_PKT_TYPE_SIGNAL_ONE.to_le_bytes());
        bytes[16..20].copy_from_slice(&trigger.bits().to_le_bytes());
        bytes[20..24].copy_from_slice(&observed.bits().to_le_bytes());
        bytes[24..32].copy_from_slice(&1u64.to_le_bytes());
        if options & (ZX_WAIT_ASYNC_TIMESTAMP | ZX_WAIT_ASYNC_BOOT_TIMESTAMP) != 0 {
            bytes[32..40].copy_from_slice(&self.machine.now().to_le_bytes());
        }
        self.port_push(port, Packet { bytes, source: Some(source), key });
    }

    /// `port_cancel`: ends the waits that were made with a handle and a key, and drops their packets.
    ///
    /// # Errors
    /// `NOT_FOUND`: there was neither.
    pub fn port_cancel(&mut self, port: Id<Port>, source: ObjectId, handle: Through, key: u64) -> Result<(), Status> {
        let waited = self.cancel_async(source, Some(handle), port, key);
        let queued =
            self.port_drop_packets(port, |packet| packet.source == Some((source, handle)) && packet.key == key)?;
        if waited || queued { Ok(()) } else { Err(Status::NOT_FOUND) }
    }

    /// `port_cancel_key`: the same for every object.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn port_cancel_key(&mut self, port: Id<Port>, key: u64) -> Result<(), Status> {
        let mut cursor = self.objects.get(port)?.observers;
        let mut waited = false;
        while let Some(at) = cursor {
            let Some(observer) = self.observers.get(at) else { break };
            cursor = observer.port_next;
            if matches!(observer.target, Target::Port { key: k, .. } if k == key) {
                self.unobserve(at);
                waited = true;
            }
        }
        let queued = self.port_drop_packets(port, |packet| packet.source.is_some() && packet.key == key)?;
        if waited || queued { Ok(()) } else { Err(Status::NOT_FOUND) }
    }

    fn port_drop_packets(&mut self, port: Id<Port>, dropped: impl Fn(&Packet) -> bool) -> Result<bool, Status> {
        let p = self.objects.get_mut(port)?;
        let before = p.queue.len();
        p.queue.retain(|packet| !dropped(packet));
        Ok(p.queue.len() != before)
    }

    pub(crate) fn port_unreachable(&mut self, port: Id<Port>) {
        let Ok(p) = self.objects.get_mut(port) else { return };
        p.queue.clear();
        p.by_users = 0;
        while let Some(thread) = self.port_first_waiter(port) {
            self.finish_wait(thread, Status::CANCELED);
            self.port_forget_waiter(port, thread);
        }
        while let Some(key) = self.objects.get(port).ok().and_then(|p| p.observers) {
            if self.unobserve(key).is_none() {
                break;
            }
        }
    }
}
