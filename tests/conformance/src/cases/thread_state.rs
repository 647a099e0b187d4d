//! Registers of suspended threads: a read returns the thread's registers, and a thread resumes with the written ones.
//!
//! The thread belongs to a process of a few instructions, so that all of its register bits are known. Three routines
//! lie in its page: one spins, one loads registers from memory and spins, and one stores all registers to memory, sets
//! a mark, and spins.

use abi::{Status, zx_thread_state_fp_regs_t, zx_thread_state_general_regs_t, zx_thread_state_vector_regs_t};
use zx::{AsHandleRef, Event, Info, Rights, Signals, Suspend, Thread};

use super::{cases, late, raw, soon, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::{self, SPIN, TestProcess};

cases! {
    "thread.read_state.general" => read_general,
    "thread.read_state.fp" => read_fp,
    "thread.read_state.vector" => read_vector,
    "thread.read_state.fp_at_start" => read_fp_at_start,
    "thread.read_state.not_stopped" => read_not_stopped,
    "thread.read_state.in_a_call" => read_in_a_call,
    "thread.read_state.arguments" => read_arguments,
    "thread.write_state.general" => write_general,
    "thread.write_state.at_start" => write_at_start,
    "thread.write_state.fp" => write_fp,
    "thread.write_state.vector" => write_vector,
    "thread.write_state.vector_others_stay" => write_vector_others_stay,
    "thread.write_state.mxcsr_reserved" => write_mxcsr_reserved,
    "thread.write_state.vector_beyond" => write_vector_beyond,
    "thread.write_state.bases" => write_bases,
    "thread.write_state.addresses" => write_addresses,
    "thread.write_state.addresses_in_call" => write_addresses_in_call,
    "thread.write_state.privileged_flags" => write_privileged_flags,
    "thread.write_state.single_step" => write_single_step,
    "thread.write_state.out_of_a_call" => write_out_of_a_call,
    "thread.write_state.stays_in_a_call" => write_stays_in_a_call,
    "thread.write_state.not_stopped" => write_not_stopped,
    "thread.write_state.arguments" => write_arguments,
    "thread.flags.nested_task" => flags_nested_task,
    "thread.flags.alignment_check" => flags_alignment_check,
    "thread.fpu.long_computations" => fpu_long_computations,
}

/// Offsets in the process's memory, from the address in `rsi` on.
mod place {
    pub const YMM: usize = 0;
    pub const MXCSR: usize = 512;
    pub const X87: usize = 528;
    pub const FXSAVE: usize = 1024;
    pub const DONE: usize = 2048;
}

/// Offsets of the routines.
const LOAD: usize = 16;
const STORE: usize = 0x200;
const PUSH: usize = 0x600;

/// A process whose thread can be stopped with known registers.
struct Subject {
    tiny: TestProcess,
    /// Address of its memory; [`place`] has the layout.
    memory: usize,
}

impl Subject {
    fn new() -> Result<Self, Failure> {
        let mut code = vec![0xf4; 4096];
        let mut put = |at: usize, bytes: &[u8]| code[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, SPIN);
        put(LOAD, &load());
        put(STORE, &store());
        put(PUSH, &push());
        let tiny = TestProcess::new(&code)?;
        // Inside the stack, well below everything that the thread pushes.
        let memory = (tiny.stack - 0x3000) & !0xfff;
        Ok(Self { tiny, memory })
    }

    fn start(offset: usize) -> Result<Self, Failure> {
        let this = Self::new()?;
        let entry = TestProcess { entry: this.tiny.entry + offset, ..this.tiny };
        entry.start(None, this.memory)?;
        Ok(Self { tiny: TestProcess { entry: entry.entry - offset, ..entry }, memory: this.memory })
    }

    fn thread(&self) -> &Thread {
        &self.tiny.thread
    }

    fn suspend(&self) -> Result<Suspend, Failure> {
        let token = self.thread().suspend()?;
        self.thread().wait_one(Signals::THREAD_SUSPENDED, late())?;
        Ok(token)
    }

    /// Suspends the thread once it spins at the end of a routine.
    fn suspend_when_done(&self) -> Result<Suspend, Failure> {
        self.wait_done()?;
        self.suspend()
    }

    fn wait_done(&self) -> Outcome {
        for _ in 0..1000 {
            if self.bytes(place::DONE, 4)? == [1, 0, 0, 0] {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Err("the routine does not end".into())
    }

    fn general(&self) -> Result<zx_thread_state_general_regs_t, Failure> {
        Ok(self.thread().registers()?)
    }

    /// Resumes the thread in a routine, with `rsi` at its memory.
    fn go(&self, token: Suspend, offset: usize) -> Outcome {
        let mut registers = self.general()?;
        registers.rip = (self.tiny.entry + offset) as u64;
        registers.rsi = self.memory as u64;
        self.thread().set_registers(&registers)?;
        drop(token);
        Ok(())
    }

    fn bytes(&self, at: usize, len: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; len];
        equal(self.tiny.process.read_memory(self.memory + at, &mut bytes)?, len)?;
        Ok(bytes)
    }

    fn put(&self, at: usize, bytes: &[u8]) -> Outcome {
        equal(self.tiny.process.write_memory(self.memory + at, bytes)?, bytes.len())
    }

    fn words(&self, at: usize, count: usize) -> Result<Vec<u64>, Failure> {
        let bytes = self.bytes(at, count * 8)?;
        Ok(bytes.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?))).collect())
    }

    fn end(&self) -> Outcome {
        self.tiny.process.kill()?;
        equal(self.tiny.end()?, test_process::KILLED)
    }
}

