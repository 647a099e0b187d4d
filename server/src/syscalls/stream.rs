//! Streams.

use alloc::vec::Vec;

use abi::{
    Rights, Status, ZX_DEFAULT_STREAM_RIGHTS, ZX_STREAM_APPEND, ZX_STREAM_CREATE_MASK, ZX_STREAM_MODE_READ,
    ZX_STREAM_MODE_WRITE, zx_iovec_t,
};
use objects::containers::growth::Grows;
use objects::core::handle::HandleValue;
use objects::ipc::stream::{Moves, Run, Stream, StreamOffset, TransferStep, UserBuffer};
use objects::machine::Machine;
use objects::memory::usermem::UserDestination;
use objects::memory::vmo::Vmo;

use crate::cx::Cx;
use crate::long_call::SlicedCall;
use crate::user::{In, InOut, Out};

/// What a run moves, in the saved form; 0 for a call that has no run.
const NOTHING: u64 = 1;
const POSITION: u64 = 2;
const END: u64 = 3;

/// Creates a stream over a VMO.
pub fn stream_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u32,
    vmo: HandleValue,
    seek: u64,
    out: Out<u32>,
) -> Result<(), Status> {
    if options & !ZX_STREAM_CREATE_MASK != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let mut needs = Rights::NONE;
    needs.set(Rights::READ, options & ZX_STREAM_MODE_READ != 0);
    needs.set(Rights::WRITE, options & ZX_STREAM_MODE_WRITE != 0);
    let (vmo, rights) = cx.get_with_rights::<Vmo>(vmo, needs)?;
    let stream = cx.kernel.stream_create(vmo, options, seek, rights.contains(Rights::RESIZE))?;
    cx.hand_out(stream, ZX_DEFAULT_STREAM_RIGHTS | needs, out)
}

/// The parts that vectors describe. They are copied once, so reading into the vectors themselves changes nothing.
///
/// # Errors
/// `INVALID_ARGS`: the vectors are not in the caller's memory, are too many, or too much together. `NO_MEMORY`.
pub(super) fn parts<M: Machine>(
    cx: &mut Cx<'_, M>,
    vectors: In<zx_iovec_t>,
    count: usize,
) -> Result<Vec<UserBuffer>, Status> {
    if vectors.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    let vectors = cx.read_array(vectors, count).map_err(|status| match status {
        Status::OUT_OF_RANGE => Status::INVALID_ARGS,
        status => status,
    })?;
    let mut parts = Vec::new();
    parts.room_exact(vectors.len())?;
    let mut total = 0_u64;
    for vector in vectors {
        let part = UserBuffer { address: vector.buffer as u64, len: vector.capacity as u64 };
        total = total.checked_add(part.len).ok_or(Status::INVALID_ARGS)?;
        parts.push(part);
    }
    Ok(parts)
}

fn read<M: Machine>(
    cx: &mut Cx<'_, M>,
    (value, options): (HandleValue, u32),
    at: StreamOffset,
    (vectors, count): (InOut<zx_iovec_t>, usize),
    actual: Out<usize>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let work = cx.sliced_call::<Stream>(value, Rights::READ)?;
    let parts = parts(cx, vectors.input(), count)?;
    let actual = cx.place_optional(actual)?;
    let carried = cx.kernel.stream_read(work.object, at, cx.aspace, &parts, run(&work))?;
    over(cx, work, carried, actual)
}

/// The run that a continued call is in the middle of.
fn run(work: &SlicedCall<Stream>) -> Option<Run> {
    let [moves, offset, len, ..] = work.state;
    let moves = match moves {
        NOTHING => Moves::Nothing,
        POSITION => Moves::Position,
        END => Moves::End,
        _ => return None,
    };
    Some(Run { moves, offset, len, done: work.done })
}

/// Returns the number of bytes that a finished read or write has transferred; a call that continues keeps its run.
fn over<M: Machine>(
    cx: &mut Cx<'_, M>,
    mut work: SlicedCall<Stream>,
    carried: TransferStep,
    actual: UserDestination,
) -> Result<(), Status> {
    let done = match carried {
        TransferStep::Over(done) => return cx.fill(actual, done as usize),
        TransferStep::Begins => work.done + 1,
        TransferStep::GoesOn(Run { moves, offset, len, done }) => {
            let moves = match moves {
                Moves::Nothing => NOTHING,
                Moves::Position => POSITION,
                Moves::End => END,
            };
            work.state = [moves, offset, len, 0, 0, 0, 0];
            done
        }
    };
    cx.end_slice(&work, Some(done))
}

/// Reads at the stream's position.
pub fn stream_readv<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    vectors: InOut<zx_iovec_t>,
    count: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    read(cx, (value, options), StreamOffset::Position, (vectors, count), actual)
}

/// Reads at an offset.
pub fn stream_readv_at<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    offset: u64,
    vectors: InOut<zx_iovec_t>,
    count: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    read(cx, (value, options), StreamOffset::At(offset), (vectors, count), actual)
}

fn write<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    at: Option<StreamOffset>,
    (vectors, count): (In<zx_iovec_t>, usize),
    actual: Out<usize>,
) -> Result<(), Status> {
    let work = cx.sliced_call::<Stream>(value, Rights::WRITE)?;
    let parts = parts(cx, vectors, count)?;
    let actual = cx.place_optional(actual)?;
    let at = match at {
        Some(at) => at,
        None if cx.kernel.objects.get(work.object)?.append => StreamOffset::End,
        None => StreamOffset::Position,
    };
    let carried = cx.kernel.stream_write(work.object, at, cx.aspace, &parts, run(&work))?;
    over(cx, work, carried, actual)
}

/// Writes at the stream's position, or at the end.
pub fn stream_writev<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    vectors: In<zx_iovec_t>,
    count: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    if options & !ZX_STREAM_APPEND != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let at = if options & ZX_STREAM_APPEND != 0 { Some(StreamOffset::End) } else { None };
    write(cx, value, at, (vectors, count), actual)
}

/// Writes at an offset.
pub fn stream_writev_at<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    offset: u64,
    vectors: In<zx_iovec_t>,
    count: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    write(cx, value, Some(StreamOffset::At(offset)), (vectors, count), actual)
}

/// Moves the stream's position.
pub fn stream_seek<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    whence: u32,
    offset: i64,
    out: Out<u64>,
) -> Result<(), Status> {
    let (stream, rights) = cx.get_with_rights::<Stream>(value, Rights::NONE)?;
    if !rights.intersects(Rights::READ | Rights::WRITE) {
        return Err(Status::ACCESS_DENIED);
    }
    let target = cx.kernel.stream_target(stream, whence, offset)?;
    cx.write_optional(out, target)?;
    cx.kernel.stream_seek(stream, target)
}
