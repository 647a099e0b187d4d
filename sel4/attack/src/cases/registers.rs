//! Registers with which the kernel returns to user mode.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sel4::bootinfo::INIT_VSPACE;
use sel4::{CPtr, Endpoint, Fault, Message, MessageInfo, ObjectType, Page, Tcb, UserContext};

use crate::threads::{HIGH, MIDDLE, News, Plan, hear, let_run};
use crate::world::{FIELD, Found, PAGE, World, expect};

static CALLS: AtomicU64 = AtomicU64::new(0);
static CALLER: AtomicU64 = AtomicU64::new(0);
static STEP: AtomicU64 = AtomicU64::new(0);

fn calls() -> Endpoint {
    Endpoint(CPtr(CALLS.load(SeqCst)))
}

extern "C" fn waits_for_its_answer(_: u64) -> ! {
    calls().call(Message::one(1, 0));
    STEP.store(1, SeqCst);
    // SAFETY: two bytes that jump to themselves.
    unsafe { asm!("2: jmp 2b") }
    // This is not reached.
    STEP.store(2, SeqCst);
    loop {
        sel4::r#yield();
    }
}

extern "C" fn answers_first(_: u64) -> ! {
    // The caller's message, and then a message that starts the next step.
    calls().recv();
    calls().recv();
    calls().answer_first(Tcb(CPtr(CALLER.load(SeqCst))), Message::one(0, 7), None);
    loop {
        calls().recv();
    }
}

/// A thread that answers another thread and then waits is suspended there, and resumed.
pub fn twice(world: &mut World) -> Found {
    if !sel4::KEEPS_STACK_POINTER {
        // This kernel has no call that answers first.
        return Ok(());
    }
    CALLS.store(world.make(ObjectType::Endpoint).0, SeqCst);
    let server = Plan { priority: HIGH, ..Plan::new(INIT_VSPACE, answers_first, 0) }.make(world);
    let caller = Plan { priority: crate::threads::LOW, ..Plan::new(INIT_VSPACE, waits_for_its_answer, 1) }.make(world);
    CALLER.store(caller.cptr().0, SeqCst);
    server.resume().and_then(|()| caller.resume()).map_err(|_| "no threads")?;
    let_run(2);
    calls().send(Message::one(1, 0));
    let_run(2);
    expect(STEP.load(SeqCst) == 1, "the caller is not answered")?;
    for _ in 0..3 {
        server.suspend().and_then(|()| server.resume()).map_err(|_| "the server cannot be stopped")?;
        let_run(2);
    }
    expect(STEP.load(SeqCst) == 1, "a caller is answered twice, and skips its own code")
}

/// Invalid addresses, and one from which the return from an answered call leads to an invalid one.
const WRONG: [u64; 4] = [1 << 47, 1 << 50, (1 << 63) - 1, 0xffff_7fff_ffff_ffff];
const LAST: u64 = (1 << 47) - 1;

fn is_address(word: u64) -> bool {
    word.wrapping_add(1 << 47) < 1 << 48
}

extern "C" fn jumps(to: u64) -> ! {
    // SAFETY: nothing is there; the thread ends in a fault.
    unsafe { asm!("jmp {}", in(reg) to, options(noreturn)) }
}

extern "C" fn faults(_: u64) -> ! {
    // SAFETY: an invalid instruction, which the root task receives as a fault.
    unsafe { asm!("ud2", options(noreturn)) }
}

extern "C" fn calls_nobody(_: u64) -> ! {
    // SAFETY: a system call with an invalid number, which the root task receives as a fault.
    unsafe { asm!("syscall", "ud2", in("rdx") 12345_u64, options(noreturn)) }
}

/// The instruction address that a fault reports.
fn place(news: News) -> Result<u64, &'static str> {
    match news {
        News::Fault(_, Fault::Page { ip, .. } | Fault::Exception { ip, .. }) => Ok(ip),
        News::Fault(_, Fault::UnknownSyscall(registers)) => Ok(registers.ip),
        _ => Err("a thread goes on at an address that is none"),
    }
}

/// The ways in which a thread gets to an address.
type Way = fn(&World, Tcb, u64) -> Result<(), &'static str>;

const REFUSED: &str = "registers cannot be set";

fn at(run: extern "C" fn(u64) -> !, number: u64) -> UserContext {
    UserContext { rdi: number, ..Plan::new(INIT_VSPACE, run, 0).registers() }
}

fn by_writing(_: &World, thread: Tcb, address: u64) -> Result<(), &'static str> {
    thread.write_registers(&UserContext { rip: address, ..at(faults, 0) }, true).map_err(|_| REFUSED)
}

