//! Threads, and their waits.
//!
//! A thread waits for at most one thing at a time ([`Wait`]). [`Kernel::block`] blocks it. Whatever ends the wait calls
//! [`Kernel::take_wait`], which removes the wait everywhere, and [`Kernel::wake`].

use alloc::boxed::Box;

use abi::{Signals, Status, ZX_TIME_INFINITE};

use crate::arch::{Breakpoints, DebugRegisters, FpuRegisters, GeneralRegisters, Registers, VectorRegisters};
use crate::containers::list::Link;
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::account::CountKind;
use crate::core::continuation::SLICE_NANOS;
use crate::core::continuation::SliceTimer;
use crate::core::noun::{Noun, ObjectOps, chain};
use crate::core::object::WOKEN;
use crate::core::object::{Id, ObjectId};
use crate::core::wait::WAITS;
use crate::core::wait::{Observed, Waiting};
use crate::kernel::Kernel;
use crate::machine::PAGE;
use crate::machine::{Machine, MachineThread, Priority, ThreadKey};
use crate::task::blocking::Wait;
use crate::task::endpoint::Slots;
use crate::task::exception::{AfterException, Exception, ExceptionChannel};
use crate::task::page_wait::AfterPageWait;
use crate::task::process::{Process, ProcessState};
use crate::task::restricted::Restricted;
use crate::time::deadline::{DeadlineKind, Due};
use abi::SyscallInfo;

/// What waking a thread needs: the machine's thread, and the turn in which the thread was last noted.
pub(crate) type WakeInfo = (Option<MachineThread>, u32);

/// Lifecycle state of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadState {
    /// Created, not started.
    Initial,
    /// Started.
    Running,
    /// Ended.
    Dead,
}

/// A traced call in progress.
#[derive(Clone, Copy)]
pub(crate) struct TracedCall {
    pub(crate) info: &'static SyscallInfo,
    pub(crate) words: [u64; 8],
    pub(crate) process: u64,
    pub(crate) thread: u64,
    pub(crate) start: u64,
}

/// A thread.
pub struct Thread {
    /// Its name.
    pub name: Name,
    /// Its process.
    pub process: Id<Process>,
    /// The process whose handle table it uses: its own, except with [shared processes](crate::task::shared_process).
    pub(crate) holder: Id<Process>,
    /// Its lifecycle state.
    pub state: ThreadState,
    pub(crate) machine: Option<MachineThread>,
    /// Its process's address space, from its start to its end.
    pub(crate) aspace: Option<Key>,
    pub(crate) priority: Priority,
    /// The processor mask of its last profile that had one.
    pub(crate) processors: u64,
    /// The turn in which the scheduler last noted it: see [`crate::task::fair_scheduling`].
    pub(crate) noted: u32,
    pub(crate) wait: Wait,
    /// Its link among the live threads of its process.
    pub(crate) siblings: Link,
    /// Its link in an ordered queue of waiting threads.
    pub(crate) queue: Link,
    /// Number of suspend tokens for the thread itself; its process has its own count.
    pub(crate) suspends: u32,
    /// [`Kernel::thread_settle`] has stopped the machine's thread.
    stopped: bool,
    /// A suspend token is in effect.
    suspended: bool,
    /// After its end: its total run time in nanoseconds. Before: the run time of its destroyed runners.
    runtime: i64,
    pub(crate) exceptions: Option<ExceptionChannel>,
    /// It is exiting, and the debugger has been notified.
    pub(crate) end_reported: bool,
    has_deadline: bool,
    /// The number of its current wait: see [`Due`].
    wait_number: u32,
    /// The endpoints in its slots, if it ever had any.
    pub(crate) endpoints: Option<Box<Slots>>,
    /// Its virtual processor.
    pub(crate) vproc: Option<ObjectId>,
    /// Its restricted state, if bound.
    pub(crate) restricted: Option<Box<Restricted>>,
    /// It was kicked while no restricted state was bound.
    pub(crate) kicked: bool,
    /// It has enabled breakpoints.
    pub(crate) debugged: bool,
    /// The call in which it is blocked, if calls are traced.
    pub(crate) traced: Option<Box<TracedCall>>,
}