/// An instruction with the operand `[rsi + at]`.
fn at_memory(opcode: &[u8], register: u8, at: usize) -> Vec<u8> {
    let mut bytes = opcode.to_vec();
    bytes.push(0x86 | (register & 7) << 3);
    bytes.extend((at as u32).to_le_bytes());
    bytes
}

/// `vmovdqu` of `ymm[register]` from (0x6f) or to (0x7f) memory.
fn move_ymm(operation: u8, register: u8) -> Vec<u8> {
    let prefix = if register < 8 { 0xfe } else { 0x7e };
    at_memory(&[0xc5, prefix, operation], register, place::YMM + 32 * usize::from(register))
}

/// `mov dword [rsi + DONE], 1; jmp .`
fn done() -> Vec<u8> {
    let mut bytes = at_memory(&[0xc7], 0, place::DONE);
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(SPIN);
    bytes
}

/// Loads all vector registers, MXCSR, and two numbers onto the x87 stack.
fn load() -> Vec<u8> {
    let mut code: Vec<u8> = (0..16).flat_map(|register| move_ymm(0x6f, register)).collect();
    code.extend(at_memory(&[0x0f, 0xae], 2, place::MXCSR));
    code.extend([0xdb, 0xe3]);
    code.extend(at_memory(&[0xdb], 5, place::X87));
    code.extend(at_memory(&[0xdb], 5, place::X87 + 16));
    code.extend(done());
    code
}

/// Stores all vector registers, MXCSR, and the x87 unit.
fn store() -> Vec<u8> {
    let mut code: Vec<u8> = (0..16).flat_map(|register| move_ymm(0x7f, register)).collect();
    code.extend(at_memory(&[0x0f, 0xae], 3, place::MXCSR));
    code.extend(at_memory(&[0x48, 0x0f, 0xae], 0, place::FXSAVE));
    code.extend(done());
    code
}

/// Pushes the flags, all general registers except rsp in the order of the processor's numbers, and `fs:[0]`. Afterwards
/// the original `rsi` is at `rsp + 80`.
fn push() -> Vec<u8> {
    let mut code = vec![0x9c, 0x50, 0x51, 0x52, 0x53, 0x55, 0x56, 0x57];
    for register in 0..8 {
        code.extend([0x41, 0x50 + register]);
    }
    // push fs:[0]
    code.extend([0x64, 0xff, 0x34, 0x25, 0, 0, 0, 0]);
    // mov dword [rsp - 8], 1; jmp .
    code.extend([0xc7, 0x44, 0x24, 0xf8, 1, 0, 0, 0]);
    code.extend(SPIN);
    code
}

/// A different number for each register.
fn pattern(n: usize) -> u64 {
    0x0123_4567_89ab_cdef_u64.rotate_left(n as u32 * 7) ^ n as u64
}

// --- general registers ---

fn read_general() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    // The registers of a new thread: two arguments, otherwise zeroes.
    let registers = subject.general()?;
    equal(registers.rip, subject.tiny.entry as u64)?;
    equal(registers.rsp, subject.tiny.stack as u64)?;
    equal((registers.rdi, registers.rsi), (0, subject.memory as u64))?;
    let r = &registers;
    let zeroes = [r.rax, r.rbx, r.rcx, r.rdx, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15];
    equal(zeroes, [0; 13])?;
    equal((r.fs_base, r.gs_base), (0, 0))?;
    // Interrupts are enabled, and bit 1 is always set.
    equal(r.rflags & 0x202, 0x202)?;
    drop(token);
    subject.end()
}

