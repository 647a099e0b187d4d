//! Clones of VMOs. A clone shares frames with its parent until one of the two is written.

use abi::{
    Rights, Status, ZX_VMO_CHILD_NO_WRITE, ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_SNAPSHOT,
    ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT,
    ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE,
};
use zx::{AsHandleRef, Info, Signals, Vmo};

use super::cases;
use super::vmar::{READ, READ_WRITE};
use crate::check::{Failure, Outcome, ensure, equal, fails};

cases! {
    "vmo_clone.read.shows_the_same" => read_shows_the_same,
    "vmo_clone.write.clone_by_call" => write_clone_by_call,
    "vmo_clone.write.clone_by_mapping" => write_clone_by_mapping,
    "vmo_clone.write.parent_by_call" => write_parent_by_call,
    "vmo_clone.write.parent_by_mapping" => write_parent_by_mapping,
    "vmo_clone.write.page_of_zeroes" => write_page_of_zeroes,
    "vmo_clone.close.clone" => close_clone,
    "vmo_clone.close.original" => close_original,
    "vmo_clone.close.many_in_order" => close_many_in_order,
    "vmo_clone.close.many_backwards" => close_many_backwards,
    "vmo_clone.close.frees_what_nobody_shows" => close_frees,
    "vmo_clone.close.disjoint_early" => close_disjoint_early,
    "vmo_clone.close.disjoint_late" => close_disjoint_late,
    "vmo_clone.close.disjoint_one_by_one" => close_disjoint_one_by_one,
    "vmo_clone.close.page_split_between_two" => close_page_split,
    "vmo_clone.children.are_counted" => children_are_counted,
    "vmo_clone.info.fields" => info_fields,
    "vmo_clone.info.memory" => info_memory,
    "vmo_clone.info.name" => info_name,
    "vmo_clone.mapped.many" => mapped_many,
    "vmo_clone.mapped.many_at_an_offset" => mapped_many_at_an_offset,
    "vmo_clone.offset.of_parent" => offset_of_parent,
    "vmo_clone.offset.of_clone" => offset_of_clone,
    "vmo_clone.offset.many" => offset_many,
    "vmo_clone.offset.written_one_after_the_other" => offset_written,
    "vmo_clone.offset.beyond_the_parent" => offset_beyond,
    "vmo_clone.offset.too_large" => offset_too_large,
    "vmo_clone.offset.unaligned" => offset_unaligned,
    "vmo_clone.small.shows_a_part" => small_shows_a_part,
    "vmo_clone.small.clone_of_it" => small_clone_of_it,
    "vmo_clone.small.several" => small_several,
    "vmo_clone.resize.clone" => resize_clone,
    "vmo_clone.resize.original" => resize_original,
    "vmo_clone.resize.grows_with_zeros" => resize_grows,
    "vmo_clone.resize.disjoint" => resize_disjoint,
    "vmo_clone.resize.at_an_offset" => resize_at_an_offset,
    "vmo_clone.resize.over_a_sibling" => resize_over_a_sibling,
    "vmo_clone.resize.one_after_the_other" => resize_progressive,
    "vmo_clone.resize.page_by_page" => resize_page_by_page,
    "vmo_clone.resize.not_resizable" => resize_not_resizable,
    "vmo_clone.resize.start_stays_cut" => resize_start_stays_cut,
    "vmo_clone.size.rounds_up" => size_rounds_up,
    "vmo_clone.op_range.commit" => op_range_commit,
    "vmo_clone.op_range.decommit" => op_range_decommit,
    "vmo_clone.create.rights" => create_rights,
    "vmo_clone.create.options" => create_options,
    "vmo_clone.create.uncached" => create_uncached,
    "vmo_clone.create.discardable" => create_discardable,
}

pub(super) const PAGE: u64 = 4096;

/// A VMO whose every page begins and ends with the page's number, counted from 1.
pub(super) fn numbered(pages: u8, options: u32) -> Result<Vmo, Failure> {
    let vmo = Vmo::create(u64::from(pages) * PAGE, options)?;
    for page in 0..pages {
        mark(&vmo, page, page + 1)?;
    }
    Ok(vmo)
}

/// Writes `value` to the first and the last byte of a page.
pub(super) fn mark(vmo: &Vmo, page: u8, value: u8) -> Outcome {
    let at = u64::from(page) * PAGE;
    vmo.write(&[value], at)?;
    vmo.write(&[value], at + PAGE - 1)?;
    Ok(())
}

/// The pages must have exactly these numbers, and there must be no more pages.
#[track_caller]
pub(super) fn shows(vmo: &Vmo, expected: &[u8]) -> Outcome {
    equal(vmo.get_size()?, expected.len() as u64 * PAGE)?;
    let mut found = vec![0; expected.len()];
    for (page, value) in found.iter_mut().enumerate() {
        let mut bytes = vec![0; PAGE as usize];
        vmo.read(&mut bytes, page as u64 * PAGE)?;
        *value = bytes[0];
        let inside = bytes[1..PAGE as usize - 1].iter().all(|byte| *byte == 0);
        ensure(inside && bytes[PAGE as usize - 1] == *value, "a page is not of one piece")?;
    }
    equal(found.as_slice(), expected)
}

