//! Invalid addresses.

use sel4::bootinfo::{INIT_ASID_POOL, INIT_CNODE, INIT_VSPACE};
use sel4::{AdjacentPages, Caching, ObjectType, Page, PageDirectory, PageTable, Pdpt, Rights, UserContext, VSpace};

use crate::threads::{HIGH, News, Plan, hear};
use crate::world::{FIELD, Found, Memory, PAGE, World, expect, read, write};

/// User addresses end below it: the last page of the lower half is not mappable.
const TOP: u64 = (1 << 47) - PAGE;
/// The address of a page if the upper bits of the address are dropped.
const AT: u64 = FIELD + PAGE;

/// A page of 2 MiB.
const LARGE: u64 = 1 << 21;

fn map(page: Page, space: VSpace, address: u64) -> sel4::Result<()> {
    page.map(space, address, Rights::READ_WRITE, Caching::WriteBack)
}

/// A page is mapped at an address with a bit above the lower half, and deleted. Then its memory belongs to another
/// owner.
pub fn alias(world: &mut World) -> Found {
    for bit in 47..64 {
        let memory = Memory::new(world);
        if map(memory.page, INIT_VSPACE, AT | 1 << bit).is_ok() {
            // The processor ignores these bits and finds the page at the address without them.
            write(AT, 1);
            memory.change_hands().map_err(|_| "the page cannot be deleted")?;
            write(AT, 2);
            expect(Memory::is_untouched(), "a page that is deleted is in reach under the address that it had not")?;
            return Err("a page is mapped where no address is");
        }
    }
    // The sum of address and size is 0, or beyond the top.
    let large = Page(world.make(ObjectType::LargePage));
    for (page, address) in [
        (large, LARGE.wrapping_neg()),
        (large, TOP & !(LARGE - 1)),
        (Page(world.make(ObjectType::Page)), PAGE.wrapping_neg()),
    ] {
        expect(map(page, INIT_VSPACE, address).is_err(), "a page is mapped at the end of all addresses")?;
    }
    Ok(())
}

/// Structures and pages at addresses whose bits lead into the kernel's own tables, which all address spaces share.
pub fn window(world: &mut World) -> Found {
    let other = VSpace(world.make(ObjectType::VSpace));
    INIT_ASID_POOL.assign(other).map_err(|_| "no address space")?;
    let page = Page(world.make(ObjectType::Page));
    let (from, to) = (world.make(ObjectType::Page), world.slot());
    let large = Page(world.make(ObjectType::LargePage));
    let table = PageTable(world.make(ObjectType::PageTable));
    let directory = PageDirectory(world.make(ObjectType::PageDirectory));
    let pdpt = Pdpt(world.make(ObjectType::Pdpt));
    // All root-table entries of the upper half, with and without sign extension; in each the first address, and the
    // last GiB of it, where the kernel's devices are.
    for entry in 256..512_u64 {
        for within in [0, 0xffc0_0000, 0x7f_c000_0000, 0x7f_ffe0_0000, 0x7f_ffff_f000] {
            for above in [0, 0xffff << 48, 1 << 48, 1 << 63] {
                let address = above | entry << 39 | within;
                for space in [INIT_VSPACE, other] {
                    let refused = table.map(space, address).is_err()
                        && directory.map(space, address).is_err()
                        && pdpt.map(space, address).is_err()
                        && map(large, space, address & !(LARGE - 1)).is_err()
                        && map(page, space, address).is_err();
                    expect(refused, "something is mapped in the kernel's half")?;
                    let several =
                        AdjacentPages { cnode: INIT_CNODE.slot(0, 0), to_index: 0, from: from.0, to: to.0, count: 1 };
                    let several = page.map_several(space, address, Rights::ALL, Caching::WriteBack, several);
                    expect(several.is_none_or(|result| result.is_err()), "several pages are mapped there")?;
                }
            }
        }
    }
    Ok(())
}

extern "C" fn nothing(_: u64) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// A system call at the end of all user addresses returns to a user address.
pub fn top(world: &mut World) -> Found {
    Pdpt(world.make(ObjectType::Pdpt)).map(INIT_VSPACE, TOP).map_err(|_| "no first table")?;
    PageDirectory(world.make(ObjectType::PageDirectory)).map(INIT_VSPACE, TOP).map_err(|_| "no second table")?;
    world.table(TOP);
    let last = Page(world.make(ObjectType::Page));
    expect(map(last, INIT_VSPACE, TOP).is_err(), "the last page of the lower half can be mapped")?;
    let page = Page(world.make(ObjectType::Page));
    let pages = [world.make(ObjectType::Page), world.make(ObjectType::Page)];
    let to = [world.slot(), world.slot()];
    let several = AdjacentPages { cnode: INIT_CNODE.slot(0, 0), to_index: 0, from: pages[0].0, to: to[0].0, count: 2 };
    let several = page.map_several(INIT_VSPACE, TOP - PAGE, Rights::ALL, Caching::WriteBack, several);
    expect(several.is_none_or(|result| result.is_err()), "it can be mapped with the page before it")?;

    map(page, INIT_VSPACE, TOP - PAGE).map_err(|_| "the page before it cannot be mapped")?;
    // `syscall` in the page's last two bytes: Yield, with a stack pointer into the kernel.
    write(TOP - 8, 0x050f << 48);
    expect(read(TOP - 8) >> 48 == 0x050f, "memory does not hold what was written")?;
    let thread = Plan { priority: HIGH, ..Plan::new(INIT_VSPACE, nothing, 0) }.make(world);
    let yields = -7_i64 as u64;
    let registers = UserContext {
        rip: TOP - 2,
        rsp: 0xffff_ffff_8072_d000,
        rflags: 0x202,
        rdx: yields,
        r14: 0xffff_ffff_8072_d000,
        ..UserContext::default()
    };
    thread.write_registers(&registers, true).map_err(|_| "no registers")?;
    match hear(world) {
        News::Fault(0, sel4::Fault::Page { ip: TOP, .. }) => Ok(()),
        _ => Err("the thread does not fault behind its system call"),
    }
}
