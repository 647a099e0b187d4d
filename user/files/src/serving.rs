//! Serving trees: who has what open, and the port that everything comes through.
//!
//! One thread does all of it. No request waits for anything, but those for locks, which are put aside until they can be had; so no
//! client keeps others waiting. What stands here in steps is told in [`file_protocol`].

mod content;
mod fill;
mod names;
mod open;

use std::collections::HashMap;
use std::rc::Rc;

use file_protocol::{Answer, Error, Request, Result, decode, encode, transaction};
use service::{Client, Clients, Event};
use zx::{AsHandleRef, Channel, Handle, MonotonicInstant, Port, Signals, Status, Stream, Vmo};

use crate::locks::Locks;
use crate::system::{FileSystem, Node};
use open::Open;

/// The packets of new clients; connections have those above it.
const CLIENTS: u64 = 0;
/// The most connections at once.
const MOST: usize = 60_000;
/// The most locks that are waited for at once.
const MOST_WAITING: usize = 4096;
/// The most handles of a message; the protocol needs one.
const HANDLES: usize = 2;

/// A file system whose content may be had without asking it.
pub trait Served: FileSystem {
    /// A stream over a file; `None` where content is read and written by requests.
    ///
    /// # Errors
    /// `Memory`.
    fn stream(&mut self, file: Node, flags: u32) -> Result<Option<Stream>>;
    /// The memory that is a file's content.
    ///
    /// # Errors
    /// `Unsupported`, `Memory`.
    fn memory(&mut self, file: Node, write: bool) -> Result<Vmo>;
}

/// What a request is answered with.
struct Reply {
    answer: Answer,
    data: Vec<u8>,
    handles: Vec<Handle>,
}

impl Reply {
    fn new(answer: Answer) -> Reply {
        Reply { answer, data: Vec::new(), handles: Vec::new() }
    }

    fn data(data: Vec<u8>) -> Reply {
        Reply { answer: Answer::Data, data, handles: Vec::new() }
    }
}

struct Connection {
    channel: Channel,
    open: Rc<Open>,
}

/// A lock that is waited for.
struct Waiting {
    connection: u64,
    transaction: u32,
    open: Rc<Open>,
    lock: names::Asked,
}

struct Tree<F> {
    system: F,
    /// Its number, as clients see it.
    number: u64,
    /// Open descriptions in it.
    open: u64,
    /// It stays without any.
    stays: bool,
}

/// A service.
pub struct Service<F, M> {
    port: Port,
    connections: HashMap<u64, Connection>,
    trees: HashMap<u64, Tree<F>>,
    locks: Locks,
    waiting: Vec<Waiting>,
    /// Makes a tree, if there can be one more.
    make: M,
    next: u64,
    /// What makes this service's trees different from another's.
    koid: u64,
}

/// The words of a client that wants a tree of its own, which is gone with the last that it has open.
const FRESH: &str = "fresh";
const MAIN: u64 = 0;

