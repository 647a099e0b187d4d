//! Memory that is pinned for devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use abi::{
    Rights, Status, ZX_BTI_COMPRESS, ZX_BTI_CONTIGUOUS, ZX_BTI_PERM_EXECUTE, ZX_BTI_PERM_READ, ZX_BTI_PERM_WRITE,
    ZX_IOMMU_TYPE_INTEL, ZX_RSRC_KIND_MMIO, ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_INFO_BASE, ZX_RSRC_SYSTEM_IOMMU_BASE,
    ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_OP_DECOMMIT, ZX_VMO_RESIZABLE, zx_info_bti_t,
};
use zx::{AsHandleRef, Bti, Info, Iommu, Pmt, Vmo};

use super::{cases, late, raw, root_resource, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::OwnJob;

cases! {
    "iommu.create.stub" => iommu_create,
    "iommu.create.arguments" => iommu_arguments,
    "bti.create.object" => create,
    "bti.create.arguments" => create_arguments,
    "bti.get_info.counts" => get_info,
    "bti.pin.addresses" => pin_addresses,
    "bti.pin.same_place" => pin_same_place,
    "bti.pin.arguments" => pin_arguments,
    "bti.pin.rights" => pin_rights,
    "bti.pin.contiguous" => pin_contiguous,
    "bti.pin.contiguous_flag" => pin_contiguous_flag,
    "bti.pin.compress" => pin_compress,
    "bti.pin.slice" => pin_slice,
    "bti.pin.clone" => pin_clone,
    "bti.pin.clone_stays_a_child" => pin_clone_stays_a_child,
    "bti.pin.within_a_slice" => pin_within_a_slice,
    "bti.pin.resize" => pin_resize,
    "bti.pin.decommit" => pin_decommit,
    "bti.pin.decommit_race" => pin_decommit_race,
    "bti.pin.unpinned_at_once" => unpinned_at_once,
    "bti.pin.unpinned_while_asked" => unpinned_while_asked,
    "bti.pin.bad_address" => pin_bad_address,
    "bti.quarantine.holds_pages" => quarantine_holds_pages,
    "bti.quarantine.of_a_process" => quarantine_of_a_process,
    "pmt.unpin.consumes" => unpin_consumes,
    "vmo.create_contiguous.follows" => contiguous_follows,
    "vmo.create_contiguous.arguments" => contiguous_arguments,
}

const PAGE: u64 = 4096;
const READ: u32 = ZX_BTI_PERM_READ;
const WRITE: u32 = ZX_BTI_PERM_WRITE;

pub(super) fn bti() -> Result<Bti, Failure> {
    Ok(Bti::create(&Iommu::create_stub(&*root_resource()?)?, 0xabcd)?)
}

/// Number of pin tokens, and of those in quarantine.
fn counts(bti: &Bti) -> Result<(u64, u64), Failure> {
    let info: zx_info_bti_t = bti.info_record(abi::ZX_INFO_BTI)?;
    Ok((info.pmo_count, info.quarantine_count))
}

/// Pins all of a VMO; returns the addresses of its pages.
fn pin(bti: &Bti, vmo: &Vmo) -> Result<(Pmt, Vec<u64>), Failure> {
    let size = vmo.get_size()?;
    let mut addresses = vec![0; (size / PAGE) as usize];
    let pmt = bti.pin(READ | WRITE, vmo, 0, size, &mut addresses)?;
    Ok((pmt, addresses))
}

/// The addresses must be page addresses, not 0, and all different.
fn sensible(addresses: &[u64]) -> Outcome {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    equal(sorted.len(), addresses.len())?;
    ensure(addresses.iter().all(|&address| address != 0 && address % PAGE == 0), "an address is not that of a page")
}

fn decommit(vmo: &Vmo, offset: u64, len: u64) -> Status {
    raw!(zx_vmo_op_range, vmo.raw_handle(), ZX_VMO_OP_DECOMMIT, offset, len, 0, 0)
}

// --- iommu_create, bti_create ---

fn iommu_create() -> Outcome {
    let root = root_resource()?;
    let narrow = root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_IOMMU_BASE, 1, "")?;
    for resource in [&*root, &narrow] {
        let basic = Iommu::create_stub(resource)?.basic_info()?;
        equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_IOMMU, abi::ZX_DEFAULT_IOMMU_RIGHTS.bits()))?;
    }
    let other = root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_INFO_BASE, 1, "")?;
    fails(Iommu::create_stub(&other), Status::OUT_OF_RANGE)?;
    let memory = root.create_child(ZX_RSRC_KIND_MMIO, 0x1000, 0x1000, "")?;
    fails(Iommu::create_stub(&memory), Status::WRONG_TYPE)
}

