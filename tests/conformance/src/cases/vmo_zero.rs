//! Zeroing ranges of VMOs, and which memory that frees.

use abi::{
    Status, ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO,
};
use zx::{Rights, Vmo};

use super::cases;
use super::vmar::READ_WRITE;
use super::vmo_clone::{PAGE, mark, numbered, shows, snapshot, taken, together};
use crate::check::{Outcome, equal, fails};

cases! {
    "vmo_zero.part.within_a_page" => part_within_a_page,
    "vmo_zero.part.committed" => part_committed,
    "vmo_zero.part.not_committed" => part_not_committed,
    "vmo_zero.pages.go_and_come" => pages_go_and_come,
    "vmo_zero.pages.in_the_middle" => pages_in_the_middle,
    "vmo_zero.lengths.all" => lengths,
    "vmo_zero.rights.write" => rights,
    "vmo_zero.clone.parent_and_child" => clone_parent_and_child,
    "vmo_zero.clone.empty_children" => clone_empty_children,
    "vmo_zero.clone.of_clone" => clone_of_clone,
    "vmo_zero.clone.children_closed" => clone_children_closed,
    "vmo_zero.clone.written_after_a_child_closed" => clone_written_after_close,
    "vmo_zero.clone.written_after_the_parent_closed" => clone_written_after_parent,
    "vmo_zero.clone.parent_written" => clone_parent_written,
    "vmo_zero.clone.child_written_again" => clone_child_written_again,
    "vmo_zero.clone.resized_over_zeroes" => clone_resized,
    "vmo_zero.clone.two_levels" => clone_two_levels,
    "vmo_zero.clone.frees_and_allocates" => clone_frees_and_allocates,
    "vmo_zero.mapped.is_seen" => mapped_is_seen,
    "vmo_zero.mapped.page_of_zeroes" => mapped_page_of_zeroes,
}

fn zero(vmo: &Vmo, page: u64, pages: u64) -> zx::Result<()> {
    vmo.op_range(ZX_VMO_OP_ZERO, page * PAGE, pages * PAGE)
}

/// The VMO must contain `value` everywhere, except in the range from `from` to `to`, which must be zero.
fn differs(vmo: &Vmo, value: u8, from: u64, to: u64) -> Outcome {
    let mut bytes = vec![0; vmo.get_size()? as usize];
    vmo.read(&mut bytes, 0)?;
    let wrong = bytes.iter().enumerate().find(|(at, byte)| {
        let expected = if (from..to).contains(&(*at as u64)) { 0 } else { value };
        **byte != expected
    });
    equal(wrong, None)
}

fn part_within_a_page() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    for (from, to) in [(0, 1), (100, 200), (4095, 4096), (1, 4096), (0, 4095)] {
        vmo.write(&[7; 4096], 0)?;
        vmo.op_range(ZX_VMO_OP_ZERO, from, to - from)?;
        differs(&vmo, 7, from, to)?;
        equal(taken(&vmo)?, (1, 1))?;
    }
    Ok(())
}

fn part_committed() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    for (from, to, left) in [
        (PAGE - 1, PAGE + 1, 4),
        (100, 3 * PAGE + 100, 2),
        (PAGE, 3 * PAGE + 1, 2),
        (PAGE - 1, 3 * PAGE, 2),
        (1, 4 * PAGE - 1, 2),
    ] {
        vmo.write(&[7; 4 * 4096], 0)?;
        vmo.op_range(ZX_VMO_OP_ZERO, from, to - from)?;
        differs(&vmo, 7, from, to)?;
        equal(taken(&vmo)?, (left, left))?;
    }
    Ok(())
}

fn part_not_committed() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    for (from, to) in [(1, 2), (PAGE - 1, PAGE + 1), (100, 3 * PAGE + 100)] {
        vmo.op_range(ZX_VMO_OP_ZERO, from, to - from)?;
        equal(taken(&vmo)?, (0, 0))?;
    }
    // Only one of the pages is present.
    vmo.write(&[7; 4096], PAGE)?;
    vmo.op_range(ZX_VMO_OP_ZERO, PAGE + 5, 2 * PAGE)?;
    equal(taken(&vmo)?, (1, 1))?;
    let mut bytes = [1; 6];
    vmo.read(&mut bytes, PAGE)?;
    equal(bytes, [7, 7, 7, 7, 7, 0])
}