fn by_copying(world: &World, thread: Tcb, address: u64) -> Result<(), &'static str> {
    const COPY_REGISTERS: u64 = 4;
    const RESUME_AND_FRAME: u64 = 2 | 4;
    let from = Tcb(CPtr(CALLER.load(SeqCst)));
    from.write_registers(&at(jumps, address), true).map_err(|_| REFUSED)?;
    hear(world);
    sel4::ipc::set_cap(0, from.cptr());
    let info = MessageInfo::with_caps(COPY_REGISTERS, 1, 1);
    let reply = Endpoint(thread.cptr()).call(Message { info, mr: [RESUME_AND_FRAME, 0, 0, 0] });
    expect(reply.info.label() == 0, "registers cannot be copied")
}

fn by_answering_an_exception(world: &World, thread: Tcb, address: u64) -> Result<(), &'static str> {
    thread.write_registers(&at(faults, 0), true).map_err(|_| REFUSED)?;
    hear(world);
    Endpoint::reply(Fault::resume_at(address, 0, 0x202));
    Ok(())
}

fn by_answering_a_system_call(world: &World, thread: Tcb, address: u64) -> Result<(), &'static str> {
    thread.write_registers(&at(calls_nobody, 0), true).map_err(|_| REFUSED)?;
    let News::Fault(_, Fault::UnknownSyscall(registers)) = hear(world) else { return Err("no system call") };
    Endpoint::reply(sel4::SyscallRegisters { ip: address, ..registers }.reply());
    Ok(())
}

/// The thread jumps there itself, and the fault is answered with a retry. Some processors report the fault at the jump,
/// others at its target.
fn by_trying_again(world: &World, thread: Tcb, address: u64) -> Result<(), &'static str> {
    thread.write_registers(&at(jumps, address), true).map_err(|_| REFUSED)?;
    hear(world);
    Endpoint::reply(Fault::RETRY);
    Ok(())
}

/// As [`by_trying_again`], but the thread is suspended and resumed without an answer.
fn by_resuming(world: &World, thread: Tcb, address: u64) -> Result<(), &'static str> {
    thread.write_registers(&at(jumps, address), true).map_err(|_| REFUSED)?;
    hear(world);
    thread.suspend().and_then(|()| thread.resume()).map_err(|_| REFUSED)
}

/// An answer lets a thread continue two bytes after its instruction.
fn by_an_answer(_: &World, thread: Tcb, _: u64) -> Result<(), &'static str> {
    thread.write_registers(&UserContext { rip: LAST, ..at(faults, 0) }, false).map_err(|_| REFUSED)?;
    thread.answer(Message::empty(0));
    Ok(())
}

const WAYS: [Way; 7] = [
    by_writing,
    by_copying,
    by_answering_an_exception,
    by_answering_a_system_call,
    by_trying_again,
    by_resuming,
    by_an_answer,
];

/// A thread gets to an invalid address in all possible ways. A real processor would fault in the kernel; an emulated
/// one continues there, so the test checks where the thread is.
pub fn rip(world: &mut World) -> Found {
    let thread = Plan { priority: MIDDLE, ..Plan::new(INIT_VSPACE, faults, 0) }.make(world);
    let other = Plan { priority: HIGH, ..Plan::new(INIT_VSPACE, faults, 1) }.make(world);
    CALLER.store(other.cptr().0, SeqCst);
    for way in WAYS {
        for address in WRONG {
            way(world, thread, address)?;
            let place = place(hear(world))?;
            expect(is_address(place), "a thread goes on at an address that is none")?;
        }
    }
    Ok(())
}

/// Bases that the processor refuses.
pub fn base(world: &mut World) -> Found {
    let thread = Plan::new(INIT_VSPACE, faults, 0).make(world);
    let page = Page(world.make(ObjectType::Page));
    for address in WRONG {
        let registers = UserContext { fs_base: address, gs_base: address, ..at(faults, 0) };
        thread.write_registers(&registers, false).map_err(|_| REFUSED)?;
        let held = thread.read_registers(false).map_err(|_| "registers cannot be read")?;
        expect(is_address(held.fs_base) && is_address(held.gs_base), "a base is no address")?;
        let buffer = thread.set_ipc_buffer(address & !(PAGE - 1), page);
        // Some kernels set GS to the buffer's address.
        expect(!sel4::KERNEL_KEEPS_GS || buffer.is_err(), "a buffer's address, where GS will lie, is none")?;
        by_setting_it(thread, address)?;
    }
    thread.set_ipc_buffer(FIELD, page).map_err(|_| "a buffer is refused")
}

/// With the call that sets it, if the kernel has one.
fn by_setting_it(thread: Tcb, address: u64) -> Found {
    if sel4::KERNEL_KEEPS_GS {
        return Ok(());
    }
    // The label of TCBSetTLSBase in kernels without MCS, for one processor and for several.
    for label in [15, 16] {
        let info = MessageInfo::new(label, 1);
        Endpoint(thread.cptr()).call(Message { info, mr: [address, 0, 0, 0] });
        let held = thread.read_registers(false).map_err(|_| "registers cannot be read")?;
        expect(is_address(held.fs_base), "a base that the call for it sets is no address")?;
    }
    Ok(())
}