fn iommu_arguments() -> Outcome {
    let root = root_resource()?.raw_handle();
    let (text, mut out) = ([0_u8; 5000], 0_u32);
    let mut create =
        |kind: u32, size: usize| raw!(zx_iommu_create, root, kind, text.as_ptr().addr(), size, &raw mut out);
    for size in [0, 2, 4096, 4097, 5000, usize::MAX] {
        gives(create(0, size), Status::INVALID_ARGS)?;
    }
    gives(create(ZX_IOMMU_TYPE_INTEL, 1), Status::NOT_SUPPORTED)?;
    gives(create(99, 1), Status::NOT_SUPPORTED)?;
    equal(out, 0)
}

fn create() -> Outcome {
    let iommu = Iommu::create_stub(&*root_resource()?)?;
    // A bus may use one ID for several devices.
    let (bti, _twin) = (Bti::create(&iommu, u64::MAX)?, Bti::create(&iommu, u64::MAX)?);
    let basic = bti.basic_info()?;
    equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_BTI, abi::ZX_DEFAULT_BTI_RIGHTS.bits()))?;
    bti.set_name("a device")?;
    equal(&bti.get_name()?[..9], b"a device\0")?;
    // The BTI does not need its IOMMU any longer.
    drop(iommu);
    equal(counts(&bti)?, (0, 0))
}

fn create_arguments() -> Outcome {
    let iommu = Iommu::create_stub(&*root_resource()?)?;
    let mut out = 0_u32;
    gives(raw!(zx_bti_create, iommu.raw_handle(), 1, 0, &raw mut out), Status::INVALID_ARGS)?;
    equal(out, 0)
}

// --- bti_pin ---

fn get_info() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(4 * PAGE, 0)?);
    let info: zx_info_bti_t = bti.info_record(abi::ZX_INFO_BTI)?;
    equal((info.minimum_contiguity, info.aspace_size), (PAGE, u64::MAX))?;
    equal(counts(&bti)?, (0, 0))?;
    let first = pin(&bti, &vmo)?.0;
    let second = pin(&bti, &vmo)?.0;
    equal(counts(&bti)?, (2, 0))?;
    drop(first);
    equal(counts(&bti)?, (2, 1))?;
    second.unpin()?;
    equal(counts(&bti)?, (1, 1))?;
    bti.release_quarantine()?;
    equal(counts(&bti)?, (0, 0))?;
    fails(Bti::from(without(&bti, Rights::INSPECT)?).get_info(abi::ZX_INFO_BTI, &mut [0; 32]), Status::ACCESS_DENIED)
}

fn pin_addresses() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(300 * PAGE, 0)?);
    equal(vmo.info()?.committed_bytes, 0)?;
    let (pmt, addresses) = pin(&bti, &vmo)?;
    sensible(&addresses)?;
    equal(vmo.info()?.committed_bytes, 300 * PAGE)?;
    let basic = pmt.basic_info()?;
    equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_PMT, abi::ZX_DEFAULT_PMT_RIGHTS.bits()))?;
    // A part has the same addresses.
    let mut part = [0; 7];
    let second = bti.pin(READ, &vmo, 100 * PAGE, 7 * PAGE, &mut part)?;
    equal(&part[..], &addresses[100..107])?;
    second.unpin()?;
    pmt.unpin()?;
    equal(counts(&bti)?, (0, 0))
}

