//! Ports: queues of packets. Programs, waits on signals and interrupts add packets; any number of threads take them.
//! Packets of interrupts come before all others.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use abi::{
    Signals, Status, ZX_PKT_TYPE_INTERRUPT, ZX_PKT_TYPE_SIGNAL_ONE, ZX_WAIT_ASYNC_BOOT_TIMESTAMP,
    ZX_WAIT_ASYNC_TIMESTAMP,
};

use crate::containers::list::{Chain, Link, List};
use crate::containers::slab::Key;
use crate::core::handle::HandleValue;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::{DrainStep, Id, ObjectId, Users};
use crate::core::wait::Waiters;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::Machine;

/// Number of packets that programs may queue before `port_queue` fails.
const MAX_QUEUED: usize = 4096;
/// Number of waits that may be bound to a port before the port counts as a runaway.
const MAX_WAITS: usize = 50_000;
/// Number of packets dropped in one step.
const AT_ONCE: u64 = 128;

/// Bytes charged for a packet.
const PACKET_BYTES: u64 = 128;
/// A wait costs as much as this many packets: it takes a packet, an observer, and an index entry.
const WAIT: usize = 3;
/// Number of packets that a port pays for at a time; it may have paid for up to `SPARE` too many.
const STEP: usize = 32;
const SPARE: usize = 4 * STEP;

/// Size of a packet in bytes.
pub const PACKET_SIZE: usize = 48;

/// The handle with which a wait was requested.
pub(crate) type WaitHandle = (ObjectId, HandleValue);

/// The index of packets of waits: key and handle.
type Name = (u64, WaitHandle);

/// A packet. The packet of a wait is allocated when the wait starts, so that nothing can fail when it is satisfied.
pub(crate) struct Packet {
    port: Id<Port>,
    /// Layout: `zx_port_packet_t`.
    bytes: [u8; PACKET_SIZE],
    origin: Origin,
    queue: Link,
    alike: Link,
}

/// The origin of a packet.
#[derive(Clone, Copy)]
enum Origin {
    /// A program.
    User,
    /// `object_wait_async`; with its observer while the wait lasts.
    Wait { through: WaitHandle, stamped: bool, observer: Option<Key> },
    /// An interrupt bound to the port, which owns the packet and queues it repeatedly.
    Interrupt(ObjectId),
    /// A source of pages, which owns its one packet permanently.
    Source(Option<Key>),
}

macro_rules! chains {
    ($($(#[$doc:meta])* $chain:ident = $field:ident;)*) => {
        $(
            $(#[$doc])*
            struct $chain;

            impl Chain for $chain {
                type Entry = Packet;
                fn link(packet: &Packet) -> Option<&Link> {
                    Some(&packet.$field)
                }
                fn link_mut(packet: &mut Packet) -> Option<&mut Link> {
                    Some(&mut packet.$field)
                }
            }
        )*
    };
}

chains! {
    /// Packets in the queue of a port.
    Queued = queue;
    /// Packets of waits with the same key and handle, and those of the interrupts of a port.
    Alike = alike;
}

/// A port.
#[derive(Default)]
pub struct Port {
    queue: List<Queued>,
    /// Queue of interrupt packets.
    urgent: List<Queued>,
    /// Interrupts can be bound to it.
    pub takes_interrupts: bool,
    /// The packets of the bound interrupts.
    interrupts: List<Alike>,
    /// Number of queued packets from programs.
    by_users: usize,
    /// Number of waits bound to it, whether or not their packet is queued.
    bound: usize,
    /// Number of packets for which it is charged: at least those of programs, and [`WAIT`] for each wait.
    paid: usize,
    pub(crate) waiters: List<Waiters>,
    /// The packets of waits, queued or not, by key and handle.
    waits: BTreeMap<Name, List<Alike>>,
    /// The virtual processor that receives its packets as events.
    pub(crate) vproc: Option<ObjectId>,
}

impl Noun for Port {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_PORT;
}

impl ObjectOps for Port {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.port_unreachable(id);
    }

    #[inline(always)]
    fn needs_drain(&self) -> bool {
        !self.is_empty()
    }

    #[inline(always)]
    fn drain<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, users: Users) -> DrainStep {
        if !users.handles && kernel.port_drain(id) { DrainStep::More } else { DrainStep::Nothing }
    }
}

impl Port {
    /// Whether it has no packets and no waiters.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.waits.is_empty() && self.waiters.is_empty() && self.interrupts.is_empty()
    }

    /// Number of packets that it must be charged for.
    #[inline(always)]
    fn owes(&self) -> usize {
        self.by_users + self.bound * WAIT
    }

    /// Whether it is charged for its packets and `more` others, and not for too many beyond them.
    #[inline(always)]
    fn has_paid(&self, more: usize) -> bool {
        self.paid.wrapping_sub(self.owes() + more) <= SPARE
    }
}