pub(super) fn snapshot(of: &Vmo, page: u64, pages: u64) -> zx::Result<Vmo> {
    of.create_child(ZX_VMO_CHILD_SNAPSHOT, page * PAGE, pages * PAGE)
}

pub(super) fn resizable(of: &Vmo, page: u64, pages: u64) -> zx::Result<Vmo> {
    of.create_child(ZX_VMO_CHILD_SNAPSHOT | ZX_VMO_CHILD_RESIZABLE, page * PAGE, pages * PAGE)
}

/// Numbers of committed pages of a VMO, and of those that it shares with no other VMO.
pub(super) fn taken(vmo: &Vmo) -> Result<(u64, u64), Failure> {
    let info = vmo.info()?;
    equal((info.populated_bytes, info.populated_private_bytes), (info.committed_bytes, info.committed_private_bytes))?;
    Ok((info.committed_bytes / PAGE, info.committed_private_bytes / PAGE))
}

/// Number of pages that some VMOs use together. The sum is rounded, because thirds of a page do not add up exactly.
pub(super) fn together(vmos: &[&Vmo]) -> Result<u64, Failure> {
    let mut sum = 0_u128;
    for vmo in vmos {
        let info = vmo.info()?;
        sum += (u128::from(info.committed_scaled_bytes) << 63) + u128::from(info.committed_fractional_scaled_bytes);
    }
    Ok(((sum + (1 << 62)) >> 63) as u64 / PAGE)
}

/// All permutations of the numbers from 0 to `count` - 1.
pub(super) fn orders(count: usize) -> Vec<Vec<usize>> {
    (0..count).fold(vec![Vec::new()], |orders, n| {
        let places = orders.iter().flat_map(|order| (0..=order.len()).map(move |at| (order, at)));
        places.map(|(order, at)| [&order[..at], &[n], &order[at..]].concat()).collect()
    })
}

fn zero_children(vmo: &Vmo) -> Result<bool, Failure> {
    Ok(vmo.signals()?.contains(Signals::VMO_ZERO_CHILDREN))
}

fn read_shows_the_same() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let kinds = [ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED];
    for kind in kinds {
        let vmo = numbered(3, 0)?;
        let clone = vmo.create_child(kind, 0, 3 * PAGE)?;
        shows(&clone, &[1, 2, 3])?;
        let mapping = root.map_here(READ, &clone, 0, 3 * PAGE as usize)?;
        let mut byte = [0];
        mapping.read(PAGE as usize, &mut byte)?;
        equal(byte, [2])?;
        // No page has been copied.
        equal((taken(&vmo)?, taken(&clone)?, together(&[&vmo, &clone])?), ((3, 0), (3, 0), 3))?;
    }
    Ok(())
}

fn write_clone_by_call() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    mark(&clone, 1, 9)?;
    shows(&clone, &[1, 9])?;
    shows(&vmo, &[1, 2])?;
    equal((taken(&clone)?, together(&[&vmo, &clone])?), ((2, 1), 3))
}

fn write_clone_by_mapping() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    let root = zx::startup::vmar_root_self();
    let (of_vmo, of_clone) = (root.map_here(READ_WRITE, &vmo, 0, 8192)?, root.map_here(READ_WRITE, &clone, 0, 8192)?);
    let mut byte = [0];
    for mapping in [&of_vmo, &of_clone] {
        mapping.read(4096, &mut byte)?;
        equal(byte, [2])?;
    }
    of_clone.write(4096, &[9])?;
    of_clone.write(8191, &[9])?;
    of_vmo.read(4096, &mut byte)?;
    equal(byte, [2])?;
    shows(&clone, &[1, 9])?;
    shows(&vmo, &[1, 2])
}

fn write_parent_by_call() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    mark(&vmo, 0, 9)?;
    shows(&vmo, &[9, 2])?;
    shows(&clone, &[1, 2])
}

fn write_parent_by_mapping() -> Outcome {
    let vmo = numbered(2, 0)?;
    let root = zx::startup::vmar_root_self();
    // The VMO is mapped and written before the clone exists, so that the server has to take the write permission from
    // the page table.
    let of_vmo = root.map_here(READ_WRITE, &vmo, 0, 8192)?;
    of_vmo.write(0, &[1])?;
    let clone = snapshot(&vmo, 0, 2)?;
    of_vmo.write(0, &[9])?;
    of_vmo.write(4095, &[9])?;
    shows(&clone, &[1, 2])?;
    shows(&vmo, &[9, 2])
}

fn write_page_of_zeroes() -> Outcome {
    // Neither VMO has the page; each gets a page of its own when it is written.
    for first in [false, true] {
        let vmo = Vmo::create(PAGE, 0)?;
        let clone = snapshot(&vmo, 0, 1)?;
        let (written, other) = if first { (&vmo, &clone) } else { (&clone, &vmo) };
        mark(written, 0, 5)?;
        shows(other, &[0])?;
        equal((taken(written)?, taken(other)?), ((1, 1), (0, 0)))?;
        mark(other, 0, 6)?;
        shows(written, &[5])?;
        equal(together(&[&vmo, &clone])?, 2)?;
    }
    Ok(())
}

