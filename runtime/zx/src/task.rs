//! Jobs, processes and threads.

use abi::{Rights, zx_policy_basic_v2_t, zx_policy_timer_slack_t, zx_profile_info_t};

use crate::handle::object;
use crate::{AsHandleRef, Channel, Handle, Resource, Result, Unowned, Vmar, check, sys};

object! {
    /// A job: a group of processes and jobs.
    Job
}

impl Job {
    /// Makes a job in this one.
    ///
    /// # Errors
    /// `NO_MEMORY`. `OUT_OF_RANGE`: nested too deeply. `BAD_STATE`: this job was killed.
    pub fn create_child(&self) -> Result<Job> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_job_create(self.raw_handle(), 0, &mut out) })?;
        Ok(Job(Handle::from_call(out)?))
    }

    /// Makes a process in this job; returns it and its root VMAR.
    ///
    /// # Errors
    /// `NO_MEMORY`. `BAD_STATE`: the job was killed.
    pub fn create_process(&self, name: &str) -> Result<(Process, Vmar)> {
        self.create_process_with(name, 0)
    }

    /// Makes a process that others can share ([`Process::create_shared`]). Its root VMAR is the upper half of its
    /// address space.
    ///
    /// # Errors
    /// As [`Job::create_process`].
    pub fn create_shared_process(&self, name: &str) -> Result<(Process, Vmar)> {
        self.create_process_with(name, abi::ZX_PROCESS_SHARED)
    }

    fn create_process_with(&self, name: &str, options: u32) -> Result<(Process, Vmar)> {
        let (job, text, len) = (self.raw_handle(), name.as_ptr().cast(), name.len());
        let (mut process, mut vmar) = (0, 0);
        // SAFETY: the name is valid for its length; both outputs have room for one handle.
        check(unsafe { sys::zx_process_create(job, text, len, options, &mut process, &mut vmar) })?;
        Ok((Process(Handle::from_call(process)?), Vmar::from(Handle::from_call(vmar)?)))
    }

    /// Kills everything in the job.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn kill(&self) -> Result<()> {
        kill(self)
    }

    /// Sets the policy of processes that are made in the job later (`ZX_JOB_POL_RELATIVE` or `ZX_JOB_POL_ABSOLUTE`).
    ///
    /// # Errors
    /// `BAD_STATE`: the job has children. `ALREADY_EXISTS`, `OUT_OF_RANGE`, `NOT_SUPPORTED`.
    pub fn set_policy(&self, options: u32, entries: &[zx_policy_basic_v2_t]) -> Result<()> {
        let (topic, count) = (abi::ZX_JOB_POL_BASIC_V2, entries.len() as u32);
        // SAFETY: the entries are valid for their number.
        check(unsafe { sys::zx_job_set_policy(self.raw_handle(), options, topic, entries.as_ptr().cast(), count) })
    }

    /// Sets the timer slack of processes that are made in the job later.
    ///
    /// # Errors
    /// `BAD_STATE`: the job has children. `INVALID_ARGS`.
    pub fn set_timer_slack(&self, slack: &zx_policy_timer_slack_t) -> Result<()> {
        let (options, topic) = (abi::ZX_JOB_POL_RELATIVE, abi::ZX_JOB_POL_TIMER_SLACK);
        // SAFETY: one record.
        check(unsafe {
            sys::zx_job_set_policy(self.raw_handle(), options, topic, core::ptr::from_ref(slack).cast(), 1)
        })
    }

    /// Kills the job when a process below it ends (`ZX_JOB_CRITICAL_PROCESS_RETCODE_NONZERO` or 0).
    ///
    /// # Errors
    /// `INVALID_ARGS`: the process is not below the job. `ALREADY_BOUND`.
    pub fn set_critical(&self, options: u32, process: &Process) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_job_set_critical(self.raw_handle(), options, process.raw_handle()) })
    }

    /// Opens the job's exception channel. Options: `ZX_EXCEPTION_CHANNEL_DEBUGGER` or 0.
    ///
    /// # Errors
    /// `ALREADY_BOUND`, `NOT_SUPPORTED`.
    pub fn create_exception_channel(&self, options: u32) -> Result<Channel> {
        exception_channel(self, options)
    }
}