fn write_general() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let stack = subject.tiny.stack as u64 & !0xf;
    let flags = 0x0024_4cd5;
    subject.put(0, &pattern(40).to_le_bytes())?;
    let wanted = zx_thread_state_general_regs_t {
        rax: pattern(0),
        rcx: pattern(1),
        rdx: pattern(2),
        rbx: pattern(3),
        rbp: pattern(4),
        rsi: pattern(5),
        rdi: pattern(6),
        r8: pattern(7),
        r9: pattern(8),
        r10: pattern(9),
        r11: pattern(10),
        r12: pattern(11),
        r13: pattern(12),
        r14: pattern(13),
        r15: pattern(14),
        rsp: stack,
        rip: (subject.tiny.entry + PUSH) as u64,
        // All flags that a program may set, except the trap flag.
        rflags: flags,
        fs_base: subject.memory as u64,
        gs_base: 0,
    };
    subject.thread().set_registers(&wanted)?;
    // Flags that a program may not set keep their values.
    let read = subject.general()?;
    equal(read, zx_thread_state_general_regs_t { rflags: flags | 0x202, ..wanted })?;
    drop(token);
    let pushed = stack as usize - 17 * 8 - subject.memory;
    for _ in 0..1000 {
        if subject.bytes(pushed - 8, 4)? == [1, 0, 0, 0] {
            let found = subject.words(pushed, 17)?;
            equal(found[0], pattern(40))?;
            let registers: Vec<u64> = found[1..16].iter().rev().copied().collect();
            equal(registers, (0..15).map(pattern).collect())?;
            equal(found[16], flags | 0x202)?;
            return subject.end();
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Err("the thread did not go where it was sent".into())
}

fn write_at_start() -> Outcome {
    // A process is suspended before its first instruction, and its thread is redirected.
    let subject = Subject::new()?;
    let token = subject.tiny.thread.suspend()?;
    fails(subject.thread().registers::<zx_thread_state_general_regs_t>(), Status::BAD_STATE)?;
    subject.tiny.start(None, subject.memory)?;
    subject.thread().wait_one(Signals::THREAD_SUSPENDED, late())?;
    let registers = subject.general()?;
    equal(registers.rip, subject.tiny.entry as u64)?;
    equal(registers.rsp, subject.tiny.stack as u64)?;
    subject.go(token, STORE)?;
    subject.wait_done()?;
    subject.end()
}

// --- x87 and vector registers ---

/// 1.0 and pi in the x87 unit's format.
const NUMBERS: [[u64; 2]; 2] = [[0x8000_0000_0000_0000, 0x3fff], [0xc90f_daa2_2168_c235, 0x4000]];
const MXCSR: u32 = 0x5f80;

fn vectors() -> Vec<u8> {
    (0..64).flat_map(|n| pattern(n).to_le_bytes()).collect()
}

fn loaded() -> Result<(Subject, Suspend), Failure> {
    let subject = Subject::new()?;
    subject.put(place::YMM, &vectors())?;
    subject.put(place::MXCSR, &MXCSR.to_le_bytes())?;
    for (n, number) in NUMBERS.iter().enumerate() {
        let bytes: Vec<u8> = number.iter().flat_map(|word| word.to_le_bytes()).collect();
        subject.put(place::X87 + 16 * n, &bytes)?;
    }
    let tiny = &subject.tiny;
    let words = [tiny.process.raw_handle(), tiny.thread.raw_handle()];
    let status = raw!(zx_process_start, words[0], words[1], tiny.entry + LOAD, tiny.stack, 0, subject.memory);
    gives(status, Status::OK)?;
    let token = subject.suspend_when_done()?;
    Ok((subject, token))
}

fn read_fp() -> Outcome {
    let (subject, token) = loaded()?;
    let fp: zx_thread_state_fp_regs_t = subject.thread().registers()?;
    equal(fp.fcw, 0x37f)?;
    // The top of the stack is the last number; two of the eight registers are in use.
    equal(fp.fsw >> 11 & 7, 6)?;
    equal(fp.ftw, 0xc0)?;
    equal((fp.st[0], fp.st[1]), (NUMBERS[1], NUMBERS[0]))?;
    drop(token);
    subject.end()
}

fn read_vector() -> Outcome {
    let (subject, token) = loaded()?;
    let vector: zx_thread_state_vector_regs_t = subject.thread().registers()?;
    for (n, zmm) in vector.zmm.iter().enumerate() {
        let expected: Vec<u64> = (0..8).map(|i| if n < 16 && i < 4 { pattern(4 * n + i) } else { 0 }).collect();
        equal(zmm.to_vec(), expected)?;
    }
    equal(vector.opmask, [0; 8])?;
    equal(vector.mxcsr, MXCSR)?;
    drop(token);
    subject.end()
}

fn read_fp_at_start() -> Outcome {
    // A thread that has not used the unit has its initial state.
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let fp: zx_thread_state_fp_regs_t = subject.thread().registers()?;
    equal(fp, zx_thread_state_fp_regs_t { fcw: 0x37f, ..Default::default() })?;
    let vector: zx_thread_state_vector_regs_t = subject.thread().registers()?;
    equal(vector.mxcsr, 0x1f80)?;
    ensure(vector.zmm.iter().flatten().all(|&word| word == 0), "its vector registers are not zero")?;
    drop(token);
    subject.end()
}

fn write_fp() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let mut fp = zx_thread_state_fp_regs_t { fcw: 0x27f, fsw: 0x3000, ftw: 0xc0, ..Default::default() };
    fp.st = core::array::from_fn(|n| [1 << 63 | pattern(n), 0x3ff0 + n as u64]);
    subject.thread().set_registers(&fp)?;
    let read: zx_thread_state_fp_regs_t = subject.thread().registers()?;
    equal((read.fcw, read.fsw, read.ftw, read.st), (fp.fcw, fp.fsw, fp.ftw, fp.st))?;
    subject.go(token, STORE)?;
    subject.wait_done()?;
    let area = subject.words(place::FXSAVE, 20)?;
    equal(area[0] & 0xff_ffff_ffff, 0xc0_3000_027f)?;
    for (n, st) in fp.st.iter().enumerate() {
        equal([area[4 + 2 * n], area[5 + 2 * n] & 0xffff], *st)?;
    }
    subject.end()
}

