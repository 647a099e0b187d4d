//! A client of the loader service.

use abi::Status;
use processargs::ldsvc::{self, Request, Response};
use zx::{Channel, Handle, MonotonicInstant, Vmo};

/// Asks a loader service for a file.
///
/// # Errors
/// Its answer, or why there is none.
pub fn load_object(loader: &Channel, name: &str) -> Result<Vmo, Status> {
    let (status, handle) = call(loader, Request::LoadObject(name), None)?;
    match (status, handle) {
        (Status::OK, Some(handle)) => Ok(Vmo::from(handle)),
        (Status::OK, None) => Err(Status::INTERNAL),
        (status, _) => Err(status),
    }
}

/// Opens a second connection to a loader service.
///
/// # Errors
/// Its answer, or why there is none.
pub fn clone(loader: &Channel) -> Result<Channel, Status> {
    let (ours, theirs) = Channel::create()?;
    match call(loader, Request::Clone, Some(theirs.into_handle()))? {
        (Status::OK, _) => Ok(ours),
        (status, _) => Err(status),
    }
}

fn call(loader: &Channel, request: Request<'_>, handle: Option<Handle>) -> Result<(Status, Option<Handle>), Status> {
    let mut bytes = [0; ldsvc::MAX_MESSAGE];
    let len = request.encode(0, &mut bytes).map_err(|_| Status::INVALID_ARGS)?;
    let mut reply = [0; ldsvc::MAX_MESSAGE];
    let mut handles = [None];
    let deadline = MonotonicInstant::INFINITE;
    let size = match handle {
        Some(handle) => loader.call(deadline, &bytes[..len], [handle], &mut reply, &mut handles)?,
        None => loader.call(deadline, &bytes[..len], [], &mut reply, &mut handles)?,
    };
    let bytes = reply.get(..size.bytes).ok_or(Status::INTERNAL)?;
    let (_, response) = Response::decode(bytes, size.handles).map_err(|_| Status::INTERNAL)?;
    let [handle] = handles;
    Ok((Status(response.status), handle))
}
