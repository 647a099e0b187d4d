//! Virtual processors. They are Hafnon's own; `docs/virtual-processors.md` has what is promised.
//!
//! They run machine code in processes that are never started.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use abi::{
    HAFNON_DEFAULT_VPROC_RIGHTS, HAFNON_OBJ_TYPE_VPROC, HAFNON_VPROC_FAULT_PRESENT, HAFNON_VPROC_FAULT_WRITE,
    HAFNON_VPROC_RUN_MAX, Status, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, hafnon_vproc_run_t,
    hafnon_vproc_state_t,
};
use zx::{AsHandleRef, Exit, Info, Process, Rights, Unowned, VirtualProcessor, Vmar, Vmo, map_runs};

use super::{cases, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::{OwnJob, SPIN, code};

cases! {
    "vproc.create.one" => create_one,
    "vproc.create.ends" => create_ends,
    "vproc.enter.registers" => enter_registers,
    "vproc.enter.bad_state" => enter_bad_state,
    "vproc.enter.bad_address" => enter_bad_address,
    "vproc.enter.turns" => enter_turns,
    "vproc.enter.own" => enter_own,
    "vproc.enter.killed" => enter_killed,
    "vproc.enter.rights" => enter_rights,
    "vproc.resume.registers" => resume_registers,
    "vproc.resume.vector_registers" => resume_vector_registers,
    "vproc.fault.map" => fault_map,
    "vproc.fault.access" => fault_access,
    "vproc.fault.state" => fault_state,
    "vproc.exception.kinds" => exception_kinds,
    "vproc.call.numbers" => call_numbers,
    "vproc.kick.spins" => kick_spins,
    "vproc.kick.each_once" => kick_each_once,
    "vproc.kick.calls" => kick_calls,
    "vproc.kick.before" => kick_before,
    "vproc.map.runs" => map_several,
    "vproc.map.many" => map_many,
    "vproc.map.arguments" => map_arguments,
}

pub(super) const PAGE: u64 = 4096;
pub(super) const READ: u32 = ZX_VM_PERM_READ;
pub(super) const READ_WRITE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
pub(super) const READ_EXECUTE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE;
pub(super) const CODE: u64 = 0x100_0000;
pub(super) const DATA: u64 = 0x200_0000;
/// Flags of a state in which no flag is set: interrupts on, and the bit that is always 1.
pub(super) const FLAGS: u64 = 0x202;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `syscall; jmp .-2`
pub(super) const SYSCALLS: &[u8] = &[0x0f, 0x05, 0xeb, 0xfc];
/// `mov rbx, [rax]; mov [rdx], rcx; syscall`
const LOAD_STORE: &[u8] = &[0x48, 0x8b, 0x18, 0x48, 0x89, 0x0a, 0x0f, 0x05];

/// A sub-domain: an address space without threads.
pub(super) struct Domain {
    pub(super) process: Process,
    pub(super) vmar: Vmar,
    _job: OwnJob,
}

impl Domain {
    pub(super) fn new(bytes: &[u8]) -> Result<Self, Failure> {
        let job = OwnJob::new()?;
        let (process, vmar) = job.create_process("domain")?;
        map_runs(&vmar, &code(bytes)?, &[run(CODE, 0, PAGE, READ_EXECUTE)])?;
        Ok(Self { process, vmar, _job: job })
    }
}

pub(super) fn run(address: u64, offset: u64, len: u64, options: u32) -> hafnon_vproc_run_t {
    hafnon_vproc_run_t { address, offset, len, options, reserved: 0 }
}

pub(super) static ROOT: LazyLock<Unowned<'static, Vmar>> = LazyLock::new(zx::startup::vmar_root_self);

pub(super) fn processor() -> Result<VirtualProcessor<'static>, Failure> {
    Ok(VirtualProcessor::create(&ROOT)?)
}