object! {
    /// A process: an address space, handles, threads.
    Process
}

impl Process {
    /// The calling process. The C library keeps ownership of the handle.
    #[cfg(feature = "std")]
    pub fn self_handle() -> Unowned<'static, Process> {
        crate::startup::process_self()
    }

    /// Makes calls of the process that fill a channel or port fail with a status instead of raising a policy exception
    /// (`HAFNON_PROP_PROCESS_OVERFLOW_STATUS`). For services, whose clients determine what is full.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn set_overflow_status(&self, wanted: bool) -> Result<()> {
        self.set_property(abi::HAFNON_PROP_PROCESS_OVERFLOW_STATUS, &u64::from(wanted).to_ne_bytes())
    }

    /// Makes a process in this one's job that shares this one's handles, futexes and the upper half of its address
    /// space. Returns it and the root VMAR of its own lower half. Its first thread is started like any other.
    ///
    /// # Errors
    /// `INVALID_ARGS`: this process was not made to be shared. `BAD_STATE`: all sharing processes have ended.
    /// `NO_RESOURCES`, `NO_MEMORY`.
    pub fn create_shared(&self, name: &str) -> Result<(Process, Vmar)> {
        let (shared, text, len) = (self.raw_handle(), name.as_ptr().cast(), name.len());
        let (mut process, mut vmar) = (0, 0);
        // SAFETY: the name is valid for its length; both outputs have room for one handle.
        check(unsafe { sys::zx_process_create_shared(shared, 0, text, len, &mut process, &mut vmar) })?;
        Ok((Process(Handle::from_call(process)?), Vmar::from(Handle::from_call(vmar)?)))
    }

    /// Makes a thread that has not started.
    ///
    /// # Errors
    /// `NO_MEMORY`. `BAD_STATE`: the process has ended.
    pub fn create_thread(&self, name: &str) -> Result<Thread> {
        let mut out = 0;
        // SAFETY: the name is valid for its length; `out` has room for one handle.
        check(unsafe { sys::zx_thread_create(self.raw_handle(), name.as_ptr().cast(), name.len(), 0, &mut out) })?;
        Ok(Thread(Handle::from_call(out)?))
    }

    /// Starts the process with its first thread: entry point, stack pointer, a handle that moves to the process and
    /// becomes the first argument, and the second argument. Consumes the handle, even on failure.
    ///
    /// # Errors
    /// `BAD_STATE`: it has already started. `ACCESS_DENIED`, `INVALID_ARGS`.
    pub fn start(&self, thread: &Thread, entry: usize, stack: usize, arg1: Handle, arg2: usize) -> Result<()> {
        // SAFETY: the addresses belong to the other process.
        check(unsafe {
            sys::zx_process_start(self.raw_handle(), thread.raw_handle(), entry, stack, arg1.into_raw(), arg2)
        })
    }

    /// Kills the process.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn kill(&self) -> Result<()> {
        kill(self)
    }

    /// Reads memory of the process; returns the number of bytes, up to the first gap.
    ///
    /// # Errors
    /// `NO_MEMORY`: nothing is mapped there. `ACCESS_DENIED`, `BAD_STATE`.
    pub fn read_memory(&self, address: usize, bytes: &mut [u8]) -> Result<usize> {
        let mut actual = 0;
        // SAFETY: the buffer is valid for its length.
        check(unsafe {
            sys::zx_process_read_memory(self.raw_handle(), address, bytes.as_mut_ptr().cast(), bytes.len(), &mut actual)
        })?;
        Ok(actual)
    }

    /// Writes memory of the process; returns the number of bytes, up to the first gap.
    ///
    /// # Errors
    /// As [`Process::read_memory`].
    pub fn write_memory(&self, address: usize, bytes: &[u8]) -> Result<usize> {
        let mut actual = 0;
        // SAFETY: the buffer is valid for its length. The caller is responsible for the target, as the crate's
        // documentation says.
        check(unsafe {
            sys::zx_process_write_memory(self.raw_handle(), address, bytes.as_ptr().cast(), bytes.len(), &mut actual)
        })?;
        Ok(actual)
    }

    /// Opens the process's exception channel. Options: `ZX_EXCEPTION_CHANNEL_DEBUGGER` or 0.
    ///
    /// # Errors
    /// `ALREADY_BOUND`, `NOT_SUPPORTED`.
    pub fn create_exception_channel(&self, options: u32) -> Result<Channel> {
        exception_channel(self, options)
    }

    /// The thread of the process with this koid.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn thread(&self, koid: u64) -> Result<Thread> {
        self.get_child(koid, Rights::SAME_RIGHTS).map(Thread)
    }

    /// Suspends all threads of the process until the token is dropped.
    ///
    /// # Errors
    /// `BAD_STATE`, `NOT_SUPPORTED`.
    pub fn suspend(&self) -> Result<Suspend> {
        suspend(self)
    }
}

