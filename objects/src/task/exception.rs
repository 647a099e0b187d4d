//! Exceptions, and the handlers that decide about them.
//!
//! A task has *exception channels*: the holder of the reading end is a **handler** of exceptions in that task. The
//! kernel's end is a handle that is in no table but belongs to the task, so it is closed with the task
//! ([`ExceptionChannel`]). During an [`Exception`], its thread is in a [`Wait::Exception`] and stopped:
//!
//! 1. *Raised*: the thread is blocked ([`Kernel::exception_raise`]). If there is no handler, no object is created.
//! 2. *Offered*: the next handler in the order of [`Kernel::handler_after`] with an open channel gets a message with
//!    the only handle to the exception ([`Kernel::exception_offer`]). A channel that cannot take it is skipped.
//! 3. *Decided*: that handle is closed, in whichever process it is and whether or not the message was read
//!    ([`Kernel::exception_unreachable`]). The exception's state, set by the last holder, says whether the thread
//!    continues, exits, or step 2 is repeated.
//! 4. *Over*: the thread continues as before ([`AfterException`]); or, if no handler is left, its process ends with a report
//!    ([`Kernel::exception_unhandled`]), unless the exception was only a notification.
//!
//! If the thread is killed meanwhile, its exception remains: the handle still gives access to the thread, and closing
//! it has no effect.
//!
//! `docs/exceptions.md` describes the order of handlers, and what users see of it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use abi::{
    Rights, Signals, Status, ZX_DEFAULT_EXCEPTION_RIGHTS, ZX_EXCEPTION_CHANNEL_JOB_DEBUGGER_MAX_COUNT,
    ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER, ZX_EXCEPTION_CHANNEL_TYPE_JOB, ZX_EXCEPTION_CHANNEL_TYPE_JOB_DEBUGGER,
    ZX_EXCEPTION_CHANNEL_TYPE_NONE, ZX_EXCEPTION_CHANNEL_TYPE_PROCESS, ZX_EXCEPTION_CHANNEL_TYPE_THREAD,
    ZX_EXCEPTION_STATE_HANDLED, ZX_EXCEPTION_STATE_THREAD_EXIT, ZX_EXCEPTION_STATE_TRY_NEXT,
    ZX_EXCEPTION_STRATEGY_FIRST_CHANCE, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE, ZX_EXCP_FATAL_PAGE_FAULT,
    ZX_EXCP_POLICY_ERROR, ZX_EXCP_PROCESS_STARTING, ZX_EXCP_THREAD_EXITING, ZX_EXCP_THREAD_STARTING, ZX_EXCP_USER,
    ZX_TASK_RETCODE_EXCEPTION_KILL, ZX_TASK_RETCODE_OOM_KILL, ZX_TIME_INFINITE, zx_exception_header_t,
    zx_exception_report_t,
};

use crate::containers::growth::Grows;
use crate::core::handle::Handle;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::{Id, ObjectId};
use crate::core::wait::Waiting;
use crate::ipc::channel::{Channel, Message};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::blocking::Wait;
use crate::task::job::Job;
use crate::task::process::{Process, ProcessState};
use crate::task::thread::Thread;

/// An exception of a thread.
pub struct Exception {
    /// Its thread; the exception keeps it alive.
    pub thread: Id<Thread>,
    /// The content of `ZX_INFO_THREAD_EXCEPTION_REPORT`.
    pub report: zx_exception_report_t,
    /// The current handler.
    handler: Option<Handler>,
    /// The current handler has not decided yet.
    held: bool,
    /// `ZX_EXCEPTION_STATE_*`: the decision that closing the handle makes. Reset for each handler.
    state: u32,
    /// The debugger wants a second-chance exception after the process's handler.
    second_chance: bool,
    /// The current handler's rights to the thread, and to the process if it handles more than one thread.
    rights: (Rights, Option<Rights>),
}

impl Noun for Exception {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_EXCEPTION;
}

impl ObjectOps for Exception {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.exception_unreachable(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.drop_ref(self.thread.object());
    }
}

/// Handlers. [`Kernel::handler_after`] has their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handler {
    Debugger,
    Thread,
    Process,
    /// The debugger's second chance, if it asked for one.
    DebuggerAgain,
    Job(Id<Job>),
    /// The debugger of a job, by the koid of its channel.
    JobDebugger(Id<Job>, u64),
}

