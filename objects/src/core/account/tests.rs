//! Limits hold, and charges equal actual usage.

use super::*;
use crate::containers::name::Name;
use crate::core::handle::Handle;
use crate::fake::FakeMachine;
use crate::memory::vmo::{CloneKind, Vmo};
use crate::task::job::Job;
use crate::task::process::Process;
use abi::Rights;
use proptest::prelude::*;
use std::vec::Vec;

struct World {
    kernel: Kernel<FakeMachine>,
    /// Nested jobs with a process each.
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
            held.push(kernel.dup_handle(Handle { object, rights: Rights::NONE }));
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
        assert_eq!(self.kernel.accounts.slab.len(), 1, "the root job's is left");
        let root = self.kernel.root_job().unwrap();
        assert_eq!(self.kernel.job_memory(root).unwrap().0, 0);
    }
}

#[test]
fn a_limit_holds_for_all_jobs_below_and_no_others() {
    let mut w = world(3);
    let before = w.used(0);
    w.kernel.job_limit_memory(w.jobs[1], w.used(1) + 10 * PAGE).unwrap();
    let (vmo, value) = w.vmo(2, 100).unwrap();
    assert_eq!(w.kernel.vmo_commit(vmo, 0, 100 * PAGE), Err(Status::NO_MEMORY));
    assert_eq!(w.kernel.vmo_committed(vmo), Ok(0));
    w.kernel.vmo_commit(vmo, 0, 8 * PAGE).unwrap();
    assert_eq!(w.kernel.vmo_write(vmo, 50 * PAGE, &[1]), Ok(()));
    assert_eq!(w.kernel.vmo_write(vmo, 60 * PAGE, &[1]), Err(Status::NO_MEMORY));
    // Committed pages can be written, and freed pages make room.
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
fn a_copy_is_charged_its_maximum_cost() {
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
fn an_object_that_outlives_its_job_is_charged_to_the_parent() {
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
    assert_eq!(w.kernel.accounts.slab.len(), 3);
    w.kernel.close(handle);
    w.kernel.reap();
    assert!(w.used(0) <= before);
    assert_eq!(w.kernel.accounts.slab.len(), 2);
    w.end();
}

proptest! {
    /// Charges equal the actual pages, whatever the operations.
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
                    .map(|(_, vmo, _)| own_bytes::<Vmo>() + w.kernel.vmo_committed(*vmo).unwrap())
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
