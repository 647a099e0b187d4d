//! Memory under attack from several sides: programs load and store without a pause while other threads clone, move,
//! resize, unmap and map their memory, and kill them. Memory that belongs to one program alone must stay as the program
//! left it.
//!
//! The programs are [`TestProcess`]es. Each visits random pages of its private memory, checks that they hold what it
//! wrote last (or stops at an undefined instruction), and writes new values; each time it also writes into memory that
//! all programs share. The attacks are chosen at random from fixed seeds; their timing relative to the programs is not
//! fixed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use abi::{
    Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO,
};
use zx::{AsHandleRef, Channel, Duration, MonotonicInstant, Signals, Vmo};

use super::vmar::{PAGE, READ, READ_WRITE, region, vmo};
use super::{cases, raw};
use crate::caught_exception::catch_until;
use crate::check::{Failure, Outcome, ensure, equal};
use crate::test_process::{KILLED, TestProcess};

cases! {
    "memory_storm.clones.private_stays_private" => private_stays_private,
    "memory_storm.kill.in_the_midst" => kill_in_the_midst,
    "memory_storm.resize.under_mappings" => resize_under_mappings,
    "memory_storm.unmap.under_a_reader" => unmap_under_a_reader,
}

/// Number of pages of each memory; the code takes the page from the upper six bits of its random numbers.
const PAGES: usize = 64;
const LEN: usize = PAGES * PAGE;
const OVER: u32 = abi::ZX_VM_SPECIFIC_OVERWRITE;
/// Where a program has its memory: offsets in its address space.
const RECORD: usize = 0x400_0000;
const PRIVATE: usize = 0x500_0000;
const SHARED: usize = 0x600_0000;

/// The record of a program, at `rsi`: random number; rounds; number of a page that has changed, plus 1; addresses of
/// the private and the shared memory; offset in shared pages; multiplier and summand; and from 0x400 on the value of
/// each page.
const ROUNDS: usize = 0x08;
const WRONG: usize = 0x10;
const CODE: &[u8] = &[
    0x48, 0x8b, 0x06, // again: mov rax, [rsi]
    0x48, 0x0f, 0xaf, 0x46, 0x30, // imul rax, [rsi + 0x30]
    0x48, 0x03, 0x46, 0x38, // add rax, [rsi + 0x38]
    0x48, 0x89, 0x06, // mov [rsi], rax
    0x48, 0x89, 0xc1, // mov rcx, rax
    0x48, 0xc1, 0xe9, 0x3a, // shr rcx, 58
    0x48, 0x89, 0xca, // mov rdx, rcx
    0x48, 0xc1, 0xe2, 0x0c, // shl rdx, 12
    0x48, 0x8b, 0x5e, 0x18, // mov rbx, [rsi + 0x18]
    0x48, 0x01, 0xd3, // add rbx, rdx
    0x4c, 0x8b, 0x03, // mov r8, [rbx]
    0x4c, 0x3b, 0x84, 0xce, 0x00, 0x04, 0x00, 0x00, // cmp r8, [rsi + rcx * 8 + 0x400]
    0x75, 0x1f, // jne wrong
    0x48, 0x89, 0x03, // mov [rbx], rax
    0x48, 0x89, 0x84, 0xce, 0x00, 0x04, 0x00, 0x00, // mov [rsi + rcx * 8 + 0x400], rax
    0x48, 0x8b, 0x5e, 0x20, // mov rbx, [rsi + 0x20]
    0x48, 0x01, 0xd3, // add rbx, rdx
    0x48, 0x03, 0x5e, 0x28, // add rbx, [rsi + 0x28]
    0x48, 0x89, 0x03, // mov [rbx], rax
    0x48, 0xff, 0x46, 0x08, // inc qword [rsi + 8]
    0xeb, 0xb0, // jmp again
    0x48, 0xff, 0xc1, // wrong: inc rcx
    0x48, 0x89, 0x4e, 0x10, // mov [rsi + 0x10], rcx
    0x0f, 0x0b, // ud2
];

/// Random numbers with a long period (xorshift64*), the same for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8) as usize % n
    }
}

/// A program of the storm, as the thread that attacks it sees it.
struct Stormer {
    tiny: TestProcess,
    record: Vmo,
    private: Vmo,
}

