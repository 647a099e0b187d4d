//! Exceptions of tiny processes, in the hands of a case.

use std::ops::Deref;

use abi::{
    ZX_EXCEPTION_CHANNEL_DEBUGGER, ZX_EXCEPTION_STATE_HANDLED, ZX_EXCEPTION_STATE_THREAD_EXIT, ZX_EXCP_POLICY_ERROR,
    zx_exception_info_t,
};
use zx::{Channel, Duration, Exception, Handle, Job, MonotonicInstant, Signals, Status};

use crate::check::{Failure, Outcome, ensure, equal};
use crate::tiny::{OwnJob, SPIN, Tiny, koid};

/// `ud2`
pub const UNDEFINED: &[u8] = &[0x0f, 0x0b];

/// An exception that a handler has got.
pub struct Caught {
    /// The exception.
    pub exception: Exception,
    /// What its message tells.
    pub info: zx_exception_info_t,
}

/// The next exception of a channel, which must come.
#[track_caller]
pub fn catch(channel: &Channel) -> Result<Caught, Failure> {
    catch_until(channel, MonotonicInstant::after(Duration::from_seconds(5)))
}

/// The same, for who waits for as long as there may be exceptions.
pub fn catch_until(channel: &Channel, deadline: MonotonicInstant) -> Result<Caught, Failure> {
    let (exception, info) = Exception::receive(channel, deadline)?;
    Ok(Caught { exception, info })
}

/// The next exception, which must be of this type.
#[track_caller]
pub fn catch_type(channel: &Channel, kind: u32) -> Result<Caught, Failure> {
    let caught = catch(channel)?;
    equal(caught.info.type_, kind)?;
    Ok(caught)
}

/// No exception waits in the channel. What a handler's decision brings about has come by the time that it is made.
#[track_caller]
pub fn quiet(channel: &Channel) -> Outcome {
    let readable = zx::AsHandleRef::signals(channel)?.contains(Signals::CHANNEL_READABLE);
    ensure(!readable, "an exception came to a handler that it was not for")
}

/// Does something in this thread that goes against a policy once, for which it must be told `ZX_EXCP_POLICY_CODE_*`.
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

impl Caught {
    /// It is dealt with: the thread goes on.
    pub fn handled(self) -> zx::Result<()> {
        self.exception.set_state(ZX_EXCEPTION_STATE_HANDLED)
    }

    /// The thread is to exit.
    pub fn exits(self) -> zx::Result<()> {
        self.exception.set_state(ZX_EXCEPTION_STATE_THREAD_EXIT)
    }

    /// It is the next handler's.
    pub fn passed(self) {}

    /// It is of this process's first thread.
    #[track_caller]
    pub fn is_of(&self, tiny: &Tiny) -> Outcome {
        equal((self.info.pid, self.info.tid), (koid(&tiny.process)?, koid(&tiny.thread)?))
    }
}

/// A tiny process in a job of its own, with which it ends at the latest.
pub struct Mortal {
    tiny: Tiny,
    /// The job.
    pub job: OwnJob,
}

impl Mortal {
    /// Makes a process that will execute `code`.
    pub fn new(code: &[u8]) -> Result<Self, Failure> {
        let job = OwnJob::new()?;
        Ok(Self { tiny: Tiny::in_job(&job, code)?, job })
    }

    /// Makes one that runs until it ends with this.
    pub fn spinning_with(handle: Handle) -> Result<Self, Failure> {
        let mortal = Self::new(SPIN)?;
        mortal.start(Some(handle), 0)?;
        Ok(mortal)
    }
}

impl Deref for Mortal {
    type Target = Tiny;

    fn deref(&self) -> &Tiny {
        &self.tiny
    }
}

/// A tiny process two jobs down, and a channel for each of its handlers. Its own job is the outer one.
pub struct Watched {
    /// The process.
    pub tiny: Mortal,
    /// The job that it is in.
    pub inner: Job,
    /// Its debugger's.
    pub debugger: Channel,
    /// Its thread's.
    pub thread: Channel,
    /// Its own.
    pub process: Channel,
    /// Its job's.
    pub job: Channel,
    /// Its outer job's.
    pub outer_job: Channel,
}

impl Watched {
    /// Makes a process that will execute `code`.
    pub fn new(code: &[u8]) -> Result<Self, Failure> {
        let outer = OwnJob::new()?;
        let inner = outer.create_child()?;
        let tiny = Tiny::in_job(&inner, code)?;
        Ok(Self {
            debugger: tiny.process.create_exception_channel(ZX_EXCEPTION_CHANNEL_DEBUGGER)?,
            thread: tiny.thread.create_exception_channel(0)?,
            process: tiny.process.create_exception_channel(0)?,
            job: inner.create_exception_channel(0)?,
            outer_job: outer.create_exception_channel(0)?,
            tiny: Mortal { tiny, job: outer },
            inner,
        })
    }

    /// The same, started and past the notice that the debugger gets of it.
    pub fn started(code: &[u8]) -> Result<Self, Failure> {
        let watched = Self::new(code)?;
        watched.tiny.start(None, 0)?;
        catch_type(&watched.debugger, abi::ZX_EXCP_THREAD_STARTING)?.passed();
        Ok(watched)
    }

    /// All handlers' channels, in the order in which they are asked.
    pub fn in_order(&self) -> [&Channel; 5] {
        [&self.debugger, &self.thread, &self.process, &self.job, &self.outer_job]
    }
}

/// Executes `code`, which must come to an exception of type `kind`; then `look` may look at it, and the process goes.
pub fn with_exception(code: &[u8], number: usize, kind: u32, look: impl FnOnce(&Tiny, &Caught) -> Outcome) -> Outcome {
    let tiny = Mortal::new(code)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, number)?;
    let caught = catch_type(&channel, kind)?;
    caught.is_of(&tiny)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    look(&tiny, &caught)
}

/// Nothing tells any more: the task has gone.
#[track_caller]
pub fn ended(channel: &Channel) -> Outcome {
    let deadline = MonotonicInstant::after(Duration::from_seconds(5));
    let seen = zx::AsHandleRef::wait_one(channel, Signals::CHANNEL_PEER_CLOSED, deadline)?;
    ensure(!seen.contains(Signals::CHANNEL_READABLE), "a message is left")?;
    let (mut bytes, mut handles) = ([0; 24], [None]);
    let read = channel.read(&mut bytes, &mut handles).map_err(|(status, _)| status);
    crate::check::fails(read, Status::PEER_CLOSED)
}