impl Noun for Thread {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_THREAD;
    // With the kernel's record of it, its capabilities, the page for its calls, and the most that its waits take at a
    // time.
    const BYTES: u64 = size_of::<Thread>() as u64 + 3 * PAGE + WAITS;
    const IS_TASK: bool = true;

    fn paying_account<M: Machine>(kernel: &Kernel<M>, id: Id<Self>, _: Key) -> Result<Key, Status> {
        let process = kernel.objects.get(id)?.process;
        Ok(kernel.objects.get(process)?.account)
    }

    fn name(&self) -> Option<Name> {
        Some(self.name)
    }

    fn parent(&self) -> Option<ObjectId> {
        Some(self.process.object())
    }

    fn is_child(&self) -> bool {
        self.state != ThreadState::Initial && self.siblings.is_linked()
    }
}

impl ObjectOps for Thread {
    fn rename<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, name: Name) -> Result<(), Status> {
        kernel.objects.get_mut(id)?.name = name;
        Ok(())
    }

    #[inline(always)]
    fn leave_lists<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.thread_leave(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.thread_end(*self);
    }

    #[inline(always)]
    fn has_deadline(&self, number: u32) -> bool {
        self.has_deadline && self.wait_number == number
    }

    #[inline(always)]
    fn deadline_reached<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        // The entry has left the heap already: nothing to disarm.
        if let Ok(thread) = kernel.objects.get_mut(id) {
            thread.has_deadline = false;
        }
        kernel.finish_wait(id, Status::TIMED_OUT);
    }
}

chain! {
    /// Threads of a process.
    Threads = Thread.siblings
}

impl Thread {
    /// The machine's thread, from its start to its end.
    pub fn machine(&self) -> Option<MachineThread> {
        self.machine
    }

    /// The processor mask; 0 after its end.
    pub fn processors(&self) -> u64 {
        if self.has_ended() { 0 } else { self.processors }
    }

    /// Clears its wait, which holds nothing. Says whether a deadline must be disarmed.
    #[inline]
    pub(crate) fn over(&mut self) -> bool {
        core::mem::forget(core::mem::replace(&mut self.wait, Wait::None));
        self.wait_number = self.wait_number.wrapping_add(1);
        core::mem::take(&mut self.has_deadline)
    }

    /// Whether it has ended, or is to be stopped because its process has ended.
    pub fn has_ended(&self) -> bool {
        self.state == ThreadState::Dead || self.state == ThreadState::Running && self.aspace.is_none()
    }

