//! What all kernel objects have in common: an identity, signals, and a life that ends with the last reference.
//!
//! An object lives as long as a handle stands for it, wherever that handle is (in a process's table or in a message),
//! or something in the kernel needs it (`refs`): a running thread needs itself, a mapping its VMO, a child its parent.
//! When the last *handle* goes, the noun says what that means ([`Kernel::last_handle_gone`]); when the last of both
//! goes, the object is taken apart. Taking apart never recurses: what it lets go of is put on a list that is worked off
//! ([`crate::ends`]), so a chain of a million objects inside each other's messages ends in constant stack.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::marker::PhantomData;

use abi::{Signals, Status};

use crate::account::Charge;
use crate::event::Event;
use crate::handle::Handle;
use crate::kernel::{Kernel, LEFT};
use crate::list::{Chain, Link, List};
use crate::machine::Machine;
pub(crate) use crate::noun::Peered;
pub use crate::noun::{
    Body, Noun, Processes, Quarantined, Stopping, SubJobs, Threads, Unlocked, VmoChildren, VmoReaders, Waiters,
};
use crate::slab::{Key, Slab};
use crate::sole::Sole;
use crate::wait::Interests;

/// An object, whatever its type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub(crate) Key);

impl ObjectId {
    /// None comes before it in order.
    pub(crate) const FIRST: Self = ObjectId(Key::FIRST);

    /// The object's place, which its number of threads, files and so on may serve as a short name for.
    pub fn index(self) -> u32 {
        self.0.index
    }

    /// As a word, for who keeps it so; never 0.
    pub fn to_word(self) -> u64 {
        self.0.to_word()
    }

    /// What was made a word.
    pub fn from_word(word: u64) -> Option<Self> {
        Key::from_word(word).map(ObjectId)
    }

    #[inline]
    pub(crate) fn key(self) -> Key {
        self.0
    }

    #[cfg(test)]
    pub(crate) fn for_test(n: u32) -> Self {
        let mut slab = Slab::default();
        let mut key = slab.insert(()).expect("small");
        for _ in 0..n % 64 {
            key = slab.insert(()).expect("small");
        }
        ObjectId(key)
    }
}

/// An object known to be a `T`.
pub struct Id<T> {
    raw: ObjectId,
    noun: PhantomData<T>,
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.raw.cmp(&other.raw)
    }
}
impl<T> core::fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "#{}", self.raw.0.index)
    }
}

impl<T> Id<T> {
    /// None comes before it in order.
    pub(crate) const FIRST: Self = Id { raw: ObjectId::FIRST, noun: PhantomData };

    pub(crate) fn new(raw: ObjectId) -> Self {
        Id { raw, noun: PhantomData }
    }

    /// The object without its type.
    #[inline]
    pub fn object(self) -> ObjectId {
        self.raw
    }
}

/// An object.
pub struct Object {
    /// Its number, never given out again.
    pub koid: u64,
    /// Handles that stand for it.
    pub handles: u32,
    /// What else needs it.
    pub refs: u32,
    /// Its signals.
    pub signals: Signals,
    /// What is waited for.
    pub(crate) interests: List<Interests>,
    /// Who waits, where it is one alone.
    pub(crate) sole: Option<Sole>,
    doomed: Link,
    /// What it is charged for, and to whom.
    pub(crate) charge: Charge,
    /// What depends on its type.
    pub body: Body,
}

impl Object {
    /// Whether nobody has anything to do with it any more and nothing hangs on it, so that it need not be taken apart.
    #[inline(always)]
    fn is_done_with(&self) -> bool {
        self.handles == 0
            && matches!(self.body, Body::Event(_) | Body::Counter(_) | Body::Debuglog(_))
            && self.is_unneeded()
    }

    /// Whether, when its last handle has gone, nothing else of the kernel's hangs on it.
    #[inline(always)]
    pub(crate) fn is_unneeded(&self) -> bool {
        self.refs == 0 && !self.is_watched() && !self.doomed.is_linked()
    }

    /// Whether it is going to be looked at.
    #[inline(always)]
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.is_linked()
    }

    /// What depends on its type, of an object that goes. What stays in its place has nothing to be freed.
    #[inline(always)]
    pub(crate) fn take_body(&mut self) -> Body {
        core::mem::replace(&mut self.body, Body::Event(Box::new(Event)))
    }

    /// Whether anybody waits for its signals.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.sole.is_some() || !self.interests.is_empty()
    }
}

