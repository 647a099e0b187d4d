//! Breakpoints of threads: what the kernel refuses, and that they are in force for their thread alone.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sel4::bootinfo::INIT_VSPACE;
use sel4::{CPtr, DEBUG_REGISTERS, Endpoint, Error, Fault, Message, ObjectType, SyscallRegisters, Tcb};

use crate::threads::{HIGH, MIDDLE, News, Plan, hear};
use crate::world::{FIELD, Found, PAGE, World, expect, read};

/// The vectors of debug exceptions and of invalid instructions.
const DEBUG: u64 = 1;
const INVALID: u64 = 6;
/// The accesses that a breakpoint can be for.
const WRITES: u64 = 1;
const PORTS: u64 = 2;
const ACCESSES: u64 = 3;

static CALLS: AtomicU64 = AtomicU64::new(0);
static CALLER: AtomicU64 = AtomicU64::new(0);
/// The word with a breakpoint.
static WATCHED: AtomicU64 = AtomicU64::new(0);
static STEP: AtomicU64 = AtomicU64::new(0);

fn calls() -> Endpoint {
    Endpoint(CPtr(CALLS.load(SeqCst)))
}

type Run = extern "C" fn(u64) -> !;

/// The first breakpoint alone: address, accesses, length as in DR7.
fn one(address: u64, access: u64, length: u64) -> [u64; DEBUG_REGISTERS] {
    [address, 0, 0, 0, 0, 1 | access << 16 | length << 18]
}

/// A breakpoint on all writes to the word.
fn watch(thread: Tcb) -> Result<(), &'static str> {
    let set = thread.write_debug(&one(WATCHED.as_ptr().addr() as u64, WRITES, 2));
    set.and_then(Result::ok).ok_or("no breakpoint")
}

extern "C" fn spins(_: u64) -> ! {
    loop {
        sel4::r#yield();
    }
}

/// Values that the kernel must refuse for a thread's debug registers.
pub fn breakpoint_values(world: &mut World) -> Found {
    if !sel4::HAS_DEBUG_REGISTERS {
        return Ok(());
    }
    let thread = Plan::new(INIT_VSPACE, spins, 0).make(world);
    let good = [FIELD, FIELD + 8, FIELD + 4, 0, 0, 1 | 1 << 2 | WRITES << 20 | 2 << 22];
    let set =
        |registers: &[u64; DEBUG_REGISTERS]| thread.write_debug(registers).unwrap_or(Err(Error::IllegalOperation));
    let get = || thread.read_debug().and_then(Result::ok).ok_or("no debug registers");
    set(&good).map_err(|_| "breakpoints are refused")?;
    let before = get()?;
    expect(before[..4] == good[..4] && before[5] & 0xffff_00ff == good[5], "breakpoints are other ones")?;
    let refused =
        |registers: &[u64; DEBUG_REGISTERS], text| expect(set(registers).is_err() && get() == Ok(before), text);
    // The kernel's addresses, and none.
    for address in [(1 << 47) - PAGE, 1 << 47, 1 << 63, 0xffff_8000_0000_0000, 0xffff_ffff_8070_0000, u64::MAX] {
        for n in 0..4 {
            for control in [0, 1 << (2 * n), 1 << (2 * n) | WRITES << (16 + 4 * n)] {
                let mut registers = [0, 0, 0, 0, 0, control];
                registers[n] = address;
                refused(&registers, "a breakpoint lies in the kernel")?;
            }
        }
    }
    for bit in (11..16).chain(32..64) {
        refused(&[0, 0, 0, 0, 0, 1 << bit], "a reserved bit is set, or general detection")?;
    }
    for (address, access, length) in
        [(FIELD, PORTS, 0), (FIELD, 0, 1), (FIELD + 1, WRITES, 1), (FIELD + 4, ACCESSES, 2), (FIELD + 2, WRITES, 3)]
    {
        refused(&one(address, access, length), "a breakpoint is undefined, or on I/O")?;
    }
    // Of DR6 only the bits of breakpoints and of single steps are kept.
    set(&[0, 0, 0, 0, u64::MAX, 0]).map_err(|_| "DR6 is refused")?;
    expect(get()?[4] == 0x400f, "DR6 is another one")
}