    /// Whether it is blocked in a call.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !matches!(self.wait, Wait::None)
    }

    /// What waking it needs.
    #[inline(always)]
    pub(crate) fn at_hand(&self) -> WakeInfo {
        (self.machine, self.noted)
    }

    /// Whether it is runnable.
    pub(crate) fn is_ready(&self) -> bool {
        let waits = self.is_waiting() && !matches!(self.wait, Wait::Continuation(_));
        self.state == ThreadState::Running && !waits && !self.stopped
    }

    /// Whether it is started and suspended.
    pub fn is_suspended(&self) -> bool {
        self.state == ThreadState::Running && self.suspended
    }

    /// Whether its registers can be read and written: it is suspended or in an exception.
    pub fn shows_registers(&self) -> bool {
        self.is_suspended() || self.state == ThreadState::Running && self.exception().is_some()
    }

    /// Whether it is stopped by an exception, which holds it even without a suspend token. In an exception that one of
    /// its calls caused, it is blocked as in any other call instead.
    pub fn in_exception(&self) -> bool {
        matches!(self.wait, Wait::Exception { after: AfterException::Resume, .. })
    }

    /// Whether it is stopped by a page fault that waits for a pager.
    fn at_fault(&self) -> bool {
        matches!(&self.wait, Wait::Page(wait) if matches!(wait.then, AfterPageWait::Fault { .. }))
    }

    /// Its current exception.
    pub fn exception(&self) -> Option<Id<Exception>> {
        match self.wait {
            Wait::Exception { exception, .. } => Some(exception),
            _ => None,
        }
    }

    /// The thread's `ZX_THREAD_STATE_*`, with the reason if it is blocked.
    pub fn info_state(&self) -> u32 {
        match (self.state, &self.wait) {
            (ThreadState::Initial, _) => abi::ZX_THREAD_STATE_NEW,
            (ThreadState::Dead, _) => abi::ZX_THREAD_STATE_DEAD,
            (ThreadState::Running, _) if self.is_suspended() => abi::ZX_THREAD_STATE_SUSPENDED,
            (ThreadState::Running, Wait::None | Wait::Continuation(_)) => abi::ZX_THREAD_STATE_RUNNING,
            (ThreadState::Running, Wait::Sleep) => abi::ZX_THREAD_STATE_BLOCKED_SLEEPING,
            (
                ThreadState::Running,
                Wait::Signals { out: Observed::Many(_), .. } | Wait::SoleWaiter { out: Observed::Many(_), .. },
            ) => abi::ZX_THREAD_STATE_BLOCKED_WAIT_MANY,
            (ThreadState::Running, Wait::Signals { .. } | Wait::SoleWaiter { .. }) => {
                abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE
            }
            (ThreadState::Running, Wait::Port { .. }) => abi::ZX_THREAD_STATE_BLOCKED_PORT,
            (ThreadState::Running, Wait::Futex { .. }) => abi::ZX_THREAD_STATE_BLOCKED_FUTEX,
            (ThreadState::Running, Wait::Call { .. }) => abi::ZX_THREAD_STATE_BLOCKED_CHANNEL,
            (ThreadState::Running, Wait::Page(_)) => abi::ZX_THREAD_STATE_BLOCKED_PAGER,
            (ThreadState::Running, Wait::Serial(_)) => abi::ZX_THREAD_STATE_BLOCKED,
            (ThreadState::Running, Wait::Interrupt { .. }) => abi::ZX_THREAD_STATE_BLOCKED_INTERRUPT,
            (ThreadState::Running, Wait::Exception { after: AfterException::Exit, .. }) => abi::ZX_THREAD_STATE_DYING,
            (ThreadState::Running, Wait::Exception { .. }) => abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION,
        }
    }
}

