//! Serves trees: connections, open descriptions, and the port on which all packets arrive.
//!
//! One thread does everything. No request blocks, except that lock requests are queued until they can be granted. So no
//! client delays the others. (A client that waits to be accepted by a listener already has its answer.) Large objects
//! do not delay other clients either: all work is done in bounded steps, and programs take turns. Each program has a
//! quota, and its remaining resources are freed when it ends. [`file_protocol`] defines the numbered steps.

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
use service::{ChannelEnds, Client, Clients, End, Event, FairQueue, Ledger, Program};
use zx::{AsHandleRef, Channel, Duration, Handle, MonotonicInstant, Port, Signals, Status, Stream, Vmo};

use crate::failures::Failures;
use crate::locks::{File, Locks};
use crate::system::{FileSystem, Node};
use long::Long;
use open::Open;
use sockets::Sockets;
use waiting::Waiting;

/// Key of the packets for new clients. Connections have greater keys.
const CLIENTS: u64 = 0;
/// Maximum number of connections, in total and per program. They are fewer than the waits that a port can have
/// (50,000).
const CONNECTIONS: u64 = 40_000;
const CONNECTIONS_OF_PROGRAM: u64 = 20_000;
/// Maximum number of handles of a message. The protocol needs one.
const HANDLES: usize = 2;
/// Maximum number of packets that are read from the port before their steps run.
const BATCH: usize = 1024;
/// Maximum number of steps between two reads of the port.
const STEPS: usize = 16;
/// Parts of an ended tree that one step frees.
const PARTS: usize = 128;
/// Delay before a wait that failed for lack of memory is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// A file system whose content clients may access directly.
pub trait ServedFileSystem: FileSystem {
    /// A stream over a file; `None` if content is read and written by requests.
    ///
    /// # Errors
    /// `Memory`.
    fn stream(&mut self, file: Node, flags: u32) -> Result<Option<Stream>>;
    /// The VMO that is a file's content.
    ///
    /// # Errors
    /// `Unsupported`, `Memory`.
    fn memory(&mut self, file: Node, write: bool) -> Result<Vmo>;
}

/// The result of a request.
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
    /// The VMO into which [`file_protocol::Request::Fetch`] reads.
    buffer: Option<Vmo>,
    /// A long request. The connection's next request waits for its end.
    long: Option<Long>,
    /// The connection is closed when the long request ends.
    closing: bool,
}

/// A step of work for a program.
enum Step {
    /// A connection has a message, or its channel has closed.
    Message(u64),
    /// A new client. It takes its turn behind the program's connections that closed before it came, so that it finds
    /// the place that they made.
    Client(Client),
    /// The program has ended.
    Ended,
    /// A connection's program has ended.
    Cut(u64),
    /// The next slice of a connection's [`Long`] request.
    Long(u64),
    /// The next slice of a tree's postponed work.
    Work(u64),
    /// A lock that this waiter waits for may be free.
    Lock(File, u64),
    /// The next slice of freeing an ended tree.
    End(u64),
    /// A client has closed its connection in a listener's waiting line.
    Leave(u64),
    /// The next slice of freeing the backlog of a listener that has ended.
    Leaving(u64),
}

struct Tree<F> {
    system: F,
    /// Its number, as clients see it.
    number: u64,
    /// The program that it belongs to.
    program: Program,
    /// Number of open descriptions in it.
    open: u64,
    /// Errors of their late writes.
    failures: Failures,
    /// A step for its postponed work is queued.
    works: bool,
    /// It stays without open descriptions.
    stays: bool,
}

impl<F: FileSystem> Tree<F> {
    /// Ends a request.
    fn settle(&mut self) {
        self.system.settle();
        self.failures.note(&mut self.system);
    }
}

/// A file service.
pub struct Service<F, M> {
    port: Port,
    ends: ChannelEnds,
    connections: HashMap<u64, Connection>,
    /// Counts connections per program.
    ledger: Ledger,
    trees: HashMap<u64, Tree<F>>,
    /// Trees that have ended.
    ending: HashMap<u64, F>,
    locks: Locks,
    waiting: Waiting,
    sockets: Sockets,
    fair_queue: FairQueue<Step>,
    /// The buffer of the last fetch, kept for the next one.
    fetched: Vec<u8>,
    /// Creates a tree, if the limit allows one more.
    make: M,
    next: u64,
    /// Distinguishes this service's trees from those of others.
    koid: u64,
}