/// Enters a sub-domain at the beginning of its code.
pub(super) fn enter(processor: &mut VirtualProcessor<'_>, domain: &Domain) -> Result<Exit, Failure> {
    *processor.state() = hafnon_vproc_state_t { ip: CODE, flags: FLAGS, ..Default::default() };
    Ok(processor.enter(&domain.process)?)
}

/// A state with a different value in each register.
pub(super) fn state(from: u64) -> hafnon_vproc_state_t {
    let n = |i: u64| from + i * 0x0101_0101_0101;
    hafnon_vproc_state_t {
        rax: n(1),
        rbx: n(2),
        rcx: n(3),
        rdx: n(4),
        rsi: n(5),
        rdi: n(6),
        rbp: n(7),
        r8: n(8),
        r9: n(9),
        r10: n(10),
        r11: n(11),
        r12: n(12),
        r13: n(13),
        r14: n(14),
        r15: n(15),
        ip: CODE,
        rsp: n(16),
        flags: FLAGS | 1 | 1 << 6 | 1 << 11,
        fs_base: 0,
        gs_base: 0,
    }
}

fn create_one() -> Outcome {
    let first = processor()?;
    let basic = first.handle().basic_info()?;
    equal((basic.type_, basic.rights), (HAFNON_OBJ_TYPE_VPROC, HAFNON_DEFAULT_VPROC_RIGHTS.bits()))?;
    fails(VirtualProcessor::create(&ROOT), Status::ALREADY_BOUND)?;
    // Another thread can create one.
    thread::scope(|scope| scope.spawn(|| processor().map(drop)).join().unwrap_or(Err("it panicked".into())))
}

fn create_ends() -> Outcome {
    for _ in 0..100 {
        let mut processor = processor()?;
        let domain = Domain::new(SYSCALLS)?;
        equal(enter(&mut processor, &domain)?, Exit::Syscall)?;
    }
    Ok(())
}

fn enter_registers() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    let given = hafnon_vproc_state_t { fs_base: 0x7654_3000, gs_base: 0x1234_5000, ..state(0x1000) };
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::Syscall)?;
    let ip = CODE + SYSCALL.len() as u64;
    let seen = hafnon_vproc_state_t { ip, rcx: ip, r11: given.flags, ..given };
    equal(*processor.state(), seen)?;
    // All registers, including those that a system call overwrites: an exception reports them. `ud2`
    let domain = Domain::new(&[0x0f, 0x0b])?;
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::Exception(6))?;
    processor.fill_state()?;
    equal(*processor.state(), given)
}

fn resume_registers() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    equal(enter(&mut processor, &domain)?, Exit::Syscall)?;
    let ip = CODE + SYSCALL.len() as u64;
    for n in 1..50 {
        let given = hafnon_vproc_state_t { ip: if n % 2 == 0 { ip } else { CODE }, ..state(n << 50) };
        *processor.state() = given;
        equal(processor.resume()?, Exit::Syscall)?;
        equal(*processor.state(), hafnon_vproc_state_t { ip, rcx: ip, r11: given.flags, ..given })?;
    }
    Ok(())
}

/// Vector registers stay those of the code: `movq xmm0, rax; L: syscall; movq rbx, xmm0; jmp L`.
fn resume_vector_registers() -> Outcome {
    let bytes = [0x66, 0x48, 0x0f, 0x6e, 0xc0, 0x0f, 0x05, 0x66, 0x48, 0x0f, 0x7e, 0xc3, 0xeb, 0xf7];
    let (mut processor, domains) = (processor()?, [Domain::new(&bytes)?, Domain::new(&bytes)?]);
    let mut states = [hafnon_vproc_state_t::default(); 2];
    for (n, (domain, state)) in domains.iter().zip(&mut states).enumerate() {
        *processor.state() = hafnon_vproc_state_t { ip: CODE, rax: 0x1234 + n as u64, ..Default::default() };
        equal(processor.enter(&domain.process)?, Exit::Syscall)?;
        *state = *processor.state();
    }
    for _ in 0..10 {
        for (n, (domain, state)) in domains.iter().zip(&mut states).enumerate() {
            std::hint::black_box((0..n).map(|n| n as f64).sum::<f64>());
            *processor.state() = hafnon_vproc_state_t { rbx: 0, ..*state };
            equal(processor.enter(&domain.process)?, Exit::Syscall)?;
            equal(processor.state().rbx, 0x1234 + n as u64)?;
        }
    }
    Ok(())
}

