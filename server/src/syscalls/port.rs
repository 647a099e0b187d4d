//! Ports.

use abi::{
    Rights, Status, ZX_DEFAULT_PORT_RIGHTS, ZX_EXCP_POLICY_CODE_PORT_TOO_MANY_PACKETS, ZX_PKT_TYPE_USER,
    ZX_PORT_BIND_TO_INTERRUPT, zx_port_packet_t,
};
use objects::Id;
use objects::core::handle::HandleValue;
use objects::core::port::{PACKET_SIZE, Port};
use objects::core::wait::Waiting;
use objects::machine::Machine;
use zerocopy::IntoBytes;

use crate::Answer;
use crate::cx::{Cx, IntoAnswer};
use crate::user::{In, Out};

/// Creates a port.
pub fn port_create<M: Machine>(cx: &mut Cx<'_, M>, options: u32, out: Out<u32>) -> Result<(), Status> {
    if options & !ZX_PORT_BIND_TO_INTERRUPT != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_PORT)?;
    let port = cx.kernel.port_create(options & ZX_PORT_BIND_TO_INTERRUPT != 0)?;
    cx.hand_out(port, ZX_DEFAULT_PORT_RIGHTS, out)
}

/// Queues a packet. If the port is full, the server treats the caller as a runaway and raises a policy exception.
pub fn port_queue<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, packet: In<zx_port_packet_t>) -> Answer {
    let result = queue(cx, value, packet);
    let answer = result.into_answer();
    match result {
        Err(Status::SHOULD_WAIT) => cx.overflow(ZX_EXCP_POLICY_CODE_PORT_TOO_MANY_PACKETS, answer),
        _ => answer,
    }
}

fn queue<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, packet: In<zx_port_packet_t>) -> Result<(), Status> {
    let port = cx.get::<Port>(value, Rights::WRITE)?;
    let mut packet = cx.read(packet)?;
    packet.type_ = ZX_PKT_TYPE_USER;
    let mut bytes = [0; PACKET_SIZE];
    packet.write_to(&mut bytes).map_err(|_| Status::INTERNAL)?;
    cx.kernel.port_queue(port, bytes)
}

/// Takes the next packet, or waits for it.
pub fn port_wait<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    deadline: i64,
    out: Out<zx_port_packet_t>,
) -> Result<Waiting, Status> {
    let port = cx.get::<Port>(value, Rights::READ)?;
    if cx.kernel.port_take(port, cx.aspace, out.0)? {
        return Ok(Waiting::Over(Status::OK));
    }
    wait(cx, port, deadline, out)
}

/// Waits for a packet on an empty port.
#[inline(never)]
fn wait<M: Machine>(
    cx: &mut Cx<'_, M>,
    port: Id<Port>,
    deadline: i64,
    out: Out<zx_port_packet_t>,
) -> Result<Waiting, Status> {
    // A caller whose buffer cannot be written does not wait.
    cx.kernel.check_out(cx.aspace, out.0, PACKET_SIZE)?;
    match cx.kernel.port_wait(port, cx.thread, deadline, out.0)? {
        Some(packet) => {
            cx.kernel.copy_out(cx.aspace, out.0, &packet)?;
            Ok(Waiting::Over(Status::OK))
        }
        None => Ok(Waiting::Blocked),
    }
}

/// Cancels the waits on an object that were set up with this handle and key.
pub fn port_cancel<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    source: HandleValue,
    key: u64,
) -> Result<(), Status> {
    let work = cx.sliced_call::<Port>(value, Rights::WRITE)?;
    if work.done == 0 {
        cx.get_any(source, Rights::WAIT)?;
    }
    let more = cx.kernel.port_cancel(work.object, (cx.process.object(), source), key, work.done)?;
    cx.end_slice(&work, more)
}

/// Cancels all waits that were set up with this key.
pub fn port_cancel_key<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    key: u64,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let work = cx.sliced_call::<Port>(value, Rights::WRITE)?;
    let more = cx.kernel.port_cancel_key(work.object, key, work.done)?;
    cx.end_slice(&work, more)
}
