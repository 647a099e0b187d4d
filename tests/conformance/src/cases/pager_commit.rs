//! Committing a range of a pager's VMO requests the whole range at once.

use abi::{Signals, Status, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_PREFETCH, ZX_VMO_RESIZABLE};
use zx::AsHandleRef;

use super::{cases, late};
use crate::check::{Outcome, fails};
use crate::pager_vmo::{Access, PAGE, Supplier, contents, words};

cases! {
    "pager.commit.one_page" => one_page,
    "pager.commit.whole_range" => whole_range,
    "pager.commit.split_supply" => split_supply,
    "pager.commit.overlapping_commits" => overlapping_commits,
    "pager.commit.overlapping_commits_one_supply" => overlapping_commits_one_supply,
    "pager.commit.page_by_page" => page_by_page,
    "pager.commit.many_commits_one_supply" => many_commits_one_supply,
    "pager.commit.redundant_supply" => redundant_supply,
    "pager.commit.resized" => resized,
    "pager.commit.suspended" => suspended,
    "pager.commit.skips_committed_pages" => passes_over,
    "pager.commit.prefetch" => prefetch,
    "pager.commit.decommit" => decommit,
}

fn one_page() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::commit(&vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    access.waits()?;
    supplier.supply(&vmo, 0, 1)?;
    access.ends()?;
    supplier.unasked()
}

/// All pages of a range are requested at once, however many there are.
fn whole_range() -> Outcome {
    let (supplier, vmo) = Supplier::with(555)?;
    let access = Access::commit(&vmo, 0, 555)?;
    supplier.asked_to_read(&vmo, 0, 555)?;
    access.waits()?;
    supplier.supply(&vmo, 0, 555)?;
    access.ends()?;
    crate::check::equal(words(&vmo, 0, 555)?, contents(0, 555))?;
    supplier.unasked()
}

fn split_supply() -> Outcome {
    let (supplier, vmo) = Supplier::with(32)?;
    let access = Access::commit(&vmo, 0, 32)?;
    supplier.asked_to_read(&vmo, 0, 32)?;
    supplier.supply(&vmo, 0, 16)?;
    access.still_waits()?;
    supplier.supply(&vmo, 16, 16)?;
    access.ends()?;
    supplier.unasked()
}

/// A request ends where an outstanding one begins, and pages that were requested already are not requested again.
fn overlapping_commits() -> Outcome {
    let (supplier, vmo) = Supplier::with(32)?;
    let inner = Access::commit(&vmo, 8, 16)?;
    supplier.asked_to_read(&vmo, 8, 16)?;
    let outer = Access::commit(&vmo, 0, 32)?;
    supplier.asked_to_read(&vmo, 0, 8)?;
    supplier.supply(&vmo, 0, 8)?;
    outer.waits()?;
    inner.waits()?;
    supplier.unasked()?;
    supplier.supply(&vmo, 8, 16)?;
    inner.ends()?;
    supplier.asked_to_read(&vmo, 24, 8)?;
    supplier.supply(&vmo, 24, 8)?;
    outer.ends()?;
    supplier.unasked()
}

fn overlapping_commits_one_supply() -> Outcome {
    let (supplier, vmo) = Supplier::with(32)?;
    let first = Access::commit(&vmo, 0, 16)?;
    supplier.asked_to_read(&vmo, 0, 16)?;
    let second = Access::commit(&vmo, 8, 16)?;
    second.waits()?;
    supplier.unasked()?;
    supplier.supply(&vmo, 0, 24)?;
    first.ends()?;
    second.ends()?;
    supplier.unasked()?;
    // Commits of seven pages each, commits of five pages each across them, and supplies of three pages each.
    let (supplier, vmo) = Supplier::with(7 * 5 * 3)?;
    let mut accesses = Vec::new();
    for n in 0..15 {
        accesses.push(Access::commit(&vmo, n * 7, 7)?);
        supplier.asked_to_read(&vmo, n * 7, 7)?;
    }
    for n in 0..21 {
        let access = Access::commit(&vmo, n * 5, 5)?;
        access.waits()?;
        accesses.push(access);
    }
    supplier.unasked()?;
    for n in 0..35 {
        supplier.supply(&vmo, n * 3, 3)?;
    }
    accesses.into_iter().try_for_each(Access::ends)?;
    supplier.unasked()
}

