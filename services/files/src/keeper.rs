//! The content of files in memory: VMOs that a separate process creates, the *keeper*.
//!
//! A VMO is charged to the job of the process that created it, for as long as the VMO lives. So the limit of the
//! keeper's job limits all files together. A write that would exceed it fails for lack of memory, whether it comes
//! through a stream or a mapping. The server enforces this, not a count here. The process with the names is outside of
//! that job and still has memory when files have used up theirs.
//!
//! 1. The file system sends [`MAKE`] with a number, and gets that many VMOs, or a status.
//! 2. It sends [`USAGE`] and gets two numbers: the limit, and how much of it is used.

use std::cell::RefCell;
use std::rc::Rc;

use abi::{HAFNON_PROP_JOB_MEMORY_LIMIT, HAFNON_PROP_JOB_MEMORY_USED, ZX_VMO_OP_ZERO};
use file_protocol::{Error, Result};
use service::{Clients, Event};
use zx::{AsHandleRef, Channel, Handle, Info, Job, MonotonicInstant, Port, Rights, Signals, Status, Stream, Vmo};

use crate::memory::{Content, Source, Tree};
use crate::serving::ServedFileSystem;
use crate::system::Node;

/// The request for VMOs: this byte and their number.
const MAKE: u8 = 1;
/// The request for the limit and its use.
const USAGE: u8 = 2;
/// Number of VMOs that the file system asks for at once.
const BATCH: usize = 16;
/// Maximum size of a file in bytes. Memory is committed on the first write to a page, so a large VMO costs nothing.
pub const FILE_MAX: u64 = 1 << 40;
const PAGE: u64 = 4096;
/// Size of a message in bytes: a transaction number and a request, or a status and two numbers.
const MESSAGE: usize = 24;

/// Creates VMOs until no client is left.
///
/// # Errors
/// A message for the log.
pub fn run() -> std::result::Result<(), String> {
    const CLIENTS: u64 = 0;
    let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
    let clients = Clients::take()?;
    let job = zx::startup::take(u32::from(JOB), 0).map(Job::from);
    let port = Port::create().map_err(step("a port"))?;
    let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
    clients.0.wait_async(&port, CLIENTS, signals, 0).map_err(step("clients"))?;
    // All clients are file systems: `init` connects no other program.
    let mut channels: Vec<Option<Channel>> = Vec::new();
    loop {
        let packet = port.wait(MonotonicInstant::INFINITE).map_err(step("the port"))?;
        if packet.key == CLIENTS {
            match clients.next() {
                Ok(Event::Ended(_)) => {}
                Ok(Event::Client(client)) => {
                    for channel in client.handles.into_iter().map(Channel::from) {
                        if channel.wait_async(&port, channels.len() as u64 + 1, signals, 0).is_ok() {
                            channels.push(Some(channel));
                        }
                    }
                }
                Err(Status::SHOULD_WAIT) => {}
                Err(_) => return Ok(()),
            }
            clients.0.wait_async(&port, CLIENTS, signals, 0).map_err(step("clients"))?;
        } else if let Some(place) = usize::try_from(packet.key - 1).ok().and_then(|index| channels.get_mut(index))
            && let Some(channel) = place
            && answer(channel, job.as_ref()).and_then(|()| channel.wait_async(&port, packet.key, signals, 0)).is_err()
        {
            *place = None;
        }
    }
}

/// The start handle for the keeper's job (`PA_USER2`).
const JOB: u8 = 0xf2;

fn answer(channel: &Channel, job: Option<&Job>) -> zx::Result<()> {
    let mut bytes = [0; MESSAGE];
    let size = match channel.read(&mut bytes, &mut []) {
        Ok(size) => size,
        Err((Status::SHOULD_WAIT, _)) => return Ok(()),
        Err((status, _)) => return Err(status),
    };
    let [id @ .., _, _] = *bytes.first_chunk::<6>().ok_or(Status::INVALID_ARGS)?;
    let mut reply = [0; MESSAGE];
    reply[..4].copy_from_slice(&id);
    match &bytes[4..size.bytes.max(4)] {
        [MAKE, count] => {
            let made: zx::Result<Vec<Handle>> =
                (0..usize::from(*count).min(zx::MAX_MESSAGE_HANDLES)).map(|_| make().map(Vmo::into_handle)).collect();
            match made {
                Ok(handles) => channel.write_handles(&reply, handles),
                Err(status) => {
                    reply[4..8].copy_from_slice(&status.0.to_le_bytes());
                    channel.write(&reply, [])
                }
            }
        }
        [USAGE] => {
            let property = |property| job.and_then(|job| job.get_property_u64(property).ok());
            let physical = zx::system_get_physmem();
            let limit = property(HAFNON_PROP_JOB_MEMORY_LIMIT).unwrap_or(physical).min(physical);
            let used = property(HAFNON_PROP_JOB_MEMORY_USED).unwrap_or(0).min(limit);
            reply[8..16].copy_from_slice(&limit.to_le_bytes());
            reply[16..24].copy_from_slice(&used.to_le_bytes());
            channel.write(&reply, [])
        }
        _ => Err(Status::INVALID_ARGS),
    }
}

