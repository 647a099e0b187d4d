//! The kernel: all objects, their observers, and the machine below.
//!
//! One [`Kernel`] holds all state; there are no globals, so several kernels can exist side by side. The operations of
//! each noun are methods on it, defined in the noun's file.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use abi::{Rights, Status, ZX_OBJ_TYPE_UPPER_BOUND};

use crate::containers::list::List;
use crate::containers::name::Name;
use crate::containers::slab::{Key, Slab};
use crate::core::account::Accounts;
use crate::core::continuation::Progress;
use crate::core::debuglog::Log;
use crate::core::handle::{Handle, HandleLookaside, HandleValue, LookasideEntry};
use crate::core::noun::Noun;
use crate::core::noun::Variant;
use crate::core::object::{DEFERRED_WORK, Id, ObjectId, Objects, ReapList};
use crate::core::port::Packet;
use crate::core::wait::Waiters;
use crate::core::wait::{Interest, Observer};
use crate::device::resource::RangeBook;
use crate::guest::component::Component;
use crate::ipc::buffer_pool::BufferPool;
use crate::ipc::channel::Channel;
use crate::kernel::reaper::Reaper;
use crate::kernel::trace::Trace;
use crate::machine::{Machine, MachineEndpoint, MachineThread};
use crate::memory::aspace::AddressSpace;
use crate::memory::frames::Frames;
use crate::memory::pager::{MissingPages, Source};
use crate::memory::pressure::Pressure;
use crate::memory::vmar::Nodes;
use crate::memory::vmo::AllocateAhead;
use crate::memory::vmo::Unlocked;
use crate::task::endpoint::Endpoint;
use crate::task::fair_scheduling::FairScheduler;
use crate::task::futex::Futexes;
use crate::task::job::Job;
use crate::task::process::Process;
use crate::task::thread::Thread;
use crate::time::deadline::Deadlines;

mod failure_plan;
pub(crate) mod lifecycle;
pub mod nouns;
pub mod reaper;
pub(crate) mod trace;

/// See the module's description.
pub struct Kernel<M: Machine> {
    /// The machine below.
    pub machine: M,
    /// All objects.
    pub objects: Objects,
    pub(crate) interests: Slab<Interest>,
    pub(crate) observers: Slab<Observer>,
    /// Number of observers created so far.
    pub(crate) observed: u64,
    pub(crate) packets: Slab<Packet>,
    pub(crate) sources: Slab<Source>,
    /// The pages from a pager that the current event must wait for, if any.
    pub(crate) wanted: Option<MissingPages>,
    /// How far the current call has come, if it needs a continuation.
    pub(crate) progress: Option<Progress>,
    /// Threads whose wait for pages is over and whose calls are to be made again.
    pub(crate) page_ready_queue: List<Waiters>,
    pub(crate) aspaces: Slab<AddressSpace>,
    /// Number of address spaces that show a part of another one; usually 0.
    pub(crate) showing: usize,
    pub(crate) frames: Frames,
    pub(crate) ahead: AllocateAhead,
    /// Discardable VMOs that are unlocked and have pages, the longest unlocked first.
    pub(crate) unlocked: List<Unlocked>,
    pub(crate) next_pin: u64,
    pub(crate) deadlines: Deadlines,
    pub(crate) futexes: Futexes,
    /// Message buffers for reuse.
    pub buffers: BufferPool,
    /// Boxes of destroyed channel ends, for reuse.
    #[allow(clippy::vec_box, reason = "the boxes are what is kept")]
    pub(crate) spare_channels: Vec<Box<Channel>>,
    pub(crate) log: Log,
    pub(crate) ranges: RangeBook,
    /// Known endpoints of native components.
    pub(crate) found: BTreeMap<MachineEndpoint, Id<Endpoint>>,
    /// Native components that are clients, by component number.
    pub(crate) components: BTreeMap<u8, Component>,
    pub(crate) serial: crate::device::debug::Serial,
    pub(crate) next_koid: u64,
    pub(crate) handle_lookaside: HandleLookaside,
    /// Handles to close, and objects to check for destruction, at the end of the call: see [`crate::kernel::reaper`].
    pub(crate) closing: Vec<Handle>,
    pub(crate) reap_list: List<ReapList>,
    pub(crate) reaper: Reaper,
    /// Kinds of work that the current event has deferred: [`DEFERRED_WORK`], [`WOKEN`](crate::core::object::WOKEN).
    pub(crate) unsettled: u8,
    /// An upcall may be due for the calling thread: see [`crate::guest::vproc`].
    pub(crate) upcall: bool,
    pub(crate) pressure: Pressure,
    pub(crate) accounts: Accounts,
    /// Ticks during which the kernel worked that are already accounted, whether to a job or to none.
    pub(crate) ticks_counted: u64,
    pub(crate) scheduler: FairScheduler,
    pub(crate) trace: Trace,
    /// The koid of the task whose memory requests fail by plan (failure injection).
    pub(crate) failure_plan_task: Option<u64>,
    pub(crate) nodes: Nodes,
    pub(crate) root_job: Option<Id<Job>>,
}

