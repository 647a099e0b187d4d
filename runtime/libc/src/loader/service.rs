//! The loader service: whoever made this process hands out libraries by name, over a channel (`fuchsia.ldsvc.Loader`,
//! whose messages are [`processargs::ldsvc`]'s).

use crate::lock::Lock;
use crate::sys::{self, ChannelCallArgs, Handle, Status};
use crate::system::check;
use processargs::ldsvc::{MAX_MESSAGE, Request, Response};

static CHANNEL: Lock<Handle> = Lock::new(sys::HANDLE_INVALID);

/// Puts `channel` in the place of the loader service's; gives the old one.
pub fn set_channel(channel: Handle) -> Handle {
    core::mem::replace(&mut *CHANNEL.lock(), channel)
}

/// Sends a request, with a handle where it takes one; gives the handle that comes with the answer (0 = none).
fn call(request: Request, sent: Handle) -> Result<Handle, Status> {
    let channel = CHANNEL.lock();
    let mut message = [0u8; MAX_MESSAGE];
    // The transaction's number is the kernel's to fill in.
    let size = request.encode(0, &mut message).map_err(|_| sys::ERR_INVALID_ARGS)?;
    let mut answer = [0u8; 64];
    let mut received = sys::HANDLE_INVALID;
    let args = ChannelCallArgs {
        wr_bytes: message.as_ptr().cast(),
        wr_handles: &sent,
        rd_bytes: answer.as_mut_ptr().cast(),
        rd_handles: &mut received,
        wr_num_bytes: size as u32,
        wr_num_handles: u32::from(sent != sys::HANDLE_INVALID),
        rd_num_bytes: answer.len() as u32,
        rd_num_handles: 1,
    };
    let (mut bytes, mut handles) = (0, 0);
    // SAFETY: all buffers are valid and as long as said.
    check(unsafe { sys::zx_channel_call(*channel, 0, sys::TIME_INFINITE, &args, &mut bytes, &mut handles) })?;
    let answer = answer.get(..bytes as usize).ok_or(sys::ERR_BAD_STATE)?;
    let decoded = Response::decode(answer, handles as usize).map_err(|_| sys::ERR_BAD_STATE);
    decoded.and_then(|(_, response)| check(response.status)).inspect_err(|_| {
        if handles != 0 {
            // SAFETY: a handle that nobody wants.
            unsafe { sys::zx_handle_close(received) };
        }
    })?;
    Ok(received)
}

/// The memory object that holds the library `name`.
pub fn load_object(name: &[u8]) -> Result<Handle, Status> {
    let name = core::str::from_utf8(name).map_err(|_| sys::ERR_NOT_FOUND)?;
    match call(Request::LoadObject(name), sys::HANDLE_INVALID)? {
        sys::HANDLE_INVALID => Err(sys::ERR_NOT_FOUND),
        object => Ok(object),
    }
}

/// A connection of one's own to the loader service, to be given to another process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_clone_loader_service(out: *mut Handle) -> Status {
    let (mut own, mut other) = (sys::HANDLE_INVALID, sys::HANDLE_INVALID);
    // SAFETY: valid places for the results.
    let status = unsafe { sys::zx_channel_create(0, &mut own, &mut other) };
    if status != sys::OK {
        return status;
    }
    match call(Request::Clone, other) {
        Ok(_) => {
            // SAFETY: the caller's place for the result.
            unsafe { *out = own };
            sys::OK
        }
        Err(status) => {
            // SAFETY: our end; the other one went with the request or was closed by it.
            unsafe { sys::zx_handle_close(own) };
            status
        }
    }
}

/// Uses another loader service from now on; gives the handle of the one before.
#[unsafe(no_mangle)]
pub extern "C" fn dl_set_loader_service(channel: Handle) -> Handle {
    set_channel(channel)
}
