//! The loader service: gives the dynamic linkers of all programs their libraries out of BOOTFS.
//!
//! A dynamic linker holds a channel to this service and asks for libraries by name. Programs that start others clone
//! their connection (`Clone` brings the server's end of a new channel), so that there are as many connections as
//! programs: one thread waits for all of them on a port, where a connection's key is its number here.

use std::collections::HashMap;
use std::thread;

use bootfs::{Directory, HEADER_SIZE, Header};
use processargs::ldsvc::{self, Request, Response};
use zx::{AsHandleRef, Channel, Handle, MonotonicInstant, Port, Rights, Signals, Status, Vmo};

/// Where libraries lie in BOOTFS.
const DIRECTORY: &str = "lib";

/// What a program may do with a library's memory object: map and run it, not change it.
const LIBRARY_RIGHTS: Rights = Rights::from_bits_retain(
    Rights::READ.bits()
        | Rights::EXECUTE.bits()
        | Rights::MAP.bits()
        | Rights::DUPLICATE.bits()
        | Rights::TRANSFER.bits()
        | Rights::GET_PROPERTY.bits(),
);

/// Becomes the loader service of this process and, with that, of all that it starts.
///
/// # Errors
/// When the image cannot be had or the old service cannot be replaced; that one stays then.
pub fn serve() -> zx::Result<()> {
    let image = zx::startup::take(u32::from(processargs::PA_VMO_BOOTFS), 0).ok_or(Status::NOT_FOUND)?;
    let libraries = Libraries::new(Vmo::from(image))?;
    let (client, server) = Channel::create()?;
    let mut service = Service { port: Port::create()?, connections: HashMap::new(), next: 0, libraries };
    service.add(server)?;
    thread::Builder::new().name("loader".to_owned()).spawn(move || service.run()).map_err(|_| Status::NO_RESOURCES)?;
    drop(zx::startup::set_loader_service(client));
    Ok(())
}

/// The image's directory and the image.
struct Libraries {
    image: Vmo,
    size: u64,
    directory: Vec<u8>,
}

impl Libraries {
    fn new(image: Vmo) -> zx::Result<Self> {
        let size = image.get_size()?;
        let mut header = [0; HEADER_SIZE];
        image.read(&mut header, 0)?;
        let header = Header::parse(&header).map_err(|_| Status::IO_DATA_INTEGRITY)?;
        let mut directory = vec![0; header.directory_size()];
        image.read(&mut directory, HEADER_SIZE as u64)?;
        Ok(Self { image, size, directory })
    }

    /// A handle to the library's bytes.
    fn open(&self, name: &str) -> zx::Result<Vmo> {
        let directory = Directory::parse(&self.directory, self.size).map_err(|_| Status::IO_DATA_INTEGRITY)?;
        let entry = directory.find(&format!("{DIRECTORY}/{name}")).ok_or(Status::NOT_FOUND)?;
        let length = u64::from(entry.size);
        let pages = length.next_multiple_of(u64::from(bootfs::PAGE_SIZE));
        let file = self.image.create_child(abi::ZX_VMO_CHILD_SLICE, u64::from(entry.offset), pages)?;
        file.set_stream_size(length)?;
        // A library is known by its name where memory is listed; that one cannot be named is no reason to fail.
        let _ = file.set_name(name);
        file.replace(LIBRARY_RIGHTS)
    }
}

struct Service {
    port: Port,
    connections: HashMap<u64, Channel>,
    next: u64,
    libraries: Libraries,
}

impl Service {
    fn add(&mut self, channel: Channel) -> zx::Result<()> {
        self.next += 1;
        self.wait_for(&channel, self.next)?;
        self.connections.insert(self.next, channel);
        Ok(())
    }

    fn wait_for(&self, channel: &Channel, key: u64) -> zx::Result<()> {
        channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    fn run(&mut self) {
        let mut bytes = [0; ldsvc::MAX_MESSAGE];
        while let Ok(packet) = self.port.wait(MonotonicInstant::INFINITE) {
            let key = packet.key;
            let Some(channel) = self.connections.remove(&key) else { continue };
            if self.answer(&channel, &mut bytes).is_some() && self.wait_for(&channel, key).is_ok() {
                self.connections.insert(key, channel);
            }
        }
    }

    /// Answers one request. `None` when the connection is to be closed.
    fn answer(&mut self, channel: &Channel, bytes: &mut [u8]) -> Option<()> {
        let mut handles = [None];
        let size = match channel.read(bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Some(()),
            Err(_) => return None,
        };
        let [handle] = handles;
        let (transaction, request) = Request::decode(&bytes[..size.bytes], size.handles).ok()?;
        let (ordinal, result) = match request {
            Request::Done => return None,
            Request::LoadObject(name) => (ldsvc::LOAD_OBJECT, self.libraries.open(name).map(Some)),
            // There is one set of libraries, so every configuration chooses it.
            Request::Config(_) => (ldsvc::CONFIG, Ok(None)),
            Request::Clone => (ldsvc::CLONE, self.add(Channel::from(handle?)).map(|()| None)),
        };
        let (status, object) = match result {
            Ok(object) => (Status::OK, object),
            Err(status) => (status, None),
        };
        let response = Response { ordinal, status: status.0, has_object: object.is_some() };
        let length = response.encode(transaction, bytes).ok()?;
        channel.write_handles(&bytes[..length], object.map(Handle::from)).ok()
    }
}
