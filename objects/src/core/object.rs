//! The common part of all kernel objects: identity, signals, and destruction with the last reference.
//!
//! An object lives as long as a handle refers to it, wherever that handle is (in a process's table or in a message), or
//! the kernel needs it (`refs`): a running thread holds itself, a mapping its VMO, a child its parent. When the last
//! *handle* is closed, the object's type determines what happens ([`ObjectOps::last_handle_closed`](crate::core::noun::ObjectOps::last_handle_closed)); when both counts are
//! 0, the object is destroyed. Destruction never recurses: the objects that it releases go onto the reaper's list
//! ([`crate::kernel::reaper`]), so a chain of a million objects inside each other's messages is destroyed in constant
//! stack.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::marker::PhantomData;

use abi::{Signals, Status};

use crate::containers::list::{Chain, Link, List};
use crate::containers::slab::{Key, Slab};
use crate::core::account::Charge;
use crate::core::event::Event;
use crate::core::handle::Handle;
use crate::core::noun::{Noun, Peered, Variant};
use crate::core::sole_waiter::SoleWaiter;
use crate::core::wait::Interests;
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::Machine;

/// Reference to an object of any type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub(crate) Key);

impl ObjectId {
    /// The lowest value in the order.
    pub(crate) const FIRST: Self = ObjectId(Key::FIRST);

    /// The object's slab index. Other modules use it as a short number for threads, files and so on.
    pub fn index(self) -> u32 {
        self.0.index
    }

    /// Encodes the reference as a word; never 0.
    pub fn to_word(self) -> u64 {
        self.0.to_word()
    }

    /// Decodes a word made by [`ObjectId::to_word`].
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

/// Reference to an object known to be a `T`.
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
    /// Its koid, never reused.
    pub koid: u64,
    /// Number of handles that refer to it.
    pub handles: u32,
    /// Number of other references to it.
    pub refs: u32,
    /// Its signals.
    pub signals: Signals,
    /// The signals that observers wait for.
    pub(crate) interests: List<Interests>,
    /// The sole waiter, if there is one.
    pub(crate) sole_waiter: Option<SoleWaiter>,
    reap_list: Link,
    /// What it is charged, and which account pays.
    pub(crate) charge: Charge,
    /// The part that depends on its type.
    pub body: Body,
}

impl Object {
    /// Whether nothing in the kernel but handles refers to it.
    #[inline(always)]
    pub(crate) fn is_unneeded(&self) -> bool {
        self.refs == 0 && !self.is_watched() && !self.reap_list.is_linked()
    }

    /// Whether it is on the reaper's list.
    #[inline(always)]
    pub(crate) fn is_on_reap_list(&self) -> bool {
        self.reap_list.is_linked()
    }

    /// Takes the type's part of an object that is being destroyed. The value left in its place owns no memory.
    #[inline(always)]
    pub(crate) fn take_body(&mut self) -> Body {
        core::mem::replace(&mut self.body, Box::new(Event).into_body())
    }

    /// Whether any observer waits for its signals.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.sole_waiter.is_some() || !self.interests.is_empty()
    }
}

/// The event has put something on the reaper's lists or on the queue of threads whose wait for pages is over, or memory
/// must be reclaimed.
pub(crate) const DEFERRED_WORK: u8 = 1;
/// The event has woken a thread.
pub(crate) const WOKEN: u8 = 2;

/// What an object that is being destroyed still holds.
pub(crate) enum DrainStep {
    /// This handle, which was just taken out of it.
    Handle(Handle),
    /// More; one step of its destruction was done.
    More,
    /// Nothing.
    Nothing,
}

/// What still refers to an object.
#[derive(Clone, Copy)]
pub(crate) struct Users {
    /// Handles.
    pub handles: bool,
    /// Handles or other references.
    pub any: bool,
}

/// The list of objects that the reaper checks for destruction.
pub struct ReapList;

impl Chain for ReapList {
    type Entry = Object;
    fn link(object: &Object) -> Option<&Link> {
        Some(&object.reap_list)
    }
    fn link_mut(object: &mut Object) -> Option<&mut Link> {
        Some(&mut object.reap_list)
    }
}

/// All objects.
#[derive(Default)]
pub struct Objects {
    pub(crate) slab: Slab<Object>,
    /// Jobs, processes and threads by koid.
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

    /// The type's part of an object.
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

