//! Sockets.

use abi::{
    Rights, Status, ZX_DEFAULT_SOCKET_RIGHTS, ZX_SOCKET_DATAGRAM, ZX_SOCKET_DISPOSITION_WRITE_DISABLED,
    ZX_SOCKET_DISPOSITION_WRITE_ENABLED, ZX_SOCKET_PEEK,
};
use objects::Id;
use objects::core::handle::HandleValue;
use objects::ipc::socket::{CAPACITY, Socket};
use objects::machine::Machine;

use crate::cx::{Cx, MAX_COPY};
use crate::user::{In, Out};

/// Creates a socket and returns both ends.
pub fn socket_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u32,
    out0: Out<u32>,
    out1: Out<u32>,
) -> Result<(), Status> {
    if options & !ZX_SOCKET_DATAGRAM != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_SOCKET)?;
    let pair = cx.kernel.socket_create(options & ZX_SOCKET_DATAGRAM != 0)?;
    cx.hand_out_pair(pair, ZX_DEFAULT_SOCKET_RIGHTS, (out0, out1))
}

/// Writes as much as fits, or a whole datagram.
pub fn socket_write<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    buffer: In<u8>,
    size: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    if size > 0 && buffer.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    let socket = cx.get::<Socket>(value, Rights::WRITE)?;
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    if size == 0 || size > CAPACITY {
        no_datagram(cx, socket, size)?;
    }
    let way = cx.kernel.socket_way(socket)?;
    if way.datagram && size > way.room {
        return Err(Status::SHOULD_WAIT);
    }
    let actual = cx.place_optional(actual)?;
    let total = size.min(way.room);
    let first = if way.datagram { total } else { total.min(MAX_COPY) };
    cx.kernel.socket_send(way, cx.aspace, buffer.0, first)?;
    let written = if first < total { write_rest(cx, socket, buffer, first, total) } else { first };
    cx.fill(actual, written)
}

/// Fails for a datagram socket: no datagram has this size.
#[cold]
fn no_datagram<M: Machine>(cx: &mut Cx<'_, M>, socket: Id<Socket>, size: usize) -> Result<(), Status> {
    match cx.kernel.objects.get(socket)?.is_datagram() {
        true if size == 0 => Err(Status::INVALID_ARGS),
        true => Err(Status::OUT_OF_RANGE),
        false => Ok(()),
    }
}

/// Writes the rest of a long piece of a stream part by part, up to a bad address; returns the number of bytes written
/// in all.
#[inline(never)]
fn write_rest<M: Machine>(cx: &mut Cx<'_, M>, socket: Id<Socket>, from: In<u8>, done: usize, total: usize) -> usize {
    let mut written = done;
    while written < total {
        let part = (total - written).min(MAX_COPY);
        if cx.kernel.socket_write(socket, cx.aspace, from.0.wrapping_add(written as u64), part).is_err() {
            break;
        }
        written += part;
    }
    written
}

/// Reads or peeks at the available data.
pub fn socket_read<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    buffer: Out<u8>,
    size: usize,
    actual: Out<usize>,
) -> Result<(), Status> {
    if options & !ZX_SOCKET_PEEK != 0 || (buffer.is_null() && size > 0) {
        return Err(Status::INVALID_ARGS);
    }
    let socket = cx.get::<Socket>(value, Rights::READ)?;
    let actual = cx.place_optional(actual)?;
    let peek = options & ZX_SOCKET_PEEK != 0;
    let read = cx.kernel.socket_read(socket, cx.aspace, buffer.0, size, peek)?;
    cx.fill(actual, read)
}

/// Enables or disables writing, for either end.
pub fn socket_set_disposition<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    own: u32,
    peer: u32,
) -> Result<(), Status> {
    let decode = |disposition| match disposition {
        0 => Ok(None),
        ZX_SOCKET_DISPOSITION_WRITE_DISABLED => Ok(Some(false)),
        ZX_SOCKET_DISPOSITION_WRITE_ENABLED => Ok(Some(true)),
        _ => Err(Status::INVALID_ARGS),
    };
    let (own, peer) = (decode(own)?, decode(peer)?);
    let socket = cx.get::<Socket>(value, Rights::MANAGE_SOCKET)?;
    cx.kernel.socket_set_disposition(socket, own, peer)
}
