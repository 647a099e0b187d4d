//! Address spaces, and memory that threads can still reach after it has been taken away.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sel4::bootinfo::{ASID_CONTROL, INIT_ASID_POOL, INIT_CNODE, INIT_VSPACE};
use sel4::{
    AsidPool, CPtr, Caching, CapData, Endpoint, Message, ObjectType, Page, PageDirectory, PageTable, Pdpt, Rights, Tcb,
    VSpace,
};

use crate::threads::{HIGH, MIDDLE, News, Plan, done, hear, let_run};
use crate::world::{FIELD, Found, Memory, PAGE, POISON, World, expect, own, write};

/// Address of the page that is taken away, and of the thread's buffer.
const AT: u64 = FIELD + PAGE;
const BUFFER: u64 = FIELD + 2 * PAGE;

/// Parameters of the threads.
static NEWS: AtomicU64 = AtomicU64::new(0);
static SPACE: AtomicU64 = AtomicU64::new(0);
static THREAD: AtomicU64 = AtomicU64::new(0);
static OTHER: AtomicU64 = AtomicU64::new(0);
static MEMORY: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

fn news() -> Endpoint {
    Endpoint(CPtr(NEWS.load(SeqCst)))
}

/// Touches a page, deletes it, and writes to it again. In between, `lose` takes away this thread's address space.
fn touch_and_delete(lose: impl FnOnce() -> sel4::Result<()>) -> ! {
    // SAFETY: this thread's buffer is mapped there, and the root task waits.
    unsafe { sel4::ipc::init(BUFFER as *mut u64) };
    let memory = Memory::from_words([0, 1, 2].map(|i| MEMORY[i].load(SeqCst)));
    write(AT, 1);
    if lose().is_err() || memory.change_hands().is_err() {
        done(news(), 0);
    }
    write(AT, POISON);
    done(news(), 1)
}

/// Runs such a thread in an address space of its own.
fn lost(world: &mut World, run: extern "C" fn(u64) -> !) -> Found {
    let space = world.space(None);
    let memory = Memory::new(world);
    memory.page.map(space, AT, Rights::READ_WRITE, Caching::WriteBack).map_err(|_| "no page")?;
    let buffer = Page(world.make(ObjectType::Page));
    // The buffer's page is mapped by a separate capability.
    let mapped = Page(world.again(buffer.cptr())).map(space, BUFFER, Rights::READ_WRITE, Caching::WriteBack);
    mapped.map_err(|_| "no buffer")?;
    for (place, word) in MEMORY.iter().zip(memory.to_words()) {
        place.store(word, SeqCst);
    }
    NEWS.store(world.news.cptr().0, SeqCst);
    SPACE.store(space.cptr().0, SeqCst);
    OTHER.store(world.space(None).cptr().0, SeqCst);
    let plan = Plan { priority: HIGH, buffer: Some((BUFFER, buffer)), ..Plan::new(space, run, 0) };
    let thread = plan.make(world);
    THREAD.store(thread.cptr().0, SeqCst);
    thread.resume().map_err(|_| "no thread")?;
    let heard = hear(world);
    world.take_buffer();
    expect(heard != News::Word(0), "the attack cannot be made")?;
    expect(Memory::is_untouched(), "a thread writes to a page that is deleted")
}

extern "C" fn revokes(_: u64) -> ! {
    touch_and_delete(|| own(CPtr(SPACE.load(SeqCst))).revoke())
}

/// The capability of a thread's address space is revoked, and the thread continues.
pub fn stale(world: &mut World) -> Found {
    lost(world, revokes)
}

extern "C" fn replaces(_: u64) -> ! {
    touch_and_delete(|| {
        let other = VSpace(CPtr(OTHER.load(SeqCst)));
        Tcb(CPtr(THREAD.load(SeqCst))).set_space(news().cptr(), INIT_CNODE, CapData::NONE, other)
    })
}

/// The thread's address space is replaced by another one.
pub fn replaced(world: &mut World) -> Found {
    lost(world, replaces)
}

