//! Counts: how many of some things each job has, and may have.
//!
//! Beside its bytes an account counts what is scarce in itself: there are only so many address spaces, each thread takes
//! its part of whoever looks at all of them, and values of handles are numbers of a table. What a job has, all above it
//! have; where one would pass its limit, the asker gets `NO_RESOURCES`, and nothing has changed.
//!
//! - A process counts from its creation to its end, a thread likewise, and a job as long as there is one.
//! - Handles are counted as places in the tables of processes, [`CHUNK`] at a time: the table of a process grows by as many, and
//!   stays as large as it was. So a handle that is made and closed changes no account.
//! - Messages are counted as places in the queues of channels, and bytes as what channels and sockets are charged for on behalf of
//!   their readers: both by steps ([`super::queue_charge`]).

use abi::Status;

use super::{Accounts, UNLIMITED};
use crate::containers::slab::Key;
use crate::core::handle::{CHUNK, CHUNK_BYTES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::job::Job;
use crate::task::process::Process;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Jobs below a job.
    Jobs,
    /// Processes that have not ended.
    Processes,
    /// Threads that have not ended.
    Threads,
    /// Places for handles.
    Handles,
    /// Places for messages.
    Messages,
    /// Bytes in messages and sockets.
    QueuedBytes,
}

/// Kinds of what is counted.
pub(crate) const KINDS: usize = 6;

/// How many there are of something, and may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// There are.
    pub used: u64,
    /// May be, or [`UNLIMITED`].
    pub limit: u64,
}

impl Count {
    pub(crate) const NONE: Count = Count { used: 0, limit: UNLIMITED };
}

impl Accounts {
    /// So many more of something.
    ///
    /// # Errors
    /// `NO_RESOURCES`: a job may not have so many.
    pub(crate) fn count(&mut self, first: Key, what: Counted, more: u64) -> Result<(), Status> {
        let mut fits = true;
        let mut next = Some(first);
        while let Some(account) = next.and_then(|key| self.slab.get_mut(key)) {
            if let Some(count) = account.counts.get_mut(what as usize) {
                count.used = count.used.saturating_add(more);
                fits &= count.used <= count.limit;
            }
            next = account.above;
        }
        if fits {
            return Ok(());
        }
        self.uncount(first, what, more);
        Err(Status::NO_RESOURCES)
    }

    /// So many less of something.
    pub(crate) fn uncount(&mut self, first: Key, what: Counted, less: u64) {
        let mut next = Some(first);
        while let Some(account) = next.and_then(|key| self.slab.get_mut(key)) {
            if let Some(count) = account.counts.get_mut(what as usize) {
                count.used = count.used.saturating_sub(less);
            }
            next = account.above;
        }
    }
}