extern "C" fn calls_and_writes(_: u64) -> ! {
    loop {
        calls().call(Message::empty(0));
        let step = STEP.fetch_add(1, SeqCst);
        WATCHED.store(step, SeqCst);
    }
}

extern "C" fn answers_and_writes(_: u64) -> ! {
    calls().recv();
    loop {
        WATCHED.store(0, SeqCst);
        calls().reply_recv(Message::empty(0));
    }
}

/// The message words of threads that call, and of threads that only send.
const CALLED: u64 = 1;
const SENT: u64 = 2;

extern "C" fn writes_and_calls(_: u64) -> ! {
    loop {
        WATCHED.store(0, SeqCst);
        calls().call(Message::one(0, CALLED));
    }
}

extern "C" fn sends(_: u64) -> ! {
    loop {
        WATCHED.store(0, SeqCst);
        calls().send(Message::one(0, SENT));
        sel4::r#yield();
    }
}

extern "C" fn answers_late(_: u64) -> ! {
    let mut called = false;
    loop {
        // Receiving the next message discards the right to reply to the call.
        if calls().recv().mr[0] == CALLED {
            called = true;
        } else if core::mem::take(&mut called) {
            Tcb(CPtr(CALLER.load(SeqCst))).answer(Message::empty(0));
            let step = STEP.fetch_add(1, SeqCst);
            WATCHED.store(step, SeqCst);
        }
    }
}

extern "C" fn yields_and_writes(_: u64) -> ! {
    loop {
        sel4::r#yield();
        let step = STEP.fetch_add(1, SeqCst);
        WATCHED.store(step, SeqCst);
    }
}

extern "C" fn faults_and_writes(_: u64) -> ! {
    loop {
        // The root task maps the page, and unmaps it at the next breakpoint.
        read(FIELD + PAGE);
        let step = STEP.fetch_add(1, SeqCst);
        WATCHED.store(step, SeqCst);
    }
}

/// The thread with this number hits its breakpoint at each of its steps, and no other thread hits one.
fn steps(world: &mut World, number: usize) -> Found {
    let mut page = None;
    let first = STEP.load(SeqCst);
    let mut step = first;
    while step < first + 100 {
        match hear(world) {
            News::Fault(who, Fault::Exception { ip, sp, flags, number: DEBUG, .. }) => {
                expect(who == number, "a thread comes to another one's breakpoint")?;
                step += 1;
                expect(STEP.load(SeqCst) == step, "a breakpoint is not in force")?;
                // A write by the root task hits no breakpoint.
                WATCHED.store(0, SeqCst);
                if let Some(page) = page.take() {
                    sel4::Page::unmap(page).map_err(|_| "a page cannot be unmapped")?;
                }
                Endpoint::reply(Fault::resume_at(ip, sp, flags));
            }
            News::Fault(who, Fault::Page { address, .. }) if who == number && address == FIELD + PAGE => {
                page = Some(world.page(FIELD + PAGE));
                Endpoint::reply(Message::empty(0));
            }
            _ => return Err("a thread fails"),
        }
    }
    Ok(())
}

