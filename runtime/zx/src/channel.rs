//! Channels: messages of bytes and handles between two ends.

use abi::{Status, zx_handle_disposition_t, zx_handle_info_t};

use crate::handle::object;
use crate::{AsHandleRef, Handle, MonotonicInstant, Result, check, sys};

/// Limit on the bytes of a message.
pub const MAX_MESSAGE_BYTES: usize = 65536;
/// Limit on the handles of a message.
pub const MAX_MESSAGE_HANDLES: usize = 64;

object! {
    /// One end of a channel.
    Channel
}

/// The size of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MessageSize {
    /// Bytes.
    pub bytes: usize,
    /// Handles.
    pub handles: usize,
}

impl Channel {
    /// Makes a channel and returns its two ends.
    ///
    /// # Errors
    /// [`Status::NO_MEMORY`].
    pub fn create() -> Result<(Channel, Channel)> {
        let (mut a, mut b) = (0, 0);
        // SAFETY: `a` and `b` have room for one handle each.
        check(unsafe { sys::zx_channel_create(0, &mut a, &mut b) })?;
        Ok((Channel(Handle::from_call(a)?), Channel(Handle::from_call(b)?)))
    }

    /// Writes a message. Consumes the handles, even on failure.
    ///
    /// # Errors
    /// [`Status::PEER_CLOSED`]; [`Status::OUT_OF_RANGE`]: the message exceeds the limits.
    pub fn write<const N: usize>(&self, bytes: &[u8], handles: [Handle; N]) -> Result<()> {
        let raw = handles.map(Handle::into_raw);
        self.write_raw(bytes, &raw)
    }

    /// Writes a message with the handles of an iterator, at most [`MAX_MESSAGE_HANDLES`].
    ///
    /// # Errors
    /// As [`Channel::write`].
    pub fn write_handles(&self, bytes: &[u8], handles: impl IntoIterator<Item = Handle>) -> Result<()> {
        let mut raw = [0; MAX_MESSAGE_HANDLES];
        let mut used = 0;
        let mut handles = handles.into_iter();
        while let Some(handle) = handles.next() {
            let Some(place) = raw.get_mut(used) else {
                drop(handle);
                drop(handles);
                // SAFETY: the array is valid for its length.
                unsafe { sys::zx_handle_close_many(raw.as_ptr(), used) };
                return Err(Status::OUT_OF_RANGE);
            };
            *place = handle.into_raw();
            used += 1;
        }
        self.write_raw(bytes, &raw[..used])
    }