fn pages_go_and_come() -> Outcome {
    let vmo = Vmo::create(10 * PAGE, 0)?;
    for _ in 0..3 {
        vmo.op_range(ZX_VMO_OP_COMMIT, 0, 10 * PAGE)?;
        equal(taken(&vmo)?, (10, 10))?;
        zero(&vmo, 0, 10)?;
        equal(taken(&vmo)?, (0, 0))?;
        vmo.write(&[1], 5 * PAGE)?;
        equal(taken(&vmo)?, (1, 1))?;
    }
    Ok(())
}

fn pages_in_the_middle() -> Outcome {
    let vmo = numbered(3, 0)?;
    vmo.op_range(ZX_VMO_OP_DECOMMIT, PAGE, PAGE)?;
    shows(&vmo, &[1, 0, 3])?;
    equal(taken(&vmo)?, (2, 2))?;
    mark(&vmo, 1, 9)?;
    zero(&vmo, 1, 1)?;
    shows(&vmo, &[1, 0, 3])?;
    // A clone that is the last of its family frees pages, too.
    let clone = snapshot(&vmo, 0, 3)?;
    drop(vmo);
    clone.op_range(ZX_VMO_OP_DECOMMIT, 2 * PAGE, PAGE)?;
    shows(&clone, &[1, 0, 0])?;
    equal(taken(&clone)?, (1, 1))
}

fn lengths() -> Outcome {
    let vmo = numbered(2, 0)?;
    for offset in [0, 1, PAGE, 2 * PAGE] {
        vmo.op_range(ZX_VMO_OP_ZERO, offset, 0)?;
    }
    shows(&vmo, &[1, 2])?;
    fails(vmo.op_range(ZX_VMO_OP_ZERO, 2 * PAGE + 1, 0), Status::OUT_OF_RANGE)?;
    fails(vmo.op_range(ZX_VMO_OP_ZERO, 0, 2 * PAGE + 1), Status::OUT_OF_RANGE)?;
    fails(vmo.op_range(ZX_VMO_OP_ZERO, 1, u64::MAX), Status::OUT_OF_RANGE)?;
    shows(&vmo, &[1, 2])?;
    let huge = Vmo::create(1 << 60, 0)?;
    huge.write(&[1], 1 << 59)?;
    huge.op_range(ZX_VMO_OP_ZERO, 1, (1 << 60) - 2)?;
    equal(taken(&huge)?, (0, 0))
}

fn rights() -> Outcome {
    let vmo = numbered(1, 0)?;
    let constant = Vmo::from(super::without(&vmo, Rights::WRITE)?);
    fails(zero(&constant, 0, 1), Status::ACCESS_DENIED)?;
    shows(&vmo, &[1])
}

fn clone_parent_and_child() -> Outcome {
    for of_parent in [true, false] {
        let vmo = numbered(2, 0)?;
        let clone = snapshot(&vmo, 0, 2)?;
        mark(&clone, 1, 9)?;
        let (zeroed, other) = if of_parent { (&vmo, &clone) } else { (&clone, &vmo) };
        zero(zeroed, 0, 2)?;
        shows(zeroed, &[0, 0])?;
        shows(other, if of_parent { &[1, 9] } else { &[1, 2] })?;
        equal((taken(zeroed)?, taken(other)?), ((0, 0), (2, 2)))?;
    }
    Ok(())
}

