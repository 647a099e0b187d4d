//! Vector registers: a thread that saves them without having used them finds the initial state, and a thread that loads
//! them changes only its own. All code here consists of a few instructions, because compiled programs use these
//! registers at once.
//!
//! A *victim* fills its vector registers (AVX if the kernel is configured for it, otherwise SSE) and computes with them
//! for ever. An *attacker* waits, without using them, until the victim has run: the victim is then in the middle of its
//! code, and its registers are in the processor if the kernel has left them there.

use std::thread;
use std::time::{Duration, Instant};

use abi::{
    ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC, hafnon_vproc_run_t, hafnon_vproc_state_t,
};
use conformance::check::{Case, Failure, Outcome, ensure, equal};
use conformance::test_process::{EXCEPTION, OwnJob, TestProcess, code};
use hostile::neighbour::Neighbour;
use zx::{AsHandleRef, Exit, MonotonicInstant, Process, Rights, Signals, Status, VirtualProcessor, Vmo, map_runs};

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.vectors.saved", saved),
        crate::case("tamper.vectors.loaded", loaded),
        crate::case("tamper.vectors.in_use", in_use),
        crate::case("tamper.vectors.processors", processors),
    ]
}

/// The page that victim and attackers share, followed by the page for saved and loaded registers. `rsi` points to it.
const SHARED: usize = 0x300_0000;
const SHARED_SIZE: u64 = 0x2000;
/// Offsets in it: the victim's turns, a wrong value that it found in a register, and whether an attacker got behind its
/// instruction.
const TURNS: u64 = 0;
const CHANGED: u64 = 8;
const DONE: u64 = 16;
/// Offset of 32 bytes that the victim has in its registers, of its MXCSR and its x87 control word.
const SECRET: u64 = 0x800;
const AREA: u64 = 0x1000;
/// Bytes of x87, SSE and AVX state, as XSAVE writes it.
const AREA_BYTES: usize = 832;

const SECRETS: [u64; 4] = [0x5ec2_e701_0203_0405, 0x5ec2_e711_1213_1415, 0x5ec2_e721_2223_2425, 0x5ec2_e731_3233_3435];

const FILLS: &[u8] = &[
    0x0f, 0xae, 0x96, 0x20, 0x08, 0x00, 0x00, // ldmxcsr [rsi + 0x820]
    0xd9, 0xae, 0x28, 0x08, 0x00, 0x00, //       fldcw [rsi + 0x828]
    0xdd, 0x86, 0x00, 0x08, 0x00, 0x00, //       fld qword ptr [rsi + 0x800]
];
/// The victim's turns after that, with AVX.
const TURNS_AVX: &[u8] = &[
    0xc5, 0xfe, 0x6f, 0x86, 0x00, 0x08, 0x00, 0x00, // vmovdqu ymm0, [rsi + 0x800]
    0xc5, 0xfd, 0x6f, 0xf8, //                         vmovdqa ymm7, ymm0
    0xc5, 0x7d, 0x6f, 0xf8, //                         vmovdqa ymm15, ymm0
    0x48, 0xff, 0x06, //                               L: inc qword ptr [rsi]
    0xc5, 0xfe, 0x7f, 0xbe, 0x40, 0x08, 0x00, 0x00, // vmovdqu [rsi + 0x840], ymm7
    0x48, 0x8b, 0x86, 0x40, 0x08, 0x00, 0x00, //       mov rax, [rsi + 0x840]
    0x48, 0x3b, 0x86, 0x00, 0x08, 0x00, 0x00, //       cmp rax, [rsi + 0x800]
    0x75, 0x10, //                                     jne M
    0x48, 0x8b, 0x86, 0x58, 0x08, 0x00, 0x00, //       mov rax, [rsi + 0x858]
    0x48, 0x3b, 0x86, 0x18, 0x08, 0x00, 0x00, //       cmp rax, [rsi + 0x818]
    0x74, 0xd5, //                                     je L
    0x48, 0x89, 0x46, 0x08, //                         M: mov [rsi + 8], rax
    0x0f, 0x0b, //                                     ud2
];
/// The same with SSE.
const TURNS_SSE: &[u8] = &[
    0xf3, 0x0f, 0x6f, 0x86, 0x00, 0x08, 0x00, 0x00, // movdqu xmm0, [rsi + 0x800]
    0x66, 0x0f, 0x6f, 0xf8, //                         movdqa xmm7, xmm0
    0x66, 0x44, 0x0f, 0x6f, 0xf8, //                   movdqa xmm15, xmm0
    0x48, 0xff, 0x06, //                               L: inc qword ptr [rsi]
    0xf3, 0x0f, 0x7f, 0xbe, 0x40, 0x08, 0x00, 0x00, // movdqu [rsi + 0x840], xmm7
    0x48, 0x8b, 0x86, 0x40, 0x08, 0x00, 0x00, //       mov rax, [rsi + 0x840]
    0x48, 0x3b, 0x86, 0x00, 0x08, 0x00, 0x00, //       cmp rax, [rsi + 0x800]
    0x75, 0x10, //                                     jne M
    0x48, 0x8b, 0x86, 0x48, 0x08, 0x00, 0x00, //       mov rax, [rsi + 0x848]
    0x48, 0x3b, 0x86, 0x08, 0x08, 0x00, 0x00, //       cmp rax, [rsi + 0x808]
    0x74, 0xd5, //                                     je L
    0x48, 0x89, 0x46, 0x08, //                         M: mov [rsi + 8], rax
    0x0f, 0x0b, //                                     ud2
];

