//! Processes: an address space, a handle table, and threads.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use abi::{Signals, Status, ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL};

use crate::containers::list::{Link, List};
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::account::AccountOwner;
use crate::core::account::CountKind;
use crate::core::account::SPACE;
use crate::core::handle::{Handle, HandleTable};
use crate::core::noun::{Noun, ObjectOps, chain};
use crate::core::object::{DrainStep, Id, ObjectId, Users};
use crate::kernel::Kernel;
use crate::machine::port_grants::PortGrants;
use crate::machine::{Aspace, COMPONENT_BASE, KEPT, Machine, USER_BASE, USER_HALF, USER_TOP};
use crate::memory::vmar::Vmar;
use crate::task::exception::ExceptionChannel;
use crate::task::job::{Critical, Job};
use crate::task::policy::Policy;
use crate::task::shared_process::Sharing;
use crate::task::thread::Thread;
use crate::task::thread::Threads;

/// Lifecycle state of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessState {
    /// Created; `process_start` has not been called.
    Created,
    /// Started, not ended.
    Running,
    /// Ended.
    Dead,
}

/// What remains of an ended process.
struct EndedProcess {
    /// It had been started.
    ran: bool,
    /// What is to be destroyed with it.
    left: ProcessRemains,
}

/// What is to be destroyed with an ended process.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProcessRemains {
    /// Its address spaces, in the order of destruction.
    pub(crate) aspaces: [Option<Key>; 2],
    /// The process whose handle table is to be emptied.
    pub(crate) holder: Option<Id<Process>>,
    /// It shares parts with other processes; they are handled when its threads are stopped and its own address spaces
    /// are destroyed.
    pub(crate) shares: bool,
}

/// The kind of a new process.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// With its own address space.
    Alone,
    /// For the native component with this number, which has an address space already.
    Component(u8, Aspace),
    /// The prototype of shared processes.
    Prototype,
    /// A member that shares with this prototype.
    Member(Id<Process>),
}

/// A process.
pub struct Process {
    /// Its name.
    pub name: Name,
    /// The number of the native component that it represents.
    pub component: Option<u8>,
    /// Its job.
    pub job: Id<Job>,
    /// The account of its job.
    pub(crate) account: Key,
    /// Its job's policy at the time of its creation.
    pub policy: Policy,
    /// The job to which it is critical (`job_set_critical`).
    pub critical: Option<Critical>,
    /// Its lifecycle state.
    pub state: ProcessState,
    /// Its handle table.
    pub handles: HandleTable,
    /// Its role in sharing.
    pub(crate) sharing: Sharing,
    /// Index up to which its handle table has been emptied, after its end.
    drain_from: usize,
    /// Set from its end until everything is destroyed.
    ending: Option<EndedProcess>,
    /// Its address space; none after its end.
    pub aspace: Option<Key>,
    /// Its root VMAR.
    pub root_vmar: Option<Id<Vmar>>,
    /// Threads that have not ended.
    pub threads: List<Threads>,
    /// Number of those that have been started.
    pub running: usize,
    /// Its link among the live processes of its job.
    pub(crate) siblings: Link,
    /// Its link among the ended processes whose threads are to be stopped.
    pub(crate) stopping: Link,
    /// Total run time of its ended threads, in nanoseconds.
    pub(crate) runtime_ended: i64,
    /// Number of suspend tokens for it.
    pub(crate) suspends: u32,
    pub(crate) exceptions: Option<ExceptionChannel>,
    pub(crate) debugger: Option<ExceptionChannel>,
    /// Time of its start, in nanoseconds as in [`Time::now`](crate::machine::Time::now).
    pub start_time: i64,
    /// Its return code.
    pub return_code: i64,
    /// I/O ports that it may use.
    pub(crate) ioports: PortGrants,
    /// Virtual processors that have a runner in its address space.
    pub(crate) vprocs: BTreeSet<ObjectId>,
    /// `ZX_PROP_PROCESS_DEBUG_ADDR`.
    pub debug_addr: u64,
    /// `ZX_PROP_PROCESS_BREAK_ON_LOAD`.
    pub break_on_load: u64,
    /// `HAFNON_PROP_PROCESS_OVERFLOW_STATUS`.
    pub overflow_status: bool,
}

