//! Clones, slices and references of a pager's VMO. Clones own the pages that are written in them; for all other pages
//! the request goes to the VMO's pager.

use abi::{
    Status, ZX_INFO_VMO_PAGER_BACKED, ZX_VM_MAP_RANGE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VMO_CHILD_REFERENCE,
    ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE,
    ZX_VMO_CHILD_SNAPSHOT_MODIFIED, ZX_VMO_RESIZABLE,
};
use zx::Vmo;

use super::cases;
use crate::check::{Outcome, ensure, equal, fails};
use crate::pager_vmo::AccessKind::{self, Called, Mapped};
use crate::pager_vmo::{Access, MappedAccess, PAGE, Paged, Supplier, content, contents, words};

cases! {
    "pager.clone.read_from_clone_vmar" => || read_from_clone(Mapped),
    "pager.clone.read_from_clone_vmo" => || read_from_clone(Called),
    "pager.clone.read_from_parent_vmar" => || read_from_parent(Mapped),
    "pager.clone.read_from_parent_vmo" => || read_from_parent(Called),
    "pager.clone.read_at_once_vmar" => || read_at_once(Mapped),
    "pager.clone.read_at_once_vmo" => || read_at_once(Called),
    "pager.clone.several_read_at_once_vmar" => || several_read_at_once(Mapped),
    "pager.clone.several_read_at_once_vmo" => || several_read_at_once(Called),
    "pager.clone.write_vmar" => || write(Mapped),
    "pager.clone.write_vmo" => || write(Called),
    "pager.clone.detached" => detached,
    "pager.clone.commit" => commit,
    "pager.clone.commit_split_supply" => commit_split_supply,
    "pager.clone.commit_skips_committed_pages" => commit_skips_committed_pages,
    "pager.clone.resized_meanwhile" => resized_meanwhile,
    "pager.clone.resized_under_a_mapping" => resized_under_a_mapping,
    "pager.clone.parent_resized" => parent_resized,
    "pager.clone.parent_shrinks_and_grows" => parent_shrinks_and_grows,
    "pager.clone.zero_page_written" => zero_page_written,
    "pager.clone.no_snapshot" => no_snapshot,
    "pager.clone.outlives_handle" => outlives_handle,
    "pager.clone.slices" => slices,
    "pager.clone.reference" => reference,
    "pager.info.flags" => info_flags,
    "pager.map.range" => map_range,
    "pager.map.protect" => protect,
}

fn clone(vmo: &Vmo, pages: u64) -> zx::Result<Vmo> {
    vmo.create_child(ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, 0, pages * PAGE)
}

