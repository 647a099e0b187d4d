//! VMOs, mappings and faults.

use zx::{AsHandleRef, Vmar, Vmo};

use super::sampler::Suite;
use super::{call, check, place};

const TIMES: usize = 1_000;
const PAGE: usize = 4096;
const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
/// Number of regions in which mappings are made in turn, their size, and the number of other mappings that each always
/// has.
const REGIONS: usize = 64;
const REGION: usize = 1 << 30;
const NEIGHBOURS: usize = 32;
/// Size of the regions whose pages are touched: the other mappings need all page tables, so these exist.
const SMALL_REGION: usize = 2 << 20;
/// Measured faults.
const FAULTS: usize = 512;
/// Bytes in a short run.
const SHORT: usize = 16 * PAGE;
/// Pages between two faults that are single.
const APART: usize = 32;

pub fn run(suite: &mut Suite) -> zx::Result<()> {
    objects(suite)?;
    mappings(suite)?;
    faults(suite, "fault_write_single", APART)?;
    faults(suite, "fault_write_run", 1)?;
    short_run(suite)
}

/// Uses memory and frees it. The server takes chunks from the kernel as it needs them, and the kernel clears them then,
/// with up to millions of instructions at a time. That belongs to no measured operation.
pub fn use_some() -> zx::Result<()> {
    const LEN: u64 = 64 << 20;
    let vmo = Vmo::create(LEN, 0)?;
    for page in (0..LEN).step_by(PAGE) {
        vmo.write(&[1], page)?;
    }
    drop(vmo);
    // The heap, which never shrinks, takes chunks of its own.
    let (near, _far) = zx::Channel::create()?;
    let bytes = vec![1; zx::MAX_MESSAGE_BYTES];
    (0..128).try_for_each(|_| near.write(&bytes, []))
}

fn objects(suite: &mut Suite) -> zx::Result<()> {
    let mut out = 0_u32;
    suite.measure(["vmo_create", "vmo_close"], TIMES, |[create, close]| {
        check(create.time(|| call!(zx_vmo_create, PAGE, 0, place(&mut out))))?;
        check(close.time(|| call!(zx_handle_close, out)))
    })
}

fn mappings(suite: &mut Suite) -> zx::Result<()> {
    let root = zx::startup::vmar_root_self();
    let vmo = Vmo::create(PAGE as u64, 0)?;
    let handle = vmo.raw_handle();
    let mut at = 0_usize;
    // A mapping has a random depth in the tree of its region, and each level costs. So the mappings go to many trees.
    let other = Vmo::create(PAGE as u64, 0)?;
    let regions = |len| (0..REGIONS).map(|_| region(&root, &other, len)).collect::<zx::Result<Vec<Vmar>>>();
    let (large, small) = (regions(REGION)?, regions(SMALL_REGION)?);
    let mut turns = large.iter().cycle();
    suite.measure(["vmar_map", "vmar_unmap"], TIMES, |[map, unmap]| {
        let region = turns.next().map_or(0, |region| region.raw_handle());
        check(map.time(|| call!(zx_vmar_map, region, READ_WRITE, 0, handle, 0, PAGE, place(&mut at))))?;
        check(unmap.time(|| call!(zx_vmar_unmap, region, at, PAGE)))
    })?;
    // The page is committed already: what is added is the fault that maps it.
    vmo.write(&[1], 0)?;
    let mut turns = small.iter().cycle();
    suite.measure(["vmar_map_touched", "vmar_unmap_touched"], TIMES, |[map, unmap]| {
        let region = turns.next().map_or(0, |region| region.raw_handle());
        let mapped = map.time(|| {
            let mapped = call!(zx_vmar_map, region, READ_WRITE, 0, handle, 0, PAGE, place(&mut at));
            zx::probe::write(at, 1);
            mapped
        });
        check(mapped)?;
        check(unmap.time(|| call!(zx_vmar_unmap, region, at, PAGE)))
    })?;
    large.iter().chain(&small).try_for_each(Vmar::destroy)
}

/// A region with mappings that are touched.
fn region(root: &Vmar, vmo: &Vmo, len: usize) -> zx::Result<Vmar> {
    let options = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE;
    let (region, _) = root.allocate(options, 0, len)?;
    for _ in 0..NEIGHBOURS {
        zx::probe::write(region.map(READ_WRITE, 0, vmo, 0, PAGE)?, 1);
    }
    Ok(region)
}

/// Writes to pages that are not committed yet, at a distance of `apart` pages. Each round reuses the memory of the
/// round before; the first, which takes the memory from the kernel, is not measured.
fn faults(suite: &mut Suite, name: &'static str, apart: usize) -> zx::Result<()> {
    if !suite.wants(&[name]) {
        return Ok(());
    }
    let len = FAULTS * apart * PAGE;
    let mut samples = suite.samples();
    for _ in 0..3 {
        samples = suite.samples();
        let vmo = Vmo::create(len as u64, 0)?;
        let map = zx::startup::vmar_root_self();
        let map = map.map_here(READ_WRITE, &vmo, 0, len)?;
        for fault in 0..FAULTS {
            let at = map.address() + fault * apart * PAGE;
            samples.time(|| zx::probe::write(at, 1));
        }
    }
    suite.report(name, samples);
    Ok(())
}

/// Writes to all pages of a small VMO in order.
fn short_run(suite: &mut Suite) -> zx::Result<()> {
    suite.measure(["fault_write_16"], 100, |[run]| {
        let vmo = Vmo::create(SHORT as u64, 0)?;
        let root = zx::startup::vmar_root_self();
        let map = root.map_here(READ_WRITE, &vmo, 0, SHORT)?;
        run.time(|| (0..SHORT).step_by(PAGE).for_each(|page| zx::probe::write(map.address() + page, 1)));
        Ok(())
    })
}