impl<M: Machine> Kernel<M> {
    /// `thread_create`.
    ///
    /// # Errors
    /// `BAD_STATE`: the process is dead. `NOT_SUPPORTED`: it is a component's. `NO_RESOURCES`: a job's quota is used
    /// up. `NO_MEMORY`.
    pub fn thread_create(&mut self, process: Id<Process>, name: Name) -> Result<Id<Thread>, Status> {
        let p = self.objects.get_mut(process)?;
        if p.state == ProcessState::Dead {
            return Err(Status::BAD_STATE);
        }
        if p.component.is_some() && p.state != ProcessState::Created {
            return Err(Status::NOT_SUPPORTED);
        }
        let (account, holder) = (p.account, p.holder(process));
        self.accounts.count(account, CountKind::Threads, 1)?;
        let thread = Thread {
            name,
            process,
            holder,
            state: ThreadState::Initial,
            machine: None,
            aspace: None,
            priority: Priority::DEFAULT,
            // There is only one processor.
            processors: 1,
            noted: 0,
            wait: Wait::None,
            siblings: Link::default(),
            queue: Link::default(),
            suspends: 0,
            stopped: false,
            suspended: false,
            runtime: 0,
            exceptions: None,
            end_reported: false,
            has_deadline: false,
            wait_number: 0,
            endpoints: None,
            vproc: None,
            restricted: None,
            kicked: false,
            debugged: false,
            traced: None,
        };
        let id: Id<Thread> = self
            .create(Signals::NONE, Box::new(thread))
            .inspect_err(|_| self.accounts.uncount(account, CountKind::Threads, 1))?;
        self.objects.enlist(process, |p| &mut p.threads, id.object());
        self.add_ref(process.object());
        Ok(id)
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// `BAD_STATE`: it was started before, or its process does not run. `NO_MEMORY`.
    pub fn thread_start(&mut self, id: Id<Thread>, registers: &Registers) -> Result<(), Status> {
        self.shared_begin(id)?;
        let thread = self.objects.get(id)?;
        let process = self.objects.get(thread.process)?;
        if thread.state != ThreadState::Initial || process.state != ProcessState::Running {
            return Err(Status::BAD_STATE);
        }
        let key_of_aspace = process.aspace.ok_or(Status::BAD_STATE)?;
        let aspace = self.aspaces.get(key_of_aspace).ok_or(Status::BAD_STATE)?.machine;
        let name = thread.name;
        let key = ThreadKey(id.object().index());
        let machine = self.retry_with_reaper(|kernel| kernel.machine.thread_create(aspace, key, name.as_str()));
        let machine = machine.map_err(|_| Status::NO_MEMORY)?;
        let thread = self.objects.get_mut(id)?;
        thread.machine = Some(machine);
        thread.aspace = Some(key_of_aspace);
        if thread.priority != Priority::DEFAULT {
            self.machine.thread_set_priority(machine, thread.priority);
        }
        thread.state = ThreadState::Running;
        let process = thread.process;
        // A running thread keeps itself alive without handles.
        self.add_ref(id.object());
        let process = self.objects.get_mut(process)?;
        process.running += 1;
        let (held, first) = (process.suspends > 0, process.running == 1);
        let held = held || self.objects.get(id)?.suspends > 0;
        self.signal(id.object(), Signals::NONE, Signals::THREAD_RUNNING);
        if self.exception_starting(id, first) || held {
            // It is held before its first instruction.
            self.machine.thread_set_registers(machine, registers);
            self.thread_settle(id);
        } else {
            self.machine.thread_start(machine, registers);
            self.turn_thread_ready(id, 0);
        }
        Ok(())
    }

    /// Stops or resumes a started thread according to its suspend tokens, exception and page fault. Must be called
    /// after any of them has changed; the thread may be in any state.
    pub fn thread_settle(&mut self, id: Id<Thread>) {
        let Ok(thread) = self.objects.get(id) else { return };
        let Some(machine) = thread.machine else { return };
        let suspended = thread.suspends > 0 || self.objects.get(thread.process).is_ok_and(|p| p.suspends > 0);
        let hold = suspended || thread.in_exception() || thread.at_fault();
        // A thread in an exception still counts as running: the suspension takes effect when the exception is over.
        let suspended = suspended && !thread.in_exception();
        let Ok(thread) = self.objects.get_mut(id) else { return };
        let was_stopped = core::mem::replace(&mut thread.stopped, hold);
        let was_suspended = core::mem::replace(&mut thread.suspended, suspended);
        let noted = thread.noted;
        match (was_stopped, hold) {
            (false, true) => {
                self.machine.thread_suspend(machine);
                self.restricted_hold(id);
                self.vproc_hold(id);
            }
            (true, false) => {
                self.restricted_release(id);
                self.vproc_release(id);
                self.machine.thread_resume(machine);
                self.turn_thread_ready(id, noted);
            }
            _ => {}
        }
        if suspended != was_suspended {
            self.page_wait_suspended(id, suspended);
        }
        if suspended {
            self.signal(id.object(), Signals::THREAD_RUNNING, Signals::THREAD_SUSPENDED);
        } else {
            self.signal(id.object(), Signals::THREAD_SUSPENDED, Signals::THREAD_RUNNING);
        }
    }

    /// Kills a thread in any state. The last one ends its process.
    pub fn thread_kill(&mut self, id: Id<Thread>) {
        let Some(process) = self.thread_stop(id) else { return };
        if self.objects.get(process).is_ok_and(|p| p.running == 0 && p.state == ProcessState::Running) {
            self.process_kill(process, 0);
        }
    }

    /// Ends a thread but not its process; returns the process if the thread had been started.
    pub(crate) fn thread_stop(&mut self, id: Id<Thread>) -> Option<Id<Process>> {
        let thread = self.objects.get_mut(id).ok()?;
        let was = core::mem::replace(&mut thread.state, ThreadState::Dead);
        if was == ThreadState::Dead {
            return None;
        }
        let process = thread.process;
        self.thread_uncount(process);
        let thread = self.objects.get_mut(id).ok()?;
        let machine = thread.machine.take();
        let (exceptions, end_reported) = (thread.exceptions.take(), thread.end_reported);
        self.abandon_wait(id);
        if was == ThreadState::Running && !end_reported {
            self.exception_killed(id);
        }
        if let Some(channel) = exceptions {
            self.exception_channel_close(channel);
        }
        self.endpoints_leave(id);
        self.vproc_owner_ends(id);
        self.restricted_unbind(id);
        if let Some(machine) = machine {
            let runtime = self.machine.thread_runtime(machine).unwrap_or(0);
            self.thread_ran(id, runtime);
            self.thread_count_runtime(id);
            self.machine.thread_destroy(machine);
        }
        self.signal(id.object(), Signals::THREAD_RUNNING | Signals::THREAD_SUSPENDED, Signals::THREAD_TERMINATED);
        self.thread_leave(id);
        if was == ThreadState::Running
            && let Ok(p) = self.objects.get_mut(process)
        {
            p.running -= 1;
        }
        if was == ThreadState::Running {
            self.drop_ref(id.object());
            return Some(process);
        }
        None
    }

    /// Removes a thread from its process's list, if it is still in it.
    pub(crate) fn thread_leave(&mut self, id: Id<Thread>) {
        if let Ok(process) = self.objects.get(id).map(|thread| thread.process) {
            self.objects.delist(process, |p| &mut p.threads, id.object());
        }
    }

    /// Uncounts an ended thread of a process.
    fn thread_uncount(&mut self, process: Id<Process>) {
        if let Ok(account) = self.objects.get(process).map(|process| process.account) {
            self.accounts.uncount(account, CountKind::Threads, 1);
        }
    }

    pub(crate) fn thread_end(&mut self, thread: Thread) {
        if thread.state != ThreadState::Dead {
            self.thread_uncount(thread.process);
        }
        if let Some(channel) = thread.exceptions {
            self.exception_channel_close(channel);
        }
        self.drop_ref(thread.process.object());
    }

    /// The address space in which a thread's addresses are valid.
    ///
    /// # Errors
    /// `BAD_STATE`: it does not run.
    #[inline]
    pub fn aspace_of_thread(&self, id: Id<Thread>) -> Result<Key, Status> {
        let thread = self.objects.get(id)?;
        match thread.state {
            ThreadState::Running => thread.aspace.ok_or(Status::BAD_STATE),
            _ => Err(Status::BAD_STATE),
        }
    }

    /// `object_get_property(ZX_PROP_REGISTER_FS)` for the calling thread.
    ///
    /// # Errors
    /// `BAD_STATE`: the thread does not run.
    pub fn thread_pointer(&mut self, id: Id<Thread>) -> Result<u64, Status> {
        let machine = self.objects.get(id)?.machine.ok_or(Status::BAD_STATE)?;
        Ok(self.machine.thread_registers(machine).thread_pointer())
    }

    /// `object_set_property(ZX_PROP_REGISTER_FS)`.
    ///
    /// # Errors
    /// `BAD_STATE`: the thread does not run. `NOT_SUPPORTED`: it is a component's.
    pub fn thread_set_pointer(&mut self, id: Id<Thread>, base: u64) -> Result<(), Status> {
        self.no_component_thread(id)?;
        let machine = self.objects.get(id)?.machine.ok_or(Status::BAD_STATE)?;
        self.machine.thread_set_pointer(machine, base);
        Ok(())
    }

    /// The machine's thread of a thread whose registers can be accessed.
    fn shown(&self, id: Id<Thread>) -> Result<MachineThread, Status> {
        let thread = self.objects.get(id)?;
        if thread.shows_registers() { thread.machine.ok_or(Status::BAD_STATE) } else { Err(Status::BAD_STATE) }
    }

    /// The registers of a stopped thread. For a thread blocked in a call they are those of the call; in an exception
    /// that the call caused, they have the call's result.
    ///
    /// # Errors
    /// `BAD_STATE`: it is neither suspended nor in an exception.
    pub fn thread_registers(&mut self, id: Id<Thread>) -> Result<Registers, Status> {
        let machine = self.shown(id)?;
        if let Some(restricted) = self.restricted_shown(id) {
            return Ok(restricted);
        }
        let found = self.machine.thread_registers(machine);
        let mut found = self.with_stack_pointer(id, found);
        if let Wait::Exception { after: AfterException::Return(result), .. } = self.objects.get(id)?.wait {
            found.set_result(result);
        }
        Ok(found)
    }

    /// Sets the registers of a stopped thread. If it is blocked in a call and the instruction pointer changes, the call
    /// is abandoned without a result.
    ///
    /// # Errors
    /// As [`Kernel::thread_registers`]. `BAD_STATE` also: the instruction pointer changes in an exception that a call
    /// caused.
    pub fn thread_set_registers(&mut self, id: Id<Thread>, registers: &Registers) -> Result<(), Status> {
        let machine = self.shown(id)?;
        if self.restricted_shown(id).is_some() {
            self.restricted_show(id, registers);
            return Ok(());
        }
        let thread = self.objects.get(id)?;
        let (stopped, in_exception, is_exception) =
            (thread.stopped, thread.in_exception(), thread.exception().is_some());
        if self.machine.thread_registers(machine).ip() != registers.ip() && !in_exception {
            if is_exception {
                return Err(Status::BAD_STATE);
            }
            self.abandon_wait(id);
        }
        if let Ok(thread) = self.objects.get_mut(id)
            && let Wait::Exception { after: AfterException::Return(result), .. } = &mut thread.wait
        {
            *result = registers.result();
        }
        if !stopped {
            // It is blocked in a call, which it continues afterwards.
            self.machine.thread_suspend(machine);
        }
        self.machine.thread_set_registers(machine, registers);
        if !stopped {
            self.machine.thread_resume(machine);
        }
        Ok(())
    }

    /// The floating-point and vector registers of a stopped thread.
    ///
    /// # Errors
    /// As [`Kernel::thread_registers`]. `NOT_SUPPORTED`: the machine cannot read them.
    pub fn thread_fpu(&mut self, id: Id<Thread>) -> Result<FpuRegisters, Status> {
        let machine = self.shown(id)?;
        self.machine.thread_fpu(machine).ok_or(Status::NOT_SUPPORTED)
    }

    /// Sets the floating-point and vector registers of a stopped thread.
    ///
    /// # Errors
    /// As [`Kernel::thread_fpu`]. `INVALID_ARGS`: reserved bits of the control register.
    pub fn thread_set_fpu(&mut self, id: Id<Thread>, registers: &FpuRegisters) -> Result<(), Status> {
        if !registers.can_replace(&self.thread_fpu(id)?) {
            return Err(Status::INVALID_ARGS);
        }
        let machine = self.shown(id)?;
        self.machine.thread_set_fpu(machine, registers);
        Ok(())
    }

    /// The debug registers of a stopped thread, with the bits that are always set.
    ///
    /// # Errors
    /// As [`Kernel::thread_registers`]. `NOT_SUPPORTED`: the machine does not keep them per thread.
    pub fn thread_debug(&mut self, id: Id<Thread>) -> Result<DebugRegisters, Status> {
        let machine = self.shown(id)?;
        let mut registers = self.machine.thread_debug(machine).ok_or(Status::NOT_SUPPORTED)?;
        if let Some(of_runner) = self.restricted_debug_shown(id) {
            registers = registers.with_status_of(&of_runner);
        }
        Ok(registers.shown())
    }

    /// Sets the breakpoints of a stopped thread. The status does not change, and bits that a program cannot set are
    /// ignored.
    ///
    /// # Errors
    /// As [`Kernel::thread_debug`]. `INVALID_ARGS`: see [`Breakpoints::valid`].
    pub fn thread_set_debug(&mut self, id: Id<Thread>, wanted: &DebugRegisters) -> Result<(), Status> {
        let machine = self.shown(id)?;
        let before = self.machine.thread_debug(machine).ok_or(Status::NOT_SUPPORTED)?;
        let registers = wanted.settled(&before);
        if !registers.valid() {
            return Err(Status::INVALID_ARGS);
        }
        self.machine.thread_set_debug(machine, &registers);
        self.objects.get_mut(id)?.debugged = registers.enabled();
        self.restricted_set_debug(id, &registers);
        Ok(())
    }

    /// Run time of a thread, in nanoseconds.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the machine does not know.
    pub fn thread_runtime(&mut self, id: Id<Thread>) -> Result<i64, Status> {
        let thread = self.objects.get(id)?;
        let (ran, machine) = (thread.runtime, thread.machine);
        let own = machine.map_or(Some(0), |machine| self.machine.thread_runtime(machine));
        let own = own.ok_or(Status::NOT_SUPPORTED)?.saturating_add(ran);
        Ok(own.saturating_add(self.vproc_runtime(id)).saturating_add(self.restricted_runtime(id)))
    }

    /// Adds the run time of a thread's runner that is destroyed.
    pub(crate) fn thread_ran(&mut self, id: Id<Thread>, runtime: i64) {
        if let Ok(thread) = self.objects.get_mut(id) {
            thread.runtime = thread.runtime.saturating_add(runtime);
        }
    }

    /// Adds an ended thread's run time to its process and the jobs above.
    fn thread_count_runtime(&mut self, id: Id<Thread>) {
        let Ok(thread) = self.objects.get(id) else { return };
        let (process, runtime) = (thread.process, thread.runtime);
        let Ok(process) = self.objects.get_mut(process) else { return };
        process.runtime_ended = process.runtime_ended.saturating_add(runtime);
        let mut job = Some(process.job);
        while let Some(j) = job.and_then(|id| self.objects.get_mut(id).ok()) {
            j.runtime_ended = j.runtime_ended.saturating_add(runtime);
            job = j.parent;
        }
    }

    // --- waiting ---

    /// Blocks a thread until the wait ends or the deadline expires.
    ///
    /// # Errors
    /// `NO_MEMORY`; the wait is then cleaned up.
    #[inline(always)]
    pub(crate) fn block(&mut self, id: Id<Thread>, wait: Wait, deadline: i64) -> Result<Waiting, Status> {
        let thread = self.objects.get_mut(id)?;
        debug_assert!(!thread.is_waiting());
        // The old value is `Wait::None`: there is nothing to drop.
        core::mem::forget(core::mem::replace(&mut thread.wait, wait));
        if deadline == ZX_TIME_INFINITE {
            return Ok(Waiting::Blocked);
        }
        thread.has_deadline = true;
        let number = thread.wait_number;
        match self.arm(DeadlineKind::Wait, deadline, id.object(), number) {
            Ok(()) => Ok(Waiting::Blocked),
            Err(status) => {
                self.block_failed(id);
                Err(status)
            }
        }
    }

    /// Undoes a wait whose deadline could not be set.
    #[cold]
    fn block_failed(&mut self, id: Id<Thread>) {
        if let Ok(thread) = self.objects.get_mut(id) {
            thread.has_deadline = false;
        }
        self.abandon_wait(id);
    }

    /// `nanosleep`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn sleep(&mut self, id: Id<Thread>, deadline: i64) -> Result<Waiting, Status> {
        if deadline <= self.machine.now() {
            return Ok(Waiting::Over(Status::OK));
        }
        self.block(id, Wait::Sleep, deadline)
    }

