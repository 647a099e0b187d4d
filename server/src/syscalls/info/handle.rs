//! Topics about handles.

use abi::{
    Rights, Status, zx_info_handle_basic_t, zx_info_handle_count_t, zx_info_handle_extended_t,
    zx_info_process_handle_stats_t,
};
use objects::core::handle::HandleValue;
use objects::machine::Machine;
use objects::task::process::{Process, ProcessState};
use objects::{Id, Kernel};

use super::sink::{ReportedList, Sink, Step};
use crate::cx::Cx;

pub fn basic<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let handle = cx.get_any(value, Rights::NONE)?;
    let object = cx.kernel.objects.any(handle.object)?;
    let record = zx_info_handle_basic_t {
        koid: object.koid,
        rights: handle.rights.bits(),
        type_: object.body.object_type(),
        related_koid: cx.kernel.related_koid(handle.object),
        ..Default::default()
    };
    sink.one(cx, record)
}

pub fn count<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let handle = cx.get_any(value, Rights::INSPECT)?;
    let handle_count = cx.kernel.objects.any(handle.object)?.handles;
    sink.one(cx, zx_info_handle_count_t { handle_count })
}

/// The handles of a process. A place is an index into its handle table.
struct Table(Id<Process>);

/// The process whose handle table this process uses. A dead process uses its own, which is empty.
fn holder<M: Machine>(kernel: &Kernel<M>, id: Id<Process>) -> Result<Id<Process>, Status> {
    let process = kernel.objects.get(id)?;
    Ok(if process.state == ProcessState::Dead { id } else { process.holder(id) })
}

impl<M: Machine> ReportedList<M> for Table {
    type Position = usize;
    type Record = zx_info_handle_extended_t;
    const WORK: u32 = 1;

    fn next(&self, kernel: &Kernel<M>, place: &mut usize) -> Result<Step<Self::Record>, Status> {
        let Some(found) = kernel.objects.get(self.0)?.handles.at(*place) else { return Ok(Step::End) };
        *place += 1;
        let Some((value, handle)) = found else { return Ok(Step::Nothing) };
        let object = kernel.objects.any(handle.object)?;
        Ok(Step::Record(zx_info_handle_extended_t {
            type_: object.body.object_type(),
            handle_value: value,
            rights: handle.rights.bits(),
            koid: object.koid,
            related_koid: kernel.related_koid(handle.object),
            ..Default::default()
        }))
    }

    fn len(&self, kernel: &Kernel<M>) -> Option<usize> {
        kernel.objects.get(self.0).ok().map(|process| process.handles.len())
    }
}

/// For a dead process the list is empty.
pub fn table<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let rights = Rights::INSPECT | Rights::MANAGE_PROCESS | Rights::MANAGE_THREAD;
    let work = cx.sliced_call::<Process>(value, rights)?;
    let table = Table(holder(cx.kernel, work.object)?);
    sink.many(cx, work, &table)
}

pub fn stats<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let work = cx.sliced_call::<Process>(value, Rights::INSPECT)?;
    let id = holder(cx.kernel, work.object)?;
    sink.sum(cx, &work, |kernel, place, record: &mut zx_info_process_handle_stats_t| {
        let Some(found) = kernel.objects.get(id)?.handles.at(place as usize) else { return Ok(false) };
        if let Some((_, handle)) = found {
            let kind = kernel.objects.any(handle.object)?.body.object_type();
            if let Some(count) = record.handle_count.get_mut(kind as usize) {
                *count = count.wrapping_add(1);
            }
        }
        Ok(true)
    })
}
