//! Virtual processors: a thread runs code in other address spaces and learns without the server what happens there
//! (`docs/virtual-processors.md` has the complete protocol; the steps here follow its life cycle).
//!
//! 1. A virtual processor belongs to its owner, the thread that created it. It has an endpoint for its events, and a
//!    slot of the owner receives from it.
//! 2. In each address space in which it is entered it has a *runner*, a thread of the machine that can only run code:
//!    its system calls and faults become messages to that endpoint. At most one runner runs, the one entered last.
//! 3. A process that ends destroys the runners in it, except one that was entered last, because its owner may be
//!    waiting for it. That runner stays without an address space, so it faults; it is destroyed when another one is
//!    entered.
//! 4. When the last handle is closed or the owner ends, the current runner and the slot are destroyed at once, and the
//!    other runners in slices.
//! 5. While the owner is held by a suspend token, an exception or a page wait, the current runner is stopped. A message
//!    that it has sent stays.
//! 6. With shared vectors, a runner computes with the owner's x87 and vector registers. A thread of the machine shares
//!    them with one other only, so each runner begins to share when it is entered in the place of another. That stops
//!    the one before, which has registers of its own again. Its code never sees their values: it shares before it runs
//!    again.
//!
//! A runner counts as a thread of the owner's job.

#[cfg(test)]
mod tests;
mod upcall;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::mem::offset_of;

use abi::{HAFNON_VPROC_STATE_OFFSET, Signals, Status, hafnon_vproc_page_t, hafnon_vproc_state_t};
use zerocopy::{FromZeros, IntoBytes};

use crate::arch::{GeneralRegisters, Registers};
use crate::containers::growth::OutOfMemory;
use crate::containers::slab::Key;
use crate::core::account::CountKind;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::{DrainStep, Id, Users};
use crate::kernel::Kernel;
use crate::machine::{EndpointUse, Machine, MachineDoorbell, MachineRunner, PAGE, RunnerState};
use crate::memory::vmo::Vmo;
use crate::task::endpoint::Endpoint;
use crate::task::process::Process;
use crate::task::thread::Thread;

/// Maximum number of virtual processors with runners in one process: they are destroyed with it at once.
pub const IN_PROCESS: usize = 64;

/// See the module's description.
pub struct Vproc {
    owner: Id<Thread>,
    /// The account of the owner's job.
    account: Key,
    endpoint: Id<Endpoint>,
    page: Id<Vmo>,
    /// Interrupts its owner's receive.
    doorbell: MachineDoorbell,
    runners: BTreeMap<Id<Process>, MachineRunner>,
    /// The runner entered last, and its process if that has not ended.
    last: Option<(MachineRunner, Option<Id<Process>>)>,
    stopped: bool,
    /// The runner that runs shares the owner's x87 and vector registers (6).
    shares_vectors: bool,
    /// The current runner was stopped because the owner is held (5).
    held: bool,
    /// An upcall is due as soon as it is possible ([`upcall`]).
    due: bool,
}

impl Noun for Vproc {
    const TYPE: u32 = abi::HAFNON_OBJ_TYPE_VPROC;
}

impl ObjectOps for Vproc {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.vproc_unreachable(id);
    }

    #[inline(always)]
    fn needs_drain(&self) -> bool {
        true
    }

    #[inline(always)]
    fn drain<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, users: Users) -> DrainStep {
        if users.any && !kernel.objects.get(id).is_ok_and(Vproc::has_stopped) {
            return DrainStep::Nothing;
        }
        kernel.vproc_drain(id)
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.drop_ref(self.endpoint.object());
        kernel.drop_ref(self.page.object());
    }
}

impl Vproc {
    /// Whether it has stopped for good.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped
    }
}

/// Where the page names the slot.
const SLOT: u64 = offset_of!(hafnon_vproc_page_t, slot) as u64;