/// A set of registers that can be read and written together.
///
/// # Safety
/// The type must be a record of plain numbers without padding, for which any bytes are a valid value.
pub unsafe trait RegisterState: Copy {
    /// `ZX_THREAD_STATE_*`
    const KIND: u32;
}
// SAFETY: plain numbers.
unsafe impl RegisterState for abi::zx_thread_state_general_regs_t {
    const KIND: u32 = abi::ZX_THREAD_STATE_GENERAL_REGS;
}
// SAFETY: plain numbers.
unsafe impl RegisterState for abi::zx_thread_state_fp_regs_t {
    const KIND: u32 = abi::ZX_THREAD_STATE_FP_REGS;
}
// SAFETY: plain numbers.
unsafe impl RegisterState for abi::zx_thread_state_vector_regs_t {
    const KIND: u32 = abi::ZX_THREAD_STATE_VECTOR_REGS;
}
// SAFETY: plain numbers.
unsafe impl RegisterState for abi::zx_thread_state_debug_regs_t {
    const KIND: u32 = abi::ZX_THREAD_STATE_DEBUG_REGS;
}

object! {
    /// A thread.
    Thread
}

impl Thread {
    /// Starts the thread in a process that is running. `std` starts the threads of this process: the compiler knows
    /// nothing of the addresses `entry` and `stack`.
    ///
    /// # Errors
    /// `BAD_STATE`: it has already started. `ACCESS_DENIED`, `INVALID_ARGS`.
    pub fn start(&self, entry: usize, stack: usize, arg1: usize, arg2: usize) -> Result<()> {
        // SAFETY: no memory involved, except for what the thread will do, as the crate's documentation says.
        check(unsafe { sys::zx_thread_start(self.raw_handle(), entry, stack, arg1, arg2) })
    }

    /// Reads a set of registers (`ZX_THREAD_STATE_*`) of a suspended thread.
    ///
    /// # Errors
    /// `BAD_STATE`: it is running. `BUFFER_TOO_SMALL`, `NOT_SUPPORTED`.
    pub fn read_state(&self, kind: u32, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: the buffer is valid for its length.
        check(unsafe { sys::zx_thread_read_state(self.raw_handle(), kind, bytes.as_mut_ptr().cast(), bytes.len()) })
    }

