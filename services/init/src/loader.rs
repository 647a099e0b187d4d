//! The loader service: gives the dynamic linkers of all programs their libraries from BOOTFS.
//!
//! A dynamic linker holds a channel to this service and asks for libraries by name. A program that starts another one
//! clones its connection (`Clone` brings the server's end of a new channel), so there are as many connections as
//! processes. One thread waits for all of them on a port. A connection's key is its number here.
//!
//! Each connection belongs to a program, clones included. A program's connections are limited, and they are closed when
//! the program ends. A client that does not read its answers is disconnected. A library's VMO is created once, and all
//! clients get handles to it, so hoarded handles are charged to the program that hoards them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use process_builder::loader::{self, Answered};
use service::{ChannelEnds, End, Ledger, Program};
use zx::{AsHandleRef, Channel, Handle, Info, Job, MonotonicInstant, Port, Rights, Signals, Status, Vmo};

use crate::boot::Boot;

/// The directory of libraries in BOOTFS.
const DIRECTORY: &str = "lib";
/// Maximum number of connections: fewer than a port can wait for.
const CONNECTIONS: u64 = 40_000;
/// Maximum number of connections of a program. It may have 256 processes. Each of them has one permanent connection and
/// one more while it starts another process.
const OF_A_PROGRAM: u64 = 1024;
/// Key of the packet for a new program.
const NEW: u64 = 0;

/// Gives access to the loader service to the code that starts programs.
pub struct Loader {
    port: Port,
    new: Mutex<Vec<New>>,
}

/// A program's first connection.
struct New {
    channel: Channel,
    /// The job of its program; `None` for `init` itself.
    job: Option<Job>,
}

/// Starts the loader service of this process and of all processes that it starts.
///
/// # Errors
/// The old service cannot be replaced; it stays in use.
pub fn serve(boot: Arc<Boot>) -> zx::Result<Arc<Loader>> {
    let loader = Arc::new(Loader { port: Port::create()?, new: Mutex::new(Vec::new()) });
    let connections = Connections {
        loader: loader.clone(),
        all: HashMap::new(),
        ends: ChannelEnds::default(),
        ledger: Ledger::new(CONNECTIONS, OF_A_PROGRAM),
        next: NEW,
    };
    let libraries = Libraries { boot, made: HashMap::new() };
    let mut service = Service { loader: loader.clone(), libraries, connections, programs: HashMap::new() };
    thread::Builder::new().name("loader".to_owned()).spawn(move || service.run()).map_err(|_| Status::NO_RESOURCES)?;
    drop(zx::startup::set_loader_service(loader.connect(None)?));
    Ok(loader)
}

impl Loader {
    /// A connection for the program of this job, or for `init` itself.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn connect(&self, job: Option<&Job>) -> zx::Result<Channel> {
        let (client, channel) = Channel::create()?;
        let job = job.map(|job| job.duplicate(Rights::SAME_RIGHTS)).transpose()?;
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(New { channel, job });
        self.port.queue(&abi::zx_port_packet_t { key: NEW, ..Default::default() })?;
        Ok(client)
    }
}

struct Connection {
    end: End,
    program: Program,
}

struct Service {
    loader: Arc<Loader>,
    libraries: Libraries,
    connections: Connections,
    /// Programs by the key of their packets. [`Connections`] assigns all keys.
    programs: HashMap<u64, (Program, Job)>,
}

/// VMOs of libraries that were asked for; at most all that are in the image.
struct Libraries {
    boot: Arc<Boot>,
    made: HashMap<String, Vmo>,
}

/// Connections by the key of their packets.
struct Connections {
    loader: Arc<Loader>,
    all: HashMap<u64, Connection>,
    ends: ChannelEnds,
    ledger: Ledger,
    next: u64,
}

impl Service {
    fn run(&mut self) {
        while let Ok(packet) = self.loader.port.wait(MonotonicInstant::INFINITE) {
            if packet.key == NEW {
                let new = std::mem::take(&mut *self.loader.new.lock().unwrap_or_else(PoisonError::into_inner));
                for new in new {
                    // If it cannot be served, its channel is closed, and the client sees that.
                    let _ = self.begin(new);
                }
            } else if let Some((program, _)) = self.programs.remove(&packet.key) {
                self.connections.ended(program);
            } else {
                self.serve(packet.key);
            }
        }
    }

    fn begin(&mut self, New { channel, job }: New) -> zx::Result<()> {
        let mut program = Program::INIT;
        if let Some(job) = job {
            program = Program(job.koid()?);
            if !self.programs.values().any(|(known, _)| *known == program) {
                let key = self.connections.key();
                job.wait_async(&self.loader.port, key, Signals::JOB_TERMINATED, 0)?;
                self.programs.insert(key, (program, job));
            }
        }
        self.connections.add(channel.into_handle(), program)
    }

    /// Answers one request of a connection, or handles its end.
    fn serve(&mut self, key: u64) {
        let Some(connection) = self.connections.all.remove(&key) else { return };
        let find = |name: &str| self.libraries.find(name);
        let add = |handle| self.connections.add(handle, connection.program);
        let answered = loader::answer(&connection.end, find, add);
        let goes_on = matches!(answered, Ok(Answered::Yes | Answered::Nothing));
        if goes_on && self.connections.wait_for(&connection.end, key).is_ok() {
            self.connections.all.insert(key, connection);
        } else {
            self.connections.ledger.give(connection.program, 1);
        }
    }
}

impl Libraries {
    /// A read-only handle to a library's VMO.
    fn find(&mut self, name: &str) -> zx::Result<Vmo> {
        if let Some(vmo) = self.made.get(name) {
            return vmo.duplicate(Rights::SAME_RIGHTS);
        }
        let vmo = self.boot.open(&format!("{DIRECTORY}/{name}"))?;
        let given = vmo.duplicate(Rights::SAME_RIGHTS);
        self.made.insert(name.to_owned(), vmo);
        given
    }
}

impl Connections {
    fn key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wait_for(&self, channel: &Channel, key: u64) -> zx::Result<()> {
        channel.wait_async(&self.loader.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    fn add(&mut self, handle: Handle, program: Program) -> zx::Result<()> {
        let end = self.ends.take(handle)?;
        if !self.ledger.take(program, 1) {
            return Err(Status::NO_RESOURCES);
        }
        let key = self.key();
        let waits = self.wait_for(&end, key);
        match waits {
            Ok(()) => drop(self.all.insert(key, Connection { end, program })),
            Err(_) => self.ledger.give(program, 1),
        }
        waits
    }

    fn ended(&mut self, program: Program) {
        self.all.retain(|_, connection| connection.program != program);
        self.ledger.ended(program);
    }
}
