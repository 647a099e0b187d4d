//! Topics about handles.

use abi::{
    Rights, Status, zx_info_handle_basic_t, zx_info_handle_count_t, zx_info_handle_extended_t,
    zx_info_process_handle_stats_t,
};
use objects::handle::HandleValue;
use objects::machine::Machine;
use objects::process::Process;

use super::sink::Sink;
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

/// Of a dead process this is an empty list.
pub fn table<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Process>(value, Rights::INSPECT | Rights::MANAGE_PROCESS | Rights::MANAGE_THREAD)?;
    let avail = cx.kernel.objects.get(id)?.handles.len();
    sink.many(cx, Some(avail), 0, |kernel, at| {
        let Some((value, handle)) = kernel.objects.get(id)?.handles.next(at) else { return Ok(None) };
        let object = kernel.objects.any(handle.object)?;
        Ok(Some(zx_info_handle_extended_t {
            type_: object.body.object_type(),
            handle_value: value,
            rights: handle.rights.bits(),
            koid: object.koid,
            related_koid: kernel.related_koid(handle.object),
            ..Default::default()
        }))
    })
}

pub fn stats<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
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
