//! Accounts: how much memory each job has, and may have.
//!
//! Every job has an account, below that of its parent. An object is charged to the account of the job whose process got
//! its first handle, a process, thread or job to that of the job that it is in, for as long as it lives: what it takes by itself, and what it holds (a VMO its pages, a channel end
//! its messages). What is charged to an account counts in all accounts above it; where one would pass its limit, nothing
//! is charged, and the asker gets `NO_MEMORY`. So a job cannot get beyond its limit by making more jobs, by having others
//! touch its memory, or by sending what it made away; and what it is given by others costs it nothing.
//!
//! A page counts for each VMO that has it: a copy of memory costs from the start what it can come to cost page by
//! page, so that a write to it never fails for the limit's sake.
//!
//! Not counted are handles, mappings with their page tables, waits and packets, all of them small.
//!
//! Accounts have a life of their own, because objects may outlive their job: an account goes when nobody needs it, and
//! what it kept of the one above is given back then.

use abi::Status;

use crate::job::Job;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::object::{Body, Id, Object, ObjectId};
use crate::process::Process;
use crate::slab::{Key, Slab};

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;

/// See the module's description.
pub(crate) struct Account {
    above: Option<Key>,
    /// Bytes charged to it and to those below.
    used: u64,
    /// Bytes that may be.
    limit: u64,
    /// The job, objects that are charged to it, and accounts below it.
    users: u64,
}

/// What an object is charged for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Charge {
    account: Option<Key>,
    bytes: u64,
}

/// Bytes that an object takes by itself, including what the machine needs for it.
fn own_bytes(body: &Body) -> u64 {
    let machine = match body {
        // The uppermost tables of an address space.
        Body::Process(_) => 4 * PAGE,
        // The kernel's record of a thread, its capabilities, and the page for its calls.
        Body::Thread(_) => 4 * PAGE,
        _ => 0,
    };
    let body = match body {
        Body::Vmo(_) => size_of::<crate::vmo::Vmo>(),
        Body::Process(_) => size_of::<Process>(),
        Body::Thread(_) => size_of::<crate::thread::Thread>(),
        Body::Job(_) => size_of::<Job>(),
        Body::Fifo(_) => crate::fifo::MAX_BYTES as usize,
        // Few are larger, and none by much.
        _ => 128,
    };
    (size_of::<Object>() + body) as u64 + machine
}

impl<M: Machine> Kernel<M> {
    /// The account of a new job below another.
    pub(crate) fn account_new(&mut self, above: Option<Id<Job>>) -> Result<Key, Status> {
        let above = match above {
            Some(job) => Some(self.objects.get(job)?.account),
            None => None,
        };
        let account = Account { above, used: 0, limit: UNLIMITED, users: 1 };
        let key = self.accounts.insert(account).map_err(|_| Status::NO_MEMORY)?;
        if let Some(above) = above.and_then(|above| self.accounts.get_mut(above)) {
            above.users += 1;
        }
        Ok(key)
    }

    /// Somebody needs an account no more. At the end of a chain of them the walk ends: there are no more levels than
    /// jobs may be nested.
    pub(crate) fn account_leave(&mut self, account: Key) {
        let mut next = Some(account);
        while let Some(key) = next.take() {
            let Some(account) = self.accounts.get_mut(key) else { return };
            account.users = account.users.saturating_sub(1);
            if account.users == 0 {
                next = account.above;
                self.accounts.remove(key);
            }
        }
    }

    /// Whether so much more can be charged to an account.
    fn account_has_room(&self, account: Key, bytes: u64) -> bool {
        if bytes == 0 {
            // More than the limit may be there already.
            return true;
        }
        let mut next = self.accounts.get(account);
        while let Some(account) = next {
            if account.used.saturating_add(bytes) > account.limit {
                return false;
            }
            next = account.above.and_then(|above| self.accounts.get(above));
        }
        true
    }

    /// Whether nobody who pays for an object has a limit.
    pub(crate) fn charges_without_limit(&self, id: ObjectId) -> bool {
        let Ok(object) = self.objects.any(id) else { return false };
        let mut next = object.charge.account.and_then(|account| self.accounts.get(account));
        while let Some(account) = next {
            if account.limit != UNLIMITED {
                return false;
            }
            next = account.above.and_then(|above| self.accounts.get(above));
        }
        true
    }