/// Objects of which something may have to be taken apart.
pub struct Doomed;

impl Chain for Doomed {
    type Entry = Object;
    fn link(object: &Object) -> Option<&Link> {
        Some(&object.doomed)
    }
    fn link_mut(object: &mut Object) -> Option<&mut Link> {
        Some(&mut object.doomed)
    }
}

/// All objects.
#[derive(Default)]
pub struct Objects {
    pub(crate) slab: Slab<Object>,
    /// Jobs, processes and threads by their numbers.
    tasks: BTreeMap<u64, ObjectId>,
}

impl Objects {
    /// The object itself.
    ///
    /// # Errors
    /// `INTERNAL`: the kernel lost count of a reference.
    #[inline]
    pub fn any(&self, id: ObjectId) -> Result<&Object, Status> {
        self.slab.get(id.0).ok_or(Status::INTERNAL)
    }

    #[inline]
    pub(crate) fn any_mut(&mut self, id: ObjectId) -> Result<&mut Object, Status> {
        self.slab.get_mut(id.0).ok_or(Status::INTERNAL)
    }

    /// The part of an object that its type names.
    ///
    /// # Errors
    /// `INTERNAL`, as [`Objects::any`].
    #[inline]
    pub fn get<T: Noun>(&self, id: Id<T>) -> Result<&T, Status> {
        let Some(object) = self.slab.get(id.raw.0) else { return Err(Status::INTERNAL) };
        T::own(&object.body)
    }

    #[inline]
    pub(crate) fn get_mut<T: Noun>(&mut self, id: Id<T>) -> Result<&mut T, Status> {
        let Some(object) = self.slab.get_mut(id.raw.0) else { return Err(Status::INTERNAL) };
        T::own_mut(&mut object.body)
    }

    /// The object as a `T`.
    ///
    /// # Errors
    /// `WRONG_TYPE`.
    #[inline]
    pub fn typed<T: Noun>(&self, id: ObjectId) -> Result<Id<T>, Status> {
        if T::is(&self.any(id)?.body) { Ok(Id::new(id)) } else { Err(Status::WRONG_TYPE) }
    }

    /// All objects alive.
    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.slab.iter().map(|(_, object)| object)
    }

    /// The job, process or thread with a number.
    pub fn task(&self, koid: u64) -> Option<ObjectId> {
        self.tasks.get(&koid).copied()
    }

    /// The oldest job, process or thread that is newer than the one with a number, with its own.
    pub fn task_after(&self, koid: u64) -> Option<(u64, ObjectId)> {
        self.tasks.range(koid.saturating_add(1)..).next().map(|(&koid, &id)| (koid, id))
    }

    /// Whether an object is in a list of a kind.
    pub fn is_listed<C: Chain<Entry = Object>>(&self, id: ObjectId) -> bool {
        self.any(id).is_ok_and(|object| C::link(object).is_some_and(Link::is_linked))
    }

    /// All jobs, processes and threads, the newest first.
    pub(crate) fn newest_tasks(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.tasks.values().rev().copied()
    }

    /// The objects of a list.
    pub fn listed<C: Chain<Entry = Object> + 'static>(&self, list: List<C>) -> impl Iterator<Item = ObjectId> + '_ {
        list.iter(&self.slab).map(ObjectId)
    }

    /// The object after another one of a list, or the first one.
    pub fn after<C: Chain<Entry = Object>>(&self, list: List<C>, object: Option<ObjectId>) -> Option<ObjectId> {
        list.after(&self.slab, object.map(|id| id.0)).map(ObjectId)
    }

    /// Changes a list that an object keeps of other objects.
    pub(crate) fn change_list<T: Noun, C: Chain<Entry = Object>>(
        &mut self,
        owner: Id<T>,
        list: impl Fn(&mut T) -> &mut List<C>,
        change: impl FnOnce(&mut List<C>, &mut Slab<Object>),
    ) {
        let Ok(mut changed) = self.get_mut(owner).map(|owner| *list(owner)) else { return };
        change(&mut changed, &mut self.slab);
        if let Ok(owner) = self.get_mut(owner) {
            *list(owner) = changed;
        }
    }

    /// Puts an object at the end of a list that another one keeps.
    pub(crate) fn enlist<T: Noun, C: Chain<Entry = Object>>(
        &mut self,
        owner: Id<T>,
        list: impl Fn(&mut T) -> &mut List<C>,
        object: ObjectId,
    ) {
        self.change_list(owner, list, |list, slab| list.push(slab, object.0));
    }

    /// Takes an object out of a list that another one keeps, if it is in it.
    pub(crate) fn delist<T: Noun, C: Chain<Entry = Object>>(
        &mut self,
        owner: Id<T>,
        list: impl Fn(&mut T) -> &mut List<C>,
        object: ObjectId,
    ) {
        self.change_list(owner, list, |list, slab| list.remove(slab, object.0));
    }

    /// Objects alive.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
}

