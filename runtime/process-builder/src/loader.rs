//! Both sides of the loader service: [`load_object`] and [`clone`] are the client's, [`answer`] is the server's.

use abi::{Rights, Status, ZX_VMO_CHILD_NO_WRITE, ZX_VMO_CHILD_SLICE};
use processargs::ldsvc::{self, Request, Response};
use zx::{AsHandleRef, Channel, Handle, Info, MonotonicInstant, Vmo};

/// Requests a file from a loader service.
///
/// # Errors
/// The service's status, or why there is no answer.
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
/// The service's status, or why there is no answer.
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

/// Result of [`answer`].
#[derive(Debug, PartialEq, Eq)]
pub enum Answered {
    /// There was no request.
    Nothing,
    /// The request was answered; more can follow.
    Yes,
    /// The client has ended the connection.
    Done,
}

/// Reads one request from a client without waiting, and answers it. `find` returns a library's VMO; `add` takes the
/// channel of another connection, which the caller must serve too.
///
/// # Errors
/// The connection has failed, and the caller must drop the channel: the client has closed it ([`Status::PEER_CLOSED`]),
/// has sent an invalid message, or does not read its answers ([`Status::SHOULD_WAIT`]).
pub fn answer(
    client: &Channel,
    find: impl FnOnce(&str) -> Result<Vmo, Status>,
    add: impl FnOnce(Handle) -> Result<(), Status>,
) -> Result<Answered, Status> {
    let mut bytes = [0; ldsvc::MAX_MESSAGE];
    let mut handles = [None];
    let size = match client.read(&mut bytes, &mut handles) {
        Ok(size) => size,
        Err((Status::SHOULD_WAIT, _)) => return Ok(Answered::Nothing),
        Err((status, _)) => return Err(status),
    };
    let (transaction, request) =
        Request::decode(&bytes[..size.bytes], size.handles).map_err(|_| Status::INVALID_ARGS)?;
    let (ordinal, result) = match request {
        Request::Done => return Ok(Answered::Done),
        Request::LoadObject(name) => (ldsvc::LOAD_OBJECT, find(name).map(Some)),
        // There are no variants of libraries.
        Request::Config(_) => (ldsvc::CONFIG, Err(Status::NOT_SUPPORTED)),
        Request::Clone => {
            let [handle] = &mut handles;
            let other = handle.take().ok_or(Status::INVALID_ARGS)?;
            (ldsvc::CLONE, add(other).map(|()| None))
        }
    };
    let (status, object) = result.map_or_else(|status| (status, None), |object| (Status::OK, object));
    let mut reply = [0; ldsvc::MAX_MESSAGE];
    let response = Response { ordinal, status: status.0, has_object: object.is_some() };
    let len = response.encode(transaction, &mut reply).map_err(|_| Status::INTERNAL)?;
    client.write_handles(&reply[..len], object.map(Vmo::into_handle))?;
    Ok(Answered::Yes)
}

/// A VMO of one file of a BOOTFS image, with rights to read, map and execute, but not to write. Nothing is copied.
///
/// # Errors
/// Errors of the kernel; [`Status::NOT_SUPPORTED`] for an empty file.
pub fn boot_file(image: &Vmo, entry: &bootfs::Entry<'_>) -> Result<Vmo, Status> {
    if entry.size == 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let options = ZX_VMO_CHILD_SLICE | ZX_VMO_CHILD_NO_WRITE;
    let vmo = image.create_child(options, u64::from(entry.offset), u64::from(entry.size))?;
    vmo.set_name(entry.name.rsplit('/').next().unwrap_or(entry.name))?;
    let rights = Rights::from_bits_retain(vmo.basic_info()?.rights);
    let keep = Rights::BASIC | Rights::READ | Rights::EXECUTE | Rights::MAP | Rights::GET_PROPERTY;
    vmo.replace(rights & keep)
}