fn make() -> zx::Result<Vmo> {
    let vmo = Vmo::create(FILE_MAX, 0)?;
    vmo.set_stream_size(0)?;
    Ok(vmo)
}

/// The file system's side: a stock of VMOs for the files of all trees of the process.
#[derive(Clone)]
pub struct Keeper(Rc<RefCell<VmoStock>>);

struct VmoStock {
    channel: Channel,
    vmos: Vec<Vmo>,
}

impl Keeper {
    /// Creates the client of the keeper at the other end.
    pub fn new(channel: Channel) -> Keeper {
        Keeper(Rc::new(RefCell::new(VmoStock { channel, vmos: Vec::new() })))
    }
}

impl VmoStock {
    fn ask(&self, request: &[u8], handles: &mut [Option<Handle>]) -> zx::Result<([u64; 2], usize)> {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(request);
        let mut reply = [0; MESSAGE];
        let size = self.channel.call(MonotonicInstant::INFINITE, &bytes, [], &mut reply, handles)?;
        let word = |at: usize| reply[at..at + 8].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match word(0) as i64 >> 32 {
            0 => Ok(([word(8), word(16)], size.handles)),
            status => Err(Status(status as i32)),
        }
    }
}

impl Source for Keeper {
    type Content = Memory;

    fn create(&mut self) -> Result<Memory> {
        let mut stock = self.0.borrow_mut();
        if stock.vmos.is_empty() {
            let mut handles: [Option<Handle>; BATCH] = [const { None }; BATCH];
            if stock.ask(&[MAKE, BATCH as u8], &mut handles).is_err() {
                // A whole batch failed; there may be memory for one.
                stock.ask(&[MAKE, 1], &mut handles).map_err(of_write)?;
            }
            stock.vmos.extend(handles.into_iter().flatten().map(Vmo::from));
        }
        stock.vmos.pop().map(Memory).ok_or(Error::Full)
    }

    fn usage(&mut self) -> (u64, u64) {
        self.0.borrow().ask(&[USAGE], &mut []).map_or((0, 0), |([limit, used], _)| (limit, used))
    }
}

/// The error that a writer gets for a status.
fn of_write(status: Status) -> Error {
    match status {
        Status::NO_MEMORY | Status::NO_SPACE => Error::Full,
        Status::OUT_OF_RANGE | Status::FILE_BIG => Error::TooLarge,
        _ => Error::Damaged,
    }
}

/// A file's content: a VMO of the maximum size, whose content size is the file's size.
pub struct Memory(pub Vmo);

impl Memory {
    /// Duplicates the VMO's handle for a client that maps it.
    ///
    /// # Errors
    /// `Memory`.
    pub fn share(&self, write: bool) -> Result<Vmo> {
        let mut rights = Rights::BASIC | Rights::READ | Rights::MAP | Rights::GET_PROPERTY;
        rights.set(Rights::WRITE, write);
        self.0.duplicate(rights).map_err(|_| Error::Memory)
    }
}

impl Content for Memory {
    fn size(&self) -> u64 {
        self.0.get_stream_size().unwrap_or(0)
    }

    fn stored(&self) -> u64 {
        self.0.info_record::<abi::zx_info_vmo_t>(abi::ZX_INFO_VMO).map_or(0, |info| info.committed_bytes)
    }

    fn resize(&self, size: u64) -> Result<()> {
        self.0.set_stream_size(size).map_err(of_write)?;
        let rest = size.next_multiple_of(PAGE);
        if rest < FILE_MAX {
            // Frees the pages beyond the end. They read as zeros afterwards. The server zeros the rest of the last page
            // when the content grows again.
            self.0.op_range(ZX_VMO_OP_ZERO, rest, FILE_MAX - rest).map_err(of_write)?;
        }
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let left = self.size().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        if len > 0 {
            // Reads beyond the end fail, even reads of zero bytes.
            self.0.read(&mut bytes[..len], offset).map_err(|_| Error::Memory)?;
        }
        Ok(len)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= FILE_MAX).ok_or(Error::TooLarge)?;
        // The size comes first: the server zeros the bytes that a growing content gains.
        let before = self.size();
        if end > before {
            self.0.set_stream_size(end).map_err(of_write)?;
        }
        if let Err(status) = self.0.write(bytes, offset) {
            if end > before {
                self.0.set_stream_size(before).map_err(of_write)?;
            }
            return Err(of_write(status));
        }
        Ok(bytes.len())
    }
}

impl ServedFileSystem for Tree<Keeper> {
    fn stream(&mut self, file: Node, flags: u32) -> Result<Option<Stream>> {
        use file_protocol::flags::{APPEND, READ, WRITE};
        let mut mode = 0;
        for (flag, bit) in
            [(READ, abi::ZX_STREAM_MODE_READ), (WRITE, abi::ZX_STREAM_MODE_WRITE), (APPEND, abi::ZX_STREAM_MODE_APPEND)]
        {
            if flags & flag != 0 {
                mode |= bit;
            }
        }
        Stream::create(mode, &self.content(file)?.0, 0).map(Some).map_err(|_| Error::Memory)
    }

    fn memory(&mut self, file: Node, write: bool) -> Result<Vmo> {
        self.content(file)?.share(write)
    }
}
