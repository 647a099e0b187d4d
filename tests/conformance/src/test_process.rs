//! Processes of a few instructions.
//!
//! A process needs no more than a page of code and a thread: no loader, no library, no vDSO. Processes that do exactly
//! one thing, such as one wrong access, are therefore cheap and exact. Their code is given as machine code.

use std::sync::OnceLock;

use zx::{AsHandleRef, Handle, Info, Job, MonotonicInstant, Process, Signals, Thread, Vmar, Vmo};

use crate::check::{Failure, Outcome, equal};

/// Return code of a process that an exception ended.
pub const EXCEPTION: i64 = abi::ZX_TASK_RETCODE_EXCEPTION_KILL;
/// Return code of a process that was killed.
pub const KILLED: i64 = abi::ZX_TASK_RETCODE_SYSCALL_KILL;

/// `jmp .`: runs forever.
pub const SPIN: &[u8] = &[0xeb, 0xfe];

/// Machine code that makes the system call with this number without the vDSO, in the vDSO's way: the first four
/// arguments are in r10, r8, r9 and r15, further ones in the IPC buffer; the result arrives in r10.
pub fn call(number: u32) -> Vec<u8> {
    let tag = (number << 12 | 4).to_le_bytes();
    let mut code = vec![0x48, 0x89, 0xe3]; // mov rbx, rsp
    code.push(0xbe); // mov esi, tag
    code.extend(tag);
    code.extend([0x48, 0xc7, 0xc2, 0xff, 0xff, 0xff, 0xff]); // mov rdx, -1
    code.extend([0xbf, 0x01, 0x00, 0x00, 0x00]); // mov edi, 1
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0x48, 0x89, 0xdc]); // mov rsp, rbx
    code
}

/// Where the code of a test process lies, as an offset in its address space.
const CODE: usize = 0x100_0000;
const STACK: usize = 0x200_0000;
const STACK_SIZE: usize = 0x4000;

/// A process that is ready to start.
pub struct TestProcess {
    /// The process.
    pub process: Process,
    /// Its address space.
    pub vmar: Vmar,
    /// Its first thread.
    pub thread: Thread,
    /// Where its code lies.
    pub entry: usize,
    /// The end of its stack.
    pub stack: usize,
}

/// A VMO that contains `code` and is executable.
pub fn code(code: &[u8]) -> zx::Result<Vmo> {
    let vmo = Vmo::create(4096, 0)?;
    vmo.write(code, 0)?;
    vmo.replace_as_executable(None)
}

/// A job that is killed when this value is dropped, with everything in it, regardless of other handles to it.
pub struct OwnJob(Job);

impl OwnJob {
    /// Creates one in the default job.
    pub fn new() -> Result<Self, Failure> {
        Self::below(&*zx::startup::job_default().ok_or("there is no default job")?)
    }

    /// Creates one in another job.
    pub fn below(job: &Job) -> Result<Self, Failure> {
        Ok(Self(job.create_child()?))
    }
}

impl std::ops::Deref for OwnJob {
    type Target = Job;

    fn deref(&self) -> &Job {
        &self.0
    }
}

impl Drop for OwnJob {
    fn drop(&mut self) {
        // Killing a job that was killed before has no effect.
        let _ = self.0.kill();
    }
}

impl TestProcess {
    /// Creates a process in the default job that will execute `code`.
    pub fn new(code: &[u8]) -> Result<Self, Failure> {
        let job = zx::startup::job_default().ok_or("there is no default job")?;
        Self::in_job(&job, code)
    }

    /// Creates a process in another job.
    pub fn in_job(job: &Job, bytes: &[u8]) -> Result<Self, Failure> {
        Self::prepared(job, bytes, |_| Ok(()))
    }

