//! The driver: a thread that has only the capabilities in its own table, and uses them at random. Nothing outside may
//! change. It may wait for a thread that never comes; then the root task starts it again.

use sel4::{
    AdjacentPages, AsidControl, AsidPool, CNode, CPtr, Caching, CapData, Endpoint, IoPort, IrqHandler, Message,
    MessageInfo, Notification, ObjectType, Page, PageDirectory, PageTable, Pdpt, ReplySlot, Result, Rights,
    SchedParams, Slot, Tcb, Untyped, UserContext, VSpace, ipc,
};

use super::chance::Chance;
use super::pokers;
use super::shared::{Kind, SLOTS, Word, kind, set_kind};
use crate::world::{FIELD, PAGE, POISON};

/// Address of its IPC buffer.
pub const BUFFER: u64 = FIELD + 0x1f_e000;
/// Slots of the table's own capability: with a guard, so that addresses of all 64 bits resolve in it, and without.
pub const ITSELF: u64 = 1;
pub const ITSELF_WITHOUT_GUARD: u64 = 2;

/// Labels from here on are undefined.
const LABELS: u64 = 70;

/// Its entry.
pub extern "C" fn run(_: u64) -> ! {
    // SAFETY: the root task has mapped this thread's buffer there.
    unsafe { ipc::init(BUFFER as *mut u64) };
    let mut chance = Chance(Word::Chance.get());
    loop {
        let slot = pick(&mut chance);
        let kind = kind(slot);
        Word::Last.set((kind as u64) << 32 | slot);
        Word::Steps.set(Word::Steps.get() + 1);
        // The next step does not depend on whether this one returns.
        Word::Chance.set(chance.next());
        let mut chance_of_step = Chance(chance.next());
        if step(&mut chance_of_step, slot, kind) {
            Word::Done.set(Word::Done.get() + 1);
        }
        chance = Chance(Word::Chance.get());
        if chance.one_in(24) {
            sel4::r#yield();
        }
    }
}

/// A slot, usually a used one.
fn pick(chance: &mut Chance) -> u64 {
    (0..8).map(|_| chance.below(SLOTS)).find(|slot| kind(*slot) != Kind::Nothing).unwrap_or_else(|| chance.below(SLOTS))
}

/// A slot with a capability of this kind, or any slot.
fn pick_of(chance: &mut Chance, wanted: Kind) -> CPtr {
    let start = chance.below(SLOTS);
    let slots = (start..SLOTS).chain(0..start);
    let found = slots.clone().find(|slot| kind(*slot) == wanted);
    CPtr(if chance.one_in(12) { chance.below(SLOTS) } else { found.unwrap_or(start) })
}

/// An empty slot, or any slot.
fn empty(chance: &mut Chance) -> u64 {
    pick_of(chance, Kind::Nothing).0
}

/// The path to a slot in the table, or in another one.
fn place(chance: &mut Chance, slot: u64) -> Slot {
    match chance.below(12) {
        0 => Slot { root: CNode(pick_of(chance, Kind::CNode)), index: chance.below(16), depth: chance.below(66) as u8 },
        1 => Slot { root: CNode(CPtr(ITSELF)), index: chance.edge(), depth: chance.below(66) as u8 },
        2..4 => CNode(CPtr(ITSELF_WITHOUT_GUARD)).slot(slot, 8),
        _ => CNode(CPtr(ITSELF)).slot(slot, 64),
    }
}

fn rights(chance: &mut Chance) -> Rights {
    chance.of(&[Rights::ALL, Rights::ALL, Rights::READ_WRITE, Rights::READ, Rights::WRITE, Rights::NONE, Rights::CALL])
}

fn caching(chance: &mut Chance) -> Caching {
    chance.of(&[
        Caching::WriteBack,
        Caching::WriteBack,
        Caching::Disabled,
        Caching::WriteThrough,
        Caching::WriteCombining,
    ])
}

fn data(chance: &mut Chance) -> CapData {
    match chance.below(3) {
        0 => CapData::NONE,
        1 => CapData::badge(chance.edge()),
        _ => CapData::guard(chance.below(4), chance.below(64) as u8),
    }
}

