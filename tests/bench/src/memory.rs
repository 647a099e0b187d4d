//! Memory: committing, copying, faults, and calls that copy bytes.
//!
//! If the count is a number of pages, a figure is for one page unless its name says "whole". If the count is a number
//! of bytes, a figure is for all of them.

use core::sync::atomic::Ordering;
use std::hint::black_box;

use zx::{Result, Status, Vmo};

use crate::meter::Meter;

const PAGE: usize = 4096;
const RW: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
/// Numbers of pages; fewer than the server would commit as a large page.
const PAGES: [usize; 6] = [1, 4, 16, 64, 256, 511];
const BYTES: [usize; 8] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const TIMES: usize = 50;

fn bytes(pages: usize) -> u64 {
    (pages * PAGE) as u64
}

/// Stores a word into each of `pages` pages of a mapping.
fn touch(map: &zx::Mapping<'_>, pages: usize) -> Result<()> {
    for page in 0..pages {
        map.word(page * PAGE).ok_or(Status::INTERNAL)?.store(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Loads a word of each of `pages` pages of a mapping.
fn look(map: &zx::Mapping<'_>, pages: usize) -> Result<()> {
    for page in 0..pages {
        black_box(map.word(page * PAGE).ok_or(Status::INTERNAL)?.load(Ordering::Relaxed));
    }
    Ok(())
}

/// Commits pages by writes and by a call, and decommits them.
pub fn commit(meter: &mut Meter) -> Result<()> {
    let root = zx::startup::vmar_root_self();
    for round in 0..2 {
        for pages in PAGES {
            let vmo = Vmo::create(bytes(pages), 0)?;
            let map = root.map_here(RW, &vmo, 0, pages * PAGE)?;
            // The first round is not measured: the server takes the memory from the kernel then.
            if round == 0 {
                touch(&map, pages)?;
                continue;
            }
            meter.cost("write-fault", pages, pages, || touch(&map, pages))?;
            drop(map);
            let vmo = Vmo::create(bytes(pages), 0)?;
            meter.cost("call", pages, pages, || vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, bytes(pages)))?;
            meter.cost("decommit", pages, pages, || vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, bytes(pages)))?;
        }
    }
    Ok(())
}

/// Clones VMOs, and writes to the clones.
pub fn copies(meter: &mut Meter) -> Result<()> {
    for pages in PAGES.into_iter().chain([4096, 16_384]) {
        let vmo = Vmo::create(bytes(pages), 0)?;
        // Page by page, as most memory is committed.
        for page in 0..pages {
            vmo.write(&[1], bytes(page))?;
        }
        let mut copy = None;
        meter.cost("copy-whole", pages, 1, || {
            copy = Some(vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT, 0, bytes(pages))?);
            Ok(())
        })?;
        let copy = copy.ok_or(Status::INTERNAL)?;
        meter.cost("first-write", pages, 1, || copy.write(&[2], bytes(pages / 2)))?;
        meter.cost("second-write", pages, 1, || copy.write(&[3], bytes(pages / 2)))?;
        meter.cost("close-whole", pages, 1, || {
            drop(copy);
            Ok(())
        })?;
    }
    Ok(())
}

/// Faults on pages that are committed and not mapped: single ones, and adjacent ones.
pub fn faults(meter: &mut Meter) -> Result<()> {
    let root = zx::startup::vmar_root_self();
    for pages in PAGES {
        let vmo = Vmo::create(bytes(pages), 0)?;
        for page in 0..pages {
            vmo.write(&[1], bytes(page))?;
        }
        let map = root.map_here(RW, &vmo, 0, pages * PAGE)?;
        meter.cost("load-of-each", pages, pages, || look(&map, pages))?;
        drop(map);
        let map = root.map_here(RW | abi::ZX_VM_MAP_RANGE, &vmo, 0, pages * PAGE)?;
        meter.cost("mapped-before", pages, pages, || look(&map, pages))?;
        drop(map);
        let empty = Vmo::create(bytes(pages), 0)?;
        let map = root.map_here(RW, &empty, 0, pages * PAGE)?;
        meter.cost("load-of-nothing", pages, pages, || look(&map, pages))?;
        drop(map);
        // One page in each block that fault-around maps together.
        let vmo = Vmo::create(bytes(pages * 16), 0)?;
        for page in 0..pages {
            vmo.write(&[1], bytes(page * 16))?;
        }
        let map = root.map_here(RW, &vmo, 0, pages * 16 * PAGE)?;
        meter.cost("load-of-one-alone", pages, pages, || {
            for page in 0..pages {
                black_box(map.word(page * 16 * PAGE).ok_or(Status::INTERNAL)?.load(Ordering::Relaxed));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Reads and writes by calls, compared with a plain copy.
pub fn transfer(meter: &mut Meter) -> Result<()> {
    let most = BYTES[BYTES.len() - 1];
    let vmo = Vmo::create(most as u64, 0)?;
    let stream = zx::Stream::create(abi::ZX_STREAM_MODE_READ | abi::ZX_STREAM_MODE_WRITE, &vmo, 0)?;
    let (mut to, from) = (vec![1_u8; most], vec![2_u8; most]);
    vmo.write(&from, 0)?;
    for len in BYTES {
        meter.cost("plain-copy", len, TIMES, || {
            for _ in 0..TIMES {
                black_box(&mut to[..len]).copy_from_slice(black_box(&from[..len]));
            }
            Ok(())
        })?;
        meter.cost("vmo-read", len, TIMES, || (0..TIMES).try_for_each(|_| vmo.read(&mut to[..len], 0)))?;
        meter.cost("vmo-write", len, TIMES, || (0..TIMES).try_for_each(|_| vmo.write(&from[..len], 0)))?;
        meter.cost("stream-read", len, TIMES, || {
            (0..TIMES).try_for_each(|_| stream.readv_at(0, [&mut to[..len]]).map(drop))
        })?;
        meter.cost("stream-write", len, TIMES, || {
            (0..TIMES).try_for_each(|_| stream.writev_at(0, [&from[..len]]).map(drop))
        })?;
    }
    Ok(())
}
