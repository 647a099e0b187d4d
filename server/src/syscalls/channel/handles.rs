//! The handles in messages.
//!
//! Handles to be moved leave the caller even if the write fails: [`take`] takes them for the message, [`consume`]
//! closes them if the write fails before that.

use abi::{
    Rights, Status, SyscallInfo, ZX_HANDLE_OP_DUPLICATE, ZX_HANDLE_OP_MOVE, ZX_OBJ_TYPE_NONE, zx_channel_call_args_t,
    zx_handle_disposition_t,
};
use alloc::vec::Vec;
use objects::Id;
use objects::core::continuation::PAGE_WAIT;
use objects::core::handle::{Handle, HandleValue, INVALID};
use objects::ipc::channel::Channel;
use objects::machine::Machine;
use zerocopy::IntoBytes;

use crate::cx::Cx;
use crate::syscalls::handle::reduce;
use crate::user::{In, InOut};

/// Most messages have at most this many handles.
pub const INLINE_HANDLES: usize = 8;

/// Where the handles of a message come from.
#[derive(Clone, Copy)]
pub enum Source {
    Plain(In<u32>),
    Dispositions(InOut<zx_handle_disposition_t>),
}

/// Maximum number of handles that one refused call closes if it was given more than a message can carry.
const MAX_CONSUMED: usize = 1 << 16;

/// Consumes the handles of a call that failed before it took them, unless the call only waits for memory and will be
/// made again.
#[cold]
#[inline(never)]
pub fn consume<M: Machine>(cx: &mut Cx<'_, M>, source: Source, count: usize, status: Status) {
    if status == PAGE_WAIT {
        return;
    }
    for i in 0..count.min(MAX_CONSUMED) {
        let value = match source {
            Source::Plain(array) => cx.read(array.nth(i)),
            Source::Dispositions(array) => cx.read(array.input().nth(i)).map(|item| match item.operation {
                ZX_HANDLE_OP_DUPLICATE => INVALID,
                _ => item.handle,
            }),
        };
        match value {
            Ok(value) => cx.discard(value),
            // The rest of the array cannot be read either.
            Err(_) => return,
        }
    }
}

/// Takes handles out of the caller's table. All are consumed, even if one of them makes the call fail.
#[inline(always)]
fn take_handles<M: Machine>(
    cx: &mut Cx<'_, M>,
    channel: Id<Channel>,
    values: &[HandleValue],
) -> Result<Vec<Handle>, Status> {
    let (mut handles, mut result) = match cx.kernel.buffers.take_list(values.len()) {
        Ok(list) => (list, Ok(())),
        Err(status) => (Vec::new(), Err(status)),
    };
    for &value in values {
        let one = cx.kernel.take(cx.process, value).and_then(|handle| {
            let refused = if !handle.rights.contains(Rights::TRANSFER) {
                Some(Status::ACCESS_DENIED)
            } else if handle.object == channel.object() {
                Some(Status::NOT_SUPPORTED)
            } else {
                result.err()
            };
            refused.map_or(Ok(handle), |status| {
                cx.kernel.close(handle);
                Err(status)
            })
        });
        match one {
            Ok(handle) => handles.push(handle),
            Err(status) => result = result.and(Err(status)),
        }
    }
    if result.is_ok() { Ok(handles) } else { all_or_none(cx, handles, result) }
}

/// Returns the handles, or closes all of them if one failed.
fn all_or_none<M: Machine>(
    cx: &mut Cx<'_, M>,
    mut handles: Vec<Handle>,
    result: Result<(), Status>,
) -> Result<Vec<Handle>, Status> {
    if let Err(status) = result {
        handles.drain(..).for_each(|handle| cx.kernel.close(handle));
        cx.kernel.buffers.give_list(handles);
        return Err(status);
    }
    Ok(handles)
}

