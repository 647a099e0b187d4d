//! VMOs that can consist of large pages: operations on parts of them have the same results as with small pages.

use abi::{
    ZX_VMO_CHILD_SNAPSHOT as SNAPSHOT, ZX_VMO_OP_COMMIT as COMMIT, ZX_VMO_OP_DECOMMIT as DECOMMIT,
    ZX_VMO_OP_ZERO as ZERO,
};
use zx::Vmo;

use super::cases;
use super::vmar::{PAGE, READ, READ_WRITE};
use crate::check::{Outcome, equal};
use crate::prober::Prober;

cases! {
    "vmo.large.commit" => commit,
    "vmo.large.unaligned" => unaligned,
    "vmo.large.decommit_a_part" => decommit_a_part,
    "vmo.large.snapshot" => snapshot,
    "vmo.large.protect_a_part" => protect_a_part,
    "vmo.large.unmap_a_part" => unmap_a_part,
    "vmo.large.two_mappings" => two_mappings,
    "vmo.large.freed_and_reused" => freed_and_reused,
}

const LARGE: usize = 2 << 20;

/// The value of page `n`'s first and last byte.
fn mark(n: usize) -> u8 {
    (n % 251 + 1) as u8
}

/// A VMO of `large` times 2 MiB, committed at once and marked.
fn marked(large: usize) -> zx::Result<Vmo> {
    let vmo = Vmo::create((large * LARGE) as u64, 0)?;
    vmo.op_range(COMMIT, 0, (large * LARGE) as u64)?;
    for n in 0..large * LARGE / PAGE {
        vmo.write(&[mark(n)], (n * PAGE) as u64)?;
        vmo.write(&[mark(n)], ((n + 1) * PAGE - 1) as u64)?;
    }
    Ok(vmo)
}

/// Checks that the pages `[first, end)` have their marks and are zero otherwise.
fn check(vmo: &Vmo, first: usize, end: usize) -> Outcome {
    let mut page = vec![0; PAGE];
    for n in first..end {
        vmo.read(&mut page, (n * PAGE) as u64)?;
        let inner = page[1..PAGE - 1].iter().all(|byte| *byte == 0);
        equal((n, page[0], page[PAGE - 1], inner), (n, mark(n), mark(n), true))?;
    }
    Ok(())
}

/// Checks the marks through a mapping that begins at page `from` of the VMO.
fn check_mapped(base: usize, from: usize, pages: usize) -> Outcome {
    for n in 0..pages {
        let ends = (zx::probe::read(base + n * PAGE), zx::probe::read(base + (n + 1) * PAGE - 1));
        equal((n, ends), (n, (mark(from + n), mark(from + n))))?;
    }
    Ok(())
}

const PAGES: usize = LARGE / PAGE;

fn commit() -> Outcome {
    let vmo = Vmo::create(2 * LARGE as u64, 0)?;
    vmo.op_range(COMMIT, 0, 2 * LARGE as u64)?;
    equal(vmo.info()?.committed_bytes, 2 * LARGE as u64)?;
    let vmar = zx::startup::vmar_root_self();
    let base = vmar.map(READ_WRITE, 0, &vmo, 0, 2 * LARGE)?;
    for page in 0..2 * PAGES {
        equal((page, zx::probe::read(base + page * PAGE + page)), (page, 0))?;
        zx::probe::write(base + page * PAGE, mark(page));
        zx::probe::write(base + page * PAGE + PAGE - 1, mark(page));
    }
    check(&vmo, 0, 2 * PAGES)?;
    vmar.unmap(base, 2 * LARGE)?;
    Ok(())
}

fn unaligned() -> Outcome {
    let vmo = marked(3)?;
    let vmar = zx::startup::vmar_root_self();
    let base = vmar.map(READ_WRITE, 0, &vmo, PAGE as u64, 2 * LARGE)?;
    check_mapped(base, 1, 2 * PAGES)?;
    check(&vmo, 0, 3 * PAGES)?;
    zx::probe::write(base, 99);
    let mut byte = [0];
    vmo.read(&mut byte, PAGE as u64)?;
    equal(byte, [99])?;
    vmar.unmap(base, 2 * LARGE)?;
    Ok(())
}

fn decommit_a_part() -> Outcome {
    let vmo = marked(2)?;
    let vmar = zx::startup::vmar_root_self();
    let base = vmar.map(READ_WRITE, 0, &vmo, 0, 2 * LARGE)?;
    check_mapped(base, 0, 2 * PAGES)?;
    vmo.op_range(DECOMMIT, (7 * PAGE) as u64, (3 * PAGE) as u64)?;
    vmo.op_range(ZERO, (LARGE + 5) as u64, (PAGE + 8) as u64)?;
    equal(vmo.info()?.committed_bytes, (2 * LARGE - 3 * PAGE) as u64)?;
    for page in 7..10 {
        equal(zx::probe::read(base + page * PAGE), 0)?;
    }
    check_mapped(base, 0, 7)?;
    check_mapped(base + 10 * PAGE, 10, PAGES - 10)?;
    check_mapped(base + LARGE + 2 * PAGE, PAGES + 2, PAGES - 2)?;
    // A page that is committed again is an ordinary page.
    zx::probe::write(base + 8 * PAGE, 5);
    let mut byte = [0];
    vmo.read(&mut byte, (8 * PAGE) as u64)?;
    equal(byte, [5])?;
    vmar.unmap(base, 2 * LARGE)?;
    Ok(())
}

