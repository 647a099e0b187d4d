//! Families of clones: clones of clones, of parts, and of ranges beyond the parent. The cases check which VMO has which
//! pages after some of them are written, cut or closed.

use abi::ZX_VMO_RESIZABLE;
use zx::Vmo;

use super::cases;
use super::vmar::READ_WRITE;
use super::vmo_clone::{PAGE, mark, numbered, orders, resizable, shows, snapshot, taken, together};
use crate::check::{Outcome, equal};

cases! {
    "vmo_clone.close.chain_of_two" => close_chain_of_two,
    "vmo_clone.close.disjoint_progressive" => close_disjoint_progressive,
    "vmo_clone.close.parts_at_offsets" => close_parts_at_offsets,
    "vmo_clone.mapped.every_order" => mapped_every_order,
    "vmo_clone.mapped.a_part_among_others" => mapped_a_part_among_others,
    "vmo_clone.offset.parent_closed" => offset_parent_closed,
    "vmo_clone.offset.parts_of_a_part" => offset_parts_of_a_part,
    "vmo_clone.offset.written_beside_a_clone" => offset_written_beside_a_clone,
    "vmo_clone.offset.clone_of_what_is_beyond" => offset_clone_of_what_is_beyond,
    "vmo_clone.offset.clone_beyond_a_clone" => offset_clone_beyond_a_clone,
    "vmo_clone.offset.overflows_the_parent" => offset_overflows_the_parent,
    "vmo_clone.resize.every_order" => resize_every_order,
    "vmo_clone.resize.offset_child_stays" => resize_offset_child_stays,
    "vmo_clone.resize.over_a_sibling_and_back" => resize_over_a_sibling_and_back,
    "vmo_clone.resize.written_ones" => resize_written_ones,
    "vmo_clone.resize.either_of_two" => resize_either_of_two,
    "vmo_clone.small.what_it_does_not_show" => small_what_it_does_not_show,
    "vmo_clone.write.tree_of_zeroes" => write_tree_of_zeroes,
}

/// A clone and its clone have their own versions of the page; closing their ancestors changes nothing.
fn close_chain_of_two() -> Outcome {
    let vmo = numbered(1, 0)?;
    let clone = snapshot(&vmo, 0, 1)?;
    let inner = snapshot(&clone, 0, 1)?;
    mark(&clone, 0, 3)?;
    mark(&inner, 0, 4)?;
    equal((taken(&vmo)?, taken(&clone)?, taken(&inner)?), ((1, 1), (1, 1), (1, 1)))?;
    drop(vmo);
    shows(&clone, &[3])?;
    shows(&inner, &[4])?;
    equal((taken(&clone)?, taken(&inner)?), ((1, 1), (1, 1)))?;
    drop(clone);
    shows(&inner, &[4])?;
    equal(taken(&inner)?, (1, 1))
}

/// Clones of several parts of a clone, which has a written page itself, are closed in an order that differs from the
/// order of creation.
fn close_disjoint_progressive() -> Outcome {
    let vmo = numbered(6, 0)?;
    let main = snapshot(&vmo, 1, 5)?;
    mark(&main, 3, 7)?;
    let with_it = snapshot(&main, 1, 4)?;
    let behind_it = snapshot(&main, 4, 1)?;
    let before_it = snapshot(&main, 2, 1)?;
    let beyond = snapshot(&main, 10, 1)?;
    shows(&main, &[2, 3, 4, 7, 6])?;
    drop(main);
    shows(&with_it, &[3, 4, 7, 6])?;
    drop(with_it);
    shows(&before_it, &[4])?;
    drop(before_it);
    shows(&beyond, &[0])?;
    drop(beyond);
    shows(&behind_it, &[6])?;
    drop(behind_it);
    equal(taken(&vmo)?, (6, 6))?;
    // The remaining VMO can be cloned and written as a new one.
    let last = snapshot(&vmo, 0, 6)?;
    shows(&last, &[1, 2, 3, 4, 5, 6])?;
    mark(&vmo, 4, 8)?;
    shows(&vmo, &[1, 2, 3, 4, 8, 6])?;
    shows(&last, &[1, 2, 3, 4, 5, 6])
}