    /// Ends a thread's wait without waking it. Nothing refers to the wait afterwards, except that the caller must
    /// remove the observers of a wait on signals.
    pub(crate) fn take_wait(&mut self, id: Id<Thread>) -> Option<Wait> {
        let thread = self.objects.get_mut(id).ok()?;
        let wait = core::mem::replace(&mut thread.wait, Wait::None);
        if matches!(wait, Wait::None) {
            return None;
        }
        thread.wait_number = thread.wait_number.wrapping_add(1);
        if core::mem::take(&mut thread.has_deadline) {
            self.disarm();
        }
        match wait {
            Wait::None | Wait::Sleep | Wait::Signals { .. } => {}
            Wait::SoleWaiter { object, .. } => self.sole_waiter_clear(object),
            Wait::Port { port, .. } => self.port_forget_waiter(port, id.object()),
            Wait::Futex { key } => self.futex_forget(key, id),
            Wait::Call { channel, txid, .. } => self.channel_forget_caller(channel, txid),
            Wait::Serial(ref wait) => self.serial_forget(wait, id),
            Wait::Interrupt { interrupt, .. } => self.interrupt_forget_waiter(Id::new(interrupt)),
            Wait::Page(ref wait) => self.page_wait_cancel(id, wait),
            Wait::Continuation(ref continuation) => {
                self.drop_ref(continuation.progress.object);
                continuation.progress.with.into_iter().for_each(|with| self.drop_ref(with));
            }
            Wait::Exception { exception, .. } => self.drop_ref(exception.object()),
        }
        Some(wait)
    }

