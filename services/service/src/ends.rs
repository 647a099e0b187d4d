//! The ends of channels that clients gave.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zx::{AsHandleRef, Channel, Handle, HandleRef, Info, Result, Rights, Socket, Status, Vmo};

/// The koids of the ends that a service holds.
type Koids = Arc<Mutex<HashSet<u64>>>;

/// The ends of clients' channels that a service holds. Of no channel does it hold both: such a channel would never
/// close, whoever sent it.
#[derive(Clone, Debug, Default)]
pub struct Ends(Koids);

/// An end of a channel that a service holds.
#[derive(Debug)]
pub struct End {
    // Closed before it is forgotten.
    channel: Channel,
    _held: Held,
}

/// That an end is held.
#[derive(Debug)]
struct Held {
    koid: u64,
    all: Koids,
}

impl Ends {
    /// Takes what a client sent as an end of a channel; or an end that the service made itself, so that its other end cannot come
    /// back as a client.
    ///
    /// # Errors
    /// `WRONG_TYPE`: it is none. `ACCESS_DENIED`: it cannot be read, written or waited for. `INVALID_ARGS`: the service holds
    /// this end already, or the other one.
    pub fn take(&self, handle: Handle) -> Result<End> {
        let info = checked(&handle, abi::ZX_OBJ_TYPE_CHANNEL, Rights::READ | Rights::WRITE | Rights::WAIT)?;
        let mut held = lock(&self.0);
        if held.contains(&info.related_koid) || !held.insert(info.koid) {
            return Err(Status::INVALID_ARGS);
        }
        Ok(End { channel: handle.into(), _held: Held { koid: info.koid, all: self.0.clone() } })
    }
}

impl End {
    /// Gives the end away: the service does not hold it any more.
    pub fn into_handle(self) -> Handle {
        self.channel.into_handle()
    }
}

/// Takes what a client sent as an end of a socket.
///
/// # Errors
/// `WRONG_TYPE`: it is none. `ACCESS_DENIED`: it cannot be read, written or waited for.
pub fn socket(handle: Handle) -> Result<Socket> {
    checked(&handle, abi::ZX_OBJ_TYPE_SOCKET, Rights::READ | Rights::WRITE | Rights::WAIT)?;
    Ok(handle.into())
}

/// Takes what a client sent as an end of a socket that others get: with these rights, and no others; of datagrams, or of a
/// stream.
///
/// # Errors
/// `WRONG_TYPE`: it is none such. `ACCESS_DENIED`: it has not these rights.
pub fn socket_for(handle: Handle, datagrams: bool, rights: Rights) -> Result<Socket> {
    checked(&handle, abi::ZX_OBJ_TYPE_SOCKET, rights | Rights::INSPECT)?;
    let socket = Socket::from(handle);
    if (socket.info()?.options & abi::ZX_SOCKET_DATAGRAM != 0) != datagrams {
        return Err(Status::WRONG_TYPE);
    }
    socket.replace(rights)
}

/// Takes what a client sent as memory. Whoever reads or writes it never waits for a program: no pager supplies it.
///
/// # Errors
/// `WRONG_TYPE`: it is none. `ACCESS_DENIED`: it has not these rights. `NOT_SUPPORTED`: a pager supplies it.
pub fn memory(handle: Handle, rights: Rights) -> Result<Vmo> {
    checked(&handle, abi::ZX_OBJ_TYPE_VMO, rights)?;
    let flags = handle.info_record::<abi::zx_info_vmo_t>(abi::ZX_INFO_VMO)?.flags;
    if flags & abi::ZX_INFO_VMO_PAGER_BACKED == 0 { Ok(handle.into()) } else { Err(Status::NOT_SUPPORTED) }
}

/// What a handle is, if it is of this kind and has these rights.
fn checked(handle: &Handle, kind: u32, rights: Rights) -> Result<abi::zx_info_handle_basic_t> {
    let info = handle.basic_info()?;
    if info.type_ != kind {
        return Err(Status::WRONG_TYPE);
    }
    if !Rights::from_bits_retain(info.rights).contains(rights) {
        return Err(Status::ACCESS_DENIED);
    }
    Ok(info)
}

fn lock(held: &Koids) -> MutexGuard<'_, HashSet<u64>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Deref for End {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.channel
    }
}

impl AsHandleRef for End {
    fn as_handle_ref(&self) -> HandleRef<'_> {
        self.channel.as_handle_ref()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.koid);
    }
}