    /// All live objects.
    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.slab.iter().map(|(_, object)| object)
    }

    /// The job, process or thread with this koid.
    pub fn task(&self, koid: u64) -> Option<ObjectId> {
        self.tasks.get(&koid).copied()
    }

    /// The job, process or thread with the lowest koid above this one, with that koid.
    pub fn task_after(&self, koid: u64) -> Option<(u64, ObjectId)> {
        self.tasks.range(koid.saturating_add(1)..).next().map(|(&koid, &id)| (koid, id))
    }

    /// The job, process or thread with this koid is being destroyed.
    #[inline]
    pub(crate) fn task_ended(&mut self, koid: u64) {
        self.tasks.remove(&koid);
    }

    /// Whether an object is in a list of this kind.
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

    /// The object after `object` in a list, or the first one for `None`.
    pub fn after<C: Chain<Entry = Object>>(&self, list: List<C>, object: Option<ObjectId>) -> Option<ObjectId> {
        list.after(&self.slab, object.map(|id| id.0)).map(ObjectId)
    }

    /// Changes a list of objects that another object keeps.
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

    /// Appends an object to a list that another object keeps.
    pub(crate) fn enlist<T: Noun, C: Chain<Entry = Object>>(
        &mut self,
        owner: Id<T>,
        list: impl Fn(&mut T) -> &mut List<C>,
        object: ObjectId,
    ) {
        self.change_list(owner, list, |list, slab| list.push(slab, object.0));
    }

    /// Removes an object from a list that another object keeps, if it is in it.
    pub(crate) fn delist<T: Noun, C: Chain<Entry = Object>>(
        &mut self,
        owner: Id<T>,
        list: impl Fn(&mut T) -> &mut List<C>,
        object: ObjectId,
    ) {
        self.change_list(owner, list, |list, slab| list.remove(slab, object.0));
    }

    /// Number of live objects.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
}

impl<M: Machine> Kernel<M> {
    /// Creates an object without handles and references. The caller adds one of them or calls
    /// [`Kernel::reaper_enqueue`].
    pub(crate) fn create<T: Noun>(&mut self, signals: Signals, noun: Box<T>) -> Result<Id<T>, Status> {
        let koid = self.next_koid;
        let object = Object {
            koid,
            handles: 0,
            refs: 0,
            signals,
            interests: List::default(),
            sole_waiter: None,
            reap_list: Link::default(),
            charge: Charge::default(),
            body: noun.into_body(),
        };
        let key = self.objects.slab.insert(object).map_err(|_| Status::NO_MEMORY)?;
        self.next_koid += 1;
        if T::IS_TASK {
            self.objects.tasks.insert(koid, ObjectId(key));
        }
        Ok(Id::new(ObjectId(key)))
    }

    /// Creates two objects that are each other's peers.
    pub(crate) fn create_pair<T: Peered>(
        &mut self,
        signals: Signals,
        pair: [Box<T>; 2],
    ) -> Result<(Id<T>, Id<T>), Status> {
        let [mut first, mut second] = pair;
        let koid = self.next_koid;
        *first.peer_mut().1 = koid + 1;
        let a: Id<T> = self.create(signals, first)?;
        let (peer, peer_koid) = second.peer_mut();
        (*peer, *peer_koid) = (Some(a), koid);
        let b: Id<T> = self.create(signals, second).inspect_err(|_| self.reaper_enqueue(a.object()))?;
        *self.objects.get_mut(a)?.peer_mut().0 = Some(b);
        Ok((a, b))
    }

    /// One end is unreachable: separates the two ends; returns the peer, if it still existed.
    pub(crate) fn part_pair<T: Peered>(&mut self, end: Id<T>) -> Option<Id<T>> {
        let peer = self.objects.get_mut(end).ok()?.peer_mut().0.take()?;
        if let Ok(other) = self.objects.get_mut(peer) {
            *other.peer_mut().0 = None;
        }
        Some(peer)
    }

    /// The koid of an object; 0 if it is destroyed.
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

    /// Drops a reference. If it was the last, the next [`Kernel::reap`] destroys the object.
    pub(crate) fn drop_ref(&mut self, id: ObjectId) {
        if let Ok(object) = self.objects.any_mut(id) {
            object.refs = object.refs.saturating_sub(1);
            if object.refs == 0 && object.handles == 0 {
                self.reaper_enqueue(id);
            }
        }
    }

    /// Drops a handle that is in no table any more.
    pub(crate) fn drop_handle(&mut self, handle: Handle) {
        if let Ok(object) = self.objects.any_mut(handle.object)
            && object.handles > 1
        {
            object.handles -= 1;
            return;
        }
        self.closing.push(handle);
        self.unsettled |= DEFERRED_WORK;
    }
}
