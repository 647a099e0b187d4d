//! Large amounts of another process's memory: a debugger reads what the process writes, and the other way around.

use super::process::child;
use super::{cases, late, soon};
use crate::check::{Failure, Outcome, ensure, equal};
use crate::test_process::TestProcess;

cases! {
    "process.memory.code_is_ones_own" => code_is_ones_own,
    "process.memory.random_pattern" => random_pattern,
}

const SEED: u64 = 0x2545_f491_4f6c_dd1d;
const WORDS: usize = 1536;

/// The numbers that a xorshift generator makes of a seed: all are different, none is zero, and all byte values occur.
fn pattern(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |&last| {
        let a = last ^ last << 13;
        let b = a ^ a >> 7;
        Some(b ^ b << 17)
    })
    .skip(1)
}

fn bytes_of(seed: u64) -> Vec<u8> {
    pattern(seed).take(WORDS).flat_map(u64::to_le_bytes).collect()
}

fn random_pattern() -> Outcome {
    let expected = bytes_of(SEED);
    equal(&expected, &bytes_of(SEED))?;
    ensure(expected != bytes_of(SEED + 1), "the seed makes no difference")?;
    ensure((0..=u8::MAX).all(|byte| expected.contains(&byte)), "a byte never comes")?;

    // The process fills the memory at rsi with the same numbers, then spins.
    let mut code = vec![0x48, 0xb8]; // mov rax, SEED
    code.extend(SEED.to_le_bytes());
    code.push(0xb9); // mov ecx, WORDS
    code.extend((WORDS as u32).to_le_bytes());
    for shift in [[0xe2, 13], [0xea, 7], [0xe2, 17]] {
        code.extend([0x48, 0x89, 0xc2]); // mov rdx, rax
        code.extend([0x48, 0xc1, shift[0], shift[1]]); // shl or shr rdx, by
        code.extend([0x48, 0x31, 0xd0]); // xor rax, rdx
    }
    code.extend([0x48, 0x89, 0x06]); // mov [rsi], rax
    code.extend([0x48, 0x83, 0xc6, 8]); // add rsi, 8
    code.extend([0xff, 0xc9, 0x75, 0xd7]); // dec ecx; jnz to the first mov rdx
    code.extend([0xeb, 0xfe]);
    let tiny = TestProcess::new(&code)?;
    let memory = tiny.stack + 8 - 0x4000;
    tiny.start(None, memory)?;
    let read = |at: usize, len: usize| -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; len];
        equal(tiny.process.read_memory(memory + at, &mut bytes)?, len)?;
        Ok(bytes)
    };
    let limit = late();
    while read(8 * (WORDS - 1), 8)? != expected[8 * (WORDS - 1)..] {
        ensure(zx::MonotonicInstant::now() < limit, "the process does not get to the end")?;
        zx::nanosleep(soon(1))?;
    }
    equal(&read(0, 8 * WORDS)?, &expected)?;

    // In the other direction, in pieces that end at arbitrary bytes.
    let other = bytes_of(!SEED);
    let mut at = 0;
    for (number, length) in [1, 7, 4096, 64, 5000, 3, 8 * WORDS].into_iter().enumerate() {
        let end = (at + length).min(other.len());
        equal(tiny.process.write_memory(memory + at, &other[at..end])?, end - at)?;
        at = end;
        equal(read(0, at)?, other[..at].to_vec())?;
        let rest = &expected[at..];
        // Reading 0 bytes is an error.
        ensure(rest.is_empty() || read(at, rest.len())? == rest, &format!("piece {number} went too far"))?;
    }
    equal(at, other.len())?;
    tiny.process.kill()?;
    tiny.end().map(drop)
}

/// A process can overwrite memory that it cannot write itself, such as its own code, through a handle to itself. Other
/// processes that run the same file are not affected.
fn code_is_ones_own() -> Outcome {
    let mark = || *std::hint::black_box(&crate::MARK);
    equal(i64::from(mark()), child(&["mark"])?)?;
    let address = std::ptr::from_ref(std::hint::black_box(&crate::MARK)).addr();
    equal(zx::Process::self_handle().write_memory(address, &[9])?, 1)?;
    equal(mark(), 9)?;
    let of_child = child(&["mark"]);
    zx::Process::self_handle().write_memory(address, &[7])?;
    equal(of_child?, 7)
}