impl Stormer {
    fn new(seed: u64, shared: &Vmo) -> Result<Self, Failure> {
        let (record, private) = (vmo(1)?, vmo(PAGES)?);
        let tiny = TestProcess::new(CODE)?;
        let place = |vmo: &Vmo, at, len| tiny.vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC, at, vmo, 0, len);
        let at = place(&record, RECORD, PAGE)?;
        let words = [
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            0,
            0,
            place(&private, PRIVATE, LEN)? as u64,
            place(shared, SHARED, LEN)? as u64,
            8 * (seed % 500),
            0x5851_f42d_4c95_7f2d,
            0x1405_7b7e_f767_814f,
        ];
        for (n, word) in words.iter().enumerate() {
            record.write(&word.to_le_bytes(), n as u64 * 8)?;
        }
        tiny.start(None, at)?;
        Ok(Self { tiny, record, private })
    }

    fn word(&self, at: usize) -> Result<u64, Failure> {
        let mut bytes = [0; 8];
        self.record.read(&mut bytes, at as u64)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The program's own memory has not changed without it.
    fn is_well(&self) -> Outcome {
        match self.word(WRONG)? {
            0 => ensure(!self.tiny.process.signals()?.contains(Signals::TASK_TERMINATED), "a program has ended"),
            page => Err(format!("page {} was not as it was left", page - 1).into()),
        }
    }

    /// The program makes progress: it has completed 100 more rounds.
    fn goes_on(&self) -> Outcome {
        let before = self.word(ROUNDS)?;
        let late = MonotonicInstant::after(Duration::from_seconds(5));
        while self.word(ROUNDS)? < before + 100 {
            self.is_well()?;
            ensure(MonotonicInstant::now() < late, "a program does not go on")?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Does something while the program is suspended.
    fn while_it_stands(&self, action: impl FnOnce() -> Outcome) -> Outcome {
        let token = self.tiny.thread.suspend()?;
        let deadline = MonotonicInstant::after(Duration::from_seconds(5));
        self.tiny.thread.wait_one(Signals::THREAD_SUSPENDED, deadline)?;
        let result = action();
        drop(token);
        result
    }

    fn end(self) -> Outcome {
        self.tiny.process.kill()?;
        equal(self.tiny.end()?, KILLED)
    }
}

/// The first word of each page.
fn first_words(vmo: &Vmo) -> Result<Vec<u64>, Failure> {
    let word = |page| {
        let mut bytes = [0; 8];
        vmo.read(&mut bytes, (page * PAGE) as u64)?;
        Ok(u64::from_le_bytes(bytes))
    };
    (0..PAGES).map(word).collect()
}

/// A clone that must not change.
struct UnchangedClone {
    vmo: Vmo,
    words: Vec<u64>,
}

impl UnchangedClone {
    fn of(vmo: &Vmo) -> Result<Self, Failure> {
        let copy = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, LEN as u64)?;
        let words = first_words(&copy)?;
        Ok(Self { vmo: copy, words })
    }

    fn has_stayed(&self) -> Outcome {
        ensure(first_words(&self.vmo)? == self.words, "a copy has changed")
    }
}

/// One random attack on a program and on the shared memory.
fn attack(
    dice: &mut Dice,
    stormer: &mut Stormer,
    shared: &Vmo,
    spare: &Vmo,
    kept: &mut Vec<UnchangedClone>,
) -> Outcome {
    let (page, pages) = (dice.below(PAGES), 1 + dice.below(PAGES));
    let (at, len) = ((page * PAGE) as u64, (pages.min(PAGES - page) * PAGE) as u64);
    let Stormer { tiny, private, .. } = &*stormer;
    let private_at = |page: usize| tiny.entry - 0x100_0000 + PRIVATE + page * PAGE;
    match dice.below(16) {
        // Clones are made while the program stores.
        0..=2 => kept.push(UnchangedClone::of(private)?),
        3 => {
            let from = dice.below(kept.len().max(1));
            if let Some(copy) = kept.get(from) {
                let copy = UnchangedClone::of(&copy.vmo)?;
                kept.push(copy);
            }
        }
        4 if !kept.is_empty() => {
            let which = dice.below(kept.len());
            kept[which].vmo.write(&dice.0.to_le_bytes(), at)?;
            kept[which].words[page] = dice.0;
        }
        5 | 6 if !kept.is_empty() => kept.swap_remove(dice.below(kept.len())).has_stayed()?,
        // The same memory is mapped over itself.
        7 => {
            let private_len = len as usize;
            tiny.vmar.map(READ_WRITE | OVER, PRIVATE + page * PAGE, private, at, private_len)?;
        }
        8 => tiny.vmar.op_range(abi::ZX_VMAR_OP_COMMIT, private_at(page), len as usize)?,
        9 => tiny.vmar.op_range(abi::ZX_VMAR_OP_MAP_RANGE, private_at(page), len as usize)?,
        // Shared pages are freed, and committed again.
        10 => shared.op_range(ZX_VMO_OP_ZERO, at + 3, len - 3)?,
        11 => drop(shared.op_range(ZX_VMO_OP_DECOMMIT, at, len)),
        12 => shared.op_range(ZX_VMO_OP_COMMIT, at, len)?,
        13 => {
            let status = raw!(
                zx_vmo_transfer_data,
                spare.raw_handle(),
                0_u32,
                (dice.below(PAGES - pages.min(PAGES - page) + 1) * PAGE) as u64,
                len,
                shared.raw_handle(),
                at
            );
            equal(status, Status::OK)?;
        }
        // The program continues with a clone of its memory, and the old memory is closed.
        14 => {
            let copy = std::cell::Cell::new(None);
            stormer.while_it_stands(|| {
                let child = private.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, LEN as u64)?;
                tiny.vmar.map(READ_WRITE | OVER, PRIVATE, &child, 0, LEN)?;
                copy.set(Some(child));
                Ok(())
            })?;
            if let Some(copy) = copy.take() {
                stormer.private = copy;
            }
        }
        _ => stormer.while_it_stands(|| {
            tiny.vmar.protect(READ, private_at(page), len as usize)?;
            kept.push(UnchangedClone::of(private)?);
            Ok(tiny.vmar.protect(READ_WRITE, private_at(page), len as usize)?)
        })?,
    }
    if kept.len() > 8 {
        kept.swap_remove(dice.below(8)).has_stayed()?;
    }
    Ok(())
}