fn clone_empty_children() -> Outcome {
    // The clone zeroes a page of its parent, which takes no memory. The page is freed when the parent zeroes it, too.
    let vmo = Vmo::create(2 * PAGE, 0)?;
    mark(&vmo, 0, 1)?;
    let clone = snapshot(&vmo, 0, 2)?;
    shows(&clone, &[1, 0])?;
    equal((taken(&vmo)?, taken(&clone)?), ((1, 0), (1, 0)))?;
    zero(&clone, 0, 1)?;
    shows(&clone, &[0, 0])?;
    shows(&vmo, &[1, 0])?;
    equal((taken(&vmo)?, taken(&clone)?), ((1, 1), (0, 0)))?;
    zero(&vmo, 0, 1)?;
    shows(&vmo, &[0, 0])?;
    equal((taken(&vmo)?, taken(&clone)?), ((0, 0), (0, 0)))?;
    // Where no member of the family has a page, zeroing creates none.
    let vmo = Vmo::create(2 * PAGE, 0)?;
    let clones = [snapshot(&vmo, 0, 2)?, snapshot(&vmo, 0, 2)?];
    for vmo in [&clones[0], &vmo, &clones[1]] {
        zero(vmo, 0, 2)?;
        equal(taken(vmo)?, (0, 0))?;
    }
    mark(&clones[1], 0, 5)?;
    shows(&vmo, &[0, 0])?;
    shows(&clones[0], &[0, 0])
}

fn clone_of_clone() -> Outcome {
    let vmo = numbered(4, 0)?;
    let outer = snapshot(&vmo, 1, 3)?;
    let inner = snapshot(&outer, 1, 2)?;
    zero(&outer, 1, 1)?;
    shows(&vmo, &[1, 2, 3, 4])?;
    shows(&outer, &[2, 0, 4])?;
    shows(&inner, &[3, 4])?;
    zero(&inner, 1, 1)?;
    shows(&outer, &[2, 0, 4])?;
    shows(&inner, &[3, 0])?;
    let last = snapshot(&outer, 0, 3)?;
    shows(&last, &[2, 0, 4])?;
    // The parent of two clones zeroes a page: the clones keep it and share one frame.
    let vmo = numbered(1, 0)?;
    let (one, two) = (snapshot(&vmo, 0, 1)?, snapshot(&vmo, 0, 1)?);
    zero(&vmo, 0, 1)?;
    shows(&vmo, &[0])?;
    shows(&one, &[1])?;
    shows(&two, &[1])?;
    equal((taken(&vmo)?, taken(&one)?, taken(&two)?), ((0, 0), (1, 0), (1, 0)))?;
    equal(together(&[&vmo, &one, &two])?, 1)
}

fn clone_children_closed() -> Outcome {
    // Both zero the same page, and one of them is closed: the other still shows zeroes and has no memory for the page.
    for close_parent in [true, false] {
        let vmo = numbered(2, 0)?;
        let clone = snapshot(&vmo, 0, 2)?;
        zero(&vmo, 0, 1)?;
        zero(&clone, 0, 1)?;
        let (left, gone) = if close_parent { (clone, vmo) } else { (vmo, clone) };
        drop(gone);
        shows(&left, &[0, 2])?;
        equal(taken(&left)?, (1, 1))?;
    }
    // A page that the parent has zeroed belongs to the clone alone. It is freed with the clone, and the parent still
    // shows zeroes.
    let vmo = Vmo::create(2 * PAGE, 0)?;
    mark(&vmo, 0, 1)?;
    let clone = snapshot(&vmo, 0, 1)?;
    zero(&vmo, 0, 1)?;
    shows(&clone, &[1])?;
    equal((taken(&vmo)?, taken(&clone)?), ((0, 0), (1, 1)))?;
    drop(clone);
    shows(&vmo, &[0, 0])?;
    equal(taken(&vmo)?, (0, 0))
}

fn clone_written_after_close() -> Outcome {
    for child_stays in [false, true] {
        let vmo = numbered(2, 0)?;
        let clone = snapshot(&vmo, 0, 2)?;
        let (stays, goes) = if child_stays { (clone, vmo) } else { (vmo, clone) };
        zero(&stays, 0, 1)?;
        equal(together(&[&stays, &goes])?, 2)?;
        drop(goes);
        shows(&stays, &[0, 2])?;
        equal(taken(&stays)?, (1, 1))?;
        mark(&stays, 0, 9)?;
        shows(&stays, &[9, 2])?;
        equal(taken(&stays)?, (2, 2))?;
    }
    Ok(())
}

/// The byte at this offset must have this value.
fn byte_is(vmo: &Vmo, offset: u64, value: u8) -> Outcome {
    let mut byte = [!value];
    vmo.read(&mut byte, offset)?;
    equal(byte, [value])
}

