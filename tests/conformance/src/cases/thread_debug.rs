//! Debug registers: breakpoints on execution and on data, which belong to one thread each.
//!
//! The threads are those of processes of a few instructions. All such processes have their code and their memory at the
//! same addresses, so a breakpoint that another thread ran with would be hit there.

use abi::{
    Rights, Status, ZX_EXCP_HW_BREAKPOINT, ZX_EXCP_UNDEFINED_INSTRUCTION, nr, zx_thread_state_debug_regs_t,
    zx_thread_state_general_regs_t,
};
use zx::{AsHandleRef, Channel, MonotonicInstant, Signals, Suspend, Thread};

use super::{cases, late, raw, soon, without};
use crate::caught_exception::{CaughtException, OwnedTestProcess, catch_type, catch_until, quiet};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::{self, SPIN, call};

cases! {
    "thread.debug.initial" => initial,
    "thread.debug.features" => features,
    "thread.debug.kept" => kept,
    "thread.debug.masked" => masked,
    "thread.debug.refused" => refused,
    "thread.debug.rights" => rights,
    "thread.debug.execute" => execute,
    "thread.debug.execute_elsewhere" => execute_elsewhere,
    "thread.debug.write" => write,
    "thread.debug.read_or_write" => read_or_write,
    "thread.debug.several" => several,
    "thread.debug.disabled" => disabled,
    "thread.debug.step" => step,
    "thread.debug.calls" => calls,
    "thread.debug.call_buffer" => call_buffer,
    "thread.debug.per_thread" => per_thread,
    "thread.debug.per_process" => per_process,
    "thread.debug.faults" => faults,
    "thread.debug.new_threads" => new_threads,
    "thread.debug.stack_segment" => stack_segment,
}

/// The accesses that a breakpoint can be for.
const EXECUTION: u64 = 0;
const WRITES: u64 = 1;
const PORTS: u64 = 2;
const ACCESSES: u64 = 3;

/// The bits of DR6 and DR7 that are always set.
const DR6: u64 = 0xffff_0ff0;
const DR7: u64 = 0x700;
/// In DR6: a single step.
const STEP: u64 = 1 << 14;

/// The bits of DR7 for breakpoint `n`.
fn breakpoint(n: usize, access: u64, length: u64) -> u64 {
    let code = match length {
        1 => 0,
        2 => 1,
        8 => 2,
        _ => 3,
    };
    1 << (2 * n) | access << (16 + 4 * n) | code << (18 + 4 * n)
}

/// The first breakpoint alone.
fn one(address: usize, access: u64, length: u64) -> zx_thread_state_debug_regs_t {
    let dr = [address as u64, 0, 0, 0];
    zx_thread_state_debug_regs_t { dr, dr6: 0, dr7: breakpoint(0, access, length) }
}

const NONE: zx_thread_state_debug_regs_t = zx_thread_state_debug_regs_t { dr: [0; 4], dr6: DR6, dr7: DR7 };

/// A process whose thread is suspended before its first instruction. Its exceptions come to `channel`.
struct Subject {
    tiny: OwnedTestProcess,
    channel: Channel,
    token: Option<Suspend>,
    /// Memory that the thread has the address of in `rsi`.
    memory: usize,
}

impl Subject {
    fn new(code: &[u8]) -> Result<Self, Failure> {
        let tiny = OwnedTestProcess::new(code)?;
        let channel = tiny.process.create_exception_channel(0)?;
        // Inside the stack, below everything that is pushed.
        let memory = (tiny.stack - 0x2000) & !0xfff;
        let token = tiny.thread.suspend()?;
        tiny.start(None, memory)?;
        tiny.thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
        Ok(Self { tiny, channel, token: Some(token), memory })
    }

    /// The same, running with breakpoints.
    fn with(code: &[u8], make: impl FnOnce(&Self) -> zx_thread_state_debug_regs_t) -> Result<Self, Failure> {
        let mut subject = Self::new(code)?;
        subject.set(&make(&subject))?;
        subject.go();
        Ok(subject)
    }

    fn thread(&self) -> &Thread {
        &self.tiny.thread
    }