fn read_from_clone(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let clone = clone(&vmo, 1)?;
    let access = Access::read(how, &clone, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    access.waits()?;
    supplier.supply(&vmo, 0, 1)?;
    access.finds(&[content(0)])?;
    supplier.unasked()
}

fn read_from_parent(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let clone = clone(&vmo, 1)?;
    let access = Access::read(how, &vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.supply(&vmo, 0, 1)?;
    access.finds(&[content(0)])?;
    Access::read(how, &clone, 0, 1)?.finds(&[content(0)])?;
    supplier.unasked()
}

fn read_at_once(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let clone = clone(&vmo, 1)?;
    let accesses = [Access::read(how, &vmo, 0, 1)?, Access::read(how, &clone, 0, 1)?];
    accesses.iter().try_for_each(Access::waits)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.unasked()?;
    supplier.supply(&vmo, 0, 1)?;
    accesses.into_iter().try_for_each(|access| access.finds(&[content(0)]))?;
    supplier.unasked()
}

fn several_read_at_once(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let clones = [clone(&vmo, 1)?, clone(&vmo, 1)?, clone(&vmo, 1)?];
    let mut accesses = Vec::new();
    for clone in &clones {
        accesses.push(Access::read(how, clone, 0, 1)?);
    }
    accesses.iter().try_for_each(Access::waits)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.unasked()?;
    supplier.supply(&vmo, 0, 1)?;
    accesses.into_iter().try_for_each(|access| access.finds(&[content(0)]))?;
    supplier.unasked()
}

/// The written page is copied, so the pager must supply it first; the VMO's own page stays as it is.
fn write(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let clone = clone(&vmo, 1)?;
    let access = Access::write(how, &clone, 0, 1, 55)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    access.waits()?;
    supplier.supply(&vmo, 0, 1)?;
    access.ends()?;
    equal((words(&vmo, 0, 1)?, words(&clone, 0, 1)?), (contents(0, 1), vec![55]))?;
    equal((vmo.info()?.committed_bytes, clone.info()?.committed_bytes), (PAGE, PAGE))?;
    // The rest of the page was copied as well.
    let mut rest = [1; 8];
    clone.read(&mut rest, 8)?;
    equal(rest, [0; 8])?;
    supplier.unasked()
}

fn detached() -> Outcome {
    let (supplier, vmo) = Supplier::with(3)?;
    let clone = clone(&vmo, 3)?;
    supplier.supply(&vmo, 0, 2)?;
    clone.write(&55_u64.to_le_bytes(), 0)?;
    equal(words(&clone, 0, 2)?, vec![55, content(1)])?;
    let access = Access::read(Mapped, &clone, 2, 1)?;
    supplier.asked_to_read(&vmo, 2, 1)?;
    supplier.pager.detach_vmo(&vmo)?;
    access.fails(Status::BAD_STATE)?;
    supplier.completed(&vmo)?;
    // The clone keeps its own page; the VMO's pages are not available any more.
    for how in [Mapped, Called] {
        Access::read(how, &clone, 0, 1)?.finds(&[55])?;
        Access::read(how, &clone, 1, 1)?.fails(Status::BAD_STATE)?;
        Access::read(how, &clone, 2, 1)?.fails(Status::BAD_STATE)?;
    }
    supplier.unasked()
}

fn commit() -> Outcome {
    let (supplier, vmo) = Supplier::with(32)?;
    let clone = clone(&vmo, 32)?;
    let access = Access::commit(&clone, 0, 32)?;
    supplier.asked_to_read(&vmo, 0, 32)?;
    access.waits()?;
    supplier.supply(&vmo, 0, 32)?;
    access.ends()?;
    equal(clone.info()?.committed_bytes, 32 * PAGE)?;
    equal(words(&clone, 0, 32)?, contents(0, 32))?;
    supplier.unasked()
}

fn commit_split_supply() -> Outcome {
    let (supplier, vmo) = Supplier::with(32)?;
    let clone = clone(&vmo, 32)?;
    let access = Access::commit(&clone, 0, 32)?;
    supplier.asked_to_read(&vmo, 0, 32)?;
    supplier.supply(&vmo, 0, 16)?;
    access.still_waits()?;
    supplier.supply(&vmo, 16, 16)?;
    access.ends()?;
    equal(words(&clone, 0, 32)?, contents(0, 32))?;
    supplier.unasked()
}

/// The server requests neither the pages that the parent has nor those that were read through the clone; at the end the
/// clone has all pages.
fn commit_skips_committed_pages() -> Outcome {
    let (supplier, vmo) = Supplier::with(4)?;
    let clone = clone(&vmo, 4)?;
    supplier.supply(&vmo, 1, 2)?;
    Access::read(Mapped, &clone, 1, 1)?.finds(&[content(1)])?;
    let access = Access::commit(&clone, 0, 4)?;
    for page in [0, 3] {
        supplier.asked_to_read(&vmo, page, 1)?;
        access.waits()?;
        supplier.supply(&vmo, page, 1)?;
    }
    access.ends()?;
    equal((clone.info()?.committed_bytes, words(&clone, 0, 4)?), (4 * PAGE, contents(0, 4)))?;
    supplier.unasked()
}

/// Cutting a clone makes accesses through its mapping fault; cutting its parent does not.
fn resized_under_a_mapping() -> Outcome {
    let (supplier, vmo) = Supplier::with_options(2, ZX_VMO_RESIZABLE)?;
    supplier.supply(&vmo, 0, 2)?;
    let cut = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE | ZX_VMO_CHILD_RESIZABLE, 0, 2 * PAGE)?;
    equal(words(&cut, 0, 2)?, contents(0, 2))?;
    let accesses = [None, Some(5)].map(|value| MappedAccess::prepare(&cut, 0, 1, value));
    cut.set_size(0)?;
    for access in accesses {
        let access = access?;
        access.start()?;
        Access::Mapped(access).fails(Status::OUT_OF_RANGE)?;
    }
    let whole = clone(&vmo, 2)?;
    let [reads, writes] = [None, Some(5)].map(|value| MappedAccess::prepare(&whole, 0, 2, value));
    vmo.set_size(0)?;
    for (access, expected) in [(reads?, [0, 0]), (writes?, [5, 5])] {
        access.start()?;
        Access::Mapped(access).ends()?;
        equal(words(&whole, 0, 2)?, expected.to_vec())?;
    }
    supplier.unasked()
}

fn resized_meanwhile() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    let clone = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE | ZX_VMO_CHILD_RESIZABLE, 0, 2 * PAGE)?;
    let access = Access::commit(&clone, 0, 2)?;
    supplier.asked_to_read(&vmo, 0, 2)?;
    access.waits()?;
    clone.set_size(0)?;
    supplier.supply(&vmo, 0, 2)?;
    access.ends()?;
    equal(clone.info()?.committed_bytes, 0)?;
    supplier.unasked()
}

