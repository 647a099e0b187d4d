//! Virtual memory objects.

use abi::{
    Rights, Status, ZX_CACHE_POLICY_CACHED, ZX_CACHE_POLICY_UNCACHED, ZX_CACHE_POLICY_UNCACHED_DEVICE,
    ZX_CACHE_POLICY_WRITE_COMBINING, ZX_DEFAULT_VMO_RIGHTS, ZX_POL_AMBIENT_MARK_VMO_EXEC, ZX_RSRC_SYSTEM_VMEX_BASE,
    ZX_VMO_CHILD_NO_WRITE, ZX_VMO_CHILD_REFERENCE, ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT,
    ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED, ZX_VMO_DISCARDABLE, ZX_VMO_OP_ALWAYS_NEED,
    ZX_VMO_OP_CACHE_CLEAN, ZX_VMO_OP_CACHE_CLEAN_INVALIDATE, ZX_VMO_OP_CACHE_INVALIDATE, ZX_VMO_OP_CACHE_SYNC,
    ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_DONT_NEED, ZX_VMO_OP_LOCK, ZX_VMO_OP_PREFETCH, ZX_VMO_OP_TRY_LOCK,
    ZX_VMO_OP_UNLOCK, ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE, ZX_VMO_UNBOUNDED, zx_vmo_lock_state_t,
};
use objects::Id;
use objects::core::continuation::SLICE_COPY_BYTES;
use objects::core::handle::{Handle, HandleValue, INVALID};
use objects::device::bti::Bti;
use objects::machine::{Cache, Machine, PAGE};
use objects::memory::vmo::{CloneKind, Vmo};

use crate::cx::Cx;
use crate::long_call::SlicedCall;
use crate::syscalls::resource::{need_pages, need_system};
use crate::user::{In, InOut, Out};

/// Creates a VMO.
pub fn vmo_create<M: Machine>(cx: &mut Cx<'_, M>, size: u64, options: u32, out: Out<u32>) -> Result<(), Status> {
    let known = ZX_VMO_RESIZABLE | ZX_VMO_DISCARDABLE | ZX_VMO_UNBOUNDED;
    if options & !known != 0 || options & ZX_VMO_RESIZABLE != 0 && options & ZX_VMO_UNBOUNDED != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_VMO)?;
    let resizable = options & ZX_VMO_RESIZABLE != 0;
    let vmo = if options & ZX_VMO_UNBOUNDED != 0 {
        if size > objects::memory::vmo::MAX_SIZE {
            return Err(Status::OUT_OF_RANGE);
        }
        let vmo = cx.kernel.vmo_create(objects::memory::vmo::MAX_SIZE, false)?;
        cx.kernel.vmo_set_content_size(vmo, size)?;
        vmo
    } else {
        cx.kernel.vmo_create(size, resizable)?
    };
    if options & ZX_VMO_DISCARDABLE != 0 {
        cx.kernel.vmo_make_discardable(vmo)?;
    }
    let mut rights = ZX_DEFAULT_VMO_RIGHTS;
    if resizable {
        rights |= Rights::RESIZE;
    }
    cx.hand_out(vmo, rights, out)
}

/// Reads from a VMO.
pub fn vmo_read<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    buffer: Out<u8>,
    offset: u64,
    size: usize,
) -> Result<(), Status> {
    if size as u64 > SLICE_COPY_BYTES {
        let work = cx.sliced_call::<Vmo>(value, Rights::READ)?;
        let (from, to) = ((work.object, offset), (cx.aspace, buffer.0));
        let more = cx.kernel.vmo_read_slice(from, to, size as u64, work.done)?;
        return cx.end_slice(&work, more);
    }
    let vmo = cx.get::<Vmo>(value, Rights::READ)?;
    cx.kernel.vmo_read_to(vmo, offset, cx.aspace, buffer.0, size as u64)
}

/// Writes to a VMO.
pub fn vmo_write<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    buffer: In<u8>,
    offset: u64,
    size: usize,
) -> Result<(), Status> {
    if size as u64 > SLICE_COPY_BYTES {
        let work = cx.sliced_call::<Vmo>(value, Rights::WRITE)?;
        let (to, from) = ((work.object, offset), (cx.aspace, buffer.0));
        let more = cx.kernel.vmo_write_slice(to, from, size as u64, work.done)?;
        return cx.end_slice(&work, more);
    }
    let vmo = cx.get::<Vmo>(value, Rights::WRITE)?;
    cx.kernel.vmo_write_from(vmo, offset, cx.aspace, buffer.0, size as u64)
}

