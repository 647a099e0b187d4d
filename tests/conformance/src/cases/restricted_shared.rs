//! Restricted mode in shared processes: the code sees the lower half of its process and nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use abi::{
    Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_SPECIFIC, zx_restricted_state_t,
};
use zx::{Reason, Restricted, Vmar, Vmo};

use super::cases;
use super::process_shared::{Member, inside};
use super::restricted::{PAGE, READ_WRITE, ROOT, SYSCALLS, after_call, bind, enters, state, this};
use crate::check::{Failure, Outcome, ensure, equal};
use crate::test_process::{SPIN, code};

cases! {
    "restricted.shared.basic" => || inside("basic"),
    "restricted.shared.lower_half_only" => || inside("lower-half-only"),
    "restricted.shared.same_addresses" => || inside("same-addresses"),
    "restricted.shared.faults" => || inside("faults"),
    "restricted.shared.unmapped_under" => || inside("unmapped-under-restricted"),
    "restricted.shared.first" => || inside("first"),
    "restricted.shared.process_ends" => || inside("process-ends"),
    "restricted.shared.many" => || inside("many-restricted"),
}

pub(super) fn child(what: &str) -> Outcome {
    match what {
        "basic" => basic(),
        "lower-half-only" => lower_half_only(),
        "same-addresses" => same_addresses(),
        "faults" => faults(),
        "unmapped-under-restricted" => unmapped_under(),
        "first" => first(),
        "process-ends" => process_ends(),
        "many-restricted" => many(),
        what => Err(format!("nothing is called {what}").into()),
    }
}

const READ_EXECUTE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE;
/// `mov [rsp - 8], rax; syscall; jmp` to its start
const STORES: &[u8] = &[0x48, 0x89, 0x44, 0x24, 0xf8, 0x0f, 0x05, 0xeb, 0xf7];
/// `mov rbx, [rax]; mov [rdx], rcx; syscall`
const LOAD_STORE: &[u8] = &[0x48, 0x8b, 0x18, 0x48, 0x89, 0x0a, 0x0f, 0x05];

fn place(vmar: &Vmar, bytes: &[u8]) -> Result<u64, Failure> {
    Ok(vmar.map(READ_EXECUTE, 0, &code(bytes)?, 0, PAGE as usize)? as u64)
}

fn memory(vmar: &Vmar, pages: u64) -> Result<(Vmo, u64), Failure> {
    let vmo = Vmo::create(pages * PAGE, 0)?;
    let at = vmar.map(READ_WRITE, 0, &vmo, 0, (pages * PAGE) as usize)? as u64;
    Ok((vmo, at))
}

fn word(vmo: &Vmo, offset: u64) -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    vmo.read(&mut bytes, offset)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The code stores to a stack in the lower half; the thread finds the value there when it returns to normal mode.
fn basic() -> Outcome {
    let member = Member::new()?;
    let vmar = member.lower()?;
    member.does(move || {
        let (stack, at) = memory(&vmar, 1)?;
        let ip = place(&vmar, STORES)?;
        let mut restricted = bind()?;
        for turn in 0..50_u64 {
            let given = zx_restricted_state_t { rsp: at + PAGE, rax: 0xaabb_ccdd_0000 + turn, ..state(turn, ip) };
            let (reason, seen) = enters(&mut restricted, given)?;
            let after = zx_restricted_state_t { ip: ip + 7, rcx: 0, r11: 0, ..given };
            equal((reason, seen), (Reason::Syscall, after))?;
            equal(word(&stack, PAGE - 8)?, given.rax)?;
            let bytes: Vec<u8> = (0..8).map(|i| zx::probe::read((at + PAGE - 8 + i) as usize)).collect();
            equal(bytes, given.rax.to_le_bytes().to_vec())?;
        }
        Ok(())
    })
}

fn told(restricted: &Restricted<'_>) -> (u32, u64, Status) {
    let report = restricted.exception();
    (report.header.type_, report.context.arch.cr2, Status(report.context.synth_code as i32))
}