impl Noun for Process {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_PROCESS;
    // With the uppermost tables of its address space.
    const BYTES: u64 = size_of::<Process>() as u64 + SPACE;
    const IS_TASK: bool = true;

    fn paying_account<M: Machine>(kernel: &Kernel<M>, id: Id<Self>, _: Key) -> Result<Key, Status> {
        Ok(kernel.objects.get(id)?.account)
    }

    fn name(&self) -> Option<Name> {
        Some(self.name)
    }

    fn parent(&self) -> Option<ObjectId> {
        Some(self.job.object())
    }

    fn is_child(&self) -> bool {
        self.siblings.is_linked()
    }
}

impl ObjectOps for Process {
    fn rename<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, name: Name) -> Result<(), Status> {
        kernel.objects.get_mut(id)?.name = name;
        Ok(())
    }

    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.process_unreachable(id);
    }

    #[inline(always)]
    fn needs_drain(&self) -> bool {
        true
    }

    #[inline(always)]
    fn drain<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, _: Users) -> DrainStep {
        let account = kernel.objects.get(id).map(|process| process.account);
        let step = kernel.process_drain(id);
        account.into_iter().for_each(|account| kernel.kernel_time_charge(account));
        step
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        if let Sharing::Member { prototype, .. } = self.sharing {
            kernel.drop_ref(prototype.object());
        }
        kernel.drop_ref(self.job.object());
    }
}

impl AccountOwner for Process {
    fn account(&self) -> Key {
        self.account
    }
}

chain! {
    /// Processes of a job.
    Processes = Process.siblings
}
chain! {
    /// Ended processes whose threads are still to be stopped.
    Stopping = Process.stopping
}

impl<M: Machine> Kernel<M> {
    /// `process_create`: creates an empty process and its root VMAR.
    ///
    /// # Errors
    /// `BAD_STATE`: the job is dead. `NO_RESOURCES`: a job's quota is used up. `NO_MEMORY`.
    pub fn process_create(&mut self, job: Id<Job>, name: Name) -> Result<(Id<Process>, Id<Vmar>), Status> {
        self.process_make(job, name, Kind::Alone)
    }

    /// Creates a process of any kind; on an error, a component's address space is destroyed.
    pub(crate) fn process_make(
        &mut self,
        job: Id<Job>,
        name: Name,
        kind: Kind,
    ) -> Result<(Id<Process>, Id<Vmar>), Status> {
        let (number, machine) = match kind {
            Kind::Component(number, machine) => (Some(number), Some(machine)),
            _ => (None, None),
        };
        let made = self.process_count(job).and_then(|made| Ok((made, self.shows(kind)?)));
        let ((policy, account), shows) = made.inspect_err(|_| {
            machine.into_iter().for_each(|aspace| self.machine.aspace_destroy(aspace));
        })?;
        let mut secret = [0; 4];
        self.machine.random(&mut secret);
        let uncount = |kernel: &mut Self| kernel.accounts.uncount(account, CountKind::Processes, 1);
        let range = match kind {
            Kind::Alone => (USER_BASE, USER_TOP),
            Kind::Component(..) => (COMPONENT_BASE, KEPT),
            Kind::Prototype => (USER_HALF, USER_TOP),
            Kind::Member(_) => (USER_BASE, USER_HALF),
        };
        let (aspace, vmar) = self.aspace_create_with(machine, range, shows).inspect_err(|_| uncount(self))?;
        let process = Process {
            name,
            component: number,
            job,
            account,
            policy,
            critical: None,
            state: ProcessState::Created,
            handles: HandleTable::new(u32::from_le_bytes(secret)),
            sharing: Sharing::new(kind, aspace),
            drain_from: 0,
            ending: None,
            aspace: Some(aspace),
            root_vmar: Some(vmar),
            threads: List::default(),
            running: 0,
            siblings: Link::default(),
            stopping: Link::default(),
            runtime_ended: 0,
            suspends: 0,
            exceptions: None,
            debugger: None,
            start_time: 0,
            return_code: 0,
            ioports: PortGrants::default(),
            vprocs: BTreeSet::new(),
            debug_addr: 0,
            break_on_load: 0,
            overflow_status: false,
        };
        let id = self.create(Signals::NONE, Box::new(process)).inspect_err(|_| {
            self.aspace_destroy(aspace);
            uncount(self);
        })?;
        if let Some(space) = self.aspaces.get_mut(aspace) {
            space.payer = Some(id.object());
        }
        self.sharing_join(id);
        self.add_ref(job.object());
        self.job_add_process(job, id);
        Ok((id, vmar))
    }