/// Two parents that begin at different pages are closed, and then one of the clones. The others keep their content, and
/// the page that only this clone showed is freed.
fn close_parts_at_offsets() -> Outcome {
    let root = numbered(3, 0)?;
    let middle = snapshot(&root, 1, 2)?;
    let first = snapshot(&middle, 0, 1)?;
    let side = snapshot(&root, 2, 1)?;
    drop(root);
    let second = snapshot(&middle, 1, 1)?;
    drop(middle);
    let inner = snapshot(&second, 0, 1)?;
    equal(together(&[&first, &side, &second, &inner])?, 2)?;
    drop(first);
    equal(together(&[&side, &second, &inner])?, 1)?;
    for vmo in [&side, &second, &inner] {
        shows(vmo, &[3])?;
    }
    mark(&second, 0, 9)?;
    shows(&side, &[3])?;
    shows(&inner, &[3])?;
    shows(&second, &[9])
}

/// A family of four VMOs, all mapped, is written in every possible order.
fn mapped_every_order() -> Outcome {
    let root = zx::startup::vmar_root_self();
    for order in orders(4) {
        let vmo = numbered(1, 0)?;
        let (one, two) = (snapshot(&vmo, 0, 1)?, snapshot(&vmo, 0, 1)?);
        let three = snapshot(&one, 0, 1)?;
        let mappings = [&vmo, &one, &two, &three].map(|vmo| root.map_here(READ_WRITE, vmo, 0, PAGE as usize));
        let mappings = mappings.into_iter().collect::<zx::Result<Vec<_>>>()?;
        let mut expected = [1; 4];
        for written in [None].into_iter().chain(order.into_iter().map(Some)) {
            if let Some(written) = written {
                expected[written] = 50 + written as u8;
                mappings[written].write(0, &[expected[written]])?;
            }
            for (mapping, value) in mappings.iter().zip(expected) {
                let mut byte = [0];
                mapping.read(0, &mut byte)?;
                equal(byte, [value])?;
            }
        }
    }
    Ok(())
}

/// One of several clones shows only a page that no VMO has. All are mapped while two of the others are written.
fn mapped_a_part_among_others() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = Vmo::create(2 * PAGE, 0)?;
    mark(&vmo, 0, 1)?;
    let family = [snapshot(&vmo, 0, 2)?, snapshot(&vmo, 1, 1)?, snapshot(&vmo, 0, 2)?];
    let mapped = |vmo: &Vmo| root.map_here(READ_WRITE, vmo, 0, PAGE as usize);
    let mappings = [mapped(&vmo)?, mapped(&family[0])?, mapped(&family[1])?, mapped(&family[2])?];
    let find = |expected: [u8; 4]| -> Outcome {
        for (mapping, value) in mappings.iter().zip(expected) {
            let mut byte = [9];
            mapping.read(0, &mut byte)?;
            equal(byte, [value])?;
        }
        Ok(())
    };
    find([1, 1, 0, 1])?;
    mark(&family[2], 0, 2)?;
    mark(&family[0], 0, 3)?;
    find([1, 3, 0, 2])?;
    equal((taken(&vmo)?, taken(&family[0])?), ((1, 1), (1, 1)))?;
    equal((taken(&family[1])?, taken(&family[2])?), ((0, 0), (1, 1)))
}

/// Closing the parent frees the pages that the clone does not show, and does not change those that it shows.
fn offset_parent_closed() -> Outcome {
    let vmo = numbered(3, 0)?;
    let clone = snapshot(&vmo, 1, 3)?;
    shows(&clone, &[2, 3, 0])?;
    mark(&clone, 1, 4)?;
    drop(vmo);
    shows(&clone, &[2, 4, 0])?;
    equal((taken(&clone)?, together(&[&clone])?), ((2, 2), 2))
}

/// Two clones divide a clone that begins at an offset; that clone is written and closed.
fn offset_parts_of_a_part() -> Outcome {
    let vmo = numbered(4, 0)?;
    let part = snapshot(&vmo, 1, 3)?;
    let (one, two) = (snapshot(&part, 0, 2)?, snapshot(&part, 2, 1)?);
    shows(&one, &[2, 3])?;
    shows(&two, &[4])?;
    mark(&part, 1, 9)?;
    equal(together(&[&vmo, &part, &one, &two])?, 5)?;
    drop(part);
    shows(&one, &[2, 3])?;
    shows(&two, &[4])?;
    equal(together(&[&vmo, &one, &two])?, 4)?;
    drop(one);
    shows(&two, &[4])?;
    equal((taken(&vmo)?, taken(&two)?), ((4, 3), (1, 0)))?;
    drop(two);
    equal(taken(&vmo)?, (4, 4))
}