fn a_vector_state() -> zx_thread_state_vector_regs_t {
    let mut state = zx_thread_state_vector_regs_t { mxcsr: 0x3f80, ..Default::default() };
    for (n, zmm) in state.zmm.iter_mut().take(16).enumerate() {
        for (i, word) in zmm.iter_mut().take(4).enumerate() {
            *word = pattern(100 + 4 * n + i);
        }
    }
    state
}

fn stored_vectors(subject: &Subject) -> Result<(Vec<u64>, u32), Failure> {
    subject.wait_done()?;
    let mxcsr = subject.bytes(place::MXCSR, 4)?;
    Ok((subject.words(place::YMM, 64)?, u32::from_le_bytes(mxcsr.try_into().map_err(|_| "four bytes")?)))
}

fn write_vector() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let state = a_vector_state();
    subject.thread().set_registers(&state)?;
    equal(subject.thread().registers::<zx_thread_state_vector_regs_t>()?, state)?;
    subject.go(token, STORE)?;
    let (words, mxcsr) = stored_vectors(&subject)?;
    equal(words, (100..164).map(pattern).collect())?;
    equal(mxcsr, 0x3f80)?;
    subject.end()
}

fn write_vector_others_stay() -> Outcome {
    // Vector registers and the x87 unit are written separately; another thread is not affected.
    let (subject, token) = loaded()?;
    let (other, other_token) = loaded()?;
    let before: zx_thread_state_fp_regs_t = subject.thread().registers()?;
    subject.thread().set_registers(&a_vector_state())?;
    equal(subject.thread().registers::<zx_thread_state_fp_regs_t>()?, before)?;
    subject.put(place::DONE, &[0; 4])?;
    other.put(place::DONE, &[0; 4])?;
    other.put(place::YMM, &[0; 512])?;
    subject.go(token, STORE)?;
    other.go(other_token, STORE)?;
    equal(stored_vectors(&subject)?.0, (100..164).map(pattern).collect())?;
    equal(stored_vectors(&other)?, ((0..64).map(pattern).collect(), MXCSR))?;
    let area = subject.words(place::FXSAVE, 8)?;
    equal([area[4], area[5] & 0xffff], NUMBERS[1])?;
    subject.end()?;
    other.end()
}

fn write_mxcsr_reserved() -> Outcome {
    let (subject, token) = loaded()?;
    for mxcsr in [1 << 16, 1 << 31, u32::MAX] {
        let state = zx_thread_state_vector_regs_t { mxcsr, ..a_vector_state() };
        fails(subject.thread().set_registers(&state), Status::INVALID_ARGS)?;
    }
    // The refused write changed nothing.
    let state: zx_thread_state_vector_regs_t = subject.thread().registers()?;
    equal((state.mxcsr, state.zmm[0][0]), (MXCSR, pattern(0)))?;
    drop(token);
    subject.end()
}

fn write_vector_beyond() -> Outcome {
    // Registers that this processor does not have are ignored.
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let mut state = a_vector_state();
    for (n, zmm) in state.zmm.iter_mut().enumerate() {
        zmm[if n < 16 { 4.. } else { 0.. }].fill(pattern(n));
    }
    state.opmask = [!0; 8];
    subject.thread().set_registers(&state)?;
    equal(subject.thread().registers::<zx_thread_state_vector_regs_t>()?, a_vector_state())?;
    drop(token);
    subject.end()
}

// --- bases, addresses, flags ---

fn write_bases() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let place = subject.memory as u64 + 64;
    subject.put(64, &pattern(7).to_le_bytes())?;
    let (fs, gs) = (abi::ZX_THREAD_X86_REGISTER_FS, abi::ZX_THREAD_X86_REGISTER_GS);
    subject.thread().write_state(fs, &place.to_le_bytes())?;
    let mut word = [0; 8];
    subject.thread().read_state(fs, &mut word)?;
    equal(u64::from_le_bytes(word), place)?;
    equal(subject.general()?.fs_base, place)?;
    // GS belongs to the system: it reads as 0, and no other value can be written.
    subject.thread().read_state(gs, &mut word)?;
    equal(word, [0; 8])?;
    subject.thread().write_state(gs, &[0; 8])?;
    fails(subject.thread().write_state(gs, &place.to_le_bytes()), Status::NOT_SUPPORTED)?;
    let with_gs = zx_thread_state_general_regs_t { gs_base: place, ..subject.general()? };
    fails(subject.thread().set_registers(&with_gs), Status::NOT_SUPPORTED)?;
    for kind in [fs, gs] {
        fails(subject.thread().write_state(kind, &(1_u64 << 47).to_le_bytes()), Status::INVALID_ARGS)?;
    }
    // The thread runs with the written values.
    let stack = subject.tiny.stack as u64 & !0xf;
    let mut registers = subject.general()?;
    registers.rsp = stack;
    registers.rip = (subject.tiny.entry + PUSH) as u64;
    subject.thread().set_registers(&registers)?;
    drop(token);
    let pushed = stack as usize - 17 * 8 - subject.memory;
    for _ in 0..1000 {
        if subject.bytes(pushed - 8, 4)? == [1, 0, 0, 0] {
            equal(subject.words(pushed, 1)?[0], pattern(7))?;
            return subject.end();
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Err("the thread did not go on".into())
}

/// Addresses outside the user's part.
const ADDRESSES: [u64; 5] = [1 << 47, 0xffff_7fff_ffff_ffff, 0xffff_8000_0000_0000, 1 << 63, u64::MAX];

fn bad_addresses(thread: &Thread) -> Outcome {
    let before: zx_thread_state_general_regs_t = thread.registers()?;
    for address in ADDRESSES {
        let rip = zx_thread_state_general_regs_t { rip: address, ..before };
        fails(thread.set_registers(&rip), Status::INVALID_ARGS)?;
        let fs_base = zx_thread_state_general_regs_t { fs_base: address, ..before };
        fails(thread.set_registers(&fs_base), Status::INVALID_ARGS)?;
        let gs_base = zx_thread_state_general_regs_t { gs_base: address, ..before };
        fails(thread.set_registers(&gs_base), Status::INVALID_ARGS)?;
    }
    equal(thread.registers::<zx_thread_state_general_regs_t>()?, before)
}

fn write_addresses() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    bad_addresses(subject.thread())?;
    // The last address of the user's part is valid but never mapped: the thread continues there and faults.
    let last = zx_thread_state_general_regs_t { rip: (1 << 47) - 1, ..subject.general()? };
    subject.thread().set_registers(&last)?;
    drop(token);
    equal(subject.tiny.end()?, test_process::EXCEPTION)
}

