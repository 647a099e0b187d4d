//! Topics about address spaces: their layout, and the memory that they use.

use core::fmt::Write as _;
use core::mem::offset_of;

use abi::{
    Rights, Status, ZX_INFO_MAPS_TYPE_ASPACE, ZX_INFO_MAPS_TYPE_MAPPING, ZX_INFO_MAPS_TYPE_VMAR, ZX_MAX_NAME_LEN,
    zx_info_maps_t, zx_info_task_stats_t, zx_info_vmar_t,
};
use alloc::string::String;
use objects::containers::name::Name;
use objects::core::continuation;
use objects::core::handle::HandleValue;
use objects::machine::{Machine, PAGE, USER_BASE, USER_TOP};
use objects::memory::aspace::Mapping;
use objects::memory::tree_walk::{Node, Walk};
use objects::memory::vmar::Vmar;
use objects::memory::vmo::{FRACTION, Memory};
use objects::task::process::Process;
use objects::{Id, Kernel};

use super::sink::{ListPosition, ReportedList, Sink, Step};
use crate::cx::Cx;

/// The newest version of a mapping's record counts bytes; older versions count pages and are shorter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
    Newest,
}

impl Version {
    fn cut(self, sink: Sink) -> Sink {
        match self {
            Version::V1 => sink.cut(offset_of!(zx_info_maps_t, mapping.populated_bytes)),
            Version::V2 => sink.cut(offset_of!(zx_info_maps_t, mapping.committed_private_bytes)),
            Version::Newest => sink,
        }
    }
}

pub fn vmar<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Vmar>(value, Rights::INSPECT)?;
    let vmar = cx.kernel.objects.get(id)?;
    let record = zx_info_vmar_t { base: vmar.base as usize, len: vmar.len as usize };
    sink.one(cx, record)
}

/// A VMAR and everything in it, or an address space.
struct Tree {
    tops: (Id<Vmar>, Option<Id<Vmar>>),
    /// The process, if the list covers its whole address space.
    process: Option<Id<Process>>,
    version: Version,
}

/// The progress of the list.
struct Position {
    /// The address space's own record has been written.
    begun: bool,
    /// The position of the tree walk.
    walk: [u64; 2],
}

impl ListPosition for Position {
    fn of(&[begun, vmar, from, ..]: &continuation::ContinuationState) -> Self {
        Position { begun: begun != 0, walk: [vmar, from] }
    }

    fn words(&self) -> continuation::ContinuationState {
        let [vmar, from] = self.walk;
        [self.begun.into(), vmar, from, 0, 0, 0, 0]
    }
}

impl<M: Machine> ReportedList<M> for Tree {
    type Position = Position;
    type Record = zx_info_maps_t;
    // A record may cover many pages.
    const WORK: u32 = 16;

    fn next(
        &self,
        kernel: &Kernel<M>,
        Position { begun, walk: place }: &mut Position,
    ) -> Result<Step<Self::Record>, Status> {
        if let (false, Some(process)) = (core::mem::replace(begun, true), self.process) {
            return Ok(Step::Record(aspace_record(kernel, process)));
        }
        let mut walk = Walk::stopped(self.tops, *place);
        let next = kernel.walk_next(&mut walk);
        *place = walk.place();
        let Some((depth, node)) = next else { return Ok(Step::End) };
        let record = node_record(kernel, depth + usize::from(self.process.is_some()), node, self.version);
        Ok(record.map_or(Step::Nothing, Step::Record))
    }

    fn len(&self, _: &Kernel<M>) -> Option<usize> {
        None
    }
}

/// Lists a VMAR and everything in it. The VMAR itself has depth 0.
pub fn vmar_maps<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let work = cx.sliced_call::<Vmar>(value, Rights::INSPECT)?;
    let top = work.object;
    cx.kernel.objects.get(top)?.aspace.ok_or(Status::BAD_STATE)?;
    sink.many(cx, work, &Tree { tops: (top, None), process: None, version: Version::Newest })
}

/// Lists an address space (depth 0), its root VMAR (depth 1), and everything in that. A process may list itself: the
/// list covers the tree, which does not change when pages are committed for the answer.
pub fn process_maps<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    version: Version,
    sink: Sink,
) -> Result<(), Status> {
    let work = cx.sliced_call::<Process>(value, Rights::INSPECT)?;
    let tops = cx.kernel.roots(work.object)?;
    let process = Some(work.object);
    version.cut(sink).many(cx, work, &Tree { tops, process, version })
}

fn aspace_record<M: Machine>(kernel: &Kernel<M>, process: Id<Process>) -> zx_info_maps_t {
    let mut name = String::new();
    // Formatting into a String cannot fail.
    let _ = write!(name, "proc:{}", kernel.koid(process.object()));
    zx_info_maps_t {
        name: *Name::new(name.as_bytes()).bytes(),
        base: USER_BASE as usize,
        size: (USER_TOP - USER_BASE) as usize,
        type_: ZX_INFO_MAPS_TYPE_ASPACE,
        ..Default::default()
    }
}

