//! The accounts of jobs: usage and quotas of a job and the jobs below it.

use abi::Status;

use crate::containers::slab::Key;
use crate::core::account::{Count, CountKind};
use crate::core::handle::{CHUNK, CHUNK_BYTES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::job::Job;
use crate::task::process::Process;

impl<M: Machine> Kernel<M> {
    /// Creates the account of a new job below another one.
    pub(crate) fn account_new(&mut self, above: Option<Id<Job>>) -> Result<Key, Status> {
        let above = match above {
            Some(job) => Some(self.objects.get(job)?.account),
            None => None,
        };
        self.accounts.new_below(above)
    }

    /// Memory usage and limit of a job and all jobs below it, in bytes; [`UNLIMITED`](crate::core::account::UNLIMITED)
    /// if there is no limit.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_memory(&self, job: Id<Job>) -> Result<(u64, u64), Status> {
        let key = self.objects.get(job)?.account;
        let account = self.accounts.slab.get(key).ok_or(Status::INTERNAL)?;
        Ok((self.accounts.used(key).ok_or(Status::INTERNAL)?, account.limit))
    }

    /// Sets the memory limit of a job and everything below it. Existing usage stays, even above the limit.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_limit_memory(&mut self, job: Id<Job>, limit: u64) -> Result<(), Status> {
        let account = self.objects.get(job)?.account;
        self.ahead_reclaim();
        self.accounts.settle();
        self.accounts.slab.get_mut(account).ok_or(Status::INTERNAL)?.limit = limit;
        Ok(())
    }

    /// Usage and quota of a resource for a job and everything below it.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_count(&self, job: Id<Job>, what: CountKind) -> Result<Count, Status> {
        let account = self.accounts.slab.get(self.objects.get(job)?.account).ok_or(Status::INTERNAL)?;
        account.counts.get(what as usize).copied().ok_or(Status::INTERNAL)
    }

    /// Sets the quota of a resource for a job and everything below it. Existing usage stays, even above the quota.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_limit_count(&mut self, job: Id<Job>, what: CountKind, limit: u64) -> Result<(), Status> {
        let account = self.objects.get(job)?.account;
        let account = self.accounts.slab.get_mut(account).ok_or(Status::INTERNAL)?;
        account.counts.get_mut(what as usize).ok_or(Status::INTERNAL)?.limit = limit;
        Ok(())
    }

    /// Allows a process's handle table to grow, so that `count` more handles have room.
    ///
    /// # Errors
    /// `NO_RESOURCES`, `NO_MEMORY`: limits of its job.
    #[cold]
    #[inline(never)]
    pub(crate) fn table_may_grow(&mut self, process: Id<Process>, count: usize) -> Result<(), Status> {
        let p = self.objects.get(process)?;
        let (account, chunks) = (p.account, p.handles.chunks_missing(count) as u64);
        let bytes = chunks.saturating_mul(CHUNK_BYTES);
        self.may_charge(process.object(), bytes)?;
        self.accounts.count(account, CountKind::Handles, chunks.saturating_mul(CHUNK as u64))?;
        self.charge(process.object(), bytes);
        self.objects.get_mut(process)?.handles.allow(chunks as usize);
        Ok(())
    }

    /// A handle table with that many allowed chunks was freed.
    pub(crate) fn table_gone(&mut self, process: Id<Process>, chunks: usize) {
        let Ok(account) = self.objects.get(process).map(|p| p.account) else { return };
        self.accounts.uncount(account, CountKind::Handles, chunks as u64 * CHUNK as u64);
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
            self.held.push(self.kernel.dup_handle(Handle { object, rights: Rights::NONE }));
        }

        fn used(&self, what: CountKind) -> u64 {
            let root = self.kernel.root_job().unwrap();
            let (job, all) =
                (self.kernel.job_count(self.job, what).unwrap(), self.kernel.job_count(root, what).unwrap());
            if what != CountKind::Jobs {
                assert_eq!(job.used, all.used);
            }
            job.used
        }
    }

    #[test]
    fn tasks_count_until_they_end() {
        let mut world = World::new();
        world.kernel.job_limit_count(world.job, CountKind::Processes, 2).unwrap();
        world.kernel.job_limit_count(world.job, CountKind::Threads, 3).unwrap();
        world.kernel.job_limit_count(world.job, CountKind::Jobs, 1).unwrap();
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
        assert_eq!([CountKind::Jobs, CountKind::Processes, CountKind::Threads].map(|what| world.used(what)), [1, 2, 3]);
        // The process has ended, although there are handles to it.
        world.kernel.process_kill(process, 0);
        world.kernel.process_kill(other, 0);
        world.kernel.reap();
        assert_eq!([CountKind::Jobs, CountKind::Processes, CountKind::Threads].map(|what| world.used(what)), [1, 0, 0]);
        core::mem::take(&mut world.held).into_iter().skip(1).for_each(|handle| world.kernel.close(handle));
        world.kernel.reap();
        assert_eq!(world.used(CountKind::Jobs), 0);
    }

    #[test]
    fn an_unstarted_thread_is_counted_until_its_last_handle_closes() {
        let mut world = World::new();
        let (process, _) = world.kernel.process_create(world.job, Name::default()).unwrap();
        world.hold(process.object());
        let thread = world.kernel.thread_create(process, Name::default()).unwrap();
        assert_eq!(world.used(CountKind::Threads), 1);
        world.kernel.reaper_enqueue(thread.object());
        world.kernel.reap();
        assert_eq!(world.used(CountKind::Threads), 0);
    }

    #[test]
    fn handles_count_as_tables_grow() {
        let mut world = World::new();
        world.kernel.job_limit_count(world.job, CountKind::Handles, 2 * CHUNK as u64).unwrap();
        let (process, _) = world.kernel.process_create(world.job, Name::default()).unwrap();
        world.hold(process.object());
        let event = world.kernel.event_create().unwrap();
        world.hold(event.object());
        for _ in 0..2 * CHUNK {
            world.kernel.give(process, event.object(), Rights::NONE).unwrap();
        }
        assert_eq!(world.kernel.give(process, event.object(), Rights::NONE), Err(Status::NO_RESOURCES));
        assert_eq!(world.kernel.reserve_handles(process, 1), Err(Status::NO_RESOURCES));
        assert_eq!(world.used(CountKind::Handles), 2 * CHUNK as u64);
        world.kernel.process_kill(process, 0);
        world.kernel.reap();
        assert_eq!(world.used(CountKind::Handles), 0);
    }
}
