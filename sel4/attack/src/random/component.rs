//! The second component: it has an address space, memory and registers of its own, and checks them all the time.

use core::arch::asm;

use sel4::{Caching, ObjectType, Page, Rights, SchedParams, VSpace};

use super::shared::Word;
use crate::threads::Plan;
use crate::world::{FIELD, PAGE, World, read, write};
use sel4::bootinfo::INIT_TCB;

/// Its pages: for its own words, for the FS base, and for its IPC buffer, where some kernels have the GS base.
const OWN: u64 = FIELD;
const FS: u64 = FIELD + PAGE;
const GS: u64 = FIELD + 2 * PAGE;
/// The value from which their contents are derived.
const WORD: u64 = 0x00c0_ffee_0000_c0de;

extern "C" fn run(_: u64) -> ! {
    for page in [OWN, FS, GS] {
        (0..PAGE / 8).for_each(|word| write(page + word * 8, WORD ^ page ^ word));
    }
    // SAFETY: the compiler uses no vector registers here: the target has none.
    unsafe { asm!("movq xmm5, {}", in(reg) WORD) };
    for turn in 0.. {
        if !is_well(turn) {
            Word::Wrong.set(1);
        }
        Word::Looks.set(Word::Looks.get() + 1);
        sel4::r#yield();
    }
    unreachable!("numbers have no end that is reached")
}

/// Checks all registers, and a part of the memory, the next part in each round.
fn is_well(turn: u64) -> bool {
    let vector: u64;
    // SAFETY: as above.
    unsafe { asm!("movq {}, xmm5", out(reg) vector) };
    let (fs, gs): (u64, u64);
    // SAFETY: both bases lead to pages of this component; if not, it faults, and the root task receives the fault.
    unsafe { asm!("mov {}, fs:[1016]", "mov {}, gs:[1016]", out(reg) fs, out(reg) gs) };
    let expected = |page: u64, word: u64| WORD ^ page ^ word;
    let bases = (fs, gs) == (expected(FS, 127), expected(GS, 127));
    // The kernel may write to the buffer, which nothing here uses, so only its last words are checked.
    let part = turn % 16 * 32;
    let words =
        [OWN, FS].into_iter().all(|page| (part..part + 32).all(|word| read(page + word * 8) == expected(page, word)));
    vector == WORD && bases && words
}

/// Starts it.
pub fn start(world: &mut World, space: VSpace) {
    let pages = [OWN, FS, GS].map(|address| {
        let page = Page(world.make(ObjectType::Page));
        let again = Page(world.again(page.cptr()));
        again.map(space, address, Rights::READ_WRITE, Caching::WriteBack).expect("a page");
        page
    });
    let plan = Plan { buffer: Some((GS, pages[2])), bases: (FS, GS), ..Plan::new(space, run, 1) };
    let thread = plan.make(world);
    let sched = SchedParams { authority: INIT_TCB, max_controlled: 0, priority: super::PRIORITY };
    thread.set_sched_params(sched).and_then(|()| thread.resume()).expect("a second component");
}