    fn set(&self, registers: &zx_thread_state_debug_regs_t) -> Outcome {
        Ok(self.thread().set_registers(registers)?)
    }

    fn debug(&self) -> Result<zx_thread_state_debug_regs_t, Failure> {
        Ok(self.thread().registers()?)
    }

    fn general(&self) -> Result<zx_thread_state_general_regs_t, Failure> {
        Ok(self.thread().registers()?)
    }

    fn go(&mut self) {
        self.token = None;
    }

    fn suspend(&mut self) -> Outcome {
        self.token = Some(self.thread().suspend()?);
        self.thread().wait_one(Signals::THREAD_SUSPENDED, late())?;
        Ok(())
    }

    fn word(&self, at: usize) -> Result<u64, Failure> {
        let mut bytes = [0; 8];
        equal(self.tiny.process.read_memory(self.memory + at, &mut bytes)?, 8)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The next exception must be a breakpoint's, with the thread at this offset of its code and with this DR6.
    #[track_caller]
    fn hits(&self, offset: usize, status: u64) -> Result<CaughtException, Failure> {
        let caught = catch_type(&self.channel, ZX_EXCP_HW_BREAKPOINT)?;
        equal((self.general()?.rip, self.debug()?.dr6), ((self.tiny.entry + offset) as u64, DR6 | status))?;
        let report = self.thread().exception_report()?;
        equal((report.context.arch.vector, report.context.arch.err_code), (1, 0))?;
        Ok(caught)
    }

    /// The thread makes progress, as its counter shows, and raises no exception.
    fn runs(&self, at: usize) -> Outcome {
        let before = self.word(at)?;
        for _ in 0..1000 {
            quiet(&self.channel)?;
            if self.word(at)? > before + 1 {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Err("the thread makes no progress".into())
    }
}

/// `L: inc qword ptr [rsi]; nop; jmp L`
const COUNTS: &[u8] = &[0x48, 0xff, 0x06, 0x90, 0xeb, 0xfa];
/// Offset of the `nop`.
const NOP: usize = 3;

// --- what can be read and written ---

fn initial() -> Outcome {
    let subject = Subject::new(COUNTS)?;
    equal(subject.debug()?, NONE)
}

fn features() -> Outcome {
    for kind in [abi::ZX_FEATURE_KIND_HW_BREAKPOINT_COUNT, abi::ZX_FEATURE_KIND_HW_WATCHPOINT_COUNT] {
        let mut count = 0_u32;
        gives(raw!(zx_system_get_features, kind, &raw mut count), Status::OK)?;
        equal(count, 4)?;
    }
    Ok(())
}

fn kept() -> Outcome {
    // Breakpoints that are not hit stay set across suspend and resume, a system call, and a fault.
    let loops = [&[0x49, 0x89, 0xf4][..], &CALLS].concat();
    let mut subject = Subject::new(&loops)?;
    let (entry, memory) = (subject.tiny.entry as u64, subject.memory as u64);
    let dr = [entry + 0x800, memory + 0x1000, memory + 0x804, 0];
    let control = breakpoint(0, EXECUTION, 1) | breakpoint(1, WRITES, 8) | breakpoint(2, ACCESSES, 4);
    subject.set(&zx_thread_state_debug_regs_t { dr, dr6: 0, dr7: control })?;
    for _ in 0..5 {
        equal(subject.debug()?, zx_thread_state_debug_regs_t { dr, dr6: DR6, dr7: DR7 | control })?;
        subject.go();
        subject.runs(64)?;
        subject.suspend()?;
    }
    // Writing other registers leaves them unchanged.
    let registers = subject.general()?;
    subject.thread().set_registers(&registers)?;
    equal(subject.debug()?.dr, dr)?;
    subject.set(&zx_thread_state_debug_regs_t::default())?;
    equal(subject.debug()?, NONE)
}

fn masked() -> Outcome {
    let subject = Subject::new(COUNTS)?;
    // DR6 cannot be written, nor can general detection and the reserved bits of DR7.
    let all = zx_thread_state_debug_regs_t { dr: [0; 4], dr6: u64::MAX, dr7: !0xffff_00ff };
    subject.set(&all)?;
    equal(subject.debug()?, NONE)?;
    // The access type and length of a disabled breakpoint can have any value.
    let rest = zx_thread_state_debug_regs_t { dr: [0; 4], dr6: 0, dr7: 0xffff_0000 };
    subject.set(&rest)?;
    equal(subject.debug()?, zx_thread_state_debug_regs_t { dr7: DR7 | 0xffff_0000, ..NONE })
}

fn refused() -> Outcome {
    let subject = Subject::new(COUNTS)?;
    let (entry, memory) = (subject.tiny.entry, subject.memory);
    let before = zx_thread_state_debug_regs_t { dr6: DR6, dr7: DR7 | 1, ..one(entry + 64, EXECUTION, 1) };
    subject.set(&before)?;
    let is_refused = |registers: &zx_thread_state_debug_regs_t| {
        fails(subject.thread().set_registers(registers), Status::INVALID_ARGS)?;
        equal(subject.debug()?, before)
    };
    // Kernel addresses and non-canonical addresses, whether the breakpoint is enabled or not.
    for address in
        [(1 << 47) - 4096, (1 << 47) - 1, 1 << 47, 0xffff_0000_0000, 0xffff_8000_0000_0000, 1 << 63, u64::MAX]
    {
        for n in 0..4 {
            for control in [0, breakpoint(n, EXECUTION, 1), breakpoint(n, WRITES, 1)] {
                let mut dr = [0; 4];
                dr[n] = address;
                is_refused(&zx_thread_state_debug_regs_t { dr, dr6: 0, dr7: control })?;
            }
        }
    }
    for n in 0..4 {
        let mut dr = [0; 4];
        // I/O ports; more than one byte of an instruction.
        dr[n] = memory as u64;
        for (access, length) in [(PORTS, 1), (PORTS, 4), (EXECUTION, 2), (EXECUTION, 4), (EXECUTION, 8)] {
            is_refused(&zx_thread_state_debug_regs_t { dr, dr6: 0, dr7: breakpoint(n, access, length) })?;
        }
        // Data that is not aligned; the second bit enables as the first does.
        for (offset, length) in [(1, 2), (2, 4), (1, 4), (4, 8), (7, 8)] {
            dr[n] = memory as u64 + offset;
            for access in [WRITES, ACCESSES] {
                let control = breakpoint(n, access, length);
                is_refused(&zx_thread_state_debug_regs_t { dr, dr6: 0, dr7: control })?;
                let global = control & !(1 << (2 * n)) | 2 << (2 * n);
                is_refused(&zx_thread_state_debug_regs_t { dr, dr6: 0, dr7: global })?;
            }
        }
    }
    Ok(())
}

fn rights() -> Outcome {
    let mut subject = Subject::new(COUNTS)?;
    let thread = subject.thread();
    let registers = one(subject.tiny.entry, EXECUTION, 1);
    let (weak, blind) = (Thread::from(without(thread, Rights::WRITE)?), Thread::from(without(thread, Rights::READ)?));
    fails(weak.set_registers(&registers), Status::ACCESS_DENIED)?;
    fails(blind.registers::<zx_thread_state_debug_regs_t>(), Status::ACCESS_DENIED)?;
    let kind = abi::ZX_THREAD_STATE_DEBUG_REGS;
    fails(thread.write_state(kind, &[0; 47]), Status::BUFFER_TOO_SMALL)?;
    fails(thread.read_state(kind, &mut [0; 47]), Status::BUFFER_TOO_SMALL)?;
    thread.write_state(kind, &[0; 56])?;
    subject.go();
    subject.runs(0)?;
    fails(subject.thread().set_registers(&registers), Status::BAD_STATE)?;
    fails(subject.thread().registers::<zx_thread_state_debug_regs_t>(), Status::BAD_STATE)
}

// --- breakpoints ---

fn execute() -> Outcome {
    let subject = Subject::with(COUNTS, |subject| one(subject.tiny.entry + NOP, EXECUTION, 1))?;
    // It is hit once in each turn of the loop: when the thread resumes, it gets past the breakpoint.
    for turn in 1..20 {
        let caught = subject.hits(NOP, 1)?;
        equal(subject.word(0)?, turn)?;
        caught.handled()?;
    }
    let caught = subject.hits(NOP, 1)?;
    subject.set(&zx_thread_state_debug_regs_t::default())?;
    caught.handled()?;
    subject.runs(0)
}

fn execute_elsewhere() -> Outcome {
    // A thread whose `rip` is set to an instruction with a breakpoint stops there, even if it stood at another one.
    //   L: nop; nop; nop; jmp L
    let subject = Subject::with(&[0x90, 0x90, 0x90, 0xeb, 0xfb], |subject| {
        let entry = subject.tiny.entry as u64;
        let control = breakpoint(0, EXECUTION, 1) | breakpoint(1, EXECUTION, 1);
        zx_thread_state_debug_regs_t { dr: [entry, entry + 2, 0, 0], dr6: 0, dr7: control }
    })?;
    for _ in 0..5 {
        let caught = subject.hits(0, 1)?;
        let mut registers = subject.general()?;
        registers.rip += 2;
        subject.thread().set_registers(&registers)?;
        caught.handled()?;
        let caught = subject.hits(2, 2)?;
        caught.handled()?;
    }
    Ok(())
}

fn write() -> Outcome {
    for length in [1_u8, 2, 4, 8] {
        for access in [WRITES, ACCESSES] {
            // mov al, 7; mov [rsi + 63], al; mov [rsi + 64 + length], al; mov [rsi + 64 + length - 1], al; jmp .
            let stores = |at: u8| [0x88, 0x46, at];
            let code = [&[0xb0, 7], &stores(63)[..], &stores(64 + length), &stores(63 + length), SPIN].concat();
            let subject = Subject::with(&code, |subject| one(subject.memory + 64, access, length.into()))?;
            let caught = subject.hits(11, 1)?;
            // It has been executed.
            equal(subject.word(64)?, 7 << (8 * (length - 1)) | if length < 8 { 7 << (8 * length) } else { 0 })?;
            caught.handled()?;
            fails(subject.tiny.process.wait_one(Signals::TASK_TERMINATED, soon(5)), Status::TIMED_OUT)?;
            quiet(&subject.channel)?;
        }
    }
    Ok(())
}

fn read_or_write() -> Outcome {
    // mov al, [rsi]; mov [rsi], al; jmp .
    let code = [&[0x8a, 0x06, 0x88, 0x06], SPIN].concat();
    let writes = Subject::with(&code, |subject| one(subject.memory, WRITES, 8))?;
    writes.hits(4, 1)?.handled()?;
    let accesses = Subject::with(&code, |subject| one(subject.memory, ACCESSES, 8))?;
    accesses.hits(2, 1)?.handled()?;
    accesses.hits(4, 1)?.handled()?;
    for subject in [writes, accesses] {
        fails(subject.tiny.process.wait_one(Signals::TASK_TERMINATED, soon(5)), Status::TIMED_OUT)?;
        quiet(&subject.channel)?;
    }
    Ok(())
}

fn several() -> Outcome {
    // mov [rsi + 8], eax; mov [rsi + 16], eax; mov [rsi], eax; nop; nop; jmp .
    let code = [&[0x89, 0x46, 8, 0x89, 0x46, 16, 0x89, 0x06, 0x90, 0x90], SPIN].concat();
    let subject = Subject::with(&code, |subject| {
        let (entry, memory) = (subject.tiny.entry as u64, subject.memory as u64);
        let control = breakpoint(0, EXECUTION, 1)
            | breakpoint(1, WRITES, 4)
            | breakpoint(2, WRITES, 8)
            | breakpoint(3, ACCESSES, 1);
        zx_thread_state_debug_regs_t { dr: [entry + 9, memory + 8, memory + 16, memory], dr6: 0, dr7: control }
    })?;
    for (offset, status) in [(3, 2), (6, 4), (8, 8), (9, 1)] {
        subject.hits(offset, status)?.handled()?;
    }
    fails(subject.tiny.process.wait_one(Signals::TASK_TERMINATED, soon(5)), Status::TIMED_OUT)?;
    quiet(&subject.channel)
}

fn disabled() -> Outcome {
    let subject = Subject::with(COUNTS, |subject| {
        let (entry, memory) = (subject.tiny.entry as u64, subject.memory as u64);
        let kinds = breakpoint(0, EXECUTION, 1) | breakpoint(1, WRITES, 8) | breakpoint(2, ACCESSES, 8);
        zx_thread_state_debug_regs_t { dr: [entry, memory, memory, entry], dr6: 0, dr7: kinds & !0xff }
    })?;
    subject.runs(0)
}

fn step() -> Outcome {
    // nop; nop; nop; nop; jmp .: DR6 distinguishes a step from a breakpoint.
    const TRAP_FLAG: u64 = 1 << 8;
    let mut subject = Subject::new(&[&[0x90; 4], SPIN].concat())?;
    subject.set(&one(subject.tiny.entry + 3, EXECUTION, 1))?;
    let flags = |subject: &Subject, set: bool| -> Outcome {
        let mut registers = subject.general()?;
        registers.rflags = if set { registers.rflags | TRAP_FLAG } else { registers.rflags & !TRAP_FLAG };
        Ok(subject.thread().set_registers(&registers)?)
    };
    flags(&subject, true)?;
    subject.go();
    subject.hits(1, STEP)?.handled()?;
    let caught = subject.hits(2, STEP)?;
    flags(&subject, false)?;
    caught.handled()?;
    let caught = subject.hits(3, 1)?;
    flags(&subject, true)?;
    caught.handled()?;
    // A single step from the breakpoint also gets past it.
    subject.hits(4, STEP)?;
    // Without breakpoints it is the same.
    let mut subject = Subject::new(&[&[0x90; 4], SPIN].concat())?;
    flags(&subject, true)?;
    subject.go();
    subject.hits(1, STEP)?.handled()?;
    subject.hits(2, STEP)?;
    Ok(())
}

// --- system calls and faults ---

/// With the address of the memory in r12: `L: inc qword ptr [r12 + 64]; <zx_handle_close(0)>; nop; jmp L`.
static CALLS: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
    // inc qword ptr [r12 + 64]; xor r10d, r10d
    let begin = [0x49, 0xff, 0x44, 0x24, 64, 0x45, 0x31, 0xd2];
    let mut code = [&begin, &call(nr::HANDLE_CLOSE)[..], &[0x90, 0xeb, 0]].concat();
    let end = code.len();
    code[end - 1] = (-(end as i8)) as u8;
    code
});

fn calls() -> Outcome {
    // mov r12, rsi, and the loop: a breakpoint on the call's instruction, and one behind it.
    let code = [&[0x49, 0x89, 0xf4][..], &CALLS].concat();
    let call = code.windows(2).position(|pair| pair == [0x0f, 0x05]).ok_or("there is no call")?;
    let subject = Subject::with(&code, |subject| {
        let (entry, memory) = (subject.tiny.entry as u64, subject.memory as u64);
        let control = breakpoint(0, EXECUTION, 1) | breakpoint(1, EXECUTION, 1) | breakpoint(2, WRITES, 8);
        let dr = [entry + call as u64, entry + call as u64 + 2, memory + 64, 0];
        zx_thread_state_debug_regs_t { dr, dr6: 0, dr7: control }
    })?;
    for turn in 1..20 {
        subject.hits(8, 4)?.handled()?;
        subject.hits(call, 1)?.handled()?;
        let caught = subject.hits(call + 2, 2)?;
        equal(subject.word(64)?, turn)?;
        caught.handled()?;
    }
    // With breakpoints that are not hit, the calls continue, too.
    let caught = subject.hits(8, 4)?;
    subject.set(&one(subject.memory + 128, ACCESSES, 8))?;
    caught.handled()?;
    (0..20).try_for_each(|_| subject.runs(64))
}

fn call_buffer() -> Outcome {
    // mov r12, rsi; xor r10d, r10d; mov r8, r12; <zx_event_create(0, r8)>; inc qword ptr [r12 + 64]; mov [r12], eax;
    // jmp .: a write by the system on the thread's behalf is not an access of the thread.
    let begin = [0x49, 0x89, 0xf4, 0x45, 0x31, 0xd2, 0x4d, 0x89, 0xe0];
    let end = [0x49, 0xff, 0x44, 0x24, 64, 0x41, 0x89, 0x04, 0x24];
    let code = [&begin, &call(nr::EVENT_CREATE)[..], &end, SPIN].concat();
    for access in [WRITES, ACCESSES] {
        let subject = Subject::with(&code, |subject| one(subject.memory, access, 4))?;
        let caught = subject.hits(code.len() - SPIN.len(), 1)?;
        equal(subject.word(64)?, 1)?;
        caught.handled()?;
    }
    // Without the thread's own store, the call still writes the handle, and no breakpoint is hit.
    let mut without = code.clone();
    let store = code.len() - SPIN.len() - 4;
    without[store..store + 4].fill(0x90);
    let subject = Subject::with(&without, |subject| one(subject.memory, ACCESSES, 4))?;
    for _ in 0..1000 {
        if subject.word(64)? == 1 {
            ensure(subject.word(0)? != 0, "there is no handle")?;
            return quiet(&subject.channel);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Err("the call does not return".into())
}

fn faults() -> Outcome {
    // mov al, [rsi]; mov [rsi], al; jmp ., on a page that is committed by that: the fault is served, then the
    // breakpoint is hit, once.
    let code = [&[0x8a, 0x06, 0x88, 0x06], SPIN].concat();
    let mut subject = Subject::new(&code)?;
    let fresh = zx::Vmo::create(4096, 0)?;
    let at = subject.tiny.vmar.map(abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE, 0, &fresh, 0, 4096)?;
    let mut registers = subject.general()?;
    registers.rsi = at as u64;
    subject.thread().set_registers(&registers)?;
    subject.set(&one(at, ACCESSES, 1))?;
    subject.go();
    subject.hits(2, 1)?.handled()?;
    subject.hits(4, 1)?.handled()?;
    // ud2; nop: an exception of another kind leaves DR6 as it was.
    let subject = Subject::with(&[0x0f, 0x0b, 0x90, 0xeb, 0xfe], |subject| one(subject.tiny.entry + 2, EXECUTION, 1))?;
    let caught = catch_type(&subject.channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    equal(subject.debug()?.dr6, DR6)?;
    let mut registers = subject.general()?;
    registers.rip += 2;
    subject.thread().set_registers(&registers)?;
    caught.handled()?;
    Ok(subject.hits(2, 1)?.handled()?)
}

// --- other threads are not affected ---

fn per_thread() -> Outcome {
    // Two threads of a process in the same loop, each with a counter of its own, of which the first has a breakpoint.
    let mut subject = Subject::new(COUNTS)?;
    let second = subject.tiny.process.create_thread("second")?;
    second.start(subject.tiny.entry, subject.tiny.stack - 0x800, 0, subject.memory + 8)?;
    subject.set(&one(subject.tiny.entry + NOP, EXECUTION, 1))?;
    subject.runs(8)?;
    subject.go();
    for turn in 1..20 {
        let caught = subject.hits(NOP, 1)?;
        caught.is_of(&subject.tiny)?;
        equal(subject.word(0)?, turn)?;
        subject.runs(8)?;
        caught.handled()?;
    }
    let token = second.suspend()?;
    second.wait_one(Signals::THREAD_SUSPENDED, late())?;
    equal(second.registers::<zx_thread_state_debug_regs_t>()?, NONE)?;
    drop(token);
    Ok(())
}

fn per_process() -> Outcome {
    // Processes with the same addresses, some of which have breakpoints that are hit all the time, some none, and some
    // breakpoints that are never hit.
    let with: Vec<Subject> =
        (0..3).map(|_| Subject::with(COUNTS, |subject| one(subject.memory, WRITES, 8))).collect::<Result<_, _>>()?;
    let free: Vec<Subject> =
        (0..3).map(|_| Subject::with(COUNTS, |_| zx_thread_state_debug_regs_t::default())).collect::<Result<_, _>>()?;
    let idle: Vec<Subject> = (0..3)
        .map(|_| Subject::with(COUNTS, |subject| one(subject.memory + 64, ACCESSES, 8)))
        .collect::<Result<_, _>>()?;
    for turn in 1..30 {
        for subject in &with {
            let caught = subject.hits(NOP, 1)?;
            equal(subject.word(0)?, turn)?;
            caught.handled()?;
        }
        if turn % 5 == 0 {
            free.iter().chain(&idle).try_for_each(|subject| subject.runs(0))?;
        }
    }
    Ok(())
}

fn new_threads() -> Outcome {
    // A thread with breakpoints ends in every possible way; later threads have no breakpoints.
    for turn in 0..12 {
        let subject = Subject::with(COUNTS, |subject| {
            one(if turn % 2 == 0 { subject.memory } else { subject.memory + 64 }, WRITES, 8)
        })?;
        match turn % 2 {
            0 => drop(subject.hits(NOP, 1)?),
            _ => subject.runs(0)?,
        }
        subject.tiny.process.kill()?;
        subject.tiny.end()?;
        let next = Subject::new(COUNTS)?;
        equal(next.debug()?, NONE)?;
        let mut next = next;
        next.go();
        next.runs(0)?;
    }
    Ok(())
}

/// Instructions behind the one that loads SS, most of which enter the kernel. All count in `[r12 + 64]`.
const BEHIND: [&[u8]; 6] = [
    // syscall, by the kernel's number to yield
    &[0x0f, 0x05],
    // int3
    &[0xcc],
    // int 0xc8, which the kernel takes for a system call
    &[0xcd, 0xc8],
    // ud2
    &[0x0f, 0x0b],
    // int1
    &[0xf1],
    // nop
    &[0x90],
];

fn stack_segment() -> Outcome {
    // An instruction that loads SS from a word with a breakpoint delays the exception until after the next instruction.
    // If that instruction enters the kernel, the exception is raised in the kernel.
    for behind in BEHIND {
        // mov r12, rsi; mov [r12], ss; L: mov rdx, -7; mov ss, [r12]; …; inc qword ptr [r12 + 64]; jmp L
        let begin = [0x49, 0x89, 0xf4, 0x41, 0x8c, 0x14, 0x24];
        let again = [0x48, 0xc7, 0xc2, 0xf9, 0xff, 0xff, 0xff, 0x41, 0x8e, 0x14, 0x24];
        let count = [0x49, 0xff, 0x44, 0x24, 64];
        let back = -((again.len() + behind.len() + count.len() + 2) as i8);
        let code = [&begin, &again[..], behind, &count, &[0xeb, back as u8]].concat();
        let subject = Subject::with(&code, |subject| one(subject.memory, ACCESSES, 2))?;
        let load = (subject.tiny.entry + begin.len() + 7) as u64;
        let deadline = late();
        let mut hits = 0;
        // Handles any exception of the thread: the thread continues, or is moved behind the instruction.
        while subject.word(64)? < 50 && MonotonicInstant::now() < deadline {
            let Ok(caught) = catch_until(&subject.channel, soon(10)) else { continue };
            let mut registers = subject.general()?;
            hits += subject.debug()?.dr6 & 1;
            let end = load + 4 + behind.len() as u64;
            if caught.info.type_ != ZX_EXCP_HW_BREAKPOINT && registers.rip != end {
                registers.rip = end;
                subject.thread().set_registers(&registers)?;
            } else if registers.rip == 0 {
                registers.rip = end;
                registers.rsp = subject.tiny.stack as u64;
                subject.thread().set_registers(&registers)?;
            }
            caught.handled()?;
        }
        ensure(subject.word(64)? >= 50, &format!("{behind:x?}: it came to {} turns, {hits} hits", subject.word(64)?))?;
        subject.tiny.process.kill()?;
        equal(subject.tiny.end()?, test_process::KILLED)?;
    }
    // The state is as before.
    execute()
}