impl<M: Machine> Kernel<M> {
    /// `vproc_create` for the calling thread (1): also returns the page.
    ///
    /// # Errors
    /// `ALREADY_BOUND`: it has one already, or bound restricted state. `NO_RESOURCES`: it has no free slot.
    /// `NOT_SUPPORTED`: the machine has none, or cannot share vectors, or it is a component's. `NO_MEMORY`.
    pub fn vproc_create(&mut self, owner: Id<Thread>, shares_vectors: bool) -> Result<(Id<Vproc>, Id<Vmo>), Status> {
        if !self.machine.has_virtual_processors() || (shares_vectors && !self.machine.runs_foreign()) {
            return Err(Status::NOT_SUPPORTED);
        }
        let thread = self.objects.get(owner)?;
        if thread.vproc.is_some() || thread.restricted.is_some() {
            return Err(Status::ALREADY_BOUND);
        }
        let account = self.objects.get(thread.process)?.account;
        let endpoint = self.endpoint_create()?;
        self.add_ref(endpoint.object());
        let made = self.vproc_make(owner, account, endpoint, shares_vectors);
        made.inspect_err(|_| self.drop_ref(endpoint.object()))
    }

    fn vproc_make(
        &mut self,
        owner: Id<Thread>,
        account: Key,
        endpoint: Id<Endpoint>,
        shares_vectors: bool,
    ) -> Result<(Id<Vproc>, Id<Vmo>), Status> {
        let receive = EndpointUse { call: false, send: false, receive: true };
        let slot = self.endpoint_mint(endpoint, owner, 0, receive)?;
        let made = self.vmo_create(PAGE, false).and_then(|page| {
            self.add_ref(page.object());
            let id = self.vmo_write(page, SLOT, u64::from(slot).as_bytes());
            let id = id.and_then(|()| self.vproc_body(owner, account, endpoint, page, shares_vectors));
            id.map(|id| (id, page)).inspect_err(|_| self.drop_ref(page.object()))
        });
        let (id, page) = made.inspect_err(|_| self.endpoint_unreachable(endpoint))?;
        self.objects.get_mut(owner)?.vproc = Some(id.object());
        Ok((id, page))
    }

    fn vproc_body(
        &mut self,
        owner: Id<Thread>,
        account: Key,
        endpoint: Id<Endpoint>,
        page: Id<Vmo>,
        shares_vectors: bool,
    ) -> Result<Id<Vproc>, Status> {
        let machine = self.objects.get(owner)?.machine().ok_or(Status::BAD_STATE)?;
        let doorbell = self.machine.doorbell_create(machine).map_err(|OutOfMemory| Status::NO_MEMORY)?;
        let runners = BTreeMap::new();
        let vproc = Vproc {
            owner,
            account,
            endpoint,
            page,
            doorbell,
            runners,
            last: None,
            stopped: false,
            shares_vectors,
            held: false,
            due: false,
        };
        let id = self.create(Signals::NONE, Box::new(vproc));
        id.inspect_err(|_| self.machine.doorbell_destroy(doorbell))
    }

    /// `vproc_start` by a thread (2).
    ///
    /// # Errors
    /// `BAD_STATE`: it belongs to another thread, or the process has ended. `INVALID_ARGS`: the state is invalid.
    /// `NO_RESOURCES`: too many runners. `NOT_SUPPORTED`: the process is a component's. `NO_MEMORY`.
    pub fn vproc_start(&mut self, id: Id<Vproc>, thread: Id<Thread>, process: Id<Process>) -> Result<(), Status> {
        let &Vproc { page, shares_vectors: shares, .. } = self.vproc_of(id, thread)?;
        let mut state = hafnon_vproc_state_t::new_zeroed();
        self.vmo_read(page, HAFNON_VPROC_STATE_OFFSET, state.as_mut_bytes())?;
        let registers = Registers::of_vproc(&state).ok_or(Status::INVALID_ARGS)?;
        let runner = match self.objects.get(id)?.runners.get(&process) {
            Some(&runner) => runner,
            None => self.runner_create(id, process)?,
        };
        let last = self.objects.get_mut(id)?.last.replace((runner, Some(process)));
        if last.is_some_and(|(last, _)| last == runner) {
            self.machine.runner_enter(runner, &registers);
            return Ok(());
        }
        let owner = self.objects.get(thread)?.machine().filter(|_| shares);
        match last {
            // 6: sharing stops it.
            Some((_, Some(_))) if owner.is_some() => {}
            Some((last, Some(_))) => self.machine.runner_stop(last),
            Some((last, None)) => self.runner_end(id, last),
            None => {}
        }
        match owner {
            Some(owner) => self.machine.runner_enter_sharing(runner, owner, &registers),
            None => self.machine.runner_enter(runner, &registers),
        }
        Ok(())
    }