fn enter_bad_state() -> Outcome {
    let mut processor = processor()?;
    fails(processor.fill_state(), Status::BAD_STATE)?;
    let domain = Domain::new(SYSCALLS)?;
    let words = [processor.handle().raw_handle(), domain.process.raw_handle()].map(u64::from);
    let of_other = thread::spawn(move || zx::probe::call(zx::sys::zx_vproc_start as *const () as usize, &words));
    let of_other = of_other.join().map_err(|_| "it panicked")?;
    gives(zx::Status(of_other as i32), Status::BAD_STATE)?;
    equal(enter(&mut processor, &domain)?, Exit::Syscall)
}

fn enter_bad_address() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    for address in [1 << 47, 1 << 63, 0xffff_ffff_8000_0000] {
        *processor.state() = hafnon_vproc_state_t { ip: address, ..Default::default() };
        fails(processor.enter(&domain.process), Status::INVALID_ARGS)?;
        *processor.state() = hafnon_vproc_state_t { ip: CODE, fs_base: address, ..Default::default() };
        fails(processor.enter(&domain.process), Status::INVALID_ARGS)?;
        *processor.state() = hafnon_vproc_state_t { ip: CODE, gs_base: address, ..Default::default() };
        fails(processor.enter(&domain.process), Status::INVALID_ARGS)?;
    }
    // The reply to a system call does not check the address; nothing is mapped there, so the code faults.
    equal(enter(&mut processor, &domain)?, Exit::Syscall)?;
    processor.state().ip = 0xffff_ffff_8000_0000;
    ensure(matches!(processor.resume()?, Exit::PageFault(_) | Exit::Exception(_)), "it runs in the kernel")
}

/// Three address spaces, each with its own state.
fn enter_turns() -> Outcome {
    let mut processor = processor()?;
    let domains = [Domain::new(SYSCALLS)?, Domain::new(SYSCALLS)?, Domain::new(SYSCALLS)?];
    for n in 0..30 {
        *processor.state() = state(n << 40);
        equal(processor.enter(&domains[n as usize % 3].process)?, Exit::Syscall)?;
        equal(processor.state().r12, state(n << 40).r12)?;
        processor.state().r12 = n;
        equal(processor.resume()?, Exit::Syscall)?;
        equal(processor.state().r12, n)?;
    }
    Ok(())
}

/// The caller's own address space can be entered like any other.
fn enter_own() -> Outcome {
    let (mut processor, code) = (processor()?, code(SYSCALLS)?);
    let page = ROOT.map_here(READ_EXECUTE, &code, 0, PAGE as usize)?;
    let ip = page.address() as u64;
    // The code was never executed in normal mode, and only the owner maps pages for a virtual processor.
    map_runs(&ROOT, &code, &[run(ip, 0, PAGE, READ_EXECUTE)])?;
    *processor.state() = hafnon_vproc_state_t { ip, ..state(0) };
    equal(processor.enter(&zx::startup::process_self())?, Exit::Syscall)?;
    equal(processor.state().ip, ip + 2)
}

/// The address space is destroyed: code that is resumed there faults.
fn enter_killed() -> Outcome {
    let mut processor = processor()?;
    for _ in 0..3 {
        let domain = Domain::new(SYSCALLS)?;
        equal(enter(&mut processor, &domain)?, Exit::Syscall)?;
        domain.process.kill()?;
        ensure(matches!(processor.resume()?, Exit::PageFault(_)), "it runs in nothing")?;
        ensure(matches!(processor.resume()?, Exit::PageFault(_)), "it runs in nothing")?;
        fails(processor.enter(&domain.process), Status::BAD_STATE)?;
    }
    let domain = Domain::new(SYSCALLS)?;
    equal(enter(&mut processor, &domain)?, Exit::Syscall)
}