    fn write_raw(&self, bytes: &[u8], handles: &[sys::zx_handle_t]) -> Result<()> {
        // A length that exceeds `u32` exceeds the limit in any case.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if len == u32::MAX {
            return Err(Status::OUT_OF_RANGE);
        }
        // SAFETY: both buffers are valid for their lengths.
        check(unsafe {
            sys::zx_channel_write(
                self.raw_handle(),
                0,
                bytes.as_ptr().cast(),
                len,
                handles.as_ptr(),
                handles.len() as u32,
            )
        })
    }

    /// Writes a message whose handles are moved or duplicated with chosen rights; each disposition receives its result.
    ///
    /// # Errors
    /// As [`Channel::write`].
    pub fn write_etc(&self, bytes: &[u8], handles: &mut [zx_handle_disposition_t]) -> Result<()> {
        // SAFETY: both buffers are valid for their lengths.
        check(unsafe {
            sys::zx_channel_write_etc(
                self.raw_handle(),
                0,
                bytes.as_ptr().cast(),
                u32::try_from(bytes.len()).map_err(|_| Status::OUT_OF_RANGE)?,
                handles.as_mut_ptr(),
                u32::try_from(handles.len()).map_err(|_| Status::OUT_OF_RANGE)?,
            )
        })
    }

    /// Reads a message without waiting. Stores the handles in `handles`, in order.
    ///
    /// # Errors
    /// [`Status::SHOULD_WAIT`]: there is no message. [`Status::PEER_CLOSED`]. [`Status::BUFFER_TOO_SMALL`], with the
    /// sizes that the message needs; the message stays in the channel.
    pub fn read(
        &self,
        bytes: &mut [u8],
        handles: &mut [Option<Handle>],
    ) -> core::result::Result<MessageSize, (Status, MessageSize)> {
        let mut raw = [0; MAX_MESSAGE_HANDLES];
        let room = handles.len().min(MAX_MESSAGE_HANDLES);
        let (mut got_bytes, mut got_handles) = (0, 0);
        // SAFETY: both buffers are valid for the lengths given.
        let status = unsafe {
            sys::zx_channel_read(
                self.raw_handle(),
                0,
                bytes.as_mut_ptr().cast(),
                raw.as_mut_ptr(),
                u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                room as u32,
                &mut got_bytes,
                &mut got_handles,
            )
        };
        let size = MessageSize { bytes: got_bytes as usize, handles: got_handles as usize };
        check(status).map_err(|status| (status, size))?;
        for (place, raw) in handles.iter_mut().zip(&raw[..size.handles.min(room)]) {
            *place = Handle::from_raw(*raw);
        }
        Ok(size)
    }

    /// Waits for a message, then reads it.
    ///
    /// # Errors
    /// As [`Channel::read`], and [`Status::TIMED_OUT`].
    pub fn read_wait(
        &self,
        bytes: &mut [u8],
        handles: &mut [Option<Handle>],
        deadline: MonotonicInstant,
    ) -> Result<MessageSize> {
        loop {
            match self.read(bytes, handles) {
                Err((Status::SHOULD_WAIT, _)) => {
                    self.wait_one(abi::Signals::CHANNEL_READABLE | abi::Signals::CHANNEL_PEER_CLOSED, deadline)?;
                }
                other => return other.map_err(|(status, _)| status),
            }
        }
    }

    /// Reads a message, with type and rights of each handle. The caller owns the handles.
    ///
    /// # Errors
    /// As [`Channel::read`].
    pub fn read_etc(
        &self,
        bytes: &mut [u8],
        handles: &mut [zx_handle_info_t],
    ) -> core::result::Result<MessageSize, (Status, MessageSize)> {
        let (mut got_bytes, mut got_handles) = (0, 0);
        // SAFETY: both buffers are valid for the lengths given.
        let status = unsafe {
            sys::zx_channel_read_etc(
                self.raw_handle(),
                0,
                bytes.as_mut_ptr().cast(),
                handles.as_mut_ptr(),
                u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                u32::try_from(handles.len()).unwrap_or(u32::MAX),
                &mut got_bytes,
                &mut got_handles,
            )
        };
        let size = MessageSize { bytes: got_bytes as usize, handles: got_handles as usize };
        check(status).map(|()| size).map_err(|status| (status, size))
    }

    /// Sends a message, in whose first four bytes the kernel stores a transaction number, and waits for the answer with
    /// the same number. Consumes the handles, even on failure.
    ///
    /// # Errors
    /// [`Status::TIMED_OUT`], [`Status::PEER_CLOSED`]; [`Status::BUFFER_TOO_SMALL`]: the answer is longer.
    pub fn call<const N: usize>(
        &self,
        deadline: MonotonicInstant,
        bytes: &[u8],
        handles: [Handle; N],
        reply: &mut [u8],
        reply_handles: &mut [Option<Handle>],
    ) -> Result<MessageSize> {
        let raw = handles.map(Handle::into_raw);
        let mut raw_reply = [0; MAX_MESSAGE_HANDLES];
        let room = reply_handles.len().min(MAX_MESSAGE_HANDLES);
        let args = sys::zx_channel_call_args_t {
            wr_bytes: bytes.as_ptr().cast(),
            wr_handles: raw.as_ptr(),
            rd_bytes: reply.as_mut_ptr().cast(),
            rd_handles: raw_reply.as_mut_ptr(),
            wr_num_bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            wr_num_handles: raw.len() as u32,
            rd_num_bytes: u32::try_from(reply.len()).unwrap_or(u32::MAX),
            rd_num_handles: room as u32,
        };
        let (mut got_bytes, mut got_handles) = (0, 0);
        // SAFETY: the four buffers are valid for the lengths given and live until the call returns.
        check(unsafe {
            sys::zx_channel_call(self.raw_handle(), 0, deadline.0, &args, &mut got_bytes, &mut got_handles)
        })?;
        for (place, raw) in reply_handles.iter_mut().zip(&raw_reply[..(got_handles as usize).min(room)]) {
            *place = Handle::from_raw(*raw);
        }
        Ok(MessageSize { bytes: got_bytes as usize, handles: got_handles as usize })
    }
}
