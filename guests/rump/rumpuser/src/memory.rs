//! The kernel's memory: one VMO, mapped once.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use rump_logic::error::{EINVAL, ENOMEM, ENOSYS};
use rump_logic::{PAGE, Pages, parameter};
use zx::{Job, Unowned, Vmar, Vmo};

use crate::c;
use crate::locks::Locked;

/// The memory of a kernel in a job without limit, and the most of any kernel.
const DEFAULT: u64 = 512 << 20;
const MOST: u64 = 4 << 30;
/// The least memory with which a kernel can start at all.
const LEAST: u64 = 1 << 20;
/// Runs of pages that are at least this long go back to the system when they are freed.
const LARGE: usize = 16 * PAGE;
/// Writable memory of this process.
const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;

/// The pages, and where they are.
struct Arena {
    vmo: Vmo,
    address: usize,
    pages: Pages<'static>,
}

static ARENA: Locked<Option<Arena>> = Locked::new(None);
/// The kernel's limit, which it is told.
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// Bytes that `rumpuser_unmap` unmaps: they have a limit of the same size.
static MAPPED: AtomicU64 = AtomicU64::new(0);

fn with<T>(work: impl FnOnce(&mut Arena) -> T) -> Option<T> {
    ARENA.with(|arena| arena.as_mut().map(work))
}

fn root() -> Option<Unowned<'static, Vmar>> {
    Unowned::from_raw(c::zx_vmar_root_self())
}

/// A part of what the job may use; `None` if it has no limit.
fn share_of_job() -> Option<u64> {
    let job: Unowned<'static, Job> = Unowned::from_raw(c::zx_job_default())?;
    let usage = job.usage().ok()?;
    parameter::share_of_job(usage.memory_limit, usage.memory)
}

/// The limit.
pub fn limit() -> u64 {
    LIMIT.load(Ordering::Relaxed)
}

/// Makes the memory. Its pages are taken from the system when the kernel first touches them.
///
/// # Errors
/// What is wrong.
pub fn start() -> Result<(), &'static str> {
    let wanted = match c::variable(c"RUMP_MEMLIMIT") {
        Some(text) => {
            let wrong = "RUMP_MEMLIMIT is a number of bytes, with k, m or g behind it for larger units";
            Some(parameter::bytes(text.to_bytes()).ok_or(wrong)?)
        }
        None => share_of_job(),
    };
    let bytes = wanted.unwrap_or(DEFAULT).min(MOST);
    if bytes < LEAST {
        return Err("the kernel has less than 1 MiB of memory: raise RUMP_MEMLIMIT or the job's limit");
    }
    let count = usize::try_from(bytes).map_err(|_| "RUMP_MEMLIMIT")? / PAGE;
    let words = Pages::words(count);
    let map_bytes = (words * 8).next_multiple_of(PAGE);
    let failed = |_| "there is no room for the kernel's memory";
    let map_vmo = Vmo::create(map_bytes as u64, 0).map_err(failed)?;
    let vmo = Vmo::create((count * PAGE) as u64, 0).map_err(failed)?;
    let root = root().ok_or("the process has no address space")?;
    let map = root.map(READ_WRITE, 0, &map_vmo, 0, map_bytes).map_err(failed)?;
    let address = root.map(READ_WRITE, 0, &vmo, 0, count * PAGE).map_err(failed)?;
    // SAFETY: a new mapping of zeroes of at least this length, aligned to pages, which stays and nothing else uses.
    let map = unsafe { core::slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(map), words) };
    let arena = Arena { vmo, address, pages: Pages::new(map, count, address / PAGE) };
    ARENA.with(|place| *place = Some(arena));
    LIMIT.store(bytes, Ordering::Relaxed);
    Ok(())
}

/// Allocates pages; a length that is no multiple of theirs is rounded up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_malloc(len: usize, align: c_int, to: *mut *mut c_void) -> c_int {
    let Ok(align) = usize::try_from(align) else { return EINVAL };
    if align != 0 && !align.is_power_of_two() {
        return EINVAL;
    }
    let (count, align) = (len.max(1).div_ceil(PAGE), align.max(PAGE) / PAGE);
    let taken = with(|arena| Some(arena.address + arena.pages.take(count, align)? * PAGE));
    let Some(Some(address)) = taken else { return ENOMEM };
    // SAFETY: the caller's variable.
    unsafe { *to = ptr::with_exposed_provenance_mut(address) };
    0
}

/// Frees what `rumpuser_malloc` gave for the same length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_free(memory: *mut c_void, len: usize) {
    let count = len.max(1).div_ceil(PAGE);
    let freed = with(|arena| {
        let offset = memory.addr().checked_sub(arena.address).filter(|offset| offset.is_multiple_of(PAGE));
        let Some(offset) = offset else { return false };
        if len >= LARGE {
            // While the pages are still the caller's. It fails only if the range is not in the VMO, as the next call
            // reports.
            let _ = arena.vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, offset as u64, (count * PAGE) as u64);
        }
        arena.pages.give(offset / PAGE, count).is_ok()
    });
    if freed != Some(true) {
        c::die("the kernel frees memory that is not in use");
    }
}

/// Maps zeroes for a program of the kernel. Nothing can be executed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_anonmmap(
    wanted: *mut c_void,
    len: usize,
    align_bit: c_int,
    executable: c_int,
    to: *mut *mut c_void,
) -> c_int {
    if executable != 0 {
        return ENOSYS;
    }
    // A wanted address is a hint. An alignment of more than a page is a flag of the call: its logarithm, in the upper
    // byte.
    let _ = wanted;
    let align = match u32::try_from(align_bit) {
        Ok(0..=12) => 0,
        Ok(bit @ 13..=32) => bit << abi::ZX_VM_ALIGN_BASE,
        _ => return EINVAL,
    };
    let Some(len) = len.checked_next_multiple_of(PAGE).filter(|len| *len != 0) else { return EINVAL };
    if let Err(error) = count(len) {
        return error;
    }
    let mapped = Vmo::create(len as u64, 0).and_then(|vmo| {
        let root = root().ok_or(zx::Status::BAD_HANDLE)?;
        root.map(READ_WRITE | align, 0, &vmo, 0, len)
    });
    match mapped {
        Ok(address) => {
            // SAFETY: the caller's variable.
            unsafe { *to = ptr::with_exposed_provenance_mut(address) };
            0
        }
        Err(_) => {
            uncount(len);
            ENOMEM
        }
    }
}

/// Counts a mapping before it is made.
///
/// # Errors
/// `ENOMEM`: the mappings together would be larger than the limit.
pub fn count(len: usize) -> Result<(), c_int> {
    let limit = limit();
    let len = len.checked_next_multiple_of(PAGE).ok_or(ENOMEM)? as u64;
    let counted = |sum: u64| sum.checked_add(len).filter(|sum| *sum <= limit);
    MAPPED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted).map(drop).map_err(|_| ENOMEM)
}

/// A mapping of this length is no more, or was not made.
pub fn uncount(len: usize) {
    let less = |sum: u64| Some(sum.saturating_sub(len.next_multiple_of(PAGE) as u64));
    let _ = MAPPED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// Unmaps what `rumpuser_anonmmap` or `rumpcomp_shmif_mmap` mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_unmap(address: *mut c_void, len: usize) {
    let Some(len) = len.checked_next_multiple_of(PAGE) else { return };
    if root().is_some_and(|root| root.unmap(address.addr(), len).is_ok()) {
        uncount(len);
    }
}
