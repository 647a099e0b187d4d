//! Futexes: threads that wait on a word of their process's memory.
//!
//! A futex is only an address in an address space. It has a queue here only while threads wait on it or it has an
//! owner.
//!
//! Large numbers of threads are woken or requeued in slices ([`crate::core::continuation`]); the number is limited to
//! those that wait at the end of the first slice. Threads that begin to wait between two slices may be woken instead;
//! every waiter must check its word again anyway.

use alloc::collections::BTreeMap;

use abi::Status;

use crate::containers::list::List;
use crate::containers::slab::Key;
use crate::core::object::{Id, ObjectId};
use crate::core::wait::Waiters;
use crate::core::wait::Waiting;
use crate::kernel::Kernel;
use crate::machine::{Machine, USER_BASE, USER_TOP};
use crate::task::blocking::Wait;
use crate::task::thread::{Thread, ThreadState};

/// A futex: address space and address.
pub type FutexKey = (Key, u64);

/// Waiters and owner of a futex.
#[derive(Default)]
pub struct FutexQueue {
    waiters: List<Waiters>,
    owner: Option<Id<Thread>>,
}

/// Number of threads woken or moved per slice.
pub const AT_ONCE: u32 = 64;

/// Remaining work of a requeue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequeueProgress {
    /// Threads to wake.
    pub wakes: u32,
    /// Threads to move, after that.
    pub moves: u32,
}

/// The two futexes of a requeue, and the owner of the second.
#[derive(Clone, Copy, Debug)]
pub struct Requeue {
    /// The address on which threads wait.
    pub from: u64,
    /// The address to which threads are moved.
    pub to: u64,
    /// The new owner of the second futex.
    pub owner: Option<Id<Thread>>,
}

/// Size of the direct-mapped table.
const NEAR: usize = 16;

/// All futexes that have a queue. Usually there are few, so each is in a direct-mapped table, unless its entry is
/// occupied; all others are in a map, with look-up in O(log n) however many a program creates.
#[derive(Default)]
pub(crate) struct Futexes {
    near: [Option<(FutexKey, FutexQueue)>; NEAR],
    far: BTreeMap<FutexKey, FutexQueue>,
}

impl Futexes {
    fn place(key: &FutexKey) -> usize {
        ((key.1 >> 2 ^ key.1 >> 8 ^ u64::from(key.0.index)) % NEAR as u64) as usize
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.near.iter().all(Option::is_none) && self.far.is_empty()
    }

    fn get(&self, key: &FutexKey) -> Option<&FutexQueue> {
        match self.near.get(Self::place(key)) {
            Some(Some((found, queue))) if found == key => Some(queue),
            _ => self.far.get(key),
        }
    }

    fn get_mut(&mut self, key: &FutexKey) -> Option<&mut FutexQueue> {
        match self.near.get_mut(Self::place(key)) {
            Some(Some((found, queue))) if found == key => Some(queue),
            _ => self.far.get_mut(key),
        }
    }

    fn get_or_default(&mut self, key: FutexKey) -> &mut FutexQueue {
        if let Some(place) = self.near.get_mut(Self::place(&key))
            && place.as_ref().is_none_or(|(found, _)| *found == key)
            && (self.far.is_empty() || !self.far.contains_key(&key))
        {
            return &mut place.get_or_insert_with(|| (key, FutexQueue::default())).1;
        }
        self.far.entry(key).or_default()
    }

    fn remove(&mut self, key: &FutexKey) {
        match self.near.get_mut(Self::place(key)) {
            Some(place) if place.as_ref().is_some_and(|(found, _)| found == key) => *place = None,
            _ => drop(self.far.remove(key)),
        }
    }
}

/// The owner of a futex after threads are woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewOwner {
    /// None.
    Nobody,
    /// The woken thread.
    Woken,
}

impl<M: Machine> Kernel<M> {
    fn futex_key(&self, aspace: Key, address: u64) -> Result<FutexKey, Status> {
        if !address.is_multiple_of(4) || !(USER_BASE..USER_TOP).contains(&address) {
            return Err(Status::INVALID_ARGS);
        }
        Ok((self.space_of(aspace, address), address))
    }