/// Makes one step; returns whether the kernel accepted it.
fn step(chance: &mut Chance, slot: u64, kind: Kind) -> bool {
    let cptr = CPtr(slot);
    if chance.one_in(5) {
        return raw(chance, cptr);
    }
    if chance.one_in(4) {
        return slots(chance, slot).is_ok();
    }
    let result = match kind {
        Kind::Nothing => return raw(chance, cptr),
        Kind::Untyped => retype(chance, Untyped(cptr)),
        Kind::Tcb => thread(chance, Tcb(cptr)),
        Kind::Endpoint => talk(chance, Endpoint(cptr)),
        Kind::Notification => signal(chance, Notification(cptr)),
        Kind::CNode => slots(chance, slot),
        Kind::Page | Kind::LargePage => page(chance, Page(cptr)),
        Kind::PageTable => {
            let table = PageTable(cptr);
            if chance.one_in(3) { table.unmap() } else { table.map(space(chance), chance.address()) }
        }
        Kind::PageDirectory => {
            let table = PageDirectory(cptr);
            if chance.one_in(3) { table.unmap() } else { table.map(space(chance), chance.address()) }
        }
        Kind::Pdpt => {
            let table = Pdpt(cptr);
            if chance.one_in(3) { table.unmap() } else { table.map(space(chance), chance.address()) }
        }
        Kind::VSpace => AsidPool(pick_of(chance, Kind::AsidPool)).assign(VSpace(cptr)),
        Kind::AsidControl => {
            let to = empty(chance);
            let memory = Untyped(pick_of(chance, Kind::Untyped));
            let made = AsidControl(cptr).make_pool(memory, place(chance, to));
            if made.is_ok() {
                set_kind(to, Kind::AsidPool);
            }
            made
        }
        Kind::AsidPool => AsidPool(cptr).assign(space(chance)),
        Kind::IrqControl => return raw(chance, cptr),
        Kind::IrqHandler => {
            let handler = IrqHandler(cptr);
            if chance.one_in(2) { handler.ack() } else { return raw(chance, cptr) }
        }
        Kind::IoPort => {
            let port = IoPort(cptr);
            port.out8(chance.edge() as u16, chance.next() as u8).and_then(|()| port.in8(0x80)).map(drop)
        }
    };
    result.is_ok()
}

fn space(chance: &mut Chance) -> VSpace {
    VSpace(pick_of(chance, Kind::VSpace))
}

/// Any message to any capability: random labels, lengths, words and capabilities.
fn raw(chance: &mut Chance, cptr: CPtr) -> bool {
    let length = if chance.one_in(6) { chance.below(121) } else { chance.below(12) } as usize;
    for word in 4..length.min(130) {
        if word < ipc::MESSAGE_WORDS {
            let value = if chance.one_in(2) { chance.below(SLOTS) } else { chance.edge() };
            ipc::set_message_word(word, value);
        }
    }
    for cap in 0..3 {
        ipc::set_cap(cap, CPtr(if chance.one_in(8) { chance.edge() } else { pick(chance) }));
    }
    let label = if chance.one_in(16) { chance.edge() } else { chance.below(LABELS) };
    let info = MessageInfo::with_caps(label, length, chance.below(4) as usize);
    let mut mr = [0; 4];
    mr.fill_with(|| match chance.below(4) {
        0 => chance.below(SLOTS),
        1 => chance.address(),
        2 => 1 << chance.below(16),
        _ => chance.edge(),
    });
    // A send to an endpoint without a receiver would block.
    let waits = kind(cptr.0) == Kind::Endpoint && !chance.one_in(8);
    match chance.below(3) {
        0 => Endpoint(cptr).nbsend(Message { info, mr }),
        _ if waits => Endpoint(cptr).nbsend(Message { info, mr }),
        _ => return Endpoint(cptr).call(Message { info, mr }).info.label() == 0,
    }
    false
}

