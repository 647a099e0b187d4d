//! Pages of a pager's VMO that are accessed before they are present: each page is requested once, and the accesses
//! continue when it is supplied. Each case runs with mappings, which request pages, and with calls, which request
//! ranges.

use zx::{AsHandleRef, Vmo};

use super::cases;
use crate::check::{Outcome, equal};
use crate::pager_vmo::AccessKind::{self, Called, Mapped};
use crate::pager_vmo::{Access, PAGE, Paged, Supplier, content, contents};

cases! {
    "pager.read.single_page_vmar" => || single_page(Mapped),
    "pager.read.single_page_vmo" => || single_page(Called),
    "pager.read.uncommitted_page_vmar" => || uncommitted_page(Mapped),
    "pager.read.uncommitted_page_vmo" => || uncommitted_page(Called),
    "pager.read.presupplied_vmar" => || presupplied(Mapped),
    "pager.read.presupplied_vmo" => || presupplied(Called),
    "pager.read.supplied_before_asked_vmar" => || supplied_before_asked(Mapped),
    "pager.read.supplied_before_asked_vmo" => || supplied_before_asked(Called),
    "pager.read.sequence_vmar" => sequence_mapped,
    "pager.read.sequence_vmo" => sequence_called,
    "pager.read.many_threads_many_pages_vmar" => || many_pages(Mapped),
    "pager.read.many_threads_many_pages_vmo" => || many_pages(Called),
    "pager.read.many_threads_one_page_vmar" => || one_page(Mapped),
    "pager.read.many_threads_one_page_vmo" => || one_page(Called),
    "pager.read.bulk_supply_vmar" => || bulk(Mapped, &[8], false),
    "pager.read.bulk_supply_vmo" => || bulk(Called, &[8], false),
    "pager.read.bulk_odd_length_vmar" => || bulk(Mapped, &ODD, false),
    "pager.read.bulk_odd_length_vmo" => || bulk(Called, &ODD, false),
    "pager.read.bulk_odd_offset_vmar" => || bulk(Mapped, &ODD, true),
    "pager.read.bulk_odd_offset_vmo" => || bulk(Called, &ODD, true),
    "pager.read.overlapping_supply_vmar" => || overlapping_supply(Mapped),
    "pager.read.overlapping_supply_vmo" => || overlapping_supply(Called),
    "pager.read.many_requests_vmar" => || many_requests(Mapped),
    "pager.read.many_requests_vmo" => || many_requests(Called),
    "pager.read.successive_vmos" => successive_vmos,
    "pager.read.several_vmos" => several_vmos,
    "pager.read.buffer_of_a_call" => buffer_of_a_call,
    "pager.read.instructions" => instructions,
    "pager.deliver.packet" => deliver_packet,
    "pager.deliver.signals" => deliver_signals,
    "pager.deliver.answer" => deliver_answer,
}