fn write_addresses_in_call() -> Outcome {
    // The same for a thread that is blocked in a system call.
    let waiter = Waiter::start()?;
    waiter.blocked()?;
    let token = waiter.suspend()?;
    bad_addresses(waiter.thread())?;
    drop(token);
    waiter.first.signal(Signals::NONE, Signals::USER_0)?;
    equal(waiter.caller.end(FIRST)?, 0)?;
    // The last address of the user's part is valid. Before the thread gets there, the case redirects it to its second
    // wait.
    let waiter = Waiter::start()?;
    waiter.blocked()?;
    let token = waiter.suspend()?;
    let before: zx_thread_state_general_regs_t = waiter.thread().registers()?;
    let last = zx_thread_state_general_regs_t { rip: (1 << 47) - 1, ..before };
    waiter.thread().set_registers(&last)?;
    equal(waiter.thread().registers::<zx_thread_state_general_regs_t>()?, last)?;
    waiter.send()?;
    drop(token);
    waiter.blocked()?;
    waiter.second.signal(Signals::NONE, Signals::USER_0)?;
    equal(waiter.caller.end(SECOND)?, 0)
}

fn write_privileged_flags() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let before = subject.general()?.rflags;
    // Interrupts off, I/O privilege, resume, virtual-8086 mode, virtual interrupts: a program may change none of them.
    let flags = (before & !0x200) | 0x3000 | 1 << 16 | 1 << 17 | 1 << 19 | 1 << 20;
    subject.thread().set_registers(&zx_thread_state_general_regs_t { rflags: flags, ..subject.general()? })?;
    equal(subject.general()?.rflags, before)?;
    drop(token);
    subject.end()
}

fn write_single_step() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let kind = abi::ZX_THREAD_STATE_SINGLE_STEP;
    let mut state = [9; 4];
    subject.thread().read_state(kind, &mut state)?;
    equal(state, [0; 4])?;
    for wrong in [2_u32, u32::MAX] {
        fails(subject.thread().write_state(kind, &wrong.to_le_bytes()), Status::INVALID_ARGS)?;
    }
    // Too few bytes are refused; bytes behind the state are ignored.
    fails(subject.thread().write_state(kind, &[1, 0, 0]), Status::BUFFER_TOO_SMALL)?;
    subject.thread().write_state(kind, &[0, 0, 0, 0, 2])?;
    subject.thread().write_state(kind, &1_u32.to_le_bytes())?;
    subject.thread().read_state(kind, &mut state)?;
    equal(u32::from_le_bytes(state), 1)?;
    subject.thread().write_state(kind, &0_u32.to_le_bytes())?;
    subject.thread().read_state(kind, &mut state)?;
    equal(u32::from_le_bytes(state), 0)?;
    // Without the flag the thread continues to spin. With it, the next instruction raises an exception that no handler
    // takes, which ends the process.
    drop(token);
    fails(subject.tiny.process.wait_one(Signals::TASK_TERMINATED, soon(20)), Status::TIMED_OUT)?;
    let token = subject.suspend()?;
    subject.thread().write_state(kind, &1_u32.to_le_bytes())?;
    drop(token);
    equal(subject.tiny.end()?, test_process::EXCEPTION)
}

// --- a thread in a call ---

const FIRST: usize = 32;
const SECOND: usize = 48;

/// A thread of this program that the case creates by hand: it calls a function and stores the result.
///
/// Its memory holds two handles, the function's address, the address of `zx_thread_exit`, and two results, each with a
/// mark that says that it was stored.
struct Caller {
    thread: Thread,
    code: usize,
    memory: zx::Vmo,
    address: usize,
}

/// Offset of the routine that waits for the second event.
const AGAIN: usize = 128;
/// Offset of the routine that sets the alignment-check flag before its call.
const ALIGNED: usize = 256;

