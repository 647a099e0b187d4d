//! The loader service: gives the dynamic linkers of all programs their libraries out of BOOTFS.
//!
//! A dynamic linker holds a channel to this service and asks for libraries by name. Programs that start others clone
//! their connection (`Clone` brings the server's end of a new channel), so that there are as many connections as
//! programs: one thread waits for all of them on a port, where a connection's key is its number here.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use process_builder::loader::{self, Answered};
use zx::{AsHandleRef, Channel, MonotonicInstant, Port, Signals, Status};

use crate::boot::Boot;

/// Where libraries lie in BOOTFS.
const DIRECTORY: &str = "lib";

/// Becomes the loader service of this process and, with that, of all that it starts.
///
/// # Errors
/// When the old service cannot be replaced; that one stays then.
pub fn serve(boot: Arc<Boot>) -> zx::Result<()> {
    let (client, server) = Channel::create()?;
    let mut service = Service { port: Port::create()?, connections: HashMap::new(), next: 0, boot };
    service.add(server)?;
    thread::Builder::new().name("loader".to_owned()).spawn(move || service.run()).map_err(|_| Status::NO_RESOURCES)?;
    drop(zx::startup::set_loader_service(client));
    Ok(())
}

struct Service {
    port: Port,
    connections: HashMap<u64, Channel>,
    next: u64,
    boot: Arc<Boot>,
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
            match loader::answer(&channel, |name| self.boot.open(&format!("{DIRECTORY}/{name}"))) {
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