fn pin_same_place() -> Outcome {
    // Writing and reading do not move the pages.
    let (bti, vmo) = (bti()?, Vmo::create(8 * PAGE, 0)?);
    let (pmt, addresses) = pin(&bti, &vmo)?;
    for page in 0..8 {
        vmo.write(&[page as u8 + 1; 100], page * PAGE + 50)?;
    }
    let mut bytes = [0; 100];
    vmo.read(&mut bytes, 3 * PAGE + 50)?;
    equal(bytes, [4; 100])?;
    let (again, same) = pin(&bti, &vmo)?;
    equal(addresses, same)?;
    again.unpin()?;
    Ok(pmt.unpin()?)
}

fn pin_arguments() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(4 * PAGE, 0)?);
    let pin =
        |options, offset, size, count: usize| bti.pin(options, &vmo, offset, size, &mut [0; 8][..count]).map(drop);
    for (options, offset, size, count) in [
        (0, 0, PAGE, 1),
        (ZX_BTI_COMPRESS, 0, PAGE, 1),
        (READ | 1 << 5, 0, PAGE, 1),
        (READ | 1 << 31, 0, PAGE, 1),
        (READ | ZX_BTI_COMPRESS | ZX_BTI_CONTIGUOUS, 0, PAGE, 1),
        (READ, 1, PAGE, 1),
        (READ, 0, PAGE + 1, 2),
        (READ, 0, 0, 0),
        (READ, 0, 2 * PAGE, 1),
        (READ, 0, 2 * PAGE, 3),
        (READ | ZX_BTI_COMPRESS, 0, 2 * PAGE, 1),
    ] {
        fails(pin(options, offset, size, count), Status::INVALID_ARGS)?;
    }
    for (offset, size, count) in [(4 * PAGE, PAGE, 1), (0, 5 * PAGE, 5), (u64::MAX - PAGE + 1, PAGE, 1)] {
        fails(pin(READ, offset, size, count), Status::OUT_OF_RANGE)?;
    }
    equal(counts(&bti)?, (0, 0))
}

fn pin_rights() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(PAGE, 0)?);
    let pin = |vmo: &Vmo, options| bti.pin(options, vmo, 0, PAGE, &mut [0]);
    let unreadable = Vmo::from(without(&vmo, Rights::READ)?);
    let unwritable = Vmo::from(without(&vmo, Rights::WRITE)?);
    for options in [READ, READ | WRITE, ZX_BTI_PERM_EXECUTE] {
        fails(pin(&unreadable, options), Status::ACCESS_DENIED)?;
    }
    fails(pin(&unwritable, WRITE), Status::ACCESS_DENIED)?;
    pin(&unreadable, WRITE)?.unpin()?;
    pin(&unwritable, READ | ZX_BTI_PERM_EXECUTE)?.unpin()?;
    fails(pin(&Vmo::from(without(&vmo, Rights::MAP)?), READ), Status::ACCESS_DENIED)?;
    let weak = Bti::from(without(&bti, Rights::MAP)?);
    fails(weak.pin(READ, &vmo, 0, PAGE, &mut [0]), Status::ACCESS_DENIED)
}

fn pin_contiguous() -> Outcome {
    let bti = bti()?;
    let vmo = Vmo::create_contiguous(&bti, 64 * PAGE as usize, 0)?;
    let (pmt, addresses) = pin(&bti, &vmo)?;
    ensure(addresses.windows(2).all(|pair| pair[1] == pair[0] + PAGE), "the pages are not in one piece")?;
    let mut one = [0];
    let second = bti.pin(READ | ZX_BTI_CONTIGUOUS, &vmo, 3 * PAGE, 5 * PAGE, &mut one)?;
    equal(one[0], addresses[3])?;
    second.unpin()?;
    Ok(pmt.unpin()?)
}

