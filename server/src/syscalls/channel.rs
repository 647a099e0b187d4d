//! Channels.

use abi::{
    Rights, Status, ZX_CHANNEL_MAX_MSG_BYTES, ZX_CHANNEL_MAX_MSG_HANDLES, ZX_CHANNEL_MAX_MSG_IOVECS,
    ZX_CHANNEL_READ_MAY_DISCARD, ZX_CHANNEL_WRITE_USE_IOVEC, ZX_DEFAULT_CHANNEL_RIGHTS,
    ZX_EXCP_POLICY_CODE_CHANNEL_FULL_WRITE, zx_channel_call_args_t, zx_channel_call_etc_args_t, zx_channel_iovec_t,
    zx_handle_disposition_t, zx_handle_info_t,
};
use alloc::vec::Vec;
use objects::Id;
use objects::containers::growth::Grows;
use objects::core::handle::HandleValue;
use objects::core::wait::Waiting;
use objects::ipc::channel::{CallBuffers, Channel, Message};
use objects::machine::Machine;
use objects::memory::usermem::UserDestination;

use crate::Answer;
use crate::cx::{Cx, IntoAnswer};
use crate::user::{In, InOut, Out};

mod handles;

pub use handles::consume_refused;
use handles::{INLINE_HANDLES, Source, consume, take, take_inline};

/// Creates a channel and returns both ends.
pub fn channel_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u32,
    out0: Out<u32>,
    out1: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(abi::ZX_POL_NEW_CHANNEL)?;
    let pair = cx.kernel.channel_create()?;
    cx.hand_out_pair(pair, ZX_DEFAULT_CHANNEL_RIGHTS, (out0, out1))
}

/// The bytes of a message, from one buffer or from several.
fn read_data<M: Machine>(cx: &mut Cx<'_, M>, options: u32, bytes: In<u8>, count: usize) -> Result<Vec<u8>, Status> {
    if options & ZX_CHANNEL_WRITE_USE_IOVEC == 0 {
        if count > ZX_CHANNEL_MAX_MSG_BYTES as usize {
            return Err(Status::OUT_OF_RANGE);
        }
        return cx.read_bytes(bytes, count);
    }
    if count > ZX_CHANNEL_MAX_MSG_IOVECS as usize {
        return Err(Status::OUT_OF_RANGE);
    }
    let mut data = Vec::new();
    for i in 0..count {
        let part = cx.read(In::<zx_channel_iovec_t>::new(bytes.0).nth(i))?;
        if part.reserved != 0 {
            return Err(Status::INVALID_ARGS);
        }
        let (from, len) = (data.len(), part.capacity as usize);
        if from + len > ZX_CHANNEL_MAX_MSG_BYTES as usize {
            return Err(Status::OUT_OF_RANGE);
        }
        data.room(len)?;
        data.resize(from + len, 0);
        let to = data.get_mut(from..).unwrap_or_default();
        cx.kernel.copy_in(cx.aspace, part.buffer as u64, to)?;
    }
    Ok(data)
}

/// What a call needs of the channel and of the message.
struct MessageRequirements {
    rights: Rights,
    /// Minimum number of bytes of the message.
    bytes: usize,
}

/// Collects the message that a write or call sends. Errors are found in this order: options, channel, bytes, handles;
/// then, by [`objects::Kernel::channel_write`], the other end. Handles to be moved leave the caller regardless of the
/// result.
fn gather<M: Machine>(
    cx: &mut Cx<'_, M>,
    (value, wanted): (HandleValue, MessageRequirements),
    options: u32,
    bytes: (In<u8>, usize),
    (source, count): (Source, usize),
) -> Result<(Id<Channel>, Message), Status> {
    if let Source::Dispositions(array) = source
        && count <= ZX_CHANNEL_MAX_MSG_HANDLES as usize
    {
        // The status of a failed handle is written to this array when the call can no longer wait.
        cx.wait_out(array.0, count * size_of::<zx_handle_disposition_t>())?;
    }
    let (channel, data) = channel_and_data(cx, (value, wanted), options, bytes, count)
        .inspect_err(|&status| consume(cx, source, count, status))?;
    let handles = if count == 0 { Vec::new() } else { take(cx, channel, source, count)? };
    Ok((channel, Message { data, handles }))
}