/// A page that a clone has written and that its own clone does not show is written in place.
fn offset_written_beside_a_clone() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 1, 2)?;
    mark(&clone, 0, 3)?;
    shows(&clone, &[3, 0])?;
    shows(&vmo, &[1, 2])?;
    let inner = snapshot(&clone, 1, 1)?;
    mark(&clone, 0, 4)?;
    equal((taken(&vmo)?, taken(&clone)?, taken(&inner)?), ((2, 2), (1, 1), (0, 0)))?;
    drop(vmo);
    shows(&clone, &[4, 0])?;
    shows(&inner, &[0])?;
    drop(inner);
    shows(&clone, &[4, 0])?;
    equal(taken(&clone)?, (1, 1))
}

/// A clone that shows nothing of its parent has a clone that is larger than itself.
fn offset_clone_of_what_is_beyond() -> Outcome {
    let vmo = numbered(1, 0)?;
    let clone = snapshot(&vmo, 2, 2)?;
    shows(&clone, &[0, 0])?;
    mark(&clone, 1, 2)?;
    let inner = snapshot(&clone, 0, 3)?;
    shows(&inner, &[0, 2, 0])?;
    mark(&inner, 2, 3)?;
    shows(&inner, &[0, 2, 3])?;
    shows(&clone, &[0, 2])?;
    equal((taken(&vmo)?, taken(&clone)?, taken(&inner)?), ((1, 1), (1, 0), (2, 1)))?;
    equal(together(&[&vmo, &clone, &inner])?, 3)
}

/// A clone of a range beyond its parent's end: no VMO has the page, and none gets it.
fn offset_clone_beyond_a_clone() -> Outcome {
    let vmo = numbered(1, 0)?;
    let clone = snapshot(&vmo, 0, 1)?;
    let beyond = snapshot(&clone, 1, 1)?;
    mark(&clone, 0, 7)?;
    drop(clone);
    shows(&vmo, &[1])?;
    shows(&beyond, &[0])?;
    equal((taken(&vmo)?, taken(&beyond)?), ((1, 1), (0, 0)))
}