    /// Counts a process that is about to be created; returns its job's policy and account.
    fn process_count(&mut self, job: Id<Job>) -> Result<(Policy, Key), Status> {
        let j = self.objects.get_mut(job)?;
        if j.dead {
            return Err(Status::BAD_STATE);
        }
        let (policy, account) = (j.policy, j.account);
        self.accounts.count(account, CountKind::Processes, 1)?;
        Ok((policy, account))
    }

    /// Starts a process, just before its first thread; puts the argument handle into its table.
    ///
    /// # Errors
    /// `BAD_STATE`: it was started before. `NO_MEMORY`. The handle is then closed.
    pub fn process_begin(&mut self, id: Id<Process>, argument: Option<Handle>) -> Result<u32, Status> {
        let process = self.objects.get(id)?;
        let holder = process.holder(id);
        if process.state != ProcessState::Created {
            argument.into_iter().for_each(|handle| self.drop_handle(handle));
            return Err(Status::BAD_STATE);
        }
        let value = match argument {
            Some(handle) => self.put(holder, handle)?,
            None => 0,
        };
        let start_time = self.machine.now();
        let process = self.objects.get_mut(id)?;
        process.state = ProcessState::Running;
        process.start_time = start_time;
        // A running process keeps itself alive without handles.
        self.add_ref(id.object());
        Ok(value)
    }

    /// Ends a process: its threads, its handles, its memory, and the job to which it is critical. No effect on a dead
    /// one.
    pub fn process_kill(&mut self, id: Id<Process>, return_code: i64) {
        if let Some(job) = self.process_stop(id, return_code) {
            self.job_kill(job, ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL);
        }
    }

    /// Ends a process, and returns the job to which it is critical for the caller to end. Its threads can make no more
    /// calls. At the end of the call the reaper ([`crate::kernel::reaper`]) stops them and destroys what the process
    /// had; then it signals the termination.
    pub(crate) fn process_stop(&mut self, id: Id<Process>, return_code: i64) -> Option<Id<Job>> {
        let p = self.objects.get_mut(id).ok()?;
        let was = core::mem::replace(&mut p.state, ProcessState::Dead);
        if was == ProcessState::Dead {
            return None;
        }
        p.return_code = return_code;
        p.ioports = PortGrants::default();
        if self.trace_is_on() {
            self.trace_ended(id, return_code);
        }
        let p = self.objects.get_mut(id).ok()?;
        let (critical, account, component) = (p.critical.take(), p.account, p.component);
        let aspace = p.aspace.take();
        p.root_vmar = None;
        let left = p.sharing.left(id, aspace);
        p.ending = Some(EndedProcess { ran: was == ProcessState::Running, left });
        // Shared address spaces stay counted until the last sharer has ended.
        self.accounts.uncount(account, CountKind::Processes, left.aspaces.iter().flatten().count() as u64);
        let threads = self.objects.get(id).map(|p| p.threads).unwrap_or_default();
        let mut next = self.objects.after(threads, None);
        while let Some(thread) = next {
            if let Ok(thread) = self.objects.get_mut::<Thread>(Id::new(thread)) {
                thread.aspace = None;
            }
            next = self.objects.after(threads, next);
        }
        self.reaper_enqueue(id.object());
        self.stop_threads(id);
        self.vprocs_leave(id);
        component.into_iter().for_each(|component| self.component_left(component, id));
        left.aspaces.into_iter().flatten().for_each(|aspace| self.aspace_ends(aspace));
        critical.and_then(|critical| critical.job_for(return_code))
    }

    /// Stops one thread of an ended process. Says whether there was one.
    pub(crate) fn process_stop_one_thread(&mut self, id: Id<Process>) -> bool {
        let thread = self.objects.get(id).ok().and_then(|p| self.objects.after(p.threads, None));
        let Some(thread) = thread else {
            self.process_close_exceptions(id);
            return false;
        };
        self.thread_stop(Id::new(thread));
        self.thread_leave(Id::new(thread));
        true
    }