fn pin_contiguous_flag() -> Outcome {
    let bti = bti()?;
    // Only a VMO that was created contiguous can be pinned as such, even if it is a single page.
    let plain = Vmo::create(PAGE, 0)?;
    fails(bti.pin(READ | ZX_BTI_CONTIGUOUS, &plain, 0, PAGE, &mut [0]), Status::INVALID_ARGS)?;
    let vmo = Vmo::create_contiguous(&bti, 4 * PAGE as usize, 0)?;
    for count in [0, 2, 4] {
        let result = bti.pin(READ | ZX_BTI_CONTIGUOUS, &vmo, 0, 4 * PAGE, &mut [0; 4][..count]);
        fails(result, Status::INVALID_ARGS)?;
    }
    bti.pin(READ | ZX_BTI_CONTIGUOUS, &vmo, 0, 4 * PAGE, &mut [0])?.unpin()?;
    equal(counts(&bti)?, (0, 0))
}

fn pin_compress() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(6 * PAGE, 0)?);
    let mut addresses = [0; 6];
    bti.pin(READ | ZX_BTI_COMPRESS, &vmo, 0, 6 * PAGE, &mut addresses)?.unpin()?;
    sensible(&addresses)
}

fn pin_slice() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(6 * PAGE, 0)?);
    let (pmt, addresses) = pin(&bti, &vmo)?;
    let slice = vmo.create_child(abi::ZX_VMO_CHILD_SLICE, 2 * PAGE, 3 * PAGE)?;
    let (second, part) = pin(&bti, &slice)?;
    equal(&part[..], &addresses[2..5])?;
    pmt.unpin()?;
    // The pages are still pinned through the slice.
    gives(decommit(&vmo, 2 * PAGE, PAGE), Status::BAD_STATE)?;
    second.unpin()?;
    gives(decommit(&vmo, 2 * PAGE, PAGE), Status::OK)
}

fn pin_clone() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(2 * PAGE, 0)?);
    vmo.write(b"before", 0)?;
    vmo.write(b"before", PAGE)?;
    let clone = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, 2 * PAGE)?;
    // The device gets pages that belong to the clone and stay the clone's, whoever writes.
    let (pmt, addresses) = pin(&bti, &clone)?;
    vmo.write(b"after!", 0)?;
    clone.write(b"clone!", PAGE)?;
    let (second, same) = pin(&bti, &clone)?;
    equal(&addresses, &same)?;
    let (third, parents) = pin(&bti, &vmo)?;
    ensure(parents.iter().all(|address| !addresses.contains(address)), "parent and clone are at the same place")?;
    let mut bytes = [0; 6];
    clone.read(&mut bytes, 0)?;
    equal(&bytes, b"before")?;
    vmo.read(&mut bytes, PAGE)?;
    equal(&bytes, b"before")?;
    for pmt in [pmt, second, third] {
        pmt.unpin()?;
    }
    Ok(())
}

/// A clone without handles remains a child as long as its memory is pinned.
fn pin_clone_stays_a_child() -> Outcome {
    let bti = bti()?;
    for options in [0, ZX_VMO_RESIZABLE] {
        let vmo = Vmo::create(PAGE, options)?;
        let clone = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, PAGE)?;
        let pmt = bti.pin(READ, &clone, 0, PAGE, &mut [0])?;
        drop(clone);
        let childless = || vmo.wait_one(abi::Signals::VMO_ZERO_CHILDREN, zx::MonotonicInstant::INFINITE_PAST);
        fails(childless(), Status::TIMED_OUT)?;
        equal(vmo.info()?.num_children, 1)?;
        pmt.unpin()?;
        childless()?;
        equal(vmo.info()?.num_children, 0)?;
    }
    Ok(())
}

