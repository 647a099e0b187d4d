//! Futexes: threads that wait on a word of their process's memory.
//!
//! A futex is nothing but an address in an address space; it has a queue here only while threads wait on it or it has
//! an owner.

use abi::Status;

use crate::kernel::Kernel;
use crate::list::List;
use crate::machine::{Machine, USER_BASE, USER_TOP};
use crate::object::{Id, Waiters};
use crate::process::Process;
use crate::slab::Key;
use crate::thread::{Thread, ThreadState, Wait};
use crate::wait::Waiting;

/// Which futex: address space and address.
pub type FutexKey = (Key, u64);

/// Threads that wait on a futex, and who owns it.
#[derive(Default)]
pub struct FutexQueue {
    waiters: List<Waiters>,
    owner: Option<Id<Thread>>,
}

/// What becomes of a futex's owner when threads are woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewOwner {
    /// Nobody.
    Nobody,
    /// The thread that is woken.
    Woken,
}

impl<M: Machine> Kernel<M> {
    fn futex_key(&self, process: Id<Process>, address: u64) -> Result<FutexKey, Status> {
        if !address.is_multiple_of(4) || !(USER_BASE..USER_TOP).contains(&address) {
            return Err(Status::INVALID_ARGS);
        }
        Ok((self.objects.get(process)?.aspace.ok_or(Status::BAD_STATE)?, address))
    }

    /// `futex_wait`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: no such word, or the new owner waits on it already. `BAD_STATE`: the word has another value.
    /// `TIMED_OUT`. `NO_MEMORY`.
    pub fn futex_wait(
        &mut self,
        thread: Id<Thread>,
        address: u64,
        expected: u32,
        owner: Option<Id<Thread>>,
        deadline: i64,
    ) -> Result<Waiting, Status> {
        let process = self.objects.get(thread)?.process;
        let key = self.futex_key(process, address)?;
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
        let queue = self.futexes.entry(key).or_default();
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

    /// `futex_wake` and `futex_wake_single_owner`: wakes up to `count` threads, those that waited longest.
    ///
    /// # Errors
    /// `INVALID_ARGS`: no such word.
    pub fn futex_wake(
        &mut self,
        process: Id<Process>,
        address: u64,
        count: u32,
        new_owner: NewOwner,
    ) -> Result<(), Status> {
        let key = self.futex_key(process, address)?;
        let woken = self.futex_wake_some(key, count);
        let owner = if new_owner == NewOwner::Woken { woken } else { None };
        self.futex_set_owner(key, owner);
        Ok(())
    }

    /// Wakes up to `count`; returns the last one woken.
    fn futex_wake_some(&mut self, key: FutexKey, count: u32) -> Option<Id<Thread>> {
        let mut woken = None;
        for _ in 0..count {
            let Some(thread) = self.futex_first(key) else { break };
            self.finish_wait(thread, Status::OK);
            // The wait's end has taken it off the queue; if it did not wait after all, this does.
            self.futex_forget(key, thread);
            woken = Some(thread);
        }
        woken
    }

    /// `futex_requeue` and `futex_requeue_single_owner`: wakes some and moves others to another futex.
    ///
    /// # Errors
    /// `INVALID_ARGS`: no such word, or both are one. `BAD_STATE`: the word has another value. `NO_MEMORY`.
    #[allow(clippy::too_many_arguments)]
    pub fn futex_requeue(
        &mut self,
        process: Id<Process>,
        address: u64,
        wake_count: u32,
        expected: u32,
        to: u64,
        move_count: u32,
        owner: Option<Id<Thread>>,
        new_owner: NewOwner,
    ) -> Result<(), Status> {
        let key = self.futex_key(process, address)?;
        let to = self.futex_key(process, to)?;
        if key == to {
            return Err(Status::INVALID_ARGS);
        }
        let mut word = [0; 4];
        self.copy_in(key.0, address, &mut word)?;
        if u32::from_le_bytes(word) != expected {
            return Err(Status::BAD_STATE);
        }
        if owner.is_some_and(|owner| self.futex_waits(owner, key) || self.futex_waits(owner, to)) {
            return Err(Status::INVALID_ARGS);
        }
        let woken = self.futex_wake_some(key, wake_count);
        for _ in 0..move_count {
            let Some(thread) = self.futex_first(key) else { break };
            self.futex_forget(key, thread);
            let queue = self.futexes.entry(to).or_default();
            queue.waiters.push(&mut self.objects.slab, thread.object().key());
            if let Ok(thread) = self.objects.get_mut(thread) {
                thread.wait = Wait::Futex { key: to };
            }
        }
        self.futex_set_owner(key, if new_owner == NewOwner::Woken { woken } else { None });
        self.futex_set_owner(to, owner);
        Ok(())
    }

    /// `futex_get_owner`: the owner's number, 0 if there is none.
    ///
    /// # Errors
    /// `INVALID_ARGS`: no such word.
    pub fn futex_get_owner(&self, process: Id<Process>, address: u64) -> Result<u64, Status> {
        let key = self.futex_key(process, address)?;
        let owner = self.futexes.get(&key).and_then(|q| q.owner);
        // A thread that has ended owns nothing.
        let owner = owner.filter(|&thread| self.objects.get(thread).is_ok_and(|t| t.state != ThreadState::Dead));
        Ok(owner.map_or(0, |thread| self.koid(thread.object())))
    }
}
