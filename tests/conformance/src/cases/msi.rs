//! Message-signalled interrupts.

use std::sync::atomic::Ordering;

use abi::{
    Rights, Status, ZX_CACHE_POLICY_UNCACHED_DEVICE, ZX_MSI_MODE_MSI_X, ZX_RSRC_KIND_IRQ, ZX_RSRC_KIND_SYSTEM,
    ZX_RSRC_SYSTEM_INFO_BASE, ZX_RSRC_SYSTEM_MSI_BASE,
};
use zx::{AsHandleRef, Bti, Info, Iommu, Msi, Vmo};

use super::{cases, raw, root_resource, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "msi.allocate.counts" => allocate_counts,
    "msi.allocate.resource" => allocate_resource,
    "msi.allocate.runs_out" => allocate_runs_out,
    "msi.create.arguments" => create_arguments,
    "msi.create.registers" => create_registers,
    "msi.create.each_once" => create_each_once,
    "msi.create.unmasks" => create_unmasks,
    "msi.create.outlives_the_block" => create_outlives,
}

/// A page like that of a device with an MSI capability at its start.
fn registers(control: u16) -> Result<Vmo, Failure> {
    let bti = Bti::create(&Iommu::create_stub(&*root_resource()?)?, 1)?;
    let vmo = Vmo::create_contiguous(&bti, 4096, 0)?;
    let [low, high] = control.to_le_bytes();
    vmo.write(&[0x05, 0, low, high], 0)?;
    cached(&vmo, ZX_CACHE_POLICY_UNCACHED_DEVICE)?;
    Ok(vmo)
}

fn cached(vmo: &Vmo, policy: u32) -> Outcome {
    gives(raw!(zx_vmo_set_cache_policy, vmo.raw_handle(), policy), Status::OK)
}

fn allocate_counts() -> Outcome {
    let root = root_resource()?;
    for count in [0, 3, 5, 31, 33, 64, u32::MAX] {
        fails(Msi::allocate(&root, count), Status::INVALID_ARGS)?;
    }
    for count in [1, 2, 4, 8, 16, 32] {
        let msi = Msi::allocate(&root, count)?;
        let basic = msi.basic_info()?;
        equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_MSI, abi::ZX_DEFAULT_MSI_RIGHTS.bits()))?;
        let info = msi.info()?;
        equal((info.num_irq, info.interrupt_count, info.target_data % count), (count, 0, 0))?;
        equal(info.target_addr >> 20, 0xfee)?;
    }
    Ok(())
}

fn allocate_resource() -> Outcome {
    let root = root_resource()?;
    Msi::allocate(&root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_MSI_BASE, 1, "")?, 1)?;
    let other = root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_INFO_BASE, 1, "")?;
    fails(Msi::allocate(&other, 1), Status::OUT_OF_RANGE)?;
    fails(Msi::allocate(&root.create_child(ZX_RSRC_KIND_IRQ, 0, 16, "")?, 1), Status::WRONG_TYPE)
}