/// Returns the size of a VMO.
pub fn vmo_get_size<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, out: Out<u64>) -> Result<(), Status> {
    let vmo = cx.get::<Vmo>(value, Rights::NONE)?;
    let size = cx.kernel.vmo_size(vmo)?;
    cx.write(out, size)
}

/// Resizes a VMO.
pub fn vmo_set_size<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, size: u64) -> Result<(), Status> {
    let work = cx.sliced_call::<Vmo>(value, Rights::WRITE)?;
    let (vmo, rights) = (work.object, work.rights);
    // The handle of a VMO that is not resizable has no such right either; it gets another error.
    if cx.kernel.objects.get(vmo)?.resizable && !rights.contains(Rights::RESIZE) {
        return Err(Status::ACCESS_DENIED);
    }
    let more = cx.kernel.vmo_set_size_slice(vmo, size)?;
    cx.end_slice(&work, more.then_some(work.done + 1))
}

/// Returns the size of a VMO's content.
pub fn vmo_get_stream_size<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, out: Out<u64>) -> Result<(), Status> {
    let vmo = cx.get::<Vmo>(value, Rights::NONE)?;
    let size = cx.kernel.vmo_content_size(vmo)?;
    cx.write(out, size)
}

/// Sets the size of a VMO's content.
pub fn vmo_set_stream_size<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, size: u64) -> Result<(), Status> {
    let work = cx.sliced_call::<Vmo>(value, Rights::WRITE)?;
    let more = cx.kernel.vmo_set_content_size_slice(work.object, size)?;
    cx.end_slice(&work, more.then_some(work.done + 1))
}

/// Operates on a range of a VMO's pages.
pub fn vmo_op_range<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    op: u32,
    offset: u64,
    size: u64,
    buffer: InOut<u8>,
    buffer_size: usize,
) -> Result<(), Status> {
    let work = cx.sliced_call::<Vmo>(value, Rights::NONE)?;
    let SlicedCall { object: vmo, rights, done, .. } = work;
    let need = |right| if rights.contains(right) { Ok(()) } else { Err(Status::ACCESS_DENIED) };
    match op {
        ZX_VMO_OP_COMMIT => {
            need(Rights::WRITE)?;
            match cx.kernel.vmo_commit_slice(vmo, offset, size, done) {
                // The range was within the VMO when the call began, so the result is as if the pages had been committed
                // and then cut off.
                Err(Status::OUT_OF_RANGE) if cx.restarted => Ok(()),
                committed => cx.end_slice(&work, committed?),
            }
        }
        ZX_VMO_OP_DECOMMIT => {
            need(Rights::WRITE)?;
            let more = cx.kernel.vmo_decommit_slice(vmo, offset, size, done)?;
            cx.end_slice(&work, more)
        }
        ZX_VMO_OP_ZERO => {
            need(Rights::WRITE)?;
            let more = cx.kernel.vmo_zero_slice(vmo, offset, size, done)?;
            cx.end_slice(&work, more)
        }
        // Caches are coherent on this processor and pages are never evicted, so only the checks remain.
        ZX_VMO_OP_CACHE_SYNC
        | ZX_VMO_OP_CACHE_CLEAN
        | ZX_VMO_OP_CACHE_INVALIDATE
        | ZX_VMO_OP_CACHE_CLEAN_INVALIDATE
        | ZX_VMO_OP_DONT_NEED
        | ZX_VMO_OP_ALWAYS_NEED
        | ZX_VMO_OP_PREFETCH => {
            need(if op == ZX_VMO_OP_CACHE_INVALIDATE { Rights::WRITE } else { Rights::READ })?;
            let limit = cx.kernel.vmo_size(vmo)?;
            match offset.checked_add(size) {
                Some(end) if end <= limit => {}
                // As for a commit: the range was within the VMO when the call began.
                Some(_) if cx.restarted && op == ZX_VMO_OP_PREFETCH => return Ok(()),
                _ => return Err(Status::OUT_OF_RANGE),
            }
            if op == ZX_VMO_OP_PREFETCH {
                let more = cx.kernel.vmo_require_slice(vmo, offset, size, done)?;
                return cx.end_slice(&work, more);
            }
            if size == 0 && op < ZX_VMO_OP_ZERO { Err(Status::INVALID_ARGS) } else { Ok(()) }
        }
        ZX_VMO_OP_LOCK | ZX_VMO_OP_TRY_LOCK | ZX_VMO_OP_UNLOCK => {
            need(Rights::READ).or(need(Rights::WRITE))?;
            match op {
                ZX_VMO_OP_LOCK => lock(cx, vmo, offset, size, Out::new(buffer.0), buffer_size),
                ZX_VMO_OP_TRY_LOCK => cx.kernel.vmo_try_lock(vmo, offset, size),
                _ => cx.kernel.vmo_unlock(vmo, offset, size),
            }
        }
        _ => Err(Status::INVALID_ARGS),
    }
}

