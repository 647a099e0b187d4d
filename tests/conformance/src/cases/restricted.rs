//! Restricted mode in the address space of an ordinary process.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use abi::{
    HAFNON_ENDPOINT_CALL, HAFNON_ENDPOINT_RECEIVE, HAFNON_ENDPOINT_SEND, HAFNON_RESTRICTED_FLAGS,
    HAFNON_RSRC_SYSTEM_ENDPOINT_BASE, Status, ZX_RSRC_KIND_SYSTEM, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ,
    ZX_VM_PERM_WRITE, zx_restricted_state_t,
};
use zx::{
    Endpoint, Info, Mapping, Reason, Restricted, Rights, Thread, Unowned, Vmar, Vmo, Words, sys,
    unbind_restricted_state,
};

use super::{cases, root_resource};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::code;

cases! {
    "restricted.bind.arguments" => bind_arguments,
    "restricted.bind.again" => bind_again,
    "restricted.bind.mapped" => bind_mapped,
    "restricted.bind.clone" => bind_clone,
    "restricted.bind.vproc" => bind_vproc,
    "restricted.bind.many" => bind_many,
    "restricted.unbind.arguments" => unbind_arguments,
    "restricted.enter.arguments" => enter_arguments,
    "restricted.enter.bad_state" => enter_bad_state,
    "restricted.enter.registers" => enter_registers,
    "restricted.enter.all_registers" => enter_all_registers,
    "restricted.enter.bases" => enter_bases,
    "restricted.enter.many" => enter_many,
    "restricted.enter.numbers" => enter_numbers,
    "restricted.enter.patterns" => enter_patterns,
    "restricted.enter.threads" => enter_threads,
    "restricted.enter.after_receive" => enter_after_receive,
}

pub(super) const PAGE: u64 = 4096;
pub(super) const READ_WRITE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
const READ_EXECUTE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE;
/// `syscall; jmp .-2`
pub(super) const SYSCALLS: &[u8] = &[0x0f, 0x05, 0xeb, 0xfc];
/// `ud2`
pub(super) const UNDEFINED: [u8; 2] = [0x0f, 0x0b];
/// Adds 1 to each register; `mov fs:[0], rcx; mov gs:[0], r11`.
const TWIDDLE: &[u8] = &[
    0x48, 0xff, 0xc0, 0x48, 0xff, 0xc3, 0x48, 0xff, 0xc1, 0x48, 0xff, 0xc2, 0x48, 0xff, 0xc6, 0x48, 0xff, 0xc7, 0x48,
    0xff, 0xc5, 0x48, 0xff, 0xc4, 0x49, 0xff, 0xc0, 0x49, 0xff, 0xc1, 0x49, 0xff, 0xc2, 0x49, 0xff, 0xc3, 0x49, 0xff,
    0xc4, 0x49, 0xff, 0xc5, 0x49, 0xff, 0xc6, 0x49, 0xff, 0xc7, 0x64, 0x48, 0x89, 0x0c, 0x25, 0, 0, 0, 0, 0x65, 0x4c,
    0x89, 0x1c, 0x25, 0, 0, 0, 0,
];

pub(super) static ROOT: LazyLock<Unowned<'static, Vmar>> = LazyLock::new(zx::startup::vmar_root_self);

pub(super) fn bind() -> Result<Restricted<'static>, Failure> {
    Ok(Restricted::bind(&ROOT)?)
}

