//! Topics about IPC objects.

use abi::{
    Rights, Status, ZX_CLOCK_MONOTONIC, ZX_STREAM_MODE_APPEND, zx_info_iob_t, zx_info_socket_t, zx_info_stream_t,
    zx_info_timer_t, zx_iob_region_info_t,
};
use objects::core::handle::HandleValue;
use objects::ipc::iob::Iob;
use objects::ipc::socket::{CAPACITY, Socket};
use objects::ipc::stream::Stream;
use objects::machine::Machine;
use objects::time::clock::{Clock, MAPPED_SIZE};
use objects::time::timer::Timer;
use objects::{Id, Kernel};

use super::sink::{ReportedList, Sink, Step};
use crate::cx::Cx;
use crate::syscalls::iob::told;

pub fn socket<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Socket>(value, Rights::INSPECT)?;
    let socket = cx.kernel.objects.get(id)?;
    let has_peer = cx.kernel.peer(id.object())?.is_some();
    let record = zx_info_socket_t {
        options: u32::from(socket.is_datagram()),
        rx_buf_max: CAPACITY,
        rx_buf_size: socket.readable(),
        rx_buf_available: socket.next_len(),
        tx_buf_max: if has_peer { CAPACITY } else { 0 },
        tx_buf_size: cx.kernel.socket_sent(id)?,
        ..Default::default()
    };
    sink.one(cx, record)
}

pub fn timer<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Timer>(value, Rights::INSPECT)?;
    let timer = cx.kernel.objects.get(id)?;
    let record = zx_info_timer_t {
        options: timer.slack_mode,
        clock_id: ZX_CLOCK_MONOTONIC,
        deadline: timer.deadline.unwrap_or(0),
        slack: if timer.deadline.is_some() { timer.slack } else { 0 },
    };
    sink.one(cx, record)
}

pub fn stream<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Stream>(value, Rights::INSPECT)?;
    let stream = cx.kernel.objects.get(id)?;
    let record = zx_info_stream_t {
        options: stream.mode | if stream.append { ZX_STREAM_MODE_APPEND } else { 0 },
        seek: stream.seek,
        content_size: cx.kernel.objects.get(stream.vmo)?.content_size,
        ..Default::default()
    };
    sink.one(cx, record)
}

pub fn iob<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Iob>(value, Rights::INSPECT)?;
    let region_count = cx.kernel.objects.get(id)?.regions().len() as u32;
    sink.one(cx, zx_info_iob_t { region_count, ..Default::default() })
}

/// The regions as seen from this end: its own access is reported in the place of end 0's.
pub fn iob_regions<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let work = cx.sliced_call::<Iob>(value, Rights::INSPECT)?;
    let regions = Regions(work.object);
    sink.many(cx, work, &regions)
}

/// The regions of an IOBuffer's end.
struct Regions(Id<Iob>);

impl<M: Machine> ReportedList<M> for Regions {
    type Position = usize;
    type Record = zx_iob_region_info_t;
    const WORK: u32 = 1;

    fn next(&self, kernel: &Kernel<M>, place: &mut usize) -> Result<Step<Self::Record>, Status> {
        let end = kernel.objects.get(self.0)?;
        let Some(region) = end.regions().get(*place) else { return Ok(Step::End) };
        *place += 1;
        let koid = kernel.koid(region.vmo.object());
        Ok(Step::Record(zx_iob_region_info_t { region: told(region, end.access(region)), koid }))
    }

    fn len(&self, kernel: &Kernel<M>) -> Option<usize> {
        kernel.objects.get(self.0).ok().map(|end| end.regions().len())
    }
}

/// Bytes that a mapped clock takes.
pub fn clock_mapped_size<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let clock = cx.get::<Clock>(value, Rights::INSPECT)?;
    match cx.kernel.objects.get(clock)?.page {
        Some(_) => sink.one(cx, MAPPED_SIZE),
        None => Err(Status::INVALID_ARGS),
    }
}