fn close_clone() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    mark(&clone, 0, 9)?;
    drop(clone);
    shows(&vmo, &[1, 2])?;
    // The shared pages belong to the VMO alone again, and a write does not copy them.
    equal(taken(&vmo)?, (2, 2))?;
    mark(&vmo, 1, 7)?;
    equal(taken(&vmo)?, (2, 2))
}

fn close_original() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    equal(clone.info()?.parent_koid, vmo.koid()?)?;
    mark(&vmo, 0, 9)?;
    drop(vmo);
    shows(&clone, &[1, 2])?;
    equal((clone.info()?.parent_koid, taken(&clone)?), (0, (2, 2)))
}

fn many(then: impl Fn(&mut Vec<Vmo>) -> Option<Vmo>) -> Outcome {
    let vmo = numbered(2, 0)?;
    let mut clones = Vec::new();
    for value in 10..16 {
        let clone = snapshot(&vmo, 0, 2)?;
        mark(&clone, 1, value)?;
        clones.push(clone);
        equal((vmo.info()?.num_children, zero_children(&vmo)?), (clones.len(), false))?;
    }
    while let Some(gone) = then(&mut clones) {
        drop(gone);
        equal((vmo.info()?.num_children, zero_children(&vmo)?), (clones.len(), clones.is_empty()))?;
        for clone in &clones {
            let mut byte = [0];
            clone.read(&mut byte, PAGE)?;
            ensure((10..16).contains(&byte[0]), "a clone has changed")?;
            shows(clone, &[1, byte[0]])?;
        }
        shows(&vmo, &[1, 2])?;
    }
    Ok(())
}

fn close_many_in_order() -> Outcome {
    many(|clones| (!clones.is_empty()).then(|| clones.remove(0)))
}

fn close_many_backwards() -> Outcome {
    many(Vec::pop)
}

fn close_frees() -> Outcome {
    // The clone shows one page of four; the others are freed with the original.
    let vmo = numbered(4, 0)?;
    let clone = snapshot(&vmo, 1, 1)?;
    equal(together(&[&vmo, &clone])?, 4)?;
    drop(vmo);
    shows(&clone, &[2])?;
    equal((taken(&clone)?, together(&[&clone])?), ((1, 1), 1))
}

/// A four-page VMO, a clone of its two middle pages, and one clone of each page; the clones of the middle pages are
/// made from the middle clone.
fn disjoint() -> Result<([Vmo; 2], [Vmo; 4]), Failure> {
    let vmo = numbered(4, 0)?;
    let middle = snapshot(&vmo, 1, 2)?;
    let clones = [snapshot(&vmo, 0, 1)?, snapshot(&middle, 0, 1)?, snapshot(&middle, 1, 1)?, snapshot(&vmo, 3, 1)?];
    Ok(([vmo, middle], clones))
}

fn close_disjoint_early() -> Outcome {
    let (above, clones) = disjoint()?;
    drop(above);
    for (page, clone) in clones.iter().enumerate() {
        shows(clone, &[page as u8 + 1])?;
        equal(taken(clone)?, (1, 1))?;
        mark(clone, 0, page as u8 + 5)?;
        equal(taken(clone)?, (1, 1))?;
    }
    for (page, clone) in clones.iter().enumerate() {
        shows(clone, &[page as u8 + 5])?;
        equal(taken(clone)?, (1, 1))?;
    }
    Ok(())
}

fn close_disjoint_late() -> Outcome {
    let (above, clones) = disjoint()?;
    for (page, clone) in clones.iter().enumerate() {
        shows(clone, &[page as u8 + 1])?;
        mark(clone, 0, page as u8 + 5)?;
        mark(&above[0], page as u8, 50)?;
    }
    shows(&above[1], &[2, 3])?;
    let all = [&above[0], &above[1], &clones[0], &clones[1], &clones[2], &clones[3]];
    // Four pages of the VMO, four of the clones, and the two that the middle clone still shows.
    equal((taken(&above[0])?, together(&all)?), ((4, 4), 10))?;
    drop(above);
    for (page, clone) in clones.iter().enumerate() {
        shows(clone, &[page as u8 + 5])?;
        equal(taken(clone)?, (1, 1))?;
    }
    Ok(())
}

fn close_disjoint_one_by_one() -> Outcome {
    // In each order, a page is freed as soon as no VMO shows it.
    for order in orders(4) {
        let (above, clones) = disjoint()?;
        let mut clones = clones.map(Some);
        drop(above);
        for (gone, which) in order.into_iter().enumerate() {
            clones[which] = None;
            let left: Vec<&Vmo> = clones.iter().flatten().collect();
            equal(together(&left)?, 3 - gone as u64)?;
            for (page, clone) in clones.iter().enumerate() {
                let Some(clone) = clone else { continue };
                shows(clone, &[page as u8 + 1])?;
                equal(taken(clone)?, (1, 1))?;
            }
        }
    }
    Ok(())
}