    /// Creates a process in another job, and runs `prepare` on it before it has a thread.
    pub fn prepared(job: &Job, bytes: &[u8], prepare: impl FnOnce(&Process) -> Outcome) -> Result<Self, Failure> {
        let (process, vmar) = job.create_process("tiny")?;
        prepare(&process)?;
        let (read_execute, read_write) =
            (abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE, abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE);
        let entry = vmar.map(read_execute | abi::ZX_VM_SPECIFIC, CODE, &code(bytes)?, 0, 4096)?;
        let stack = Vmo::create(STACK_SIZE as u64, 0)?;
        let bottom = vmar.map(read_write | abi::ZX_VM_SPECIFIC, STACK, &stack, 0, STACK_SIZE)?;
        let thread = process.create_thread("tiny")?;
        Ok(Self { process, vmar, thread, entry, stack: bottom + STACK_SIZE - 8 })
    }

    /// Starts it with a handle (or 0) in `rdi` and a number in `rsi`.
    pub fn start(&self, handle: Option<Handle>, number: usize) -> Outcome {
        match handle {
            Some(handle) => self.process.start(&self.thread, self.entry, self.stack, handle, number)?,
            None => {
                // The typed call requires a handle; the raw one accepts 0 too.
                let words = [self.process.raw_handle(), self.thread.raw_handle()].map(u64::from);
                let words = [words[0], words[1], self.entry as u64, self.stack as u64, 0, number as u64];
                let status = zx::probe::call(zx::sys::zx_process_start as *const () as usize, &words);
                crate::check::gives(zx::Status(status as i32), zx::Status::OK)?;
            }
        }
        Ok(())
    }

    /// Waits at most a few seconds for its end; returns the return code.
    pub fn end(&self) -> Result<i64, Failure> {
        let deadline = MonotonicInstant::after(zx::Duration::from_seconds(5));
        self.process.wait_one(Signals::TASK_TERMINATED, deadline)?;
        Ok(self.process.info()?.return_code)
    }

    /// Maps the vDSO as process builders do: data, then code. Returns the difference to its address in this process.
    pub fn map_vdso(&self) -> Result<u64, Failure> {
        let vdso = vdso()?;
        let size = vdso.get_size()? as usize;
        let (read, execute) = (abi::ZX_VM_CAN_MAP_READ, abi::ZX_VM_CAN_MAP_EXECUTE);
        let (vmar, base) = self.vmar.allocate(read | execute | abi::ZX_VM_CAN_MAP_SPECIFIC, 0, size)?;
        let code = abi::VDSO_CODE_START;
        let at = abi::ZX_VM_SPECIFIC | abi::ZX_VM_PERM_READ;
        vmar.map(at, 0, vdso, 0, code)?;
        vmar.map(at | abi::ZX_VM_PERM_EXECUTE, code, vdso, code as u64, size - code)?;
        let here = zx::startup::process_self().get_property_u64(abi::ZX_PROP_PROCESS_VDSO_BASE_ADDRESS)?;
        Ok((base as u64).wrapping_sub(here))
    }
}

/// The VMO of the vDSO that this process was started with.
fn vdso() -> Result<&'static Vmo, Failure> {
    static VDSO: OnceLock<Option<Vmo>> = OnceLock::new();
    let take = || zx::startup::take(abi::PA_VMO_VDSO, 0).map(Vmo::from);
    VDSO.get_or_init(take).as_ref().ok_or_else(|| "this process was not given the vDSO".into())
}

/// The code must end its process with an exception, and this process must continue.
pub fn dies(code: &[u8]) -> Outcome {
    let tiny = TestProcess::new(code)?;
    tiny.start(None, 0)?;
    equal(tiny.end()?, EXCEPTION)?;
    // Its thread has ended with the process.
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_DEAD)
}

/// A started process that spins.
pub fn spinning() -> Result<TestProcess, Failure> {
    let tiny = TestProcess::new(SPIN)?;
    tiny.start(None, 0)?;
    Ok(tiny)
}

/// A koid that is not 0.
pub fn koid(object: &impl Info) -> Result<u64, Failure> {
    match object.koid()? {
        0 => Err("its koid is 0".into()),
        koid => Ok(koid),
    }
}
