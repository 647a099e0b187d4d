//! Random invocations with random arguments.
//!
//! - The **driver** ([`driver`]) invokes everything in its table: objects of every kind, and memory to make more of
//!   them.
//! - The **pokers** ([`pokers`]) are threads among these objects. They write to pages and enter the kernel while the
//!   pages are taken away from them.
//! - A **second component** ([`component`]) is independent of both, and checks its memory and its registers all the
//!   time.
//! - The root task, in this module, sometimes takes memory back and checks whether any thread still writes to it. It
//!   starts the driver again when the driver is blocked, and creates everything anew after some hundred steps.

mod chance;
mod component;
mod driver;
mod pokers;
mod shared;

use sel4::bootinfo::{ASID_CONTROL, INIT_CNODE, INIT_TCB, INIT_VSPACE, IO_PORT_CONTROL, IRQ_CONTROL};
use sel4::{
    AsidPool, CNode, CPtr, Caching, CapData, Fault, IoPort, ObjectType, Page, PageDirectory, PageTable, Pdpt, Rights,
    SchedParams, Tcb, TcbConfig, Untyped, VSpace,
};

use crate::host;
use crate::threads::Plan;
use crate::world::{FIELD, Found, PAGE, WATCH, World, expect, is_full_of, own, write};
use chance::Chance;
use shared::{Kind, SHARED, SLOT_BITS, Word, set_kind};

/// The priority of all threads, and the highest that the driver can set.
const PRIORITY: u8 = 100;
/// Steps after which everything is created anew, and steps after which memory is taken back.
const STEPS_OF_A_ROUND: u64 = 500;
const STEPS_OF_A_PIECE: u64 = 60;
/// Binary logarithms of the memory of a round, and of each of its pieces from which the driver makes objects; number
/// and size of these pieces.
const ARENA_BITS: u8 = 22;
const PIECE_BITS: u8 = 16;
const PIECES: u64 = 3;
const PAGES_OF_A_PIECE: u64 = 1 << (PIECE_BITS - 12);
/// Yields without a step after which the driver is started again, and starts after which it must have made a step.
const PATIENCE: u64 = 1;
const STARTS: u64 = 50;
/// Yields during which memory that was taken back is watched.
const TURNS: u64 = 4;

/// Slots in the driver's table; pages are in the last slots.
const FIRST_PIECE: u64 = 10;
const FIRST_ENDPOINT: u64 = 20;
const FIRST_THREAD: u64 = 40;
const THREADS: u64 = 4;
const FIRST_PAGE: u64 = 50;
const PAGES: u64 = 8;

/// Objects that are made once.
struct Stage {
    arena: Untyped,
    driver: Tcb,
    driver_space: VSpace,
    port: IoPort,
    /// Slots from here on become empty with each round.
    mark: CPtr,
}

/// The objects of a round.
struct Round {
    table: CNode,
    pieces: [Untyped; PIECES as usize],
}

/// Runs this many steps.
pub fn run(world: &mut World, steps: u64, seed: u64) -> Found {
    let mut chance = Chance(!seed);
    let stage = Stage::new(world, seed);
    host::line(format_args!("begins"));
    INIT_TCB.set_priority(INIT_TCB, PRIORITY).map_err(|_| "no priority")?;
    while Word::Steps.get() < steps {
        world.reset_to(stage.mark);
        let round = stage.begin(world, &mut chance)?;
        let end = (Word::Steps.get() + STEPS_OF_A_ROUND).min(steps);
        let mut next_piece = Word::Steps.get() + STEPS_OF_A_PIECE;
        while Word::Steps.get() < end {
            stage.let_go_on(world)?;
            if Word::Steps.get() >= next_piece {
                take_back(world, &mut chance, &round)?;
                next_piece = Word::Steps.get() + STEPS_OF_A_PIECE;
            }
        }
        stage.end(&round)?;
    }
    let (done, looks) = (Word::Done.get(), Word::Looks.get());
    let rounds = Word::Round.get();
    host::line(format_args!("{steps} steps, {done} done, {rounds} rounds, {looks} looks"));
    expect(done > steps / 8, "too few steps are done")?;
    // The host now examines the kernel's memory, and ends the machine.
    host::line(format_args!("waits"));
    loop {
        sel4::r#yield();
    }
}

