//! Exceptions: receiving them from an exception channel, and handling them.

use abi::{zx_exception_info_t, zx_exception_report_t};

use crate::handle::object;
use crate::{AsHandleRef, Channel, Handle, Info, MonotonicInstant, Process, Result, Status, Thread, check, sys};

object! {
    /// An exception that is being handled. Dropping it applies its state to the thread.
    Exception
}

impl Exception {
    /// Waits for the next exception of a channel; returns it with the contents of its message.
    ///
    /// # Errors
    /// `PEER_CLOSED`: the task has ended. `TIMED_OUT`. `INTERNAL`: the message is invalid.
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

    /// The thread that raised the exception.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn thread(&self) -> Result<Thread> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_exception_get_thread(self.raw_handle(), &mut out) })?;
        Handle::from_call(out).map(Thread::from)
    }

    /// The process of the thread that raised the exception.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the exception came through a thread's channel.
    pub fn process(&self) -> Result<Process> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_exception_get_process(self.raw_handle(), &mut out) })?;
        Handle::from_call(out).map(Process::from)
    }

    /// The effect of dropping the handle: `ZX_EXCEPTION_STATE_*`.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn state(&self) -> Result<u32> {
        let mut value = [0; 4];
        self.get_property(abi::ZX_PROP_EXCEPTION_STATE, &mut value)?;
        Ok(u32::from_le_bytes(value))
    }

    /// Sets the effect of dropping the handle.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the state is invalid. `ACCESS_DENIED`.
    pub fn set_state(&self, state: u32) -> Result<()> {
        self.set_property(abi::ZX_PROP_EXCEPTION_STATE, &state.to_le_bytes())
    }

    /// Whether the debugger gets a second chance: `ZX_EXCEPTION_STRATEGY_*`.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn strategy(&self) -> Result<u32> {
        let mut value = [0; 4];
        self.get_property(abi::ZX_PROP_EXCEPTION_STRATEGY, &mut value)?;
        Ok(u32::from_le_bytes(value))
    }

    /// Sets whether the debugger gets a second chance.
    ///
    /// # Errors
    /// `BAD_STATE`: the exception did not come to a debugger. `INVALID_ARGS`, `ACCESS_DENIED`.
    pub fn set_strategy(&self, strategy: u32) -> Result<()> {
        self.set_property(abi::ZX_PROP_EXCEPTION_STRATEGY, &strategy.to_le_bytes())
    }
}

impl Thread {
    /// Description of the thread's current exception.
    ///
    /// # Errors
    /// `BAD_STATE`: the thread is not in an exception. `ACCESS_DENIED`.
    pub fn exception_report(&self) -> Result<zx_exception_report_t> {
        let mut bytes = [0; size_of::<zx_exception_report_t>()];
        self.get_info(abi::ZX_INFO_THREAD_EXCEPTION_REPORT, &mut bytes)?;
        let half = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        let mut report = zx_exception_report_t::default();
        (report.header.size, report.header.type_) = (half(0), half(4));
        report.context.arch = crate::arch::exception_data([word(8), word(16), word(24)]);
        (report.context.synth_code, report.context.synth_data) = (half(32), half(36));
        Ok(report)
    }
}

/// Reports a user exception (`ZX_EXCP_USER`) with these numbers to the debuggers of the jobs above.
///
/// # Errors
/// None for valid arguments, which this function always passes.
pub fn raise_user_exception(code: u32, data: u32) -> Result<()> {
    let mut context = abi::zx_exception_context_t::default();
    (context.synth_code, context.synth_data) = (code, data);
    // SAFETY: the context is valid.
    check(unsafe {
        sys::zx_thread_raise_exception(abi::ZX_EXCEPTION_TARGET_JOB_DEBUGGER, abi::ZX_EXCP_USER, &raw const context)
    })
}