impl Packet {
    /// `zx_port_packet_t.key`.
    fn key(&self) -> u64 {
        self.bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

impl<M: Machine> Kernel<M> {
    /// `port_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn port_create(&mut self, takes_interrupts: bool) -> Result<Id<Port>, Status> {
        let port = Port { takes_interrupts, ..Port::default() };
        self.create(Signals::NONE, Box::new(port))
    }

    /// `port_queue`: queues a packet of a program, whose type is already set.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: too many packets are queued. `NO_MEMORY`.
    pub fn port_queue(&mut self, port: Id<Port>, bytes: [u8; PACKET_SIZE]) -> Result<(), Status> {
        let p = self.objects.get_mut(port)?;
        if p.by_users >= MAX_QUEUED {
            return Err(Status::SHOULD_WAIT);
        }
        // While a thread waits, the queue is empty: this packet is the first.
        if let Some(thread) = p.waiters.first()
            && self.port_hand_at_once(port, Id::new(ObjectId(thread)), &bytes)
        {
            return Ok(());
        }
        if !self.objects.get(port)?.has_paid(1) {
            self.port_update_charge(port, 1)?;
        }
        let packet = Packet { port, bytes, origin: Origin::User, queue: Link::default(), alike: Link::default() };
        let packet = self.packets.insert(packet).map_err(|_| Status::NO_MEMORY)?;
        let p = self.objects.get_mut(port)?;
        p.by_users += 1;
        p.queue.push(&mut self.packets, packet);
        if p.vproc.is_some() {
            self.port_notify_vproc(port);
        }
        Ok(())
    }

    /// Adjusts the charge before `more` packets are added.
    ///
    /// # Errors
    /// `NO_MEMORY`: the memory limit of the job that pays.
    #[cold]
    #[inline(never)]
    fn port_update_charge(&mut self, port: Id<Port>, more: usize) -> Result<(), Status> {
        let p = self.objects.get_mut(port)?;
        let (paid, wanted) = (p.paid, p.owes() + more + STEP);
        if paid > wanted {
            p.paid = wanted;
            self.discharge(port.object(), (paid - wanted) as u64 * PACKET_BYTES);
            return Ok(());
        }
        let bytes = (wanted - paid) as u64 * PACKET_BYTES;
        self.may_charge(port.object(), bytes)?;
        self.charge(port.object(), bytes);
        self.objects.get_mut(port)?.paid = wanted;
        Ok(())
    }

    /// Whether a port has more waits than is reasonable.
    pub(crate) fn port_is_overwatched(&self, port: Id<Port>) -> bool {
        self.objects.get(port).is_ok_and(|p| p.bound > MAX_WAITS)
    }

    /// Whether one more wait would be more than is reasonable.
    pub fn port_is_full_of_waits(&self, port: Id<Port>) -> bool {
        self.objects.get(port).is_ok_and(|p| p.bound >= MAX_WAITS)
    }

    fn port_push(&mut self, port: Id<Port>, packet: Key) {
        let Ok(p) = self.objects.get_mut(port) else { return };
        p.queue.push(&mut self.packets, packet);
        let bound = p.vproc.is_some();
        self.port_serve(port);
        if bound {
            self.port_notify_vproc(port);
        }
    }

    /// Reports a port's packets as an event to its virtual processor, unless a thread waits on the port.
    #[cold]
    #[inline(never)]
    pub(crate) fn port_notify_vproc(&mut self, port: Id<Port>) {
        let Ok(p) = self.objects.get(port) else { return };
        let holds = !p.queue.is_empty() || !p.urgent.is_empty();
        if let Some(vproc) = p.vproc.filter(|_| holds && p.waiters.is_empty())
            && self.vproc_event(Id::new(vproc)) == Err(Status::BAD_STATE)
            && let Ok(p) = self.objects.get_mut(port)
        {
            p.vproc = None;
        }
    }

    /// Hands packets to waiting threads as long as there are both.
    pub(crate) fn port_serve(&mut self, port: Id<Port>) {
        while self.objects.get(port).is_ok_and(|p| !p.queue.is_empty() || !p.urgent.is_empty())
            && let Some(thread) = self.port_first_waiter(port)
        {
            self.port_hand_over(port, Id::new(thread));
        }
    }

    fn port_first_waiter(&self, port: Id<Port>) -> Option<ObjectId> {
        self.objects.after(self.objects.get(port).ok()?.waiters, None)
    }

    pub(crate) fn port_pop(&mut self, port: Id<Port>) -> Option<[u8; PACKET_SIZE]> {
        let p = self.objects.get(port).ok()?;
        let key = p.urgent.first().or(p.queue.first())?;
        let bytes = self.packets.get(key)?.bytes;
        self.port_taken(port, key);
        Some(bytes)
    }

    /// Moves the first packet into a program's memory, if there is one. It stays in the port if it cannot be written.
    ///
    /// # Errors
    /// As [`Kernel::copy_out`].
    #[inline(always)]
    pub fn port_take(&mut self, port: Id<Port>, aspace: Key, out: u64) -> Result<bool, Status> {
        let p = self.objects.get(port)?;
        let Some(key) = p.urgent.first().or(p.queue.first()) else { return Ok(false) };
        let packet = self.packets.get(key).ok_or(Status::INTERNAL)?;
        match self.known(aspace, out, PACKET_SIZE, Access::Write) {
            Some((frame, offset)) => self.machine.frame_write(frame, offset, &packet.bytes),
            None => {
                let bytes = packet.bytes;
                self.copy_out(aspace, out, &bytes)?;
            }
        }
        self.port_taken(port, key);
        Ok(true)
    }

    /// The first packet of a port was delivered.
    #[inline]
    fn port_taken(&mut self, port: Id<Port>, key: Key) {
        let (Ok(p), Some(packet)) = (self.objects.get_mut(port), self.packets.get(key)) else { return };
        match packet.origin {
            Origin::User => {
                p.by_users = p.by_users.saturating_sub(1);
                p.queue.pop(&mut self.packets);
                self.packets.drop_entry(key);
            }
            Origin::Interrupt(_) => {
                p.urgent.pop(&mut self.packets);
            }
            Origin::Wait { .. } | Origin::Source(_) => self.packet_drop(key),
        }
    }

    pub(crate) fn port_forget_waiter(&mut self, port: Id<Port>, thread: ObjectId) {
        self.objects.delist(port, |p| &mut p.waiters, thread);
    }

    /// Allocates the packet of a wait, which is queued when the wait is satisfied.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn packet_promise(
        &mut self,
        port: Id<Port>,
        key: u64,
        trigger: Signals,
        through: WaitHandle,
        options: u32,
    ) -> Result<Key, Status> {
        let p = self.objects.get(port)?;
        if !p.has_paid(WAIT) {
            self.port_update_charge(port, WAIT)?;
        }
        let mut bytes = [0; PACKET_SIZE];
        bytes[0..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..12].copy_from_slice(&ZX_PKT_TYPE_SIGNAL_ONE.to_le_bytes());
        bytes[16..20].copy_from_slice(&trigger.bits().to_le_bytes());
        bytes[24..32].copy_from_slice(&1u64.to_le_bytes());
        let stamped = options & (ZX_WAIT_ASYNC_TIMESTAMP | ZX_WAIT_ASYNC_BOOT_TIMESTAMP) != 0;
        let origin = Origin::Wait { through, stamped, observer: None };
        let packet = Packet { port, bytes, origin, queue: Link::default(), alike: Link::default() };
        let packet = self.packets.insert(packet).map_err(|_| Status::NO_MEMORY)?;
        let p = self.objects.get_mut(port)?;
        p.bound += 1;
        p.waits.entry((key, through)).or_default().push(&mut self.packets, packet);
        Ok(packet)
    }