    /// Ends a wait without waking the thread. Only the thread itself refers to the wait, which holds nothing.
    #[inline]
    pub(crate) fn end_wait(&mut self, id: Id<Thread>) {
        let Ok(thread) = self.objects.get_mut(id) else { return };
        if thread.over() {
            self.disarm();
        }
    }

    /// Ends a thread's wait, if any, without a result (3D).
    fn abandon_wait(&mut self, id: Id<Thread>) {
        if self.objects.get(id).is_ok_and(|thread| thread.traced.is_some()) {
            self.trace_woken(id, None);
        }
        match self.take_wait(id) {
            Some(Wait::Signals { observers, .. }) => self.unobserve_all(observers),
            Some(Wait::Page(wait)) => self.page_wait_discard(wait.then),
            Some(Wait::Continuation(_)) => self.serial_written(id),
            _ => {}
        }
    }

    /// Ends a thread's wait, if any, with a status.
    pub(crate) fn finish_wait(&mut self, id: Id<Thread>, status: Status) {
        if self.sole_waiter_finish(id, status) {
            return;
        }
        let Some(wait) = self.take_wait(id) else { return };
        let status = match wait {
            Wait::Signals { observers, out } => match self.signals_wait_over(id, observers, out, status) {
                Ok(status) => status,
                Err(to) => return self.page_write_results(id, to, status),
            },
            Wait::Sleep if status == Status::TIMED_OUT => Status::OK,
            _ => status,
        };
        self.wake(id, status);
    }

