//! Exceptions: what comes through an exception channel, and what a handler does with it.

use abi::{zx_exception_info_t, zx_exception_report_t};

use crate::handle::object;
use crate::{AsHandleRef, Channel, Handle, Info, MonotonicInstant, Process, Result, Status, Thread, check, sys};

object! {
    /// An exception that waits to be handled. Dropping it decides what becomes of the thread.
    Exception
}

impl Exception {
    /// Waits for the next exception of a channel, and gives what its message tells.
    ///
    /// # Errors
    /// `PEER_CLOSED` when the task has ended, `TIMED_OUT`; `INTERNAL` for a message that is none.
    pub fn receive(channel: &Channel, deadline: MonotonicInstant) -> Result<(Exception, zx_exception_info_t)> {
        let (mut bytes, mut handle) = ([0; 24], [None]);
        let size = channel.read_wait(&mut bytes, &mut handle, deadline)?;
        let [Some(handle)] = handle else { return Err(Status::INTERNAL) };
        if size.bytes != size_of::<zx_exception_info_t>() {
            return Err(Status::INTERNAL);
        }
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let info = zx_exception_info_t { pid: word(0), tid: word(8), type_: word(16) as u32, padding1: [0; 4] };
        Ok((Exception(handle), info))
    }

    /// The thread that the exception is of.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn thread(&self) -> Result<Thread> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_exception_get_thread(self.raw_handle(), &mut out) })?;
        Handle::from_call(out).map(Thread::from)
    }

    /// The process that the exception is of.
    ///
    /// # Errors
    /// `ACCESS_DENIED` for an exception that came through a thread's channel.
    pub fn process(&self) -> Result<Process> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_exception_get_process(self.raw_handle(), &mut out) })?;
        Handle::from_call(out).map(Process::from)
    }

    /// What dropping the handle will mean: `ZX_EXCEPTION_STATE_*`.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn state(&self) -> Result<u32> {
        let mut value = [0; 4];
        self.get_property(abi::ZX_PROP_EXCEPTION_STATE, &mut value)?;
        Ok(u32::from_le_bytes(value))
    }

    /// Sets what dropping the handle will mean.
    ///
    /// # Errors
    /// `INVALID_ARGS` for no such state, `ACCESS_DENIED`.
    pub fn set_state(&self, state: u32) -> Result<()> {
        self.set_property(abi::ZX_PROP_EXCEPTION_STATE, &state.to_le_bytes())
    }

    /// Whether the debugger is asked again: `ZX_EXCEPTION_STRATEGY_*`.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn strategy(&self) -> Result<u32> {
        let mut value = [0; 4];
        self.get_property(abi::ZX_PROP_EXCEPTION_STRATEGY, &mut value)?;
        Ok(u32::from_le_bytes(value))
    }

    /// Sets whether the debugger is asked again.
    ///
    /// # Errors
    /// `BAD_STATE` for an exception that did not come to a debugger, `INVALID_ARGS`, `ACCESS_DENIED`.
    pub fn set_strategy(&self, strategy: u32) -> Result<()> {
        self.set_property(abi::ZX_PROP_EXCEPTION_STRATEGY, &strategy.to_le_bytes())
    }
}

impl Thread {
    /// What the thread did, if it is in an exception.
    ///
    /// # Errors
    /// `BAD_STATE` when it is in none, `ACCESS_DENIED`.
    pub fn exception_report(&self) -> Result<zx_exception_report_t> {
        let mut bytes = [0; size_of::<zx_exception_report_t>()];
        self.get_info(abi::ZX_INFO_THREAD_EXCEPTION_REPORT, &mut bytes)?;
        let half = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        let mut report = zx_exception_report_t::default();
        (report.header.size, report.header.type_) = (half(0), half(4));
        let arch = &mut report.context.arch;
        (arch.vector, arch.err_code, arch.cr2) = (word(8), word(16), word(24));
        (report.context.synth_code, report.context.synth_data) = (half(32), half(36));
        Ok(report)
    }
}

/// Tells the debuggers of the jobs above of something, by `ZX_EXCP_USER` with these numbers.
///
/// # Errors
/// None that this form can cause.
pub fn raise_user_exception(code: u32, data: u32) -> Result<()> {
    let mut context = abi::zx_exception_context_t::default();
    (context.synth_code, context.synth_data) = (code, data);
    // SAFETY: the context is valid.
    check(unsafe {
        sys::zx_thread_raise_exception(abi::ZX_EXCEPTION_TARGET_JOB_DEBUGGER, abi::ZX_EXCP_USER, &raw const context)
    })
}
