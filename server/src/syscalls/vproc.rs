//! Virtual processors.

use abi::{
    HAFNON_DEFAULT_VPROC_RIGHTS, HAFNON_VPROC_BIND, HAFNON_VPROC_RUN_MAX, HAFNON_VPROC_SHARED_VECTORS,
    HAFNON_VPROC_UNBIND, Rights, Status, ZX_DEFAULT_VMO_RIGHTS, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    hafnon_vproc_run_t,
};
use objects::Id;
use objects::core::continuation::SliceTimer;
use objects::core::handle::HandleValue;
use objects::core::port::Port;
use objects::guest::vproc::Vproc;
use objects::machine::{Machine, PAGE, Perm, USER_TOP};
use objects::memory::vmar::{MapRequest, Place, Vmar};
use objects::memory::vmo::Vmo;
use objects::task::process::Process;

use crate::cx::Cx;
use crate::syscalls::vmar::{perm, perm_of};
use crate::user::{In, Out};

/// Maximum number of runs per call.
const RUNS: usize = 4096;
/// Progress units per run; a run has fewer pages, also where it is any part of a page table that is unmapped.
const STEPS: u64 = 1 << 36;
const _: () = assert!(USER_TOP / PAGE < STEPS && (RUNS as u64) < u64::MAX / STEPS);

/// Creates a virtual processor of the calling thread.
pub fn vproc_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u32,
    out: Out<u32>,
    out_page: Out<u32>,
) -> Result<(), Status> {
    if options & !HAFNON_VPROC_SHARED_VECTORS != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let (vproc, page) = cx.kernel.vproc_create(cx.thread, options & HAFNON_VPROC_SHARED_VECTORS != 0)?;
    let value = cx.kernel.give_new(cx.process, vproc, HAFNON_DEFAULT_VPROC_RIGHTS)?;
    let told = cx.write(out, value);
    told.and_then(|()| cx.hand_out(page, ZX_DEFAULT_VMO_RIGHTS, out_page)).inspect_err(|_| cx.discard(value))
}

/// Makes it run code in a process.
pub fn vproc_start<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, process: HandleValue) -> Result<(), Status> {
    let vproc = cx.get::<Vproc>(value, Rights::WRITE)?;
    let process = cx.get::<Process>(process, Rights::MANAGE_THREAD)?;
    cx.kernel.vproc_start(vproc, cx.thread, process)
}

/// Raises an event.
pub fn vproc_kick<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let vproc = cx.get::<Vproc>(value, Rights::WRITE)?;
    cx.kernel.vproc_event(vproc)
}

/// Turns a port's packets into events, or stops that.
pub fn vproc_bind<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    port: HandleValue,
    options: u32,
) -> Result<(), Status> {
    if options != HAFNON_VPROC_BIND && options != HAFNON_VPROC_UNBIND {
        return Err(Status::INVALID_ARGS);
    }
    let vproc = cx.get::<Vproc>(value, Rights::WRITE)?;
    let port = cx.get::<Port>(port, Rights::READ)?;
    if options == HAFNON_VPROC_BIND { cx.kernel.vproc_bind(vproc, port) } else { cx.kernel.vproc_unbind(vproc, port) }
}

/// Stops it, and writes its registers to its page.
pub fn vproc_stop<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    let vproc = cx.get::<Vproc>(value, Rights::READ)?;
    cx.kernel.vproc_stop(vproc, cx.thread)
}