fn close_page_split() -> Outcome {
    // One clone and the original have their own version of the page. When they are closed, the other clone keeps the
    // page as it was.
    let vmo = numbered(1, 0)?;
    let (one, two) = (snapshot(&vmo, 0, 1)?, snapshot(&vmo, 0, 1)?);
    mark(&one, 0, 8)?;
    mark(&vmo, 0, 9)?;
    equal(together(&[&vmo, &one, &two])?, 3)?;
    drop(one);
    equal(together(&[&vmo, &two])?, 2)?;
    drop(vmo);
    shows(&two, &[1])?;
    equal(taken(&two)?, (1, 1))
}

fn children_are_counted() -> Outcome {
    let vmo = numbered(1, 0)?;
    let clone = snapshot(&vmo, 0, 1)?;
    let (inner, other) = (snapshot(&clone, 0, 1)?, snapshot(&clone, 0, 1)?);
    let counts = |vmo: &Vmo| -> Result<_, Failure> { Ok((vmo.info()?.num_children, zero_children(vmo)?)) };
    equal((counts(&vmo)?, counts(&clone)?, counts(&inner)?), ((1, false), (2, false), (0, true)))?;
    equal((inner.info()?.parent_koid, clone.info()?.parent_koid), (clone.koid()?, vmo.koid()?))?;
    // When the clone is closed, its children become children of its parent.
    drop(clone);
    equal((counts(&vmo)?, inner.info()?.parent_koid), ((2, false), vmo.koid()?))?;
    drop(inner);
    equal(counts(&vmo)?, (1, false))?;
    drop(other);
    equal(counts(&vmo)?, (0, true))
}

fn info_fields() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = numbered(3, 0)?;
    let clone = resizable(&vmo, 1, 4)?;
    let (of_vmo, of_clone) = (vmo.info()?, clone.info()?);
    let flags = abi::ZX_INFO_VMO_TYPE_PAGED | abi::ZX_INFO_VMO_VIA_HANDLE;
    equal(of_vmo.flags, flags)?;
    equal(of_clone.flags, flags | abi::ZX_INFO_VMO_IS_COW_CLONE | abi::ZX_INFO_VMO_RESIZABLE)?;
    equal((of_vmo.parent_koid, of_vmo.num_children), (0, 1))?;
    equal((of_clone.koid, of_clone.parent_koid, of_clone.num_children), (clone.koid()?, vmo.koid()?, 0))?;
    equal((of_clone.size_bytes, of_clone.num_mappings, of_clone.share_count), (4 * PAGE, 0, 1))?;
    let mapping = root.map_here(READ, &clone, 0, 4096)?;
    let mapped = clone.info()?;
    equal((mapped.num_mappings, mapped.share_count, vmo.info()?.num_mappings), (1, 1, 0))?;
    drop(mapping);
    let constant = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT | ZX_VMO_CHILD_NO_WRITE, 0, PAGE)?;
    let flags = flags | abi::ZX_INFO_VMO_IS_COW_CLONE | abi::ZX_INFO_VMO_IMMUTABLE;
    equal(constant.info()?.flags, flags)
}

fn info_memory() -> Outcome {
    // Of four pages, the original writes the first, a clone the second, both write the third, and neither writes the
    // last.
    let vmo = numbered(4, 0)?;
    equal(taken(&vmo)?, (4, 4))?;
    let (one, two) = (snapshot(&vmo, 0, 4)?, snapshot(&vmo, 0, 4)?);
    equal(together(&[&vmo, &one, &two])?, 4)?;
    mark(&vmo, 0, 10)?;
    mark(&one, 1, 11)?;
    mark(&vmo, 2, 12)?;
    mark(&one, 2, 13)?;
    equal((taken(&vmo)?, taken(&one)?, taken(&two)?), ((4, 2), (4, 2), (4, 1)))?;
    equal(together(&[&vmo, &one, &two])?, 8)?;
    // Each of the three VMOs has a third of the last page; the scaled bytes say so, including the fraction.
    let info = one.info()?;
    let expected = ((u128::from(PAGE) * 2) << 63) + (u128::from(PAGE) << 63) / 2 + (u128::from(PAGE) << 63) / 3;
    equal(info.committed_scaled_bytes, (expected >> 63) as u64)?;
    ensure(info.committed_fractional_scaled_bytes != 0, "thirds have no fraction")?;
    equal(info.committed_fractional_scaled_bytes, info.populated_fractional_scaled_bytes)?;
    drop(vmo);
    equal((taken(&one)?, taken(&two)?, together(&[&one, &two])?), ((4, 2), (4, 2), 6))
}

