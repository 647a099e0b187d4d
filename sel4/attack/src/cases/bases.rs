//! The bases of FS and GS, which a program changes by loading selectors.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sel4::bootinfo::INIT_VSPACE;
use sel4::{CPtr, Endpoint, Fault, Message, ObjectType};

use crate::threads::{News, Plan, done, hear};
use crate::world::{FIELD, Found, PAGE, World, expect, write};

/// The bases of FS and GS of both threads. GS is at their IPC buffers.
const FS: u64 = FIELD + PAGE;
const GS: u64 = FIELD + 2 * PAGE;
/// The offset of the words that are read, and their values.
const OFFSET: u64 = 1016;
const FS_WORD: u64 = 0xf5;
const GS_WORD: u64 = 0x95;

/// All selectors of a descriptor table of this size, with each privilege level.
const SELECTORS: u64 = 0x60;

static NEWS: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
/// How often the victim has looked, and which try was wrong.
static LOOKS: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);
static TRIES: AtomicU64 = AtomicU64::new(0);

/// Reads the words that the bases lead to.
fn look() {
    let (fs, gs): (u64, u64);
    // SAFETY: both bases lead to pages of the field; if not, the thread faults, and the test receives the fault.
    unsafe { asm!("mov {}, fs:[1016]", "mov {}, gs:[1016]", out(reg) fs, out(reg) gs) };
    LOOKS.fetch_add(1, SeqCst);
    if (fs, gs) != (FS_WORD, GS_WORD) {
        WRONG.store(TRIES.load(SeqCst), SeqCst);
    }
}

extern "C" fn looks(_: u64) -> ! {
    loop {
        look();
        sel4::r#yield();
    }
}

extern "C" fn answers(_: u64) -> ! {
    let calls = Endpoint(CPtr(CALLS.load(SeqCst)));
    calls.recv();
    loop {
        look();
        calls.reply_recv(Message::empty(0));
    }
}

/// Switches to a thread with the same bases: through the scheduler, and on the fastpath.
fn switch() {
    TRIES.fetch_add(1, SeqCst);
    sel4::r#yield();
}

fn call() {
    Endpoint(CPtr(CALLS.load(SeqCst))).call(Message::empty(0));
}

extern "C" fn attacks(_: u64) -> ! {
    for selector in 0..SELECTORS {
        for onward in [switch, call] {
            // SAFETY: nothing here uses FS or GS. A selector that cannot be loaded faults, and the root task resumes
            // the thread after the instruction, which has two bytes with its prefix.
            unsafe { asm!("mov fs, {0:e}", in(reg) selector) };
            onward();
            // SAFETY: as above.
            unsafe { asm!("mov gs, {0:e}", in(reg) selector) };
            onward();
            // SAFETY: as above.
            unsafe { asm!("mov fs, {0:e}", "mov gs, {0:e}", in(reg) selector) };
            onward();
        }
    }
    // With the instructions that set the bases, if the kernel allows them to programs.
    for base in [0, FS + 8, GS + 8] {
        for onward in [switch, call] {
            // SAFETY: as above; the instructions have five bytes.
            unsafe { asm!("wrfsbase rax", "wrgsbase rax", in("rax") base) };
            onward();
        }
    }
    done(Endpoint(CPtr(NEWS.load(SeqCst))), 1)
}

/// Length in bytes of the instruction on which the attacker faulted.
fn length(number: u64) -> u64 {
    // An invalid instruction is one that sets a base; all others load a selector.
    if number == 6 { 5 } else { 2 }
}

/// A thread loads all selectors, and switches to others that have the same bases.
pub fn selectors(world: &mut World) -> Found {
    NEWS.store(world.news.cptr().0, SeqCst);
    CALLS.store(world.make(ObjectType::Endpoint).0, SeqCst);
    world.page(FS);
    world.page(GS);
    write(FS + OFFSET, FS_WORD);
    write(GS + OFFSET, GS_WORD);
    // If the kernel has GS at the buffer's address, the page need not be mapped there.
    let plan = |world: &mut World, run: extern "C" fn(u64) -> !, number, priority| {
        let buffer = sel4::Page(world.make(ObjectType::Page));
        let plan = Plan::new(INIT_VSPACE, run, number);
        let thread = Plan { buffer: Some((GS, buffer)), bases: (FS, GS), priority, ..plan }.make(world);
        thread.resume().map(|()| thread)
    };
    for (run, number, priority) in [(answers as extern "C" fn(u64) -> !, 0, 101), (looks, 1, 100), (attacks, 2, 100)] {
        plan(world, run, number, priority).map_err(|_| "no thread")?;
    }
    loop {
        match hear(world) {
            News::Fault(2, Fault::Exception { ip, sp, flags, number, .. }) if number != 14 => {
                Endpoint::reply(Fault::resume_at(ip + length(number), sp, flags));
            }
            News::Fault(2, _) => return Err("the attacker fails"),
            News::Fault(..) => return Err("a thread faults because another one has loaded a selector"),
            News::Word(_) => break,
        }
    }
    expect(WRONG.load(SeqCst) == 0, "a thread has other bases because another one has loaded a selector")?;
    expect(LOOKS.load(SeqCst) > SELECTORS, "the others have not looked")
}