    /// Charges so much more to an account and those above it, if all of them have room.
    fn account_take(&mut self, first: Key, bytes: u64) -> Result<(), Status> {
        let mut next = Some(first);
        while let Some((key, account)) = next.and_then(|key| Some((key, self.accounts.get_mut(key)?))) {
            let used = account.used.saturating_add(bytes);
            if used > account.limit {
                self.account_take_back(first, key, bytes);
                return Err(Status::NO_MEMORY);
            }
            account.used = used;
            next = account.above;
        }
        Ok(())
    }

    /// Takes a charge back from the accounts below the one that had no room for it.
    #[cold]
    fn account_take_back(&mut self, first: Key, full: Key, bytes: u64) {
        let mut next = Some(first).filter(|&key| key != full);
        while let Some(account) = next.and_then(|key| self.accounts.get_mut(key)) {
            account.used = account.used.saturating_sub(bytes);
            next = account.above.filter(|&key| key != full);
        }
    }

    /// Changes what is charged to an account and those above it.
    fn account_change(&mut self, account: Key, change: impl Fn(u64) -> u64) {
        let mut next = Some(account);
        while let Some(account) = next.and_then(|key| self.accounts.get_mut(key)) {
            account.used = change(account.used);
            next = account.above;
        }
    }

    /// Whether an object can be charged for so much more.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn may_charge(&self, id: ObjectId, bytes: u64) -> Result<(), Status> {
        match self.objects.any(id)?.charge.account {
            Some(account) if !self.account_has_room(account, bytes) => Err(Status::NO_MEMORY),
            _ => Ok(()),
        }
    }

    /// Charges an object for so much more, if it is charged to anybody; that there is room has been seen.
    pub(crate) fn charge(&mut self, id: ObjectId, bytes: u64) {
        let Ok(object) = self.objects.any_mut(id) else { return };
        if let Some(account) = object.charge.account {
            object.charge.bytes += bytes;
            self.account_change(account, |used| used.saturating_add(bytes));
        }
    }

    /// Charges an object for so much less.
    pub(crate) fn discharge(&mut self, id: ObjectId, bytes: u64) {
        let Ok(object) = self.objects.any_mut(id) else { return };
        if let Some(account) = object.charge.account {
            let bytes = bytes.min(object.charge.bytes);
            object.charge.bytes -= bytes;
            self.account_change(account, |used| used.saturating_sub(bytes));
        }
    }

    /// From now on an object just made is charged to the job of a process, with what it holds already.
    ///
    /// # Errors
    /// `NO_MEMORY`: the job may not have so much.
    pub fn charge_to(&mut self, process: Id<Process>, id: ObjectId) -> Result<(), Status> {
        let object = self.objects.any(id)?;
        if object.charge.account.is_some() {
            return Ok(());
        }
        // A task is charged to the job that it is in, whoever made it.
        let account = match &object.body {
            Body::Process(process) => process.account,
            Body::Thread(thread) => self.objects.get(thread.process)?.account,
            Body::Job(job) => self.objects.get(job.parent.ok_or(Status::BAD_STATE)?)?.account,
            _ => self.objects.get(process)?.account,
        };
        let held = match &object.body {
            Body::Vmo(vmo) => vmo.own_pages().saturating_mul(PAGE),
            _ => 0,
        };
        let bytes = own_bytes(&object.body) + held;
        self.account_take(account, bytes)?;
        if let Some(account) = self.accounts.get_mut(account) {
            account.users += 1;
        }
        self.objects.any_mut(id)?.charge = Charge { account: Some(account), bytes };
        Ok(())
    }

    /// An object has ended.
    pub(crate) fn charge_end(&mut self, charge: Charge) {
        if let Some(account) = charge.account {
            self.account_change(account, |used| used.saturating_sub(charge.bytes));
            self.account_leave(account);
        }
    }

    /// How much a job and all below it have, and may have; [`UNLIMITED`] if there is no limit.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_memory(&self, job: Id<Job>) -> Result<(u64, u64), Status> {
        let account = self.objects.get(job)?.account;
        let account = self.accounts.get(account).ok_or(Status::INTERNAL)?;
        Ok((account.used, account.limit))
    }

    /// Limits what a job and all below it may have. What they have already stays, also if it is more.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_limit_memory(&mut self, job: Id<Job>, limit: u64) -> Result<(), Status> {
        let account = self.objects.get(job)?.account;
        self.ahead_settle();
        self.accounts.get_mut(account).ok_or(Status::INTERNAL)?.limit = limit;
        Ok(())
    }
}