/// Operations on the table's slots.
fn slots(chance: &mut Chance, slot: u64) -> Result<()> {
    let from = place(chance, slot);
    let number = empty(chance);
    let to = place(chance, number);
    // The capabilities that the driver and its threads need stay; otherwise there would soon be nothing left to do.
    let keeps = slot <= ITSELF_WITHOUT_GUARD;
    match chance.below(if keeps { 2 } else { 12 }) {
        0 => to.copy_from(from, rights(chance)).map(|()| set_kind(number, kind(slot))),
        1 | 2 => to.mint_from(from, rights(chance), data(chance)).map(|()| set_kind(number, kind(slot))),
        3 | 4 => to.move_from(from).map(|()| moved(slot, number)),
        5 => to.mutate_from(from, data(chance)).map(|()| moved(slot, number)),
        6 => {
            let (pivot, data_of_pivot) = (pick(chance), data(chance));
            let between = place(chance, pivot);
            to.rotate(data(chance), between, data_of_pivot, from).map(|()| {
                set_kind(number, kind(pivot));
                moved(slot, pivot);
            })
        }
        7 | 8 => from.delete().map(|()| set_kind(slot, Kind::Nothing)),
        9 if chance.one_in(3) => from.revoke(),
        10 => from.cancel_badged_sends(),
        _ => ReplySlot::new(to, CPtr(number)).save(),
    }
}

fn moved(from: u64, to: u64) {
    let what = kind(from);
    set_kind(from, Kind::Nothing);
    set_kind(to, what);
}

fn retype(chance: &mut Chance, memory: Untyped) -> Result<()> {
    let (ty, kind) = match chance.below(14) {
        0 => (ObjectType::Untyped(chance.below(17) as u8), Kind::Untyped),
        1 => (ObjectType::Tcb, Kind::Tcb),
        2 => (ObjectType::Endpoint, Kind::Endpoint),
        3 => (ObjectType::Notification, Kind::Notification),
        4 => (ObjectType::CNode(chance.below(6) as u8), Kind::CNode),
        5..9 => (ObjectType::Page, Kind::Page),
        9 => (ObjectType::PageTable, Kind::PageTable),
        10 => (ObjectType::PageDirectory, Kind::PageDirectory),
        11 => (ObjectType::Pdpt, Kind::Pdpt),
        12 => (ObjectType::VSpace, Kind::VSpace),
        _ => (ObjectType::LargePage, Kind::LargePage),
    };
    let (offset, count) = (empty(chance), 1 + chance.below(3));
    if chance.one_in(8) {
        let root = CNode(pick_of(chance, Kind::CNode));
        return memory.retype(ty, root, chance.edge(), chance.below(66) as u8, chance.edge(), chance.edge());
    }
    memory.retype(ty, CNode(CPtr(ITSELF)), 0, 0, offset, count)?;
    (offset..offset + count).for_each(|slot| set_kind(slot, kind));
    Ok(())
}

fn registers(chance: &mut Chance) -> UserContext {
    let mut registers = pokers::registers(chance.page(), chance.below(SLOTS), chance.of(&pokers::NUMBERS));
    if chance.one_in(3) {
        registers.rip = chance.address();
        registers.rsp = chance.edge();
        registers.rflags = chance.edge();
        registers.fs_base = chance.edge();
        registers.gs_base = chance.edge();
        registers.rdx = chance.edge();
    }
    registers
}

/// Mostly breakpoints that a thread may have and that threads hit.
fn breakpoints(chance: &mut Chance) -> [u64; sel4::DEBUG_REGISTERS] {
    let control = chance.next() & 0xffff_00ff;
    let mut registers = core::array::from_fn(|_| chance.address() & !7);
    // On data: writes, or all accesses.
    registers[5] = control | 0x1111_0000;
    if chance.one_in(4) {
        registers.fill_with(|| chance.edge());
    }
    registers
}