impl Caller {
    fn start(offset: usize, handles: [u32; 2], function: usize) -> Result<Self, Failure> {
        let mut page = [0xcc; 512];
        let mut put = |at: usize, parts: &[&[u8]]| {
            let bytes = parts.concat();
            page[at..at + bytes.len()].copy_from_slice(&bytes);
        };
        // mov rbx, rdi; mov [rbx + 16], rsi
        let begin = [0x48, 0x89, 0xfb, 0x48, 0x89, 0x73, 0x10];
        // mov esi, USER_0; mov rdx, for ever; xor ecx, ecx; call [rbx + 16]
        let wait = [
            0xbe, 0, 0, 0, 1, 0x48, 0xba, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x31, 0xc9, 0xff, 0x53, 0x10,
        ];
        // mov [rbx + at], rax; mov dword [rbx + at + 8], 1; call [rbx + 24]
        let end = |at: usize| {
            let at = at as u8;
            [0x48, 0x89, 0x43, at, 0xc7, 0x43, at + 8, 1, 0, 0, 0, 0xff, 0x53, 24]
        };
        // mov edi, [rbx]
        put(0, &[&begin, &[0x8b, 0x3b], &wait, &end(FIRST)]);
        // mov edi, [rbx + 8]
        put(AGAIN, &[&[0x8b, 0x7b, 8], &wait, &end(SECOND)]);
        // pushf; or dword [rsp], 0x40000; popf; xor edi, edi; lea rsi, [rbx + 61]; call [rbx + 16]; pushf;
        // pop [rbx + SECOND]
        let call = [
            0x9c,
            0x81,
            0x0c,
            0x24,
            0,
            0,
            4,
            0,
            0x9d,
            0x31,
            0xff,
            0x48,
            0x8d,
            0x73,
            61,
            0xff,
            0x53,
            0x10,
            0x9c,
            0x8f,
            0x43,
            SECOND as u8,
        ];
        put(ALIGNED, &[&begin, &call, &end(FIRST)]);

        let vmar = zx::startup::vmar_root_self();
        let perm = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE;
        let code = vmar.map(perm, 0, &test_process::code(&page)?, 0, 4096)?;
        let memory = zx::Vmo::create(8192, 0)?;
        let address = vmar.map(abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE, 0, &memory, 0, 8192)?;
        memory.write(&handles[0].to_le_bytes(), 0)?;
        memory.write(&handles[1].to_le_bytes(), 8)?;
        memory.write(&(zx::sys::zx_thread_exit as *const () as usize).to_le_bytes(), 24)?;
        let thread = zx::startup::process_self().create_thread("by hand")?;
        thread.start(code + offset, address + 8184, address, function)?;
        Ok(Self { thread, code, memory, address })
    }

    fn word(&self, at: usize) -> Result<u64, Failure> {
        let mut word = [0; 8];
        self.memory.read(&mut word, at as u64)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Waits for the thread's end; returns the result at offset `at`.
    fn end(&self, at: usize) -> Result<i64, Failure> {
        self.thread.wait_one(Signals::THREAD_TERMINATED, late())?;
        let vmar = zx::startup::vmar_root_self();
        vmar.unmap(self.code, 4096)?;
        vmar.unmap(self.address, 8192)?;
        equal(self.word(at + 8)? as u32, 1)?;
        Ok(self.word(at)? as i64)
    }
}

/// A thread that is blocked in a call has the stack pointer of its call: a few frames below the top of its page.
fn read_in_a_call() -> Outcome {
    let waiter = Waiter::start()?;
    waiter.blocked()?;
    let token = waiter.suspend()?;
    let registers: zx_thread_state_general_regs_t = waiter.thread().registers()?;
    let top = waiter.caller.address as u64 + 8184;
    ensure((top - 512..top).contains(&registers.rsp), &format!("{:#x} below {top:#x}", registers.rsp))?;
    // As soon as the call is over, they are the registers behind it.
    waiter.first.signal(Signals::NONE, Signals::USER_0)?;
    let over: zx_thread_state_general_regs_t = waiter.thread().registers()?;
    equal((over.rip, over.rsp), (registers.rip + 2, registers.rsp))?;
    // The thread has its result even if it gets the registers from before.
    waiter.thread().set_registers(&registers)?;
    drop(token);
    equal(waiter.caller.end(FIRST)?, 0)
}

/// A thread of this program that waits for a signal of one event or, when it is redirected, of another one.
struct Waiter {
    caller: Caller,
    first: Event,
    second: Event,
}

impl Waiter {
    fn start() -> Result<Self, Failure> {
        let (first, second) = (Event::create()?, Event::create()?);
        let handles = [first.raw_handle(), second.raw_handle()];
        let caller = Caller::start(0, handles, zx::sys::zx_object_wait_one as *const () as usize)?;
        Ok(Self { caller, first, second })
    }

    fn thread(&self) -> &Thread {
        &self.caller.thread
    }