/// Cutting the VMO does not affect threads that wait for the remaining pages.
fn parent_resized() -> Outcome {
    let (supplier, vmo) = Supplier::with_options(2, ZX_VMO_RESIZABLE)?;
    let clone = clone(&vmo, 2)?;
    let access = Access::read(Mapped, &clone, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    access.waits()?;
    vmo.set_size(PAGE)?;
    access.still_waits()?;
    supplier.supply(&vmo, 0, 1)?;
    access.finds(&[content(0)])?;
    equal(words(&clone, 0, 2)?, vec![content(0), 0])?;
    supplier.unasked()
}

/// Pages that the VMO has lost read as zeroes in its clones permanently.
fn parent_shrinks_and_grows() -> Outcome {
    let (supplier, vmo) = Supplier::with_options(3, ZX_VMO_RESIZABLE)?;
    let clone = clone(&vmo, 3)?;
    supplier.supply(&vmo, 0, 3)?;
    equal(words(&clone, 0, 3)?, contents(0, 3))?;
    let access = crate::pager_vmo::MappedAccess::prepare(&clone, 0, 3, None)?;
    vmo.set_size(PAGE)?;
    equal(words(&clone, 0, 3)?, vec![content(0), 0, 0])?;
    vmo.set_size(3 * PAGE)?;
    vmo.write(&9_u64.to_le_bytes(), 2 * PAGE)?;
    equal(words(&clone, 0, 3)?, vec![content(0), 0, 0])?;
    access.start()?;
    Access::Mapped(access).finds(&[content(0), 0, 0])?;
    supplier.unasked()?;
    // The same for clones that begin at other pages, seen through a mapping throughout. The columns: pages of the VMO,
    // the clone's first page, the clone's number of pages, the page to check, and the number of pages to which the VMO
    // is cut.
    let region = zx::startup::vmar_root_self();
    for (pages, first, count, looked_at, cut) in [(1, 0, 1, 0, 0), (2, 1, 1, 0, 0), (3, 1, 2, 1, 2)] {
        let (supplier, vmo) = Supplier::with_options(pages, ZX_VMO_RESIZABLE)?;
        supplier.supply(&vmo, 0, pages)?;
        let clone = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, first * PAGE, count * PAGE)?;
        let mapping = region.map_here(ZX_VM_PERM_READ, &clone, 0, (count * PAGE) as usize)?;
        let find = |value: u64| -> Outcome {
            let mut word = [1; 8];
            mapping.read((looked_at * PAGE) as usize, &mut word)?;
            equal(u64::from_le_bytes(word), value)
        };
        let page = first + looked_at;
        find(content(page))?;
        // The clone has not written the page, so it sees the parent's changes.
        vmo.write(&1_u64.to_le_bytes(), page * PAGE)?;
        find(1)?;
        vmo.set_size(cut * PAGE)?;
        find(0)?;
        vmo.set_size(pages * PAGE)?;
        find(0)?;
        supplier.supply(&vmo, 0, pages)?;
        vmo.write(&2_u64.to_le_bytes(), page * PAGE)?;
        find(0)?;
        supplier.unasked()?;
    }
    Ok(())
}