/// Locks a discardable VMO and reports what had been discarded: all or nothing.
fn lock<M: Machine>(
    cx: &mut Cx<'_, M>,
    vmo: Id<Vmo>,
    offset: u64,
    size: u64,
    out: Out<zx_vmo_lock_state_t>,
    room: usize,
) -> Result<(), Status> {
    if !cx.kernel.objects.get(vmo)?.is_discardable() {
        return Err(Status::NOT_SUPPORTED);
    }
    if out.is_null() || room < size_of::<zx_vmo_lock_state_t>() {
        return Err(Status::INVALID_ARGS);
    }
    // Checks that the result can be written before the lock is taken.
    cx.write(out, zx_vmo_lock_state_t::default())?;
    let discarded = cx.kernel.vmo_lock(vmo, offset, size)?;
    let discarded_size = if discarded { size } else { 0 };
    cx.write(out, zx_vmo_lock_state_t { offset, size, discarded_offset: 0, discarded_size })
}

/// Creates a child of a VMO: a copy, a slice or a reference.
pub fn vmo_create_child<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    offset: u64,
    size: u64,
    out: Out<u32>,
) -> Result<(), Status> {
    let resizable = options & ZX_VMO_CHILD_RESIZABLE != 0;
    let no_write = options & ZX_VMO_CHILD_NO_WRITE != 0;
    if resizable && no_write {
        return Err(Status::INVALID_ARGS);
    }
    let work = cx.sliced_call::<Vmo>(value, Rights::DUPLICATE | Rights::READ)?;
    let (parent, parent_rights) = (work.object, work.rights);
    let copy = match options & !(ZX_VMO_CHILD_RESIZABLE | ZX_VMO_CHILD_NO_WRITE) {
        ZX_VMO_CHILD_SNAPSHOT => Some(CloneKind::Snapshot),
        ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE => Some(CloneKind::AtLeastOnWrite),
        ZX_VMO_CHILD_SNAPSHOT_MODIFIED => Some(CloneKind::Modified),
        ZX_VMO_CHILD_SLICE if !resizable => None,
        ZX_VMO_CHILD_REFERENCE if offset == 0 && size == 0 => None,
        _ => return Err(Status::INVALID_ARGS),
    };
    if copy.is_some() {
        let more = cx.kernel.vmo_clone_protect_slice(parent, offset, size, work.done)?;
        cx.end_slice(&work, more)?;
    }
    // A reference shows the same memory, so a caller that may not resize the parent gets no resizable reference. A copy
    // is the caller's own.
    let is_reference = options & ZX_VMO_CHILD_REFERENCE != 0;
    if is_reference && resizable && !parent_rights.contains(Rights::RESIZE) && cx.kernel.objects.get(parent)?.resizable
    {
        return Err(Status::ACCESS_DENIED);
    }
    let child = match copy {
        Some(kind) => cx.kernel.vmo_create_clone(parent, kind, offset, size, resizable)?,
        None if is_reference => cx.kernel.vmo_create_reference(parent, resizable)?,
        None => cx.kernel.vmo_create_slice(parent, offset, size)?,
    };
    if copy == Some(CloneKind::Snapshot) && no_write {
        cx.kernel.vmo_make_immutable(child)?;
    }
    let mut rights = parent_rights | Rights::GET_PROPERTY | Rights::SET_PROPERTY;
    rights.remove(Rights::RESIZE);
    if resizable {
        rights |= Rights::RESIZE;
    }
    if no_write {
        rights.remove(Rights::WRITE);
    } else if copy.is_some() {
        // A copy is writable by its creator, and no longer the code that was executable.
        rights |= Rights::WRITE;
        rights.remove(Rights::EXECUTE);
    }
    cx.hand_out(child, rights, out)
}