impl Stage {
    fn new(world: &mut World, seed: u64) -> Stage {
        let shared = world.page(SHARED);
        Word::Chance.set(seed);
        let driver_space = world.private_space();
        let map = |world: &mut World, page: Page, space, address| {
            let again = Page(world.again(page.cptr()));
            again.map(space, address, Rights::READ_WRITE, Caching::WriteBack).expect("a page");
        };
        map(world, shared, driver_space, SHARED);
        let buffer = Page(world.make(ObjectType::Page));
        map(world, buffer, driver_space, driver::BUFFER);
        let plan = Plan { buffer: Some((driver::BUFFER, buffer)), ..Plan::new(driver_space, driver::run, 0) };
        let driver = plan.make(world);
        let sched = SchedParams { authority: INIT_TCB, max_controlled: PRIORITY, priority: PRIORITY };
        driver.set_sched_params(sched).expect("a priority");

        let space = world.private_space();
        map(world, shared, space, SHARED);
        component::start(world, space);

        let to = world.slot();
        IO_PORT_CONTROL.issue(own(IO_PORT_CONTROL.cptr()), 0x80, 0x80, own(to)).expect("a port");
        let arena = world.piece(ARENA_BITS);
        Stage { arena, driver, driver_space, port: IoPort(to), mark: world.slot() }
    }

    /// Creates everything, and starts the driver.
    fn begin(&self, world: &mut World, chance: &mut Chance) -> Result<Round, &'static str> {
        Word::Round.set(Word::Round.get() + 1);
        (0..shared::SLOTS).for_each(|slot| set_kind(slot, Kind::Nothing));
        let made = self.make(world, chance);
        made.map_err(|error| {
            host::line(format_args!("{error:?}"));
            "a round cannot be made"
        })
    }

    fn make(&self, world: &mut World, chance: &mut Chance) -> sel4::Result<Round> {
        let arena = self.arena;
        let table = CNode(world.make_of(arena, ObjectType::CNode(SLOT_BITS))?);
        let place = |slot| table.slot(slot, SLOT_BITS);
        let guard = CapData::guard(0, 64 - SLOT_BITS);
        place(driver::ITSELF).mint_from(own(table.cptr()), Rights::ALL, guard)?;
        place(driver::ITSELF_WITHOUT_GUARD).copy_from(own(table.cptr()), Rights::ALL)?;
        set_kind(driver::ITSELF, Kind::CNode);
        let copy = |slot, cap, kind| {
            set_kind(slot, kind);
            place(slot).copy_from(own(cap), Rights::ALL)
        };
        let give = |slot, cap, kind| {
            set_kind(slot, kind);
            place(slot).move_from(own(cap))
        };

        let mut pieces = [Untyped::new(0); PIECES as usize];
        for (piece, slot) in pieces.iter_mut().zip(FIRST_PIECE..) {
            *piece = Untyped(world.make_of(arena, ObjectType::Untyped(PIECE_BITS))?);
            copy(slot, piece.cptr(), Kind::Untyped)?;
        }
        for (slot, (ty, kind)) in (FIRST_ENDPOINT..).zip([
            (ObjectType::Endpoint, Kind::Endpoint),
            (ObjectType::Endpoint, Kind::Endpoint),
            (ObjectType::Notification, Kind::Notification),
            (ObjectType::Notification, Kind::Notification),
            (ObjectType::CNode(3), Kind::CNode),
        ]) {
            arena.retype(ty, table, 0, 0, slot, 1)?;
            set_kind(slot, kind);
        }
        let mut slot = 30;
        for (cap, kind) in [(ASID_CONTROL.cptr(), Kind::AsidControl), (self.port.cptr(), Kind::IoPort)] {
            copy(slot, cap, kind)?;
            slot += 1;
        }
        // There is only one such capability, and it cannot be copied; the driver may lose it.
        if give(slot, IRQ_CONTROL.cptr(), Kind::IrqControl).is_err() {
            set_kind(slot, Kind::Nothing);
        }
        slot += 1;

        // The pokers' address space, with an ASID pool of its own.
        let memory = Untyped(world.make_of(arena, ObjectType::Untyped(12))?);
        let pool = AsidPool(world.slot());
        ASID_CONTROL.make_pool(memory, own(pool.cptr()))?;
        let space = VSpace(world.make_of(arena, ObjectType::VSpace)?);
        pool.assign(space)?;
        let pdpt = Pdpt(world.make_of(arena, ObjectType::Pdpt)?);
        pdpt.map(space, 0)?;
        let directory = PageDirectory(world.make_of(arena, ObjectType::PageDirectory)?);
        directory.map(space, 0)?;
        let page_table = PageTable(world.make_of(arena, ObjectType::PageTable)?);
        page_table.map(space, FIELD)?;
        let code = Page(world.make_of(arena, ObjectType::Page)?);
        code.map(INIT_VSPACE, WATCH, Rights::READ_WRITE, Caching::WriteBack)?;
        for (word, bytes) in (0..).zip(pokers::code().chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            write(WATCH + word * 8, u64::from_le_bytes(whole));
        }
        code.unmap()?;
        code.map(space, pokers::CODE, Rights::READ, Caching::WriteBack)?;
        for page in 0..PAGES {
            let cap = Page(world.make_of(arena, ObjectType::Page)?);
            if page < 4 {
                cap.map(space, FIELD + page * PAGE, Rights::READ_WRITE, Caching::WriteBack)?;
            }
            give(FIRST_PAGE + page, cap.cptr(), Kind::Page)?;
        }
        for thread in 0..THREADS {
            let tcb = Tcb(world.make_of(arena, ObjectType::Tcb)?);
            tcb.configure(&TcbConfig {
                fault_endpoint: CPtr(FIRST_ENDPOINT),
                cspace: table,
                cspace_data: guard,
                vspace: space,
                ipc_buffer: None,
                sched: Some(SchedParams { authority: INIT_TCB, max_controlled: 0, priority: PRIORITY }),
            })?;
            let number = chance.of(&pokers::NUMBERS);
            tcb.write_registers(&pokers::registers(FIELD + thread * PAGE, FIRST_ENDPOINT, number), true)?;
            give(FIRST_THREAD + thread, tcb.cptr(), Kind::Tcb)?;
        }
        for (cap, kind) in [
            (pool.cptr(), Kind::AsidPool),
            (space.cptr(), Kind::VSpace),
            (pdpt.cptr(), Kind::Pdpt),
            (directory.cptr(), Kind::PageDirectory),
            (page_table.cptr(), Kind::PageTable),
        ] {
            give(slot, cap, kind)?;
            slot += 1;
        }

        self.driver.set_space(CPtr::NULL, table, guard, self.driver_space)?;
        self.start_driver()?;
        Ok(Round { table, pieces })
    }

    fn start_driver(&self) -> sel4::Result<()> {
        self.driver.suspend()?;
        self.driver.write_registers(&Plan::new(self.driver_space, driver::run, 0).registers(), true)
    }

    /// Lets all threads run, and makes sure that the driver makes steps.
    fn let_go_on(&self, world: &World) -> Found {
        for _ in 0..STARTS {
            let before = Word::Steps.get();
            for _ in 0..PATIENCE {
                sel4::r#yield();
                look(world)?;
                if Word::Steps.get() != before {
                    return Ok(());
                }
            }
            self.start_driver().map_err(|_| "the driver cannot be started again")?;
        }
        Err("the driver makes no step any more")
    }

    /// Ends a round: destroys everything.
    fn end(&self, round: &Round) -> Found {
        self.driver.suspend().map_err(|_| "the driver cannot be stopped")?;
        for slot in (0..shared::SLOTS).filter(|slot| shared::kind(*slot) == Kind::IrqControl) {
            let _ = own(IRQ_CONTROL.cptr()).move_from(round.table.slot(slot, SLOT_BITS));
        }
        own(self.arena.cptr()).revoke().map_err(|_| "the arena cannot be taken back")
    }
}

