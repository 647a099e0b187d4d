//! Topics about the whole system, for holders of the resource for system information.

use abi::{
    Rights, Status, ZX_INFO_CPU_STATS_FLAG_ONLINE, ZX_RSRC_SYSTEM_INFO_BASE, ZX_RSRC_SYSTEM_STALL_BASE,
    zx_info_cpu_stats_t, zx_info_kmem_stats_compression_t, zx_info_kmem_stats_extended_t, zx_info_kmem_stats_t,
    zx_info_kmem_stats_v1_t, zx_info_memory_stall_t, zx_info_resource_t,
};
use objects::core::handle::HandleValue;
use objects::device::resource::Resource;
use objects::machine::Machine;

use super::sink::Sink;
use crate::cx::Cx;
use crate::syscalls::resource::need_system;

pub fn resource<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Resource>(value, Rights::INSPECT)?;
    let resource = cx.kernel.objects.get(id)?;
    let record = zx_info_resource_t {
        kind: resource.kind,
        flags: resource.flags,
        base: resource.base,
        size: resource.size as usize,
        name: *resource.name.bytes(),
    };
    sink.one(cx, record)
}

/// Bytes of memory: total, free, taken by the heap, and free within the heap.
fn memory<M: Machine>(cx: &mut Cx<'_, M>) -> Result<[u64; 4], Status> {
    cx.await_reaper()?;
    let (used, total) = cx.kernel.machine.memory();
    let (heap, free_heap) = cx.kernel.machine.heap();
    Ok([total, total.saturating_sub(used), heap, free_heap])
}

pub fn kmem_stats<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_INFO_BASE)?;
    let [total_bytes, free_bytes, total_heap_bytes, free_heap_bytes] = memory(cx)?;
    let other_bytes = total_bytes.saturating_sub(free_bytes).saturating_sub(total_heap_bytes);
    sink.one(
        cx,
        zx_info_kmem_stats_t {
            total_bytes,
            free_bytes,
            total_heap_bytes,
            free_heap_bytes,
            other_bytes,
            ..Default::default()
        },
    )
}

pub fn kmem_stats_v1<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_INFO_BASE)?;
    let [total_bytes, free_bytes, total_heap_bytes, free_heap_bytes] = memory(cx)?;
    let other_bytes = total_bytes.saturating_sub(free_bytes).saturating_sub(total_heap_bytes);
    sink.one(
        cx,
        zx_info_kmem_stats_v1_t {
            total_bytes,
            free_bytes,
            total_heap_bytes,
            free_heap_bytes,
            other_bytes,
            ..Default::default()
        },
    )
}

pub fn kmem_stats_extended<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_INFO_BASE)?;
    let [total_bytes, free_bytes, total_heap_bytes, free_heap_bytes] = memory(cx)?;
    let other_bytes = total_bytes.saturating_sub(free_bytes).saturating_sub(total_heap_bytes);
    sink.one(
        cx,
        zx_info_kmem_stats_extended_t {
            total_bytes,
            free_bytes,
            total_heap_bytes,
            free_heap_bytes,
            other_bytes,
            ..Default::default()
        },
    )
}

/// Nothing is ever compressed: all counts are 0.
pub fn kmem_stats_compression<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_INFO_BASE)?;
    sink.one(cx, zx_info_kmem_stats_compression_t::default())
}

/// No thread waits for memory: a request that cannot be met fails at once.
pub fn memory_stall<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_STALL_BASE)?;
    sink.one(cx, zx_info_memory_stall_t::default())
}

/// The one processor. What is neither counted nor known to be none is 0.
pub fn cpu_stats<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_INFO_BASE)?;
    let idle_time = cx.kernel.machine.idle_time().ok_or(Status::NOT_SUPPORTED)?;
    let processor = zx_info_cpu_stats_t {
        flags: ZX_INFO_CPU_STATS_FLAG_ONLINE,
        idle_time,
        normalized_busy_time: cx.kernel.machine.now().saturating_sub(idle_time).max(0),
        ..Default::default()
    };
    sink.array(cx, &[processor])
}

/// A topic of counts that seL4 does not keep.
pub fn not_counted<M: Machine>(cx: &Cx<'_, M>, value: HandleValue) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_INFO_BASE)?;
    Err(Status::NOT_SUPPORTED)
}