fn snapshot() -> Outcome {
    let vmo = marked(2)?;
    let vmar = zx::startup::vmar_root_self();
    let base = vmar.map(READ_WRITE, 0, &vmo, 0, 2 * LARGE)?;
    check_mapped(base, 0, 2 * PAGES)?;
    let copy = vmo.create_child(SNAPSHOT, 0, 2 * LARGE as u64)?;
    let other = vmar.map(READ_WRITE, 0, &copy, 0, 2 * LARGE)?;
    check_mapped(other, 0, 2 * PAGES)?;
    zx::probe::write(base + 3 * PAGE, 77);
    zx::probe::write(other + 4 * PAGE, 78);
    equal((zx::probe::read(base + 3 * PAGE), zx::probe::read(other + 3 * PAGE)), (77, mark(3)))?;
    equal((zx::probe::read(base + 4 * PAGE), zx::probe::read(other + 4 * PAGE)), (mark(4), 78))?;
    check_mapped(base + 5 * PAGE, 5, 2 * PAGES - 5)?;
    check_mapped(other + 5 * PAGE, 5, 2 * PAGES - 5)?;
    drop(copy);
    vmar.unmap(other, 2 * LARGE)?;
    for page in 5..2 * PAGES {
        zx::probe::write(base + page * PAGE, mark(page));
    }
    check(&vmo, 5, 2 * PAGES)?;
    vmar.unmap(base, 2 * LARGE)?;
    Ok(())
}

fn protect_a_part() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(3 * PAGES)?;
    // The region need not be aligned: the mapping begins at a multiple of 2 MiB.
    let start = base.next_multiple_of(LARGE);
    let vmo = marked(1)?;
    vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC, start - base, &vmo, 0, LARGE - PAGE)?;
    prober.finds(start + 9 * PAGE, mark(9))?;
    vmar.protect(READ, start + 2 * PAGE, 2 * PAGE)?;
    prober.finds_read_only(start + 2 * PAGE, mark(2))?;
    prober.finds_read_only(start + 3 * PAGE, mark(3))?;
    for page in [1, 4, PAGES - 2] {
        prober.stores(start + page * PAGE, mark(page))?;
    }
    check(&vmo, 0, PAGES)
}

fn unmap_a_part() -> Outcome {
    let prober = Prober::new()?;
    let vmo = marked(2)?;
    let (vmar, base) = prober.region(3 * PAGES)?;
    let start = base.next_multiple_of(LARGE);
    vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC, start - base, &vmo, 0, 2 * LARGE)?;
    prober.finds(start + 100 * PAGE, mark(100))?;
    prober.finds(start + LARGE + 100 * PAGE, mark(PAGES + 100))?;
    vmar.unmap(start + 100 * PAGE, 2 * PAGE)?;
    equal(prober.load(start + 101 * PAGE)?, Err(abi::Status::NOT_FOUND))?;
    prober.finds(start + 99 * PAGE, mark(99))?;
    prober.finds(start + 102 * PAGE, mark(102))?;
    prober.finds(start + LARGE + 100 * PAGE, mark(PAGES + 100))?;
    check(&vmo, 0, 2 * PAGES)
}

fn two_mappings() -> Outcome {
    let vmo = marked(1)?;
    let vmar = zx::startup::vmar_root_self();
    let (one, two) = (vmar.map(READ_WRITE, 0, &vmo, 0, LARGE)?, vmar.map(READ, 0, &vmo, 0, LARGE)?);
    check_mapped(one, 0, PAGES)?;
    check_mapped(two, 0, PAGES)?;
    // A third mapping at a different offset makes the server split the large page, which the other two have mapped.
    let three = vmar.map(READ, 0, &vmo, (5 * PAGE) as u64, 3 * PAGE)?;
    check_mapped(three, 5, 3)?;
    zx::probe::write(one + 6 * PAGE, 66);
    equal((zx::probe::read(two + 6 * PAGE), zx::probe::read(three + PAGE)), (66, 66))?;
    check_mapped(two + 7 * PAGE, 7, PAGES - 7)?;
    check_mapped(one + 7 * PAGE, 7, PAGES - 7)?;
    for (base, len) in [(one, LARGE), (two, LARGE), (three, 3 * PAGE)] {
        vmar.unmap(base, len)?;
    }
    Ok(())
}

/// Large pages are committed and freed many times, in part and as a whole, more of them than there is memory.
fn freed_and_reused() -> Outcome {
    for round in 0..40 {
        let vmo = Vmo::create(16 * LARGE as u64, 0)?;
        vmo.op_range(COMMIT, 0, 16 * LARGE as u64)?;
        vmo.write(&[1; 64], (LARGE + round * PAGE) as u64)?;
        if round % 4 == 0 {
            vmo.op_range(DECOMMIT, 0, (15 * LARGE + 8 * PAGE) as u64)?;
            let mut byte = [1];
            vmo.read(&mut byte, (LARGE + round * PAGE) as u64)?;
            equal(byte, [0])?;
            vmo.op_range(COMMIT, 0, 16 * LARGE as u64)?;
        }
        equal(vmo.info()?.committed_bytes, 16 * LARGE as u64)?;
    }
    Ok(())
}