fn node_record<M: Machine>(
    kernel: &Kernel<M>,
    depth: usize,
    node: Node<'_>,
    version: Version,
) -> Option<zx_info_maps_t> {
    Some(match node {
        Node::Vmar(vmar) => {
            let name: &[u8] = if vmar.is_root() { b"root" } else { b"useralloc" };
            zx_info_maps_t {
                name: *Name::new(name).bytes(),
                base: vmar.base as usize,
                size: vmar.len as usize,
                depth,
                type_: ZX_INFO_MAPS_TYPE_VMAR,
                ..Default::default()
            }
        }
        Node::Mapping(mapping) => mapping_record(kernel, depth, mapping, version),
        Node::End => return None,
    })
}

fn mapping_record<M: Machine>(kernel: &Kernel<M>, depth: usize, mapping: &Mapping, version: Version) -> zx_info_maps_t {
    let memory = memory(kernel, mapping);
    let bytes = memory.committed as usize;
    let told = if version == Version::Newest { bytes } else { bytes / PAGE as usize };
    let mut record = zx_info_maps_t {
        name: kernel.objects.get(mapping.named).map_or([0; ZX_MAX_NAME_LEN], |vmo| *vmo.name.bytes()),
        base: mapping.base as usize,
        size: mapping.len as usize,
        depth,
        type_: ZX_INFO_MAPS_TYPE_MAPPING,
        ..Default::default()
    };
    let perm = mapping.perm;
    let detail = &mut record.mapping;
    detail.mmu_flags = u32::from(perm.read) | u32::from(perm.write) << 1 | u32::from(perm.execute) << 2;
    detail.vmo_koid = kernel.koid(kernel.vmo_to_report(mapping.named).object());
    detail.vmo_offset = mapping.named_offset;
    detail.committed_bytes = told;
    detail.populated_bytes = told;
    let (scaled, fraction) = memory.scaled_bytes();
    detail.committed_private_bytes = memory.private as usize;
    detail.populated_private_bytes = memory.private as usize;
    detail.committed_scaled_bytes = scaled as usize;
    detail.populated_scaled_bytes = scaled as usize;
    detail.committed_fractional_scaled_bytes = fraction;
    detail.populated_fractional_scaled_bytes = fraction;
    record
}

/// The memory that a mapping shows.
fn memory<M: Machine>(kernel: &Kernel<M>, mapping: &Mapping) -> Memory {
    kernel.vmo_memory_of(mapping.vmo, mapping.offset / PAGE..(mapping.offset + mapping.len) / PAGE)
}

/// Bytes of the older version of the task statistics.
pub const TASK_STATS_V1: usize = offset_of!(zx_info_task_stats_t, mem_fractional_scaled_shared_bytes);

/// Memory that a process has mapped. A page is shared if other address spaces also map its VMO, or another VMO also has
/// it; each address space and each VMO counts for an equal part of it.
pub fn task_stats<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let mut work = cx.sliced_call::<Process>(value, Rights::INSPECT)?;
    let roots = cx.kernel.roots(work.object)?;
    let [vmar, from, mut mapped, mut private, mut shared, high, low] = work.state;
    let mut scaled = u128::from(high) << 64 | u128::from(low);
    let mut walk = Walk::stopped(roots, [vmar, from]);
    let mut slice = cx.kernel.slice_begin();
    while let Some((_, node)) = cx.kernel.walk_next(&mut walk) {
        // A page table says not which of its VMO's pages it shows.
        if let Node::Mapping(mapping) = node
            && !mapping.table
        {
            let memory = memory(cx.kernel, mapping);
            mapped += mapping.len;
            let spaces = cx.kernel.objects.get(mapping.vmo)?.share_count().max(1);
            let own = if spaces == 1 { memory.private } else { 0 };
            private += own;
            shared += memory.committed - own;
            scaled += (memory.scaled - (u128::from(own) << FRACTION)) / spaces as u128;
            // A mapping may cover many pages.
            cx.kernel.slice_add_work(16);
        }
        if cx.kernel.slice_over(&mut slice) {
            let [vmar, from] = walk.place();
            work.state = [vmar, from, mapped, private, shared, (scaled >> 64) as u64, scaled as u64];
            return cx.end_slice(&work, Some(1));
        }
    }
    let record = zx_info_task_stats_t {
        mem_mapped_bytes: mapped as usize,
        mem_private_bytes: private as usize,
        mem_shared_bytes: shared as usize,
        mem_scaled_shared_bytes: (scaled >> FRACTION) as usize,
        mem_fractional_scaled_shared_bytes: (scaled & ((1 << FRACTION) - 1)) as u64,
    };
    sink.one(cx, record)
}