/// A pin through a slice ends at the end of the slice, although the parent continues.
fn pin_within_a_slice() -> Outcome {
    let bti = bti()?;
    for whole in [Vmo::create(6 * PAGE, 0)?, Vmo::create_contiguous(&bti, 6 * PAGE as usize, 0)?] {
        let slice = whole.create_child(abi::ZX_VMO_CHILD_SLICE, PAGE, 4 * PAGE)?;
        let inner = slice.create_child(abi::ZX_VMO_CHILD_SLICE, PAGE, 2 * PAGE)?;
        let mut all = [0; 6];
        bti.pin(READ, &whole, 0, 6 * PAGE, &mut all)?.unpin()?;
        for (vmo, begins, pages) in [(&whole, 0, 6), (&slice, 1, 4), (&inner, 2, 2)] {
            for (from, to) in (0..8).flat_map(|from| (from + 1..9).map(move |to| (from, to))) {
                let mut found = [0; 8];
                let count = (to - from) as usize;
                let pinned = bti.pin(READ, vmo, from * PAGE, (to - from) * PAGE, &mut found[..count]);
                if to > pages {
                    fails(pinned, Status::OUT_OF_RANGE)?;
                    continue;
                }
                pinned?.unpin()?;
                let first = (begins + from) as usize;
                equal(&found[..count], &all[first..first + count])?;
            }
        }
    }
    equal(counts(&bti)?, (0, 0))
}

fn pin_resize() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(8 * PAGE, ZX_VMO_RESIZABLE)?);
    let mut addresses = [0; 2];
    let pmt = bti.pin(READ, &vmo, 3 * PAGE, 2 * PAGE, &mut addresses)?;
    // Pages behind the pin can be cut off, pinned ones cannot.
    vmo.set_size(5 * PAGE)?;
    for pages in [4, 3, 0] {
        fails(vmo.set_size(pages * PAGE), Status::BAD_STATE)?;
    }
    equal(vmo.get_size()?, 5 * PAGE)?;
    vmo.set_size(10 * PAGE)?;
    let mut same = [0; 2];
    bti.pin(READ, &vmo, 3 * PAGE, 2 * PAGE, &mut same)?.unpin()?;
    equal(same, addresses)?;
    pmt.unpin()?;
    Ok(vmo.set_size(0)?)
}

fn pin_decommit() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(8 * PAGE, 0)?);
    vmo.write(&[7; 8 * PAGE as usize], 0)?;
    let pmt = bti.pin(READ, &vmo, 3 * PAGE, 2 * PAGE, &mut [0; 2])?;
    for (page, count) in [(3, 1), (4, 1), (0, 8), (2, 2), (4, 3)] {
        gives(decommit(&vmo, page * PAGE, count * PAGE), Status::BAD_STATE)?;
    }
    let mut byte = [0];
    vmo.read(&mut byte, 2 * PAGE)?;
    equal(byte, [7])?;
    gives(decommit(&vmo, 0, 3 * PAGE), Status::OK)?;
    gives(decommit(&vmo, 5 * PAGE, 3 * PAGE), Status::OK)?;
    vmo.read(&mut byte, 3 * PAGE)?;
    equal(byte, [7])?;
    equal(vmo.info()?.committed_bytes, 2 * PAGE)?;
    pmt.unpin()?;
    gives(decommit(&vmo, 0, 8 * PAGE), Status::OK)
}

fn pin_decommit_race() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(16 * PAGE, 0)?);
    let (stop, met) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (twin, told, meets) = (vmo.duplicate(Rights::SAME_RIGHTS)?, Arc::clone(&stop), Arc::clone(&met));
    let other = std::thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            match decommit(&twin, 0, 16 * PAGE) {
                Status::OK => meets.fetch_or(1, Ordering::Relaxed),
                Status::BAD_STATE => meets.fetch_or(2, Ordering::Relaxed),
                status => return Err(status),
            };
        }
        Ok(())
    });
    let mut outcome = Ok(());
    let (mut turns, limit) = (0, late());
    // At least 300 rounds, and until the other thread has interfered both between two pins and during one.
    while turns < 300 || met.load(Ordering::Relaxed) != 3 && zx::MonotonicInstant::now() < limit {
        let (pmt, addresses) = pin(&bti, &vmo)?;
        zx::thread_legacy_yield()?;
        let (again, same) = pin(&bti, &vmo)?;
        outcome = outcome.and(sensible(&addresses)).and(equal(addresses, same));
        again.unpin()?;
        pmt.unpin()?;
        zx::thread_legacy_yield()?;
        turns += 1;
    }
    stop.store(true, Ordering::Relaxed);
    other.join().map_err(|_| "the other thread panicked")??;
    outcome.and(equal(met.load(Ordering::Relaxed), 3))
}

