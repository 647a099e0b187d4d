//! Sockets.

use abi::{
    Rights, Status, ZX_DEFAULT_SOCKET_RIGHTS, ZX_SOCKET_DATAGRAM, ZX_SOCKET_DISPOSITION_WRITE_DISABLED,
    ZX_SOCKET_DISPOSITION_WRITE_ENABLED, ZX_SOCKET_PEEK,
};
use objects::handle::HandleValue;
use objects::machine::Machine;
use objects::socket::{CAPACITY, Socket};

use crate::cx::{Cx, MAX_COPY};
use crate::user::{In, Out};

/// Creates a socket: both ends.
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
    let datagram = cx.kernel.objects.get(socket)?.is_datagram();
    if options != 0 || datagram && size == 0 {
        return Err(Status::INVALID_ARGS);
    }
    if datagram && size > CAPACITY {
        return Err(Status::OUT_OF_RANGE);
    }
    let mut room = cx.kernel.socket_room(socket)?;
    if datagram {
        if size > room {
            return Err(Status::SHOULD_WAIT);
        }
        room = size;
    }
    cx.check_optional(actual)?;
    let total = size.min(room);
    let mut written = 0;
    // In pieces, except that a datagram is one.
    loop {
        let part = if datagram { total } else { (total - written).min(MAX_COPY) };
        let mut data = cx.kernel.buffers.take(part)?;
        let copied = cx.kernel.copy_in(cx.aspace, buffer.0.wrapping_add(written as u64), &mut data);
        let sent = copied.and_then(|()| cx.kernel.socket_write(socket, &data));
        cx.kernel.buffers.give(data);
        match sent {
            Ok(n) => written += n,
            // What was written before the bad address stays written.
            Err(_) if written > 0 => break,
            Err(status) => return Err(status),
        }
        if written >= total {
            break;
        }
    }
    cx.write_optional(actual, written)
}

/// Reads, or looks at, what is there.
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
    cx.check_optional(actual)?;
    let peek = options & ZX_SOCKET_PEEK != 0;
    let s = cx.kernel.objects.get(socket)?;
    let total = size.min(s.next_len());
    let whole = s.is_datagram() || peek;
    if total > MAX_COPY {
        // It comes in pieces, of which each is gone from the socket once it is read.
        cx.wait_out(buffer.0, total)?;
    }
    let mut done = 0;
    loop {
        let part = if whole { total } else { (total - done).min(MAX_COPY) };
        let to = Out::<u8>::new(buffer.0.wrapping_add(done as u64));
        if done > 0 && part == 0 {
            break;
        }
        // Bytes leave the socket only when they can be delivered.
        cx.kernel.check_out(cx.aspace, to.0, part)?;
        let mut data = cx.kernel.buffers.take(part)?;
        let n = cx.kernel.socket_read(socket, &mut data, peek)?;
        cx.write_bytes(to, data.get(..n).unwrap_or_default())?;
        cx.kernel.buffers.give(data);
        done += n;
        if whole || n == 0 || done >= total {
            break;
        }
    }
    cx.write_optional(actual, done)
}

/// Allows or forbids writing, for either end.
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
