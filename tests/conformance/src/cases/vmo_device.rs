//! VMOs of and for devices: contiguous, pinned, physical.

use abi::{
    Status, ZX_BTI_COMPRESS, ZX_BTI_CONTIGUOUS, ZX_BTI_PERM_READ, ZX_CACHE_POLICY_CACHED, ZX_CACHE_POLICY_UNCACHED,
    ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED,
    ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE,
};
use zx::{Bti, Info, Vmo};

use super::bti::bti;
use super::vmar::READ_WRITE;
use super::vmo_clone::{PAGE, mark, numbered, shows, snapshot, taken};
use super::{cases, root_resource};
use crate::check::{Failure, Outcome, ensure, equal, fails};

cases! {
    "vmo_device.pinned.no_copy" => pinned_no_copy,
    "vmo_device.pinned.stays" => pinned_stays,
    "vmo_device.pinned.not_transferred" => pinned_not_transferred,
    "vmo_device.contiguous.no_copy" => contiguous_no_copy,
    "vmo_device.contiguous.slice" => contiguous_slice,
    "vmo_device.contiguous.zero" => contiguous_zero,
    "vmo_device.contiguous.uncached" => contiguous_uncached,
    "vmo_device.contiguous.compressed" => contiguous_compressed,
    "vmo_device.contiguous.info" => contiguous_info,
    "vmo_device.physical.no_copy" => physical_no_copy,
    "vmo_device.physical.slice" => physical_slice,
    "vmo_device.physical.slice_rounds_up" => physical_slice_rounds_up,
    "vmo_device.physical.operations" => physical_operations,
}

const COPIES: [u32; 3] =
    [ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED];

fn contiguous(bti: &Bti, pages: u8) -> Result<Vmo, Failure> {
    let vmo = Vmo::create_contiguous(bti, usize::from(pages) * PAGE as usize, 0)?;
    for page in 0..pages {
        mark(&vmo, page, page + 1)?;
    }
    Ok(vmo)
}

/// The registers of the event timer and the pages behind them.
fn physical(pages: usize) -> Result<Vmo, Failure> {
    Ok(Vmo::create_physical(&*root_resource()?, 0xfed0_0000, pages * PAGE as usize)?)
}

fn pinned_no_copy() -> Outcome {
    let (bti, vmo) = (bti()?, numbered(3, 0)?);
    let pmt = bti.pin(ZX_BTI_PERM_READ, &vmo, PAGE, PAGE, &mut [0])?;
    let slice = vmo.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE)?;
    for kind in COPIES {
        fails(vmo.create_child(kind, 0, 3 * PAGE), Status::BAD_STATE)?;
        // A part that is not pinned itself cannot be cloned either.
        fails(slice.create_child(kind, 0, PAGE), Status::BAD_STATE)?;
    }
    pmt.unpin()?;
    shows(&snapshot(&vmo, 0, 3)?, &[1, 2, 3])
}

fn pinned_stays() -> Outcome {
    let (bti, vmo) = (bti()?, numbered(4, ZX_VMO_RESIZABLE)?);
    let mut address = [0];
    let pmt = bti.pin(ZX_BTI_PERM_READ, &vmo, PAGE, PAGE, &mut address)?;
    // The pinned page is zeroed in place; the others are freed.
    vmo.op_range(ZX_VMO_OP_ZERO, 0, 4 * PAGE)?;
    shows(&vmo, &[0, 0, 0, 0])?;
    mark(&vmo, 1, 9)?;
    fails(vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, 2 * PAGE), Status::BAD_STATE)?;
    vmo.op_range(ZX_VMO_OP_DECOMMIT, 2 * PAGE, 2 * PAGE)?;
    fails(vmo.set_size(PAGE), Status::BAD_STATE)?;
    vmo.set_size(2 * PAGE)?;
    shows(&vmo, &[0, 9])?;
    let mut again = [0];
    bti.pin(ZX_BTI_PERM_READ, &vmo, PAGE, PAGE, &mut again)?.unpin()?;
    equal(again, address)?;
    pmt.unpin()?;
    vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, 2 * PAGE)?;
    equal(taken(&vmo)?, (0, 0))
}