    /// `futex_wait`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: invalid address, or the new owner waits on the futex already. `BAD_STATE`: the word has another
    /// value. `TIMED_OUT`. `NO_MEMORY`.
    pub fn futex_wait(
        &mut self,
        thread: Id<Thread>,
        address: u64,
        expected: u32,
        owner: Option<Id<Thread>>,
        deadline: i64,
    ) -> Result<Waiting, Status> {
        let aspace = self.aspace_of_thread(thread)?;
        let key = self.futex_key(aspace, address)?;
        let mut word = [0; 4];
        self.copy_in(key.0, address, &mut word)?;
        if u32::from_le_bytes(word) != expected {
            return Err(Status::BAD_STATE);
        }
        if owner.is_some_and(|owner| owner == thread || self.futex_waits(owner, key)) {
            return Err(Status::INVALID_ARGS);
        }
        if deadline <= self.machine.now() {
            self.futex_set_owner(key, owner);
            return Err(Status::TIMED_OUT);
        }
        let queue = self.futexes.get_or_default(key);
        queue.waiters.push(&mut self.objects.slab, thread.object().key());
        queue.owner = owner;
        let blocked = self.block(thread, Wait::Futex { key }, deadline);
        if blocked != Ok(Waiting::Blocked) {
            self.futex_forget(key, thread);
        }
        blocked
    }

    /// The thread that has waited longest.
    fn futex_first(&self, key: FutexKey) -> Option<Id<Thread>> {
        self.objects.after(self.futexes.get(&key)?.waiters, None).map(Id::new)
    }

    /// Whether a thread waits on a futex.
    fn futex_waits(&self, thread: Id<Thread>, key: FutexKey) -> bool {
        self.objects.get(thread).is_ok_and(|t| matches!(t.wait, Wait::Futex { key: k } if k == key))
    }