fn info_name() -> Outcome {
    let vmo = numbered(1, 0)?;
    vmo.set_name("first")?;
    let clone = snapshot(&vmo, 0, 1)?;
    ensure(clone.info()?.name.starts_with(b"first\0"), "a clone begins with another name")?;
    clone.set_name("second")?;
    ensure(clone.info()?.name.starts_with(b"second\0"), "a clone keeps its name")?;
    ensure(vmo.info()?.name.starts_with(b"first\0"), "the original has another name")?;
    // A clone has the original's name even if the caller's handle does not permit reading that name.
    let hidden = Vmo::from(super::without(&vmo, Rights::GET_PROPERTY | Rights::SET_PROPERTY)?);
    ensure(snapshot(&hidden, 0, 1)?.get_name()?.starts_with(b"first\0"), "a clone of a poor handle has another name")
}

/// Clones of clones, each mapped; a write to one changes no other.
fn mapped_chain(page: u64) -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = numbered(3, 0)?;
    let mut chain = vec![vmo];
    let mut mappings = Vec::new();
    for n in 0..4_u8 {
        let last = chain.last().ok_or("no VMO")?;
        // Each clone after the first begins at the first page of its parent.
        let from = if n == 0 { page } else { 0 };
        let clone = snapshot(last, from, 3 - page)?;
        let mapping = root.map_here(READ_WRITE, &clone, 0, ((3 - page) * PAGE) as usize)?;
        let mut byte = [0];
        mapping.read(0, &mut byte)?;
        equal(byte[0], if n == 0 { page as u8 + 1 } else { 19 + n })?;
        mapping.write(0, &[20 + n])?;
        mapping.write(4095, &[20 + n])?;
        chain.push(clone);
        mappings.push(mapping);
    }
    for (n, (clone, mapping)) in chain[1..].iter().zip(&mappings).enumerate() {
        let expected: Vec<u8> = [20 + n as u8, 2 + page as u8, 3][..3 - page as usize].to_vec();
        shows(clone, &expected)?;
        let mut byte = [0];
        mapping.read(4096, &mut byte)?;
        equal(byte[0], 2 + page as u8)?;
    }
    shows(&chain[0], &[1, 2, 3])
}

fn mapped_many() -> Outcome {
    mapped_chain(0)
}

fn mapped_many_at_an_offset() -> Outcome {
    mapped_chain(1)
}

fn offset_of_parent() -> Outcome {
    let vmo = numbered(5, 0)?;
    let clone = snapshot(&vmo, 2, 2)?;
    shows(&clone, &[3, 4])?;
    mark(&vmo, 2, 9)?;
    mark(&clone, 1, 8)?;
    shows(&clone, &[3, 8])?;
    shows(&vmo, &[1, 2, 9, 4, 5])
}

fn offset_of_clone() -> Outcome {
    let vmo = numbered(6, 0)?;
    let clone = snapshot(&vmo, 1, 5)?;
    let inner = snapshot(&clone, 2, 3)?;
    shows(&inner, &[4, 5, 6])?;
    mark(&clone, 3, 9)?;
    mark(&vmo, 3, 8)?;
    shows(&inner, &[4, 5, 6])?;
    drop(clone);
    shows(&inner, &[4, 5, 6])?;
    drop(vmo);
    shows(&inner, &[4, 5, 6])?;
    equal(taken(&inner)?, (3, 3))
}

fn offset_many() -> Outcome {
    // Each begins one page behind the start of its parent.
    let mut chain = vec![numbered(6, 0)?];
    for n in 1..6 {
        let last = chain.last().ok_or("no VMO")?;
        chain.push(snapshot(last, 1, 6 - n)?);
    }
    for (n, vmo) in chain.iter().enumerate() {
        let expected: Vec<u8> = (n as u8 + 1..=6).collect();
        shows(vmo, &expected)?;
    }
    let all: Vec<&Vmo> = chain.iter().collect();
    equal(together(&all)?, 6)?;
    // Each gets a write to its first page.
    for (n, vmo) in chain.iter().enumerate() {
        mark(vmo, 0, 100 + n as u8)?;
    }
    for (n, vmo) in chain.iter().enumerate() {
        let expected: Vec<u8> = [100 + n as u8].into_iter().chain(n as u8 + 2..=6).collect();
        shows(vmo, &expected)?;
    }
    Ok(())
}

fn offset_written() -> Outcome {
    // The clones show the same page at different offsets, and are written one after the other.
    let vmo = numbered(3, 0)?;
    let clones = [snapshot(&vmo, 0, 3)?, snapshot(&vmo, 1, 2)?, snapshot(&vmo, 2, 1)?];
    equal(together(&[&vmo, &clones[0], &clones[1], &clones[2]])?, 3)?;
    mark(&clones[0], 2, 10)?;
    mark(&clones[1], 1, 11)?;
    mark(&clones[2], 0, 12)?;
    shows(&vmo, &[1, 2, 3])?;
    shows(&clones[0], &[1, 2, 10])?;
    shows(&clones[1], &[2, 11])?;
    shows(&clones[2], &[12])?;
    // The original is now the only one that shows its version.
    equal(taken(&vmo)?, (3, 1))?;
    equal(together(&[&vmo, &clones[0], &clones[1], &clones[2]])?, 6)
}

