//! seL4 endpoints.

use abi::{
    HAFNON_DEFAULT_ENDPOINT_RIGHTS, HAFNON_ENDPOINT_BADGES, HAFNON_ENDPOINT_CALL, HAFNON_ENDPOINT_RECEIVE,
    HAFNON_ENDPOINT_SEND, HAFNON_RSRC_SYSTEM_ENDPOINT_BASE, Rights, Status,
};
use objects::core::handle::HandleValue;
use objects::ipc::channel::Channel;
use objects::machine::{EndpointUse, Machine};
use objects::task::endpoint::Endpoint;
use objects::task::thread::Thread;

use crate::cx::Cx;
use crate::syscalls::resource::need_system;
use crate::user::{In, Out};

/// Maximum length of a name, in bytes.
const NAME: usize = 31;

/// Creates an endpoint.
pub fn endpoint_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    options: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    need_system(cx, resource, HAFNON_RSRC_SYSTEM_ENDPOINT_BASE)?;
    let endpoint = cx.kernel.endpoint_create()?;
    cx.hand_out(endpoint, HAFNON_DEFAULT_ENDPOINT_RIGHTS, out)
}

/// Finds an endpoint that a native component offers.
pub fn endpoint_find<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    name: In<u8>,
    name_len: usize,
    out: Out<u32>,
) -> Result<(), Status> {
    need_system(cx, resource, HAFNON_RSRC_SYSTEM_ENDPOINT_BASE)?;
    if name_len == 0 || name_len > NAME {
        return Err(Status::INVALID_ARGS);
    }
    let name = cx.read_bytes(name, name_len)?;
    if out.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    // Without a valid place for the result, nothing is looked up.
    cx.place_optional(out)?;
    let endpoint = cx.kernel.endpoint_find(&name)?;
    cx.hand_out(endpoint, HAFNON_DEFAULT_ENDPOINT_RIGHTS, out)
}

/// Puts a capability to an endpoint into a slot of a thread.
pub fn endpoint_mint<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    thread: HandleValue,
    options: u32,
    badge: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    if options == 0 || options & !(HAFNON_ENDPOINT_SEND | HAFNON_ENDPOINT_CALL | HAFNON_ENDPOINT_RECEIVE) != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let receive = options & HAFNON_ENDPOINT_RECEIVE != 0;
    let rights = if receive { Rights::READ | Rights::WRITE } else { Rights::WRITE };
    let endpoint = cx.get::<Endpoint>(value, rights)?;
    let thread = cx.get::<Thread>(thread, Rights::MANAGE_THREAD)?;
    if receive && cx.kernel.objects.get(endpoint)?.is_found() {
        return Err(Status::ACCESS_DENIED);
    }
    if badge >= HAFNON_ENDPOINT_BADGES {
        return Err(Status::OUT_OF_RANGE);
    }
    let call = options & HAFNON_ENDPOINT_CALL != 0;
    let for_what = EndpointUse { call, send: call || options & HAFNON_ENDPOINT_SEND != 0, receive };
    // Without a valid place for the slot's number, nothing is done.
    if out.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    let place = cx.place_optional(out)?;
    let slot = cx.kernel.endpoint_mint(endpoint, thread, badge, for_what)?;
    cx.fill(place, u32::from(slot))
}

/// Passes an end of a channel to the component that offers an endpoint.
pub fn endpoint_connect<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    channel: HandleValue,
) -> Result<(), Status> {
    let endpoint = cx.get::<Endpoint>(value, Rights::WRITE);
    let endpoint = endpoint.and_then(|endpoint| cx.get::<Channel>(channel, Rights::TRANSFER).map(|_| endpoint));
    let endpoint = endpoint.inspect_err(|_| cx.discard(channel))?;
    let handle = cx.kernel.take(cx.process, channel)?;
    cx.kernel.component_connect(endpoint, handle)
}

/// Empties a slot of a thread.
pub fn endpoint_delete<M: Machine>(cx: &mut Cx<'_, M>, thread: HandleValue, slot: u32) -> Result<(), Status> {
    let thread = cx.get::<Thread>(thread, Rights::MANAGE_THREAD)?;
    cx.kernel.endpoint_delete(thread, slot)
}
