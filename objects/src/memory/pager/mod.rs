//! Pagers: programs that supply the pages of VMOs.
//!
//! A VMO created with a pager has a [`Source`]. A page that is absent, or that the pager wants to know of before it is
//! written, is *requested* by a packet to a port, and the thread that needs it waits. A source outlives its VMO until
//! its last packet has been taken, and its pager until its VMO is destroyed. A wait for a page has these steps:
//!
//! 1. A page look-up finds that it must wait, records the pages and their source ([`MissingPages`]) and fails with
//!    [`PAGE_WAIT`](crate::core::continuation::PAGE_WAIT), which all callers pass up unchanged. A call that ends so has
//!    changed nothing.
//! 2. The top-level handler of the event blocks the thread ([`Kernel::page_wait`]) on an existing request or a new one
//!    ([`requests`]), and stores the thread's continuation ([`AfterPageWait`](crate::task::page_wait::AfterPageWait)):
//!    the arguments of its call as they were first read, or its unanswered fault.
//! 3. The source sends its requests one at a time, in order ([`Kernel::source_send`]). It has one packet, which is free
//!    again when it has left the port. A port without handles accepts every packet and delivers none.
//! 4. The first of these events ends the wait:
//!    - 4A the pages arrive ([`Kernel::source_filled`]): a waiter that made the request continues when all of its pages
//!      are present, a waiter that joined it as soon as the first page that it wants is present,
//!    - 4B the pager reports a failure ([`Kernel::source_failed`]),
//!    - 4C the VMO is detached or the pager closed, which is also a failure,
//!    - 4D the VMO is destroyed, or shrinks: nothing is left to wait for,
//!    - 4E the thread is killed, or a debugger moves it elsewhere ([`Kernel::page_wait_cancel`]). A request without
//!      waiters is withdrawn,
//!    - 4F the thread is suspended ([`Kernel::page_wait_suspended`]): it leaves the request. When it is resumed, it goes
//!      on with step 5, and asks again for what is still absent.
//! 5. 4A to 4D append the thread to a queue. It still counts as waiting.
//! 6. After each event, the server takes some threads off that queue ([`Kernel::page_wait_next`]). After a failure the
//!    call returns its status, or the fault becomes an exception with that status. Otherwise the server makes the call
//!    again from its start, with the stored arguments, or handles the fault again; that may lead to step 1.

mod dirty;
mod long_calls;
mod requests;
mod run_map;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use abi::{
    Signals, Status, ZX_PAGER_VMO_COMPLETE, ZX_PAGER_VMO_DIRTY, ZX_PAGER_VMO_READ, ZX_PKT_TYPE_PAGE_REQUEST,
    zx_packet_page_request_t,
};

use crate::containers::list::{Chain, Link, List};
use crate::containers::slab::Key;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::{DrainStep, Id, Users};
use crate::core::port::{PACKET_SIZE, Port};
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::memory::vmo::{AbsentPages, SOURCE, Vmo};

pub use dirty::DirtyQuery;
pub(crate) use dirty::DirtyState;
pub(crate) use requests::{Kind, MissingPages};
use requests::{Requests, SendState};
pub(crate) use run_map::RunMap;

/// A pager.
#[derive(Default)]
pub struct Pager {
    sources: List<Sources>,
}

impl Noun for Pager {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_PAGER;
}

impl ObjectOps for Pager {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.reaper_enqueue(id.object());
    }

    #[inline(always)]
    fn needs_drain(&self) -> bool {
        !self.is_empty()
    }

    #[inline(always)]
    fn drain<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, users: Users) -> DrainStep {
        if !users.handles && kernel.pager_drain(id) { DrainStep::More } else { DrainStep::Nothing }
    }
}

/// The current use of a source's packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PacketUse {
    /// It carries a request.
    Request(Kind, u64),
    /// It says that there will be no more requests.
    Complete,
}

/// The state of the last packet (`ZX_PAGER_VMO_COMPLETE`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Complete {
    NotYet,
    /// To be sent as soon as the packet is free.
    Due,
    PacketUse,
}