/// Carries out a handle disposition.
fn dispose<M: Machine>(
    cx: &mut Cx<'_, M>,
    channel: Id<Channel>,
    item: &zx_handle_disposition_t,
) -> Result<Handle, Status> {
    let held = cx.kernel.handle(cx.process, item.handle)?;
    if !held.rights.contains(Rights::TRANSFER) {
        return Err(Status::ACCESS_DENIED);
    }
    if held.object == channel.object() {
        return Err(Status::NOT_SUPPORTED);
    }
    if item.type_ != ZX_OBJ_TYPE_NONE && item.type_ != cx.kernel.objects.any(held.object)?.body.object_type() {
        return Err(Status::WRONG_TYPE);
    }
    let duplicate = match item.operation {
        ZX_HANDLE_OP_MOVE => false,
        ZX_HANDLE_OP_DUPLICATE => true,
        _ => return Err(Status::INVALID_ARGS),
    };
    let rights = reduce(held.rights, item.rights)?;
    if duplicate {
        if !held.rights.contains(Rights::DUPLICATE) {
            return Err(Status::ACCESS_DENIED);
        }
        return Ok(cx.kernel.dup_handle(Handle { object: held.object, rights }));
    }
    let taken = cx.kernel.take(cx.process, item.handle)?;
    Ok(Handle { object: taken.object, rights })
}

/// Takes or duplicates the handles of an array of dispositions. All are attempted; those to be moved are consumed in
/// any case. The status of a failed handle is written into its entry; the other entries keep their result.
fn take_dispositions<M: Machine>(
    cx: &mut Cx<'_, M>,
    channel: Id<Channel>,
    array: InOut<zx_handle_disposition_t>,
    count: usize,
) -> Result<Vec<Handle>, Status> {
    let room = cx.read_array(array.input(), count).and_then(|items| Ok((items, cx.kernel.buffers.take_list(count)?)));
    let (items, mut handles) = room.inspect_err(|&status| consume(cx, Source::Dispositions(array), count, status))?;
    let mut result = Ok(());
    for (i, item) in items.iter().enumerate() {
        match dispose(cx, channel, item) {
            Ok(handle) => handles.push(handle),
            Err(status) => {
                if item.operation != ZX_HANDLE_OP_DUPLICATE {
                    cx.discard(item.handle);
                }
                let told = cx.write(array.output().nth(i), zx_handle_disposition_t { result: status.0, ..*item });
                result = result.and(Err(status));
                result = result.and(told);
            }
        }
    }
    all_or_none(cx, handles, result)
}

#[inline(never)]
pub fn take<M: Machine>(
    cx: &mut Cx<'_, M>,
    channel: Id<Channel>,
    source: Source,
    count: usize,
) -> Result<Vec<Handle>, Status> {
    match source {
        Source::Plain(array) => {
            let values = cx.read_array(array, count).inspect_err(|&status| consume(cx, source, count, status))?;
            take_handles(cx, channel, &values)
        }
        Source::Dispositions(array) => take_dispositions(cx, channel, array, count),
    }
}

/// As [`take`], for at most [`INLINE_HANDLES`] handles.
#[inline(never)]
pub fn take_inline<M: Machine>(
    cx: &mut Cx<'_, M>,
    channel: Id<Channel>,
    array: In<u32>,
    count: usize,
) -> Result<Vec<Handle>, Status> {
    let mut values = [INVALID; INLINE_HANDLES];
    let values = values.get_mut(..count).unwrap_or_default();
    cx.kernel.copy_in(cx.aspace, array.0, values.as_mut_bytes())?;
    take_handles(cx, channel, values)
}

/// A call that is not made at all, for want of memory: the handles that it consumes leave the caller all the same.
#[cold]
#[inline(never)]
pub fn consume_refused<M: Machine>(cx: &mut Cx<'_, M>, call: &SyscallInfo, words: [u64; 8]) {
    let word = |name| call.args.iter().position(|arg| arg.name == name).and_then(|place| words.get(place).copied());
    for (arg, word_of_arg) in call.args.iter().zip(words).filter(|(arg, _)| arg.consumed) {
        let count = arg.len.and_then(word).map_or(1, |count| count as u32);
        let (source, count) = match (arg.ty, arg.dir) {
            ("handle", None) => {
                cx.discard(word_of_arg as u32);
                continue;
            }
            ("handle", Some(_)) => (Source::Plain(In::new(word_of_arg)), count),
            ("zx_handle_disposition_t", _) => (Source::Dispositions(InOut::new(word_of_arg)), count),
            (message, _) => {
                let Ok(args) = cx.read(In::<zx_channel_call_args_t>::new(word_of_arg)) else { return };
                let address = args.wr_handles as u64;
                match message {
                    "zx_channel_call_etc_args_t" => (Source::Dispositions(InOut::new(address)), args.wr_num_handles),
                    _ => (Source::Plain(In::new(address)), args.wr_num_handles),
                }
            }
        };
        consume(cx, source, count as usize, Status::NO_MEMORY);
    }
}
