//! Being a client of an instance: the component has a process and a thread there, and makes Zircon's calls through the
//! crate `zx`.
//!
//! [`connect`] makes the component a client. From then on the functions that `zx` calls are those of this module: they
//! send the server the same messages that the vDSO sends in programs. The server cannot see the component's memory, so
//! the data that a call reads or writes goes through some pages that the server has mapped in the *window*; they have
//! room for 64 KiB and a few handles.
//!
//! The component's mappings are in the window, too. They may disappear at any time, because programs may decommit pages
//! of a VMO, and all of them disappear when the server ends. So they are read and written through [`Shared`], which
//! reports that.
//!
//! When the server ends, all calls return `PEER_CLOSED` until the component has connected to its next life. Handles of
//! an earlier connection are invalid in a later one: drop them before.

mod call;
mod copy;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use abi::Status;
use component_boot::{Connection, cspace, service};
use sel4::{CPtr, Message, MessageInfo};
use zx::{Channel, Handle, Process, Thread, Vmar, Vmo};

use copy::{CATCH_FROM, CATCH_TO};

/// What the calls need of the current connection.
pub(crate) struct Facts {
    connected: AtomicBool,
    process: AtomicU64,
    vmar: AtomicU64,
    /// Address and length of the memory for the calls' data.
    room: AtomicU64,
    room_len: AtomicU64,
    offset: AtomicU64,
    numerator: AtomicU64,
    denominator: AtomicU64,
    per_second: AtomicU64,
}

/// The current connection. The component has one thread, so this is not shared, but the compiler does not know that.
static FACTS: Facts = Facts {
    connected: AtomicBool::new(false),
    process: AtomicU64::new(0),
    vmar: AtomicU64::new(0),
    room: AtomicU64::new(0),
    room_len: AtomicU64::new(0),
    offset: AtomicU64::new(0),
    numerator: AtomicU64::new(0),
    denominator: AtomicU64::new(1),
    per_second: AtomicU64::new(0),
};

/// A component's handles as a client.
#[derive(Debug)]
pub struct Client {
    /// Its process.
    pub process: Process,
    /// Its thread.
    pub thread: Thread,
    /// The window.
    pub vmar: Vmar,
    /// See [`Client::accept`].
    clients: Channel,
}

/// Becomes a client of the instance that the description names in `client-of`; waits until that instance runs. An
/// earlier connection ends, with all its handles.
///
/// # Errors
/// `UNAVAILABLE`: the description names no instance, or it will not run again. `NO_MEMORY`: the instance has not enough
/// memory.
pub fn connect() -> zx::Result<Client> {
    FACTS.connected.store(false, Ordering::Relaxed);
    let words = [copy::address(&raw const CATCH_FROM), copy::address(&raw const CATCH_TO), 0, 0];
    let message = Message { info: MessageInfo::new(service::CONNECT, 2), mr: words };
    let reply = sel4::Endpoint(CPtr(cspace::ROOT)).call(message);
    match reply.info.label() {
        service::OK => {}
        service::NO_MEMORY => return Err(Status::NO_MEMORY),
        _ => return Err(Status::UNAVAILABLE),
    }
    let address = reply.mr[0];
    if (address as i64) < 0 {
        return Err(Status(address as i32));
    }
    let mut bytes = [0; size_of::<Connection>()];
    copy::read(address, &mut bytes).map_err(|_| Status::PEER_CLOSED)?;
    let connection: Connection = zerocopy::transmute!(bytes);
    let head = (bytes.len() as u64).next_multiple_of(64);
    let set = |place: &AtomicU64, value: u64| place.store(value, Ordering::Relaxed);
    set(&FACTS.process, connection.process.into());
    set(&FACTS.vmar, connection.vmar.into());
    set(&FACTS.room, address + head);
    set(&FACTS.room_len, connection.room.saturating_sub(head));
    set(&FACTS.offset, connection.offset);
    set(&FACTS.numerator, connection.numerator.into());
    set(&FACTS.denominator, u64::from(connection.denominator).max(1));
    set(&FACTS.per_second, connection.per_second);
    FACTS.connected.store(true, Ordering::Relaxed);
    let own = |value| Handle::from_raw(value).ok_or(Status::INTERNAL);
    Ok(Client {
        process: own(connection.process)?.into(),
        thread: own(connection.thread)?.into(),
        vmar: own(connection.vmar)?.into(),
        clients: own(connection.clients)?.into(),
    })
}

impl Client {
    /// Returns the next handle that a program has sent by `zx_endpoint_connect`, and the index of the offered name
    /// under which that program found the component. A component can wait for one on [`Client::clients`].
    ///
    /// # Errors
    /// `SHOULD_WAIT`: there is none. `PEER_CLOSED`: the server has ended.
    pub fn accept(&self) -> zx::Result<(u32, Handle)> {
        let (mut offer, mut handles) = ([0; 4], [None]);
        self.clients.read(&mut offer, &mut handles).map_err(|(status, _)| status)?;
        let [handle] = handles;
        Ok((u32::from_le_bytes(offer), handle.ok_or(Status::INTERNAL)?))
    }

    /// The channel that delivers these handles.
    pub fn clients(&self) -> &Channel {
        &self.clients
    }

    /// Maps pages of a VMO for reading, and with `write` also for writing.
    ///
    /// # Errors
    /// As [`Vmar::map`].
    pub fn share(&self, vmo: &Vmo, offset: u64, len: usize, write: bool) -> zx::Result<Shared<'_>> {
        let write_option = if write { abi::ZX_VM_PERM_WRITE } else { 0 };
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_MAP_RANGE | write_option;
        let address = self.vmar.map(options, 0, vmo, offset, len)?;
        Ok(Shared { vmar: &self.vmar, address: address as u64, len, write })
    }
}

/// Mapped pages that are shared with programs. Dropping this unmaps them.
pub struct Shared<'c> {
    vmar: &'c Vmar,
    address: u64,
    len: usize,
    write: bool,
}

impl Shared<'_> {
    /// Copies bytes out of the pages. A range that is aligned to 8 bytes, in address and length, is read word by word.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond the end. `PEER_CLOSED`: the server has ended. Or the reason why a page is not available.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> zx::Result<()> {
        let at = self.place(offset, bytes.len())?;
        copy::read(at, bytes)
    }

    /// Copies bytes into the pages, in the same way.
    ///
    /// # Errors
    /// As [`Shared::read`]. `ACCESS_DENIED`: they were mapped only for reading.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> zx::Result<()> {
        if !self.write {
            return Err(Status::ACCESS_DENIED);
        }
        let at = self.place(offset, bytes.len())?;
        copy::write(at, bytes)
    }

    fn place(&self, offset: usize, len: usize) -> zx::Result<u64> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.address + offset as u64),
            _ => Err(Status::OUT_OF_RANGE),
        }
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        let _ = self.vmar.unmap(self.address as usize, self.len);
    }
}