fn pinned_not_transferred() -> Outcome {
    let (bti, vmo, other) = (bti()?, numbered(2, 0)?, numbered(2, 0)?);
    let pmt = bti.pin(ZX_BTI_PERM_READ, &vmo, PAGE, PAGE, &mut [0])?;
    fails(other.transfer_data(0, PAGE, &vmo, PAGE), Status::BAD_STATE)?;
    fails(vmo.transfer_data(PAGE, PAGE, &other, 0), Status::BAD_STATE)?;
    other.transfer_data(0, PAGE, &vmo, 0)?;
    pmt.unpin()?;
    shows(&vmo, &[0, 2])?;
    shows(&other, &[1, 2])
}

fn contiguous_no_copy() -> Outcome {
    let vmo = contiguous(&bti()?, 2)?;
    let slice = vmo.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE)?;
    for kind in COPIES {
        fails(vmo.create_child(kind, 0, PAGE), Status::INVALID_ARGS)?;
        fails(slice.create_child(kind, 0, PAGE), Status::INVALID_ARGS)?;
    }
    shows(&vmo, &[1, 2])?;
    let other = Vmo::create(2 * PAGE, 0)?;
    fails(other.transfer_data(0, PAGE, &vmo, 0), Status::NOT_SUPPORTED)?;
    fails(vmo.transfer_data(0, PAGE, &other, 0), Status::NOT_SUPPORTED)
}

fn contiguous_slice() -> Outcome {
    let bti = bti()?;
    let vmo = contiguous(&bti, 6)?;
    let slice = vmo.create_child(ZX_VMO_CHILD_SLICE, 2 * PAGE, 3 * PAGE)?;
    ensure(slice.info()?.flags & abi::ZX_INFO_VMO_CONTIGUOUS != 0, "a slice is not said to be in one piece")?;
    shows(&slice, &[3, 4, 5])?;
    let (mut whole, mut part) = ([0], [0]);
    let options = ZX_BTI_PERM_READ | ZX_BTI_CONTIGUOUS;
    equal(vmo.create_child(ZX_VMO_CHILD_SLICE, PAGE, 42)?.get_size()?, PAGE)?;
    bti.pin(options, &vmo, 0, 6 * PAGE, &mut whole)?.unpin()?;
    bti.pin(options, &slice, 0, 3 * PAGE, &mut part)?.unpin()?;
    equal(part[0], whole[0] + 2 * PAGE)
}

fn contiguous_zero() -> Outcome {
    let bti = bti()?;
    let vmo = contiguous(&bti, 4)?;
    let place = || -> zx::Result<u64> {
        let mut address = [0];
        bti.pin(ZX_BTI_PERM_READ | ZX_BTI_CONTIGUOUS, &vmo, 0, 4 * PAGE, &mut address)?.unpin()?;
        Ok(address[0])
    };
    let before = place()?;
    vmo.op_range(ZX_VMO_OP_ZERO, PAGE, 2 * PAGE)?;
    shows(&vmo, &[1, 0, 0, 4])?;
    // Its pages stay where they are.
    equal((taken(&vmo)?, place()?), ((4, 4), before))?;
    fails(vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE), Status::NOT_SUPPORTED)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, 4 * PAGE)?;
    mark(&vmo, 1, 9)?;
    shows(&vmo, &[1, 9, 0, 4])
}

fn contiguous_uncached() -> Outcome {
    let bti = bti()?;
    let vmo = contiguous(&bti, 4)?;
    vmo.set_cache_policy(ZX_CACHE_POLICY_UNCACHED)?;
    let slice = vmo.create_child(ZX_VMO_CHILD_SLICE, PAGE, 2 * PAGE)?;
    equal(slice.info()?.cache_policy, ZX_CACHE_POLICY_UNCACHED)?;
    fails(vmo.read(&mut [0], 0), Status::BAD_STATE)?;
    let root = zx::startup::vmar_root_self();
    let (of_vmo, of_slice) =
        (root.map_here(READ_WRITE, &vmo, 0, 4 * 4096)?, root.map_here(READ_WRITE, &slice, 0, 8192)?);
    let mut byte = [0];
    of_vmo.read(3 * 4096, &mut byte)?;
    equal(byte, [4])?;
    of_slice.write(4096, &[8])?;
    of_vmo.read(2 * 4096, &mut byte)?;
    equal(byte, [8])?;
    drop((of_vmo, of_slice, slice));
    // A pinned VMO keeps its policy; so does a VMO with committed memory whose policy is not `CACHED`.
    let pmt = bti.pin(ZX_BTI_PERM_READ, &vmo, 0, PAGE, &mut [0])?;
    fails(vmo.set_cache_policy(ZX_CACHE_POLICY_CACHED), Status::BAD_STATE)?;
    pmt.unpin()?;
    fails(vmo.set_cache_policy(ZX_CACHE_POLICY_CACHED), Status::BAD_STATE)?;
    equal(vmo.info()?.cache_policy, ZX_CACHE_POLICY_UNCACHED)
}