fn single_page(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::read(how, &vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    access.waits()?;
    supplier.supply(&vmo, 0, 1)?;
    access.finds(&[content(0)])?;
    supplier.unasked()
}

fn uncommitted_page(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::read(how, &vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.pager.supply_pages(&vmo, 0, PAGE, &Vmo::create(PAGE, 0)?, 0)?;
    access.finds(&[0])?;
    supplier.unasked()
}

fn presupplied(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    supplier.supply(&vmo, 0, 2)?;
    Access::read(how, &vmo, 0, 2)?.finds(&contents(0, 2))?;
    supplier.unasked()
}

/// A request that is met before its packet is dequeued is withdrawn.
fn supplied_before_asked(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    let accesses = [Access::read(how, &vmo, 0, 1)?, Access::read(how, &vmo, 1, 1)?];
    accesses.iter().try_for_each(Access::waits)?;
    supplier.supply(&vmo, 0, 2)?;
    for (page, access) in (0..).zip(accesses) {
        access.finds(&[content(page)])?;
    }
    supplier.unasked()?;
    // The next packet is the next request, not the withdrawn one.
    let (supplier, vmo) = Supplier::with(2)?;
    let first = Access::read(how, &vmo, 0, 1)?;
    first.waits()?;
    supplier.supply(&vmo, 0, 1)?;
    first.finds(&[content(0)])?;
    let second = Access::read(how, &vmo, 1, 1)?;
    second.waits()?;
    supplier.asked_to_read(&vmo, 1, 1)?;
    supplier.supply(&vmo, 1, 1)?;
    second.finds(&[content(1)])?;
    supplier.unasked()
}

fn sequence_mapped() -> Outcome {
    let (supplier, vmo) = Supplier::with(32)?;
    let access = Access::read(Mapped, &vmo, 0, 32)?;
    for page in 0..32 {
        supplier.asked_to_read(&vmo, page, 1)?;
        supplier.unasked()?;
        supplier.supply(&vmo, page, 1)?;
    }
    access.finds(&contents(0, 32))
}

fn sequence_called() -> Outcome {
    let (supplier, vmo) = Supplier::with(32)?;
    let access = Access::read(Called, &vmo, 0, 32)?;
    supplier.asked_to_read(&vmo, 0, 32)?;
    for page in 0..32 {
        access.still_waits()?;
        supplier.supply(&vmo, page, 1)?;
    }
    access.finds(&contents(0, 32))?;
    supplier.unasked()
}

/// Accesses that read one page each, in the order of the pages.
fn accesses(how: AccessKind, vmo: &Paged, count: u64) -> Result<Vec<Access>, crate::check::Failure> {
    let mut accesses = Vec::new();
    for page in 0..count {
        let access = Access::read(how, vmo, page, 1)?;
        access.waits()?;
        accesses.push(access);
    }
    Ok(accesses)
}

fn many_pages(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(8)?;
    let accesses = accesses(how, &vmo, 8)?;
    // One packet at a time, in the order of the requests.
    for (page, access) in (0..).zip(accesses) {
        supplier.asked_to_read(&vmo, page, 1)?;
        supplier.supply(&vmo, page, 1)?;
        access.finds(&[content(page)])?;
    }
    supplier.unasked()
}

fn one_page(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let mut accesses = Vec::new();
    for _ in 0..8 {
        accesses.push(Access::read(how, &vmo, 0, 1)?);
    }
    accesses.iter().try_for_each(Access::waits)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.unasked()?;
    supplier.supply(&vmo, 0, 1)?;
    accesses.into_iter().try_for_each(|access| access.finds(&[content(0)]))?;
    supplier.unasked()
}

/// Lengths without a common divisor.
const ODD: [u64; 5] = [2, 3, 5, 7, 13];

/// Pages that are accessed one by one are supplied in groups; the source pages are either at the start of their VMO or
/// at the same offsets as the target.
fn bulk(how: AccessKind, lengths: &[u64], same_place: bool) -> Outcome {
    let (supplier, vmo) = Supplier::with(lengths.iter().sum())?;
    let mut first = 0;
    for &count in lengths {
        let mut accesses = Vec::new();
        for page in first..first + count {
            accesses.push((page, Access::read(how, &vmo, page, 1)?));
            supplier.asked_to_read(&vmo, page, 1)?;
        }
        supplier.supply_from(&vmo, first, count, if same_place { first } else { 0 })?;
        for (page, access) in accesses {
            access.finds(&[content(page)])?;
        }
        first += count;
    }
    supplier.unasked()
}

/// A present page is not replaced, and the pages around it are supplied all the same.
fn overlapping_supply(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(3)?;
    supplier.supply_as(&vmo, 1, &[101])?;
    let access = Access::read(how, &vmo, 0, 3)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.supply_as(&vmo, 0, &[200, 201, 202])?;
    access.finds(&[200, 101, 202])?;
    supplier.unasked()
}

fn many_requests(how: AccessKind) -> Outcome {
    const COUNT: u64 = 40;
    let (supplier, vmo) = Supplier::with(COUNT)?;
    let accesses = accesses(how, &vmo, COUNT)?;
    for page in 0..COUNT {
        supplier.asked_to_read(&vmo, page, 1)?;
    }
    supplier.unasked()?;
    for page in (0..COUNT).rev() {
        supplier.supply(&vmo, page, 1)?;
    }
    for (page, access) in (0..).zip(accesses) {
        access.finds(&[content(page)])?;
    }
    supplier.unasked()
}

fn successive_vmos() -> Outcome {
    let supplier = Supplier::new()?;
    for key in 0..16 {
        let vmo = supplier.vmo(key, 1, 0)?;
        let access = Access::read(if key % 2 == 0 { Mapped } else { Called }, &vmo, 0, 1)?;
        supplier.asked_to_read(&vmo, 0, 1)?;
        supplier.supply(&vmo, 0, 1)?;
        access.finds(&[content(0)])?;
        let key = vmo.key;
        drop(vmo);
        supplier.completed(&Paged { vmo: Vmo::create(0, 0)?, key })?;
    }
    supplier.unasked()
}

fn several_vmos() -> Outcome {
    let supplier = Supplier::new()?;
    let mut all = Vec::new();
    for key in 0..8 {
        let vmo = supplier.vmo(key, 1, 0)?;
        let access = Access::read(Called, &vmo, 0, 1)?;
        access.waits()?;
        all.push((vmo, access));
    }
    // Each VMO has a packet of its own, so all packets are in the port now.
    for (vmo, _) in &all {
        supplier.asked_to_read(vmo, 0, 1)?;
    }
    for (vmo, access) in all {
        supplier.supply_as(&vmo, 0, &[vmo.key])?;
        access.finds(&[vmo.key])?;
    }
    Ok(())
}

/// A call's own buffer can be memory of a pager; the call takes effect only once.
fn buffer_of_a_call() -> Outcome {
    let (supplier, vmo) = Supplier::with(4)?;
    let other = crate::pager_vmo::another(&vmo)?;
    let (ours, theirs) = zx::Channel::create()?;
    let (event, reader) = (zx::Event::create()?, zx::Port::create()?);
    let access = Access::call(move || {
        let region = zx::startup::vmar_root_self();
        let permissions = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        let mapping = region.map_here(permissions, &other, 0, 4 * PAGE as usize)?;
        let at = |page: usize| (mapping.address() + page * PAGE as usize) as u64;
        // A message with a handle; its bytes and its handles lie in absent pages.
        let sent = super::raw!(zx_channel_write, theirs.raw_handle(), 0, at(0), 8, at(1), 1);
        // A wait for a packet whose buffer is in an absent page.
        let packet = super::raw!(zx_port_wait, reader.raw_handle(), 0, at(2));
        drop(event);
        Ok(vec![sent.0 as u64, packet.0 as u64])
    });
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.supply(&vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 1, 1)?;
    let event = zx::Event::create()?;
    let value = zx::Handle::from(event).into_raw();
    supplier.supply_as(&vmo, 1, &[u64::from(value)])?;
    supplier.asked_to_read(&vmo, 2, 1)?;
    supplier.supply(&vmo, 2, 1)?;
    let timed_out = abi::Status::TIMED_OUT.0 as u64;
    access.finds(&[0, timed_out])?;
    let (mut bytes, mut handles) = ([0; 16], [None, None]);
    let size = ours.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?;
    equal((size.bytes, size.handles), (8, 1))?;
    equal(bytes.first_chunk().map(|word| u64::from_le_bytes(*word)), Some(content(0)))
}

/// Code can be supplied, too.
fn instructions() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let code = crate::pager_vmo::another(&vmo)?.replace_as_executable(None)?;
    let tiny = crate::caught_exception::OwnedTestProcess::new(crate::test_process::SPIN)?;
    let permissions = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE;
    let entry = tiny.vmar.map(permissions, 0, &code, 0, PAGE as usize)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.process.start(&tiny.thread, entry, tiny.stack, zx::Event::create()?.into(), 0)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.supply_as(&vmo, 0, &[u64::from_le_bytes([0x0f, 0x0b, 0, 0, 0, 0, 0, 0])])?;
    crate::caught_exception::catch_type(&channel, abi::ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    Ok(())
}

/// A VMO of one page that is present, clean, and mapped here; a write must request permission.
fn trapped() -> Result<(Supplier, Paged), crate::check::Failure> {
    let (supplier, vmo) = Supplier::with_options(1, abi::ZX_VMO_TRAP_DIRTY)?;
    supplier.supply(&vmo, 0, 1)?;
    op(&supplier, &vmo, abi::ZX_PAGER_OP_DIRTY)?;
    Ok((supplier, vmo))
}

fn op(supplier: &Supplier, vmo: &Paged, op: u32) -> zx::Result<()> {
    supplier.pager.op_range(op, vmo, 0, PAGE, 0)
}

/// Makes a thread call and wait. The call's result goes to the VMO's page, which has become clean meanwhile, so that
/// the pager gets another request. `ends` ends the wait.
fn delivered(
    call: impl FnOnce(u64) -> abi::Status + Send + 'static,
    state: u32,
    ends: impl FnOnce() -> Outcome,
) -> Result<Vec<u8>, crate::check::Failure> {
    let (supplier, vmo) = trapped()?;
    let other = crate::pager_vmo::another(&vmo)?;
    let access = Access::call(move || {
        let region = zx::startup::vmar_root_self();
        let permissions = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        let mapping = region.map_here(permissions, &other, 0, PAGE as usize)?;
        match call(mapping.address() as u64) {
            abi::Status::OK => Ok(Vec::new()),
            status => Err(status),
        }
    });
    let limit = super::late();
    while access.with_thread(|thread| thread.info().map(|info| info.state))?? != state {
        crate::check::ensure(zx::MonotonicInstant::now() < limit, "the call does not wait")?;
        zx::nanosleep(super::soon(1))?;
    }
    op(&supplier, &vmo, abi::ZX_PAGER_OP_WRITEBACK_BEGIN)?;
    op(&supplier, &vmo, abi::ZX_PAGER_OP_WRITEBACK_END)?;
    ends()?;
    supplier.asked(&vmo, abi::ZX_PAGER_VMO_DIRTY, 0, 1)?;
    access.waits()?;
    op(&supplier, &vmo, abi::ZX_PAGER_OP_DIRTY)?;
    access.ends()?;
    supplier.unasked()?;
    let mut bytes = vec![0; 64];
    vmo.read(&mut bytes, 0)?;
    Ok(bytes)
}

fn deliver_packet() -> Outcome {
    let port = std::sync::Arc::new(zx::Port::create()?);
    let waiter = port.clone();
    let call = move |at| super::raw!(zx_port_wait, waiter.raw_handle(), i64::MAX, at);
    let ends = || Ok(port.queue(&super::user_packet(0x1234_5678, [1, 2, 3, 4]))?);
    let bytes = delivered(call, abi::ZX_THREAD_STATE_BLOCKED_PORT, ends)?;
    equal(bytes[..8].to_vec(), 0x1234_5678_u64.to_le_bytes().to_vec())?;
    equal(bytes[40..48].to_vec(), 4_u64.to_le_bytes().to_vec())
}

fn deliver_signals() -> Outcome {
    let event = std::sync::Arc::new(zx::Event::create()?);
    let waiter = event.clone();
    let user = abi::Signals::USER_0;
    let call = move |at| super::raw!(zx_object_wait_one, waiter.raw_handle(), user.bits(), i64::MAX, at);
    let ends = || Ok(event.signal(abi::Signals::NONE, user)?);
    let bytes = delivered(call, abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE, ends)?;
    let seen = bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    equal(seen & user.bits(), user.bits())
}

fn deliver_answer() -> Outcome {
    let (caller, server) = zx::Channel::create()?;
    let call = move |at: u64| {
        let request = [0_u8; 8];
        let (mut bytes, mut handles) = (0_u32, 0_u32);
        let args = abi::zx_channel_call_args_t {
            wr_bytes: request.as_ptr() as usize,
            wr_handles: 0,
            rd_bytes: at as usize,
            rd_handles: at as usize + 32,
            wr_num_bytes: 8,
            wr_num_handles: 0,
            rd_num_bytes: 16,
            rd_num_handles: 1,
        };
        let (channel, args) = (caller.raw_handle(), &raw const args);
        super::raw!(zx_channel_call, channel, 0, i64::MAX, args, &raw mut bytes, &raw mut handles)
    };
    let ends = || {
        let (mut bytes, mut handles) = ([0; 8], [None]);
        server.read_wait(&mut bytes, &mut handles, super::late())?;
        bytes[4..].copy_from_slice(b"good");
        server.write(&bytes, [zx::Event::create()?.into()])?;
        Ok(())
    };
    let bytes = delivered(call, abi::ZX_THREAD_STATE_BLOCKED_CHANNEL, ends)?;
    equal(bytes[4..8].to_vec(), b"good".to_vec())?;
    let handle = bytes[32..36].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    let event = zx::Event::from(zx::Handle::from_raw(handle).ok_or("no handle came with the answer")?);
    event.signal(abi::Signals::NONE, abi::Signals::USER_0)?;
    Ok(())
}