/// Checks the second component's results.
fn look(world: &World) -> Found {
    if let Some(received) = world.news.nbrecv() {
        host::line(format_args!("{:?}", Fault::decode(&received)));
        return Err("the second component faults");
    }
    expect(Word::Wrong.get() == 0, "the second component's memory or registers have changed")
}

/// Takes back a piece of memory with everything made from it, and watches it for some yields. No thread has a
/// capability to it during that time.
fn take_back(world: &mut World, chance: &mut Chance, round: &Round) -> Found {
    let number = chance.below(PIECES);
    let piece = round.pieces[number as usize];
    let failed = "a piece of memory cannot be taken back";
    own(piece.cptr()).revoke().map_err(|_| failed)?;
    let first = world.slots(PAGES_OF_A_PIECE);
    piece.retype(ObjectType::Page, INIT_CNODE, 0, 0, first.0, PAGES_OF_A_PIECE).map_err(|_| failed)?;
    let mark = chance.next();
    let pages = || (0..PAGES_OF_A_PIECE).map(|page| WATCH + page * PAGE);
    for (slot, address) in (first.0..).zip(pages()) {
        let mapped = Page::new(slot).map(INIT_VSPACE, address, Rights::READ_WRITE, Caching::WriteBack);
        mapped.map_err(|_| failed)?;
        (0..PAGE / 8).for_each(|word| write(address + word * 8, mark));
    }
    for _ in 0..TURNS {
        sel4::r#yield();
        look(world)?;
    }
    expect(pages().all(|page| is_full_of(page, mark)), "memory that was taken back is written by somebody")?;
    own(piece.cptr()).revoke().map_err(|_| failed)?;
    let slot = FIRST_PIECE + number;
    if round.table.slot(slot, SLOT_BITS).copy_from(own(piece.cptr()), Rights::ALL).is_ok() {
        set_kind(slot, Kind::Untyped);
    }
    Ok(())
}