impl<F: Served, M: FnMut() -> Option<F>> Service<F, M> {
    /// A service of the tree that `make` makes, and of more such for those who want one of their own.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn new(make: M) -> zx::Result<Service<F, M>> {
        use zx::Info;
        let koid = zx::startup::process_self().basic_info()?.koid;
        let mut service = Service {
            port: Port::create()?,
            connections: HashMap::new(),
            trees: HashMap::new(),
            locks: Locks::default(),
            waiting: Vec::new(),
            make,
            next: CLIENTS,
            koid,
        };
        service.add_tree(MAIN, true);
        Ok(service)
    }

    /// Adds a tree, if there can be one more.
    fn add_tree(&mut self, key: u64, stays: bool) {
        if let Some(system) = (self.make)() {
            self.trees.insert(key, Tree { system, number: self.koid << 20 ^ key, open: 0, stays });
        }
    }

    /// Serves clients until there will be no more and none is left.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn run(&mut self, clients: &Clients) -> zx::Result<()> {
        let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
        clients.0.wait_async(&self.port, CLIENTS, signals, 0)?;
        let (mut buffer, mut more) = (file_protocol::buffer(), true);
        while more || !self.connections.is_empty() {
            let packet = self.port.wait(MonotonicInstant::INFINITE)?;
            if packet.key == CLIENTS {
                match clients.next() {
                    Ok(Event::Client(client)) => self.client(client),
                    Ok(Event::Ended(_)) => {}
                    Err(Status::SHOULD_WAIT) => {}
                    Err(_) => {
                        more = false;
                        continue;
                    }
                }
                clients.0.wait_async(&self.port, CLIENTS, signals, 0)?;
            } else if self.connections.contains_key(&packet.key) && self.message(packet.key, &mut buffer).is_err() {
                self.disconnect(packet.key);
            }
        }
        Ok(())
    }

    /// Gives a client the root: of the tree that is everybody's, or of one that is its own.
    fn client(&mut self, client: Client) {
        let tree = if client.words == FRESH {
            self.next += 1;
            self.add_tree(self.next, false);
            self.next
        } else {
            MAIN
        };
        let Some(root) = self.trees.get(&tree).map(|tree| tree.system.root()) else { return };
        for handle in client.handles {
            if let Ok(open) = self.open_node(tree, root, 0) {
                // One that cannot be served is closed, which says it.
                let _ = self.connect(handle.into(), &open);
                self.forget(open);
            }
        }
        if self.trees.get(&tree).is_some_and(|tree| tree.open == 0 && !tree.stays) {
            self.trees.remove(&tree);
        }
    }

    fn connect(&mut self, channel: Channel, open: &Rc<Open>) -> Result<u64> {
        if self.connections.len() >= MOST {
            return Err(Error::TooManyOpen);
        }
        self.next += 1;
        let key = self.next;
        self.watch(&channel, key).map_err(|_| Error::Memory)?;
        self.connections.insert(key, Connection { channel, open: open.clone() });
        Ok(key)
    }

    fn watch(&self, channel: &Channel, key: u64) -> zx::Result<()> {
        channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    /// Step 6: a channel is closed.
    fn disconnect(&mut self, key: u64) {
        self.waiting.retain(|waiting| waiting.connection != key);
        if let Some(connection) = self.connections.remove(&key) {
            drop(connection.channel);
            self.forget(connection.open);
        }
    }

    /// Lets go of a description; with the last reference it ends.
    fn forget(&mut self, open: Rc<Open>) {
        let Some(open) = Rc::into_inner(open) else { return };
        let file = (open.tree, open.node);
        self.locks.ended(file, open.id);
        if let Some(tree) = self.trees.get_mut(&open.tree) {
            tree.system.release(open.node);
            tree.system.settle();
            tree.open -= 1;
            if tree.open == 0 && !tree.stays {
                self.trees.remove(&open.tree);
            }
        }
        self.retry(file);
    }

    /// Steps 1 and 2: takes one request and answers it.
    fn message(&mut self, key: u64, buffer: &mut [u8]) -> zx::Result<()> {
        let Some(connection) = self.connections.get(&key) else { return Ok(()) };
        let mut handles = [const { None }; HANDLES];
        let size = match connection.channel.read(buffer, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return self.watch(&connection.channel, key),
            Err((status, _)) => return Err(status),
        };
        let open = connection.open.clone();
        let message = &buffer[..size.bytes];
        // Who sends what is no message has its channel closed.
        let transaction = transaction(message).ok_or(Status::INVALID_ARGS)?;
        let done = match decode::<Request<'_>>(message) {
            Ok((request, data)) => {
                let handle = handles.into_iter().flatten().next();
                self.request(key, transaction, &open, request, data, handle)
            }
            Err(error) => Some(Err(error)),
        };
        if let Some(tree) = self.trees.get_mut(&open.tree) {
            tree.system.settle();
        }
        self.forget(open);
        if let Some(done) = done {
            self.answer(key, transaction, done)?;
        }
        match self.connections.get(&key) {
            Some(connection) => self.watch(&connection.channel, key),
            None => Ok(()),
        }
    }

    /// Step 2.
    fn answer(&self, key: u64, transaction: u32, done: Result<Reply>) -> zx::Result<()> {
        let Some(connection) = self.connections.get(&key).filter(|_| transaction != 0) else { return Ok(()) };
        let (answer, data, handles) = match done {
            Ok(reply) => (Ok(reply.answer), reply.data, reply.handles),
            Err(error) => (Err::<Answer, Error>(error), Vec::new(), Vec::new()),
        };
        let bytes = encode(transaction, &answer, &data).map_err(|_| Status::INTERNAL)?;
        connection.channel.write_handles(&bytes, handles)
    }

    /// The file system of a description.
    fn system(&mut self, open: &Open) -> Result<&mut F> {
        self.trees.get_mut(&open.tree).map(|tree| &mut tree.system).ok_or(Error::NotFound)
    }
}