/// Whether the kernel switches AVX's registers; it has enabled them in the processor then.
fn has_avx() -> bool {
    std::is_x86_feature_detected!("avx")
}

/// Waits until the victim has made a turn, without using a vector register.
const WAITS: &[u8] = &[
    0x48, 0x8b, 0x0e, //             mov rcx, [rsi]
    0x48, 0x3b, 0x0e, //             L: cmp rcx, [rsi]
    0x74, 0xfb, //                   je L
    0x31, 0xd2, //                   xor edx, edx
    0xb8, 0x07, 0x00, 0x00, 0x00, // mov eax, 7
];
const IS_DONE: &[u8] = &[0x48, 0xc7, 0x46, 0x10, 0x01, 0x00, 0x00, 0x00]; // mov qword ptr [rsi + 16], 1
/// Ends a process by an exception, and stops a virtual processor.
const ENDS: &[u8] = &[0x0f, 0x0b]; // ud2

/// Instructions that save registers in the area, each with the number of register bytes, if the processor has it.
const SAVES: [(&str, &[u8], usize); 6] = [
    ("xsave64", &[0x48, 0x0f, 0xae, 0xa6, 0x00, 0x10, 0x00, 0x00], AREA_BYTES),
    ("xsaveopt64", &[0x48, 0x0f, 0xae, 0xb6, 0x00, 0x10, 0x00, 0x00], AREA_BYTES),
    ("xsavec64", &[0x48, 0x0f, 0xc7, 0xa6, 0x00, 0x10, 0x00, 0x00], AREA_BYTES),
    ("fxsave64", &[0x48, 0x0f, 0xae, 0x86, 0x00, 0x10, 0x00, 0x00], 512),
    // vmovdqu [rsi + 0x1000], ymm7
    ("vmovdqu", &[0xc5, 0xfe, 0x7f, 0xbe, 0x00, 0x10, 0x00, 0x00], 32),
    // stmxcsr [rsi + 0x1018], where FXSAVE has it
    ("stmxcsr", &[0x0f, 0xae, 0x9e, 0x18, 0x10, 0x00, 0x00], 28),
];

/// Instructions that load registers from there, or clear them.
const LOADS: [(&str, &[u8]); 5] = [
    ("xrstor64", &[0x48, 0x0f, 0xae, 0xae, 0x00, 0x10, 0x00, 0x00]),
    ("fxrstor64", &[0x48, 0x0f, 0xae, 0x8e, 0x00, 0x10, 0x00, 0x00]),
    ("ldmxcsr", &[0x0f, 0xae, 0x96, 0x18, 0x10, 0x00, 0x00]),
    ("vzeroall", &[0xc5, 0xfc, 0x77]),
    ("fninit", &[0xdb, 0xe3]),
];