fn channel_and_data<M: Machine>(
    cx: &mut Cx<'_, M>,
    (value, wanted): (HandleValue, MessageRequirements),
    options: u32,
    bytes: (In<u8>, usize),
    handles: usize,
) -> Result<(Id<Channel>, Vec<u8>), Status> {
    if options & !ZX_CHANNEL_WRITE_USE_IOVEC != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let channel = cx.get::<Channel>(value, wanted.rights)?;
    if handles > ZX_CHANNEL_MAX_MSG_HANDLES as usize {
        return Err(Status::OUT_OF_RANGE);
    }
    let data = read_data(cx, options, bytes.0, bytes.1)?;
    if data.len() < wanted.bytes {
        return Err(Status::INVALID_ARGS);
    }
    Ok((channel, data))
}

const WRITE: MessageRequirements = MessageRequirements { rights: Rights::WRITE, bytes: 0 };

/// The answer to a write. If the channel is full, the server treats the writer as a runaway and raises a policy
/// exception.
#[inline(never)]
fn written<M: Machine>(cx: &mut Cx<'_, M>, result: Result<Answer, Status>) -> Answer {
    match result {
        Err(status @ Status::SHOULD_WAIT) => {
            cx.overflow(ZX_EXCP_POLICY_CODE_CHANNEL_FULL_WRITE, Err::<(), _>(status).into_answer())
        }
        result => result.into_answer(),
    }
}

/// Writes a message.
pub fn channel_write<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    bytes: In<u8>,
    num_bytes: u32,
    handles: In<u32>,
    num_handles: u32,
) -> Answer {
    // Fast path for most messages: bytes from one buffer, and few handles.
    if options == 0 && num_handles as usize <= INLINE_HANDLES {
        return match write_plain(cx, value, bytes, num_bytes as usize, (handles, num_handles as usize)) {
            Ok(()) => Answer::Done(0),
            Err(status) => written(cx, Err(status)),
        };
    }
    let handles = (Source::Plain(handles), num_handles as usize);
    let gathered = gather(cx, (value, WRITE), options, (bytes, num_bytes as usize), handles);
    let result = gathered.and_then(|(channel, message)| send(cx, channel, message));
    written(cx, result.map(|()| Answer::Done(0)))
}

/// [`gather`] and [`send`] for a message of bytes from one buffer and few handles.
#[inline(always)]
fn write_plain<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    bytes: In<u8>,
    count: usize,
    (values, handles): (In<u32>, usize),
) -> Result<(), Status> {
    let channel = cx.get::<Channel>(value, WRITE.rights);
    let channel_and_data = channel.and_then(|channel| Ok((channel, cx.read_bytes(bytes, count)?)));
    let (channel, data) = match channel_and_data {
        Ok(found) => found,
        Err(status) => {
            consume(cx, Source::Plain(values), handles, status);
            return Err(status);
        }
    };
    let handles = if handles == 0 { Vec::new() } else { take_inline(cx, channel, values, handles)? };
    cx.kernel.channel_write(channel, Message { data, handles })
}

/// [`objects::Kernel::channel_write`], not inlined, for calls off the fast path.
#[inline(never)]
fn send<M: Machine>(cx: &mut Cx<'_, M>, channel: Id<Channel>, message: Message) -> Result<(), Status> {
    cx.kernel.channel_write(channel, message)
}

/// Writes a message whose handles are moved or duplicated with reduced rights.
pub fn channel_write_etc<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    bytes: In<u8>,
    num_bytes: u32,
    handles: InOut<zx_handle_disposition_t>,
    num_handles: u32,
) -> Answer {
    let handles = (Source::Dispositions(handles), num_handles as usize);
    let gathered = gather(cx, (value, WRITE), options, (bytes, num_bytes as usize), handles);
    let result = gathered.and_then(|(channel, message)| send(cx, channel, message));
    written(cx, result.map(|()| Answer::Done(0)))
}

struct ReadBuffers {
    bytes: Out<u8>,
    handles: u64,
    num_bytes: u32,
    num_handles: u32,
    actual_bytes: Out<u32>,
    actual_handles: Out<u32>,
    etc: bool,
}

impl ReadBuffers {
    /// Bytes per handle in the array.
    fn handle_size(&self) -> usize {
        if self.etc { size_of::<zx_handle_info_t>() } else { size_of::<u32>() }
    }
}

