//! FIFOs.

use abi::{Rights, Status, ZX_DEFAULT_FIFO_RIGHTS};
use objects::core::handle::HandleValue;
use objects::ipc::fifo::Fifo;
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::{In, Out};

/// Creates a FIFO and returns both ends.
pub fn fifo_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    count: usize,
    size: usize,
    options: u32,
    out0: Out<u32>,
    out1: Out<u32>,
) -> Result<(), Status> {
    Fifo::bytes(count as u64, size as u64)?;
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_FIFO)?;
    let pair = cx.kernel.fifo_create(count as u64, size as u64)?;
    cx.hand_out_pair(pair, ZX_DEFAULT_FIFO_RIGHTS, (out0, out1))
}

/// Writes as many elements as fit.
pub fn fifo_write<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    size: usize,
    data: In<u8>,
    count: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    let fifo = cx.get::<Fifo>(value, Rights::WRITE)?;
    let (peer, taken) = cx.kernel.fifo_room(fifo, size as u64, count as u64)?;
    let actual = cx.place_optional(actual)?;
    cx.kernel.fifo_write((fifo, peer), cx.aspace, data.0, taken * size)?;
    cx.fill(actual, taken)
}

/// Reads as many elements as are available.
pub fn fifo_read<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    size: usize,
    data: Out<u8>,
    count: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    let fifo = cx.get::<Fifo>(value, Rights::READ)?;
    let taken = cx.kernel.fifo_available(fifo, size as u64, count as u64)?;
    let actual = cx.place_optional(actual)?;
    cx.kernel.fifo_read(fifo, cx.aspace, data.0, taken * size)?;
    cx.fill(actual, taken)
}
