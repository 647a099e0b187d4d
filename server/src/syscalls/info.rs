//! `object_get_info`.
//!
//! Every topic is an array of records, most of them of length one. As many whole records as fit are written; `actual`
//! is how many, `avail` how many there are. A topic of one record fails with `BUFFER_TOO_SMALL` if it does not fit.

use abi::{
    Rights, Status, ZX_INFO_HANDLE_BASIC, ZX_INFO_HANDLE_COUNT, ZX_INFO_HANDLE_TABLE, ZX_INFO_HANDLE_VALID,
    ZX_INFO_JOB, ZX_INFO_JOB_CHILDREN, ZX_INFO_JOB_PROCESSES, ZX_INFO_KMEM_STATS, ZX_INFO_PROCESS,
    ZX_INFO_PROCESS_FLAG_EXITED, ZX_INFO_PROCESS_FLAG_STARTED, ZX_INFO_PROCESS_HANDLE_STATS, ZX_INFO_PROCESS_MAPS,
    ZX_INFO_PROCESS_THREADS, ZX_INFO_RESOURCE, ZX_INFO_SOCKET, ZX_INFO_TASK_STATS, ZX_INFO_THREAD, ZX_INFO_TIMER,
    ZX_INFO_VMAR, ZX_INFO_VMO, zx_info_handle_basic_t, zx_info_handle_count_t, zx_info_handle_extended_t,
    zx_info_job_t, zx_info_kmem_stats_t, zx_info_maps_t, zx_info_process_handle_stats_t, zx_info_process_t,
    zx_info_resource_t, zx_info_socket_t, zx_info_task_stats_t, zx_info_thread_t, zx_info_timer_t, zx_info_vmar_t,
    zx_info_vmo_t,
};
use alloc::vec::Vec;
use objects::aspace::Mapping;
use objects::handle::{Handle, HandleValue};
use objects::job::Job;
use objects::machine::{Machine, PAGE};
use objects::process::{Process, ProcessState};
use objects::resource::Resource;
use objects::socket::{CAPACITY, Socket};
use objects::thread::Thread;
use objects::timer::Timer;
use objects::vmar::Vmar;
use objects::vmo::Vmo;
use objects::{Id, Kernel};
use zerocopy::{Immutable, IntoBytes};

use crate::cx::Cx;
use crate::user::Out;

/// Where the records go.
struct Sink {
    buffer: Out<u8>,
    size: usize,
    actual: Out<usize>,
    avail: Out<usize>,
}

impl Sink {
    /// Writes the counts of a topic that is done.
    fn counts<M: Machine>(&self, cx: &mut Cx<'_, M>, actual: usize, avail: usize) -> Result<(), Status> {
        cx.write_optional(self.actual, actual)?;
        cx.write_optional(self.avail, avail)
    }

    /// A topic of one record.
    fn one<M: Machine, T: IntoBytes + Immutable>(&self, cx: &mut Cx<'_, M>, record: T) -> Result<(), Status> {
        if self.size < size_of::<T>() {
            self.counts(cx, 0, 1)?;
            return Err(Status::BUFFER_TOO_SMALL);
        }
        cx.write(Out::new(self.buffer.0), record)?;
        self.counts(cx, 1, 1)
    }

    /// A topic of `avail` records, which `records` makes in one pass. They are collected first: as many as the buffer
    /// holds.
    fn many<M: Machine, T: IntoBytes + Immutable>(
        &self,
        cx: &mut Cx<'_, M>,
        avail: usize,
        records: impl FnOnce(&Kernel<M>, &mut dyn FnMut(T) -> bool) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let actual = avail.min(self.size / size_of::<T>());
        let mut collected = Vec::new();
        collected.try_reserve_exact(actual).map_err(|_| Status::NO_MEMORY)?;
        records(cx.kernel, &mut |record| {
            if collected.len() < actual {
                collected.push(record);
            }
            collected.len() < actual
        })?;
        let actual = collected.len();
        for (n, record) in collected.into_iter().enumerate() {
            cx.write(Out::<T>::new(self.buffer.0).nth(n), record)?;
        }
        self.counts(cx, actual, avail)
    }

    /// A topic of objects' numbers.
    fn koids<M: Machine, T>(&self, cx: &mut Cx<'_, M>, list: &[Id<T>]) -> Result<(), Status> {
        let mut koids = Vec::new();
        koids.try_reserve_exact(list.len()).map_err(|_| Status::NO_MEMORY)?;
        koids.extend(list.iter().map(|id| cx.kernel.koid(id.object())));
        let avail = koids.len();
        self.many(cx, avail, |_, put| {
            koids.into_iter().all(put);
            Ok(())
        })
    }
}

/// A copy of a list that belongs to an object.
fn copied<T: Copy>(list: &[T]) -> Result<Vec<T>, Status> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(list.len()).map_err(|_| Status::NO_MEMORY)?;
    copy.extend_from_slice(list);
    Ok(copy)
}