fn enter_rights() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    let process = Process::from(without(&domain.process, Rights::MANAGE_THREAD)?);
    fails(processor.enter(&process), Status::ACCESS_DENIED)
}

/// The owner maps the page at the address that faulted.
fn fault_map() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(LOAD_STORE)?);
    let memory = Vmo::create(4 * PAGE, 0)?;
    memory.write(&0x1122_3344_5566_u64.to_le_bytes(), 2 * PAGE + 8)?;
    let (from, to) = (DATA + 8, DATA + 5 * PAGE + 16);
    *processor.state() =
        hafnon_vproc_state_t { ip: CODE, rax: from, rdx: to, rcx: 77, flags: FLAGS, ..Default::default() };
    equal(processor.enter(&domain.process)?, Exit::PageFault(from))?;
    equal((processor.page().ip, processor.page().code & !4), (CODE, 0))?;
    // The code faults again on each resume, until the owner maps the page.
    equal(processor.resume()?, Exit::PageFault(from))?;
    map_runs(&domain.vmar, &memory, &[run(DATA, 2 * PAGE, PAGE, READ)])?;
    equal(processor.resume()?, Exit::PageFault(to))?;
    equal((processor.page().ip, processor.page().code & !4), (CODE + 3, HAFNON_VPROC_FAULT_WRITE))?;
    map_runs(&domain.vmar, &memory, &[run(DATA + 5 * PAGE, 0, PAGE, READ_WRITE)])?;
    equal(processor.resume()?, Exit::Syscall)?;
    equal(processor.state().rbx, 0x1122_3344_5566)?;
    let mut stored = [0; 8];
    memory.read(&mut stored, 16)?;
    equal(u64::from_le_bytes(stored), 77)
}

/// A page that is mapped read-only can be loaded from; a store needs a writable mapping.
fn fault_access() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(LOAD_STORE)?);
    let memory = Vmo::create(PAGE, 0)?;
    memory.write(&[1], 0)?;
    map_runs(&domain.vmar, &memory, &[run(DATA, 0, PAGE, READ)])?;
    let given = hafnon_vproc_state_t { ip: CODE, rax: DATA, rdx: DATA, rcx: 9, flags: FLAGS, ..Default::default() };
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::PageFault(DATA))?;
    equal(processor.page().code & !4, HAFNON_VPROC_FAULT_WRITE | HAFNON_VPROC_FAULT_PRESENT)?;
    map_runs(&domain.vmar, &memory, &[run(DATA, 0, PAGE, READ_WRITE)])?;
    equal(processor.resume()?, Exit::Syscall)?;
    // The mapping is removed, and then the memory itself.
    map_runs(&domain.vmar, &memory, &[run(DATA, 0, PAGE, READ)])?;
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::PageFault(DATA))?;
    equal(processor.page().ip, CODE + 3)?;
    map_runs(&domain.vmar, &memory, &[run(DATA, 0, PAGE, 0)])?;
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::PageFault(DATA))?;
    equal((processor.page().ip, processor.page().code & !4), (CODE, 0))
}

/// A page fault does not report registers, but they can be read and written.
fn fault_state() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(LOAD_STORE)?);
    let given = hafnon_vproc_state_t { rax: DATA, fs_base: 0x1000, ..state(0x77) };
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::PageFault(DATA))?;
    *processor.state() = hafnon_vproc_state_t::default();
    processor.fill_state()?;
    equal(*processor.state(), given)?;
    processor.state().ip = CODE + 6;
    equal(processor.enter(&domain.process)?, Exit::Syscall)?;
    equal(processor.state().r15, given.r15)
}