fn contiguous_compressed() -> Outcome {
    let bti = bti()?;
    let vmo = contiguous(&bti, 16)?;
    let (mut plain, mut pressed) = ([0; 16], [0; 16]);
    bti.pin(ZX_BTI_PERM_READ, &vmo, 0, 16 * PAGE, &mut plain)?.unpin()?;
    // The call returns one address for each run of the length that the BTI promises; the runs of contiguous memory
    // follow one another.
    let info: abi::zx_info_bti_t = bti.info_record(abi::ZX_INFO_BTI)?;
    let run = info.minimum_contiguity;
    ensure(run >= PAGE && run.is_power_of_two(), "runs of a strange length are promised")?;
    let count = (16 * PAGE).div_ceil(run) as usize;
    bti.pin(ZX_BTI_PERM_READ | ZX_BTI_COMPRESS, &vmo, 0, 16 * PAGE, &mut pressed[..count])?.unpin()?;
    for (n, address) in pressed[..count].iter().enumerate() {
        equal(*address, plain[0] + n as u64 * run)?;
    }
    equal(plain[15], plain[0] + 15 * PAGE)
}

fn contiguous_info() -> Outcome {
    let vmo = contiguous(&bti()?, 3)?;
    let info = vmo.info()?;
    let flags = abi::ZX_INFO_VMO_TYPE_PAGED | abi::ZX_INFO_VMO_VIA_HANDLE | abi::ZX_INFO_VMO_CONTIGUOUS;
    equal((info.flags, info.committed_bytes, info.cache_policy), (flags, 3 * PAGE, ZX_CACHE_POLICY_CACHED))?;
    fails(vmo.set_size(PAGE), Status::UNAVAILABLE)
}

fn physical_no_copy() -> Outcome {
    let vmo = physical(2)?;
    let slice = vmo.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE)?;
    for kind in COPIES {
        fails(vmo.create_child(kind, 0, PAGE), Status::NOT_SUPPORTED)?;
        fails(slice.create_child(kind, 0, PAGE), Status::NOT_SUPPORTED)?;
    }
    equal(vmo.info()?.num_children, 1)
}

fn physical_slice() -> Outcome {
    let vmo = physical(1)?;
    let slice = vmo.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE)?;
    let inner = slice.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE)?;
    equal(inner.info()?.flags & abi::ZX_INFO_VMO_TYPE_PAGED, 0)?;
    // The timer's first word identifies it and never changes.
    let root = zx::startup::vmar_root_self();
    let mut words = [0; 3];
    for (vmo, found) in [&vmo, &slice, &inner].into_iter().zip(&mut words) {
        // Registers must be read in words.
        let mapping = root.map_here(abi::ZX_VM_PERM_READ, vmo, 0, 4096)?;
        let word = mapping.word(0).ok_or("the first word is not within the mapping")?;
        *found = word.load(std::sync::atomic::Ordering::Relaxed);
    }
    ensure(words[0] != 0 && words[0] == words[1] && words[1] == words[2], "they show different devices")?;
    fails(inner.create_child(ZX_VMO_CHILD_SLICE, 0, 2 * PAGE), Status::INVALID_ARGS)
}

fn physical_slice_rounds_up() -> Outcome {
    let vmo = physical(2)?;
    let slice = vmo.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE + 1)?;
    equal(slice.get_size()?, 2 * PAGE)?;
    equal(vmo.create_child(ZX_VMO_CHILD_SLICE, PAGE, 1)?.get_size()?, PAGE)?;
    fails(vmo.create_child(ZX_VMO_CHILD_SLICE, PAGE, PAGE + 1), Status::INVALID_ARGS)
}

fn physical_operations() -> Outcome {
    let vmo = physical(1)?;
    for op in [ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO] {
        fails(vmo.op_range(op, 0, PAGE), Status::NOT_SUPPORTED)?;
    }
    fails(vmo.read(&mut [0], 0), Status::NOT_SUPPORTED)?;
    fails(vmo.write(&[0], 0), Status::NOT_SUPPORTED)?;
    fails(vmo.set_size(2 * PAGE), Status::UNAVAILABLE)?;
    let info = vmo.info()?;
    equal((info.committed_bytes, info.cache_policy), (0, ZX_CACHE_POLICY_UNCACHED))
}