    /// `vproc_stop` by a thread: stops it and writes its registers to its page.
    ///
    /// # Errors
    /// `BAD_STATE`: it belongs to another thread, or was not entered. `NO_MEMORY`.
    pub fn vproc_stop(&mut self, id: Id<Vproc>, thread: Id<Thread>) -> Result<(), Status> {
        let vproc = self.vproc_of(id, thread)?;
        let (page, (runner, _)) = (vproc.page, vproc.last.ok_or(Status::BAD_STATE)?);
        self.machine.runner_stop(runner);
        let state = self.machine.runner_registers(runner).to_vproc();
        self.vmo_write(page, HAFNON_VPROC_STATE_OFFSET, state.as_bytes())
    }

    /// A virtual processor that belongs to a thread.
    fn vproc_of(&self, id: Id<Vproc>, thread: Id<Thread>) -> Result<&Vproc, Status> {
        let vproc = self.objects.get(id)?;
        if vproc.owner == thread && !vproc.stopped { Ok(vproc) } else { Err(Status::BAD_STATE) }
    }

    fn runner_create(&mut self, id: Id<Vproc>, process: Id<Process>) -> Result<MachineRunner, Status> {
        self.no_component(process)?;
        let p = self.objects.get(process)?;
        let aspace = p.aspace.and_then(|key| self.aspaces.get(key)).ok_or(Status::BAD_STATE)?.machine;
        if p.vprocs.len() >= IN_PROCESS {
            return Err(Status::NO_RESOURCES);
        }
        let vproc = self.objects.get(id)?;
        let (account, endpoint) = (vproc.account, self.objects.get(vproc.endpoint)?.of_machine());
        let priority = self.objects.get(vproc.owner)?.priority;
        self.accounts.count(account, CountKind::Threads, 1)?;
        let runner = self.retry_with_reaper(|kernel| kernel.machine.runner_create(aspace, endpoint, priority));
        let runner = runner.map_err(|OutOfMemory| {
            self.accounts.uncount(account, CountKind::Threads, 1);
            Status::NO_MEMORY
        })?;
        self.objects.get_mut(id)?.runners.insert(process, runner);
        self.objects.get_mut(process)?.vprocs.insert(id.object());
        Ok(runner)
    }

    fn runner_end(&mut self, id: Id<Vproc>, runner: MachineRunner) {
        if let Ok(vproc) = self.objects.get(id) {
            let (owner, told) = (vproc.owner, vproc.stopped);
            self.accounts.uncount(vproc.account, CountKind::Threads, 1);
            if !told {
                let runtime = self.machine.runner_runtime(runner).unwrap_or(0);
                self.thread_ran(owner, runtime);
            }
        }
        self.machine.runner_destroy(runner);
    }

    /// Total run time of an owner's runners in nanoseconds; it counts for the owner.
    pub(crate) fn vproc_runtime(&mut self, owner: Id<Thread>) -> i64 {
        let Ok(thread) = self.objects.get(owner) else { return 0 };
        let Some(vproc) = thread.vproc.and_then(|id| self.objects.get::<Vproc>(Id::new(id)).ok()) else { return 0 };
        let of_no_process = vproc.last.and_then(|(runner, process)| process.is_none().then_some(runner));
        let runners = vproc.runners.values().copied().chain(of_no_process);
        runners.fold(0, |sum: i64, runner| sum.saturating_add(self.machine.runner_runtime(runner).unwrap_or(0)))
    }