/// A thread lists the VMOs of a process over and over, some of them clones of each other that are being written. This
/// does not keep memory pinned: unpinned memory can be cloned at once.
fn unpinned_while_asked() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(4 * PAGE, 0)?);
    let stop = AtomicBool::new(false);
    let lists = AtomicU32::new(0);
    std::thread::scope(|scope| -> Outcome {
        let asker = scope.spawn(|| -> zx::Result<()> {
            let busy = Vmo::create(256 * PAGE, 0)?;
            let mut clones = vec![busy.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, 256 * PAGE)?];
            for n in 1..16 {
                clones.push(clones[n * 7 % clones.len()].create_child(ZX_VMO_CHILD_SNAPSHOT, 0, 256 * PAGE)?);
            }
            let mut list = vec![0; 256 * size_of::<abi::zx_info_vmo_t>()];
            let process = zx::startup::process_self();
            for n in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                busy.write(&n.to_le_bytes(), n % 256 * PAGE)?;
                process.get_info(abi::ZX_INFO_PROCESS_VMOS, &mut list)?;
                lists.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let outcome = (|| -> Outcome {
            let mut turns = 0;
            while turns < 500 || lists.load(Ordering::Relaxed) < 20 && !asker.is_finished() {
                let (pmt, _) = pin(&bti, &vmo)?;
                fails(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, 4 * PAGE), Status::BAD_STATE)?;
                pmt.unpin()?;
                drop(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, 4 * PAGE)?);
                turns += 1;
            }
            Ok(())
        })();
        stop.store(true, Ordering::Relaxed);
        asker.join().map_err(|_| "the asking thread panicked")??;
        outcome
    })
}

fn unpinned_at_once() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(8 * PAGE, ZX_VMO_RESIZABLE)?);
    for _ in 0..100 {
        let (pmt, _) = pin(&bti, &vmo)?;
        gives(decommit(&vmo, 0, 8 * PAGE), Status::BAD_STATE)?;
        pmt.unpin()?;
        gives(decommit(&vmo, 0, 8 * PAGE), Status::OK)?;
    }
    let (pmt, _) = pin(&bti, &vmo)?;
    pmt.unpin()?;
    Ok(vmo.set_size(0)?)
}

fn pin_bad_address() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(2 * PAGE, 0)?);
    let (mut addresses, mut out) = ([0_u64; 2], 0_u32);
    let pin = |addresses: u64, out: u64| {
        raw!(zx_bti_pin, bti.raw_handle(), READ, vmo.raw_handle(), 0, 2 * PAGE, addresses, 2, out)
    };
    for bad in [0, 0x1000, 0xffff_8000_0000_0000] {
        gives(pin(bad, &raw mut out as u64), Status::INVALID_ARGS)?;
        gives(pin(addresses.as_mut_ptr() as u64, bad), Status::INVALID_ARGS)?;
    }
    // No pin is left.
    equal(counts(&bti)?, (0, 0))?;
    gives(decommit(&vmo, 0, 2 * PAGE), Status::OK)
}

// --- quarantine ---

fn quarantine_holds_pages() -> Outcome {
    let (bti, vmo) = (bti()?, Vmo::create(4 * PAGE, 0)?);
    let (pmt, _) = pin(&bti, &vmo)?;
    drop(pmt);
    equal(counts(&bti)?, (1, 1))?;
    gives(decommit(&vmo, 0, 4 * PAGE), Status::BAD_STATE)?;
    fails(Bti::from(without(&bti, Rights::WRITE)?).release_quarantine(), Status::ACCESS_DENIED)?;
    bti.release_quarantine()?;
    gives(decommit(&vmo, 0, 4 * PAGE), Status::OK)?;
    bti.release_quarantine()?;
    equal(counts(&bti)?, (0, 0))
}

