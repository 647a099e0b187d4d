//! Ends of channels that clients sent.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zx::{AsHandleRef, Channel, Handle, HandleRef, Info, Result, Rights, Socket, Status, Vmo};

/// The koids of the ends that a service holds.
type Koids = Arc<Mutex<HashSet<u64>>>;

/// The ends of clients' channels that a service holds. It never holds both ends of a channel: such a channel would
/// never close, whichever program sent it.
#[derive(Clone, Debug, Default)]
pub struct ChannelEnds(Koids);

/// An end of a channel that a service holds.
#[derive(Debug)]
pub struct End {
    // The channel is closed before its koid is removed from the set.
    channel: Channel,
    _held: HeldMark,
}

/// Marks an end as held.
#[derive(Debug)]
struct HeldMark {
    koid: u64,
    all: Koids,
}

impl ChannelEnds {
    /// Takes an end of a channel that a client sent. A service also passes ends here that it created itself, so that a
    /// client cannot send their other ends.
    ///
    /// # Errors
    /// `WRONG_TYPE`: it is not a channel. `ACCESS_DENIED`: it cannot be read, written or waited for. `INVALID_ARGS`:
    /// the service already holds this end, or the other one.
    pub fn take(&self, handle: Handle) -> Result<End> {
        let info = checked(&handle, abi::ZX_OBJ_TYPE_CHANNEL, Rights::READ | Rights::WRITE | Rights::WAIT)?;
        let mut held = lock(&self.0);
        if held.contains(&info.related_koid) || !held.insert(info.koid) {
            return Err(Status::INVALID_ARGS);
        }
        Ok(End { channel: handle.into(), _held: HeldMark { koid: info.koid, all: self.0.clone() } })
    }
}

impl End {
    /// Gives the end away: the service does not hold it any more.
    pub fn into_handle(self) -> Handle {
        self.channel.into_handle()
    }
}

/// Takes an end of a socket that a client sent.
///
/// # Errors
/// `WRONG_TYPE`: it is not a socket. `ACCESS_DENIED`: it cannot be read, written or waited for.
pub fn socket(handle: Handle) -> Result<Socket> {
    checked(&handle, abi::ZX_OBJ_TYPE_SOCKET, Rights::READ | Rights::WRITE | Rights::WAIT)?;
    Ok(handle.into())
}

/// Takes an end of a socket that a client sent for other programs: with exactly these rights, of datagrams or of a
/// stream.
///
/// # Errors
/// `WRONG_TYPE`: it is not such a socket. `ACCESS_DENIED`: it lacks some of these rights.
pub fn socket_for(handle: Handle, datagrams: bool, rights: Rights) -> Result<Socket> {
    checked(&handle, abi::ZX_OBJ_TYPE_SOCKET, rights | Rights::INSPECT)?;
    let socket = Socket::from(handle);
    if (socket.info()?.options & abi::ZX_SOCKET_DATAGRAM != 0) != datagrams {
        return Err(Status::WRONG_TYPE);
    }
    socket.replace(rights)
}

/// Takes a VMO that a client sent. Accesses to it never wait for a program, because a VMO with a pager is refused.
///
/// # Errors
/// `WRONG_TYPE`: it is not a VMO. `ACCESS_DENIED`: it lacks some of these rights. `NOT_SUPPORTED`: a pager supplies it.
pub fn memory(handle: Handle, rights: Rights) -> Result<Vmo> {
    checked(&handle, abi::ZX_OBJ_TYPE_VMO, rights)?;
    let flags = handle.info_record::<abi::zx_info_vmo_t>(abi::ZX_INFO_VMO)?.flags;
    if flags & abi::ZX_INFO_VMO_PAGER_BACKED == 0 { Ok(handle.into()) } else { Err(Status::NOT_SUPPORTED) }
}

/// The basic information of a handle, if it is of this type and has these rights.
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

impl Drop for HeldMark {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.koid);
    }
}
