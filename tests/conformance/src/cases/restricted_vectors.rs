//! x87 and vector registers in restricted mode: both modes of a thread share them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use abi::{zx_restricted_state_t, zx_thread_state_vector_regs_t};
use zx::{AsHandleRef, FxRegisters, MonotonicInstant, Reason, Signals};

use super::cases;
use super::restricted::{Code, SYSCALLS, Shared, UNDEFINED, bind, state, this};
use crate::check::{Outcome, equal};

cases! {
    "restricted.fp.shared" => shared,
    "restricted.fp.all_returns" => all_returns,
    "restricted.fp.threads" => threads,
    "restricted.fp.read_state" => read_state,
}

/// Offset of the SSE registers in FXSAVE's area.
const XMM: usize = 160;
/// `movq rax, xmm3; movq xmm4, rbx`
const SEES: &[u8] = &[0x66, 0x48, 0x0f, 0x7e, 0xd8, 0x66, 0x48, 0x0f, 0x6e, 0xe3];

/// Initial registers of a program, with a pattern in all SSE registers.
pub(super) fn filled(with: u64) -> FxRegisters {
    let mut area = FxRegisters([0; 512]);
    // The control words of x87 and SSE.
    area.0[..2].copy_from_slice(&0x37f_u16.to_le_bytes());
    area.0[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
    for word in 0..32 {
        area.0[XMM + word * 8..][..8].copy_from_slice(&(with + word as u64).to_le_bytes());
    }
    area
}

/// The lower half of an SSE register.
pub(super) fn sse(area: &FxRegisters, register: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| area.0[XMM + register * 16 + i]))
}

/// The code sees the thread's registers, and the thread sees those that the code leaves.
fn shared() -> Outcome {
    let code = Code::new(&[SEES, SYSCALLS].concat())?;
    let mut restricted = bind()?;
    for n in 1..20 {
        let (mut area, expected) = (filled(n << 32), filled(n << 32));
        *restricted.state() = zx_restricted_state_t { rbx: n, ..state(n, code.ip()) };
        equal(restricted.enter_with(&mut area)?, Reason::Syscall)?;
        equal((restricted.state().rax, sse(&area, 4)), (sse(&expected, 3), n))?;
        for register in (0..16).filter(|register| *register != 4) {
            equal(sse(&area, register), sse(&expected, register))?;
        }
        // A calculation here that changes the registers has no effect: the next round loads all of them again.
        std::hint::black_box((0..n).map(|n| n as f64).sum::<f64>());
    }
    Ok(())
}

/// The registers survive each way back: a system call, an exception, a served fault, and another bound state.
fn all_returns() -> Outcome {
    // `mov [rdi], rdi`, whose fault is served, comes in between.
    let faults = [SEES, &[0x48, 0x89, 0x3f], &UNDEFINED].concat();
    let code = Code::new(&faults)?;
    for n in 1..10 {
        let (mut restricted, memory) = (bind()?, Shared::new(1)?);
        let mut area = filled(n << 40);
        *restricted.state() = zx_restricted_state_t { rbx: n, rdi: memory.address(), ..state(n, code.ip()) };
        equal(restricted.enter_with(&mut area)?, Reason::Exception)?;
        equal((restricted.state().rax, sse(&area, 4)), (sse(&filled(n << 40), 3), n))?;
        equal(memory.word(0)?, memory.address())?;
    }
    Ok(())
}

/// `lock inc dword ptr [rdi]; L: cmp dword ptr [rsi], 0; je L; syscall`
const AWAITS: &[u8] = &[0xf0, 0xff, 0x07, 0x83, 0x3e, 0x00, 0x74, 0xfb, 0x0f, 0x05];

/// Threads in restricted mode keep their registers while other threads, in both modes, fill the processor's registers.
fn threads() -> Outcome {
    const INSIDE: u64 = 16;
    let (code, memory) = (Code::new(AWAITS)?, Shared::new(1)?);
    thread::scope(|scope| {
        let inside: Vec<_> = (0..INSIDE)
            .map(|n| {
                let (code, memory) = (&code, &memory);
                scope.spawn(move || -> Outcome {
                    let mut restricted = bind()?;
                    let mut area = filled(n << 32 | 0x55);
                    *restricted.state() = zx_restricted_state_t {
                        rdi: memory.address(),
                        rsi: memory.address() + 64,
                        ..state(n, code.ip())
                    };
                    equal(restricted.enter_with(&mut area)?, Reason::Syscall)?;
                    (0..16).try_for_each(|i| equal(sse(&area, i), sse(&filled(n << 32 | 0x55), i)))
                })
            })
            .collect();
        while memory.word(0)? & 0xffff_ffff < INSIDE {
            thread::yield_now();
        }
        let sum = AtomicU64::new(0);
        thread::scope(|scope| {
            for n in 0..8 {
                let sum = &sum;
                scope.spawn(move || {
                    let values: Vec<f64> = (0..2000).map(|i| f64::from(i * n)).collect();
                    sum.fetch_add(values.iter().sum::<f64>() as u64, Ordering::Relaxed);
                });
            }
        });
        memory.set(64, 1)?;
        equal(sum.load(Ordering::Relaxed), 28 * 1999 * 1000)?;
        inside.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err("it panicked".into())))
    })
}

/// A thread that suspends the thread can read them.
fn read_state() -> Outcome {
    let (code, memory, thread) = (Code::new(AWAITS)?, Shared::new(1)?, this()?);
    let mut restricted = bind()?;
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Outcome {
            memory.await_word(0)?;
            let token = thread.suspend()?;
            thread.wait_one(Signals::THREAD_SUSPENDED, MonotonicInstant::INFINITE)?;
            let registers: zx_thread_state_vector_regs_t = thread.registers()?;
            equal(registers.zmm[5][0], sse(&filled(7), 5))?;
            let changed = registers.zmm[5][0] + 1;
            let mut registers = registers;
            registers.zmm[5][0] = changed;
            thread.set_registers(&registers)?;
            drop(token);
            memory.set(64, 1)
        });
        *restricted.state() =
            zx_restricted_state_t { rdi: memory.address(), rsi: memory.address() + 64, ..state(1, code.ip()) };
        let mut area = filled(7);
        let reason = restricted.enter_with(&mut area)?;
        other.join().unwrap_or(Err("it panicked".into()))?;
        equal((reason, sse(&area, 5), sse(&area, 6)), (Reason::Syscall, sse(&filled(7), 5) + 1, sse(&filled(7), 6)))
    })
}