    /// Total run time of a process's threads, including ended ones, in nanoseconds.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the machine does not know.
    pub fn process_runtime(&mut self, id: Id<Process>) -> Result<i64, Status> {
        let process = self.objects.get(id)?;
        let (threads, mut sum) = (process.threads, process.runtime_ended);
        let mut at = None;
        while let Some(thread) = self.objects.after(threads, at) {
            sum = sum.saturating_add(self.thread_runtime(Id::new(thread))?);
            at = Some(thread);
        }
        Ok(sum)
    }

    fn process_close_exceptions(&mut self, id: Id<Process>) {
        let Ok(p) = self.objects.get_mut(id) else { return };
        for channel in [p.exceptions.take(), p.debugger.take()].into_iter().flatten() {
            self.exception_channel_close(channel);
        }
    }

    /// One step of emptying an ended process: first its address spaces, then its handles.
    pub(crate) fn process_drain(&mut self, id: Id<Process>) -> DrainStep {
        let Ok(p) = self.objects.get_mut(id) else { return DrainStep::Nothing };
        let Some(ending) = &mut p.ending else { return DrainStep::Nothing };
        if p.stopping.is_linked() {
            self.process_stop_one_thread(id);
            return DrainStep::More;
        }
        let (left, ran, job) = (ending.left, ending.ran, p.job);
        if let Some((place, aspace)) = left.aspaces.into_iter().enumerate().find_map(|(i, key)| Some((i, key?))) {
            if !self.aspace_reap_step(aspace)
                && let Ok(Process { ending: Some(ending), .. }) = self.objects.get_mut(id)
                && let Some(aspace) = ending.left.aspaces.get_mut(place)
            {
                *aspace = None;
            }
            return DrainStep::More;
        }
        if left.shares {
            let left = self.sharing_leave(id);
            if let Ok(Process { ending: Some(ending), .. }) = self.objects.get_mut(id) {
                ending.left = left;
            }
            return DrainStep::More;
        }
        if let Some(holder) = left.holder
            && let Ok(p) = self.objects.get_mut(holder)
        {
            if let Some(value) = p.handles.any(&mut p.drain_from) {
                return self.take(holder, value).map_or(DrainStep::More, DrainStep::Handle);
            }
            // Frees the table's memory, too.
            let chunks = p.handles.allowed();
            (p.handles, p.drain_from) = (HandleTable::new(0), 0);
            self.table_gone(holder, chunks);
        }
        if let Ok(p) = self.objects.get_mut(id) {
            p.ending = None;
        }
        self.signal(id.object(), Signals::NONE, Signals::PROCESS_TERMINATED);
        self.job_remove_process(job, id);
        if ran {
            self.drop_ref(id.object());
        }
        DrainStep::Nothing
    }

    /// Sets `ZX_PROP_PROCESS_DEBUG_ADDR`, which the dynamic linker does once.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the address is 0. `ACCESS_DENIED`: it was set before.
    pub fn process_set_debug_addr(&mut self, id: Id<Process>, address: u64) -> Result<(), Status> {
        let process = self.objects.get_mut(id)?;
        if address == 0 {
            return Err(Status::INVALID_ARGS);
        }
        if process.debug_addr != 0 {
            return Err(Status::ACCESS_DENIED);
        }
        process.debug_addr = address;
        Ok(())
    }

    /// Sets `ZX_PROP_PROCESS_BREAK_ON_LOAD`.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn process_set_break_on_load(&mut self, id: Id<Process>, wanted: u64) -> Result<(), Status> {
        self.objects.get_mut(id)?.break_on_load = wanted;
        Ok(())
    }

    /// Sets `HAFNON_PROP_PROCESS_OVERFLOW_STATUS`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: neither 0 nor 1.
    pub fn process_set_overflow_status(&mut self, id: Id<Process>, wanted: u64) -> Result<(), Status> {
        let process = self.objects.get_mut(id)?;
        process.overflow_status = match wanted {
            0 => false,
            1 => true,
            _ => return Err(Status::INVALID_ARGS),
        };
        Ok(())
    }

    /// Whether a process has ended.
    pub fn process_is_dead(&self, id: Id<Process>) -> bool {
        self.objects.get(id).is_ok_and(|p| p.state == ProcessState::Dead)
    }

    pub(crate) fn process_unreachable(&mut self, id: Id<Process>) {
        // A process that was never started, and now never can be, ends.
        if self.objects.get(id).is_ok_and(|p| p.state == ProcessState::Created) {
            self.process_kill(id, 0);
        }
    }
}