/// The words of a client that wants its own tree, which exists until the client closes the last description in it.
const FRESH: &str = "fresh";
const MAIN: u64 = 0;

impl<F: ServedFileSystem, M: FnMut() -> Option<F>> Service<F, M> {
    /// A service of the tree that `make` creates, and of further ones for clients that want their own.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn new(make: M) -> zx::Result<Service<F, M>> {
        use zx::Info;
        let koid = zx::startup::process_self().basic_info()?.koid;
        let mut service = Service {
            port: Port::create()?,
            ends: ChannelEnds::default(),
            connections: HashMap::new(),
            ledger: Ledger::new(CONNECTIONS, CONNECTIONS_OF_PROGRAM),
            trees: HashMap::new(),
            ending: HashMap::new(),
            locks: Locks::default(),
            waiting: Waiting::default(),
            sockets: Sockets::default(),
            fair_queue: FairQueue::default(),
            fetched: Vec::new(),
            make,
            next: CLIENTS,
            koid,
        };
        service.add_tree(MAIN, Program::INIT, true);
        Ok(service)
    }

    /// Adds a tree, if the limit allows one more.
    fn add_tree(&mut self, key: u64, program: Program, stays: bool) {
        if let Some(system) = (self.make)() {
            let number = self.koid << 20 ^ key;
            let failures = Failures::default();
            self.trees.insert(key, Tree { system, number, program, open: 0, failures, works: false, stays });
        }
    }

    /// Serves clients until there are none and no new ones can come.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn run(&mut self, clients: &Clients) -> zx::Result<()> {
        let mut buffer = file_protocol::buffer();
        let (mut more, mut listens) = (true, false);
        while more || !self.connections.is_empty() || !self.fair_queue.is_empty() {
            if more && !listens {
                listens = self.watch(&clients.0, CLIENTS).is_ok();
            }
            let mut deadline = match () {
                () if !self.fair_queue.is_empty() => MonotonicInstant::ZERO,
                () if more && !listens => MonotonicInstant::after(AGAIN),
                () => MonotonicInstant::INFINITE,
            };
            for _ in 0..BATCH {
                match self.port.wait(deadline) {
                    Ok(packet) if packet.key == CLIENTS => (listens, more) = (false, self.init_event(clients)),
                    Ok(packet) => {
                        if let Some(connection) = self.connections.get(&packet.key) {
                            self.fair_queue.push(connection.program, Step::Message(packet.key));
                        } else if let Some(program) = self.sockets.stands(packet.key) {
                            self.fair_queue.push(program, Step::Leave(packet.key));
                        }
                    }
                    Err(Status::TIMED_OUT) => break,
                    Err(status) => return Err(status),
                }
                deadline = MonotonicInstant::ZERO;
            }
            for _ in 0..STEPS {
                let Some((program, step)) = self.fair_queue.pop() else { break };
                // A slice takes longer than a request, so the port is read before the next one.
                let slice = matches!(step, Step::Long(_) | Step::Work(_));
                self.step(program, step, &mut buffer);
                if slice {
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
            Step::Client(client) => self.client(client),
            Step::Ended => self.ended(program),
            Step::Cut(key) => self.disconnect(key),
            Step::Long(key) => self.go_on(key),
            Step::Work(key) => self.work(key),
            Step::Lock(file, waiter) => self.lock_again(file, waiter),
            Step::End(key) => {
                if self.ending.get_mut(&key).is_some_and(|system| system.end(PARTS)) {
                    self.ending.remove(&key);
                } else {
                    self.fair_queue.push_long(program, Step::End(key));
                }
            }
            Step::Leave(key) => self.sockets.leave(key),
            Step::Leaving(key) => {
                if !self.sockets.free_backlog_some(key, PARTS) {
                    self.fair_queue.push_long(program, Step::Leaving(key));
                }
            }
        }
    }

    /// Queues one event from `init`; returns whether more can come. The next one gets a packet behind those of the
    /// channels that closed before it came.
    fn init_event(&mut self, clients: &Clients) -> bool {
        match clients.next() {
            Ok(Event::Client(client)) => self.fair_queue.push(client.program, Step::Client(client)),
            Ok(Event::Ended(program)) => self.fair_queue.push(program, Step::Ended),
            Err(Status::SHOULD_WAIT) => {}
            Err(_) => return false,
        }
        true
    }

    /// Closes what an ended program has here, in turns.
    fn ended(&mut self, program: Program) {
        let its = self.connections.iter().filter(|(_, connection)| connection.program == program);
        its.for_each(|(key, _)| self.fair_queue.push_long(program, Step::Cut(*key)));
        for key in self.sockets.of(program) {
            self.fair_queue.push_long(program, Step::Leave(key));
        }
    }

    /// Gives a client the root of the common tree, or of a new tree of its own.
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
                // If it cannot be served, its channel is closed.
                let _ = self.connect(handle, &open, program);
                self.forget(open);
            }
        }
        self.end_tree(tree);
    }

    /// Ends a program's own tree in which nothing is open.
    fn end_tree(&mut self, key: u64) {
        if self.trees.get(&key).is_some_and(|tree| tree.open == 0 && !tree.stays)
            && let Some(tree) = self.trees.remove(&key)
        {
            self.fair_queue.push_long(tree.program, Step::End(key));
            self.ending.insert(key, tree.system);
        }
    }

    /// Connects a client's channel to an open description.
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
            // A long request first undoes its changes.
            *closing = true;
            return;
        }
        let Some(Connection { end, open, program, .. }) = self.connections.remove(&key) else { return };
        self.waiting.remove((open.tree, open.node), key);
        if self.sockets.ended((open.tree, open.node), key) {
            self.fair_queue.push_long(program, Step::Leaving(key));
        }
        drop(end);
        self.ledger.give(program, 1);
        self.forget(open);
    }

    /// Drops a reference to a description. The last reference ends it.
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

    /// Steps 1 and 2: reads one request and answers it. The channel of a client that does not read its answers or sends
    /// an invalid message is closed.
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
        let told = tree.is_some_and(|tree| tree.failures.is_reported(open.node, &open.failures));
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
                // This answer reports the failures that occurred meanwhile.
                tree.failures.report(open.node, &open.failures);
            }
        }
        self.schedule(open.tree);
        self.forget(open);
        // Before the answer (step 6): the client may close this connection as soon as it has the answer.
        match self.connections.get(&key) {
            Some(connection) if connection.long.is_none() => self.watch(&connection.end, key)?,
            _ => {}
        }
        done.map_or(Ok(()), |done| self.answer(key, transaction, done))
    }

    /// Step 2: sends the answer.
    fn answer(&self, key: u64, transaction: u32, done: Result<Reply>) -> zx::Result<()> {
        let Some(connection) = self.connections.get(&key).filter(|_| transaction != 0) else { return Ok(()) };
        let (answer, data, handles) = match done {
            Ok(reply) => (Ok(reply.answer), reply.data, reply.handles),
            Err(error) => (Err::<Answer, Error>(error), Vec::new(), Vec::new()),
        };
        let bytes = encode(transaction, &answer, &data).map_err(|_| Status::INTERNAL)?;
        connection.end.write_handles(&bytes, handles)
    }

    /// Records that a request changes a node of a description's tree.
    fn changes(&mut self, open: &Open, node: Node) {
        if let Some(tree) = self.trees.get_mut(&open.tree) {
            tree.failures.changes(node);
        }
    }

    /// Checks that all earlier writes of a description are intact.
    fn check_failures(&mut self, open: &Open) -> Result<()> {
        let tree = self.trees.get_mut(&open.tree).ok_or(Error::NotFound)?;
        tree.failures.check(open.node, &open.failures)
    }

    /// The file system of a description.
    fn system(&mut self, open: &Open) -> Result<&mut F> {
        self.trees.get_mut(&open.tree).map(|tree| &mut tree.system).ok_or(Error::NotFound)
    }
}