/// The code cannot read, write or execute the shared half, even where it is mapped and its pages are present.
fn lower_half_only() -> Outcome {
    let common = ROOT.map_here(READ_WRITE, &Vmo::create(PAGE, 0)?, 0, PAGE as usize)?;
    let at = common.address() as u64;
    zx::probe::write(common.address(), 9);
    let member = Member::new()?;
    let vmar = member.lower()?;
    member.does(move || {
        let (own, inner) = memory(&vmar, 1)?;
        let ip = place(&vmar, LOAD_STORE)?;
        zx::probe::write(at as usize, 9);
        let mut restricted = bind()?;
        let page = std::ptr::from_mut(restricted.state()) as u64;
        let stack = std::hint::black_box(&at) as *const u64 as u64;
        let program = (basic as fn() -> Outcome) as usize as u64;
        for place in [at, page, stack, program] {
            let given = zx_restricted_state_t { rax: place, rdx: inner, ..state(1, ip) };
            equal(enters(&mut restricted, given)?, (Reason::Exception, given))?;
            equal(told(&restricted), (ZX_EXCP_FATAL_PAGE_FAULT, place, Status::NOT_FOUND))?;
            let given = zx_restricted_state_t { rax: inner, rdx: place, ..given };
            equal(enters(&mut restricted, given)?.0, Reason::Exception)?;
            equal(told(&restricted), (ZX_EXCP_FATAL_PAGE_FAULT, place, Status::NOT_FOUND))?;
            let given = zx_restricted_state_t { ip: place, ..given };
            equal(enters(&mut restricted, given)?, (Reason::Exception, given))?;
            equal(told(&restricted), (ZX_EXCP_FATAL_PAGE_FAULT, place, Status::NOT_FOUND))?;
        }
        let given = zx_restricted_state_t { rax: inner, rdx: inner, ..state(1, ip) };
        equal(enters(&mut restricted, given)?.0, Reason::Syscall)?;
        equal(word(&own, 0)?, given.rcx)?;
        equal(zx::probe::read(at as usize), 9)
    })
}

/// The same addresses refer to different memory in each process.
fn same_addresses() -> Outcome {
    const CODE: usize = 0x40_0000;
    const DATA: usize = 0x50_0000;
    let barrier = Arc::new(Barrier::new(2));
    let runs = |n: u64| -> Result<_, Failure> {
        let member = Member::new()?;
        let base = member.vmar.info()?.base;
        let data = Vmo::create(PAGE, 0)?;
        member.vmar.map(READ_EXECUTE | ZX_VM_SPECIFIC, CODE - base, &code(LOAD_STORE)?, 0, PAGE as usize)?;
        member.vmar.map(READ_WRITE | ZX_VM_SPECIFIC, DATA - base, &data, 0, PAGE as usize)?;
        let barrier = barrier.clone();
        let thread = member.runs(move || -> Outcome {
            let mut restricted = bind()?;
            let mut last = 0;
            for turn in 1..100 {
                let value = n << 32 | turn;
                let place = DATA as u64;
                let given = zx_restricted_state_t { rax: place, rdx: place, rcx: value, ..state(1, CODE as u64) };
                let (reason, seen) = enters(&mut restricted, given)?;
                equal((reason, seen.rbx), (Reason::Syscall, last))?;
                last = value;
                barrier.wait();
            }
            equal(word(&data, 0)?, last)
        });
        Ok((member, thread))
    };
    for (_, thread) in [runs(1)?, runs(2)?] {
        thread.join().map_err(|_| "it panicked")??;
    }
    Ok(())
}

/// Mapped pages that are absent become present when the code accesses them; pages that the thread has accessed are
/// present already.
fn faults() -> Outcome {
    const PAGES: u64 = 100;
    // `L: mov [rdi], rcx; add rdi, 4096; dec rcx; jnz L; syscall`
    const FILLS: &[u8] =
        &[0x48, 0x89, 0x0f, 0x48, 0x81, 0xc7, 0x00, 0x10, 0, 0, 0x48, 0xff, 0xc9, 0x75, 0xf1, 0x0f, 0x05];
    let member = Member::new()?;
    let (vmo, at) = memory(&member.vmar, PAGES)?;
    let ip = place(&member.vmar, FILLS)?;
    member.does(move || {
        let mut restricted = bind()?;
        for turn in 0..3 {
            (0..PAGES).step_by(7).for_each(|page| zx::probe::write((at + page * PAGE) as usize, 1));
            let given = zx_restricted_state_t { rdi: at, rcx: PAGES, ..state(turn, ip) };
            equal(enters(&mut restricted, given)?.0, Reason::Syscall)?;
            for page in 0..PAGES {
                equal(word(&vmo, page * PAGE)?, PAGES - page)?;
                equal(u64::from(zx::probe::read((at + page * PAGE) as usize)), PAGES - page)?;
            }
            vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, PAGES * PAGE)?;
        }
        Ok(())
    })
}