/// A parent zeroes a page after the first of its two clones is made, and the first clone zeroes another page. The first
/// clone is closed and its own pages are freed. Later writes of the others copy the pages that they showed, not those
/// of the closed clone.
fn clone_two_levels() -> Outcome {
    let vmo = numbered(3, 0)?;
    let first = snapshot(&vmo, 0, 3)?;
    zero(&vmo, 0, 1)?;
    equal(together(&[&vmo, &first])?, 3)?;
    let second = snapshot(&vmo, 0, 3)?;
    zero(&first, 1, 1)?;
    shows(&first, &[1, 0, 3])?;
    shows(&second, &[0, 2, 3])?;
    equal(together(&[&vmo, &first, &second])?, 3)?;
    drop(first);
    for vmo in [&vmo, &second] {
        shows(vmo, &[0, 2, 3])?;
    }
    equal(together(&[&vmo, &second])?, 2)?;
    vmo.write(&[1], 64)?;
    byte_is(&vmo, 0, 0)?;
    byte_is(&second, 64, 0)?;
    equal(together(&[&vmo, &second])?, 3)?;
    second.write(&[5], PAGE + 64)?;
    byte_is(&second, PAGE, 2)?;
    byte_is(&vmo, PAGE, 2)?;
    byte_is(&vmo, PAGE + 64, 0)?;
    equal(together(&[&vmo, &second])?, 4)
}

/// One operation frees a page of its own and hides another one that it shares with both VMOs above.
fn clone_frees_and_allocates() -> Outcome {
    let vmo = Vmo::create(3 * PAGE, 0)?;
    mark(&vmo, 1, 1)?;
    let middle = snapshot(&vmo, 0, 3)?;
    let inner = snapshot(&middle, 0, 3)?;
    mark(&inner, 0, 2)?;
    shows(&inner, &[2, 1, 0])?;
    equal(together(&[&vmo, &middle, &inner])?, 2)?;
    zero(&inner, 0, 2)?;
    shows(&inner, &[0, 0, 0])?;
    for vmo in [&vmo, &middle] {
        shows(vmo, &[0, 1, 0])?;
    }
    equal((taken(&inner)?, together(&[&vmo, &middle, &inner])?), ((0, 0), 1))
}

fn clone_written_after_parent() -> Outcome {
    // Two clones whose original is closed.
    let vmo = numbered(2, 0)?;
    let (one, two) = (snapshot(&vmo, 0, 2)?, snapshot(&vmo, 0, 2)?);
    zero(&one, 0, 1)?;
    drop(vmo);
    mark(&one, 0, 9)?;
    shows(&one, &[9, 2])?;
    shows(&two, &[1, 2])?;
    drop(two);
    shows(&one, &[9, 2])?;
    equal(taken(&one)?, (2, 2))
}

fn clone_parent_written() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    zero(&clone, 0, 1)?;
    mark(&vmo, 0, 9)?;
    shows(&clone, &[0, 2])?;
    shows(&vmo, &[9, 2])?;
    equal((taken(&vmo)?, taken(&clone)?), ((2, 1), (1, 0)))?;
    // The other way around: after the parent's write, the clone alone has the old page. It is freed when the clone
    // zeroes it.
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    mark(&vmo, 0, 9)?;
    equal((taken(&vmo)?, taken(&clone)?), ((2, 1), (2, 1)))?;
    zero(&clone, 0, 1)?;
    shows(&clone, &[0, 2])?;
    shows(&vmo, &[9, 2])?;
    equal((taken(&vmo)?, taken(&clone)?), ((2, 1), (1, 0)))?;
    drop(vmo);
    shows(&clone, &[0, 2])?;
    equal(taken(&clone)?, (1, 1))
}

