//! Runs code on the shared pages: in a thread, on a virtual processor in a process without threads, or in restricted
//! mode in a thread of this process.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use abi::{
    HAFNON_ENDPOINT_CALL, Rights, ZX_EXCP_UNDEFINED_INSTRUCTION, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    ZX_VM_SPECIFIC, hafnon_vproc_run_t, hafnon_vproc_state_t, zx_restricted_state_t, zx_thread_state_debug_regs_t,
    zx_thread_state_general_regs_t,
};
use conformance::caught_exception::catch_type;
use conformance::check::{Failure, Outcome, equal};
use conformance::test_process::{OwnJob, TestProcess, code};
use zx::{
    AsHandleRef, Endpoint, Exit, MonotonicInstant, Process, Reason, Restricted, Signals, Status, Thread,
    VirtualProcessor, map_runs,
};

use super::code::SLOT;
use super::memory::{FS_WORD, Memory, SIZE, line, stack};

/// The address of the shared pages in other processes.
const SHARED: u64 = 0x300_0000;
const CODE: u64 = 0x100_0000;
const PAGE: usize = 4096;
const READ_WRITE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
const READ_EXECUTE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE;
/// The GS base of code that has one of its own: an offset on the shared pages at which the word 0x3f0 bytes further is
/// unused.
const GS: u64 = 0x400;

/// What is in front of the code of a thread: `ud2`.
const THREADS_FIRST: [u8; 2] = [0x0f, 0x0b];

/// Where code runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunMode {
    /// In a thread of a process, after this number of other threads, which do not run. So its IPC buffer is at the same
    /// address as that of other processes' threads with that number.
    Thread(usize),
    /// In a sub-domain.
    Processor,
    /// In restricted mode.
    Restricted,
}

/// Running code.
pub struct RunningCode {
    process: Option<Process>,
    /// Its thread, and those before it.
    threads: Vec<Thread>,
    owner: Option<JoinHandle<Outcome>>,
    kick: Option<Thread>,
}

impl RunningCode {
    /// Starts code with a line of the pages.
    pub fn start(
        job: &OwnJob,
        place: RunMode,
        bytes: &[u8],
        memory: &Memory,
        number: u64,
    ) -> Result<RunningCode, Failure> {
        match place {
            RunMode::Thread(before) => RunningCode::thread(job, before, bytes, memory, (number, true), None),
            RunMode::Processor => RunningCode::processor(job, bytes, memory, number),
            RunMode::Restricted => RunningCode::restricted(bytes, memory, number),
        }
    }

    /// The same in a process's first thread whose FS base has not been set.
    pub fn start_new(job: &OwnJob, bytes: &[u8], memory: &Memory, number: u64) -> Result<RunningCode, Failure> {
        RunningCode::thread(job, 0, bytes, memory, (number, false), None)
    }

    /// The same in a process's first thread that has a native component's endpoint in the slot [`SLOT`].
    pub fn start_asking(
        job: &OwnJob,
        endpoint: &Endpoint,
        bytes: &[u8],
        memory: &Memory,
        number: u64,
    ) -> Result<RunningCode, Failure> {
        RunningCode::thread(job, 0, bytes, memory, (number, true), Some(endpoint))
    }