impl Handler {
    fn channel_type(self) -> u32 {
        match self {
            Handler::Debugger | Handler::DebuggerAgain => ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER,
            Handler::Thread => ZX_EXCEPTION_CHANNEL_TYPE_THREAD,
            Handler::Process => ZX_EXCEPTION_CHANNEL_TYPE_PROCESS,
            Handler::Job(_) => ZX_EXCEPTION_CHANNEL_TYPE_JOB,
            Handler::JobDebugger(..) => ZX_EXCEPTION_CHANNEL_TYPE_JOB_DEBUGGER,
        }
    }
}

/// Which handlers get an exception.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    /// All except job debuggers; if none of them handles it, the process ends.
    Fatal,
    /// The process's debugger, as a notification.
    Debugger,
    /// All debuggers of the jobs above, one after another, as a notification.
    JobDebuggers,
}

fn route(kind: u32) -> Route {
    match kind {
        ZX_EXCP_THREAD_STARTING | ZX_EXCP_THREAD_EXITING => Route::Debugger,
        ZX_EXCP_PROCESS_STARTING | ZX_EXCP_USER => Route::JobDebuggers,
        _ => Route::Fatal,
    }
}

/// What a thread does when its exception is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterException {
    /// It continues where it is.
    Resume,
    /// Its call returns this.
    Return(i64),
    /// It exits.
    Exit,
}

/// The kernel's end of an exception channel.
#[derive(Clone, Copy)]
pub(crate) struct ExceptionChannel {
    /// A handle in no table; the owner of this value closes it.
    end: Id<Channel>,
    /// Its koid.
    koid: u64,
    /// The rights of the task handle with which the channel was created: an upper bound for the handler's rights.
    rights: Rights,
}

/// Tasks that have exception channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// A thread.
    Thread(Id<Thread>),
    /// A process, for all its threads.
    Process(Id<Process>),
    /// A job, for everything below it.
    Job(Id<Job>),
}

/// The report of an exception that the kernel generates.
pub fn synthetic(kind: u32, code: u32, data: u32) -> zx_exception_report_t {
    let size = size_of::<zx_exception_report_t>() as u32;
    let mut report =
        zx_exception_report_t { header: zx_exception_header_t { size, type_: kind }, ..Default::default() };
    report.context.synth_code = code;
    report.context.synth_data = data;
    report
}

impl<M: Machine> Kernel<M> {
    /// An object as a task.
    ///
    /// # Errors
    /// `WRONG_TYPE`: it is none.
    pub fn task(&self, object: ObjectId) -> Result<Task, Status> {
        let objects = &self.objects;
        let thread = objects.typed(object).map(Task::Thread);
        let process = thread.or_else(|_| objects.typed(object).map(Task::Process));
        process.or_else(|_| objects.typed(object).map(Task::Job))
    }

    // --- channels ---

    /// `task_create_exception_channel`: creates a channel and returns the handler's end. `rights` are those of the
    /// handle to the task.
    ///
    /// # Errors
    /// `INVALID_ARGS`: a thread has no debugger. `BAD_STATE`: the task has ended. `ALREADY_BOUND`: there is an open
    /// channel already, or a job has the maximum number. `NO_MEMORY`.
    pub fn exception_channel_create(
        &mut self,
        task: Task,
        debugger: bool,
        rights: Rights,
    ) -> Result<Id<Channel>, Status> {
        let dead = match task {
            Task::Thread(_) if debugger => return Err(Status::INVALID_ARGS),
            Task::Thread(id) => self.objects.get(id)?.has_ended(),
            Task::Process(id) => self.objects.get(id)?.state == ProcessState::Dead,
            Task::Job(id) => self.objects.get(id)?.dead,
        };
        if dead {
            return Err(Status::BAD_STATE);
        }
        // No exception would ever come.
        match task {
            Task::Thread(id) => self.no_component_thread(id)?,
            Task::Process(id) => self.no_component(id)?,
            Task::Job(_) => {}
        }
        if let (Task::Job(job), true) = (task, debugger) {
            self.prune_debuggers(job)?;
        } else if self.exception_slot(task, debugger)?.is_some_and(|channel| self.is_open(channel)) {
            return Err(Status::ALREADY_BOUND);
        }
        let (end, theirs) = self.channel_create()?;
        self.add_handle(end.object());
        let channel = ExceptionChannel { end, koid: self.koid(end.object()), rights };
        if let (Task::Job(job), true) = (task, debugger) {
            self.objects.get_mut(job)?.debuggers.push(channel);
        } else if let Some(old) = self.exception_slot(task, debugger)?.replace(channel) {
            self.exception_channel_close(old);
        }
        Ok(theirs)
    }