fn exception_kinds() -> Outcome {
    let mut processor = processor()?;
    // ud2; int3; hlt; int 0x80; div by 0 (edx:eax / ecx); in al, dx
    let kinds: [(&[u8], u64, u64); 6] = [
        (&[0x0f, 0x0b], 6, 0),
        (&[0xcc], 3, 1),
        (&[0xf4], 13, 0),
        (&[0xcd, 0x80], 13, 0),
        (&[0xf7, 0xf1], 0, 0),
        (&[0xec], 13, 0),
    ];
    for (bytes, vector, behind) in kinds {
        let mut all = bytes.to_vec();
        all.extend(SYSCALL);
        let domain = Domain::new(&all)?;
        equal((bytes, enter(&mut processor, &domain)?), (bytes, Exit::Exception(vector)))?;
        equal((bytes, processor.state().ip), (bytes, CODE + behind))?;
        // It continues where the owner sends it.
        processor.state().ip = CODE + bytes.len() as u64;
        equal(processor.resume()?, Exit::Syscall)?;
        equal(processor.state().ip, CODE + all.len() as u64)?;
    }
    Ok(())
}

/// The code stops at each `syscall`, whatever `rdx` contains, and continues behind it.
fn call_numbers() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    for number in (-70_i64..=16).map(|n| n as u64).chain([u64::MAX >> 1, 1 << 32, 0xffff_ffff]) {
        for slot in [0, 1, 2, 3, u64::MAX, CODE] {
            let given = hafnon_vproc_state_t { rdx: number, rdi: slot, rsi: 0, ..state(5) };
            *processor.state() = given;
            let exit = processor.enter(&domain.process)?;
            let wanted = [Exit::Syscall, Exit::ForeignCall].contains(&exit);
            ensure(wanted, &format!("{exit:?} at number {number:#x}, slot {slot:#x}"))?;
            if exit == Exit::ForeignCall {
                processor.fill_state()?;
                processor.state().ip += 2;
            }
            let seen = *processor.state();
            equal(
                (seen.ip, seen.rax, seen.rbx, seen.r12, seen.rsp),
                (CODE + 2, given.rax, given.rbx, given.r12, given.rsp),
            )?;
        }
    }
    Ok(())
}

/// A kick stops code that never stops by itself, with all of its registers.
fn kick_spins() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(SPIN)?);
    let given = hafnon_vproc_state_t { fs_base: 0x1234_5000, ..state(0x999) };
    let kicker = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    thread::scope(|scope| {
        let kicker = scope.spawn(move || {
            thread::sleep(Duration::from_millis(30));
            kicker.kick()
        });
        *processor.state() = given;
        equal(processor.enter(&domain.process)?, Exit::Kick)?;
        equal(*processor.state(), given)?;
        kicker.join().map_err(|_| "it panicked")??;
        fails(processor.resume(), Status::BAD_STATE)
    })
}

/// `L: inc rax; inc rbx; jmp L`
const COUNTS: &[u8] = &[0x48, 0xff, 0xc0, 0x48, 0xff, 0xc3, 0xeb, 0xf8];

/// Each kick is reported exactly once, between two instructions, and the code continues from the state in which it was
/// stopped.
fn kick_each_once() -> Outcome {
    const KICKS: u64 = 200;
    let (mut processor, domain) = (processor()?, Domain::new(COUNTS)?);
    let kicker = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    let seen = AtomicU64::new(0);
    *processor.state() = hafnon_vproc_state_t { ip: CODE, flags: FLAGS, ..Default::default() };
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            for n in 0..KICKS {
                while seen.load(Ordering::SeqCst) < n {
                    thread::yield_now();
                }
                kicker.kick()?;
            }
            zx::Result::Ok(())
        });
        let mut before = 0;
        for n in 1..=KICKS {
            equal(processor.enter(&domain.process)?, Exit::Kick)?;
            let hafnon_vproc_state_t { ip, rax, rbx, .. } = *processor.state();
            let ahead = [(CODE, 0), (CODE + 3, 1), (CODE + 6, 0)].into_iter().find(|(at, _)| *at == ip);
            equal((ip, Some(rax - rbx)), (ip, ahead.map(|(_, ahead)| ahead)))?;
            ensure(rax >= before, "it went back")?;
            before = rax;
            seen.store(n, Ordering::SeqCst);
        }
        kicker.join().map_err(|_| "it panicked")??;
        ensure(before > 0, "it never ran")
    })
}