/// The memory of a victim and its attackers.
fn shared() -> Result<Vmo, Failure> {
    let memory = Vmo::create(SHARED_SIZE, 0)?;
    for (word, place) in SECRETS.into_iter().zip((SECRET..).step_by(8)) {
        memory.write(&word.to_le_bytes(), place)?;
    }
    // Flush to zero, and less precision, with all exceptions masked.
    memory.write(&0x9fc0_u32.to_le_bytes(), SECRET + 32)?;
    memory.write(&0x007f_u16.to_le_bytes(), SECRET + 40)?;
    Ok(memory)
}

fn word(memory: &Vmo, place: u64) -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    memory.read(&mut bytes, place)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Runs machine code on the shared memory: a process's first thread, or a virtual processor in a process without
/// threads.
struct CodeRunner {
    process: Process,
    thread: Option<thread::JoinHandle<Result<Exit, Status>>>,
}

impl CodeRunner {
    fn new(job: &OwnJob, bytes: &[u8], memory: &Vmo, on_processor: bool) -> Result<Self, Failure> {
        let (read_write, read_execute) = (ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE);
        if !on_processor {
            let tiny = TestProcess::in_job(job, bytes)?;
            let at = tiny.vmar.map(read_write | ZX_VM_SPECIFIC, SHARED, memory, 0, SHARED_SIZE as usize)?;
            tiny.start(None, at)?;
            return Ok(Self { process: tiny.process, thread: None });
        }
        const CODE: u64 = 0x100_0000;
        let (process, vmar) = job.create_process("domain")?;
        let run = |address, len, options| hafnon_vproc_run_t { address, offset: 0, len, options, reserved: 0 };
        map_runs(&vmar, &code(bytes)?, &[run(CODE, 4096, read_execute)])?;
        map_runs(&vmar, memory, &[run(SHARED as u64, SHARED_SIZE, read_write)])?;
        let entered = process.duplicate(Rights::SAME_RIGHTS)?;
        let thread = thread::spawn(move || {
            let root = zx::startup::vmar_root_self();
            let mut processor = VirtualProcessor::create(&root)?;
            *processor.state() =
                hafnon_vproc_state_t { ip: CODE, rsi: SHARED as u64, flags: 0x202, ..Default::default() };
            processor.enter(&entered)
        });
        Ok(Self { process, thread: Some(thread) })
    }

    /// Waits for the end of its code, an undefined instruction.
    fn end(self) -> Outcome {
        const UNDEFINED: u64 = 6;
        match self.thread {
            None => {
                let deadline = MonotonicInstant::after(zx::Duration::from_seconds(20));
                self.process.wait_one(Signals::TASK_TERMINATED, deadline)?;
                equal(self.process.info()?.return_code, EXCEPTION)
            }
            Some(thread) => equal(thread.join().map_err(|_| "it panicked")??, Exit::Exception(UNDEFINED)),
        }
    }

    /// Ends it from outside.
    fn kill(self) -> Outcome {
        self.process.kill()?;
        // Its owner gets a stop: the code's process is gone.
        self.thread.map_or(Ok(()), |thread| thread.join().map(drop).map_err(|_| "it panicked".into()))
    }
}

/// A victim that computes, in a job of its own.
fn victim(memory: &Vmo, on_processor: bool) -> Result<(OwnJob, CodeRunner), Failure> {
    let job = OwnJob::new()?;
    let turns = if has_avx() { TURNS_AVX } else { TURNS_SSE };
    let victim = CodeRunner::new(&job, &[FILLS, turns].concat(), memory, on_processor)?;
    goes_on(memory)?;
    Ok((job, victim))
}

/// Checks that the victim makes turns and has its own values in its registers.
fn goes_on(memory: &Vmo) -> Outcome {
    let (before, start) = (word(memory, TURNS)?, Instant::now());
    while word(memory, TURNS)? < before + 1000 {
        equal(word(memory, CHANGED)?, 0)?;
        ensure(start.elapsed() < Duration::from_secs(20), "the victim stands still")?;
        thread::sleep(Duration::from_millis(1));
    }
    equal(word(memory, CHANGED)?, 0)
}