    /// Whether a process has a debugger, or a job a job debugger.
    pub fn debugger_attached(&self, task: Task) -> bool {
        let objects = &self.objects;
        match task {
            Task::Thread(_) => false,
            Task::Process(id) => objects.get(id).is_ok_and(|p| p.debugger.is_some_and(|channel| self.is_open(channel))),
            Task::Job(id) => objects.get(id).is_ok_and(|j| j.debuggers.iter().any(|&channel| self.is_open(channel))),
        }
    }

    /// The field of a task for its one channel of a kind.
    fn exception_slot(&mut self, task: Task, debugger: bool) -> Result<&mut Option<ExceptionChannel>, Status> {
        Ok(match task {
            Task::Thread(id) => &mut self.objects.get_mut(id)?.exceptions,
            Task::Process(id) if debugger => &mut self.objects.get_mut(id)?.debugger,
            Task::Process(id) => &mut self.objects.get_mut(id)?.exceptions,
            Task::Job(id) => &mut self.objects.get_mut(id)?.exceptions,
        })
    }

    /// Makes room for one more debugger of a job: removes those whose channels are closed.
    fn prune_debuggers(&mut self, job: Id<Job>) -> Result<(), Status> {
        let mut place = 0;
        while let Some(&channel) = self.objects.get(job)?.debuggers.get(place) {
            if self.is_open(channel) {
                place += 1;
            } else {
                self.objects.get_mut(job)?.debuggers.remove(place);
                self.exception_channel_close(channel);
            }
        }
        if place >= ZX_EXCEPTION_CHANNEL_JOB_DEBUGGER_MAX_COUNT as usize {
            return Err(Status::ALREADY_BOUND);
        }
        self.objects.get_mut(job)?.debuggers.room(1).map_err(|_| Status::NO_MEMORY)
    }

    /// Whether the handler's end of a channel still exists.
    fn is_open(&self, channel: ExceptionChannel) -> bool {
        self.objects.get(channel.end).is_ok_and(|end| end.peer.is_some())
    }

    /// Closes the kernel's end, because the task ends or has a new channel.
    pub(crate) fn exception_channel_close(&mut self, channel: ExceptionChannel) {
        self.drop_handle(Handle { object: channel.end.object(), rights: Rights::NONE });
    }

    // --- the lifecycle of an exception ---

    /// Step 1 for an exception that ends the process if no handler handles it. Afterwards the thread is blocked, or has
    /// ended.
    pub fn exception_fault(&mut self, thread: Id<Thread>, report: zx_exception_report_t) {
        if self.exception_raise(thread, report, AfterException::Resume) {
            self.thread_settle(thread);
        } else {
            self.exception_unhandled(thread, &report);
        }
    }