/// Replaces a handle to a VMO by one with the right to map it executable.
pub fn vmo_replace_as_executable<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    resource: HandleValue,
    out: Out<u32>,
) -> Result<(), Status> {
    let may = if resource == INVALID {
        cx.may(ZX_POL_AMBIENT_MARK_VMO_EXEC)
    } else {
        need_system(cx, resource, ZX_RSRC_SYSTEM_VMEX_BASE)
    };
    cx.wait_out(out.0, size_of::<u32>())?;
    // The handle is consumed regardless of the result.
    let old = cx.kernel.take(cx.process, value)?;
    let vmo = may.and_then(|()| cx.kernel.objects.typed::<Vmo>(old.object)).inspect_err(|_| cx.kernel.close(old))?;
    let rights = old.rights | Rights::EXECUTE;
    let new = cx.kernel.put(cx.process, Handle { object: vmo.object(), rights })?;
    cx.write(out, new).inspect_err(|_| cx.discard(new))
}

/// Sets a VMO's cache policy.
pub fn vmo_set_cache_policy<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, policy: u32) -> Result<(), Status> {
    let cache = match policy {
        ZX_CACHE_POLICY_CACHED => Cache::Cached,
        ZX_CACHE_POLICY_UNCACHED => Cache::Uncached,
        ZX_CACHE_POLICY_UNCACHED_DEVICE => Cache::UncachedDevice,
        ZX_CACHE_POLICY_WRITE_COMBINING => Cache::WriteCombining,
        _ => return Err(Status::INVALID_ARGS),
    };
    let vmo = cx.get::<Vmo>(value, Rights::MAP)?;
    cx.kernel.vmo_set_cache(vmo, cache)
}

/// Moves pages from one VMO to another.
pub fn vmo_transfer_data<M: Machine>(
    cx: &mut Cx<'_, M>,
    to: HandleValue,
    options: u32,
    offset: u64,
    len: u64,
    from: HandleValue,
    from_offset: u64,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let (work, from) = cx.sliced_call_on_two::<Vmo, Vmo>((to, Rights::WRITE), (from, Rights::READ | Rights::WRITE))?;
    let more = cx.kernel.vmo_transfer_slice((work.object, offset), len, (from, from_offset), work.done)?;
    cx.end_slice(&work, more)
}

/// Creates a VMO with physically contiguous memory.
pub fn vmo_create_contiguous<M: Machine>(
    cx: &mut Cx<'_, M>,
    bti: HandleValue,
    size: usize,
    align_log2: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    if size == 0 {
        return Err(Status::INVALID_ARGS);
    }
    let align_log2 = if align_log2 == 0 { PAGE.trailing_zeros() } else { align_log2 };
    let align_log2 =
        u8::try_from(align_log2).ok().filter(|bits| (12..64).contains(bits)).ok_or(Status::INVALID_ARGS)?;
    cx.may(abi::ZX_POL_NEW_VMO)?;
    cx.get::<Bti>(bti, Rights::MAP)?;
    let vmo = cx.kernel.vmo_create_contiguous(size as u64, align_log2)?;
    cx.hand_out(vmo, ZX_DEFAULT_VMO_RIGHTS, out)
}

/// Creates a VMO for device memory at a physical address.
pub fn vmo_create_physical<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    address: usize,
    size: usize,
    out: Out<u32>,
) -> Result<(), Status> {
    cx.may(abi::ZX_POL_NEW_VMO)?;
    let rounded = objects::memory::vmo::round_up(size as u64)?;
    need_pages(cx, resource, address as u64, rounded)?;
    let vmo = cx.kernel.vmo_create_physical(address as u64, size as u64)?;
    cx.hand_out(vmo, ZX_DEFAULT_VMO_RIGHTS | Rights::EXECUTE, out)
}