/// The caller of a system call.
#[derive(Clone, Copy)]
pub struct Caller {
    /// The thread.
    pub thread: Id<Thread>,
    /// Its process.
    pub process: Id<Process>,
    /// The address space in which its addresses are valid.
    pub aspace: Key,
    /// The machine's thread.
    pub machine: MachineThread,
}

impl<M: Machine> Kernel<M> {
    /// Creates a kernel that contains only its root job.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn new(machine: M) -> Result<Self, Status> {
        let mut kernel = Kernel {
            machine,
            objects: Objects::default(),
            interests: Slab::default(),
            observers: Slab::default(),
            observed: 0,
            packets: Slab::default(),
            sources: Slab::default(),
            wanted: None,
            progress: None,
            page_ready_queue: List::default(),
            aspaces: Slab::default(),
            showing: 0,
            frames: Frames::default(),
            ahead: AllocateAhead::default(),
            unlocked: List::default(),
            next_pin: 0,
            deadlines: Deadlines::default(),
            futexes: Futexes::default(),
            buffers: BufferPool::default(),
            spare_channels: Vec::new(),
            log: Log::default(),
            ranges: RangeBook::default(),
            found: BTreeMap::new(),
            components: BTreeMap::new(),
            serial: crate::device::debug::Serial::default(),
            // Numbers below 1024 are reserved, as in Zircon.
            next_koid: 1024,
            handle_lookaside: HandleLookaside::default(),
            closing: Vec::new(),
            reap_list: List::default(),
            reaper: Reaper::default(),
            unsettled: 0,
            upcall: false,
            pressure: Pressure::default(),
            accounts: Accounts::default(),
            ticks_counted: 0,
            scheduler: FairScheduler::default(),
            trace: Trace::default(),
            failure_plan_task: None,
            nodes: Nodes::default(),
            root_job: None,
        };
        kernel.make_root_job()?;
        Ok(kernel)
    }

    /// The root job.
    ///
    /// # Errors
    /// `BAD_STATE`: it has ended.
    pub fn root_job(&self) -> Result<Id<Job>, Status> {
        self.root_job.ok_or(Status::BAD_STATE)
    }

    /// The thread with this index, as the machine reports it in events.
    #[inline]
    pub fn thread_at(&self, index: u32) -> Option<Id<Thread>> {
        let (key, object) = self.objects.slab.at(index)?;
        Thread::of(&object.body).map(|_| Id::new(ObjectId(key)))
    }

    /// The caller for a call that carries this index. None if there is no such thread, or it cannot make a call because
    /// it has not started, has ended, or is blocked.
    #[inline]
    pub fn caller(&self, index: u32) -> Option<Caller> {
        let (key, object) = self.objects.slab.at(index)?;
        let thread = Thread::of(&object.body)?;
        if thread.is_waiting() {
            return None;
        }
        // Both fields are set from the thread's start to its end.
        let (aspace, machine) = (thread.aspace?, thread.machine?);
        Some(Caller { thread: Id::new(ObjectId(key)), process: thread.holder, aspace, machine })
    }

    /// Whether the last event deferred work (see [`Kernel::reap`] and [`Kernel::page_waits_done`]) or ended a wait.
    #[inline]
    pub fn is_unsettled(&self) -> bool {
        self.unsettled != 0
    }

    /// Clears the flags of deferred work; says whether there is work beyond the end of a wait, which the caller must
    /// then do. Work that this causes sets the flags again.
    #[inline]
    pub fn settling(&mut self) -> bool {
        core::mem::take(&mut self.unsettled) & DEFERRED_WORK != 0
    }

    /// Gives a process a handle to an object.
    ///
    /// # Errors
    /// `NO_MEMORY`; the object is not touched then.
    #[inline]
    pub fn give(&mut self, process: Id<Process>, object: ObjectId, rights: Rights) -> Result<HandleValue, Status> {
        let receiver = self.objects.get_mut(process)?;
        if !receiver.handles.has_room(1) {
            return self.give_growing(process, object, rights);
        }
        let value = receiver.handles.fill(Handle { object, rights })?;
        self.add_handle(object);
        Ok(value)
    }

    /// Slow path of [`Kernel::give`]: the process's table is full.
    #[cold]
    #[inline(never)]
    fn give_growing(&mut self, process: Id<Process>, object: ObjectId, rights: Rights) -> Result<HandleValue, Status> {
        let value = self.table_add(process, Handle { object, rights })?;
        self.add_handle(object);
        Ok(value)
    }

    /// Puts a handle into a process's handle table that is full.
    #[cold]
    #[inline(never)]
    fn table_add(&mut self, process: Id<Process>, handle: Handle) -> Result<HandleValue, Status> {
        self.reserve_handles(process, 1)?;
        self.objects.get_mut(process)?.handles.fill(handle)
    }

    /// Gives a process a handle to a new object and charges the process's job for it. If that fails, the object is
    /// destroyed.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn give_new<T: Noun>(
        &mut self,
        process: Id<Process>,
        object: Id<T>,
        rights: Rights,
    ) -> Result<HandleValue, Status> {
        let given = self.give_charged(process, object, rights);
        given.inspect_err(|_| self.reaper_enqueue(object.object()))
    }

    #[inline(always)]
    fn give_charged<T: Noun>(
        &mut self,
        process: Id<Process>,
        id: Id<T>,
        rights: Rights,
    ) -> Result<HandleValue, Status> {
        let mut receiver = self.objects.get_mut(process)?;
        if !receiver.handles.has_room(1) {
            self.reserve_handles(process, 1)?;
            receiver = self.objects.get_mut(process)?;
        }
        let handle = Handle { object: id.object(), rights };
        let (account, value) = (receiver.account, receiver.handles.fill(handle)?);
        match self.charge_new(account, id) {
            Ok(object) => {
                object.handles += 1;
                Ok(value)
            }
            Err(status) => {
                self.remove_handle(process, value)?;
                Err(status)
            }
        }
    }

    /// Gives a process handles to both ends of a new pair, like [`Kernel::give_new`]: both or none. The type must be
    /// one whose objects are charged to the creator's job.
    ///
    /// # Errors
    /// As [`Kernel::give_new`].
    pub fn give_new_pair<T: Noun>(
        &mut self,
        process: Id<Process>,
        pair: [Id<T>; 2],
        rights: Rights,
    ) -> Result<[HandleValue; 2], Status> {
        let given = self.give_pair_charged(process, pair, rights);
        given.inspect_err(|_| pair.into_iter().for_each(|id| self.reaper_enqueue(id.object())))
    }

    #[inline(always)]
    fn give_pair_charged<T: Noun>(
        &mut self,
        process: Id<Process>,
        pair: [Id<T>; 2],
        rights: Rights,
    ) -> Result<[HandleValue; 2], Status> {
        let mut receiver = self.objects.get_mut(process)?;
        if !receiver.handles.has_room(pair.len()) {
            self.reserve_handles(process, pair.len())?;
            receiver = self.objects.get_mut(process)?;
        }
        let [first, second] = pair.map(|id| receiver.handles.fill(Handle { object: id.object(), rights }));
        let (values, account) = ([first?, second?], receiver.account);
        match self.charge_pair(account, pair) {
            Ok(()) => Ok(values),
            Err(status) => {
                values.into_iter().try_for_each(|value| self.remove_handle(process, value).map(|_| ()))?;
                Err(status)
            }
        }
    }

    /// The object and rights of a handle of a process.
    ///
    /// # Errors
    /// `BAD_HANDLE`.
    #[inline(always)]
    pub fn handle(&self, process: Id<Process>, value: HandleValue) -> Result<Handle, Status> {
        Ok(self.find_handle(process, value)?.handle())
    }

    /// Like [`Kernel::handle`], with the object as a `T`.
    ///
    /// # Errors
    /// `BAD_HANDLE`, `WRONG_TYPE`.
    #[inline(always)]
    pub fn handle_to<T: Noun>(&self, process: Id<Process>, value: HandleValue) -> Result<(Id<T>, Rights), Status> {
        let found = self.find_handle(process, value)?;
        Ok((found.to().ok_or(Status::WRONG_TYPE)?, found.handle().rights))
    }

    /// Fast path of [`Kernel::handle_to`]: the object behind a handle, if the look-up is cached, the object is a `T`,
    /// and the handle has all of `rights`. On `None` the caller uses [`Kernel::handle_to`], which finds the error.
    #[inline(always)]
    pub fn known_handle_to<T: Noun>(&self, process: Id<Process>, value: HandleValue, rights: Rights) -> Option<Id<T>> {
        self.handle_lookaside.find(process.object(), value)?.to_with(rights)
    }

    #[inline(always)]
    fn find_handle(&self, process: Id<Process>, value: HandleValue) -> Result<&LookasideEntry, Status> {
        match self.handle_lookaside.find(process.object(), value) {
            Some(found) => Ok(found),
            None => self.look_up_handle(process, value),
        }
    }

    #[inline(never)]
    fn look_up_handle(&self, process: Id<Process>, value: HandleValue) -> Result<&LookasideEntry, Status> {
        let handle = self.objects.get(process)?.handles.get(value)?;
        let kind = self.objects.any(handle.object)?.body.object_type();
        Ok(self.handle_lookaside.keep(process.object(), value, handle, kind))
    }

    /// Removes a handle from a process's table, if no wait goes through it.
    #[inline(always)]
    fn remove_handle(&mut self, process: Id<Process>, value: HandleValue) -> Result<Handle, Status> {
        let handle = self.objects.get_mut(process)?.handles.remove(value)?;
        self.handle_lookaside.forget(value);
        Ok(handle)
    }

    /// Removes a handle from a process's table, cancels the waits through it, and returns the handle, which still
    /// counts as a handle of its object.
    ///
    /// # Errors
    /// `BAD_HANDLE`.
    #[inline]
    pub fn take(&mut self, process: Id<Process>, value: HandleValue) -> Result<Handle, Status> {
        match self.remove_handle(process, value) {
            Err(Status::SHOULD_WAIT) => self.take_waited(process, value),
            taken => taken,
        }
    }

    #[cold]
    #[inline(never)]
    fn take_waited(&mut self, process: Id<Process>, value: HandleValue) -> Result<Handle, Status> {
        self.cancel_waits_through(process.object(), value);
        self.remove_handle(process, value)
    }

    /// Puts a handle that is in no table (for example, from a message) into a process's table. The caller has reserved
    /// room.
    ///
    /// # Errors
    /// `NO_MEMORY`; the handle is then closed.
    #[inline]
    pub fn put(&mut self, process: Id<Process>, handle: Handle) -> Result<HandleValue, Status> {
        let put = match self.objects.get_mut(process) {
            Ok(receiver) if receiver.handles.has_room(1) => receiver.handles.fill(handle),
            _ => self.table_add(process, handle),
        };
        put.inspect_err(|_| self.drop_handle(handle))
    }

    /// Duplicates a handle that is in no table.
    pub fn dup_handle(&mut self, handle: Handle) -> Handle {
        self.add_handle(handle.object);
        handle
    }

    /// Reserves room for `count` handles in a process's table, so that as many calls of [`Kernel::put`] cannot fail.
    ///
    /// # Errors
    /// `NO_MEMORY`. `NO_RESOURCES`: the quota of the process's job.
    #[inline(never)]
    pub fn reserve_handles(&mut self, process: Id<Process>, count: usize) -> Result<(), Status> {
        match self.objects.get_mut(process)?.handles.reserve(count) {
            Err(Status::SHOULD_WAIT) => {
                self.table_may_grow(process, count)?;
                self.objects.get_mut(process)?.handles.reserve(count)
            }
            reserved => reserved,
        }
    }

    /// The peer of an object of a paired type; none if the peer is destroyed.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the type has no peers.
    pub fn peer(&self, object: ObjectId) -> Result<Option<ObjectId>, Status> {
        let peer = self.objects.any(object)?.body.peer().ok_or(Status::NOT_SUPPORTED)?;
        Ok(peer.object)
    }

    /// Sets the name of an object.
    ///
    /// # Errors
    /// `WRONG_TYPE`: objects of this type have no name.
    pub fn set_name(&mut self, object: ObjectId, name: Name) -> Result<(), Status> {
        self.trace_renamed(object);
        self.object_rename(object, name)
    }

    /// Whether `task` is listed as a child of `parent`. Jobs and processes are listed until they end, threads from
    /// their start to their end.
    pub fn is_child(&self, task: ObjectId, parent: ObjectId) -> bool {
        self.objects.any(task).is_ok_and(|task| task.body.parent() == Some(parent) && task.body.is_child())
    }

    /// The koid of an object's peer or parent; 0 if it has none.
    pub fn related_koid(&self, object: ObjectId) -> u64 {
        let Ok(object) = self.objects.any(object) else { return 0 };
        match object.body.peer() {
            Some(peer) => peer.koid,
            None => object.body.parent().map_or(0, |parent| self.koid(parent)),
        }
    }

    /// Closes a handle that is in no table and destroys its object now. The caller is in no operation that the
    /// destruction could disturb.
    #[inline]
    pub fn close_at_once(&mut self, handle: Handle) {
        self.close_now(handle);
    }

    /// Closes a handle that is in no table.
    pub fn close(&mut self, handle: Handle) {
        self.drop_handle(handle);
    }

    /// Number of frames that the kernel itself holds, for tests: the page of zeroes once it was needed.
    pub fn frames_kept(&self) -> usize {
        usize::from(self.frames.zero.is_some())
    }

    /// Numbers of objects, of observers including sole waiters, and of address spaces, for tests and reports.
    pub fn census(&self) -> (usize, usize, usize) {
        let sole_waiter = self.objects.iter().filter(|object| object.sole_waiter.is_some()).count();
        (self.objects.len(), self.observers.len() + sole_waiter, self.aspaces.len())
    }

    /// Number of objects of each type, indexed by `ZX_OBJ_TYPE_*`.
    pub fn census_of_types(&self) -> [u32; ZX_OBJ_TYPE_UPPER_BOUND] {
        let mut counts = [0; ZX_OBJ_TYPE_UPPER_BOUND];
        for object in self.objects.iter() {
            if let Some(count) = counts.get_mut(object.body.object_type() as usize) {
                *count += 1;
            }
        }
        counts
    }
}
