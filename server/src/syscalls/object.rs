//! Calls on objects of any type: wait, signal, properties.

use abi::{
    Rights, Signals, Status, ZX_EXCP_POLICY_CODE_PORT_TOO_MANY_OBSERVERS, ZX_WAIT_ASYNC_BOOT_TIMESTAMP,
    ZX_WAIT_ASYNC_EDGE, ZX_WAIT_ASYNC_TIMESTAMP, ZX_WAIT_MANY_MAX_ITEMS, zx_wait_item_t,
};
use alloc::vec::Vec;
use objects::ObjectId;
use objects::containers::growth::Grows;
use objects::core::handle::{Handle, HandleValue};
use objects::core::port::Port;
use objects::core::wait::{Observed, WaitItem, Waiting};
use objects::machine::Machine;
use objects::task::exception::Task;

use crate::Answer;
use crate::cx::{Cx, IntoAnswer};
use crate::syscalls::handle::reduce;
use crate::user::{InOut, Out};

pub use super::info::object_get_info;
pub use super::profile::object_set_profile;
pub use super::property::{object_get_property, object_set_property};

/// Waits for signals of one object.
pub fn object_wait_one<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    signals: u32,
    deadline: i64,
    observed: Out<u32>,
) -> Result<Waiting, Status> {
    let handle = cx.get_any(value, Rights::WAIT)?;
    let signals = Signals::from_bits_retain(signals);
    let found = cx.kernel.signals(handle.object);
    if found.intersects(signals) {
        // Step 1 of a wait, for the only object.
        cx.write_optional(observed, found.bits())?;
        return Ok(Waiting::Over(Status::OK));
    }
    wait_for(cx, handle, value, signals, deadline, observed)
}

/// Waits for one object that asserts none of the signals.
#[inline(never)]
fn wait_for<M: Machine>(
    cx: &mut Cx<'_, M>,
    handle: Handle,
    value: HandleValue,
    signals: Signals,
    deadline: i64,
    observed: Out<u32>,
) -> Result<Waiting, Status> {
    let item = WaitItem { object: handle.object, handle: value, signals };
    let out = if observed.is_null() { Observed::Nowhere } else { Observed::One(observed.0) };
    cx.kernel.wait(cx.thread, &[item], deadline, out)
}

/// Waits for signals of several objects.
pub fn object_wait_many<M: Machine>(
    cx: &mut Cx<'_, M>,
    items: InOut<zx_wait_item_t>,
    count: usize,
    deadline: i64,
) -> Result<Waiting, Status> {
    if count > ZX_WAIT_MANY_MAX_ITEMS {
        return Err(Status::OUT_OF_RANGE);
    }
    if count == 0 {
        // Only the deadline can end this wait.
        let waiting = cx.kernel.wait(cx.thread, &[], deadline, Observed::Nowhere)?;
        return Ok(waiting);
    }
    let mut wanted = Vec::new();
    wanted.room_exact(count)?;
    for item in cx.read_array(items.input(), count)? {
        let handle = cx.get_any(item.handle, Rights::WAIT)?;
        let signals = Signals::from_bits_retain(item.waitfor);
        wanted.push(WaitItem { object: handle.object, handle: item.handle, signals });
    }
    cx.kernel.wait(cx.thread, &wanted, deadline, Observed::Many(items.0))
}

/// Queues a packet on a port when an object asserts a signal.
pub fn object_wait_async<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    port: HandleValue,
    key: u64,
    signals: u32,
    options: u32,
) -> Answer {
    match bind(cx, (value, port), key, signals, options) {
        // The wait is bound nevertheless; the policy exception reports it.
        Ok(true) => cx.policy_exception(ZX_EXCP_POLICY_CODE_PORT_TOO_MANY_OBSERVERS, 0, Ok(()).into_answer()),
        Ok(false) => Ok(()).into_answer(),
        Err(status) => Err::<(), _>(status).into_answer(),
    }
}

/// Binds the wait. Returns whether the port has more waits than Zircon's limit.
#[inline(always)]
fn bind<M: Machine>(
    cx: &mut Cx<'_, M>,
    (value, port): (HandleValue, HandleValue),
    key: u64,
    signals: u32,
    options: u32,
) -> Result<bool, Status> {
    let stamps = ZX_WAIT_ASYNC_TIMESTAMP | ZX_WAIT_ASYNC_BOOT_TIMESTAMP;
    if options & !(stamps | ZX_WAIT_ASYNC_EDGE) != 0 || options & stamps == stamps {
        return Err(Status::INVALID_ARGS);
    }
    let port = cx.get::<Port>(port, Rights::WRITE)?;
    let handle = cx.get_any(value, Rights::WAIT)?;
    if cx.kernel.port_is_full_of_waits(port) && cx.overflow_is_status() {
        return Err(Status::NO_RESOURCES);
    }
    let item = WaitItem { object: handle.object, handle: value, signals: Signals::from_bits_retain(signals) };
    cx.kernel.wait_async(cx.process, item, port, key, options)
}

/// The signals that programs may set and clear on an object.
#[inline]
fn allowed<M: Machine>(cx: &Cx<'_, M>, object: ObjectId) -> Result<Signals, Status> {
    Ok(cx.kernel.objects.any(object)?.body.user_signals())
}

/// Changes the signals of an object.
pub fn object_signal<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, clear: u32, set: u32) -> Result<(), Status> {
    let handle = cx.get_any(value, Rights::SIGNAL)?;
    let (clear, set) = (Signals::from_bits_retain(clear), Signals::from_bits_retain(set));
    if !allowed(cx, handle.object)?.contains(clear | set) {
        return Err(Status::INVALID_ARGS);
    }
    cx.kernel.signal(handle.object, clear, set);
    Ok(())
}

/// Changes the signals of an object's peer.
pub fn object_signal_peer<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    clear: u32,
    set: u32,
) -> Result<(), Status> {
    let handle = cx.get_any(value, Rights::SIGNAL_PEER)?;
    let (clear, set) = (Signals::from_bits_retain(clear), Signals::from_bits_retain(set));
    // Both ends have the same type.
    if !allowed(cx, handle.object)?.contains(clear | set) {
        return Err(Status::INVALID_ARGS);
    }
    let peer = cx.kernel.peer(handle.object)?.ok_or(Status::PEER_CLOSED)?;
    cx.kernel.signal(peer, clear, set);
    Ok(())
}

/// Returns a handle to a child of a task by its koid: a process of a job, a job of a job, a thread of a process.
pub fn object_get_child<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    koid: u64,
    rights: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    let handle = cx.get_any(value, Rights::ENUMERATE)?;
    let rights = reduce(handle.rights, rights).map_err(|_| Status::ACCESS_DENIED)?;
    if matches!(cx.kernel.task(handle.object)?, Task::Thread(_)) {
        return Err(Status::WRONG_TYPE);
    }
    let child = cx.kernel.objects.task(koid).ok_or(Status::NOT_FOUND)?;
    if !cx.kernel.is_child(child, handle.object) {
        return Err(Status::NOT_FOUND);
    }
    let new = cx.kernel.give(cx.process, child, rights)?;
    cx.write(out, new).inspect_err(|_| cx.discard(new))
}