/// One thread attacks one program.
fn master(seed: u64, rounds: usize, shared: &Vmo) -> Outcome {
    let mut dice = Dice::new(seed);
    let (mut stormer, mut kept, spare) = (Stormer::new(seed, shared)?, Vec::new(), vmo(PAGES)?);
    for round in 0..rounds {
        let done = attack(&mut dice, &mut stormer, shared, &spare, &mut kept);
        done.and_then(|()| stormer.is_well()).map_err(|failure| format!("seed {seed}, round {round}: {failure}"))?;
    }
    stormer.goes_on()?;
    kept.iter().try_for_each(UnchangedClone::has_stayed)?;
    stormer.end()
}

/// Runs `action` in several threads.
fn in_threads(count: u64, action: impl Fn(u64) -> Outcome + Sync) -> Outcome {
    std::thread::scope(|scope| {
        let action = &action;
        let threads: Vec<_> = (1..=count).map(|n| scope.spawn(move || action(n))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}

fn private_stays_private() -> Outcome {
    let shared = vmo(PAGES)?;
    in_threads(3, |seed| master(seed, 250, &shared))
}

fn kill_in_the_midst() -> Outcome {
    let shared = vmo(PAGES)?;
    let still = Stormer::new(99, &shared)?;
    in_threads(2, |seed| {
        for round in 0..25 {
            let stormer = Stormer::new(seed * 100 + round, &shared)?;
            let copy = UnchangedClone::of(&stormer.private)?;
            while stormer.word(ROUNDS)? < 20 + round * 5 {
                std::thread::yield_now();
            }
            stormer.is_well()?;
            let private = stormer.private.duplicate_handle(abi::Rights::SAME_RIGHTS)?;
            // Its memory is as it left it, even after its end.
            stormer.tiny.process.kill()?;
            equal(stormer.tiny.end()?, KILLED)?;
            let private = Vmo::from(private);
            let words = first_words(&private)?;
            // The last store may not be in the record yet.
            let noted = |page: usize| stormer.word(0x400 + page * 8);
            let differ = (0..PAGES).filter(|&page| noted(page).is_ok_and(|word| word != words[page])).count();
            ensure(differ <= 1, "memory of a program that was killed is not as it left it")?;
            copy.has_stayed()?;
        }
        Ok(())
    })?;
    still.goes_on()?;
    still.end()
}

/// Handles the exceptions of a program whose memory shrinks: for each fault beyond the end, it makes the memory large
/// enough again.
fn serve(channel: &Channel, shared: &Vmo) -> Outcome {
    // Until the process has ended, however long no exception comes.
    while let Ok(caught) = catch_until(channel, MonotonicInstant::INFINITE) {
        equal(caught.info.type_, ZX_EXCP_FATAL_PAGE_FAULT)?;
        let report = caught.exception.thread()?.exception_report()?;
        equal(Status(report.context.synth_code as i32), Status::OUT_OF_RANGE)?;
        shared.set_size(LEN as u64)?;
        caught.handled()?;
    }
    Ok(())
}

fn resize_under_mappings() -> Outcome {
    let shared = Vmo::create(LEN as u64, abi::ZX_VMO_RESIZABLE)?;
    let stormers = [Stormer::new(7, &shared)?, Stormer::new(8, &shared)?];
    std::thread::scope(|scope| {
        let mut servers = Vec::new();
        for stormer in &stormers {
            let channel = stormer.tiny.process.create_exception_channel(0)?;
            let shared = &shared;
            servers.push(scope.spawn(move || serve(&channel, shared)));
        }
        let mut dice = Dice::new(5);
        let mut kept = Vec::new();
        let result = (0..200).try_for_each(|_| {
            shared.set_size((dice.below(PAGES + 1) * PAGE) as u64)?;
            match dice.below(4) {
                0 => kept.push(UnchangedClone::of(&shared)?),
                1 if !kept.is_empty() => kept.swap_remove(dice.below(kept.len())).has_stayed()?,
                _ => std::thread::yield_now(),
            }
            stormers.iter().try_for_each(Stormer::is_well)
        });
        shared.set_size(LEN as u64)?;
        let result = result.and_then(|()| stormers.iter().try_for_each(Stormer::goes_on));
        // Their channels are closed with them.
        stormers.iter().try_for_each(|stormer| stormer.tiny.process.kill())?;
        let served: Vec<_> = servers.into_iter().map(|thread| thread.join()).collect();
        result?;
        served.into_iter().try_for_each(|thread| thread.map_err(|_| "a thread panicked")?)
    })
}

fn unmap_under_a_reader() -> Outcome {
    let (vmar, base) = region(PAGES)?;
    let pages = vmo(PAGES)?;
    let source = vmo(PAGES)?;
    source.op_range(ZX_VMO_OP_COMMIT, 0, LEN as u64)?;
    let (done, calls) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let (done, calls, source) = (&done, &calls, &source);
        let reader = scope.spawn(move || {
            while !done.load(Relaxed) {
                for status in [
                    raw!(zx_vmo_read, source.raw_handle(), base, 0_u64, LEN),
                    raw!(zx_vmo_write, source.raw_handle(), base, 0_u64, LEN),
                ] {
                    match status {
                        Status::OK | Status::INVALID_ARGS => calls.fetch_add(1, Relaxed),
                        other => return Err(format!("a buffer that comes and goes: {other}").into()),
                    };
                }
            }
            Ok::<_, Failure>(())
        });
        let mut dice = Dice::new(3);
        let result = (0..300).try_for_each(|n| {
            // The reader does much work in each of its turns, so this thread yields.
            if n % 20 == 0 {
                std::thread::yield_now();
            }
            let (page, count) = (dice.below(PAGES), 1 + dice.below(PAGES));
            let len = count.min(PAGES - page) * PAGE;
            match dice.below(4) {
                0 => drop(vmar.unmap(base + page * PAGE, len)),
                1 => drop(vmar.protect(READ, base + page * PAGE, len)),
                2 => {
                    vmar.map(READ_WRITE | OVER, page * PAGE, &pages, (page * PAGE) as u64, len)?;
                }
                _ => {
                    vmar.map(READ_WRITE | OVER, 0, &pages, 0, LEN)?;
                }
            }
            Ok::<_, Failure>(())
        });
        done.store(true, Relaxed);
        reader.join().map_err(|_| "the reader panicked")??;
        result?;
        ensure(calls.load(Relaxed) > 0, "the reader never ran")
    })?;
    Ok(vmar.destroy()?)
}