/// All accounts.
pub(crate) type Accounts = Slab<Account>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMachine;
    use crate::handle::Handle;
    use crate::name::Name;
    use crate::vmo::{CloneKind, Vmo};
    use abi::Rights;
    use proptest::prelude::*;
    use std::vec::Vec;

    struct World {
        kernel: Kernel<FakeMachine>,
        /// Jobs below each other, with a process each.
        jobs: Vec<Id<Job>>,
        processes: Vec<Id<Process>>,
        held: Vec<Handle>,
    }

    fn world(depth: usize) -> World {
        let mut kernel = Kernel::new(FakeMachine::new(4000)).unwrap();
        let mut job = kernel.root_job().unwrap();
        let (mut jobs, mut processes, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..depth {
            job = kernel.job_create(job).unwrap();
            let (process, _) = kernel.process_create(job, Name::default()).unwrap();
            for object in [job.object(), process.object()] {
                held.push(kernel.another(Handle { object, rights: Rights::NONE }));
            }
            jobs.push(job);
            processes.push(process);
        }
        World { kernel, jobs, processes, held }
    }

    impl World {
        fn vmo(&mut self, owner: usize, pages: u64) -> Result<(Id<Vmo>, u32), Status> {
            let vmo = self.kernel.vmo_create(pages * PAGE, true)?;
            let value = self.kernel.give_new(self.processes[owner], vmo, Rights::all());
            if value.is_err() {
                self.kernel.reap();
            }
            Ok((vmo, value?))
        }

        fn used(&self, job: usize) -> u64 {
            self.kernel.job_memory(self.jobs[job]).unwrap().0
        }

        fn close(&mut self, owner: usize, value: u32) {
            let handle = self.kernel.take(self.processes[owner], value).unwrap();
            self.kernel.close(handle);
            self.kernel.reap();
        }

        fn end(mut self) {
            for handle in self.held {
                self.kernel.close(handle);
            }
            for job in &self.jobs {
                self.kernel.job_kill(*job, 0);
            }
            self.kernel.reap();
            assert_eq!(self.kernel.accounts.len(), 1, "the root job's is left");
            let root = self.kernel.root_job().unwrap();
            assert_eq!(self.kernel.job_memory(root).unwrap().0, 0);
        }
    }

    #[test]
    fn a_limit_holds_for_all_below_and_nobody_else() {
        let mut w = world(3);
        let before = w.used(0);
        w.kernel.job_limit_memory(w.jobs[1], w.used(1) + 10 * PAGE).unwrap();
        let (vmo, value) = w.vmo(2, 100).unwrap();
        assert_eq!(w.kernel.vmo_commit(vmo, 0, 100 * PAGE), Err(Status::NO_MEMORY));
        assert_eq!(w.kernel.vmo_committed(vmo), Ok(0));
        w.kernel.vmo_commit(vmo, 0, 8 * PAGE).unwrap();
        assert_eq!(w.kernel.vmo_write(vmo, 50 * PAGE, &[1]), Ok(()));
        assert_eq!(w.kernel.vmo_write(vmo, 60 * PAGE, &[1]), Err(Status::NO_MEMORY));
        // What is there can be written, and what goes makes room.
        w.kernel.vmo_write(vmo, 0, &[2]).unwrap();
        w.kernel.vmo_decommit(vmo, 0, PAGE).unwrap();
        w.kernel.vmo_write(vmo, 60 * PAGE, &[1]).unwrap();
        // The job above has no limit.
        let (other, other_value) = w.vmo(0, 100).unwrap();
        w.kernel.vmo_commit(other, 0, 100 * PAGE).unwrap();
        w.close(0, other_value);
        w.close(2, value);
        assert_eq!(w.used(0), before);
        w.end();
    }

    #[test]
    fn a_copy_costs_what_it_can_come_to_cost() {
        let mut w = world(1);
        let (vmo, value) = w.vmo(0, 20).unwrap();
        w.kernel.vmo_commit(vmo, 0, 20 * PAGE).unwrap();
        w.kernel.job_limit_memory(w.jobs[0], w.used(0) + 30 * PAGE).unwrap();
        let copy = |w: &mut World| {
            let copy = w.kernel.vmo_create_clone(vmo, CloneKind::Snapshot, 0, 20 * PAGE, false).unwrap();
            let given = w.kernel.give_new(w.processes[0], copy, Rights::all());
            w.kernel.reap();
            (copy, given)
        };
        let (first, given) = copy(&mut w);
        assert_eq!(copy(&mut w).1, Err(Status::NO_MEMORY));
        for page in 0..20 {
            w.kernel.vmo_write(first, page * PAGE, &[1]).unwrap();
        }
        w.close(0, given.unwrap());
        w.close(0, value);
        w.end();
    }

    #[test]
    fn what_outlives_its_job_is_charged_above() {
        let mut w = world(2);
        let before = w.used(0);
        let (vmo, value) = w.vmo(1, 5).unwrap();
        w.kernel.vmo_commit(vmo, 0, 5 * PAGE).unwrap();
        let handle = w.kernel.take(w.processes[1], value).unwrap();
        w.kernel.job_kill(w.jobs[1], 0);
        for held in w.held.split_off(2) {
            w.kernel.close(held);
        }
        w.kernel.reap();
        assert!(w.used(0) >= 5 * PAGE);
        assert_eq!(w.kernel.accounts.len(), 3);
        w.kernel.close(handle);
        w.kernel.reap();
        assert!(w.used(0) <= before);
        assert_eq!(w.kernel.accounts.len(), 2);
        w.end();
    }

    proptest! {
        /// What is charged is what is there, whatever happens to it.
        #[test]
        fn accounts_agree_with_the_pages(ops in proptest::collection::vec((0u8..7, 0usize..3, 0u64..16, 0u64..16), 1..60)) {
            let mut w = world(3);
            let base: Vec<u64> = (0..3).map(|job| w.used(job)).collect();
            let mut vmos: Vec<(usize, Id<Vmo>, u32)> = Vec::new();
            for (op, which, a, b) in ops {
                let (from, len) = (a * PAGE, b * PAGE);
                match (op, vmos.get(which).copied()) {
                    (0, _) => {
                        let (vmo, value) = w.vmo(which, 16).unwrap();
                        vmos.push((which, vmo, value));
                    }
                    (1, Some((_, vmo, _))) => drop(w.kernel.vmo_commit(vmo, from, len)),
                    (2, Some((_, vmo, _))) => drop(w.kernel.vmo_decommit(vmo, from, len)),
                    (3, Some((_, vmo, _))) => drop(w.kernel.vmo_set_size(vmo, from)),
                    (4, Some((owner, vmo, _))) => {
                        let size = w.kernel.vmo_size(vmo).unwrap();
                        if let Ok(copy) = w.kernel.vmo_create_clone(vmo, CloneKind::Snapshot, 0, size, true) {
                            let value = w.kernel.give_new(w.processes[owner], copy, Rights::all()).unwrap();
                            vmos.push((owner, copy, value));
                        }
                    }
                    (5, Some(_)) => {
                        let (owner, _, value) = vmos.swap_remove(which);
                        w.close(owner, value);
                    }
                    (6, Some((_, vmo, _))) => drop(w.kernel.vmo_write(vmo, from + 7, &[1])),
                    _ => {}
                }
                for (job, base) in base.iter().enumerate() {
                    let of = vmos.iter().filter(|(owner, ..)| *owner >= job);
                    let expected: u64 = of
                        .map(|(_, vmo, _)| {
                            let object = w.kernel.objects.any(vmo.object()).unwrap();
                            own_bytes(&object.body) + w.kernel.vmo_committed(*vmo).unwrap()
                        })
                        .sum();
                    prop_assert_eq!(w.used(job), base + expected);
                }
            }
            for (owner, _, value) in vmos {
                w.close(owner, value);
            }
            w.end();
        }
    }
}