impl<M: Machine> Kernel<M> {
    /// A new object without handles and references; the caller sees to one of them, or calls [`Kernel::doom`].
    pub(crate) fn create<T: Noun>(&mut self, signals: Signals, body: Body) -> Result<Id<T>, Status> {
        let koid = self.next_koid;
        let object = Object {
            koid,
            handles: 0,
            refs: 0,
            signals,
            interests: List::default(),
            sole: None,
            doomed: Link::default(),
            charge: Charge::default(),
            body,
        };
        let key = self.objects.slab.insert(object).map_err(|_| Status::NO_MEMORY)?;
        self.next_koid += 1;
        if matches!(T::TYPE, abi::ZX_OBJ_TYPE_JOB | abi::ZX_OBJ_TYPE_PROCESS | abi::ZX_OBJ_TYPE_THREAD) {
            self.objects.tasks.insert(koid, ObjectId(key));
        }
        Ok(Id::new(ObjectId(key)))
    }

    /// Two new objects that are each other's peers.
    pub(crate) fn create_pair<T: Peered>(
        &mut self,
        signals: Signals,
        bodies: [Body; 2],
    ) -> Result<(Id<T>, Id<T>), Status> {
        let [mut first, mut second] = bodies;
        let koid = self.next_koid;
        *T::own_mut(&mut first)?.peer_mut().1 = koid + 1;
        let a: Id<T> = self.create(signals, first)?;
        let (peer, peer_koid) = T::own_mut(&mut second)?.peer_mut();
        (*peer, *peer_koid) = (Some(a), koid);
        let b: Id<T> = self.create(signals, second).inspect_err(|_| self.doom(a.object()))?;
        *self.objects.get_mut(a)?.peer_mut().0 = Some(b);
        Ok((a, b))
    }

    /// An end is unreachable: parts the two; returns the other end, if it was there.
    pub(crate) fn part_pair<T: Peered>(&mut self, end: Id<T>) -> Option<Id<T>> {
        let peer = self.objects.get_mut(end).ok()?.peer_mut().0.take()?;
        if let Ok(other) = self.objects.get_mut(peer) {
            *other.peer_mut().0 = None;
        }
        Some(peer)
    }

    /// The number of an object; 0 if it is gone.
    pub fn koid(&self, id: ObjectId) -> u64 {
        self.objects.any(id).map_or(0, |o| o.koid)
    }

    pub(crate) fn add_handle(&mut self, id: ObjectId) {
        if let Ok(object) = self.objects.any_mut(id) {
            object.handles += 1;
        }
    }

    pub(crate) fn add_ref(&mut self, id: ObjectId) {
        if let Ok(object) = self.objects.any_mut(id) {
            object.refs += 1;
        }
    }

    /// Lets go of a reference; the object's end, if it was the last, comes with the next [`Kernel::reap`].
    pub(crate) fn drop_ref(&mut self, id: ObjectId) {
        if let Ok(object) = self.objects.any_mut(id) {
            object.refs = object.refs.saturating_sub(1);
            if object.refs == 0 && object.handles == 0 {
                self.doom(id);
            }
        }
    }

    /// Lets go of a handle that is no longer in any table.
    pub(crate) fn drop_handle(&mut self, handle: Handle) {
        if let Ok(object) = self.objects.any_mut(handle.object)
            && object.handles > 1
        {
            object.handles -= 1;
            return;
        }
        self.closing.push(handle);
        self.unsettled |= LEFT;
    }

    #[inline]
    pub(crate) fn close_now(&mut self, handle: Handle) {
        let Ok(object) = self.objects.any_mut(handle.object) else { return };
        object.handles = object.handles.saturating_sub(1);
        if object.is_done_with() {
            let charge = object.charge;
            self.objects.slab.drop_entry(handle.object.0);
            self.charge_end(charge);
        } else if object.handles == 0 {
            match &object.body {
                Body::Channel(_) => self.channel_closed(Id::new(handle.object)),
                _ => self.close_last(handle.object),
            }
        }
    }

