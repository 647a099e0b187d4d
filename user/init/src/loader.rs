//! The loader service: gives the dynamic linkers of all programs their libraries out of BOOTFS.
//!
//! A dynamic linker holds a channel to this service and asks for libraries by name. Programs that start others clone
//! their connection (`Clone` brings the server's end of a new channel), so that there are as many connections as
//! programs: one thread waits for all of them on a port, where a connection's key is its number here.

use std::collections::HashMap;
use std::thread;

use bootfs::{Directory, HEADER_SIZE, Header};
use process_builder::loader::{self, Answered};
use zx::{AsHandleRef, Channel, MonotonicInstant, Port, Signals, Status, Vmo};

/// Where libraries lie in BOOTFS.
const DIRECTORY: &str = "lib";

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
        loader::boot_file(&self.image, &entry)
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
        while let Ok(packet) = self.port.wait(MonotonicInstant::INFINITE) {
            let Some(channel) = self.connections.remove(&packet.key) else { continue };
            match loader::answer(&channel, |name| self.libraries.open(name)) {
                Ok(Answered::Done) => continue,
                Ok(Answered::Cloned(other)) => {
                    // A connection that cannot be waited for is closed, which its owner sees.
                    let _ = self.add(other);
                }
                Ok(Answered::Yes) | Err(Status::SHOULD_WAIT) => {}
                Err(_) => continue,
            }
            if self.wait_for(&channel, packet.key).is_ok() {
                self.connections.insert(packet.key, channel);
            }
        }
    }
}