    /// Waits until the thread is blocked in its wait.
    fn blocked(&self) -> Outcome {
        for _ in 0..1000 {
            if self.thread().info()?.state == abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Err("the thread does not wait".into())
    }

    fn suspend(&self) -> Result<Suspend, Failure> {
        let token = self.thread().suspend()?;
        self.thread().wait_one(Signals::THREAD_SUSPENDED, late())?;
        Ok(token)
    }

    /// Redirects the suspended thread to its second wait.
    fn send(&self) -> Outcome {
        let mut registers: zx_thread_state_general_regs_t = self.thread().registers()?;
        registers.rip = (self.caller.code + AGAIN) as u64;
        registers.rsp = self.caller.address as u64 + 8184;
        registers.rbx = self.caller.address as u64;
        Ok(self.thread().set_registers(&registers)?)
    }
}

fn write_out_of_a_call() -> Outcome {
    for ended in [false, true] {
        let waiter = Waiter::start()?;
        waiter.blocked()?;
        let token = waiter.suspend()?;
        if ended {
            // The wait is satisfied, but the thread has not run since.
            waiter.first.signal(Signals::NONE, Signals::USER_0)?;
        }
        waiter.send()?;
        drop(token);
        // The first wait no longer concerns the thread: neither its end nor its signal affects the second wait.
        waiter.blocked()?;
        waiter.first.signal(Signals::NONE, Signals::USER_0)?;
        fails(waiter.thread().wait_one(Signals::THREAD_TERMINATED, soon(20)), Status::TIMED_OUT)?;
        waiter.blocked()?;
        waiter.second.signal(Signals::NONE, Signals::USER_0)?;
        equal(waiter.caller.end(SECOND)?, 0)?;
        equal(waiter.caller.word(FIRST + 8)?, 0)?;
    }
    Ok(())
}

fn write_stays_in_a_call() -> Outcome {
    for ended in [false, true] {
        let waiter = Waiter::start()?;
        waiter.blocked()?;
        let token = waiter.suspend()?;
        if ended {
            waiter.first.signal(Signals::NONE, Signals::USER_0)?;
        }
        // Writes another register than the instruction pointer, and restores it.
        let registers: zx_thread_state_general_regs_t = waiter.thread().registers()?;
        let other = zx_thread_state_general_regs_t { r12: !registers.r12, ..registers };
        waiter.thread().set_registers(&other)?;
        equal(waiter.thread().registers::<zx_thread_state_general_regs_t>()?, other)?;
        waiter.thread().set_registers(&registers)?;
        drop(token);
        if !ended {
            waiter.blocked()?;
            waiter.first.signal(Signals::NONE, Signals::USER_0)?;
        }
        equal(waiter.caller.end(FIRST)?, 0)?;
    }
    Ok(())
}

// --- what is refused ---

/// All kinds with their sizes in bytes.
const KINDS: [(u32, usize); 7] = [
    (abi::ZX_THREAD_STATE_GENERAL_REGS, size_of::<zx_thread_state_general_regs_t>()),
    (abi::ZX_THREAD_STATE_FP_REGS, size_of::<zx_thread_state_fp_regs_t>()),
    (abi::ZX_THREAD_STATE_VECTOR_REGS, size_of::<zx_thread_state_vector_regs_t>()),
    (abi::ZX_THREAD_STATE_DEBUG_REGS, size_of::<abi::zx_thread_state_debug_regs_t>()),
    (abi::ZX_THREAD_STATE_SINGLE_STEP, 4),
    (abi::ZX_THREAD_X86_REGISTER_FS, 8),
    (abi::ZX_THREAD_X86_REGISTER_GS, 8),
];

fn not_standing(state: impl Fn(&Thread, u32, &mut [u8]) -> zx::Result<()>) -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let refused = || {
        for (kind, size) in KINDS {
            fails(state(&tiny.thread, kind, &mut vec![0; size]), Status::BAD_STATE)?;
        }
        Ok::<_, Failure>(())
    };
    // The thread is new, also with a suspend token; it runs; it is dead; it is the caller itself.
    refused()?;
    let token = tiny.thread.suspend()?;
    refused()?;
    drop(token);
    tiny.start(None, 0)?;
    refused()?;
    tiny.process.kill()?;
    tiny.end()?;
    refused()?;
    let current = zx::startup::thread_self();
    fails(state(&current, abi::ZX_THREAD_STATE_GENERAL_REGS, &mut [0; 160]), Status::BAD_STATE)
}

fn read_not_stopped() -> Outcome {
    not_standing(|thread, kind, bytes| thread.read_state(kind, bytes))
}

fn write_not_stopped() -> Outcome {
    not_standing(|thread, kind, bytes| thread.write_state(kind, bytes))
}

fn read_arguments() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let thread = subject.thread();
    for (kind, size) in KINDS {
        let mut bytes = vec![0x55; size + 8];
        fails(thread.read_state(kind, &mut bytes[..size - 1]), Status::BUFFER_TOO_SMALL)?;
        fails(thread.read_state(kind, &mut []), Status::BUFFER_TOO_SMALL)?;
        equal(&bytes[..], &vec![0x55; size + 8][..])?;
        // A larger buffer is accepted.
        thread.read_state(kind, &mut bytes)?;
        equal(&bytes[size..], &[0x55; 8][..])?;
        for address in [0, 8, 0xffff_8000_0000_0000_u64] {
            gives(raw!(zx_thread_read_state, thread.raw_handle(), kind, address, size), Status::INVALID_ARGS)?;
        }
    }
    for kind in [3, 8, 100, u32::MAX] {
        fails(thread.read_state(kind, &mut [0; 64]), Status::INVALID_ARGS)?;
    }
    let weak = Thread::from(without(thread, Rights::READ)?);
    fails(weak.read_state(abi::ZX_THREAD_STATE_GENERAL_REGS, &mut [0; 160]), Status::ACCESS_DENIED)?;
    let mut out = [0_u64; 20];
    let process = subject.tiny.process.raw_handle();
    gives(raw!(zx_thread_read_state, process, 0, &raw mut out, 160), Status::WRONG_TYPE)?;
    gives(raw!(zx_thread_read_state, 0, 0, &raw mut out, 160), Status::BAD_HANDLE)?;
    drop(token);
    subject.end()
}