/// Looks at an object.
#[allow(clippy::too_many_lines)]
pub fn object_get_info<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    topic: u32,
    buffer: Out<u8>,
    size: usize,
    actual: Out<usize>,
    avail: Out<usize>,
) -> Result<(), Status> {
    let sink = Sink { buffer, size, actual, avail };
    match topic {
        ZX_INFO_HANDLE_VALID => {
            cx.kernel.handle(cx.process, value)?;
            Ok(())
        }
        ZX_INFO_HANDLE_BASIC => {
            let handle = cx.get_any(value, Rights::NONE)?;
            let record = handle_basic(cx, handle)?;
            sink.one(cx, record)
        }
        ZX_INFO_HANDLE_COUNT => {
            let handle = cx.get_any(value, Rights::INSPECT)?;
            let handle_count = cx.kernel.objects.any(handle.object)?.handles;
            sink.one(cx, zx_info_handle_count_t { handle_count })
        }
        ZX_INFO_PROCESS => {
            let id = cx.get::<Process>(value, Rights::INSPECT)?;
            let process = cx.kernel.objects.get(id)?;
            let mut flags = 0;
            if process.state != ProcessState::Created {
                flags |= ZX_INFO_PROCESS_FLAG_STARTED;
            }
            if process.state == ProcessState::Dead {
                flags |= ZX_INFO_PROCESS_FLAG_EXITED;
            }
            let record = zx_info_process_t {
                return_code: process.return_code,
                start_time: process.start_time,
                flags,
                ..Default::default()
            };
            sink.one(cx, record)
        }
        ZX_INFO_PROCESS_THREADS => {
            let id = cx.get::<Process>(value, Rights::ENUMERATE)?;
            let list = copied(&cx.kernel.objects.get(id)?.threads)?;
            sink.koids(cx, &list)
        }
        ZX_INFO_JOB_CHILDREN => {
            let id = cx.get::<Job>(value, Rights::ENUMERATE)?;
            let list = copied(&cx.kernel.objects.get(id)?.jobs)?;
            sink.koids(cx, &list)
        }
        ZX_INFO_JOB_PROCESSES => {
            let id = cx.get::<Job>(value, Rights::ENUMERATE)?;
            let list = copied(&cx.kernel.objects.get(id)?.processes)?;
            sink.koids(cx, &list)
        }
        ZX_INFO_JOB => {
            let id = cx.get::<Job>(value, Rights::INSPECT)?;
            let job = cx.kernel.objects.get(id)?;
            let record =
                zx_info_job_t { return_code: job.return_code, exited: u8::from(job.dead), ..Default::default() };
            sink.one(cx, record)
        }
        ZX_INFO_THREAD => {
            let id = cx.get::<Thread>(value, Rights::INSPECT)?;
            let record = zx_info_thread_t { state: cx.kernel.objects.get(id)?.info_state(), ..Default::default() };
            sink.one(cx, record)
        }
        ZX_INFO_TASK_STATS => {
            let id = cx.get::<Process>(value, Rights::INSPECT)?;
            let (mapped, committed) = memory_of(cx, id)?;
            let record = zx_info_task_stats_t {
                mem_mapped_bytes: mapped as usize,
                mem_private_bytes: committed as usize,
                ..Default::default()
            };
            sink.one(cx, record)
        }
        ZX_INFO_VMAR => {
            let id = cx.get::<Vmar>(value, Rights::INSPECT)?;
            let vmar = cx.kernel.objects.get(id)?;
            let record = zx_info_vmar_t { base: vmar.base as usize, len: vmar.len as usize };
            sink.one(cx, record)
        }
        ZX_INFO_VMO => {
            let (id, rights) = cx.get_with_rights::<Vmo>(value, Rights::NONE)?;
            let record = vmo_record(cx, id, rights)?;
            sink.one(cx, record)
        }
        ZX_INFO_SOCKET => {
            let id = cx.get::<Socket>(value, Rights::INSPECT)?;
            let socket = cx.kernel.objects.get(id)?;
            let record = zx_info_socket_t {
                options: u32::from(socket.is_datagram()),
                rx_buf_max: CAPACITY,
                rx_buf_size: socket.readable(),
                rx_buf_available: socket.next_len(),
                tx_buf_max: CAPACITY,
                tx_buf_size: cx.kernel.socket_sent(id)?,
                ..Default::default()
            };
            sink.one(cx, record)
        }
        ZX_INFO_TIMER => {
            let id = cx.get::<Timer>(value, Rights::INSPECT)?;
            let timer = cx.kernel.objects.get(id)?;
            let record = zx_info_timer_t {
                options: timer.slack_mode,
                deadline: timer.deadline.unwrap_or(0),
                slack: timer.slack,
                ..Default::default()
            };
            sink.one(cx, record)
        }
        ZX_INFO_RESOURCE => {
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
        ZX_INFO_PROCESS_HANDLE_STATS => {
            let id = cx.get::<Process>(value, Rights::INSPECT)?;
            let mut record = zx_info_process_handle_stats_t::default();
            for (_, handle) in cx.kernel.objects.get(id)?.handles.iter() {
                let kind = cx.kernel.objects.any(handle.object)?.body.object_type();
                if let Some(count) = record.handle_count.get_mut(kind as usize) {
                    *count += 1;
                }
            }
            sink.one(cx, record)
        }
        ZX_INFO_HANDLE_TABLE => {
            let id = cx.get::<Process>(value, Rights::INSPECT | Rights::MANAGE_PROCESS | Rights::MANAGE_THREAD)?;
            let len = cx.kernel.objects.get(id)?.handles.len();
            sink.many(cx, len, |kernel, put| {
                for (value, handle) in kernel.objects.get(id)?.handles.iter() {
                    if !put(handle_extended(kernel, value, handle)?) {
                        break;
                    }
                }
                Ok(())
            })
        }
        ZX_INFO_PROCESS_MAPS => {
            let id = cx.get::<Process>(value, Rights::READ)?;
            let aspace = cx.kernel.objects.get(id)?.aspace.ok_or(Status::BAD_STATE)?;
            let len = cx.kernel.aspace(aspace).map_or(0, |space| space.mappings.len());
            sink.many(cx, len, |kernel, put| {
                for mapping in kernel.aspace(aspace).into_iter().flat_map(|space| space.mappings.values()) {
                    if !put(maps_record(kernel, mapping)) {
                        break;
                    }
                }
                Ok(())
            })
        }
        ZX_INFO_KMEM_STATS => {
            super::debug::need_root(cx, value)?;
            let (used, total) = cx.kernel.machine.memory();
            let record = zx_info_kmem_stats_t {
                total_bytes: total,
                free_bytes: total.saturating_sub(used),
                ..Default::default()
            };
            sink.one(cx, record)
        }
        _ => Err(Status::NOT_SUPPORTED),
    }
}

fn handle_basic<M: Machine>(cx: &Cx<'_, M>, handle: Handle) -> Result<zx_info_handle_basic_t, Status> {
    let object = cx.kernel.objects.any(handle.object)?;
    Ok(zx_info_handle_basic_t {
        koid: object.koid,
        rights: handle.rights.bits(),
        type_: object.body.object_type(),
        related_koid: cx.kernel.related_koid(handle.object),
        ..Default::default()
    })
}

fn handle_extended<M: Machine>(
    kernel: &Kernel<M>,
    value: HandleValue,
    handle: Handle,
) -> Result<zx_info_handle_extended_t, Status> {
    let object = kernel.objects.any(handle.object)?;
    Ok(zx_info_handle_extended_t {
        type_: object.body.object_type(),
        handle_value: value,
        rights: handle.rights.bits(),
        koid: object.koid,
        related_koid: kernel.related_koid(handle.object),
        ..Default::default()
    })
}

fn maps_record<M: Machine>(kernel: &Kernel<M>, mapping: &Mapping) -> zx_info_maps_t {
    let perm = mapping.perm;
    let mut record = zx_info_maps_t {
        name: *mapping.name.bytes(),
        base: mapping.base as usize,
        size: mapping.len as usize,
        depth: 1,
        type_: abi::ZX_INFO_MAPS_TYPE_MAPPING,
        ..Default::default()
    };
    record.mapping.mmu_flags = u32::from(perm.read) | u32::from(perm.write) << 1 | u32::from(perm.execute) << 2;
    record.mapping.vmo_koid = kernel.koid(mapping.vmo.object());
    record.mapping.vmo_offset = mapping.offset;
    record
}

/// Bytes that a process has mapped, and those of them that are committed.
fn memory_of<M: Machine>(cx: &Cx<'_, M>, process: Id<Process>) -> Result<(u64, u64), Status> {
    let aspace = cx.kernel.objects.get(process)?.aspace.ok_or(Status::BAD_STATE)?;
    let space = cx.kernel.aspace(aspace).ok_or(Status::BAD_STATE)?;
    let mut sums = (0, 0);
    for mapping in space.mappings.values() {
        sums.0 += mapping.len;
        let pages = mapping.offset / PAGE..(mapping.offset + mapping.len) / PAGE;
        sums.1 += cx.kernel.vmo_count(mapping.vmo, pages) * PAGE;
    }
    Ok(sums)
}

fn vmo_record<M: Machine>(cx: &Cx<'_, M>, id: Id<Vmo>, rights: Rights) -> Result<zx_info_vmo_t, Status> {
    let committed = cx.kernel.vmo_committed(id)?;
    let object = cx.kernel.objects.any(id.object())?;
    let vmo = cx.kernel.objects.get(id)?;
    let mut flags = abi::ZX_INFO_VMO_TYPE_PAGED;
    if vmo.resizable {
        flags |= abi::ZX_INFO_VMO_RESIZABLE;
    }
    Ok(zx_info_vmo_t {
        koid: object.koid,
        name: *vmo.name.bytes(),
        size_bytes: vmo.size,
        parent_koid: vmo.parent_koid,
        num_children: vmo.children as usize,
        flags,
        committed_bytes: committed,
        populated_bytes: committed,
        handle_rights: rights.bits(),
        ..Default::default()
    })
}