fn allocate_runs_out() -> Outcome {
    let root = root_resource()?;
    let mut blocks = Vec::new();
    let status = loop {
        match Msi::allocate(&root, 32) {
            Ok(msi) => blocks.push(msi),
            Err(status) => break status,
        }
        ensure(blocks.len() < 1000, "there is no end of them")?;
    };
    equal(status, Status::NO_RESOURCES)?;
    // No two blocks overlap, and a freed block can be allocated again.
    let mut ranges = Vec::new();
    for msi in &blocks {
        let info = msi.info()?;
        ranges.push((info.base_irq_id, info.base_irq_id + info.num_irq));
    }
    ranges.sort_unstable();
    ensure(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two blocks overlap")?;
    blocks.pop();
    Msi::allocate(&root, 32)?;
    Ok(())
}

fn create_arguments() -> Outcome {
    let msi = Msi::allocate(&*root_resource()?, 2)?;
    let vmo = registers(0)?;
    for options in [2, ZX_MSI_MODE_MSI_X | 2, 1 << 31] {
        fails(msi.create(options, 0, &vmo, 0), Status::INVALID_ARGS)?;
    }
    for number in [2, 32, u32::MAX] {
        fails(msi.create(0, number, &vmo, 0), Status::INVALID_ARGS)?;
    }
    for offset in [4096, 8192, usize::MAX, 2, 4092] {
        fails(msi.create(0, 0, &vmo, offset), Status::INVALID_ARGS)?;
    }
    fails(msi.create(ZX_MSI_MODE_MSI_X, 1, &vmo, 4096 - 16), Status::INVALID_ARGS)?;
    let mut out = 0_u32;
    let create = |msi: u32, vmo: u32, out: *mut u32| raw!(zx_msi_create, msi, 0, 0, vmo, 0, out);
    for bad in [0, 0xffff_fffb] {
        gives(create(bad, vmo.raw_handle(), &raw mut out), Status::BAD_HANDLE)?;
        gives(create(msi.raw_handle(), bad, &raw mut out), Status::BAD_HANDLE)?;
    }
    gives(create(vmo.raw_handle(), vmo.raw_handle(), &raw mut out), Status::WRONG_TYPE)?;
    gives(create(msi.raw_handle(), msi.raw_handle(), &raw mut out), Status::WRONG_TYPE)?;
    equal(out, 0)?;
    let weak = Vmo::from(without(&vmo, Rights::MAP)?);
    fails(msi.create(0, 0, &weak, 0), Status::ACCESS_DENIED)?;
    // Other memory cannot be device memory.
    let plain = Vmo::create(4096, 0)?;
    fails(msi.create(0, 0, &plain, 0), Status::INVALID_ARGS)?;
    cached(&plain, ZX_CACHE_POLICY_UNCACHED_DEVICE)?;
    fails(msi.create(0, 0, &plain, 0), Status::INVALID_ARGS)?;
    let bti = Bti::create(&Iommu::create_stub(&*root_resource()?)?, 1)?;
    let wrong_way = Vmo::create_contiguous(&bti, 4096, 0)?;
    wrong_way.write(&[0x05], 0)?;
    fails(msi.create(0, 0, &wrong_way, 0), Status::INVALID_ARGS)?;
    equal(msi.info()?.interrupt_count, 0)
}

fn create_registers() -> Outcome {
    let msi = Msi::allocate(&*root_resource()?, 1)?;
    // No capability, or a different one.
    let bti = Bti::create(&Iommu::create_stub(&*root_resource()?)?, 1)?;
    for id in [0, 0x11] {
        let vmo = Vmo::create_contiguous(&bti, 4096, 0)?;
        vmo.write(&[id], 0)?;
        cached(&vmo, ZX_CACHE_POLICY_UNCACHED_DEVICE)?;
        fails(msi.create(0, 0, &vmo, 0), Status::INVALID_ARGS)?;
    }
    // Each kind of capability.
    for control in [0, 1 << 7, 1 << 8, 1 << 7 | 1 << 8] {
        let interrupt = msi.create(0, 0, &registers(control)?, 0)?;
        equal(interrupt.basic_info()?.type_, abi::ZX_OBJ_TYPE_INTERRUPT)?;
    }
    // An MSI-X table needs no content in advance.
    msi.create(ZX_MSI_MODE_MSI_X, 0, &registers(0)?, 16)?;
    Ok(())
}

fn create_each_once() -> Outcome {
    let msi = Msi::allocate(&*root_resource()?, 8)?;
    let vmo = registers(0)?;
    let mut interrupts = Vec::new();
    for number in 0..8 {
        interrupts.push(msi.create(0, number, &vmo, 0)?);
        equal(msi.info()?.interrupt_count, number + 1)?;
        fails(msi.create(0, number, &vmo, 0), Status::ALREADY_BOUND)?;
    }
    // They are interrupts of a device, and none has arrived.
    let port = zx::Port::create_for_interrupts()?;
    for interrupt in &interrupts {
        fails(interrupt.trigger(zx::MonotonicInstant(1)), Status::BAD_STATE)?;
        interrupt.bind(&port, 1)?;
    }
    fails(port.wait(zx::MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    // An interrupt that was closed can be created again.
    interrupts.remove(3);
    equal(msi.info()?.interrupt_count, 7)?;
    interrupts.push(msi.create(0, 3, &vmo, 0)?);
    drop(interrupts);
    equal(msi.info()?.interrupt_count, 0)
}

fn create_unmasks() -> Outcome {
    // A capability with a mask bit for each interrupt, all of them set, with a 32-bit or a 64-bit address.
    for (control, word) in [(1 << 8, 12), (1 << 8 | 1 << 7, 16)] {
        let msi = Msi::allocate(&*root_resource()?, 4)?;
        let vmo = registers(control)?;
        // Calls cannot read and write device memory, so the case maps it.
        let access = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        let shown = zx::startup::vmar_root_self();
        let shown = shown.map_here(access, &vmo, 0, 4096)?;
        let masks = shown.word(word).ok_or("there is no such word")?;
        let masks = || masks.load(Ordering::Relaxed);
        shown.write(word, &[0xff; 4])?;
        let first = msi.create(0, 0, &vmo, 0)?;
        equal(masks(), !1)?;
        let third = msi.create(0, 2, &vmo, 0)?;
        equal(masks(), !0b101)?;
        // Closed interrupts are masked again, and no others.
        drop(first);
        equal(masks(), !0b100)?;
        drop(third);
        equal(masks(), u32::MAX)?;
    }
    Ok(())
}

fn create_outlives() -> Outcome {
    let root = root_resource()?;
    let msi = Msi::allocate(&root, 32)?;
    let base = msi.info()?.base_irq_id;
    let interrupt = msi.create(0, 5, &registers(0)?, 0)?;
    drop(msi);
    // The block is not allocated again while one of its interrupts exists.
    let mut others = Vec::new();
    while let Ok(other) = Msi::allocate(&root, 32) {
        ensure(other.info()?.base_irq_id != base, "it was given away")?;
        others.push(other);
    }
    drop(interrupt);
    others.push(Msi::allocate(&root, 32)?);
    Ok(())
}