/// Each clone is one page larger than its parent.
fn offset_overflows_the_parent() -> Outcome {
    let vmo = numbered(1, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    shows(&clone, &[1, 0])?;
    mark(&clone, 1, 2)?;
    let inner = snapshot(&clone, 0, 3)?;
    shows(&inner, &[1, 2, 0])?;
    mark(&inner, 2, 3)?;
    equal((taken(&vmo)?, taken(&clone)?, taken(&inner)?), ((1, 0), (2, 0), (3, 1)))?;
    equal(together(&[&vmo, &clone, &inner])?, 3)?;
    // Now all pages of the last clone are its own.
    mark(&inner, 0, 4)?;
    mark(&inner, 1, 5)?;
    shows(&vmo, &[1])?;
    shows(&clone, &[1, 2])?;
    shows(&inner, &[4, 5, 3])?;
    equal(together(&[&vmo, &clone, &inner])?, 5)?;
    drop(clone);
    shows(&vmo, &[1])?;
    shows(&inner, &[4, 5, 3])?;
    equal((taken(&vmo)?, taken(&inner)?), ((1, 1), (3, 3)))
}

/// Clones of one page each and their parent are cut to size 0 in every order: the last one keeps its page.
fn resize_every_order() -> Outcome {
    for order in orders(3) {
        let vmo = numbered(3, ZX_VMO_RESIZABLE)?;
        let clones = (0..3).map(|page| resizable(&vmo, page, 1)).collect::<zx::Result<Vec<_>>>()?;
        for (page, clone) in clones.iter().enumerate() {
            shows(clone, &[page as u8 + 1])?;
            equal(taken(clone)?, (1, 0))?;
        }
        equal(taken(&vmo)?, (3, 0))?;
        let [first, second, last] = [order[0], order[1], order[2]];
        clones[first].set_size(0)?;
        clones[second].set_size(0)?;
        vmo.set_size(0)?;
        shows(&clones[last], &[last as u8 + 1])?;
        equal((taken(&vmo)?, taken(&clones[first])?, taken(&clones[second])?), ((0, 0), (0, 0), (0, 0)))?;
        equal(taken(&clones[last])?, (1, 1))?;
        clones[last].set_size(0)?;
        equal(taken(&clones[last])?, (0, 0))?;
    }
    Ok(())
}

/// The original is cut to size 0; the clone of its second page keeps that page for itself.
fn resize_offset_child_stays() -> Outcome {
    let vmo = numbered(3, ZX_VMO_RESIZABLE)?;
    let clone = snapshot(&vmo, 1, 1)?;
    vmo.set_size(0)?;
    shows(&clone, &[2])?;
    equal((taken(&vmo)?, taken(&clone)?), ((0, 0), (1, 1)))
}

/// The original is cut over a page that a clone shows, and grows again: it shows zeroes there and can be written.
fn resize_over_a_sibling_and_back() -> Outcome {
    let vmo = numbered(4, ZX_VMO_RESIZABLE)?;
    let (whole, part) = (snapshot(&vmo, 0, 4)?, resizable(&vmo, 2, 1)?);
    vmo.set_size(PAGE)?;
    vmo.set_size(4 * PAGE)?;
    shows(&vmo, &[1, 0, 0, 0])?;
    for page in 1..4 {
        mark(&vmo, page, 10 + page)?;
    }
    shows(&vmo, &[1, 11, 12, 13])?;
    shows(&whole, &[1, 2, 3, 4])?;
    shows(&part, &[3])
}

/// Pages that both sides have written are freed with the side that is cut.
fn resize_written_ones() -> Outcome {
    let vmo = numbered(3, ZX_VMO_RESIZABLE)?;
    let clone = resizable(&vmo, 0, 2)?;
    mark(&vmo, 0, 4)?;
    mark(&clone, 1, 5)?;
    let second = snapshot(&vmo, 0, 1)?;
    clone.set_size(0)?;
    shows(&vmo, &[4, 2, 3])?;
    shows(&second, &[4])?;
    equal((taken(&vmo)?, taken(&clone)?, taken(&second)?), ((3, 2), (0, 0), (1, 0)))?;
    vmo.set_size(0)?;
    shows(&second, &[4])?;
    equal((taken(&vmo)?, taken(&clone)?, taken(&second)?), ((0, 0), (0, 0), (1, 1)))
}

/// The original and its clone have written a page each. One of them is cut to one page: the other keeps its content,
/// writes in place what it no longer shares, and leaves nothing behind when it is closed.
fn resize_either_of_two() -> Outcome {
    for cut_clone in [true, false] {
        let vmo = numbered(4, ZX_VMO_RESIZABLE)?;
        let clone = resizable(&vmo, 0, 4)?;
        mark(&vmo, 1, 5)?;
        mark(&clone, 2, 5)?;
        equal((taken(&vmo)?, taken(&clone)?), ((4, 2), (4, 2)))?;
        let (cut, whole) = if cut_clone { (clone, vmo) } else { (vmo, clone) };
        cut.set_size(PAGE)?;
        shows(&cut, &[1])?;
        shows(&whole, if cut_clone { &[1, 5, 3, 4] } else { &[1, 2, 5, 4] })?;
        equal((taken(&cut)?, taken(&whole)?), ((1, 0), (4, 3)))?;
        cut.set_size(2 * PAGE)?;
        shows(&cut, &[1, 0])?;
        mark(&whole, 3, 6)?;
        equal((taken(&cut)?, taken(&whole)?), ((1, 0), (4, 3)))?;
        drop(whole);
        shows(&cut, &[1, 0])?;
        equal(taken(&cut)?, (1, 1))?;
    }
    Ok(())
}

/// Writes to pages outside a small clone take no extra memory and are not visible through it, however large its own
/// clones are.
fn small_what_it_does_not_show() -> Outcome {
    let vmo = numbered(3, 0)?;
    let clone = snapshot(&vmo, 1, 1)?;
    mark(&vmo, 0, 4)?;
    mark(&vmo, 2, 5)?;
    equal((together(&[&vmo, &clone])?, taken(&vmo)?, taken(&clone)?), (3, (3, 2), (1, 0)))?;
    let wide = snapshot(&clone, 0, 2)?;
    shows(&wide, &[2, 0])?;
    drop(vmo);
    shows(&clone, &[2])?;
    equal(together(&[&clone, &wide])?, 1)?;
    drop(wide);
    equal(taken(&clone)?, (1, 1))
}

/// The members of a family write a page one after the other that none of them has: each gets its own page, and no other
/// page is created.
fn write_tree_of_zeroes() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let (one, two) = (snapshot(&vmo, 0, 1)?, snapshot(&vmo, 0, 1)?);
    let three = snapshot(&one, 0, 1)?;
    let family = [&vmo, &one, &two, &three];
    for (written, vmo) in family.iter().enumerate() {
        mark(vmo, 0, written as u8 + 1)?;
        for (n, vmo) in family.iter().enumerate() {
            let there = n <= written;
            shows(vmo, &[if there { n as u8 + 1 } else { 0 }])?;
            equal(taken(vmo)?, if there { (1, 1) } else { (0, 0) })?;
        }
    }
    Ok(())
}