fn thread(chance: &mut Chance, tcb: Tcb) -> Result<()> {
    let told = |done: Option<Result<()>>| done.unwrap_or(Ok(()));
    match chance.below(24) {
        0..5 => tcb.write_registers(&registers(chance), true),
        5 => tcb.write_registers(&registers(chance), false),
        6 => {
            let shares = chance.one_in(4).then(|| Tcb(pick_of(chance, Kind::Tcb)));
            tcb.write_foreign(&registers(chance), chance.one_in(2), shares)
        }
        7 => tcb.read_registers(chance.one_in(4)).map(drop),
        8 => tcb.suspend(),
        9 | 10 => tcb.resume(),
        11 => {
            tcb.answer(Message::four(chance.edge(), [chance.edge(); 4]));
            Ok(())
        }
        12 => {
            let endpoint = Endpoint(pick_of(chance, Kind::Endpoint));
            endpoint.answer_first(tcb, Message::one(0, chance.edge()), chance.one_in(2).then_some(Message::empty(0)));
            Ok(())
        }
        13 => {
            tcb.set_ipc_buffer(chance.address().wrapping_add(chance.below(9) * 512), Page(pick_of(chance, Kind::Page)))
        }
        14 => {
            let fault = pick_of(chance, Kind::Endpoint);
            let cspace = CNode(if chance.one_in(2) { CPtr(ITSELF) } else { pick_of(chance, Kind::CNode) });
            tcb.set_space(fault, cspace, data(chance), space(chance))
        }
        15 => {
            let authority = Tcb(pick_of(chance, Kind::Tcb));
            let (max_controlled, priority) = (chance.next() as u8, chance.of(&[0, 99, 100, 100, 255]));
            tcb.set_sched_params(SchedParams { authority, max_controlled, priority })
        }
        16 => tcb.bind_notification(Notification(pick_of(chance, Kind::Notification))),
        17 => told(tcb.reset()),
        18 => told(tcb.share_fpu(Tcb(pick_of(chance, Kind::Tcb)))),
        19 => tcb.hold().map_or(Ok(()), |held| held.map(drop)),
        20 => {
            let mut state = [0; sel4::FPU_WORDS];
            state.fill_with(|| chance.edge());
            told(tcb.write_fpu(&state))
        }
        21 => tcb.read_debug().map_or(Ok(()), |read| read.map(drop)),
        22 => told(tcb.write_debug(&breakpoints(chance))),
        _ => tcb.without_fpu(CPtr(pick(chance))),
    }
}

fn talk(chance: &mut Chance, endpoint: Endpoint) -> Result<()> {
    let message = Message::four(chance.below(8), [POISON; 4]);
    match chance.below(20) {
        0 => endpoint.send(message),
        1 => drop(endpoint.call(message)),
        2 => drop(endpoint.recv()),
        3..8 => drop(endpoint.nbrecv()),
        8..12 => Endpoint::reply(message),
        _ => endpoint.nbsend(message),
    }
    Ok(())
}

fn signal(chance: &mut Chance, notification: Notification) -> Result<()> {
    match chance.below(8) {
        0 if chance.one_in(4) => drop(notification.wait()),
        0..4 => drop(notification.poll()),
        _ => notification.signal(),
    }
    Ok(())
}

fn page(chance: &mut Chance, page: Page) -> Result<()> {
    let several = |chance: &mut Chance| AdjacentPages {
        cnode: if chance.one_in(8) { place(chance, ITSELF) } else { CNode(CPtr(ITSELF)).slot(0, 0) },
        to_index: 0,
        from: pick_of(chance, Kind::Page).0,
        to: if chance.one_in(2) { empty(chance) } else { pick_of(chance, Kind::Page).0 },
        count: if chance.one_in(8) { chance.edge() } else { 1 + chance.below(4) },
    };
    match chance.below(12) {
        0..5 => page.map(space(chance), chance.address(), rights(chance), caching(chance)),
        5 => page.map(
            space(chance),
            chance.address().wrapping_add(chance.below(4) * PAGE),
            rights(chance),
            caching(chance),
        ),
        6 => page.remap(space(chance), chance.page(), rights(chance), caching(chance)),
        7 | 8 => page.unmap(),
        9 => {
            let several = several(chance);
            let done = page.map_several(space(chance), chance.address(), rights(chance), caching(chance), several);
            if let Some(Ok(())) = done {
                (several.to..several.to + several.count).for_each(|slot| set_kind(slot, Kind::Page));
            }
            done.unwrap_or(Ok(()))
        }
        10 => page.unmap_several(several(chance)).unwrap_or(Ok(())),
        _ => page.written_several(several(chance)).map_or(Ok(()), |written| written.map(drop)),
    }
}