fn offset_beyond() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 1, 3)?;
    shows(&clone, &[2, 0, 0])?;
    mark(&clone, 2, 9)?;
    shows(&clone, &[2, 0, 9])?;
    let far = snapshot(&vmo, 7, 1)?;
    shows(&far, &[0])?;
    mark(&far, 0, 7)?;
    shows(&far, &[7])?;
    shows(&vmo, &[1, 2])?;
    let nothing = snapshot(&vmo, 0, 0)?;
    shows(&nothing, &[])
}

fn offset_too_large() -> Outcome {
    let vmo = numbered(2, 0)?;
    fails(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, u64::MAX), Status::OUT_OF_RANGE)?;
    fails(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, u64::MAX - PAGE + 1, 2 * PAGE), Status::OUT_OF_RANGE)?;
    // Far beyond the parent's end, but without an overflow.
    let far = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 1 << 62, PAGE)?;
    shows(&far, &[0])
}

fn offset_unaligned() -> Outcome {
    let vmo = numbered(2, 0)?;
    fails(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 1, PAGE), Status::INVALID_ARGS)?;
    fails(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, PAGE - 1, PAGE), Status::INVALID_ARGS)
}

fn small_shows_a_part() -> Outcome {
    let vmo = numbered(3, 0)?;
    let clone = snapshot(&vmo, 1, 1)?;
    shows(&clone, &[2])?;
    mark(&clone, 0, 9)?;
    equal((together(&[&vmo, &clone])?, taken(&vmo)?), (4, (3, 3)))?;
    drop(vmo);
    shows(&clone, &[9])?;
    equal(taken(&clone)?, (1, 1))
}

fn small_clone_of_it() -> Outcome {
    let vmo = numbered(3, 0)?;
    let clone = snapshot(&vmo, 0, 3)?;
    let inner = snapshot(&clone, 1, 1)?;
    mark(&clone, 1, 9)?;
    shows(&inner, &[2])?;
    drop(clone);
    shows(&inner, &[2])?;
    equal((taken(&inner)?, together(&[&vmo, &inner])?), ((1, 0), 3))?;
    drop(vmo);
    shows(&inner, &[2])?;
    equal(taken(&inner)?, (1, 1))
}

fn small_several() -> Outcome {
    let vmo = numbered(3, 0)?;
    let (one, two) = (snapshot(&vmo, 0, 2)?, snapshot(&vmo, 1, 2)?);
    mark(&vmo, 1, 9)?;
    equal(together(&[&vmo, &one, &two])?, 4)?;
    drop(vmo);
    shows(&one, &[1, 2])?;
    shows(&two, &[2, 3])?;
    equal(together(&[&one, &two])?, 3)?;
    drop(one);
    equal((taken(&two)?, together(&[&two])?), ((2, 2), 2))
}

fn resize_clone() -> Outcome {
    let vmo = numbered(4, 0)?;
    let clone = resizable(&vmo, 0, 4)?;
    mark(&clone, 2, 9)?;
    clone.set_size(PAGE)?;
    shows(&clone, &[1])?;
    shows(&vmo, &[1, 2, 3, 4])?;
    equal((together(&[&vmo, &clone])?, taken(&vmo)?), (4, (4, 3)))?;
    clone.set_size(4 * PAGE)?;
    shows(&clone, &[1, 0, 0, 0])
}

fn resize_original() -> Outcome {
    let vmo = numbered(4, ZX_VMO_RESIZABLE)?;
    let clone = snapshot(&vmo, 0, 4)?;
    vmo.set_size(PAGE)?;
    shows(&vmo, &[1])?;
    shows(&clone, &[1, 2, 3, 4])?;
    equal(taken(&clone)?, (4, 3))?;
    vmo.set_size(2 * PAGE)?;
    shows(&vmo, &[1, 0])?;
    mark(&vmo, 1, 9)?;
    shows(&clone, &[1, 2, 3, 4])
}

fn resize_grows() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = resizable(&vmo, 0, 1)?;
    clone.set_size(3 * PAGE)?;
    // The original's page at this place was never part of the clone.
    shows(&clone, &[1, 0, 0])?;
    mark(&clone, 1, 9)?;
    shows(&clone, &[1, 9, 0])?;
    shows(&vmo, &[1, 2])?;
    // A write to the original does not make it part of the clone, and the clone gets no page by it.
    mark(&vmo, 1, 3)?;
    shows(&clone, &[1, 9, 0])?;
    equal((taken(&vmo)?, taken(&clone)?), ((2, 1), (2, 1)))
}

fn resize_disjoint() -> Outcome {
    let vmo = numbered(4, 0)?;
    let clones = [resizable(&vmo, 0, 2)?, resizable(&vmo, 2, 2)?];
    drop(vmo);
    equal(together(&[&clones[0], &clones[1]])?, 4)?;
    for (clone, first) in clones.iter().zip([1, 3]) {
        clone.set_size(PAGE)?;
        shows(clone, &[first])?;
        equal(taken(clone)?, (1, 1))?;
    }
    equal(together(&[&clones[0], &clones[1]])?, 2)
}