/// A thread with a breakpoint and another one in its address space switch to each other in all ways; the kernel's
/// fastpath is one of them.
pub fn breakpoints(world: &mut World) -> Found {
    if !sel4::HAS_DEBUG_REGISTERS {
        return Ok(());
    }
    // The thread with the breakpoint, and the other one. A third only sends and yields.
    let pairs: [(Run, u8, Run, u8); 5] = [
        (calls_and_writes, MIDDLE, answers_and_writes, HIGH),
        (answers_late, HIGH, writes_and_calls, MIDDLE),
        (calls_and_writes, HIGH, answers_and_writes, HIGH),
        (yields_and_writes, MIDDLE, yields_without, MIDDLE),
        (faults_and_writes, MIDDLE, yields_without, MIDDLE),
    ];
    for (run, priority, other, other_priority) in pairs {
        CALLS.store(world.make(ObjectType::Endpoint).0, SeqCst);
        let one = Plan { priority, ..Plan::new(INIT_VSPACE, run, 0) }.make(world);
        let two = Plan { priority: other_priority, ..Plan::new(INIT_VSPACE, other, 1) }.make(world);
        let third = if run as usize == answers_late as Run as usize { sends } else { yields_without as Run };
        let three = Plan::new(INIT_VSPACE, third, 2).make(world);
        CALLER.store(two.cptr().0, SeqCst);
        watch(one)?;
        [one, two, three].into_iter().try_for_each(Tcb::resume).map_err(|_| "no threads")?;
        steps(world, 0)?;
        [one, two, three].into_iter().try_for_each(Tcb::suspend).map_err(|_| "threads that cannot be stopped")?;
    }
    Ok(())
}

extern "C" fn yields_without(_: u64) -> ! {
    loop {
        WATCHED.store(0, SeqCst);
        sel4::r#yield();
    }
}

/// The selector that the thread loads again, with a breakpoint.
static SELECTOR: AtomicU64 = AtomicU64::new(0);

macro_rules! loads {
    ($name:ident, $behind:literal) => {
        extern "C" fn $name(_: u64) -> ! {
            // SAFETY: SS gets the selector that it already has. The code never returns, so it may change any register.
            unsafe {
                asm!(
                    "mov [r12], ss",
                    "2:",
                    "mov rbx, rsp",
                    "mov rdx, -7",
                    "mov ss, [r12]",
                    $behind,
                    "mov rsp, rbx",
                    "lock inc qword ptr [r13]",
                    "cmp qword ptr [r13], 50",
                    "jb 2b",
                    "3: ud2",
                    "jmp 3b",
                    in("r12") SELECTOR.as_ptr(),
                    in("r13") STEP.as_ptr(),
                    options(noreturn)
                )
            }
        }
    };
}

loads!(loads_and_yields, "syscall");
loads!(loads_and_breaks, "int3");
loads!(loads_and_interrupts, "int 0xc8");
loads!(loads_and_debugs, ".byte 0xf1");
loads!(loads_and_faults, "ud2");

/// The exception of a breakpoint comes in the kernel where the instruction that loads SS delays it.
pub fn stack_segment(world: &mut World) -> Found {
    if !sel4::HAS_DEBUG_REGISTERS {
        return Ok(());
    }
    for run in [loads_and_yields as Run, loads_and_breaks, loads_and_interrupts, loads_and_debugs, loads_and_faults] {
        STEP.store(0, SeqCst);
        let thread = Plan::new(INIT_VSPACE, run, 0).make(world);
        let other = Plan::new(INIT_VSPACE, spins, 1).make(world);
        let set = thread.write_debug(&one(SELECTOR.as_ptr().addr() as u64, ACCESSES, 1));
        set.and_then(Result::ok).ok_or("no breakpoint")?;
        other.resume().and_then(|()| thread.resume()).map_err(|_| "no threads")?;
        loop {
            match hear(world) {
                News::Fault(0, Fault::Exception { number: INVALID, .. }) if STEP.load(SeqCst) == 50 => break,
                // The frame of the instruction's own exception was lost to the breakpoint's.
                News::Fault(0, Fault::Exception { number: DEBUG, ip: 0, .. }) => break,
                News::Fault(0, Fault::Exception { ip, sp, flags, number, .. }) => {
                    // An invalid instruction has two bytes; the others are behind theirs.
                    let skipped = if number == INVALID { 2 } else { 0 };
                    Endpoint::reply(Fault::resume_at(ip + skipped, sp, flags));
                }
                News::Fault(0, Fault::UnknownSyscall(registers)) => {
                    Endpoint::reply(SyscallRegisters { ip: registers.ip + 2, ..registers }.reply());
                }
                _ => return Err("a thread fails"),
            }
        }
        thread.suspend().and_then(|()| other.suspend()).map_err(|_| "threads that cannot be stopped")?;
    }
    Ok(())
}