fn write_arguments() -> Outcome {
    let subject = Subject::start(0)?;
    let token = subject.suspend()?;
    let thread = subject.thread();
    let before = subject.general()?;
    for (kind, size) in KINDS {
        let mut bytes = vec![0; size + 8];
        fails(thread.write_state(kind, &bytes[..size - 1]), Status::BUFFER_TOO_SMALL)?;
        fails(thread.write_state(kind, &[]), Status::BUFFER_TOO_SMALL)?;
        // The thread's own state is valid; a larger buffer is accepted.
        thread.read_state(kind, &mut bytes[..size])?;
        bytes[size..].fill(0x55);
        thread.write_state(kind, &bytes)?;
        for address in [0, 8, 0xffff_8000_0000_0000_u64] {
            gives(raw!(zx_thread_write_state, thread.raw_handle(), kind, address, size), Status::INVALID_ARGS)?;
        }
    }
    for kind in [3, 8, 100, u32::MAX] {
        fails(thread.write_state(kind, &[0; 8]), Status::INVALID_ARGS)?;
    }
    let huge = raw!(zx_thread_write_state, thread.raw_handle(), 0, subject.memory, usize::MAX);
    gives(huge, Status::INVALID_ARGS)?;
    let weak = Thread::from(without(thread, Rights::WRITE)?);
    fails(weak.set_registers(&before), Status::ACCESS_DENIED)?;
    equal(subject.general()?, before)?;
    drop(token);
    subject.end()
}

// --- what programs do by themselves ---

fn flags_nested_task() -> Outcome {
    // NT makes `iret` fault while it is set. A thread with NT enters the kernel, which then returns to another thread
    // that it had interrupted: NT must not be set any more.
    // pushf; or dword [rsp], 0x4000; popf; mov ebx, 50; again: mov rdx, -7; syscall; dec ebx; jnz again; ud2
    let other = test_process::spinning()?;
    test_process::dies(&[
        0x9c, 0x81, 0x0c, 0x24, 0, 0x40, 0, 0, 0x9d, 0xbb, 50, 0, 0, 0, 0x48, 0xc7, 0xc2, 0xf9, 0xff, 0xff, 0xff, 0x0f,
        0x05, 0xff, 0xcb, 0x75, 0xf3, 0x0f, 0x0b,
    ])?;
    other.process.kill()?;
    equal(other.end()?, test_process::KILLED)
}

fn flags_alignment_check() -> Outcome {
    // A call by a thread with the alignment-check flag writes to an odd address, and the flag is still set afterwards.
    let function = zx::sys::zx_event_create as *const () as usize;
    let caller = Caller::start(ALIGNED, [0; 2], function)?;
    equal(caller.end(FIRST)?, 0)?;
    ensure(caller.word(SECOND)? & 0x4_0000 != 0, "the flag is gone")?;
    let mut handle = [0; 4];
    caller.memory.read(&mut handle, 61)?;
    let event = zx::Handle::from_raw(u32::from_le_bytes(handle)).ok_or("there is no event")?;
    equal(event.basic_info()?.type_, abi::ZX_OBJ_TYPE_EVENT)
}

fn fpu_long_computations() -> Outcome {
    // Threads that compute at the same time, with other threads between them, keep their own x87 and vector registers.
    fn compute(seed: f64) -> f64 {
        let (mut x, mut sum) = (seed, 0.0_f64);
        for n in 0..60_000 {
            x = 3.99 * x * (1.0 - x);
            sum += x.sqrt() / f64::from(n + 1);
            if n % 5000 == 0 {
                std::thread::yield_now();
            }
        }
        sum
    }
    let seeds: Vec<f64> = (1..=6).map(|n| f64::from(n) / 7.5).collect();
    let alone: Vec<u64> = seeds.iter().map(|&seed| compute(seed).to_bits()).collect();
    // The results of IEEE 754 on any machine.
    let known = [
        0x401e_a713_c928_2ea6,
        0x4020_46dc_ed4d_024e,
        0x401f_7e50_6bbc_2141,
        0x401f_9d41_7242_488b,
        0x4020_215f_167b_16c0,
        0x4020_5796_b464_5f63,
    ];
    equal(alone.as_slice(), known.as_slice())?;
    let threads: Vec<_> = seeds.iter().map(|&seed| std::thread::spawn(move || compute(seed).to_bits())).collect();
    let together: Result<Vec<u64>, _> = threads.into_iter().map(std::thread::JoinHandle::join).collect();
    equal(together.map_err(|_| "a thread panicked")?, alone)
}