    /// Stores the observer of a packet's wait.
    pub(crate) fn packet_observes(&mut self, packet: Key, by: Key) {
        if let Some(Packet { origin: Origin::Wait { observer, .. }, .. }) = self.packets.get_mut(packet) {
            *observer = Some(by);
        }
    }

    /// The wait of a packet is satisfied; the observer is destroyed.
    pub(crate) fn packet_satisfied(&mut self, key: Key, observed: Signals) {
        let now = self.machine.now();
        let Some(packet) = self.packets.get_mut(key) else { return };
        packet.bytes[20..24].copy_from_slice(&observed.bits().to_le_bytes());
        if let Origin::Wait { stamped, observer, .. } = &mut packet.origin {
            *observer = None;
            if *stamped {
                packet.bytes[32..40].copy_from_slice(&now.to_le_bytes());
            }
        }
        let port = packet.port;
        self.port_push(port, key);
    }

    /// Allocates the packet of an interrupt that is being bound to a port.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn packet_of_interrupt(&mut self, port: Id<Port>, key: u64, interrupt: ObjectId) -> Result<Key, Status> {
        let mut bytes = [0; PACKET_SIZE];
        bytes[0..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..12].copy_from_slice(&ZX_PKT_TYPE_INTERRUPT.to_le_bytes());
        let origin = Origin::Interrupt(interrupt);
        let packet = Packet { port, bytes, origin, queue: Link::default(), alike: Link::default() };
        let packet = self.packets.insert(packet).map_err(|_| Status::NO_MEMORY)?;
        self.objects.get_mut(port)?.interrupts.push(&mut self.packets, packet);
        Ok(packet)
    }

    /// Queues the packet of an interrupt that occurred at `time`, unless it is still queued.
    pub(crate) fn packet_of_interrupt_queue(&mut self, key: Key, time: i64) {
        let Some(packet) = self.packets.get_mut(key).filter(|packet| !packet.queue.is_linked()) else { return };
        packet.bytes[16..24].copy_from_slice(&time.to_le_bytes());
        let port = packet.port;
        if let Ok(p) = self.objects.get_mut(port) {
            p.urgent.push(&mut self.packets, key);
            self.port_serve(port);
            self.port_notify_vproc(port);
        }
    }

    /// Whether a packet is queued.
    pub(crate) fn packet_is_queued(&self, key: Key) -> bool {
        self.packets.get(key).is_some_and(|packet| packet.queue.is_linked())
    }

    /// The port that a packet belongs to.
    pub(crate) fn packet_port(&self, key: Key) -> Option<Id<Port>> {
        self.packets.get(key).map(|packet| packet.port)
    }

    /// Drops a packet, queued or not, and cancels its wait.
    pub(crate) fn packet_drop(&mut self, key: Key) {
        let Some(packet) = self.packets.get(key) else { return };
        if let Origin::Wait { through, .. } = packet.origin {
            let name = (packet.key(), through);
            if let Ok(p) = self.objects.get_mut(packet.port)
                && let Entry::Occupied(mut alike) = p.waits.entry(name)
            {
                alike.get_mut().remove(&mut self.packets, key);
                if alike.get().is_empty() {
                    alike.remove();
                }
            }
        }
        self.packet_end(key);
    }

    /// Drops a packet that is on no list of waits. The packet of a source of pages only leaves the queue.
    fn packet_end(&mut self, key: Key) {
        let Some(packet) = self.packets.get(key) else { return };
        let (port, origin) = (packet.port, packet.origin);
        if let Ok(p) = self.objects.get_mut(port) {
            match origin {
                Origin::User => {
                    p.by_users = p.by_users.saturating_sub(1);
                    p.queue.remove(&mut self.packets, key);
                }
                Origin::Wait { .. } => {
                    p.bound = p.bound.saturating_sub(1);
                    p.queue.remove(&mut self.packets, key);
                }
                Origin::Source(_) => p.queue.remove(&mut self.packets, key),
                Origin::Interrupt(_) => {
                    p.urgent.remove(&mut self.packets, key);
                    p.interrupts.remove(&mut self.packets, key);
                }
            }
        }
        if let Origin::Source(source) = origin {
            if let Some(source) = source {
                self.source_packet_taken(source);
            }
            return;
        }
        self.packets.remove(key);
        if let Origin::Wait { observer: Some(observer), .. } = origin {
            self.unobserve(observer);
        }
    }

    /// Allocates the packet of a source of pages in advance, so that nothing can fail later.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn packet_of_source(&mut self, port: Id<Port>) -> Result<Key, Status> {
        self.objects.get(port)?;
        let origin = Origin::Source(None);
        let packet = Packet { port, bytes: [0; PACKET_SIZE], origin, queue: Link::default(), alike: Link::default() };
        self.packets.insert(packet).map_err(|_| Status::NO_MEMORY)
    }

    /// Stores the source that owns a packet.
    pub(crate) fn packet_is_of(&mut self, packet: Key, source: Key) {
        if let Some(packet) = self.packets.get_mut(packet) {
            packet.origin = Origin::Source(Some(source));
        }
    }

    /// Queues the packet of a source; [`Kernel::port_serve`] hands it out. Says whether the port has handles.
    pub(crate) fn packet_send(&mut self, key: Key, bytes: [u8; PACKET_SIZE]) -> bool {
        let Some(packet) = self.packets.get_mut(key) else { return false };
        packet.bytes = bytes;
        let port = packet.port;
        let open = self.objects.any(port.object()).is_ok_and(|object| object.handles > 0);
        if open && let Ok(p) = self.objects.get_mut(port) {
            p.queue.push(&mut self.packets, key);
            self.port_notify_vproc(port);
        }
        open
    }

    /// Changes the content of a source's queued packet.
    pub(crate) fn packet_change(&mut self, key: Key, bytes: [u8; PACKET_SIZE]) {
        if let Some(packet) = self.packets.get_mut(key) {
            packet.bytes = bytes;
        }
    }

    /// Removes a source's packet from the queue, if it is there.
    pub(crate) fn packet_withdraw(&mut self, key: Key) {
        let Some(port) = self.packets.get(key).map(|packet| packet.port) else { return };
        if let Ok(p) = self.objects.get_mut(port) {
            p.queue.remove(&mut self.packets, key);
        }
    }

    /// Destroys the packet of a source.
    pub(crate) fn packet_of_source_end(&mut self, key: Key) {
        self.packet_withdraw(key);
        self.packets.remove(key);
    }

    /// `port_cancel`: cancels the waits with a key through a handle, and drops their packets, after `done` of them.
    /// Returns how many are done, if some are left.
    ///
    /// # Errors
    /// `NOT_FOUND`: there was neither.
    pub fn port_cancel(
        &mut self,
        port: Id<Port>,
        through: WaitHandle,
        key: u64,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        self.packets_cancel(port, (key, through), done, |name| *name == (key, through))
    }

    /// `port_cancel_key`: the same for every handle.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn port_cancel_key(&mut self, port: Id<Port>, key: u64, done: u64) -> Result<Option<u64>, Status> {
        self.packets_cancel(port, (key, (ObjectId::FIRST, 0)), done, |name| name.0 == key)
    }

    /// Drops some packets of waits, from a name up, as long as `right` accepts the name.
    fn packets_cancel(
        &mut self,
        port: Id<Port>,
        first: Name,
        done: u64,
        right: impl Fn(&Name) -> bool,
    ) -> Result<Option<u64>, Status> {
        for ended in 0..AT_ONCE {
            let waits = self.objects.get(port)?.waits.range(first..).next().filter(|(name, _)| right(name));
            let Some(packet) = waits.and_then(|(_, alike)| alike.first()) else {
                return if done + ended == 0 { Err(Status::NOT_FOUND) } else { Ok(None) };
            };
            self.packet_drop(packet);
        }
        Ok(Some(done + AT_ONCE))
    }

    /// The last handle is closed: drops packets and ends waits. The reaper does what is not done at once.
    pub(crate) fn port_unreachable(&mut self, port: Id<Port>) {
        for _ in 0..AT_ONCE {
            if !self.port_drain(port) {
                return;
            }
        }
        self.reaper_enqueue(port.object());
    }

    /// Drops one packet or ends one wait of a port without handles. Says whether there was anything.
    pub(crate) fn port_drain(&mut self, port: Id<Port>) -> bool {
        if let Some(thread) = self.port_first_waiter(port) {
            self.finish_wait(Id::new(thread), Status::CANCELED);
            self.port_forget_waiter(port, thread);
            return true;
        }
        let Ok(p) = self.objects.get(port) else { return false };
        if let Some(&Packet { origin: Origin::Interrupt(interrupt), .. }) =
            p.interrupts.first().and_then(|packet| self.packets.get(packet))
            && let Some(packet) = p.interrupts.first()
        {
            self.interrupt_part(Id::new(interrupt), packet);
            return true;
        }
        let packet = p.queue.first().or_else(|| p.waits.first_key_value().and_then(|(_, alike)| alike.first()));
        packet.inspect(|&packet| self.packet_drop(packet)).is_some()
    }
}