fn map(page: Page, address: u64) -> sel4::Result<()> {
    page.map(INIT_VSPACE, address, Rights::READ_WRITE, Caching::WriteBack)
}

/// A page is mapped again at an address where another page has been mapped since. The other page must be unreachable
/// once it is deleted.
pub fn remap(world: &mut World) -> Found {
    const FURTHER: u64 = FIELD + (2 << 20);
    let [first, second] = [0, 1].map(|_| PageTable(world.make(ObjectType::PageTable)));
    let (a, b) = (Memory::new(world), Memory::new(world));
    first.map(INIT_VSPACE, FURTHER).map_err(|_| "no table")?;
    map(a.page, FURTHER).map_err(|_| "no page")?;
    first.unmap().map_err(|_| "the table stays")?;
    second.map(INIT_VSPACE, FURTHER).map_err(|_| "no other table")?;
    map(b.page, FURTHER).map_err(|_| "no other page")?;
    write(FURTHER, 1);
    if a.page.remap(INIT_VSPACE, FURTHER, Rights::READ_WRITE, Caching::WriteBack).is_err() {
        return Ok(());
    }
    b.change_hands().map_err(|_| "the page stays")?;
    write(FURTHER, POISON);
    expect(Memory::is_untouched(), "a page that is deleted is in reach where another one was mapped over it")?;
    // Remapping with fewer rights removes the others.
    a.page.remap(INIT_VSPACE, FURTHER, Rights::READ, Caching::WriteBack).map_err(|_| "no fewer rights")?;
    NEWS.store(world.news.cptr().0, SeqCst);
    let thread = Plan { priority: HIGH, ..Plan::new(INIT_VSPACE, writes_further, 0) }.make(world);
    thread.resume().map_err(|_| "no thread")?;
    match hear(world) {
        News::Fault(0, sel4::Fault::Page { address: FURTHER, .. }) => Ok(()),
        _ => Err("a page is written through a mapping without that right"),
    }
}

extern "C" fn writes_further(_: u64) -> ! {
    write(FIELD + (2 << 20), POISON);
    done(news(), 1)
}

/// A page is mapped over another one.
pub fn overmap(world: &mut World) -> Found {
    let (a, b) = (Memory::new(world), Memory::new(world));
    map(a.page, AT).map_err(|_| "no page")?;
    write(AT, 1);
    if map(b.page, AT).is_err() {
        return Ok(());
    }
    a.change_hands().map_err(|_| "the page stays")?;
    write(AT, POISON);
    expect(Memory::is_untouched(), "a page that is deleted is in reach where another one was mapped over it")
}

fn new_pool(world: &mut World) -> Result<AsidPool, &'static str> {
    let (memory, to) = (world.piece(12), world.slot());
    ASID_CONTROL.make_pool(memory, own(to)).map_err(|_| "no pool")?;
    Ok(AsidPool(to))
}

extern "C" fn writes_when_called(_: u64) -> ! {
    let calls = Endpoint(CPtr(SPACE.load(SeqCst)));
    calls.recv();
    loop {
        write(AT, POISON);
        calls.reply_recv(Message::empty(0));
    }
}

extern "C" fn calls(_: u64) -> ! {
    let calls = Endpoint(CPtr(SPACE.load(SeqCst)));
    calls.call(Message::empty(1));
    done(news(), 1)
}

/// An ASID pool is deleted; then a page of an address space that had an ASID from it.
pub fn pool(world: &mut World) -> Found {
    let pool = new_pool(world)?;
    let space = world.space(Some(pool));
    let memory = Memory::new(world);
    memory.page.map(space, AT, Rights::READ_WRITE, Caching::WriteBack).map_err(|_| "no page")?;
    NEWS.store(world.news.cptr().0, SeqCst);
    SPACE.store(world.make(ObjectType::Endpoint).0, SeqCst);
    let called = Plan { priority: HIGH, ..Plan::new(space, writes_when_called, 0) }.make(world);
    called.resume().map_err(|_| "no thread")?;
    let_run(1);
    own(pool.cptr()).delete().map_err(|_| "the pool stays")?;
    memory.change_hands().map_err(|_| "the page stays")?;
    let caller = Plan { priority: MIDDLE, ..Plan::new(INIT_VSPACE, calls, 1) }.make(world);
    caller.resume().map_err(|_| "no caller")?;
    let_run(4);
    expect(Memory::is_untouched(), "a thread writes to a page that is deleted, in a space that has no number")
}