fn clone_child_written_again() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    zero(&clone, 0, 1)?;
    // The bytes around the write are zero; the page's old content does not come back.
    clone.write(&[9], 100)?;
    let mut bytes = [1; 102];
    clone.read(&mut bytes, 0)?;
    let mut expected = [0; 102];
    expected[100] = 9;
    equal(bytes, expected)?;
    shows(&vmo, &[1, 2])?;
    equal((taken(&vmo)?, taken(&clone)?), ((2, 1), (2, 1)))?;
    drop(vmo);
    equal(taken(&clone)?, (2, 2))?;
    byte_is(&clone, 0, 0)?;
    byte_is(&clone, 100, 9)
}

fn clone_resized() -> Outcome {
    let vmo = numbered(4, 0)?;
    let clone = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT | ZX_VMO_CHILD_RESIZABLE, 0, 4 * PAGE)?;
    zero(&clone, 2, 1)?;
    zero(&clone, 3, 1)?;
    let inner = snapshot(&clone, 0, 4)?;
    clone.set_size(PAGE)?;
    clone.set_size(4 * PAGE)?;
    shows(&clone, &[1, 0, 0, 0])?;
    shows(&inner, &[1, 2, 0, 0])?;
    mark(&clone, 3, 9)?;
    shows(&inner, &[1, 2, 0, 0])?;
    // A write there goes to a page of zeroes.
    inner.write(&[7], 2 * PAGE + 100)?;
    byte_is(&inner, 2 * PAGE, 0)?;
    byte_is(&inner, 2 * PAGE + 100, 7)?;
    // The same with an original that is cut, and a clone of only its zeroed page that stays.
    let cut = numbered(4, abi::ZX_VMO_RESIZABLE)?;
    let whole = snapshot(&cut, 0, 4)?;
    zero(&cut, 2, 1)?;
    let part = snapshot(&cut, 2, 1)?;
    cut.set_size(PAGE)?;
    shows(&part, &[0])?;
    mark(&part, 0, 8)?;
    shows(&part, &[8])?;
    shows(&whole, &[1, 2, 3, 4])?;
    shows(&vmo, &[1, 2, 3, 4])
}

fn mapped_is_seen() -> Outcome {
    let vmo = numbered(2, 0)?;
    let root = zx::startup::vmar_root_self();
    let mapping = root.map_here(READ_WRITE, &vmo, 0, 8192)?;
    let first = |at: usize| -> zx::Result<u8> {
        let mut byte = [1];
        mapping.read(at, &mut byte)?;
        Ok(byte[0])
    };
    equal((first(0)?, first(4096)?), (1, 2))?;
    zero(&vmo, 0, 2)?;
    equal((first(0)?, first(4096)?, taken(&vmo)?), (0, 0, (0, 0)))?;
    // Two mappings show the zero page, and both see a write through one of them.
    let other = root.map_here(READ_WRITE, &vmo, 0, 8192)?;
    let mut byte = [1];
    other.read(4096, &mut byte)?;
    equal(byte, [0])?;
    mapping.write(4096, &[9])?;
    other.read(4096, &mut byte)?;
    equal((byte, first(4096)?, first(0)?), ([9], 9, 0))?;
    equal(taken(&vmo)?, (1, 1))
}

/// Mappings that show the zero page see the new page, however it is created.
fn mapped_page_of_zeroes() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    let root = zx::startup::vmar_root_self();
    let mapped = || root.map_here(READ_WRITE, &vmo, 0, 4 * PAGE as usize);
    let mappings = [mapped()?, mapped()?, mapped()?];
    let find = |mapping: usize, page: usize, value: u8| -> Outcome {
        let mut byte = [!value];
        mappings[mapping].read(page * PAGE as usize, &mut byte)?;
        equal(byte, [value])
    };
    // Through a store in another mapping; one mapping has not been read before.
    find(0, 0, 0)?;
    mappings[1].write(0, &[99])?;
    find(1, 0, 99)?;
    find(2, 0, 99)?;
    find(0, 0, 99)?;
    // Through a call.
    find(0, 1, 0)?;
    vmo.write(&[100], PAGE)?;
    find(0, 1, 100)?;
    // Through a call that writes a page which was committed under the mapping.
    find(0, 2, 0)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 2 * PAGE, PAGE)?;
    find(0, 2, 0)?;
    vmo.write(&[101], 2 * PAGE)?;
    find(0, 2, 101)?;
    equal(taken(&vmo)?, (3, 3))
}
