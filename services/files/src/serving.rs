//! Serving trees: who has what open, and the port that everything comes through.
//!
//! One thread does all of it. No request waits for anything, but those for locks, which are put aside until they can be had; so no
//! client keeps others waiting. (Who waits to be accepted by a listener has its answer.) Nor does what a client makes large: all work
//! is steps that are bounded, and programs take turns with theirs. What a program can have at once has a limit, which is its share;
//! with its end goes what is left. What stands here in steps is told in [`file_protocol`].

mod content;
mod fill;
mod long;
mod names;
mod open;
mod sockets;
mod waiting;

use std::collections::HashMap;
use std::rc::Rc;

use file_protocol::{Answer, Error, Request, Result, decode, encode, transaction};
use service::{Client, Clients, End, Ends, Event, Ledger, Program, Turns};
use zx::{AsHandleRef, Channel, Duration, Handle, MonotonicInstant, Port, Signals, Status, Stream, Vmo};

use crate::failures::Failures;
use crate::locks::{File, Locks};
use crate::system::{FileSystem, Node};
use long::Long;
use open::Open;
use sockets::Sockets;
use waiting::Waiting;

/// The packets of new clients; connections have those above it.
const CLIENTS: u64 = 0;
/// The most connections at once, and those of one program. They are fewer than a port has waits (50,000).
const CONNECTIONS: u64 = 40_000;
const CONNECTIONS_OF_PROGRAM: u64 = 20_000;
/// The most handles of a message; the protocol needs one.
const HANDLES: usize = 2;
/// Packets that are taken from the port before what they ask for is done.
const BATCH: usize = 1024;
/// Steps that are done before the port is looked at again.
const STEPS: usize = 16;
/// What `init` tells that is taken before others have their turn.
const EVENTS: usize = 8;
/// Parts of a tree that are let go of in a step.
const PARTS: usize = 128;
/// When a wait that found no memory is tried again.
const AGAIN: Duration = Duration::from_millis(10);

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
    end: End,
    open: Rc<Open>,
    program: Program,
    /// Where [`file_protocol::Request::Fetch`] puts what it reads.
    buffer: Option<Vmo>,
    /// A request that goes on; the connection's next one waits for its end.
    long: Option<Long>,
    /// It is to be closed when that has come to its end.
    closing: bool,
}

/// Something to do for a program.
#[derive(Clone, Copy)]
enum Step {
    /// A connection has a message, or has ended.
    Message(u64),
    /// A connection's program has ended.
    Cut(u64),
    /// A connection's [`Long`] request goes on.
    Long(u64),
    /// A tree does some of what it put off.
    Work(u64),
    /// What this one waits for may be had.
    Lock(File, u64),
    /// A tree lets go of what it has.
    End(u64),
    /// One who stood in line for a listener has given up.
    Leave(u64),
    /// What waited for a listener that ended is let go of.
    Leaving(u64),
}

struct Tree<F> {
    system: F,
    /// Its number, as clients see it.
    number: u64,
    /// Whose it is.
    program: Program,
    /// Open descriptions in it.
    open: u64,
    /// What of them may be lost.
    failures: Failures,
    /// What it put off has a turn before it.
    works: bool,
    /// It stays without any.
    stays: bool,
}

impl<F: FileSystem> Tree<F> {
    /// A request is done.
    fn settle(&mut self) {
        self.system.settle();
        self.failures.note(&mut self.system);
    }
}