/// The registers of a new thread, as the instructions save them.
fn at_start() -> [u8; AREA_BYTES] {
    let mut area = [0; AREA_BYTES];
    area[..2].copy_from_slice(&0x037f_u16.to_le_bytes());
    area[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
    area
}

/// Checks that an instruction saved that state. Ignores what is no register in the area: which components are present,
/// and the mask of MXCSR.
fn is_at_start(area: &mut [u8; AREA_BYTES], name: &str, len: usize) -> Outcome {
    let mut wanted = at_start();
    match name {
        "vmovdqu" => wanted[..2].fill(0),
        "stmxcsr" => wanted[..24].fill(0),
        _ => {}
    }
    if name == "vmovdqu" {
        wanted[24..28].fill(0);
    }
    area[28..32].fill(0);
    area[512..576].fill(0);
    let different = area[..len].iter().zip(&wanted[..len]).position(|(found, wanted)| found != wanted);
    different.map_or(Ok(()), |at| Err(format!("{name} found {:02x?} at {at}", &area[at..len.min(at + 8)]).into()))
}

/// Attackers, one after another, that save registers which they never used, beside one victim.
fn saved_beside(victim_on_processor: bool, attacker_on_processor: bool) -> Outcome {
    const TIMES: usize = 3;
    let memory = shared()?;
    let (_job, victim) = victim(&memory, victim_on_processor)?;
    for (name, instruction, len) in SAVES {
        for _ in 0..TIMES {
            let job = OwnJob::new()?;
            let mut area = [0; AREA_BYTES];
            memory.write(&area, AREA)?;
            memory.write(&[0; 8], DONE)?;
            let bytes = [WAITS, instruction, IS_DONE, ENDS].concat();
            CodeRunner::new(&job, &bytes, &memory, attacker_on_processor)?.end()?;
            memory.read(&mut area, AREA)?;
            match word(&memory, DONE)? {
                // The processor does not have it.
                0 => equal(area, [0; AREA_BYTES])?,
                _ => is_at_start(&mut area, name, len)?,
            }
        }
    }
    goes_on(&memory)?;
    victim.kill()
}

fn saved(_: &mut Neighbour) -> Outcome {
    saved_beside(false, false)
}

/// The same between virtual processors, and between one and a thread.
fn processors(_: &mut Neighbour) -> Outcome {
    saved_beside(true, true)?;
    saved_beside(true, false)?;
    saved_beside(false, true)
}

/// Attackers that load registers: the victim keeps its own.
fn loaded(_: &mut Neighbour) -> Outcome {
    for on_processor in [false, true] {
        let memory = shared()?;
        let (_job, victim) = victim(&memory, on_processor)?;
        for (_, instruction) in LOADS {
            let job = OwnJob::new()?;
            let mut area = at_start();
            area[160..416].fill(0xee);
            // The components in the area (XRSTOR refuses those that the kernel has not enabled), and the upper halves.
            area[512] = if has_avx() { 7 } else { 3 };
            area[576..].fill(0xee);
            memory.write(&area, AREA)?;
            // The attacker runs once more after the victim has.
            let bytes = [WAITS, instruction, WAITS, ENDS].concat();
            CodeRunner::new(&job, &bytes, &memory, on_processor)?.end()?;
            goes_on(&memory)?;
        }
        victim.kill()?;
    }
    Ok(())
}

/// XGETBV with 1 tells which of a thread's own components are in use, independent of other threads.
fn in_use(_: &mut Neighbour) -> Outcome {
    const XGETBV: &[u8] = &[
        0xb9, 0x01, 0x00, 0x00, 0x00, //             mov ecx, 1
        0x0f, 0x01, 0xd0, //                         xgetbv
        0x48, 0x89, 0x86, 0x00, 0x10, 0x00, 0x00, // mov [rsi + 0x1000], rax
    ];
    let tell = |memory: &Vmo, waits: &[u8]| -> Result<u64, Failure> {
        let job = OwnJob::new()?;
        memory.write(&[0; 8], AREA)?;
        CodeRunner::new(&job, &[waits, XGETBV, IS_DONE, ENDS].concat(), memory, false)?.end()?;
        word(memory, AREA)
    };
    let alone = tell(&shared()?, &[])?;
    let memory = shared()?;
    let (_job, victim) = victim(&memory, false)?;
    for _ in 0..3 {
        equal(tell(&memory, WAITS)?, alone)?;
    }
    victim.kill()
}
