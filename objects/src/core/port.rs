//! Ports: a queue of packets, filled by programs, by waits on signals and by interrupts, emptied by any number of
//! threads. Packets of interrupts come before all others.

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
use crate::core::noun::Noun;
use crate::core::object::{Id, ObjectId};
use crate::core::wait::Waiters;
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::Access;
use crate::machine::Machine;

/// Packets that programs may queue before `port_queue` refuses.
const MAX_QUEUED: usize = 4096;
/// Waits that may be bound to a port before it is taken for a runaway's.
const MAX_WAITS: usize = 50_000;
/// Packets that are ended at once.
const AT_ONCE: u64 = 128;

/// Bytes that a packet takes.
const PACKET_BYTES: u64 = 128;
/// How much as many packets a wait takes, with its packet, its observer, and what it is found by.
const WAIT: usize = 3;
/// Packets that a port pays for at a time, and which it may have paid for too many.
const STEP: usize = 32;
const SPARE: usize = 4 * STEP;

/// Bytes in a packet.
pub const PACKET_SIZE: usize = 48;

/// The handle that a wait was asked for through.
pub(crate) type Through = (ObjectId, HandleValue);

/// What the packets of waits are found by.
type Name = (u64, Through);

/// A packet. That of a wait is there from the outset, so that nothing can fail when the wait is satisfied.
pub(crate) struct Packet {
    port: Id<Port>,
    /// Laid out as `zx_port_packet_t`.
    bytes: [u8; PACKET_SIZE],
    origin: Origin,
    queue: Link,
    alike: Link,
}

/// Where a packet comes from.
#[derive(Clone, Copy)]
enum Origin {
    /// A program.
    User,
    /// `object_wait_async`; as long as the wait lasts, with its observer.
    Wait { through: Through, stamped: bool, observer: Option<Key> },
    /// An interrupt that is bound to the port: it has the packet, which is queued time and again.
    Interrupt(ObjectId),
    /// A source of pages, which has one packet for good.
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
    /// Packets of waits with the same key through the same handle, and those of the interrupts of a port.
    Alike = alike;
}

/// A port.
#[derive(Default)]
pub struct Port {
    queue: List<Queued>,
    /// The queue of the packets of interrupts.
    urgent: List<Queued>,
    /// Interrupts can be bound to it.
    pub takes_interrupts: bool,
    /// The packets of those that are.
    interrupts: List<Alike>,
    /// Packets in the queue that programs put there.
    by_users: usize,
    /// Waits that are bound to it, with or without their packet in the queue.
    bound: usize,
    /// Packets for which it is charged: at least those of programs, and [`WAIT`] for each wait.
    paid: usize,
    pub(crate) waiters: List<Waiters>,
    /// The packets of waits, queued or not, by key and handle.
    waits: BTreeMap<Name, List<Alike>>,
    /// The virtual processor for which packets are events.
    pub(crate) vproc: Option<ObjectId>,
}

impl Noun for Port {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_PORT;
}