/// A service.
pub struct Service<F, M> {
    port: Port,
    ends: Ends,
    connections: HashMap<u64, Connection>,
    /// Connections.
    ledger: Ledger,
    trees: HashMap<u64, Tree<F>>,
    /// Trees that have ended.
    ending: HashMap<u64, F>,
    locks: Locks,
    waiting: Waiting,
    sockets: Sockets,
    turns: Turns<Step>,
    /// What was fetched last: memory for the next such request.
    fetched: Vec<u8>,
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
            ends: Ends::default(),
            connections: HashMap::new(),
            ledger: Ledger::new(CONNECTIONS, CONNECTIONS_OF_PROGRAM),
            trees: HashMap::new(),
            ending: HashMap::new(),
            locks: Locks::default(),
            waiting: Waiting::default(),
            sockets: Sockets::default(),
            turns: Turns::default(),
            fetched: Vec::new(),
            make,
            next: CLIENTS,
            koid,
        };
        service.add_tree(MAIN, Program::INIT, true);
        Ok(service)
    }

    /// Adds a tree, if there can be one more.
    fn add_tree(&mut self, key: u64, program: Program, stays: bool) {
        if let Some(system) = (self.make)() {
            let number = self.koid << 20 ^ key;
            let failures = Failures::default();
            self.trees.insert(key, Tree { system, number, program, open: 0, failures, works: false, stays });
        }
    }

    /// Serves clients until there will be no more and none is left.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn run(&mut self, clients: &Clients) -> zx::Result<()> {
        let mut buffer = file_protocol::buffer();
        let (mut more, mut listens) = (true, false);
        while more || !self.connections.is_empty() {
            if more && !listens {
                listens = self.watch(&clients.0, CLIENTS).is_ok();
            }
            let mut deadline = match () {
                () if !self.turns.is_empty() => MonotonicInstant::ZERO,
                () if more && !listens => MonotonicInstant::after(AGAIN),
                () => MonotonicInstant::INFINITE,
            };
            for _ in 0..BATCH {
                match self.port.wait(deadline) {
                    Ok(packet) if packet.key == CLIENTS => (listens, more) = (false, self.told(clients)),
                    Ok(packet) => {
                        if let Some(connection) = self.connections.get(&packet.key) {
                            self.turns.push(connection.program, Step::Message(packet.key));
                        } else if let Some(program) = self.sockets.stands(packet.key) {
                            self.turns.push(program, Step::Leave(packet.key));
                        }
                    }
                    Err(Status::TIMED_OUT) => break,
                    Err(status) => return Err(status),
                }
                deadline = MonotonicInstant::ZERO;
            }
            for _ in 0..STEPS {
                let Some((program, step)) = self.turns.pop() else { break };
                self.step(program, step, &mut buffer);
                // A portion takes longer than a request: who has come meanwhile is before the next one.
                if matches!(step, Step::Long(_) | Step::Work(_)) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, program: Program, step: Step, buffer: &mut [u8]) {
        match step {
            Step::Message(key) => {
                if self.message(key, buffer).is_err() {
                    self.disconnect(key);
                }
            }
            Step::Cut(key) => self.disconnect(key),
            Step::Long(key) => self.go_on(key),
            Step::Work(key) => self.work(key),
            Step::Lock(file, waiter) => self.lock_again(file, waiter),
            Step::End(key) => {
                if self.ending.get_mut(&key).is_some_and(|system| system.end(PARTS)) {
                    self.ending.remove(&key);
                } else {
                    self.turns.push_long(program, Step::End(key));
                }
            }
            Step::Leave(key) => self.sockets.leave(key),
            Step::Leaving(key) => {
                if !self.sockets.let_go(key, PARTS) {
                    self.turns.push_long(program, Step::Leaving(key));
                }
            }
        }
    }

    /// What `init` tells; says whether it may tell more.
    fn told(&mut self, clients: &Clients) -> bool {
        for _ in 0..EVENTS {
            match clients.next() {
                Ok(Event::Client(client)) => self.client(client),
                Ok(Event::Ended(program)) => {
                    let its = self.connections.iter().filter(|(_, connection)| connection.program == program);
                    its.for_each(|(key, _)| self.turns.push_long(program, Step::Cut(*key)));
                    for key in self.sockets.of(program) {
                        self.turns.push_long(program, Step::Leave(key));
                    }
                }
                Err(Status::SHOULD_WAIT) => break,
                Err(_) => return false,
            }
        }
        true
    }

    /// Gives a client the root: of the tree that is everybody's, or of one that is its own.
    fn client(&mut self, client: Client) {
        let program = client.program;
        let tree = if client.words == FRESH {
            self.next += 1;
            self.add_tree(self.next, program, false);
            self.next
        } else {
            MAIN
        };
        let Some(root) = self.trees.get(&tree).map(|tree| tree.system.root()) else { return };
        for handle in client.handles {
            if let Ok(open) = self.open_node(tree, root, 0) {
                // One that cannot be served is closed, which says it.
                let _ = self.connect(handle, &open, program);
                self.forget(open);
            }
        }
        self.end_tree(tree);
    }

    /// Ends a tree in which nothing is open, if it is somebody's own.
    fn end_tree(&mut self, key: u64) {
        if self.trees.get(&key).is_some_and(|tree| tree.open == 0 && !tree.stays)
            && let Some(tree) = self.trees.remove(&key)
        {
            self.turns.push_long(tree.program, Step::End(key));
            self.ending.insert(key, tree.system);
        }
    }

    /// Takes a channel from a client, over which it has what is open.
    fn connect(&mut self, channel: Handle, open: &Rc<Open>, program: Program) -> Result<()> {
        let end = self.ends.take(channel).map_err(|_| Error::Invalid)?;
        if !self.ledger.take(program, 1) {
            return Err(Error::TooManyOpen);
        }
        self.next += 1;
        let key = self.next;
        if self.watch(&end, key).is_err() {
            self.ledger.give(program, 1);
            return Err(Error::Memory);
        }
        let connection = Connection { end, open: open.clone(), program, buffer: None, long: None, closing: false };
        self.connections.insert(key, connection);
        Ok(())
    }

    fn watch(&self, channel: &Channel, key: u64) -> zx::Result<()> {
        channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    /// Step 6: a channel is closed.
    fn disconnect(&mut self, key: u64) {
        if let Some(Connection { long: Some(long), closing, .. }) = self.connections.get_mut(&key)
            && long.stop()
        {
            // First it undoes what it did.
            *closing = true;
            return;
        }
        let Some(Connection { end, open, program, .. }) = self.connections.remove(&key) else { return };
        self.waiting.remove((open.tree, open.node), key);
        if self.sockets.ended((open.tree, open.node), key) {
            self.turns.push_long(program, Step::Leaving(key));
        }
        drop(end);
        self.ledger.give(program, 1);
        self.forget(open);
    }

    /// Lets go of a description; with the last reference it ends.
    fn forget(&mut self, open: Rc<Open>) {
        let Some(open) = Rc::into_inner(open) else { return };
        let file = (open.tree, open.node);
        let freed = self.locks.ended(file, open.id);
        if let Some(tree) = self.trees.get_mut(&open.tree) {
            tree.system.release(open.node);
            tree.settle();
            tree.failures.closed(open.node);
            tree.open -= 1;
        }
        self.schedule(open.tree);
        self.end_tree(open.tree);
        self.wake(file, freed);
    }

    /// Steps 1 and 2: takes one request and answers it. Who does not read its answers has its channel closed, as who sends what is
    /// no message.
    fn message(&mut self, key: u64, buffer: &mut [u8]) -> zx::Result<()> {
        let Some(connection) = self.connections.get(&key) else { return Ok(()) };
        let mut handles = [const { None }; HANDLES];
        let size = match connection.end.read(buffer, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return self.watch(&connection.end, key),
            Err((status, _)) => return Err(status),
        };
        let (open, program) = (connection.open.clone(), connection.program);
        let message = &buffer[..size.bytes];
        let transaction = transaction(message).ok_or(Status::INVALID_ARGS)?;
        let tree = self.trees.get(&open.tree);
        let told = tree.is_some_and(|tree| tree.failures.is_told(open.node, &open.failures));
        let done = match decode::<Request<'_>>(message) {
            Ok((request, data)) => {
                let handle = handles.into_iter().flatten().next();
                if let Some(tree) = self.trees.get_mut(&open.tree) {
                    tree.system.charge(program);
                }
                self.request(key, transaction, &open, request, data, handle)
            }
            Err(error) => Some(Err(error)),
        };
        if let Some(tree) = self.trees.get_mut(&open.tree) {
            tree.settle();
            if told && matches!(done, Some(Err(Error::Damaged))) {
                // What failed meanwhile is what this answer says.
                tree.failures.tell(open.node, &open.failures);
            }
        }
        self.schedule(open.tree);
        self.forget(open);
        if let Some(done) = done {
            self.answer(key, transaction, done)?;
        }
        match self.connections.get(&key) {
            Some(connection) if connection.long.is_none() => self.watch(&connection.end, key),
            _ => Ok(()),
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
        connection.end.write_handles(&bytes, handles)
    }

    /// A request changes a node of a description's tree.
    fn changes(&mut self, open: &Open, node: Node) {
        if let Some(tree) = self.trees.get_mut(&open.tree) {
            tree.failures.changes(node);
        }
    }

    /// A request needs all that was written before to be whole.
    fn check_failures(&mut self, open: &Open) -> Result<()> {
        let tree = self.trees.get_mut(&open.tree).ok_or(Error::NotFound)?;
        tree.failures.check(open.node, &open.failures)
    }

    /// The file system of a description.
    fn system(&mut self, open: &Open) -> Result<&mut F> {
        self.trees.get_mut(&open.tree).map(|tree| &mut tree.system).ok_or(Error::NotFound)
    }
}