    /// The same from the futex's queue.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn futex_has(&self, key: FutexKey, thread: Id<Thread>) -> bool {
        let waiters = self.futexes.get(&key).map(|queue| queue.waiters);
        waiters.is_some_and(|waiters| self.objects.listed(waiters).any(|id| id == thread.object()))
    }

    fn futex_set_owner(&mut self, key: FutexKey, owner: Option<Id<Thread>>) {
        if let Some(queue) = self.futexes.get_mut(&key) {
            queue.owner = owner;
        }
    }

    pub(crate) fn futex_forget(&mut self, key: FutexKey, thread: Id<Thread>) {
        if let Some(queue) = self.futexes.get_mut(&key) {
            queue.waiters.remove(&mut self.objects.slab, thread.object().key());
            if queue.waiters.is_empty() {
                self.futexes.remove(&key);
            }
        }
    }

    /// `futex_wake` and `futex_wake_single_owner`: wakes up to `count` threads, the longest waiting first. Returns how
    /// many are left, if `count` exceeds [`AT_ONCE`].
    ///
    /// # Errors
    /// `INVALID_ARGS`: invalid address.
    pub fn futex_wake(&mut self, aspace: Key, address: u64, count: u32, new_owner: NewOwner) -> Result<u32, Status> {
        let key = self.futex_key(aspace, address)?;
        let woken = self.futex_wake_some(key, count.min(AT_ONCE));
        let owner = if new_owner == NewOwner::Woken { woken } else { None };
        self.futex_set_owner(key, owner);
        if count <= AT_ONCE { Ok(0) } else { Ok(self.futex_count(key, count - AT_ONCE)) }
    }

    /// Wakes the next slice of the threads that are left; returns how many are left then.
    ///
    /// # Errors
    /// As [`Kernel::futex_wake`].
    pub fn futex_wake_more(&mut self, aspace: Key, address: u64, left: u32) -> Result<u32, Status> {
        let key = self.futex_key(aspace, address)?;
        self.futex_wake_some(key, left.min(AT_ONCE));
        Ok(if self.futexes.get(&key).is_none() { 0 } else { left.saturating_sub(AT_ONCE) })
    }

    /// Number of waiters, at most `most`.
    fn futex_count(&self, key: FutexKey, most: u32) -> u32 {
        let Some(queue) = self.futexes.get(&key) else { return 0 };
        queue.waiters.iter(&self.objects.slab).zip(0..most).count() as u32
    }

    /// Wakes up to `count`; returns the last one woken.
    fn futex_wake_some(&mut self, key: FutexKey, count: u32) -> Option<Id<Thread>> {
        let mut woken: Option<Id<Thread>> = None;
        for _ in 0..count {
            let Some(queue) = self.futexes.get_mut(&key) else { break };
            let Some(thread) = queue.waiters.pop(&mut self.objects.slab).map(|key| Id::new(ObjectId(key))) else {
                break;
            };
            if queue.waiters.is_empty() {
                self.futexes.remove(&key);
            }
            woken = Some(thread);
            // Off the queue, nothing else refers to its wait.
            let Ok(waiter) = self.objects.get_mut::<Thread>(thread) else { continue };
            let machine = waiter.at_hand();
            if waiter.over() {
                self.disarm();
            }
            self.wake_machine(thread, machine, i64::from(Status::OK.0));
        }
        woken
    }

    /// `futex_requeue` and `futex_requeue_single_owner`: wakes some threads and moves others to another futex. Returns
    /// how many are left, if there are more than [`AT_ONCE`].
    ///
    /// # Errors
    /// `INVALID_ARGS`: invalid address, or both are the same. `BAD_STATE`: the word has another value. `NO_MEMORY`.
    pub fn futex_requeue(
        &mut self,
        aspace: Key,
        what: Requeue,
        expected: u32,
        counts: RequeueProgress,
        new_owner: NewOwner,
    ) -> Result<RequeueProgress, Status> {
        let (key, to) = (self.futex_key(aspace, what.from)?, self.futex_key(aspace, what.to)?);
        if key == to {
            return Err(Status::INVALID_ARGS);
        }
        let mut word = [0; 4];
        self.copy_in(key.0, what.from, &mut word)?;
        if u32::from_le_bytes(word) != expected {
            return Err(Status::BAD_STATE);
        }
        if what.owner.is_some_and(|owner| self.futex_waits(owner, key) || self.futex_waits(owner, to)) {
            return Err(Status::INVALID_ARGS);
        }
        let (woken, left) = self.futex_requeue_some(key, to, what.owner, counts);
        self.futex_set_owner(key, if new_owner == NewOwner::Woken { woken } else { None });
        self.futex_set_owner(to, what.owner);
        let wakes = self.futex_count(key, left.wakes);
        Ok(RequeueProgress { wakes, moves: self.futex_count(key, left.moves.saturating_add(wakes)) - wakes })
    }

    /// Wakes and moves the next slice of the threads that are left; returns how many are left then.
    ///
    /// # Errors
    /// As [`Kernel::futex_requeue`].
    pub fn futex_requeue_more(
        &mut self,
        aspace: Key,
        what: Requeue,
        left: RequeueProgress,
    ) -> Result<RequeueProgress, Status> {
        let (key, to) = (self.futex_key(aspace, what.from)?, self.futex_key(aspace, what.to)?);
        let (_, left) = self.futex_requeue_some(key, to, what.owner, left);
        Ok(if self.futexes.get(&key).is_none() { RequeueProgress { wakes: 0, moves: 0 } } else { left })
    }

    /// Wakes and moves at most [`AT_ONCE`] threads; returns the last one woken, and how many are left. Sets the second
    /// futex's owner if it had no queue.
    fn futex_requeue_some(
        &mut self,
        key: FutexKey,
        to: FutexKey,
        owner: Option<Id<Thread>>,
        counts: RequeueProgress,
    ) -> (Option<Id<Thread>>, RequeueProgress) {
        let wakes = counts.wakes.min(AT_ONCE);
        let woken = self.futex_wake_some(key, wakes);
        let moves = counts.moves.min(AT_ONCE - wakes);
        let is_new = self.futexes.get(&to).is_none();
        for _ in 0..moves {
            let Some(thread) = self.futex_first(key) else { break };
            self.futex_forget(key, thread);
            let queue = self.futexes.get_or_default(to);
            queue.waiters.push(&mut self.objects.slab, thread.object().key());
            if let Ok(thread) = self.objects.get_mut(thread) {
                thread.wait = Wait::Futex { key: to };
            }
        }
        if is_new {
            let owner = owner.filter(|&owner| !self.futex_waits(owner, to));
            self.futex_set_owner(to, owner);
        }
        (woken, RequeueProgress { wakes: counts.wakes - wakes, moves: counts.moves - moves })
    }

    /// `futex_get_owner`: the owner's koid, 0 if there is none.
    ///
    /// # Errors
    /// `INVALID_ARGS`: invalid address.
    pub fn futex_get_owner(&self, aspace: Key, address: u64) -> Result<u64, Status> {
        let key = self.futex_key(aspace, address)?;
        let owner = self.futexes.get(&key).and_then(|q| q.owner);
        // A thread that has ended owns no futex.
        let owner = owner.filter(|&thread| self.objects.get(thread).is_ok_and(|t| t.state != ThreadState::Dead));
        Ok(owner.map_or(0, |thread| self.koid(thread.object())))
    }
}