    /// Returns from a thread's blocked call.
    pub(crate) fn wake(&mut self, id: Id<Thread>, status: Status) {
        self.wake_with(id, i64::from(status.0));
    }

    /// Returns from a call that was made again and no longer waits.
    pub fn thread_return(&mut self, id: Id<Thread>, result: i64) {
        self.wake_with(id, result);
    }

    /// Like [`Kernel::wake`], with any result.
    pub(crate) fn wake_with(&mut self, id: Id<Thread>, result: i64) {
        if let Ok(thread) = self.objects.get(id) {
            self.wake_machine(id, thread.at_hand(), result);
        }
    }

    /// Like [`Kernel::wake_with`], for a caller that has the data already.
    #[inline(always)]
    pub(crate) fn wake_machine(&mut self, id: Id<Thread>, (machine, noted): WakeInfo, result: i64) {
        if self.trace_is_on() {
            self.trace_woken(id, Some(result));
        }
        self.unsettled |= WOKEN;
        if let Some(machine) = machine {
            self.machine.thread_wake(machine, result);
            self.turn_thread_ready(id, noted);
        }
    }

    /// Makes [`Kernel::expire`] visit `object` at time `at`.
    #[inline]
    pub(crate) fn arm(&mut self, kind: DeadlineKind, at: i64, object: ObjectId, number: u32) -> Result<(), Status> {
        if self.deadlines.set(kind, at, object, number)? {
            self.machine.set_deadline(at);
        }
        Ok(())
    }