fn quarantine_of_a_process() -> Outcome {
    // The pins of a killed driver go into the quarantine of the BTI, which another process still holds.
    let (bti, vmo) = (bti()?, Vmo::create(4 * PAGE, 0)?);
    let puppet = Puppet::of(OwnJob::new()?)?;
    let (their_bti, their_vmo) = (
        puppet.give(bti.duplicate_handle(Rights::SAME_RIGHTS)?)?,
        puppet.give(vmo.duplicate_handle(Rights::SAME_RIGHTS)?)?,
    );
    let room = puppet.room(0)?;
    let arguments = [their_bti, READ.into(), their_vmo, 0, 4 * PAGE, room, 4, room + 64];
    gives(puppet.call(function!(zx_bti_pin), &arguments)?, Status::OK)?;
    equal(counts(&bti)?, (1, 0))?;
    puppet.tiny.process.kill()?;
    puppet.tiny.end()?;
    equal(counts(&bti)?, (1, 1))?;
    gives(decommit(&vmo, 0, 4 * PAGE), Status::BAD_STATE)?;
    bti.release_quarantine()?;
    gives(decommit(&vmo, 0, 4 * PAGE), Status::OK)
}

fn unpin_consumes() -> Outcome {
    let event = zx::Event::create()?.into_handle().into_raw();
    gives(raw!(zx_pmt_unpin, event), Status::WRONG_TYPE)?;
    fails(zx::HandleRef::from_raw(event).check_valid(), Status::BAD_HANDLE)?;
    gives(raw!(zx_pmt_unpin, 0), Status::BAD_HANDLE)?;
    let (bti, vmo) = (bti()?, Vmo::create(PAGE, 0)?);
    let pmt = pin(&bti, &vmo)?.0.into_handle().into_raw();
    gives(raw!(zx_pmt_unpin, pmt), Status::OK)?;
    gives(raw!(zx_pmt_unpin, pmt), Status::BAD_HANDLE)
}

// --- contiguous memory ---

fn contiguous_follows() -> Outcome {
    let bti = bti()?;
    for (pages, align) in [(1, 0), (3, 12), (64, 16), (512, 21), (100, 20)] {
        let vmo = Vmo::create_contiguous(&bti, (pages * PAGE) as usize, align)?;
        equal((vmo.get_size()?, vmo.info()?.committed_bytes), (pages * PAGE, pages * PAGE))?;
        let mut bytes = vec![1; (pages * PAGE) as usize];
        vmo.read(&mut bytes, 0)?;
        ensure(bytes.iter().all(|&byte| byte == 0), "it is not zeroes")?;
        vmo.write(b"something", PAGE - 5)
            .or_else(|status| if pages == 1 && status == Status::OUT_OF_RANGE { Ok(()) } else { Err(status) })?;
        let mut address = [0];
        bti.pin(READ | ZX_BTI_CONTIGUOUS, &vmo, 0, pages * PAGE, &mut address)?.unpin()?;
        equal(address[0] % (1 << align.max(12)), 0)?;
    }
    Ok(())
}

fn contiguous_arguments() -> Outcome {
    let bti = bti()?;
    fails(Vmo::create_contiguous(&bti, 0, 0), Status::INVALID_ARGS)?;
    for align in [1, 11, 64, 255, u32::MAX] {
        fails(Vmo::create_contiguous(&bti, 4096, align), Status::INVALID_ARGS)?;
    }
    fails(Vmo::create_contiguous(&bti, 1 << 40, 0), Status::NO_MEMORY)?;
    let weak = Bti::from(without(&bti, Rights::MAP)?);
    fails(Vmo::create_contiguous(&weak, 4096, 0), Status::ACCESS_DENIED)
}