/// A supplied zero page can be copied and written like any other.
fn zero_page_written() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    supplier.pager.supply_pages(&vmo, 0, PAGE, &Vmo::create(PAGE, 0)?, 0)?;
    let clone = clone(&vmo, 1)?;
    equal(words(&clone, 0, 1)?, vec![0])?;
    Access::write(Mapped, &clone, 0, 1, 55)?.ends()?;
    equal((words(&vmo, 0, 1)?, words(&clone, 0, 1)?), (vec![0], vec![55]))?;
    Access::write(Mapped, &vmo, 0, 1, 66)?.ends()?;
    equal((words(&vmo, 0, 1)?, words(&clone, 0, 1)?), (vec![66], vec![55]))?;
    supplier.unasked()
}

/// A snapshot would have to preserve content that only the pager knows, so the server refuses it.
fn no_snapshot() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    fails(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, PAGE), Status::NOT_SUPPORTED)?;
    for kind in [ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED] {
        let clone = vmo.create_child(kind, 0, PAGE)?;
        fails(clone.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, PAGE), Status::NOT_SUPPORTED)?;
    }
    supplier.unasked()
}

/// A clone keeps the VMO alive, and the pager can still supply pages.
fn outlives_handle() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let clone = clone(&vmo, 1)?;
    supplier.supply(&vmo, 0, 1)?;
    let key = vmo.key;
    drop(vmo);
    supplier.unasked()?;
    equal(words(&clone, 0, 1)?, contents(0, 1))?;
    drop(clone);
    supplier.completed(&Paged { vmo: Vmo::create(0, 0)?, key })
}

fn slices() -> Outcome {
    let (supplier, vmo) = Supplier::with(8)?;
    let slice = vmo.create_child(ZX_VMO_CHILD_SLICE, 2 * PAGE, 4 * PAGE)?;
    let inner = slice.create_child(ZX_VMO_CHILD_SLICE, PAGE, 2 * PAGE)?;
    let clone = inner.create_child(ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, PAGE, PAGE)?;
    for (how, vmo_of, page, at) in [(Mapped, &slice, 0, 2), (Called, &inner, 0, 3), (Mapped, &clone, 0, 4)] {
        let access = Access::read(how, vmo_of, page, 1)?;
        supplier.asked_to_read(&vmo, at, 1)?;
        supplier.supply(&vmo, at, 1)?;
        access.finds(&[content(at)])?;
    }
    let access = Access::commit(&slice, 0, 4)?;
    supplier.asked_to_read(&vmo, 5, 1)?;
    supplier.supply(&vmo, 5, 1)?;
    access.ends()?;
    // A write to a slice changes the VMO; a write to a clone does not.
    slice.write(&1_u64.to_le_bytes(), 2 * PAGE)?;
    clone.write(&2_u64.to_le_bytes(), 0)?;
    equal((words(&vmo, 4, 1)?, words(&inner, 1, 1)?, words(&clone, 0, 1)?), (vec![1], vec![1], vec![2]))?;
    // A pager supplies pages to the VMO itself, never through a slice.
    fails(supplier.pager.supply_pages(&slice, 0, PAGE, &Vmo::create(PAGE, 0)?, 0), Status::INVALID_ARGS)?;
    supplier.unasked()
}

