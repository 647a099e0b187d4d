//! Copies of memory, mappings over mappings, and pages that move.

use std::time::Duration;

use abi::{
    ZX_VM_MAP_RANGE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC, ZX_VM_SPECIFIC_OVERWRITE, ZX_VMO_CHILD_SNAPSHOT,
};
use conformance::check::{Case, Outcome, ensure};
use zx::{Pager, Port, Vmar, Vmo};

use super::{CAN, FILLS, LARGE, LESS, MAPPINGS, hold, holds_shortly, many, memory, unmap};

/// Bytes in small pages that are copied: the copy's page table is created at once.
const COPIED: u64 = 128 << 20;
/// VMARs in one VMAR.
const VMARS: usize = 5000;

/// Maps `len` bytes over everything in a region.
fn over(vmar: &Vmar, len: usize) -> zx::Result<()> {
    let vmo = Vmo::create(len as u64, 0)?;
    vmar.map(ZX_VM_PERM_READ | ZX_VM_SPECIFIC_OVERWRITE, 0, &vmo, 0, len).map(drop)
}

fn clone(kind: &str, mapped: bool) -> Outcome {
    let size = if mapped { LESS } else { COPIED };
    let vmo = memory(size, true)?;
    vmo.write(b"first", 0)?;
    vmo.write(b"last", size - 4096)?;
    let (root, len) = (zx::startup::vmar_root_self(), size as usize);
    let options = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
    let address = root.map(options | if mapped { ZX_VM_MAP_RANGE } else { 0 }, 0, &vmo, 0, len)?;
    let mut copy = None;
    holds_shortly(kind, || {
        copy = Some(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, size)?);
        Ok(())
    })?;
    vmo.write(b"other", 0)?;
    let copy = copy.ok_or("there is a copy")?;
    let (mut first, mut last) = ([0; 5], [0; 4]);
    copy.read(&mut first, 0)?;
    copy.read(&mut last, size - 4096)?;
    ensure((&first, &last) == (b"first", b"last"), "it is no copy")?;
    holds_shortly(&format!("{kind}-close"), || {
        drop(copy);
        Ok(())
    })?;
    Ok(root.unmap(address, len)?)
}

fn transfer() -> Outcome {
    let (from, to) = (memory(FILLS, true)?, Vmo::create(FILLS, 0)?);
    holds_shortly("transfer-more", || Ok(to.transfer_data(0, FILLS, &from, 0)?))
}

fn supply() -> Outcome {
    let (from, port, pager) = (memory(FILLS, true)?, Port::create()?, Pager::create()?);
    let vmo = pager.create_vmo(0, &port, 1, FILLS)?;
    holds_shortly("supply", || Ok(pager.supply_pages(&vmo, 0, FILLS, &from, 0)?))
}

/// A region with the most sub-regions, all of them empty.
fn destroy() -> Outcome {
    let (vmar, _) = zx::startup::vmar_root_self().allocate(CAN, 0, VMARS * 4096)?;
    let below = (0..VMARS)
        .map(|page| vmar.allocate(CAN | ZX_VM_SPECIFIC, page * 4096, 4096))
        .collect::<zx::Result<Vec<_>>>()?;
    holds_shortly("destroy-regions", || Ok(vmar.destroy()?))?;
    drop(below);
    Ok(())
}

/// A fault takes less time than the creation of a large page.
const FAULT: Duration = Duration::from_micros(300);

/// Large pages that are mapped where large mappings are impossible, each touched once.
fn apart() -> Outcome {
    let vmo = memory(LESS, false)?;
    let root = zx::startup::vmar_root_self();
    let len = (LESS - LARGE) as usize;
    let mapping = root.map_here(ZX_VM_PERM_READ, &vmo, 4096, len)?;
    let (longest, lasted) = hold(|| {
        let mut byte = [0];
        (0..len).step_by(LARGE as usize).try_for_each(|at| Ok(mapping.read(at, &mut byte)?))
    })?;
    eprintln!("hold large-apart: {} of {} us", longest.as_micros(), lasted.as_micros());
    ensure(longest < FAULT, &format!("the kernel was held for {longest:?}"))
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("holds.clone.mapped", || clone("clone-mapped", true)),
        Case::new("holds.clone.more", || clone("clone-more", false)),
        Case::new("holds.destroy.regions", destroy),
        Case::new("holds.large.apart", apart),
        Case::new("holds.map.over", || unmap("map-over", |vmar, _| over(vmar, LESS as usize))),
        Case::new("holds.map.over.many", || many("map-over-many", |vmar, _, _| over(vmar, MAPPINGS * 2 * 4096))),
        Case::new("holds.supply", supply),
        Case::new("holds.transfer.more", transfer),
    ]
}