    /// `thread_raise_exception`: notifies the jobs' debuggers.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn exception_user(&mut self, thread: Id<Thread>, code: u32, data: u32) -> Result<Waiting, Status> {
        let after = AfterException::Return(i64::from(Status::OK.0));
        let held = self.exception_raise(thread, synthetic(ZX_EXCP_USER, code, data), after);
        Ok(if held { Waiting::Blocked } else { Waiting::Over(Status::OK) })
    }

    /// A thread's call violated a policy that asks for an exception of `ZX_EXCP_POLICY_CODE_*` `code`. Blocks the
    /// thread; afterwards the call returns `result`, unless the process has ended.
    pub fn exception_policy(&mut self, thread: Id<Thread>, code: u32, data: u32, result: i64) {
        let report = synthetic(ZX_EXCP_POLICY_ERROR, code, data);
        if !self.exception_raise(thread, report, AfterException::Return(result)) {
            self.exception_unhandled(thread, &report);
        }
    }

    /// A thread is about to run for the first time; `first`: it is its process's first. Says whether a debugger holds
    /// it before its first instruction.
    pub(crate) fn exception_starting(&mut self, thread: Id<Thread>, first: bool) -> bool {
        first && self.exception_raise(thread, synthetic(ZX_EXCP_PROCESS_STARTING, 0, 0), AfterException::Resume)
            || self.exception_raise(thread, synthetic(ZX_EXCP_THREAD_STARTING, 0, 0), AfterException::Resume)
    }

    /// `thread_exit`: ends the calling thread, after its debugger, if any, has released it.
    pub fn thread_exit(&mut self, thread: Id<Thread>) {
        if let Ok(t) = self.objects.get_mut(thread) {
            t.end_reported = true;
        }
        if !self.exception_raise(thread, synthetic(ZX_EXCP_THREAD_EXITING, 0, 0), AfterException::Exit) {
            self.thread_kill(thread);
        }
    }

    /// A thread was killed: notifies its process's debugger, which cannot hold it.
    pub(crate) fn exception_killed(&mut self, thread: Id<Thread>) {
        if self.next_handler(thread, Route::Debugger, None, false).is_none() {
            return;
        }
        let Ok(id) = self.exception_new(thread, synthetic(ZX_EXCP_THREAD_EXITING, 0, 0)) else { return };
        self.add_ref(id.object());
        self.exception_offer(id);
        self.drop_ref(id.object());
    }

    /// Step 1: says whether a handler has the exception. The thread is then blocked in it.
    fn exception_raise(&mut self, thread: Id<Thread>, report: zx_exception_report_t, after: AfterException) -> bool {
        let kind = report.header.type_;
        if self.next_handler(thread, route(kind), None, false).is_none() {
            return false;
        }
        let Ok(exception) = self.exception_new(thread, report) else { return false };
        // The reference that the wait holds.
        self.add_ref(exception.object());
        if self.block(thread, Wait::Exception { exception, after, kind }, ZX_TIME_INFINITE).is_err() {
            self.drop_ref(exception.object());
            return false;
        }
        if self.exception_offer(exception) {
            return true;
        }
        self.take_wait(thread);
        false
    }

    fn exception_new(&mut self, thread: Id<Thread>, report: zx_exception_report_t) -> Result<Id<Exception>, Status> {
        let exception = Exception {
            thread,
            report,
            handler: None,
            held: false,
            state: ZX_EXCEPTION_STATE_TRY_NEXT,
            second_chance: false,
            rights: (Rights::NONE, None),
        };
        let id = self.create(Signals::NONE, Box::new(exception))?;
        self.add_ref(thread.object());
        Ok(id)
    }

    /// Step 2: says whether a handler got the exception.
    fn exception_offer(&mut self, id: Id<Exception>) -> bool {
        // Each iteration goes to a later handler; there are few, those of at most 33 jobs.
        while let Ok(e) = self.objects.get(id) {
            let next = self.next_handler(e.thread, route(e.report.header.type_), e.handler, e.second_chance);
            let Some((handler, channel)) = next else { return false };
            let Ok(e) = self.objects.get_mut(id) else { return false };
            e.handler = Some(handler);
            if self.exception_send(id, handler, channel).is_ok() {
                return true;
            }
        }
        false
    }

    /// The next handler with an open channel.
    fn next_handler(
        &self,
        thread: Id<Thread>,
        route: Route,
        mut at: Option<Handler>,
        second_chance: bool,
    ) -> Option<(Handler, ExceptionChannel)> {
        // A component's thread cannot be held.
        self.no_component_thread(thread).ok()?;
        loop {
            let handler = self.handler_after(thread, route, at, second_chance)?;
            if let Some(channel) = self.channel_of(thread, handler)
                && self.is_open(channel)
            {
                return Some((handler, channel));
            }
            at = Some(handler);
        }
    }

    /// The order of handlers, whether or not they have channels.
    fn handler_after(
        &self,
        thread: Id<Thread>,
        route: Route,
        at: Option<Handler>,
        second_chance: bool,
    ) -> Option<Handler> {
        let process = self.objects.get(thread).ok()?.process;
        let job = self.objects.get(process).ok()?.job;
        match (route, at) {
            (Route::JobDebuggers, None) => self.job_debugger_after(job, 0),
            (Route::JobDebuggers, Some(Handler::JobDebugger(job, koid))) => self.job_debugger_after(job, koid),
            (Route::Fatal | Route::Debugger, None) => Some(Handler::Debugger),
            (Route::Fatal, Some(Handler::Debugger)) => Some(Handler::Thread),
            (Route::Fatal, Some(Handler::Thread)) => Some(Handler::Process),
            (Route::Fatal, Some(Handler::Process)) if second_chance => Some(Handler::DebuggerAgain),
            (Route::Fatal, Some(Handler::Process | Handler::DebuggerAgain)) => Some(Handler::Job(job)),
            (Route::Fatal, Some(Handler::Job(job))) => self.objects.get(job).ok()?.parent.map(Handler::Job),
            _ => None,
        }
    }

    /// The job debugger whose channel was created next after the one with koid `koid`, or the first one of the jobs
    /// above.
    fn job_debugger_after(&self, job: Id<Job>, mut koid: u64) -> Option<Handler> {
        let mut next = Some(job);
        while let Some(id) = next {
            let job = self.objects.get(id).ok()?;
            if let Some(channel) = job.debuggers.iter().find(|channel| channel.koid > koid) {
                return Some(Handler::JobDebugger(id, channel.koid));
            }
            (next, koid) = (job.parent, 0);
        }
        None
    }

    fn channel_of(&self, thread: Id<Thread>, handler: Handler) -> Option<ExceptionChannel> {
        let thread = self.objects.get(thread).ok()?;
        let process = self.objects.get(thread.process).ok()?;
        match handler {
            Handler::Debugger | Handler::DebuggerAgain => process.debugger,
            Handler::Thread => thread.exceptions,
            Handler::Process => process.exceptions,
            Handler::Job(job) => self.objects.get(job).ok()?.exceptions,
            Handler::JobDebugger(job, koid) => {
                self.objects.get(job).ok()?.debuggers.iter().find(|channel| channel.koid == koid).copied()
            }
        }
    }

    /// Sends the message of step 2.
    fn exception_send(&mut self, id: Id<Exception>, handler: Handler, to: ExceptionChannel) -> Result<(), Status> {
        // This may be the end of a call that was allowed to run without a heap reserve.
        self.machine.heap_reserve().map_err(|_| Status::NO_MEMORY)?;
        let e = self.objects.get(id)?;
        let process = self.objects.get(e.thread)?.process;
        let info = [self.koid(process.object()), self.koid(e.thread.object()), u64::from(e.report.header.type_)];
        let mut message = Message { data: Vec::new(), handles: Vec::new() };
        message.data.room_exact(size_of_val(&info))?;
        message.handles.room_exact(1)?;
        message.data.extend(info.iter().flat_map(|word| word.to_le_bytes()));
        message.handles.push(Handle { object: id.object(), rights: ZX_DEFAULT_EXCEPTION_RIGHTS });
        self.add_handle(id.object());
        // If it cannot be delivered, the handle is closed without a decision.
        self.channel_write(to.end, message)?;
        let e = self.objects.get_mut(id)?;
        e.held = true;
        e.state = ZX_EXCEPTION_STATE_TRY_NEXT;
        e.rights = (to.rights, (handler != Handler::Thread).then_some(to.rights));
        Ok(())
    }

    /// Step 3: the last handle is closed.
    pub(crate) fn exception_unreachable(&mut self, id: Id<Exception>) {
        let Ok(e) = self.objects.get_mut(id) else { return };
        let (thread, report) = (e.thread, e.report);
        let state = core::mem::replace(&mut e.state, ZX_EXCEPTION_STATE_TRY_NEXT);
        if !core::mem::take(&mut e.held) || self.thread_exception(thread) != Some(id) {
            return;
        }
        match (route(report.header.type_), state) {
            (Route::Fatal, ZX_EXCEPTION_STATE_HANDLED) => self.exception_over(thread),
            (Route::Fatal, ZX_EXCEPTION_STATE_THREAD_EXIT) => {
                self.take_wait(thread);
                self.thread_exit(thread);
            }
            _ if self.exception_offer(id) => {}
            (Route::Fatal, _) => {
                self.take_wait(thread);
                self.exception_unhandled(thread, &report);
            }
            _ => self.exception_over(thread),
        }
    }

    /// Step 4: the thread continues.
    fn exception_over(&mut self, thread: Id<Thread>) {
        let Some(Wait::Exception { after, kind, .. }) = self.take_wait(thread) else { return };
        match after {
            // After the jobs' debuggers, the process's own debugger is next.
            AfterException::Resume if kind == ZX_EXCP_PROCESS_STARTING && self.exception_starting(thread, false) => {}
            AfterException::Resume => self.thread_settle(thread),
            AfterException::Return(result) => self.wake_with(thread, result),
            AfterException::Exit => self.thread_kill(thread),
        }
    }

    /// Step 4 if no handler is left: the process ends.
    fn exception_unhandled(&mut self, thread: Id<Thread>, report: &zx_exception_report_t) {
        let Ok(process) = self.objects.get(thread).map(|t| t.process) else { return };
        self.report_exception(thread, report);
        let no_memory = report.header.type_ == ZX_EXCP_FATAL_PAGE_FAULT
            && Status(report.context.synth_code as i32) == Status::NO_MEMORY;
        let code = if no_memory { ZX_TASK_RETCODE_OOM_KILL } else { ZX_TASK_RETCODE_EXCEPTION_KILL };
        self.process_kill(process, code);
    }

    // --- properties ---

    /// The current exception of a thread.
    pub fn thread_exception(&self, thread: Id<Thread>) -> Option<Id<Exception>> {
        self.objects.get(thread).ok()?.exception()
    }

    /// `ZX_INFO_THREAD_EXCEPTION_REPORT`.
    ///
    /// # Errors
    /// `BAD_STATE`: the thread is in no exception.
    pub fn exception_report(&self, thread: Id<Thread>) -> Result<zx_exception_report_t, Status> {
        Ok(self.objects.get(self.thread_exception(thread).ok_or(Status::BAD_STATE)?)?.report)
    }

    /// `ZX_EXCEPTION_CHANNEL_TYPE_*` of the handler that currently has a thread's exception.
    pub fn exception_channel_type(&self, thread: Id<Thread>) -> u32 {
        let handler = self.thread_exception(thread).and_then(|id| self.objects.get(id).ok()?.handler);
        handler.map_or(ZX_EXCEPTION_CHANNEL_TYPE_NONE, Handler::channel_type)
    }

    /// Sets `ZX_PROP_EXCEPTION_STATE`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: invalid state.
    pub fn exception_set_state(&mut self, id: Id<Exception>, state: u32) -> Result<(), Status> {
        if !matches!(state, ZX_EXCEPTION_STATE_TRY_NEXT | ZX_EXCEPTION_STATE_HANDLED | ZX_EXCEPTION_STATE_THREAD_EXIT) {
            return Err(Status::INVALID_ARGS);
        }
        self.objects.get_mut(id)?.state = state;
        Ok(())
    }

    /// Sets `ZX_PROP_EXCEPTION_STRATEGY`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: invalid strategy. `BAD_STATE`: the handler is not a process's debugger.
    pub fn exception_set_strategy(&mut self, id: Id<Exception>, strategy: u32) -> Result<(), Status> {
        let second_chance = match strategy {
            ZX_EXCEPTION_STRATEGY_FIRST_CHANCE => false,
            ZX_EXCEPTION_STRATEGY_SECOND_CHANCE => true,
            _ => return Err(Status::INVALID_ARGS),
        };
        let e = self.objects.get_mut(id)?;
        if !matches!(e.handler, Some(Handler::Debugger | Handler::DebuggerAgain)) {
            return Err(Status::BAD_STATE);
        }
        e.second_chance = second_chance;
        Ok(())
    }
}

impl Exception {
    /// `ZX_PROP_EXCEPTION_STATE`.
    pub fn state(&self) -> u32 {
        self.state
    }

    /// `ZX_PROP_EXCEPTION_STRATEGY`.
    pub fn strategy(&self) -> u32 {
        if self.second_chance { ZX_EXCEPTION_STRATEGY_SECOND_CHANCE } else { ZX_EXCEPTION_STRATEGY_FIRST_CHANCE }
    }

    /// The rights of its handler's handles to the thread.
    pub fn thread_rights(&self) -> Rights {
        self.rights.0
    }

    /// The rights of its handler's handles to the process.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the handler is for one thread only.
    pub fn process_rights(&self) -> Result<Rights, Status> {
        self.rights.1.ok_or(Status::ACCESS_DENIED)
    }
}