/// Kicks between system calls: no call is lost or repeated. `L: inc rbx; syscall; jmp L`
fn kick_calls() -> Outcome {
    const KICKS: u64 = 200;
    let (mut processor, domain) = (processor()?, Domain::new(&[0x48, 0xff, 0xc3, 0x0f, 0x05, 0xeb, 0xf9])?);
    let kicker = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    let seen = AtomicU64::new(0);
    *processor.state() = hafnon_vproc_state_t { ip: CODE, flags: FLAGS, ..Default::default() };
    thread::scope(|scope| {
        let kicker = scope.spawn(|| {
            for n in 0..KICKS {
                while seen.load(Ordering::SeqCst) < n {
                    thread::yield_now();
                }
                kicker.kick()?;
            }
            zx::Result::Ok(())
        });
        let (mut calls, mut kicks) = (0, 0);
        let mut exit = processor.enter(&domain.process)?;
        while kicks < KICKS || calls < 1000 {
            exit = match exit {
                Exit::Syscall => {
                    calls += 1;
                    equal(processor.state().rbx, calls)?;
                    processor.resume()?
                }
                Exit::Kick => {
                    kicks += 1;
                    seen.store(kicks, Ordering::SeqCst);
                    processor.enter(&domain.process)?
                }
                other => return equal(other, Exit::Syscall),
            };
        }
        equal(kicks, KICKS)?;
        kicker.join().map_err(|_| "it panicked".into()).and_then(|kicked| Ok(kicked?))
    })
}

/// A kick while the owner is elsewhere is reported when the owner resumes the code; several kicks are reported as one.
fn kick_before() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    equal(enter(&mut processor, &domain)?, Exit::Syscall)?;
    for _ in 0..3 {
        processor.handle().kick()?;
    }
    processor.state().r12 = 5;
    equal(processor.resume()?, Exit::Kick)?;
    equal(processor.state().r12, 5)?;
    equal(processor.enter(&domain.process)?, Exit::Syscall)?;
    equal(processor.resume()?, Exit::Syscall)
}

/// The word at an address of a sub-domain.
fn peek(domain: &Domain, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    let read = domain.process.read_memory(address as usize, &mut word);
    read.is_ok_and(|read| read == 8).then(|| u64::from_le_bytes(word))
}

fn map_several() -> Outcome {
    let (domain, memory) = (Domain::new(SYSCALLS)?, Vmo::create(16 * PAGE, 0)?);
    for page in 0..16_u64 {
        memory.write(&page.to_le_bytes(), page * PAGE)?;
    }
    let runs = [
        run(DATA, 7 * PAGE, PAGE, READ),
        run(DATA + PAGE, 3 * PAGE, 2 * PAGE, READ_WRITE),
        run(DATA + 4 * PAGE, 0, PAGE, READ),
    ];
    map_runs(&domain.vmar, &memory, &runs)?;
    let pages = |domain: &Domain| [0, 1, 2, 3, 4].map(|page| peek(domain, DATA + page * PAGE));
    equal(pages(&domain), [Some(7), Some(3), Some(4), None, Some(0)])?;
    // One call unmaps one page, maps another and replaces a third.
    let runs =
        [run(DATA + PAGE, 0, PAGE, 0), run(DATA + 3 * PAGE, 9 * PAGE, PAGE, READ), run(DATA, 8 * PAGE, PAGE, READ)];
    map_runs(&domain.vmar, &memory, &runs)?;
    equal(pages(&domain), [Some(8), None, Some(4), Some(9), Some(0)])?;
    // Where programs with fixed addresses usually begin.
    map_runs(&domain.vmar, &memory, &[run(0x40_0000, 5 * PAGE, PAGE, READ), run(0x20_0000, 0, PAGE, READ)])?;
    equal((peek(&domain, 0x40_0000), peek(&domain, 0x20_0000)), (Some(5), Some(0)))?;
    // Changes before the invalid run stay.
    let runs = [run(DATA + PAGE, 0, PAGE, READ), run(DATA + 1, 0, PAGE, READ)];
    fails(map_runs(&domain.vmar, &memory, &runs), Status::INVALID_ARGS)?;
    equal(pages(&domain), [Some(8), Some(0), Some(4), Some(9), Some(0)])
}