    /// Writes a set of registers of a suspended thread.
    ///
    /// # Errors
    /// `BAD_STATE`: it is running. `BUFFER_TOO_SMALL`, `INVALID_ARGS`.
    pub fn write_state(&self, kind: u32, bytes: &[u8]) -> Result<()> {
        // SAFETY: the buffer is valid for its length.
        check(unsafe { sys::zx_thread_write_state(self.raw_handle(), kind, bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Reads the set of registers that the type `T` determines.
    ///
    /// # Errors
    /// `BAD_STATE`: it is running. `NOT_SUPPORTED`.
    pub fn registers<T: RegisterState>(&self) -> Result<T> {
        let mut state = core::mem::MaybeUninit::<T>::zeroed();
        // SAFETY: the buffer has room for one record.
        check(unsafe {
            sys::zx_thread_read_state(self.raw_handle(), T::KIND, state.as_mut_ptr().cast(), size_of::<T>())
        })?;
        // SAFETY: any bytes are a valid `T`; it was zeroed before.
        Ok(unsafe { state.assume_init() })
    }

    /// Writes the set of registers that the type `T` determines.
    ///
    /// # Errors
    /// `BAD_STATE`: it is running. `INVALID_ARGS`, `NOT_SUPPORTED`.
    pub fn set_registers<T: RegisterState>(&self, state: &T) -> Result<()> {
        // SAFETY: the buffer is one record.
        check(unsafe {
            sys::zx_thread_write_state(self.raw_handle(), T::KIND, core::ptr::from_ref(state).cast(), size_of::<T>())
        })
    }

    /// Opens the thread's exception channel. Options: 0.
    ///
    /// # Errors
    /// `ALREADY_BOUND`, `INVALID_ARGS`. `BAD_STATE`: the thread has ended.
    pub fn create_exception_channel(&self, options: u32) -> Result<Channel> {
        exception_channel(self, options)
    }

    /// Assigns a profile to the thread. Options: 0.
    ///
    /// # Errors
    /// `BAD_STATE`: the thread has ended. `WRONG_TYPE`: the profile is not for threads. `ACCESS_DENIED`.
    pub fn set_profile(&self, profile: &Profile, options: u32) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_object_set_profile(self.raw_handle(), profile.raw_handle(), options) })
    }

    /// Suspends the thread until the token is dropped.
    ///
    /// # Errors
    /// `BAD_STATE`, `NOT_SUPPORTED`.
    pub fn suspend(&self) -> Result<Suspend> {
        suspend(self)
    }
}

object! {
    /// Scheduling parameters for threads.
    Profile
}

impl Profile {
    /// Makes a profile. Options: 0.
    ///
    /// # Errors
    /// `INVALID_ARGS`. `WRONG_TYPE`, `OUT_OF_RANGE`: the resource does not allow it.
    pub fn create(resource: &Resource, options: u32, info: &zx_profile_info_t) -> Result<Profile> {
        let mut out = 0;
        // SAFETY: one record; `out` has room for one handle.
        check(unsafe { sys::zx_profile_create(resource.raw_handle(), options, info, &mut out) })?;
        Ok(Profile(Handle::from_call(out)?))
    }
}

object! {
    /// Suspend token: keeps a task suspended while it exists.
    Suspend
}

fn kill(task: &impl AsHandleRef) -> Result<()> {
    // SAFETY: no memory involved.
    check(unsafe { sys::zx_task_kill(task.raw_handle()) })
}

fn suspend(task: &impl AsHandleRef) -> Result<Suspend> {
    let mut out = 0;
    // SAFETY: `out` has room for one handle.
    check(unsafe { sys::zx_task_suspend(task.raw_handle(), &mut out) })?;
    Ok(Suspend(Handle::from_call(out)?))
}

fn exception_channel(task: &impl AsHandleRef, options: u32) -> Result<Channel> {
    let mut out = 0;
    // SAFETY: `out` has room for one handle.
    check(unsafe { sys::zx_task_create_exception_channel(task.raw_handle(), options, &mut out) })?;
    Ok(Channel::from(Handle::from_call(out)?))
}

/// Ends the calling process with a return code.
pub fn process_exit(code: i64) -> ! {
    // SAFETY: does not return.
    unsafe { sys::zx_process_exit(code) }
}

/// Ends the calling thread. Its stack is not unwound and its thread-local values are not dropped.
pub fn thread_exit() -> ! {
    // SAFETY: does not return.
    unsafe { sys::zx_thread_exit() }
}

/// Yields the processor.
///
/// # Errors
/// `NOT_SUPPORTED`.
pub fn thread_legacy_yield() -> Result<()> {
    // SAFETY: no memory involved.
    check(unsafe { sys::zx_thread_legacy_yield(0) })
}

impl Unowned<'static, Thread> {
    /// The calling thread.
    #[cfg(feature = "std")]
    pub fn current() -> Unowned<'static, Thread> {
        crate::startup::thread_self()
    }
}