    #[inline(never)]
    pub(crate) fn close_last(&mut self, id: ObjectId) {
        self.last_handle_gone(id);
        let Ok(object) = self.objects.any(id) else { return };
        if object.refs == 0 && object.handles == 0 {
            match &object.body {
                _ if object.is_watched() => self.doom(id),
                Body::Process(_) | Body::Vproc(_) => self.doom(id),
                Body::Channel(channel) if !channel.is_empty() => self.doom(id),
                Body::Port(port) if !port.is_empty() => self.doom(id),
                Body::Pager(pager) if !pager.is_empty() => self.doom(id),
                _ => self.take_apart(id),
            }
        }
    }

    fn last_handle_gone(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        match &object.body {
            Body::Channel(_) => self.channel_unreachable(Id::new(id)),
            Body::Socket(_) => self.socket_unreachable(Id::new(id)),
            Body::Fifo(_) => self.fifo_unreachable(Id::new(id)),
            Body::EventPair(_) => self.eventpair_unreachable(Id::new(id)),
            Body::Iob(_) => self.iob_unreachable(Id::new(id)),
            Body::Port(_) => self.port_unreachable(Id::new(id)),
            Body::Timer(_) => self.timer_unreachable(Id::new(id)),
            Body::Job(_) => self.job_prune(Id::new(id)),
            Body::Process(_) => self.process_unreachable(Id::new(id)),
            Body::Exception(_) => self.exception_unreachable(Id::new(id)),
            Body::Interrupt(_) => self.interrupt_unreachable(Id::new(id)),
            Body::Pager(_) => self.pager_unreachable(Id::new(id)),
            Body::Bti(_) => self.bti_unreachable(Id::new(id)),
            Body::Pmt(_) => self.pmt_unreachable(Id::new(id)),
            Body::Endpoint(_) => self.endpoint_unreachable(Id::new(id)),
            Body::Vproc(_) => self.vproc_unreachable(Id::new(id)),
            _ => {}
        }
    }

    pub(crate) fn take_apart(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        let listed = matches!(object.body, Body::Job(_) | Body::Thread(_) | Body::Process(_) | Body::Vmo(_));
        if object.doomed.is_linked() {
            self.doomed.remove(&mut self.objects.slab, id.0);
        }
        if listed {
            self.leave_lists(id);
        }
        self.end_object(id);
    }

    /// An object on which nothing hangs any more goes.
    fn end_object(&mut self, id: ObjectId) {
        let taken = self.objects.slab.vacate(id.0, |object| Some((object.charge, object.take_body())));
        let Some((charge, body)) = taken else { return };
        match &body {
            Body::Channel(end) => self.held_ends(charge, end.counted),
            Body::Socket(end) => self.held_ends(charge, end.counted),
            _ => {}
        }
        self.charge_end(charge);
        match body {
            Body::Channel(end) => self.channel_end(end),
            Body::Job(job) => self.job_end(*job),
            Body::Process(process) => self.process_end(Id::new(id), *process),
            Body::Thread(thread) => self.thread_end(*thread),
            Body::Vmo(vmo) => self.vmo_end(vmo),
            Body::Stream(stream) => self.stream_end(*stream),
            Body::Iob(end) => self.iob_end(*end),
            Body::IobSharedRegion(region) => self.iob_shared_region_end(*region),
            Body::Resource(resource) => self.resource_end(&resource),
            Body::SuspendToken(token) => self.suspend_token_end(*token),
            Body::Exception(exception) => self.exception_end(*exception),
            Body::Interrupt(interrupt) => self.interrupt_end(&interrupt),
            Body::Msi(msi) => self.msi_end(&msi),
            Body::Bti(bti) => self.bti_end(&bti),
            Body::Pmt(pmt) => self.pmt_end(*pmt),
            Body::Clock(clock) => self.clock_end(&clock),
            Body::Endpoint(endpoint) => self.endpoint_end(&endpoint),
            Body::Vproc(vproc) => self.vproc_end(*vproc),
            _ => {}
        }
        self.charge_worked(charge);
    }

    /// Takes an object that is about to go off the lists that it is in.
    fn leave_lists(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        let koid = object.koid;
        match &object.body {
            Body::Job(_) => self.job_leave(Id::new(id)),
            Body::Thread(_) => self.thread_leave(Id::new(id)),
            Body::Process(_) => {}
            Body::Vmo(_) => return self.vmo_leave(Id::new(id)),
            _ => return,
        }
        self.objects.tasks.remove(&koid);
    }
}