/// Nothing can be mapped into an address space without an ASID, because it could not be unmapped again.
pub fn tables(world: &mut World) -> Found {
    const FURTHER: u64 = 1 << 39;
    let pool = new_pool(world)?;
    let space = VSpace(world.make(ObjectType::VSpace));
    pool.assign(space).map_err(|_| "no number")?;
    Pdpt(world.make(ObjectType::Pdpt)).map(space, 0).map_err(|_| "no first table")?;
    PageDirectory(world.make(ObjectType::PageDirectory)).map(space, 0).map_err(|_| "no second table")?;
    own(pool.cptr()).delete().map_err(|_| "the pool stays")?;
    // Another address space may get the same ASID.
    let taken = new_pool(world)?;
    for _ in 0..2 {
        let pdpt = Pdpt(world.make(ObjectType::Pdpt));
        expect(pdpt.map(space, FURTHER).is_err(), "a first table is mapped into a space without a number")?;
        let directory = PageDirectory(world.make(ObjectType::PageDirectory));
        expect(directory.map(space, 1 << 30).is_err(), "a second table is")?;
        expect(PageTable(world.make(ObjectType::PageTable)).map(space, 0).is_err(), "a third table is")?;
        let large = Page(world.make(ObjectType::LargePage));
        let mapped = large.map(space, 2 << 20, Rights::READ_WRITE, Caching::WriteBack);
        expect(mapped.is_err(), "a page is")?;
        taken.assign(VSpace(world.make(ObjectType::VSpace))).map_err(|_| "no other space")?;
    }
    Ok(())
}

/// Capabilities of all kinds are copied, mapped and unmapped ones. The kernel must not take any of them for an internal
/// error.
pub fn copies(world: &mut World) -> Found {
    let space = VSpace(world.make(ObjectType::VSpace));
    let pdpt = Pdpt(world.make(ObjectType::Pdpt));
    let directory = PageDirectory(world.make(ObjectType::PageDirectory));
    let table = PageTable(world.make(ObjectType::PageTable));
    let page = Page(world.make(ObjectType::Page));
    let mut caps = [
        space.cptr(),
        pdpt.cptr(),
        directory.cptr(),
        table.cptr(),
        page.cptr(),
        world.piece(12).cptr(),
        world.make(ObjectType::Tcb),
        world.make(ObjectType::Endpoint),
        world.make(ObjectType::Notification),
        world.make(ObjectType::CNode(2)),
        new_pool(world)?.cptr(),
        ASID_CONTROL.cptr(),
        CPtr::NULL,
    ];
    for _ in 0..2 {
        for cap in caps {
            let to = world.slot();
            let _ = own(to).copy_from(own(cap), Rights::ALL);
            let _ = own(to).delete();
            let _ = own(to).mint_from(own(cap), Rights::READ, CapData::badge(1));
        }
        // The same with all of them mapped. The second time these calls fail.
        let _ = INIT_ASID_POOL.assign(space);
        let _ = pdpt.map(space, 0);
        let _ = directory.map(space, 0);
        let _ = table.map(space, 0);
        let _ = page.map(space, 0, Rights::READ, Caching::WriteBack);
        caps.reverse();
    }
    // A structure still exists after one of its capabilities has been deleted.
    for cap in [pdpt.cptr(), directory.cptr(), table.cptr()] {
        let to = world.slot();
        own(to).copy_from(own(cap), Rights::ALL).map_err(|_| "a structure that is mapped cannot be copied")?;
        own(to).delete().map_err(|_| "the copy stays")?;
    }
    let page = Page(world.make(ObjectType::Page));
    let mapped = page.map(space, PAGE, Rights::READ, Caching::WriteBack);
    expect(mapped.is_ok(), "a structure has gone with one of its capabilities")
}