/// Maps and unmaps runs of pages. The progress counts [`STEPS`] for each finished run, plus the pages of the current
/// run.
pub fn vproc_map<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    vmo: HandleValue,
    runs: In<hafnon_vproc_run_t>,
    count: usize,
) -> Result<(), Status> {
    let begins = cx.progress.is_none();
    let (mut work, with) = cx.sliced_call_on_two::<Vmar, Vmo>((value, Rights::NONE), (vmo, Rights::MAP))?;
    if begins {
        work.state[0] = cx.get_with_rights::<Vmo>(vmo, Rights::MAP)?.1.bits().into();
        if count > RUNS {
            return Err(Status::OUT_OF_RANGE);
        }
    }
    let vmo = cx.kernel.objects.get(with)?;
    if vmo.is_vdso || vmo.is_discardable() {
        return Err(Status::NOT_SUPPORTED);
    }
    let max = perm_of(work.rights & Rights::from_bits_retain(work.state[0] as u32));
    let (mut slice, mut done) = (SliceTimer::default(), work.done);
    while (done / STEPS) < count as u64 {
        let run = cx.read(runs.nth((done / STEPS) as usize))?;
        done = match map_some(cx, (work.object, with), &run, max, done % STEPS)? {
            Some(pages) => done / STEPS * STEPS + pages,
            None => (done / STEPS + 1) * STEPS,
        };
        if cx.kernel.slice_over(&mut slice) {
            return cx.end_slice(&work, Some(done).filter(|done| (done / STEPS) < count as u64));
        }
    }
    Ok(())
}

/// Maps the next pages of a run of which `pages` are mapped; for the first page it also makes the mapping. Returns the
/// number of mapped pages if some are left.
fn map_some<M: Machine>(
    cx: &mut Cx<'_, M>,
    (vmar, vmo): (Id<Vmar>, Id<Vmo>),
    run: &hafnon_vproc_run_t,
    max: Perm,
    pages: u64,
) -> Result<Option<u64>, Status> {
    let hafnon_vproc_run_t { address, offset, len, options, reserved } = *run;
    let known = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE | ZX_VM_PERM_EXECUTE;
    if options & !known != 0 || reserved != 0 || len == 0 || !(address | offset | len).is_multiple_of(PAGE) {
        return Err(Status::INVALID_ARGS);
    }
    let region = cx.kernel.objects.get(vmar)?;
    let aspace = region.aspace.ok_or(Status::BAD_STATE)?;
    if !region.covers(address, len) {
        return Err(Status::INVALID_ARGS);
    }
    let table = region.page_table(address, len);
    if options == 0 && table.is_some() {
        let pages = pages + cx.kernel.page_table_unmap(aspace, address + pages * PAGE, len / PAGE - pages);
        return Ok(Some(pages).filter(|&pages| pages * PAGE < len));
    }
    if len > HAFNON_VPROC_RUN_MAX {
        return Err(Status::OUT_OF_RANGE);
    }
    if options == 0 {
        return cx.kernel.vmar_unmap(vmar, address, len, false).map(|()| None);
    }
    let (perm, flags, base) = (perm(options)?, region.flags, region.base);
    let within = Perm { read: flags.read, write: flags.write, execute: flags.execute };
    if !flags.specific || !within.allows(perm) || !max.allows(perm) {
        return Err(Status::ACCESS_DENIED);
    }
    if pages == 0 {
        if perm.write && perm.execute {
            cx.may(abi::ZX_POL_VMAR_WX)?;
        }
        let size = cx.kernel.vmo_size(vmo)?;
        offset.checked_add(len).filter(|&end| end <= size).ok_or(Status::OUT_OF_RANGE)?;
    }
    if let Some(shown) = table {
        if shown != vmo {
            return Err(Status::ACCESS_DENIED);
        }
        let part = (address + pages * PAGE, offset / PAGE + pages, len / PAGE - pages);
        let pages = pages + cx.kernel.page_table_map(aspace, vmo, part, perm)?;
        return Ok(Some(pages).filter(|&pages| pages * PAGE < len));
    }
    if pages == 0 {
        let request = MapRequest { vmo, offset, len, perm, max, fixed: false };
        // Usually nothing is mapped there.
        match cx.kernel.vmar_map_to_fill(vmar, Place::At(address - base), request) {
            Err(Status::ALREADY_EXISTS) => cx.kernel.vmar_map_to_fill(vmar, Place::Over(address - base), request)?,
            mapped => mapped?,
        };
    }
    let pages = match cx.kernel.pages_map(aspace, address + pages * PAGE, len / PAGE - pages, perm.write) {
        // Another thread has unmapped it between two slices.
        Err(Status::NOT_FOUND) => return Ok(None),
        done => pages + done?,
    };
    Ok(Some(pages).filter(|&pages| pages * PAGE < len))
}