fn resize_at_an_offset() -> Outcome {
    let vmo = numbered(3, 0)?;
    let clone = resizable(&vmo, 1, 2)?;
    mark(&clone, 0, 9)?;
    clone.set_size(PAGE)?;
    drop(vmo);
    shows(&clone, &[9])?;
    equal(taken(&clone)?, (1, 1))?;
    clone.set_size(0)?;
    equal(taken(&clone)?, (0, 0))?;
    clone.set_size(2 * PAGE)?;
    shows(&clone, &[0, 0])
}

fn resize_over_a_sibling() -> Outcome {
    let vmo = numbered(4, 0)?;
    let (one, two) = (resizable(&vmo, 0, 4)?, snapshot(&vmo, 1, 2)?);
    drop(vmo);
    // The part that the sibling shows lies within the range that is cut off.
    one.set_size(PAGE)?;
    shows(&two, &[2, 3])?;
    equal((taken(&two)?, together(&[&one, &two])?), ((2, 2), 3))
}

fn resize_progressive() -> Outcome {
    let vmo = numbered(5, ZX_VMO_RESIZABLE)?;
    let (one, two) = (resizable(&vmo, 0, 5)?, resizable(&vmo, 0, 5)?);
    equal(together(&[&vmo, &one, &two])?, 5)?;
    for (vmo, pages) in [(&vmo, 3), (&one, 2), (&two, 4)] {
        vmo.set_size(pages * PAGE)?;
    }
    equal(together(&[&vmo, &one, &two])?, 4)?;
    two.set_size(PAGE)?;
    equal(together(&[&vmo, &one, &two])?, 3)?;
    vmo.set_size(PAGE)?;
    equal(together(&[&vmo, &one, &two])?, 2)?;
    shows(&vmo, &[1])?;
    shows(&one, &[1, 2])?;
    shows(&two, &[1])
}

fn resize_page_by_page() -> Outcome {
    // Several clones shrink page by page from the end; a page is freed when the last VMO that shows it loses it.
    let vmo = numbered(4, ZX_VMO_RESIZABLE)?;
    let clones = [resizable(&vmo, 0, 4)?, resizable(&vmo, 0, 4)?];
    let all = [&clones[0], &vmo, &clones[1]];
    for pages in (0..4).rev() {
        for (n, vmo) in all.iter().enumerate() {
            vmo.set_size(pages * PAGE)?;
            equal(together(&all)?, if n == 2 { pages } else { pages + 1 })?;
        }
        for vmo in all {
            let expected: Vec<u8> = (1..=pages as u8).collect();
            shows(vmo, &expected)?;
        }
    }
    Ok(())
}

fn resize_not_resizable() -> Outcome {
    for options in [0, ZX_VMO_RESIZABLE] {
        let vmo = numbered(2, options)?;
        let clone = snapshot(&vmo, 0, 2)?;
        for size in [0, PAGE, 2 * PAGE, 3 * PAGE] {
            fails(clone.set_size(size), Status::UNAVAILABLE)?;
        }
        equal(clone.get_size()?, 2 * PAGE)?;
        let option = READ_WRITE | abi::ZX_VM_REQUIRE_NON_RESIZABLE;
        zx::startup::vmar_root_self().map_here(option, &clone, 0, 2 * PAGE as usize)?;
    }
    Ok(())
}

fn resize_start_stays_cut() -> Outcome {
    // A clone was cut and grew again. A clone of its last pages shows zeroes there, not the original's pages.
    let vmo = numbered(4, 0)?;
    let clone = resizable(&vmo, 0, 4)?;
    clone.set_size(PAGE)?;
    clone.set_size(4 * PAGE)?;
    let inner = snapshot(&clone, 2, 2)?;
    shows(&inner, &[0, 0])?;
    mark(&inner, 1, 9)?;
    drop(clone);
    shows(&inner, &[0, 9])?;
    equal(taken(&inner)?, (1, 1))?;
    shows(&vmo, &[1, 2, 3, 4])
}

fn size_rounds_up() -> Outcome {
    let vmo = numbered(2, 0)?;
    for size in [1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE + 7] {
        let clone = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, size)?;
        equal((clone.get_size()?, clone.get_stream_size()?), (size.next_multiple_of(PAGE), size))?;
    }
    Ok(())
}

fn op_range_commit() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 3)?;
    clone.op_range(ZX_VMO_OP_COMMIT, 0, 3 * PAGE)?;
    equal((taken(&clone)?, taken(&vmo)?), ((3, 3), (2, 2)))?;
    shows(&clone, &[1, 2, 0])?;
    mark(&vmo, 0, 9)?;
    mark(&clone, 1, 8)?;
    shows(&clone, &[1, 8, 0])?;
    shows(&vmo, &[9, 2])
}

fn op_range_decommit() -> Outcome {
    let vmo = numbered(2, 0)?;
    let clone = snapshot(&vmo, 0, 2)?;
    fails(clone.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE), Status::NOT_SUPPORTED)?;
    fails(vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE), Status::NOT_SUPPORTED)?;
    shows(&clone, &[1, 2])?;
    shows(&vmo, &[1, 2])?;
    // Zeroing has the same effect and is permitted.
    clone.op_range(ZX_VMO_OP_ZERO, 0, PAGE)?;
    equal((taken(&clone)?, taken(&vmo)?), ((1, 0), (2, 1)))?;
    shows(&clone, &[0, 2])?;
    drop(clone);
    vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE)?;
    shows(&vmo, &[0, 2])
}