    fn thread(
        job: &OwnJob,
        before: usize,
        bytes: &[u8],
        memory: &Memory,
        (number, has_fs): (u64, bool),
        asks: Option<&Endpoint>,
    ) -> Result<RunningCode, Failure> {
        let mut tiny = TestProcess::in_job(job, &[&THREADS_FIRST, bytes].concat())?;
        let at = tiny.vmar.map(READ_WRITE | ZX_VM_SPECIFIC, SHARED as usize, &memory.0, 0, SIZE as usize)? as u64;
        let mut threads = Vec::new();
        for _ in 0..before {
            threads.push(std::mem::replace(&mut tiny.thread, tiny.process.create_thread("tiny")?));
        }
        // The thread is stopped at its first instruction until its registers are set.
        let channel = tiny.thread.create_exception_channel(0)?;
        tiny.start(None, 0)?;
        let caught = catch_type(&channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
        let mut registers: zx_thread_state_general_regs_t = tiny.thread.registers()?;
        registers.rip += THREADS_FIRST.len() as u64;
        (registers.rdi, registers.rsi) = (at + line(number), at);
        registers.fs_base = if has_fs { at + FS_WORD } else { 0 };
        tiny.thread.set_registers(&registers)?;
        if let Some(endpoint) = asks {
            equal(endpoint.mint(&tiny.thread, HAFNON_ENDPOINT_CALL, number as u32)?, SLOT.into())?;
        }
        caught.handled()?;
        threads.push(tiny.thread);
        Ok(RunningCode { process: Some(tiny.process), threads, owner: None, kick: None })
    }

    fn processor(job: &OwnJob, bytes: &[u8], memory: &Memory, number: u64) -> Result<RunningCode, Failure> {
        let (process, vmar) = job.create_process("domain")?;
        let run = |address, len, options| hafnon_vproc_run_t { address, offset: 0, len, options, reserved: 0 };
        map_runs(&vmar, &code(bytes)?, &[run(CODE, PAGE as u64, READ_EXECUTE)])?;
        map_runs(&vmar, &memory.0, &[run(SHARED, SIZE, READ_WRITE)])?;
        let entered = process.duplicate(Rights::SAME_RIGHTS)?;
        let owner = thread::spawn(move || {
            let root = zx::startup::vmar_root_self();
            let mut processor = VirtualProcessor::create(&root)?;
            *processor.state() = hafnon_vproc_state_t {
                ip: CODE,
                rdi: SHARED + line(number),
                rsi: SHARED,
                rsp: SHARED + stack(number),
                fs_base: SHARED + FS_WORD,
                gs_base: SHARED + GS,
                flags: 0x202,
                ..Default::default()
            };
            let mut exit = processor.enter(&entered)?;
            while exit == Exit::Syscall {
                exit = processor.resume()?;
            }
            Ok(())
        });
        Ok(RunningCode { process: Some(process), threads: Vec::new(), owner: Some(owner), kick: None })
    }

    fn restricted(bytes: &[u8], memory: &Memory, number: u64) -> Result<RunningCode, Failure> {
        let (code, shared) = (code(bytes)?, memory.0.duplicate(Rights::SAME_RIGHTS)?);
        let (tell, told) = mpsc::channel();
        let owner = thread::spawn(move || {
            let root = zx::startup::vmar_root_self();
            let code = root.map_here(READ_EXECUTE, &code, 0, PAGE)?;
            let shared = root.map_here(READ_WRITE, &shared, 0, SIZE as usize)?;
            let at = shared.address() as u64;
            let mut restricted = Restricted::bind(&root)?;
            *restricted.state() = zx_restricted_state_t {
                ip: code.address() as u64,
                rdi: at + line(number),
                rsi: at,
                rsp: at + stack(number),
                fs_base: at + FS_WORD,
                gs_base: at + GS,
                ..Default::default()
            };
            let this = zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?;
            tell.send(this).map_err(|_| "nobody is told")?;
            while restricted.enter()? == Reason::Syscall {}
            Ok(())
        });
        let kick = told.recv().map_err(|_| "it has ended before it was entered")?;
        Ok(RunningCode { process: None, threads: Vec::new(), owner: Some(owner), kick: Some(kick) })
    }

    /// Gives a thread breakpoints: on an instruction of others, whose code is longer, in a thread and in a sub-domain;
    /// and on a line of the pages and its stack.
    pub fn watch(&self, at: usize, number: u64) -> Outcome {
        let at = CODE + at as u64;
        let dr = [at + THREADS_FIRST.len() as u64, at, SHARED + line(number), SHARED + stack(number) - 8];
        self.set_breakpoints(dr, 0x55 | 0b1011_1011 << 24)
    }

    /// Gives a thread a breakpoint on all accesses to a word.
    pub fn watch_word(&self, address: u64) -> Outcome {
        self.set_breakpoints([address, 0, 0, 0], 1 | 0b1011 << 16)
    }

    fn set_breakpoints(&self, dr: [u64; 4], dr7: u64) -> Outcome {
        let thread = self.threads.last().ok_or("it has no thread")?;
        let token = thread.suspend()?;
        thread.wait_one(Signals::THREAD_SUSPENDED, MonotonicInstant::INFINITE)?;
        thread.set_registers(&zx_thread_state_debug_regs_t { dr, dr6: 0, dr7 })?;
        drop(token);
        Ok(())
    }

    /// Whether the code has ended by itself.
    pub fn has_ended(&self) -> Result<bool, Failure> {
        if let Some(owner) = &self.owner {
            return Ok(owner.is_finished());
        }
        let thread = self.threads.last().ok_or("it has no thread")?;
        Ok(thread.signals()?.contains(Signals::TASK_TERMINATED))
    }

    /// Ends the code from outside, if it has not ended.
    pub fn end(self) -> Outcome {
        if let Some(process) = &self.process {
            process.kill()?;
        }
        if let Some(kick) = &self.kick {
            match kick.restricted_kick() {
                Ok(()) | Err(Status::BAD_STATE) => {}
                Err(status) => return Err(status.into()),
            }
        }
        self.owner.map_or(Ok(()), |owner| owner.join().map(drop).map_err(|_| "it panicked".into()))
    }
}