    /// The owner was stopped (5).
    pub(crate) fn vproc_hold(&mut self, owner: Id<Thread>) {
        let Some(vproc) = self.vproc_owned(owner) else { return };
        let last = vproc.last;
        let runs = last.map_or(RunnerState::Idle, |(runner, _)| self.machine.runner_hold(runner));
        if let Some(vproc) = self.vproc_owned(owner) {
            vproc.held = runs == RunnerState::Running;
        }
    }

    /// The owner is resumed. So is its runner, even after a kick, because the owner may have taken that event before it
    /// receives.
    pub(crate) fn vproc_release(&mut self, owner: Id<Thread>) {
        let Some(vproc) = self.vproc_owned(owner) else { return };
        if let (true, Some((runner, _))) = (core::mem::take(&mut vproc.held), vproc.last) {
            self.machine.runner_release(runner);
        }
    }

    /// The virtual processor of a thread.
    fn vproc_owned(&mut self, owner: Id<Thread>) -> Option<&mut Vproc> {
        let id = self.objects.get(owner).ok()?.vproc?;
        self.objects.get_mut(Id::new(id)).ok()
    }

    /// Step 3: a process ends.
    pub(crate) fn vprocs_leave(&mut self, process: Id<Process>) {
        let vprocs = self.objects.get_mut(process).map(|p| core::mem::take(&mut p.vprocs)).unwrap_or_default();
        for id in vprocs.into_iter().map(Id::<Vproc>::new) {
            let Ok(vproc) = self.objects.get_mut(id) else { continue };
            let Some(runner) = vproc.runners.remove(&process) else { continue };
            match &mut vproc.last {
                Some((last, of)) if *last == runner => *of = None,
                _ => self.runner_end(id, runner),
            }
        }
    }

    /// Step 4: a thread ends.
    pub(crate) fn vproc_owner_ends(&mut self, thread: Id<Thread>) {
        if let Some(id) = self.objects.get(thread).ok().and_then(|thread| thread.vproc) {
            self.vproc_unreachable(Id::new(id));
        }
    }

    /// Step 4: destroys at once what must not wait.
    pub(crate) fn vproc_unreachable(&mut self, id: Id<Vproc>) {
        let Ok(vproc) = self.objects.get(id) else { return };
        if vproc.stopped {
            return;
        }
        // The owner may be gone when the last runner is destroyed.
        let owner = vproc.owner;
        let runtime = self.vproc_runtime(owner);
        self.thread_ran(owner, runtime);
        let Ok(vproc) = self.objects.get_mut(id) else { return };
        vproc.stopped = true;
        let (endpoint, doorbell, last) = (vproc.endpoint, vproc.doorbell, vproc.last.take());
        if let Some((runner, process)) = last {
            process.into_iter().for_each(|process| self.runner_forget(id, process));
            self.runner_end(id, runner);
        }
        if let Ok(thread) = self.objects.get_mut(owner) {
            thread.vproc = None;
        }
        self.endpoint_unreachable(endpoint);
        self.machine.doorbell_destroy(doorbell);
        self.reaper_enqueue(id.object());
    }

    /// A runner in a process was destroyed.
    fn runner_forget(&mut self, id: Id<Vproc>, process: Id<Process>) {
        if let Ok(vproc) = self.objects.get_mut(id) {
            vproc.runners.remove(&process);
        }
        if let Ok(process) = self.objects.get_mut(process) {
            process.vprocs.remove(&id.object());
        }
    }

    /// Step 4: destroys one runner of a stopped virtual processor.
    pub(crate) fn vproc_drain(&mut self, id: Id<Vproc>) -> DrainStep {
        self.vproc_unreachable(id);
        let first = self.objects.get(id).ok().and_then(|vproc| vproc.runners.first_key_value());
        let Some((&process, &runner)) = first else { return DrainStep::Nothing };
        self.runner_forget(id, process);
        self.runner_end(id, runner);
        self.slice_add_work(RUNNER);
        DrainStep::More
    }
}

/// Destroying a runner costs as much as destroying this many small objects.
const RUNNER: u32 = 4;