fn create_rights() -> Outcome {
    let rights = |vmo: &Vmo| -> Result<Rights, Failure> { Ok(Rights::from_bits_retain(vmo.basic_info()?.rights)) };
    let vmo = numbered(1, 0)?.replace_as_executable(None)?;
    let all = rights(&vmo)?;
    ensure(all.contains(Rights::EXECUTE | Rights::WRITE), "the original lacks rights")?;
    let own = Rights::GET_PROPERTY | Rights::SET_PROPERTY;
    // A clone's handle may write, but not execute.
    let poor = Vmo::from(vmo.duplicate_handle(Rights::DUPLICATE | Rights::READ | Rights::EXECUTE)?);
    let of_poor = rights(&snapshot(&poor, 0, 1)?)?;
    equal(of_poor, Rights::DUPLICATE | Rights::READ | Rights::WRITE | own)?;
    equal(rights(&snapshot(&vmo, 0, 1)?)?, all & !Rights::EXECUTE)?;
    equal(rights(&resizable(&vmo, 0, 1)?)?, (all | Rights::RESIZE) & !Rights::EXECUTE)?;
    // A clone with `ZX_VMO_CHILD_NO_WRITE` may not write.
    let constant = |vmo: &Vmo| vmo.create_child(ZX_VMO_CHILD_SNAPSHOT | ZX_VMO_CHILD_NO_WRITE, 0, PAGE);
    equal(rights(&constant(&vmo)?)?, all & !Rights::WRITE)?;
    fails(constant(&vmo)?.write(&[1], 0), Status::ACCESS_DENIED)?;
    // The clone does not inherit the right to resize.
    let sizable = Vmo::create(PAGE, ZX_VMO_RESIZABLE)?;
    ensure(rights(&sizable)?.contains(Rights::RESIZE), "what is resizable cannot be resized")?;
    ensure(!rights(&snapshot(&sizable, 0, 1)?)?.contains(Rights::RESIZE), "what is not resizable can be resized")?;
    for missing in [Rights::READ, Rights::DUPLICATE] {
        let less = Vmo::from(super::without(&vmo, missing)?);
        fails(snapshot(&less, 0, 1), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn create_options() -> Outcome {
    let vmo = numbered(1, 0)?;
    let slice = abi::ZX_VMO_CHILD_SLICE;
    let kinds = [ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED, slice];
    for (n, kind) in kinds.into_iter().enumerate() {
        for other in &kinds[n + 1..] {
            fails(vmo.create_child(kind | other, 0, PAGE), Status::INVALID_ARGS)?;
        }
        let both = ZX_VMO_CHILD_RESIZABLE | ZX_VMO_CHILD_NO_WRITE;
        fails(vmo.create_child(kind | both, 0, PAGE), Status::INVALID_ARGS)?;
        fails(vmo.create_child(kind | 1 << 20, 0, PAGE), Status::INVALID_ARGS)?;
    }
    for options in [0, ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_NO_WRITE, u32::MAX] {
        fails(vmo.create_child(options, 0, PAGE), Status::INVALID_ARGS)?;
    }
    equal(vmo.info()?.num_children, 0)
}

fn create_uncached() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    vmo.set_cache_policy(abi::ZX_CACHE_POLICY_UNCACHED)?;
    fails(snapshot(&vmo, 0, 1), Status::BAD_STATE)?;
    // The same for a mapped VMO; the mapping continues to work.
    let used = Vmo::create(PAGE, 0)?;
    used.set_cache_policy(abi::ZX_CACHE_POLICY_UNCACHED)?;
    let root = zx::startup::vmar_root_self();
    let mapping = root.map_here(READ_WRITE, &used, 0, PAGE as usize)?;
    mapping.write(0, &[7])?;
    fails(snapshot(&used, 0, 1), Status::BAD_STATE)?;
    let mut byte = [0];
    mapping.read(0, &mut byte)?;
    equal(byte, [7])?;
    vmo.set_cache_policy(abi::ZX_CACHE_POLICY_CACHED)?;
    let clone = snapshot(&vmo, 0, 1)?;
    fails(clone.set_cache_policy(abi::ZX_CACHE_POLICY_UNCACHED), Status::BAD_STATE)?;
    fails(vmo.set_cache_policy(abi::ZX_CACHE_POLICY_UNCACHED), Status::BAD_STATE)
}

fn create_discardable() -> Outcome {
    let vmo = Vmo::create(PAGE, abi::ZX_VMO_DISCARDABLE)?;
    fails(snapshot(&vmo, 0, 1), Status::NOT_SUPPORTED)?;
    fails(vmo.create_child(abi::ZX_VMO_CHILD_SLICE, 0, PAGE), Status::NOT_SUPPORTED)
}