impl Port {
    /// Whether there is nothing in it and nobody waits for anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.waits.is_empty() && self.waiters.is_empty() && self.interrupts.is_empty()
    }

    /// Packets that it is to be charged for.
    #[inline(always)]
    fn owes(&self) -> usize {
        self.by_users + self.bound * WAIT
    }

    /// Whether it is charged for what it holds and so many packets more: neither too little, nor much too much.
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
        // While a thread waits there is no packet before this one.
        if let Some(thread) = p.waiters.first()
            && self.port_hand_at_once(port, Id::new(ObjectId(thread)), &bytes)
        {
            return Ok(());
        }
        if !self.objects.get(port)?.has_paid(1) {
            self.port_pays(port, 1)?;
        }
        let packet = Packet { port, bytes, origin: Origin::User, queue: Link::default(), alike: Link::default() };
        let packet = self.packets.insert(packet).map_err(|_| Status::NO_MEMORY)?;
        let p = self.objects.get_mut(port)?;
        p.by_users += 1;
        p.queue.push(&mut self.packets, packet);
        if p.vproc.is_some() {
            self.port_tells(port);
        }
        Ok(())
    }

    /// A port is to hold so many packets more.
    ///
    /// # Errors
    /// `NO_MEMORY`: whoever pays for it may not have so much.
    #[cold]
    #[inline(never)]
    fn port_pays(&mut self, port: Id<Port>, more: usize) -> Result<(), Status> {
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

    /// Whether more waits are bound to a port than anybody needs.
    pub(crate) fn port_is_overwatched(&self, port: Id<Port>) -> bool {
        self.objects.get(port).is_ok_and(|p| p.bound > MAX_WAITS)
    }

    /// Whether one more wait would be more than anybody needs.
    pub fn port_is_full_of_waits(&self, port: Id<Port>) -> bool {
        self.objects.get(port).is_ok_and(|p| p.bound >= MAX_WAITS)
    }

    fn port_push(&mut self, port: Id<Port>, packet: Key) {
        let Ok(p) = self.objects.get_mut(port) else { return };
        p.queue.push(&mut self.packets, packet);
        let bound = p.vproc.is_some();
        self.port_serve(port);
        if bound {
            self.port_tells(port);
        }
    }

    /// What a port holds is an event for the virtual processor that it is bound to, unless somebody waits for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn port_tells(&mut self, port: Id<Port>) {
        let Ok(p) = self.objects.get(port) else { return };
        let holds = !p.queue.is_empty() || !p.urgent.is_empty();
        if let Some(vproc) = p.vproc.filter(|_| holds && p.waiters.is_empty())
            && self.vproc_event(Id::new(vproc)) == Err(Status::BAD_STATE)
            && let Ok(p) = self.objects.get_mut(port)
        {
            p.vproc = None;
        }
    }

    /// Gives packets to threads as long as there are both.
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

    /// Moves the first packet into a program's memory, if there is one. It leaves the port only when it could be delivered.
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

    /// The first packet of a port has been delivered.
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

    /// The packet of a wait, which is queued when the wait is satisfied.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn packet_promise(
        &mut self,
        port: Id<Port>,
        key: u64,
        trigger: Signals,
        through: Through,
        options: u32,
    ) -> Result<Key, Status> {
        let p = self.objects.get(port)?;
        if !p.has_paid(WAIT) {
            self.port_pays(port, WAIT)?;
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

    /// Notes who waits for the signals that a packet tells of.
    pub(crate) fn packet_observes(&mut self, packet: Key, by: Key) {
        if let Some(Packet { origin: Origin::Wait { observer, .. }, .. }) = self.packets.get_mut(packet) {
            *observer = Some(by);
        }
    }

    /// The wait of a packet is satisfied; the observer is gone.
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

    /// The packet of an interrupt that is now bound to a port.
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

    /// Queues the packet of an interrupt that came at `time`, unless it is still queued.
    pub(crate) fn packet_of_interrupt_queue(&mut self, key: Key, time: i64) {
        let Some(packet) = self.packets.get_mut(key).filter(|packet| !packet.queue.is_linked()) else { return };
        packet.bytes[16..24].copy_from_slice(&time.to_le_bytes());
        let port = packet.port;
        if let Ok(p) = self.objects.get_mut(port) {
            p.urgent.push(&mut self.packets, key);
            self.port_serve(port);
            self.port_tells(port);
        }
    }

    /// Whether a packet waits in its port.
    pub(crate) fn packet_is_queued(&self, key: Key) -> bool {
        self.packets.get(key).is_some_and(|packet| packet.queue.is_linked())
    }

    /// The port that a packet belongs to.
    pub(crate) fn packet_port(&self, key: Key) -> Option<Id<Port>> {
        self.packets.get(key).map(|packet| packet.port)
    }

    /// Ends a packet, wherever it is, and the wait that it was to tell of.
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

    /// Ends a packet that is on no list of waits. That of a source of pages only leaves the queue.
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

    /// The packet of a source of pages, which is there from the outset, so that nothing can fail later.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn packet_of_source(&mut self, port: Id<Port>) -> Result<Key, Status> {
        self.objects.get(port)?;
        let origin = Origin::Source(None);
        let packet = Packet { port, bytes: [0; PACKET_SIZE], origin, queue: Link::default(), alike: Link::default() };
        self.packets.insert(packet).map_err(|_| Status::NO_MEMORY)
    }

    /// Notes whose packet it is.
    pub(crate) fn packet_is_of(&mut self, packet: Key, source: Key) {
        if let Some(packet) = self.packets.get_mut(packet) {
            packet.origin = Origin::Source(Some(source));
        }
    }

    /// Queues the packet of a source, for [`Kernel::port_serve`] to hand out. Says whether there is anyone to take it.
    pub(crate) fn packet_send(&mut self, key: Key, bytes: [u8; PACKET_SIZE]) -> bool {
        let Some(packet) = self.packets.get_mut(key) else { return false };
        packet.bytes = bytes;
        let port = packet.port;
        let open = self.objects.any(port.object()).is_ok_and(|object| object.handles > 0);
        if open && let Ok(p) = self.objects.get_mut(port) {
            p.queue.push(&mut self.packets, key);
            self.port_tells(port);
        }
        open
    }

    /// Changes what the packet of a source tells, which is in the queue.
    pub(crate) fn packet_change(&mut self, key: Key, bytes: [u8; PACKET_SIZE]) {
        if let Some(packet) = self.packets.get_mut(key) {
            packet.bytes = bytes;
        }
    }

    /// Takes the packet of a source out of the queue, if it is there.
    pub(crate) fn packet_withdraw(&mut self, key: Key) {
        let Some(port) = self.packets.get(key).map(|packet| packet.port) else { return };
        if let Ok(p) = self.objects.get_mut(port) {
            p.queue.remove(&mut self.packets, key);
        }
    }

    /// Ends the packet of a source.
    pub(crate) fn packet_of_source_end(&mut self, key: Key) {
        self.packet_withdraw(key);
        self.packets.remove(key);
    }

    /// `port_cancel`: ends the waits that were asked for through a handle with a key, and drops their packets, `done` of
    /// which are ended. Says how many are then, if some are left.
    ///
    /// # Errors
    /// `NOT_FOUND`: there was neither.
    pub fn port_cancel(
        &mut self,
        port: Id<Port>,
        through: Through,
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

    /// Ends some of the waits from those of a name on, as long as the name is right.
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

    /// The last handle is gone: nothing is queued any more, and nobody waits. What does not go at once is let go of later.
    pub(crate) fn port_unreachable(&mut self, port: Id<Port>) {
        for _ in 0..AT_ONCE {
            if !self.port_let_go(port) {
                return;
            }
        }
        self.doom(port.object());
    }

    /// Something of what a port holds that nobody has any more goes. Says whether there was anything.
    pub(crate) fn port_let_go(&mut self, port: Id<Port>) -> bool {
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