/// So many pages that the server makes the call in slices.
fn map_many() -> Outcome {
    const PAGES: u64 = 4096;
    let (domain, memory) = (Domain::new(SYSCALLS)?, Vmo::create(PAGES * PAGE, 0)?);
    for page in 0..PAGES {
        memory.write(&page.to_le_bytes(), page * PAGE)?;
    }
    let backwards: Vec<_> =
        (0..PAGES).map(|page| run(DATA + page * PAGE, (PAGES - 1 - page) * PAGE, PAGE, READ)).collect();
    map_runs(&domain.vmar, &memory, &backwards)?;
    for page in (0..PAGES).step_by(13) {
        equal(peek(&domain, DATA + page * PAGE), Some(PAGES - 1 - page))?;
    }
    let long: Vec<_> =
        (0..PAGES / 256).map(|n| run(DATA + n * 256 * PAGE, n * 256 * PAGE, 256 * PAGE, READ_WRITE)).collect();
    map_runs(&domain.vmar, &memory, &long)?;
    for page in (0..PAGES).step_by(13) {
        equal(peek(&domain, DATA + page * PAGE), Some(page))?;
    }
    Ok(())
}

fn map_arguments() -> Outcome {
    let (domain, memory) = (Domain::new(SYSCALLS)?, Vmo::create(4 * PAGE, 0)?);
    let try_it = |run| map_runs(&domain.vmar, &memory, &[run]);
    for wrong in [
        run(DATA + 1, 0, PAGE, READ),
        run(DATA, 1, PAGE, READ),
        run(DATA, 0, PAGE + 1, READ),
        run(DATA, 0, 0, READ),
        run(DATA, 0, PAGE, 1 << 3),
        run(DATA, 0, PAGE, ZX_VM_PERM_WRITE),
        run(0, 0, PAGE, READ),
        run(1 << 47, 0, PAGE, READ),
        run(u64::MAX - PAGE + 1, 0, PAGE, READ),
        hafnon_vproc_run_t { reserved: 1, ..run(DATA, 0, PAGE, READ) },
    ] {
        fails(try_it(wrong), Status::INVALID_ARGS)?;
    }
    fails(try_it(run(DATA, 4 * PAGE, PAGE, READ)), Status::OUT_OF_RANGE)?;
    fails(try_it(run(DATA, 0, HAFNON_VPROC_RUN_MAX + PAGE, READ)), Status::OUT_OF_RANGE)?;
    fails(try_it(run(DATA, 0u64.wrapping_sub(PAGE), 2 * PAGE, READ)), Status::OUT_OF_RANGE)?;
    fails(try_it(run(DATA, 0, PAGE, READ_EXECUTE)), Status::ACCESS_DENIED)?;
    let read_only = Vmo::from(without(&memory, Rights::WRITE)?);
    fails(map_runs(&domain.vmar, &read_only, &[run(DATA, 0, PAGE, READ_WRITE)]), Status::ACCESS_DENIED)?;
    let runs = vec![run(DATA, 0, PAGE, READ); 4097];
    fails(map_runs(&domain.vmar, &memory, &runs), Status::OUT_OF_RANGE)?;
    gives(map_runs(&domain.vmar, &memory, &[]).err().unwrap_or(Status::OK), Status::OK)
}
