//! Topics about what drivers use.

use abi::{Rights, Status, zx_info_interrupt_t};
use objects::handle::HandleValue;
use objects::interrupt::Interrupt;
use objects::machine::Machine;

use super::sink::Sink;
use crate::cx::Cx;

pub fn interrupt<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, sink: Sink) -> Result<(), Status> {
    let id = cx.get::<Interrupt>(value, Rights::INSPECT)?;
    let record = zx_info_interrupt_t { options: cx.kernel.objects.get(id)?.options };
    sink.one(cx, record)
}
