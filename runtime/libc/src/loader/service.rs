//! Client of the loader service: the process's creator serves libraries by name over a channel (`fuchsia.ldsvc.Loader`;
//! messages in [`processargs::ldsvc`]).

use crate::lock::Lock;
use crate::sys::{self, ChannelCallArgs, Handle, Status};
use crate::system::check;
use processargs::ldsvc::{MAX_MESSAGE, Request, Response};

static CHANNEL: Lock<Handle> = Lock::new(sys::HANDLE_INVALID);

/// Replaces the channel to the loader service; returns the previous one.
pub fn set_channel(channel: Handle) -> Handle {
    core::mem::replace(&mut *CHANNEL.lock(), channel)
}

/// Sends a request, with a handle if it has one; returns the handle in the answer (0 = none).
fn call(request: Request, sent: Handle) -> Result<Handle, Status> {
    let channel = CHANNEL.lock();
    let mut message = [0u8; MAX_MESSAGE];
    // The kernel fills in the transaction's number.
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
    // SAFETY: all buffers are valid and have the given lengths.
    check(unsafe { sys::zx_channel_call(*channel, 0, sys::TIME_INFINITE, &args, &mut bytes, &mut handles) })?;
    let answer = answer.get(..bytes as usize).ok_or(sys::ERR_BAD_STATE)?;
    let decoded = Response::decode(answer, handles as usize).map_err(|_| sys::ERR_BAD_STATE);
    decoded.and_then(|(_, response)| check(response.status)).inspect_err(|_| {
        if handles != 0 {
            // SAFETY: nothing else uses the handle.
            unsafe { sys::zx_handle_close(received) };
        }
    })?;
    Ok(received)
}

/// Requests the VMO of the library `name`.
pub fn load_object(name: &[u8]) -> Result<Handle, Status> {
    let name = core::str::from_utf8(name).map_err(|_| sys::ERR_NOT_FOUND)?;
    match call(Request::LoadObject(name), sys::HANDLE_INVALID)? {
        sys::HANDLE_INVALID => Err(sys::ERR_NOT_FOUND),
        object => Ok(object),
    }
}

/// Opens a new connection to the loader service, for another process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_clone_loader_service(out: *mut Handle) -> Status {
    let (mut own, mut other) = (sys::HANDLE_INVALID, sys::HANDLE_INVALID);
    // SAFETY: there is room for the results.
    let status = unsafe { sys::zx_channel_create(0, &mut own, &mut other) };
    if status != sys::OK {
        return status;
    }
    match call(Request::Clone, other) {
        Ok(_) => {
            // SAFETY: `out` has room for the result.
            unsafe { *out = own };
            sys::OK
        }
        Err(status) => {
            // SAFETY: our end; the request has consumed the other one.
            unsafe { sys::zx_handle_close(own) };
            status
        }
    }
}

/// Replaces the loader service; returns the handle of the previous one.
#[unsafe(no_mangle)]
pub extern "C" fn dl_set_loader_service(channel: Handle) -> Handle {
    set_channel(channel)
}