#[inline(always)]
fn read<M: Machine>(cx: &mut Cx<'_, M>, value: HandleValue, options: u32, to: &ReadBuffers) -> Result<(), Status> {
    let channel = cx.get::<Channel>(value, Rights::READ)?;
    if options & !ZX_CHANNEL_READ_MAY_DISCARD != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let (bytes, handles) = cx.kernel.channel_peek(channel)?;
    cx.write_optional(to.actual_bytes, bytes as u32)?;
    cx.write_optional(to.actual_handles, handles as u32)?;
    if bytes > to.num_bytes as usize || handles > to.num_handles as usize {
        return too_small(cx, channel, options);
    }
    let mut place = UserDestination::NOWHERE;
    if handles > 0 {
        // What cannot be delivered stays in the channel.
        place = cx.kernel.user_place(cx.aspace, to.handles, handles * to.handle_size())?;
        cx.kernel.reserve_handles(cx.process, handles)?;
    }
    let message = cx.kernel.channel_read(channel)?;
    if let Err(status) = cx.write_bytes(to.bytes, &message.data) {
        cx.kernel.channel_unread(channel, message);
        return Err(status);
    }
    let Message { data, handles } = message;
    cx.kernel.buffers.give(data);
    if handles.is_empty() { Ok(()) } else { cx.kernel.deliver_handles((cx.process, cx.aspace), handles, place, to.etc) }
}

#[cold]
fn too_small<M: Machine>(cx: &mut Cx<'_, M>, channel: Id<Channel>, options: u32) -> Result<(), Status> {
    if options & ZX_CHANNEL_READ_MAY_DISCARD != 0 {
        let message = cx.kernel.channel_read(channel)?;
        cx.kernel.drop_message(message);
    }
    Err(Status::BUFFER_TOO_SMALL)
}

/// Reads a message.
#[allow(clippy::too_many_arguments)]
pub fn channel_read<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    bytes: Out<u8>,
    handles: Out<u32>,
    num_bytes: u32,
    num_handles: u32,
    actual_bytes: Out<u32>,
    actual_handles: Out<u32>,
) -> Result<(), Status> {
    let handles = handles.0;
    let to = ReadBuffers { bytes, handles, num_bytes, num_handles, actual_bytes, actual_handles, etc: false };
    read(cx, value, options, &to)
}

/// Reads a message with the type and rights of each handle.
#[allow(clippy::too_many_arguments)]
pub fn channel_read_etc<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    bytes: Out<u8>,
    handles: Out<zx_handle_info_t>,
    num_bytes: u32,
    num_handles: u32,
    actual_bytes: Out<u32>,
    actual_handles: Out<u32>,
) -> Result<(), Status> {
    let handles = handles.0;
    let to = ReadBuffers { bytes, handles, num_bytes, num_handles, actual_bytes, actual_handles, etc: true };
    read(cx, value, options, &to)
}

/// Both forms of the call: their arguments have the same layout.
fn call<M: Machine>(
    cx: &mut Cx<'_, M>,
    (value, options, deadline): (HandleValue, u32, i64),
    args: In<zx_channel_call_args_t>,
    etc: bool,
    (actual_bytes, actual_handles): (Out<u32>, Out<u32>),
) -> Result<Waiting, Status> {
    const { assert!(size_of::<zx_channel_call_args_t>() == size_of::<zx_channel_call_etc_args_t>()) };
    let a = cx.read(args)?;
    let handles = a.wr_handles as u64;
    let source = if etc { Source::Dispositions(InOut::new(handles)) } else { Source::Plain(In::new(handles)) };
    let (bytes, count) = ((In::new(a.wr_bytes as u64), a.wr_num_bytes as usize), a.wr_num_handles as usize);
    // The message must have room for the transaction number.
    let wanted = MessageRequirements { rights: Rights::READ | Rights::WRITE, bytes: size_of::<u32>() };
    let (channel, message) = gather(cx, (value, wanted), options, bytes, (source, count))?;
    let buffers = CallBuffers {
        bytes: a.rd_bytes as u64,
        num_bytes: a.rd_num_bytes,
        handles: a.rd_handles as u64,
        num_handles: a.rd_num_handles,
        etc,
        actual_bytes: actual_bytes.0,
        actual_handles: actual_handles.0,
    };
    cx.kernel.channel_call(channel, cx.thread, message, deadline, buffers)
}

/// Writes a message and waits for the reply.
pub fn channel_call<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    deadline: i64,
    args: In<zx_channel_call_args_t>,
    actual_bytes: Out<u32>,
    actual_handles: Out<u32>,
) -> Answer {
    let result = call(cx, (value, options, deadline), args, false, (actual_bytes, actual_handles));
    written(cx, result.map(|waiting| Ok(waiting).into_answer()))
}

/// Writes a message and waits for the reply, with handle dispositions and handle descriptions.
pub fn channel_call_etc<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    deadline: i64,
    args: InOut<zx_channel_call_etc_args_t>,
    actual_bytes: Out<u32>,
    actual_handles: Out<u32>,
) -> Answer {
    let result = call(cx, (value, options, deadline), In::new(args.0), true, (actual_bytes, actual_handles));
    written(cx, result.map(|waiting| Ok(waiting).into_answer()))
}