/// The state of one pager-backed VMO.
pub(crate) struct Source {
    /// None once the pager is closed.
    pager: Option<Id<Pager>>,
    siblings: Link,
    /// None once the VMO is destroyed.
    vmo: Option<Id<Vmo>>,
    port: Id<Port>,
    key: u64,
    /// The pager must be asked before a page is written.
    traps: bool,
    /// The VMO is detached: nothing can be requested any more.
    pub(crate) detached: bool,
    /// Once detached: the page up to which clean pages have been evicted.
    pub evicted: u64,
    /// Pages of its VMO that are dirty or zero.
    pub dirt: RunMap<DirtyState>,
    /// The VMO was modified since this flag was last reset.
    modified: bool,
    pub(crate) requests: Requests,
    packet: Key,
    sent: Option<PacketUse>,
    complete: Complete,
}

/// The list of a pager's sources.
pub(crate) struct Sources;

impl Chain for Sources {
    type Entry = Source;
    fn link(source: &Source) -> Option<&Link> {
        Some(&source.siblings)
    }
    fn link_mut(source: &mut Source) -> Option<&mut Link> {
        Some(&mut source.siblings)
    }
}

impl<M: Machine> Kernel<M> {
    /// `pager_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn pager_create(&mut self) -> Result<Id<Pager>, Status> {
        self.create(Signals::NONE, Box::default())
    }

    /// `pager_create_vmo`: creates a VMO whose pages `pager` supplies. Requests are packets with `key` to `port`.
    /// `traps`: the pager must be asked before a page is written.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: too large. `NO_MEMORY`.
    pub fn pager_create_vmo(
        &mut self,
        pager: Id<Pager>,
        (port, key): (Id<Port>, u64),
        size: u64,
        resizable: bool,
        traps: bool,
    ) -> Result<Id<Vmo>, Status> {
        let source = self.source_create(pager, port, key, traps)?;
        let vmo = self.vmo_create(size, resizable).inspect_err(|_| self.source_abandon(source))?;
        self.objects.get_mut(vmo)?.absent_pages = AbsentPages::Source(source);
        if let Some(source) = self.sources.get_mut(source) {
            source.vmo = Some(vmo);
        }
        Ok(vmo)
    }

    /// Creates a source of a pager for a VMO that is about to be created. `traps`: the pager must be asked before a
    /// page is written.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn source_create(
        &mut self,
        pager: Id<Pager>,
        port: Id<Port>,
        key: u64,
        traps: bool,
    ) -> Result<Key, Status> {
        self.objects.get(pager)?;
        self.may_charge(pager.object(), SOURCE)?;
        let packet = self.packet_of_source(port)?;
        let source = Source {
            pager: Some(pager),
            siblings: Link::default(),
            vmo: None,
            port,
            key,
            traps,
            detached: false,
            evicted: 0,
            dirt: RunMap::default(),
            modified: false,
            requests: Requests::default(),
            packet,
            sent: None,
            complete: Complete::NotYet,
        };
        let Ok(source) = self.sources.insert(source) else {
            self.packet_of_source_end(packet);
            return Err(Status::NO_MEMORY);
        };
        self.packet_is_of(packet, source);
        self.add_ref(port.object());
        self.objects.get_mut(pager)?.sources.push(&mut self.sources, source);
        self.charge(pager.object(), SOURCE);
        Ok(source)
    }

    // --- step 3 ---

    /// Sends the next packet, if there is one to send and the packet is free.
    fn source_send(&mut self, key: Key) {
        while let Some(source) = self.sources.get_mut(key) {
            if source.sent.is_some() {
                return;
            }
            let (sent, command, pages) = if let Some((kind, pages)) = source.requests.next_unsent() {
                (PacketUse::Request(kind, pages.start), kind.command(), pages)
            } else if source.complete == Complete::Due {
                source.complete = Complete::PacketUse;
                (PacketUse::Complete, ZX_PAGER_VMO_COMPLETE, 0..0)
            } else {
                return;
            };
            source.sent = Some(sent);
            let (packet, bytes) = (source.packet, bytes(source.key, command, pages));
            if !self.packet_send(packet, bytes) {
                self.source_packet_gone(key);
            }
        }
    }

    /// Updates the packet of a request that changed while it is in the port.
    fn source_update_packet(&mut self, key: Key, kind: Kind, start: u64) {
        let Some(source) = self.sources.get_mut(key) else { return };
        if source.sent != Some(PacketUse::Request(kind, start)) {
            return;
        }
        let (packet, name) = (source.packet, source.key);
        let Some(end) = source.requests.get_mut(kind, start).map(|request| request.end) else { return };
        self.packet_change(packet, bytes(name, kind.command(), start..end));
    }

    /// Like [`Kernel::source_send`], but from outside of the port's code: also hands the packet to a thread that waits
    /// for it.
    pub(crate) fn source_send_now(&mut self, key: Key) {
        self.source_send(key);
        if let Some(port) = self.sources.get(key).map(|source| source.port) {
            self.port_serve(port);
        }
    }

    /// The packet has left the port, or never got there.
    fn source_packet_gone(&mut self, key: Key) {
        let Some(source) = self.sources.get_mut(key) else { return };
        match source.sent.take() {
            Some(PacketUse::Request(kind, start)) => {
                if let Some(request) = source.requests.get_mut(kind, start) {
                    request.send_state = SendState::Taken;
                }
            }
            Some(PacketUse::Complete) => self.source_free_if_done(key),
            None => {}
        }
    }

    /// The packet has left the port, so the next one can be sent.
    pub(crate) fn source_packet_taken(&mut self, key: Key) {
        self.source_packet_gone(key);
        self.source_send(key);
    }

    /// Withdraws the packet from the port.
    fn source_withdraw(&mut self, key: Key) {
        let Some(source) = self.sources.get_mut(key) else { return };
        source.sent = None;
        let packet = source.packet;
        self.packet_withdraw(packet);
    }

    // --- how requests end ---

    /// Ends a request: all its waiters continue with `status`.
    pub(crate) fn source_finish(&mut self, key: Key, kind: Kind, start: u64, status: Status) {
        let Some(source) = self.sources.get_mut(key) else { return };
        let Some(request) = source.requests.remove(kind, start) else { return };
        if request.send_state == SendState::InPort {
            self.source_withdraw(key);
        }
        for waiters in core::iter::once(request.whole).chain(request.joined.into_values()) {
            self.page_wait_end(waiters, status);
        }
        self.source_send(key);
    }

    /// 4A: pages have arrived, all of which were absent before, or may now be written, none of which could be before.
    pub(crate) fn source_filled(&mut self, key: Key, kind: Kind, mut from: u64, to: u64) {
        while let Some(source) = self.sources.get_mut(key) {
            let Some((start, end)) = source.requests.first(kind, from..to) else { return };
            let Some(request) = source.requests.get_mut(kind, start) else { return };
            let (first, last) = (from.max(start), to.min(end));
            request.missing = request.missing.saturating_sub(last - first);
            if request.missing == 0 {
                self.source_finish(key, kind, start, Status::OK);
            } else {
                while let Some(request) = self.sources.get_mut(key).and_then(|s| s.requests.get_mut(kind, start))
                    && let Some((&page, &waiters)) = request.joined.range(first..last).next()
                {
                    request.joined.remove(&page);
                    self.page_wait_end(waiters, Status::OK);
                }
            }
            from = last;
        }
    }

    /// 4B: the pager failed for a range of pages. Each request that overlaps the range fails.
    pub(crate) fn source_failed(&mut self, key: Key, from: u64, to: u64, status: Status) {
        for kind in [Kind::Read, Kind::Dirty] {
            self.source_finish_in(key, kind, from..to, status);
        }
    }

    /// The requests for a range of pages are obsolete: their waiters look the pages up again.
    pub(crate) fn source_retry(&mut self, key: Key, kind: Kind, pages: core::ops::Range<u64>) {
        self.source_finish_in(key, kind, pages, Status::OK);
    }

    /// Ends all requests that overlap a range.
    fn source_finish_in(&mut self, key: Key, kind: Kind, pages: core::ops::Range<u64>, status: Status) {
        while let Some((start, _)) = self.sources.get(key).and_then(|s| s.requests.first(kind, pages.clone())) {
            self.source_finish(key, kind, start, status);
        }
    }

    /// Ends all requests.
    fn source_finish_all(&mut self, key: Key, status: Status) {
        while let Some((kind, start)) = self.sources.get(key).and_then(|s| s.requests.any()) {
            self.source_finish(key, kind, start, status);
        }
    }

    // --- how sources end ---

    /// The last packet must be sent.
    fn source_complete(&mut self, key: Key) {
        let Some(source) = self.sources.get_mut(key) else { return };
        if source.complete == Complete::NotYet && source.pager.is_some() {
            source.complete = Complete::Due;
            self.source_send_now(key);
        }
    }

    /// The VMO of a source could not be created.
    pub(crate) fn source_abandon(&mut self, key: Key) {
        if let Some(source) = self.sources.get_mut(key) {
            source.complete = Complete::PacketUse;
        }
        self.source_free_if_done(key);
    }

    /// 4D: the VMO is destroyed. Returns the notes about its pages, which the VMO frees.
    pub(crate) fn source_vmo_gone(&mut self, key: Key) -> RunMap<DirtyState> {
        let Some(source) = self.sources.get_mut(key) else { return RunMap::default() };
        source.vmo = None;
        let dirt = core::mem::take(&mut source.dirt);
        self.source_finish_all(key, Status::OK);
        self.source_complete(key);
        self.source_free_if_done(key);
        dirt
    }

    /// Removes a source from its pager's list. If its VMO still exists, it is charged for the source from now on.
    fn source_leave_pager(&mut self, key: Key) {
        let Some(source) = self.sources.get_mut(key) else { return };
        let (Some(id), vmo) = (source.pager.take(), source.vmo) else { return };
        if let Ok(pager) = self.objects.get_mut(id) {
            pager.sources.remove(&mut self.sources, key);
        }
        self.discharge(id.object(), SOURCE);
        if let Some(vmo) = vmo {
            self.vmo_update_notes_charge(vmo);
        }
    }

    /// Destroys a source that has no VMO and nothing more to send.
    fn source_free_if_done(&mut self, key: Key) {
        let Some(source) = self.sources.get(key) else { return };
        let done = source.pager.is_none() || source.complete == Complete::PacketUse && source.sent.is_none();
        if source.vmo.is_some() || !done {
            return;
        }
        self.source_leave_pager(key);
        let Some(source) = self.sources.remove(key) else { return };
        self.packet_of_source_end(source.packet);
        self.drop_ref(source.port.object());
    }
}

impl Kind {
    /// `ZX_PAGER_VMO_*`.
    fn command(self) -> u16 {
        match self {
            Kind::Read => ZX_PAGER_VMO_READ,
            Kind::Dirty => ZX_PAGER_VMO_DIRTY,
        }
    }
}

/// Builds a packet about a range of pages.
fn bytes(key: u64, command: u16, pages: core::ops::Range<u64>) -> [u8; PACKET_SIZE] {
    let request = zx_packet_page_request_t {
        command,
        offset: pages.start * PAGE,
        length: (pages.end - pages.start) * PAGE,
        ..Default::default()
    };
    let mut bytes = [0; PACKET_SIZE];
    bytes[0..8].copy_from_slice(&key.to_le_bytes());
    bytes[8..12].copy_from_slice(&ZX_PKT_TYPE_PAGE_REQUEST.to_le_bytes());
    bytes[16..18].copy_from_slice(&request.command.to_le_bytes());
    bytes[24..32].copy_from_slice(&request.offset.to_le_bytes());
    bytes[32..40].copy_from_slice(&request.length.to_le_bytes());
    bytes
}