/// Memory that another process unmaps while the code runs becomes inaccessible to the code.
fn unmapped_under() -> Outcome {
    // `L: mov [rdi], rcx; inc rcx; jmp L`
    const COUNTS: &[u8] = &[0x48, 0x89, 0x0f, 0x48, 0xff, 0xc1, 0xeb, 0xf8];
    let member = Member::new()?;
    let (vmo, at) = memory(&member.vmar, 1)?;
    let ip = place(&member.vmar, COUNTS)?;
    let thread = member.runs(move || -> Outcome {
        let mut restricted = bind()?;
        let given = zx_restricted_state_t { rdi: at, rcx: 1, ..state(1, ip) };
        equal(enters(&mut restricted, given)?.0, Reason::Exception)?;
        equal(told(&restricted), (ZX_EXCP_FATAL_PAGE_FAULT, at, Status::NOT_FOUND))
    });
    while word(&vmo, 0)? == 0 {
        thread::yield_now();
    }
    member.vmar.unmap(at as usize, PAGE as usize)?;
    thread.join().map_err(|_| "it panicked")?
}

/// The first process has no lower half: its code runs in the shared half.
fn first() -> Outcome {
    let ip = place(&ROOT, SYSCALLS)?;
    let mut restricted = bind()?;
    let given = state(3, ip);
    equal(enters(&mut restricted, given)?, (Reason::Syscall, after_call(given)))
}

/// A process ends in restricted mode: another process or another of its own threads ends it.
fn process_ends() -> Outcome {
    for how in 0..3 {
        let member = Member::new()?;
        let ip = place(&member.vmar, SPIN)?;
        let (tell, told) = mpsc::channel();
        drop(member.runs(move || -> Outcome {
            let mut restricted = bind()?;
            tell.send(this()?).map_err(|_| "nobody listens")?;
            enters(&mut restricted, state(1, ip)).map(drop)
        }));
        let thread = told.recv().map_err(|_| "it has ended")?;
        match how {
            0 => member.process.kill()?,
            1 => drop(member.runs(|| zx::process_exit(1))),
            _ => thread.restricted_kick()?,
        }
        zx::AsHandleRef::wait_one(&member.process, zx::Signals::TASK_TERMINATED, zx::MonotonicInstant::INFINITE)?;
    }
    Ok(())
}

/// Many processes in restricted mode at once.
fn many() -> Outcome {
    const MEMBERS: usize = 32;
    let (done, barrier) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(MEMBERS)));
    let mut threads = Vec::new();
    for n in 0..MEMBERS as u64 {
        let member = Member::new()?;
        let (vmo, at) = memory(&member.vmar, 1)?;
        let ip = place(&member.vmar, STORES)?;
        let (done, barrier) = (done.clone(), barrier.clone());
        let thread = member.runs(move || -> Outcome {
            let mut restricted = bind()?;
            barrier.wait();
            for turn in 0..20 {
                let value = n << 32 | turn;
                let given = zx_restricted_state_t { rsp: at + PAGE, rax: value, ..state(n, ip) };
                equal(enters(&mut restricted, given)?.0, Reason::Syscall)?;
                equal(word(&vmo, PAGE - 8)?, value)?;
            }
            done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        threads.push((member, thread));
    }
    for (_, thread) in threads {
        thread.join().map_err(|_| "it panicked")??;
    }
    ensure(done.load(Ordering::Relaxed) == MEMBERS as u64, "some have not come to their end")
}
