//! Exceptions of test processes, which a case receives and answers.

use std::ops::Deref;

use abi::{
    ZX_EXCEPTION_CHANNEL_DEBUGGER, ZX_EXCEPTION_STATE_HANDLED, ZX_EXCEPTION_STATE_THREAD_EXIT, ZX_EXCP_POLICY_ERROR,
    zx_exception_info_t,
};
use zx::{Channel, Duration, Exception, Handle, Job, MonotonicInstant, Signals, Status};

use crate::check::{Failure, Outcome, ensure, equal};
use crate::test_process::{OwnJob, SPIN, TestProcess, koid};

/// `ud2`
pub const UNDEFINED: &[u8] = &[0x0f, 0x0b];

/// An exception that a handler has received.
pub struct CaughtException {
    /// The exception.
    pub exception: Exception,
    /// The content of its message.
    pub info: zx_exception_info_t,
}

/// Waits at most 5 seconds for the next exception of a channel.
#[track_caller]
pub fn catch(channel: &Channel) -> Result<CaughtException, Failure> {
    catch_until(channel, MonotonicInstant::after(Duration::from_seconds(5)))
}

/// Waits for the next exception of a channel until `deadline`.
pub fn catch_until(channel: &Channel, deadline: MonotonicInstant) -> Result<CaughtException, Failure> {
    let (exception, info) = Exception::receive(channel, deadline)?;
    Ok(CaughtException { exception, info })
}

/// Waits for the next exception, which must have this type.
#[track_caller]
pub fn catch_type(channel: &Channel, kind: u32) -> Result<CaughtException, Failure> {
    let caught = catch(channel)?;
    equal(caught.info.type_, kind)?;
    Ok(caught)
}

/// Fails if an exception waits in the channel. The server carries out a handler's decision during the call that makes
/// it, so no wait is necessary.
#[track_caller]
pub fn quiet(channel: &Channel) -> Outcome {
    let readable = zx::AsHandleRef::signals(channel)?.contains(Signals::CHANNEL_READABLE);
    ensure(!readable, "an exception came to a handler that it was not for")
}

/// Does something in this thread that violates a policy once. The thread's exception must have the code `code`
/// (`ZX_EXCP_POLICY_CODE_*`).
pub fn against_policy<T>(code: u32, action: impl FnOnce() -> T) -> Result<T, Failure> {
    let channel = zx::startup::thread_self().create_exception_channel(0)?;
    let handler = std::thread::spawn(move || {
        let caught = catch_type(&channel, ZX_EXCP_POLICY_ERROR)?;
        equal(caught.exception.thread()?.exception_report()?.context.synth_code, code)?;
        caught.handled()?;
        Ok::<_, Failure>(())
    });
    let result = action();
    handler.join().map_err(|_| "the handler panicked")??;
    Ok(result)
}

impl CaughtException {
    /// Marks the exception as handled: the thread resumes.
    pub fn handled(self) -> zx::Result<()> {
        self.exception.set_state(ZX_EXCEPTION_STATE_HANDLED)
    }

    /// Makes the thread exit.
    pub fn exits(self) -> zx::Result<()> {
        self.exception.set_state(ZX_EXCEPTION_STATE_THREAD_EXIT)
    }

    /// Passes the exception to the next handler.
    pub fn passed(self) {}

    /// Checks that this process's first thread raised it.
    #[track_caller]
    pub fn is_of(&self, tiny: &TestProcess) -> Outcome {
        equal((self.info.pid, self.info.tid), (koid(&tiny.process)?, koid(&tiny.thread)?))
    }
}

/// A test process in a job of its own. It is killed with the job when this value is dropped.
pub struct OwnedTestProcess {
    tiny: TestProcess,
    /// The job.
    pub job: OwnJob,
}

impl OwnedTestProcess {
    /// Creates a process that will execute `code`.
    pub fn new(code: &[u8]) -> Result<Self, Failure> {
        let job = OwnJob::new()?;
        Ok(Self { tiny: TestProcess::in_job(&job, code)?, job })
    }

    /// Starts a process that holds `handle` and spins until this value is dropped.
    pub fn spinning_with(handle: Handle) -> Result<Self, Failure> {
        let mortal = Self::new(SPIN)?;
        mortal.start(Some(handle), 0)?;
        Ok(mortal)
    }
}

impl Deref for OwnedTestProcess {
    type Target = TestProcess;

    fn deref(&self) -> &TestProcess {
        &self.tiny
    }
}

/// A test process two jobs below the default job, and one exception channel for each of its handlers. `tiny.job` is the
/// outer of the two jobs.
pub struct HandledProcess {
    /// The process.
    pub tiny: OwnedTestProcess,
    /// The process's job.
    pub inner: Job,
    /// The debugger's channel.
    pub debugger: Channel,
    /// The thread's channel.
    pub thread: Channel,
    /// The process's channel.
    pub process: Channel,
    /// The job's channel.
    pub job: Channel,
    /// The outer job's channel.
    pub outer_job: Channel,
}

impl HandledProcess {
    /// Creates a process that will execute `code`.
    pub fn new(code: &[u8]) -> Result<Self, Failure> {
        let outer = OwnJob::new()?;
        let inner = outer.create_child()?;
        let tiny = TestProcess::in_job(&inner, code)?;
        Ok(Self {
            debugger: tiny.process.create_exception_channel(ZX_EXCEPTION_CHANNEL_DEBUGGER)?,
            thread: tiny.thread.create_exception_channel(0)?,
            process: tiny.process.create_exception_channel(0)?,
            job: inner.create_exception_channel(0)?,
            outer_job: outer.create_exception_channel(0)?,
            tiny: OwnedTestProcess { tiny, job: outer },
            inner,
        })
    }

    /// Creates and starts such a process, and lets it pass the debugger's exception "thread starts".
    pub fn started(code: &[u8]) -> Result<Self, Failure> {
        let watched = Self::new(code)?;
        watched.tiny.start(None, 0)?;
        catch_type(&watched.debugger, abi::ZX_EXCP_THREAD_STARTING)?.passed();
        Ok(watched)
    }

    /// The channels of all handlers, in the order in which the server offers them an exception.
    pub fn in_order(&self) -> [&Channel; 5] {
        [&self.debugger, &self.thread, &self.process, &self.job, &self.outer_job]
    }
}

/// Executes `code`, which must raise an exception of type `kind`, runs `look` on it, and kills the process.
pub fn with_exception(
    code: &[u8],
    number: usize,
    kind: u32,
    look: impl FnOnce(&TestProcess, &CaughtException) -> Outcome,
) -> Outcome {
    let tiny = OwnedTestProcess::new(code)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, number)?;
    let caught = catch_type(&channel, kind)?;
    caught.is_of(&tiny)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    look(&tiny, &caught)
}

/// Checks that the channel's task has ended: the peer closes within 5 seconds and no message is left.
#[track_caller]
pub fn ended(channel: &Channel) -> Outcome {
    let deadline = MonotonicInstant::after(Duration::from_seconds(5));
    let seen = zx::AsHandleRef::wait_one(channel, Signals::CHANNEL_PEER_CLOSED, deadline)?;
    ensure(!seen.contains(Signals::CHANNEL_READABLE), "a message is left")?;
    let (mut bytes, mut handles) = ([0; 24], [None]);
    let read = channel.read(&mut bytes, &mut handles).map_err(|(status, _)| status);
    crate::check::fails(read, Status::PEER_CLOSED)
}
