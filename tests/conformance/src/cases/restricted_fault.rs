//! Accesses that code in restricted mode must not make, and first accesses to memory.

use abi::{
    Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_EXCP_GENERAL, ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_UNDEFINED_INSTRUCTION,
    ZX_VM_PERM_READ, zx_restricted_state_t,
};
use zx::{AsHandleRef, MonotonicInstant, Reason, Restricted, Signals};

use super::cases;
use super::restricted::{Code, PAGE, ROOT, SYSCALLS, Shared, UNDEFINED, after_call, bind, enters, state};
use crate::check::{Outcome, equal, fails};

cases! {
    "restricted.exception.report" => exception_report,
    "restricted.exception.kinds" => exception_kinds,
    "restricted.exception.page_fault" => exception_page_fault,
    "restricted.exception.channels" => exception_channels,
    "restricted.fault.served" => fault_served,
}

fn exception_report() -> Outcome {
    let code = Code::new(&UNDEFINED)?;
    let mut restricted = bind()?;
    let given = state(0x66, code.ip());
    equal(enters(&mut restricted, given)?, (Reason::Exception, given))?;
    let report = restricted.exception();
    equal(report.header.size as usize, size_of_val(&report))?;
    equal(report.header.type_, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    equal((report.context.synth_code, report.context.synth_data), (0, 0))?;
    let arch = report.context.arch;
    equal((arch.vector, arch.err_code, arch.cr2), (6, 0, 0))
}

fn exception_kinds() -> Outcome {
    let mut restricted = bind()?;
    // int3; hlt; int 0x80; div by 0 (edx:eax / ecx); in al, dx
    let kinds: [(&[u8], u32, u64, u64); 5] = [
        (&[0xcc], ZX_EXCP_SW_BREAKPOINT, 3, 1),
        (&[0xf4], ZX_EXCP_GENERAL, 13, 0),
        (&[0xcd, 0x80], ZX_EXCP_GENERAL, 13, 0),
        (&[0xf7, 0xf1], ZX_EXCP_GENERAL, 0, 0),
        (&[0xec], ZX_EXCP_GENERAL, 13, 0),
    ];
    for (bytes, kind, vector, behind) in kinds {
        let code = Code::new(&[bytes, SYSCALLS].concat())?;
        let given = zx_restricted_state_t { rcx: 0, ..state(3, code.ip()) };
        let (reason, seen) = enters(&mut restricted, given)?;
        equal((bytes, reason, seen.ip), (bytes, Reason::Exception, code.ip() + behind))?;
        let report = restricted.exception();
        equal((bytes, report.header.type_, report.context.arch.vector), (bytes, kind, vector))?;
        // The code continues where the state says.
        let next = zx_restricted_state_t { ip: code.ip() + bytes.len() as u64, ..seen };
        equal(enters(&mut restricted, next)?, (Reason::Syscall, after_call(next)))?;
    }
    Ok(())
}

/// `mov rbx, [rax]; mov [rdx], rcx; syscall`
const LOAD_STORE: &[u8] = &[0x48, 0x8b, 0x18, 0x48, 0x89, 0x0a, 0x0f, 0x05];

/// An access that the thread itself could not make is reported as an exception; so is an instruction fetch from an
/// unmapped address.
fn exception_page_fault() -> Outcome {
    let (code, shared) = (Code::new(LOAD_STORE)?, Shared::new(1)?);
    let read_only = ROOT.map_here(ZX_VM_PERM_READ, &shared.vmo, 0, PAGE as usize)?;
    let mut restricted = bind()?;
    let told = |restricted: &Restricted<'_>| {
        let report = restricted.exception();
        (report.header.type_, report.context.arch.vector, report.context.arch.err_code, report.context.arch.cr2)
    };
    let kind = ZX_EXCP_FATAL_PAGE_FAULT;
    // A load from an unmapped address.
    let given = zx_restricted_state_t { rax: 0x10, ..state(1, code.ip()) };
    equal(enters(&mut restricted, given)?, (Reason::Exception, given))?;
    equal(told(&restricted), (kind, 14, 4, 0x10))?;
    equal(Status(restricted.exception().context.synth_code as i32), Status::NOT_FOUND)?;
    // A store to read-only memory.
    let there = read_only.address() as u64;
    let given = zx_restricted_state_t { rax: shared.address(), rdx: there, ..given };
    let seen = enters(&mut restricted, given)?;
    equal(seen, (Reason::Exception, zx_restricted_state_t { rbx: 0, ip: code.ip() + 3, ..given }))?;
    equal(told(&restricted), (kind, 14, 7, there))?;
    // An instruction fetch from an unmapped address, also after a kernel reply to a system call.
    let good = zx_restricted_state_t { rdx: shared.address(), ..given };
    equal(enters(&mut restricted, good)?.0, Reason::Syscall)?;
    let given = zx_restricted_state_t { ip: 0x123, ..given };
    equal(enters(&mut restricted, given)?, (Reason::Exception, given))?;
    let (told_kind, vector, _, address) = told(&restricted);
    equal((told_kind, vector, address), (kind, 14, 0x123))
}

/// An exception of the code is not an exception of the thread: no exception channel receives it.
fn exception_channels() -> Outcome {
    let channels = [
        zx::startup::thread_self().create_exception_channel(0)?,
        zx::startup::process_self().create_exception_channel(0)?,
    ];
    let code = Code::new(&UNDEFINED)?;
    let mut restricted = bind()?;
    equal(enters(&mut restricted, state(1, code.ip()))?.0, Reason::Exception)?;
    for channel in &channels {
        fails(channel.wait_one(Signals::CHANNEL_READABLE, MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    }
    Ok(())
}

/// An absent page of a mapping becomes present when the code accesses it, as for the thread itself.
fn fault_served() -> Outcome {
    // `L: mov [rdi], rcx; add rdi, 4096; dec rcx; jnz L; syscall`
    let code =
        Code::new(&[0x48, 0x89, 0x0f, 0x48, 0x81, 0xc7, 0x00, 0x10, 0, 0, 0x48, 0xff, 0xc9, 0x75, 0xf1, 0x0f, 0x05])?;
    const PAGES: u64 = 100;
    let shared = Shared::new(PAGES)?;
    let mut restricted = bind()?;
    for turn in 0..2 {
        let given = zx_restricted_state_t { rdi: shared.address(), rcx: PAGES, ..state(turn, code.ip()) };
        let (reason, seen) = enters(&mut restricted, given)?;
        equal((reason, seen.rdi, seen.r15), (Reason::Syscall, given.rdi + PAGES * PAGE, given.r15))?;
        for page in 0..PAGES {
            equal(shared.word(page * PAGE)?, PAGES - page)?;
        }
        shared.vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, PAGES * PAGE)?;
    }
    // Stores to memory with a clone copy the page, and loads do not.
    shared.set(8, 7)?;
    let copy = shared.vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT, 0, PAGE)?;
    let given = zx_restricted_state_t { rdi: shared.address() + 8, rcx: 1, ..state(5, code.ip()) };
    equal(enters(&mut restricted, given)?.0, Reason::Syscall)?;
    let mut kept = [0; 8];
    copy.read(&mut kept, 8)?;
    equal((u64::from_le_bytes(kept), shared.word(8)?), (7, 1))
}