    /// Records that an armed deadline was cancelled.
    pub(crate) fn disarm(&mut self) {
        if self.deadlines.cancelled() {
            let objects = &self.objects;
            self.deadlines
                .sweep(|due| objects.any(due.object).is_ok_and(|object| object.body.has_deadline(due.number)));
        }
    }

    /// Handles everything that is due (3B). If that takes longer than a slice, timers pause for as long as a slice,
    /// while expired waits and all other threads continue.
    pub fn expire(&mut self) {
        let now = self.machine.now();
        let mut slice = SliceTimer::default();
        let mut pauses = false;
        while let Some(due) = self.deadlines.next(now) {
            self.expired(due);
            if !pauses && self.slice_over(&mut slice) {
                pauses = true;
                // The pause is not as long as the work took: after a halt of the whole machine it would be as long as
                // the halt.
                self.deadlines.pause(self.machine.now().saturating_add(SLICE_NANOS));
            }
        }
        let turn = self.turn_check(now);
        let left = self.reaper_timer(now);
        if let Some(at) = self.deadlines.earliest().into_iter().chain(turn).chain(left).min() {
            self.machine.set_deadline(at);
        }
    }

    fn expired(&mut self, Due { object, number, .. }: Due) {
        if self.objects.any(object).is_ok_and(|object| object.body.has_deadline(number)) {
            self.object_deadline_reached(object);
        } else {
            self.deadlines.stale();
        }
    }
}