/// Code for restricted mode, mapped in this process.
pub(super) struct Code(Mapping<'static>);

impl Code {
    pub(super) fn new(bytes: &[u8]) -> Result<Self, Failure> {
        Ok(Self(ROOT.map_here(READ_EXECUTE, &code(bytes)?, 0, PAGE as usize)?))
    }

    pub(super) fn ip(&self) -> u64 {
        self.0.address() as u64
    }
}

/// Memory that both modes share.
pub(super) struct Shared {
    pub(super) vmo: Vmo,
    map: Mapping<'static>,
}

impl Shared {
    pub(super) fn new(pages: u64) -> Result<Self, Failure> {
        let vmo = Vmo::create(pages * PAGE, 0)?;
        let map = ROOT.map_here(READ_WRITE, &vmo, 0, (pages * PAGE) as usize)?;
        Ok(Self { vmo, map })
    }

    pub(super) fn address(&self) -> u64 {
        self.map.address() as u64
    }

    pub(super) fn word(&self, offset: u64) -> Result<u64, Failure> {
        let mut bytes = [0; 8];
        self.vmo.read(&mut bytes, offset)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn set(&self, offset: u64, word: u64) -> Outcome {
        Ok(self.vmo.write(&word.to_le_bytes(), offset)?)
    }

    /// Waits until a word is not 0.
    pub(super) fn await_word(&self, offset: u64) -> Outcome {
        while self.word(offset)? == 0 {
            thread::yield_now();
        }
        Ok(())
    }
}

/// A state with a different value in each register.
pub(super) fn state(from: u64, ip: u64) -> zx_restricted_state_t {
    let n = |i: u64| from + i * 0x0101_0101_0101;
    zx_restricted_state_t {
        rax: n(1),
        rbx: n(2),
        rcx: n(3),
        rdx: n(4),
        rsi: n(5),
        rdi: n(6),
        rbp: n(7),
        rsp: n(8),
        r8: n(9),
        r9: n(10),
        r10: n(11),
        r11: n(12),
        r12: n(13),
        r13: n(14),
        r14: n(15),
        r15: n(16),
        ip,
        flags: 1 | 1 << 6 | 1 << 11,
        fs_base: 0,
        gs_base: 0,
    }
}

/// Enters with a state; returns the reason of the return and the resulting state.
pub(super) fn enters(
    restricted: &mut Restricted<'_>,
    state: zx_restricted_state_t,
) -> Result<(Reason, zx_restricted_state_t), Failure> {
    *restricted.state() = state;
    let reason = restricted.enter()?;
    Ok((reason, *restricted.state()))
}

/// The state after a system call: the instruction pointer is behind the instruction, and `rcx` and `r11` are 0.
pub(super) fn after_call(state: zx_restricted_state_t) -> zx_restricted_state_t {
    zx_restricted_state_t { ip: state.ip + 2, rcx: 0, r11: 0, ..state }
}

/// A handle to this thread for other threads.
pub(super) fn this() -> Result<Thread, Failure> {
    Ok(zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?)
}

fn raw(function: *const (), words: &[u64]) -> zx::Status {
    zx::Status(zx::probe::call(function as usize, words) as i32)
}

fn raw_enter(options: u64, vector: u64) -> zx::Status {
    raw(sys::zx_restricted_enter as *const (), &[options, vector, 0])
}

fn bind_arguments() -> Outcome {
    let function = sys::zx_restricted_bind_state as *const ();
    for options in [1, 2, 0xffff_ffff] {
        let mut out = 0_u32;
        gives(raw(function, &[options, &raw mut out as u64, 0]), Status::INVALID_ARGS)?;
        equal(out, 0)?;
    }
    let mut out = 0_u32;
    gives(raw(function, &[0, 0, 0]), Status::INVALID_ARGS)?;
    gives(raw(function, &[0, 1 << 47, 0]), Status::INVALID_ARGS)?;
    gives(raw(function, &[0, &raw mut out as u64, 0x1000]), Status::NOT_SUPPORTED)?;
    // No failed call has bound a state.
    gives(raw_enter(0, 0), Status::BAD_STATE)
}

/// A second state replaces the bound one: the old page becomes ordinary memory.
fn bind_again() -> Outcome {
    let code = Code::new(SYSCALLS)?;
    let mut first = bind()?;
    equal(enters(&mut first, state(1, code.ip()))?.0, Reason::Syscall)?;
    let mut second = bind()?;
    *first.state() = zx_restricted_state_t::default();
    let given = state(2, code.ip());
    equal(enters(&mut second, given)?, (Reason::Syscall, after_call(given)))?;
    equal(*first.state(), zx_restricted_state_t::default())?;
    first.vmo().op_range(abi::ZX_VMO_OP_DECOMMIT, 0, PAGE)?;
    let third = bind()?;
    third.keep();
    unbind_restricted_state().map_err(Failure::from).and_then(|()| gives(raw_enter(0, 0), Status::BAD_STATE))
}

/// The VMO and the mapping are the same state; its page cannot be decommitted or cut while it is bound.
fn bind_mapped() -> Outcome {
    let mut restricted = bind()?;
    equal(restricted.vmo().get_size()?, PAGE)?;
    equal(restricted.vmo().basic_info()?.rights, abi::ZX_DEFAULT_VMO_RIGHTS.bits())?;
    let mut bytes = [1; size_of::<zx_restricted_state_t>()];
    restricted.vmo().read(&mut bytes, 0)?;
    ensure(bytes.iter().all(|byte| *byte == 0), "it is not empty")?;
    restricted.vmo().write(&[0x55; size_of::<zx_restricted_state_t>()], 0)?;
    equal((restricted.state().rdi, restricted.state().gs_base), (0x5555_5555_5555_5555, 0x5555_5555_5555_5555))?;
    *restricted.state() = zx_restricted_state_t { gs_base: 9, ..Default::default() };
    restricted.vmo().read(&mut bytes, 0)?;
    equal(&bytes[152..], &9_u64.to_le_bytes()[..])?;
    fails(restricted.vmo().op_range(abi::ZX_VMO_OP_DECOMMIT, 0, PAGE), Status::BAD_STATE)?;
    fails(restricted.vmo().set_size(0), Status::UNAVAILABLE)
}

/// A snapshot would share the state's page, so the server refuses it.
fn bind_clone() -> Outcome {
    let restricted = bind()?;
    fails(restricted.vmo().create_child(abi::ZX_VMO_CHILD_SNAPSHOT, 0, PAGE), Status::BAD_STATE)
}

/// A thread has either bound state or a virtual processor.
fn bind_vproc() -> Outcome {
    let restricted = bind()?;
    fails(zx::VirtualProcessor::create(&ROOT), Status::ALREADY_BOUND)?;
    drop(restricted);
    let processor = zx::VirtualProcessor::create(&ROOT)?;
    fails(Restricted::bind(&ROOT), Status::ALREADY_BOUND)?;
    drop(processor);
    bind().map(drop)
}

/// Threads can bind and unbind any number of times, and can end with bound state.
fn bind_many() -> Outcome {
    let code = Code::new(SYSCALLS)?;
    for n in 0..100 {
        let mut restricted = bind()?;
        equal(enters(&mut restricted, state(n, code.ip()))?.0, Reason::Syscall)?;
    }
    for n in 0..100 {
        thread::scope(|scope| {
            let one = scope.spawn(|| -> Outcome {
                let mut restricted = bind()?;
                equal(enters(&mut restricted, state(n, code.ip()))?.0, Reason::Syscall)?;
                restricted.keep();
                Ok(())
            });
            one.join().unwrap_or(Err("it panicked".into()))
        })?;
    }
    Ok(())
}

fn unbind_arguments() -> Outcome {
    for _ in 0..3 {
        unbind_restricted_state()?;
    }
    for options in [1, 2, 0xffff_ffff] {
        gives(raw(sys::zx_restricted_unbind_state as *const (), &[options]), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn enter_arguments() -> Outcome {
    let code = Code::new(SYSCALLS)?;
    let mut restricted = bind()?;
    // The first round enters through the server. In the second one the code is entered by a kernel reply.
    for _ in 0..2 {
        *restricted.state() = state(3, code.ip());
        gives(raw_enter(0xffff_ffff, 0), Status::INVALID_ARGS)?;
        gives(raw_enter(1, 0x1000), Status::INVALID_ARGS)?;
        for vector in [u64::MAX, 1 << 47, 0xffff_8000_0000_0000] {
            gives(raw_enter(0, vector), Status::INVALID_ARGS)?;
        }
        let given = state(3, code.ip());
        equal(enters(&mut restricted, given)?, (Reason::Syscall, after_call(given)))?;
    }
    let stop = sys::zx_restricted_stop as *const ();
    gives(raw(stop, &[3, 0, 0]), Status::INVALID_ARGS)?;
    drop(restricted);
    gives(raw(stop, &[0, 0, 0]), Status::BAD_STATE)?;
    gives(raw_enter(0, 0x1000), Status::BAD_STATE)
}

fn enter_bad_state() -> Outcome {
    let code = Code::new(SYSCALLS)?;
    let mut restricted = bind()?;
    let good = state(7, code.ip());
    for _ in 0..2 {
        for bad in [
            zx_restricted_state_t { ip: u64::MAX, ..good },
            zx_restricted_state_t { ip: 1 << 47, ..good },
            zx_restricted_state_t { flags: 1 << 31, ..good },
            zx_restricted_state_t { flags: 1 << 9, ..good },
            zx_restricted_state_t { flags: 3 << 12, ..good },
            zx_restricted_state_t { flags: 2, ..good },
            zx_restricted_state_t { flags: 1 << 63, ..good },
            zx_restricted_state_t { fs_base: 1 << 63, ..good },
            zx_restricted_state_t { fs_base: 1 << 47, ..good },
            zx_restricted_state_t { gs_base: 1 << 63, ..good },
            zx_restricted_state_t { gs_base: 0xffff_7fff_ffff_ffff, ..good },
        ] {
            *restricted.state() = bad;
            fails(restricted.enter(), Status::BAD_STATE)?;
            equal(*restricted.state(), bad)?;
        }
        // Values at the edges of the valid ranges.
        let bases = zx_restricted_state_t { fs_base: 0xffff_8000_0000_0000, gs_base: 0x7fff_ffff_ffff, ..good };
        equal(enters(&mut restricted, bases)?, (Reason::Syscall, after_call(bases)))?;
    }
    Ok(())
}

/// The code sees all registers, and the caller sees what the code leaves in them.
fn enter_registers() -> Outcome {
    let shared = Shared::new(1)?;
    let (fs_base, gs_base) = (shared.address() + 16, shared.address() + 32);
    let by = |bytes: &[u8]| Code::new(&[TWIDDLE, bytes].concat());
    let (calls, faults) = (by(SYSCALLS)?, by(&UNDEFINED)?);
    let mut restricted = bind()?;
    // Entries: through the server, by a kernel reply, after an exception, and after that one.
    for (n, (code, reason)) in
        [(&calls, Reason::Syscall), (&calls, Reason::Syscall), (&faults, Reason::Exception), (&calls, Reason::Syscall)]
            .into_iter()
            .enumerate()
    {
        let given = zx_restricted_state_t { fs_base, gs_base, flags: 0, ..state((n as u64) << 52, code.ip()) };
        let (told, seen) = enters(&mut restricted, given)?;
        let end = zx_restricted_state_t {
            rax: given.rax + 1,
            rbx: given.rbx + 1,
            rcx: given.rcx + 1,
            rdx: given.rdx + 1,
            rsi: given.rsi + 1,
            rdi: given.rdi + 1,
            rbp: given.rbp + 1,
            rsp: given.rsp + 1,
            r8: given.r8 + 1,
            r9: given.r9 + 1,
            r10: given.r10 + 1,
            r11: given.r11 + 1,
            r12: given.r12 + 1,
            r13: given.r13 + 1,
            r14: given.r14 + 1,
            r15: given.r15 + 1,
            ip: code.ip() + TWIDDLE.len() as u64,
            flags: seen.flags,
            ..given
        };
        ensure(seen.flags & !HAFNON_RESTRICTED_FLAGS == 0, "flags that are no program's")?;
        equal((told, seen), (reason, if reason == Reason::Syscall { after_call(end) } else { end }))?;
        equal((shared.word(16)?, shared.word(32)?), (end.rcx, end.r11))?;
    }
    Ok(())
}

/// Registers and flags that the code does not change keep their values, also `rcx` and `r11` where no system call
/// overwrites them.
fn enter_all_registers() -> Outcome {
    let (calls, faults) = (Code::new(SYSCALLS)?, Code::new(&UNDEFINED)?);
    let mut restricted = bind()?;
    for n in 0..50 {
        let given = zx_restricted_state_t { flags: 0x8d5 & (n * 0x5_1357), ..state(n << 50, calls.ip()) };
        equal(enters(&mut restricted, given)?, (Reason::Syscall, after_call(given)))?;
        // By a kernel reply, which also sets `rcx` and `r11`.
        let given = zx_restricted_state_t { ip: faults.ip(), ..given };
        equal(enters(&mut restricted, given)?, (Reason::Exception, given))?;
    }
    Ok(())
}

/// Each entry has its own bases, and this thread keeps its own: its thread-locals still work.
fn enter_bases() -> Outcome {
    thread_local!(static LOCAL: AtomicU64 = const { AtomicU64::new(0) });
    // `mov rax, fs:[0]; mov rbx, gs:[0]; syscall`
    let code =
        Code::new(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x65, 0x48, 0x8b, 0x1c, 0x25, 0, 0, 0, 0, 0x0f, 0x05])?;
    let shared = Shared::new(1)?;
    for word in 0..64 {
        shared.set(word * 8, word + 1000)?;
    }
    let mut restricted = bind()?;
    for n in 0..63 {
        LOCAL.with(|local| local.store(n, Ordering::Relaxed));
        let (fs_base, gs_base) = (shared.address() + n * 8, shared.address() + (63 - n) * 8);
        let (reason, seen) =
            enters(&mut restricted, zx_restricted_state_t { fs_base, gs_base, ..state(n, code.ip()) })?;
        equal((reason, seen.rax, seen.rbx), (Reason::Syscall, 1000 + n, 1063 - n))?;
        equal((seen.fs_base, seen.gs_base), (fs_base, gs_base))?;
        equal(LOCAL.with(|local| local.load(Ordering::Relaxed)), n)?;
    }
    Ok(())
}

/// Thousands of entries that alternate between system calls and exceptions. `inc rbx; syscall`, `inc rbx; ud2`
fn enter_many() -> Outcome {
    let (calls, faults) = (Code::new(&[0x48, 0xff, 0xc3, 0x0f, 0x05])?, Code::new(&[0x48, 0xff, 0xc3, 0x0f, 0x0b])?);
    let mut restricted = bind()?;
    *restricted.state() = state(0, 0);
    restricted.state().rbx = 0;
    for n in 1..=10_000 {
        let (code, reason) = if n % 8 == 0 { (&faults, Reason::Exception) } else { (&calls, Reason::Syscall) };
        restricted.state().ip = code.ip();
        equal(restricted.enter()?, reason)?;
        equal(restricted.state().rbx, n)?;
    }
    Ok(())
}

/// Any number in `rdx`, and any value in the registers that seL4 would use for its own system calls.
fn enter_numbers() -> Outcome {
    let code = Code::new(SYSCALLS)?;
    let mut restricted = bind()?;
    for number in (-70_i64..=16).map(|n| n as u64).chain([u64::MAX >> 1, 1 << 32, 0xffff_ffff]) {
        for slot in [0, 1, 2, 3, u64::MAX, code.ip()] {
            let given = zx_restricted_state_t { rdx: number, rdi: slot, rsi: 0, ..state(5, code.ip()) };
            equal(enters(&mut restricted, given)?, (Reason::Syscall, after_call(given)))?;
        }
    }
    Ok(())
}

/// Values that an implementation could mistake for something else, in each register.
fn enter_patterns() -> Outcome {
    let code = Code::new(SYSCALLS)?;
    let mut restricted = bind()?;
    for pattern in
        [0, 1, 4, 0xffff_ffff, 1 << 47, 0x7fff_ffff_ffff, 0xffff_8000_0000_0000, 1 << 63, u64::MAX, code.ip()]
    {
        for place in 0..14 {
            let mut given = state(9, code.ip());
            let s = &mut given;
            *[
                &mut s.rax, &mut s.rbx, &mut s.rdx, &mut s.rsi, &mut s.rdi, &mut s.rbp, &mut s.r8, &mut s.r9,
                &mut s.r10, &mut s.r12, &mut s.r13, &mut s.r14, &mut s.r15, &mut s.rsp,
            ][place] = pattern;
            equal(enters(&mut restricted, given)?, (Reason::Syscall, after_call(given)))?;
        }
    }
    // Each flag alone; the trap flag ends the first instruction.
    for bit in 0..64 {
        let given = zx_restricted_state_t { flags: 1 << bit, ..state(9, code.ip()) };
        *restricted.state() = given;
        match restricted.enter() {
            Err(status) => {
                ensure(given.flags & HAFNON_RESTRICTED_FLAGS == 0, "a flag of programs")?;
                equal(status, Status::BAD_STATE)?;
            }
            Ok(reason) => {
                ensure(given.flags & HAFNON_RESTRICTED_FLAGS != 0, "a flag that is none of programs")?;
                let steps = given.flags == 1 << 8 && reason == Reason::Exception;
                ensure(reason == Reason::Syscall || steps, "it does not come to its system call")?;
            }
        }
    }
    Ok(())
}

/// Several threads at once, each with its own state.
fn enter_threads() -> Outcome {
    let code = Code::new(&[0x48, 0xff, 0xc3, 0x0f, 0x05, 0xeb, 0xf9])?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..16_u64)
            .map(|n| {
                let code = &code;
                scope.spawn(move || -> Outcome {
                    let mut restricted = bind()?;
                    *restricted.state() = state(n << 40, code.ip());
                    restricted.state().rbx = 0;
                    for call in 1..=200 {
                        equal(restricted.enter()?, Reason::Syscall)?;
                        equal((restricted.state().rbx, restricted.state().r15), (call, state(n << 40, 0).r15))?;
                        if call % 20 == 0 {
                            thread::yield_now();
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err("it panicked".into())))
    })
}

/// A thread that receives a message between two entries can still enter restricted mode.
fn enter_after_receive() -> Outcome {
    let right = root_resource()?.create_child(ZX_RSRC_KIND_SYSTEM, HAFNON_RSRC_SYSTEM_ENDPOINT_BASE, 1, "endpoints")?;
    let endpoint = Endpoint::create(&right)?;
    let slot = endpoint.mint_here(&this()?, HAFNON_ENDPOINT_RECEIVE, 0)?;
    let code = Code::new(SYSCALLS)?;
    let mut restricted = bind()?;
    thread::scope(|scope| {
        let sends = scope.spawn(|| -> Outcome {
            let slot = endpoint.mint_here(&this()?, HAFNON_ENDPOINT_SEND | HAFNON_ENDPOINT_CALL, 1)?;
            (0..10).try_for_each(|word| slot.send(0, &Words::new(&[word])))?;
            slot.call(0, &mut Words::new(&[10]))?;
            Ok(slot.send(0, &Words::new(&[11]))?)
        });
        let mut words = Words::new(&[]);
        let mut goes_on = |word: u64, words: &Words| -> Outcome {
            equal(words.as_slice(), &[word][..])?;
            let given = state(word, code.ip());
            equal(enters(&mut restricted, given)?, (Reason::Syscall, after_call(given)))
        };
        for word in 0..10 {
            slot.receive(&mut words)?;
            goes_on(word, &words)?;
        }
        slot.receive(&mut words)?;
        equal(words.as_slice(), &[10][..])?;
        slot.answer(0, &mut words)?;
        goes_on(11, &words)?;
        sends.join().map_err(|_| "it panicked")?
    })
}