fn page_by_page() -> Outcome {
    let (supplier, vmo) = Supplier::with(32)?;
    let access = Access::commit(&vmo, 0, 32)?;
    supplier.asked_to_read(&vmo, 0, 32)?;
    for page in (0..32).rev() {
        access.still_waits()?;
        supplier.supply(&vmo, page, 1)?;
    }
    access.ends()?;
    supplier.unasked()
}

fn many_commits_one_supply() -> Outcome {
    // Supplied at once, and in pieces, some of which serve two commits.
    for supplies in [1, 7] {
        let (supplier, vmo) = Supplier::with(35)?;
        let mut accesses = Vec::new();
        for n in 0..5 {
            accesses.push(Access::commit(&vmo, n * 7, 7)?);
            supplier.asked_to_read(&vmo, n * 7, 7)?;
        }
        let count = 35 / supplies;
        for n in 0..supplies {
            supplier.supply(&vmo, n * count, count)?;
        }
        accesses.into_iter().try_for_each(Access::ends)?;
        supplier.unasked()?;
    }
    Ok(())
}

/// Pages that are supplied twice count once.
fn redundant_supply() -> Outcome {
    let (supplier, vmo) = Supplier::with(8)?;
    let access = Access::commit(&vmo, 0, 8)?;
    supplier.asked_to_read(&vmo, 0, 8)?;
    for count in 1..=8 {
        access.still_waits()?;
        supplier.supply(&vmo, 0, count)?;
    }
    access.ends()?;
    supplier.unasked()
}

/// A part of the committed range is cut off meanwhile: the rest is present, which completes the commit.
fn resized() -> Outcome {
    let (supplier, vmo) = Supplier::with_options(3, ZX_VMO_RESIZABLE)?;
    let access = Access::commit(&vmo, 0, 3)?;
    supplier.asked_to_read(&vmo, 0, 3)?;
    supplier.supply(&vmo, 0, 1)?;
    access.still_waits()?;
    vmo.set_size(PAGE)?;
    access.ends()?;
    supplier.unasked()?;
    // A page that was supplied and then cut off does not count instead of a missing page.
    let (supplier, vmo) = Supplier::with_options(3, ZX_VMO_RESIZABLE)?;
    let access = Access::commit(&vmo, 0, 3)?;
    supplier.asked_to_read(&vmo, 0, 3)?;
    supplier.supply(&vmo, 2, 1)?;
    vmo.set_size(PAGE)?;
    access.still_waits()?;
    supplier.supply(&vmo, 0, 1)?;
    access.ends()?;
    crate::check::equal(words(&vmo, 0, 1)?, contents(0, 1))?;
    supplier.unasked()
}

fn suspended() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::commit(&vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    let token = access.with_thread(|thread| {
        let token = thread.suspend()?;
        thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
        Ok::<_, Status>(token)
    })??;
    drop(token);
    access.with_thread(|thread| thread.wait_one(Signals::THREAD_RUNNING, late()))??;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.supply(&vmo, 0, 1)?;
    access.ends()?;
    supplier.unasked()
}

fn passes_over() -> Outcome {
    let (supplier, vmo) = Supplier::with(8)?;
    supplier.supply(&vmo, 3, 2)?;
    let access = Access::commit(&vmo, 0, 8)?;
    supplier.asked_to_read(&vmo, 0, 3)?;
    supplier.supply(&vmo, 0, 3)?;
    supplier.asked_to_read(&vmo, 5, 3)?;
    supplier.supply(&vmo, 5, 3)?;
    access.ends()?;
    supplier.unasked()
}

fn prefetch() -> Outcome {
    let (supplier, vmo) = Supplier::with(8)?;
    let access = Access::op(&vmo, ZX_VMO_OP_PREFETCH, 2, 4)?;
    supplier.asked_to_read(&vmo, 2, 4)?;
    supplier.supply(&vmo, 2, 4)?;
    access.ends()?;
    crate::check::equal(words(&vmo, 2, 4)?, contents(2, 4))?;
    supplier.unasked()
}

/// A program cannot decommit pages that a pager supplied.
fn decommit() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    supplier.supply(&vmo, 0, 2)?;
    fails(vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE), Status::NOT_SUPPORTED)?;
    crate::check::equal(words(&vmo, 0, 2)?, contents(0, 2))?;
    let clone = vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, 0, 2 * PAGE)?;
    clone.write(&[1], 0)?;
    fails(clone.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE), Status::NOT_SUPPORTED)?;
    supplier.unasked()
}