impl<M: Machine> Kernel<M> {
    /// How many of something a job and all below it have, and may have.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_count(&self, job: Id<Job>, what: Counted) -> Result<Count, Status> {
        let account = self.accounts.slab.get(self.objects.get(job)?.account).ok_or(Status::INTERNAL)?;
        account.counts.get(what as usize).copied().ok_or(Status::INTERNAL)
    }

    /// Limits how many of something a job and all below it may have. What they have already stays, also if it is more.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_limit_count(&mut self, job: Id<Job>, what: Counted, limit: u64) -> Result<(), Status> {
        let account = self.objects.get(job)?.account;
        let account = self.accounts.slab.get_mut(account).ok_or(Status::INTERNAL)?;
        account.counts.get_mut(what as usize).ok_or(Status::INTERNAL)?.limit = limit;
        Ok(())
    }

    /// The table of a process may grow, so that there is room for so many handles more.
    ///
    /// # Errors
    /// `NO_RESOURCES`, `NO_MEMORY`: its job may not have so much.
    #[cold]
    #[inline(never)]
    pub(crate) fn table_may_grow(&mut self, process: Id<Process>, count: usize) -> Result<(), Status> {
        let p = self.objects.get(process)?;
        let (account, chunks) = (p.account, p.handles.chunks_missing(count) as u64);
        let bytes = chunks.saturating_mul(CHUNK_BYTES);
        self.may_charge(process.object(), bytes)?;
        self.accounts.count(account, Counted::Handles, chunks.saturating_mul(CHUNK as u64))?;
        self.charge(process.object(), bytes);
        self.objects.get_mut(process)?.handles.allow(chunks as usize);
        Ok(())
    }

    /// A table has gone that had been allowed so many chunks.
    pub(crate) fn table_gone(&mut self, process: Id<Process>, chunks: usize) {
        let Ok(account) = self.objects.get(process).map(|p| p.account) else { return };
        self.accounts.uncount(account, Counted::Handles, chunks as u64 * CHUNK as u64);
        self.discharge(process.object(), chunks as u64 * CHUNK_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::core::handle::Handle;
    use crate::core::object::ObjectId;
    use crate::fake::FakeMachine;
    use abi::Rights;
    use std::vec::Vec;

    struct World {
        kernel: Kernel<FakeMachine>,
        job: Id<Job>,
        held: Vec<Handle>,
    }

    impl World {
        fn new() -> World {
            let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
            let root = kernel.root_job().unwrap();
            let job = kernel.job_create(root).unwrap();
            let mut world = World { kernel, job, held: Vec::new() };
            world.hold(job.object());
            world
        }

        fn hold(&mut self, object: ObjectId) {
            self.held.push(self.kernel.another(Handle { object, rights: Rights::NONE }));
        }

        fn used(&self, what: Counted) -> u64 {
            let root = self.kernel.root_job().unwrap();
            let (job, all) =
                (self.kernel.job_count(self.job, what).unwrap(), self.kernel.job_count(root, what).unwrap());
            if what != Counted::Jobs {
                assert_eq!(job.used, all.used);
            }
            job.used
        }
    }

    #[test]
    fn tasks_count_until_they_end() {
        let mut world = World::new();
        world.kernel.job_limit_count(world.job, Counted::Processes, 2).unwrap();
        world.kernel.job_limit_count(world.job, Counted::Threads, 3).unwrap();
        world.kernel.job_limit_count(world.job, Counted::Jobs, 1).unwrap();
        let below = world.kernel.job_create(world.job).unwrap();
        world.hold(below.object());
        assert_eq!(world.kernel.job_create(world.job).err(), Some(Status::NO_RESOURCES));
        assert_eq!(world.kernel.job_create(below).err(), Some(Status::NO_RESOURCES));
        let (process, _) = world.kernel.process_create(below, Name::default()).unwrap();
        world.hold(process.object());
        let (other, _) = world.kernel.process_create(world.job, Name::default()).unwrap();
        assert_eq!(world.kernel.process_create(below, Name::default()).err(), Some(Status::NO_RESOURCES));
        for _ in 0..3 {
            let thread = world.kernel.thread_create(process, Name::default()).unwrap();
            world.hold(thread.object());
        }
        assert_eq!(world.kernel.thread_create(other, Name::default()).err(), Some(Status::NO_RESOURCES));
        assert_eq!([Counted::Jobs, Counted::Processes, Counted::Threads].map(|what| world.used(what)), [1, 2, 3]);
        // Ended, though there are handles.
        world.kernel.process_kill(process, 0);
        world.kernel.process_kill(other, 0);
        world.kernel.reap();
        assert_eq!([Counted::Jobs, Counted::Processes, Counted::Threads].map(|what| world.used(what)), [1, 0, 0]);
        core::mem::take(&mut world.held).into_iter().skip(1).for_each(|handle| world.kernel.close(handle));
        world.kernel.reap();
        assert_eq!(world.used(Counted::Jobs), 0);
    }

    #[test]
    fn a_thread_that_never_started_counts_until_nobody_has_it() {
        let mut world = World::new();
        let (process, _) = world.kernel.process_create(world.job, Name::default()).unwrap();
        world.hold(process.object());
        let thread = world.kernel.thread_create(process, Name::default()).unwrap();
        assert_eq!(world.used(Counted::Threads), 1);
        world.kernel.doom(thread.object());
        world.kernel.reap();
        assert_eq!(world.used(Counted::Threads), 0);
    }

    #[test]
    fn handles_count_as_tables_grow() {
        let mut world = World::new();
        world.kernel.job_limit_count(world.job, Counted::Handles, 2 * CHUNK as u64).unwrap();
        let (process, _) = world.kernel.process_create(world.job, Name::default()).unwrap();
        world.hold(process.object());
        let event = world.kernel.event_create().unwrap();
        world.hold(event.object());
        for _ in 0..2 * CHUNK {
            world.kernel.give(process, event.object(), Rights::NONE).unwrap();
        }
        assert_eq!(world.kernel.give(process, event.object(), Rights::NONE), Err(Status::NO_RESOURCES));
        assert_eq!(world.kernel.reserve_handles(process, 1), Err(Status::NO_RESOURCES));
        assert_eq!(world.used(Counted::Handles), 2 * CHUNK as u64);
        world.kernel.process_kill(process, 0);
        world.kernel.reap();
        assert_eq!(world.used(Counted::Handles), 0);
    }
}