fn reference() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    let reference = vmo.create_child(ZX_VMO_CHILD_REFERENCE, 0, 0)?;
    let access = Access::read(Called, &reference, 1, 1)?;
    supplier.asked_to_read(&vmo, 1, 1)?;
    supplier.supply(&vmo, 1, 1)?;
    access.finds(&[content(1)])?;
    equal(words(&vmo, 1, 1)?, contents(1, 1))
}

fn info_flags() -> Outcome {
    let (supplier, vmo) = Supplier::with_options(1, ZX_VMO_RESIZABLE)?;
    let flags = |vmo: &Vmo| vmo.info().map(|info| info.flags);
    ensure(flags(&vmo)? & ZX_INFO_VMO_PAGER_BACKED != 0, "a pager's VMO is not told to be one")?;
    ensure(flags(&vmo)? & abi::ZX_INFO_VMO_RESIZABLE != 0, "it is not told to be resizable")?;
    ensure(flags(&Vmo::create(PAGE, 0)?)? & ZX_INFO_VMO_PAGER_BACKED == 0, "a plain VMO is told to have a pager")?;
    let (_, fixed) = Supplier::with(1)?;
    ensure(flags(&fixed)? & abi::ZX_INFO_VMO_RESIZABLE == 0, "one that is not resizable is told to be")?;
    equal(vmo.info()?.committed_bytes, 0)?;
    supplier.supply(&vmo, 0, 1)?;
    equal(vmo.info()?.committed_bytes, PAGE)
}

/// `ZX_VM_MAP_RANGE` maps the pages that are present and sends no request.
fn map_range() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    supplier.supply(&vmo, 0, 1)?;
    let region = zx::startup::vmar_root_self();
    let mapping = region.map_here(ZX_VM_PERM_READ | ZX_VM_MAP_RANGE, &vmo, 0, 2 * PAGE as usize)?;
    region.op_range(abi::ZX_VMAR_OP_MAP_RANGE, mapping.address(), 2 * PAGE as usize)?;
    supplier.unasked()?;
    let mut word = [0; 8];
    mapping.read(0, &mut word)?;
    equal(u64::from_le_bytes(word), content(0))?;
    supplier.unasked()?;
    let access = Access::read(Mapped, &vmo, 1, 1)?;
    supplier.asked_to_read(&vmo, 1, 1)?;
    supplier.supply(&vmo, 1, 1)?;
    access.finds(&[content(1)])?;
    mapping.read(PAGE as usize, &mut word)?;
    equal(u64::from_le_bytes(word), content(1))?;
    supplier.unasked()
}

/// Changing the permissions of a pager's memory sends no request, and the mapped pages get the new permissions.
fn protect() -> Outcome {
    let (supplier, vmo) = Supplier::with(16)?;
    let region = zx::startup::vmar_root_self();
    let (read, write) = (ZX_VM_PERM_READ, ZX_VM_PERM_READ | ZX_VM_PERM_WRITE);
    let mapping = region.map_here(write, &vmo, 0, 16 * PAGE as usize)?;
    let at = |page: usize| mapping.address() + page * PAGE as usize;
    supplier.supply(&vmo, 4, 4)?;
    region.protect(read, at(2), 8 * PAGE as usize)?;
    region.protect(write, at(6), 8 * PAGE as usize)?;
    supplier.unasked()?;
    let mut word = [0; 8];
    mapping.read(4 * PAGE as usize, &mut word)?;
    equal(u64::from_le_bytes(word), content(4))?;
    mapping.write(6 * PAGE as usize, &[1])?;
    // An access without permission fails, and no request is sent.
    fails(zx::startup::process_self().read_memory(0, &mut word), Status::NO_MEMORY)?;
    let status = super::raw!(zx_clock_read, zx::AsHandleRef::raw_handle(&zx::Clock::create(0)?), at(2));
    equal(status, Status::INVALID_ARGS)?;
    supplier.unasked()
}
