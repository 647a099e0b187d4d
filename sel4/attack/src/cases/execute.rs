//! Pages that are not executable.

use sel4::bootinfo::{INIT_CNODE, INIT_VSPACE};
use sel4::{AdjacentPages, Caching, ObjectType, Page, Rights, Tcb, UserContext};

use crate::threads::{HIGH, News, Plan, hear};
use crate::world::{FIELD, Found, PAGE, World, expect, write};

/// Address of a large page.
const LARGE: u64 = FIELD + (2 << 20);
/// `int3`, which a thread that executes it reports.
const BREAKPOINT: u64 = 0xcc;
/// The exception's number.
const BREAKPOINT_VECTOR: u64 = 3;
/// The error code of a program's fetch from a page that is present but not executable.
const REFUSED: u64 = 0x15;

/// Makes a thread jump to an address; returns whether it executed the instruction there.
fn jumps(world: &World, thread: Tcb, address: u64) -> Result<bool, &'static str> {
    let registers = UserContext { rip: address, rsp: FIELD, rflags: 0x202, ..UserContext::default() };
    let _ = thread.suspend();
    thread.write_registers(&registers, true).map_err(|_| "no thread")?;
    match hear(world) {
        News::Fault(_, sel4::Fault::Exception { number: BREAKPOINT_VECTOR, .. }) => Ok(true),
        News::Fault(_, sel4::Fault::Page { address: at, ip, fetch: true, code: REFUSED })
            if at == address && ip == at =>
        {
            Ok(false)
        }
        _ => Err("a thread does something else than to execute a page or be refused"),
    }
}

extern "C" fn never(_: u64) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Pages of two sizes, one by one and several in one call, mapped executable or not, and remapped.
pub fn execute(world: &mut World) -> Found {
    let thread = Plan { priority: HIGH, ..Plan::new(INIT_VSPACE, never, 0) }.make(world);
    let (not, may) = (Caching::WriteBack.not_executed(), Caching::WriteBack.into());
    let small = Page(world.make(ObjectType::Page));
    let large = Page(world.make(ObjectType::LargePage));
    for (page, address, size) in [(small, FIELD, PAGE), (large, LARGE, 2 << 20)] {
        for first in [not, may] {
            page.map(INIT_VSPACE, address, Rights::READ_WRITE, first).map_err(|_| "no page")?;
            for at in [address, address + size - 1] {
                write(at & !7, BREAKPOINT << (8 * (at & 7)) | BREAKPOINT);
                for attributes in [first, may, not, may, not] {
                    page.remap(INIT_VSPACE, address, Rights::READ_WRITE, attributes)
                        .map_err(|_| "no other attributes")?;
                    let executed = jumps(world, thread, at)?;
                    expect(executed <= attributes.execute, "a page is executed that is not to be")?;
                    expect(executed >= attributes.execute, "a page is not executed that is to be")?;
                }
            }
            page.unmap().map_err(|_| "the page stays")?;
        }
    }
    // The processor's TLB holds a translation for reading, and none for a fetch.
    small.map(INIT_VSPACE, FIELD, Rights::READ, not).map_err(|_| "no page to read")?;
    expect(!jumps(world, thread, FIELD)?, "a page that is only to be read is executed")?;
    small.unmap().map_err(|_| "the page stays")?;

    let pages = [0, 1].map(|_| Page(world.make(ObjectType::Page)));
    let [from, _] = pages.map(|page| page.cptr().0);
    let to = world.slots(2).0;
    let several = AdjacentPages { cnode: INIT_CNODE.slot(0, 0), to_index: 0, from, to, count: 2 };
    match pages[0].map_several(INIT_VSPACE, FIELD, Rights::READ_WRITE, not, several) {
        Some(Ok(())) => {}
        Some(Err(_)) => return Err("no pages"),
        None => return Ok(()),
    }
    for page in [FIELD, FIELD + PAGE] {
        write(page, BREAKPOINT);
        expect(!jumps(world, thread, page)?, "one of several pages is executed that are not to be")?;
    }
    Ok(())
}
