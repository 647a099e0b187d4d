//! Counters.

use abi::{Rights, Status, ZX_DEFAULT_COUNTER_RIGHTS};
use objects::core::counter::Counter;
use objects::core::handle::HandleValue;
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::Out;

/// Creates a counter at 0.
pub fn counter_create<M: Machine>(cx: &mut Cx<'_, M>, options: u32, out: Out<u32>) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let counter = cx.kernel.counter_create()?;
    cx.hand_out(counter, ZX_DEFAULT_COUNTER_RIGHTS, out)
}

/// Adds to a counter.
pub fn counter_add<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, n: i64) -> Result<(), Status> {
    let counter = cx.get::<Counter>(value, Rights::READ | Rights::WRITE)?;
    cx.kernel.counter_add(counter, n)
}

/// Reads a counter.
pub fn counter_read<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, out: Out<i64>) -> Result<(), Status> {
    let counter = cx.get::<Counter>(value, Rights::READ)?;
    let n = cx.kernel.counter_read(counter)?;
    cx.write(out, n)
}

/// Sets a counter.
pub fn counter_write<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, n: i64) -> Result<(), Status> {
    let counter = cx.get::<Counter>(value, Rights::WRITE)?;
    cx.kernel.counter_write(counter, n)
}
