//! `object_get_info`: the topic determines the answer, and the type and rights that the handle needs.
//!
//! For every topic the checks come in this order: the topic, the handle, its type, its rights, the object's state, the
//! memory for the records, the size of the buffer. For a topic about a type of object that this server never creates,
//! every handle has the wrong type.

mod device;
mod handle;
mod ipc;
mod maps;
mod sink;
mod system;
mod task;
mod vmo;

use abi::*;
use objects::core::handle::HandleValue;
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::Out;
use maps::Version;
use sink::Sink;

/// Returns information about an object.
pub fn object_get_info<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    topic: u32,
    buffer: Out<u8>,
    size: usize,
    actual: Out<usize>,
    avail: Out<usize>,
) -> Result<(), Status> {
    let sink = Sink { buffer, size, actual, avail, cut: None };
    if !matches!(topic, ZX_INFO_HANDLE_VALID | ZX_INFO_HANDLE_BASIC | ZX_INFO_HANDLE_COUNT) {
        // Reports about memory leave out pages that were only allocated ahead.
        cx.kernel.ahead_reclaim();
    }
    match topic {
        ZX_INFO_HANDLE_VALID => cx.kernel.handle(cx.process, value).map(|_| ()),
        ZX_INFO_HANDLE_BASIC => handle::basic(cx, value, sink),
        ZX_INFO_HANDLE_COUNT => handle::count(cx, value, sink),
        ZX_INFO_HANDLE_TABLE => handle::table(cx, value, sink),
        ZX_INFO_PROCESS_HANDLE_STATS => handle::stats(cx, value, sink),

        ZX_INFO_JOB => task::job(cx, value, sink),
        HAFNON_INFO_JOB_USAGE => task::job_usage(cx, value, sink),
        ZX_INFO_JOB_CHILDREN => task::job_children(cx, value, sink),
        ZX_INFO_JOB_PROCESSES => task::job_processes(cx, value, sink),
        ZX_INFO_PROCESS => task::process(cx, value, sink),
        ZX_INFO_PROCESS_THREADS => task::process_threads(cx, value, sink),
        ZX_INFO_THREAD => task::thread(cx, value, sink),
        ZX_INFO_THREAD_STATS => task::thread_stats(cx, value, sink),
        ZX_INFO_TASK_RUNTIME => task::runtime(cx, value, sink),
        ZX_INFO_TASK_RUNTIME_V1 => task::runtime(cx, value, sink.cut(task::RUNTIME_V1)),
        ZX_INFO_THREAD_EXCEPTION_REPORT => task::exception_report(cx, value, sink),
        ZX_INFO_THREAD_EXCEPTION_REPORT_V1 => task::exception_report(cx, value, sink.cut(task::EXCEPTION_REPORT_V1)),

        ZX_INFO_TASK_STATS => maps::task_stats(cx, value, sink),
        ZX_INFO_TASK_STATS_V1 => maps::task_stats(cx, value, sink.cut(maps::TASK_STATS_V1)),
        ZX_INFO_PROCESS_MAPS => maps::process_maps(cx, value, Version::Newest, sink),
        ZX_INFO_PROCESS_MAPS_V1 => maps::process_maps(cx, value, Version::V1, sink),
        ZX_INFO_PROCESS_MAPS_V2 => maps::process_maps(cx, value, Version::V2, sink),
        ZX_INFO_VMAR => maps::vmar(cx, value, sink),
        ZX_INFO_VMAR_MAPS => maps::vmar_maps(cx, value, sink),
        ZX_INFO_PROCESS_VMOS => vmo::process_vmos(cx, value, sink),
        ZX_INFO_PROCESS_VMOS_V1 => vmo::process_vmos(cx, value, sink.cut(vmo::V1)),
        ZX_INFO_PROCESS_VMOS_V2 => vmo::process_vmos(cx, value, sink.cut(vmo::V2)),
        ZX_INFO_PROCESS_VMOS_V3 => vmo::process_vmos(cx, value, sink.cut(vmo::V3)),
        ZX_INFO_VMO => vmo::vmo(cx, value, sink),
        ZX_INFO_VMO_V1 => vmo::vmo(cx, value, sink.cut(vmo::V1)),
        ZX_INFO_VMO_V2 => vmo::vmo(cx, value, sink.cut(vmo::V2)),
        ZX_INFO_VMO_V3 => vmo::vmo(cx, value, sink.cut(vmo::V3)),

        ZX_INFO_SOCKET => ipc::socket(cx, value, sink),
        ZX_INFO_STREAM => ipc::stream(cx, value, sink),
        ZX_INFO_IOB => ipc::iob(cx, value, sink),
        ZX_INFO_IOB_REGIONS => ipc::iob_regions(cx, value, sink),
        ZX_INFO_TIMER => ipc::timer(cx, value, sink),
        ZX_INFO_CLOCK_MAPPED_SIZE => ipc::clock_mapped_size(cx, value, sink),

        ZX_INFO_BTI => device::bti(cx, value, sink),
        ZX_INFO_MSI => device::msi(cx, value, sink),
        ZX_INFO_INTERRUPT => device::interrupt(cx, value, sink),
        ZX_INFO_RESOURCE => system::resource(cx, value, sink),
        ZX_INFO_KMEM_STATS => system::kmem_stats(cx, value, sink),
        ZX_INFO_KMEM_STATS_V1 => system::kmem_stats_v1(cx, value, sink),
        ZX_INFO_KMEM_STATS_EXTENDED => system::kmem_stats_extended(cx, value, sink),
        ZX_INFO_KMEM_STATS_COMPRESSION => system::kmem_stats_compression(cx, value, sink),
        ZX_INFO_MEMORY_STALL => system::memory_stall(cx, value, sink),
        ZX_INFO_CPU_STATS => system::cpu_stats(cx, value, sink),
        ZX_INFO_GUEST_STATS => system::not_counted(cx, value),

        ZX_INFO_VCPU => {
            cx.kernel.handle(cx.process, value)?;
            Err(Status::WRONG_TYPE)
        }
        _ => Err(Status::NOT_SUPPORTED),
    }
}
