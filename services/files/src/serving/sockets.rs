//! UNIX sockets with names (steps 7 to 9): listeners, receivers of datagrams, and connections that wait to be accepted.
//!
//! A connection to the file system binds a socket; the socket has its name until that connection ends. A waiting
//! connection is charged to the program that connects. So no program uses up the quota of others, and a listener gets
//! the backlog that it asked for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use file_protocol::{Answer, CONNECTED, Error, INCOMING, Kind, RESET, Result, SOCKET_NAME_MAX, flags};
use service::{Ledger, Program};
use zx::{AsHandleRef, Handle, Rights, Signals, Socket};

use super::names::place;
use super::open::{Open, WRITE};
use super::{Reply, ServedFileSystem, Service};
use crate::backlog::{Backlog, Waiting};
use crate::locks::File;
use crate::system::{FileSystem, New, Node};
use crate::walk::{Place, walk, walk_to_name};

/// Limits of connections that wait for listeners: of all programs together, and of one.
const MOST: u64 = 8192;
const OF_PROGRAM: u64 = 2048;
/// Rights of the socket that `Accept` returns: those of a new socket.
const STREAM: Rights = abi::ZX_DEFAULT_SOCKET_RIGHTS;
/// Rights of a sender of datagrams: it writes, and waits for room.
const SENDER: Rights = Rights::WRITE.union(Rights::WAIT).union(Rights::TRANSFER);
/// Rights that this service needs of a receiver's socket.
const RECEIVER: Rights = SENDER.union(Rights::DUPLICATE);

/// What a bound socket does.
enum Role {
    Listens(Backlog<Socket>),
    /// Senders get duplicates of this handle.
    Receives(Socket),
}

struct Bound {
    /// The connection that bound it.
    connection: u64,
    name: Vec<u8>,
    role: Role,
}

/// All bound sockets.
pub(super) struct Sockets {
    bound: HashMap<File, Bound>,
    /// Connections that wait for a place in a full queue, by the key of their wait: the listener, and the program that
    /// connects.
    lines: HashMap<u64, (File, Program)>,
    /// Backlogs of listeners that have ended, by the listeners' connections; they are freed in slices.
    leaving: HashMap<u64, Backlog<Socket>>,
    ledger: Ledger,
}

impl Default for Sockets {
    fn default() -> Sockets {
        let ledger = Ledger::new(MOST, OF_PROGRAM);
        Sockets { bound: HashMap::new(), lines: HashMap::new(), leaving: HashMap::new(), ledger }
    }
}

impl Sockets {
    /// The program of a connection that waits for a place.
    pub(super) fn stands(&self, key: u64) -> Option<Program> {
        self.lines.get(&key).map(|(_, program)| *program)
    }

    /// A program's connections that wait for a place.
    pub(super) fn of(&self, program: Program) -> Vec<u64> {
        self.lines.iter().filter(|(_, line)| line.1 == program).map(|(key, _)| *key).collect()
    }

    /// A connection stops waiting for a place, if it still waits.
    pub(super) fn leave(&mut self, key: u64) {
        let Some((file, program)) = self.lines.get(&key).copied() else { return };
        if let Some(Bound { role: Role::Listens(backlog), .. }) = self.bound.get_mut(&file)
            && backlog.leave(key).is_some()
        {
            self.lines.remove(&key);
            self.ledger.give(program, 1);
        }
    }

    /// A connection has ended. Returns whether a backlog is left to be freed.
    pub(super) fn ended(&mut self, file: File, connection: u64) -> bool {
        if self.bound.get(&file).is_none_or(|bound| bound.connection != connection) {
            return false;
        }
        match self.bound.remove(&file) {
            Some(Bound { role: Role::Listens(backlog), .. }) => self.leaving.insert(connection, backlog).is_none(),
            _ => false,
        }
    }

    /// Frees some of a backlog. Returns whether nothing is left of it.
    pub(super) fn free_backlog_some(&mut self, connection: u64, parts: usize) -> bool {
        let Some(backlog) = self.leaving.get_mut(&connection) else { return true };
        for _ in 0..parts {
            let Some((number, waiting)) = backlog.drain() else {
                self.leaving.remove(&connection);
                return true;
            };
            if let Some(number) = number {
                self.lines.remove(&number);
            }
            self.ledger.give(waiting.program, 1);
            let _ = waiting.socket.signal_peer(Signals::NONE, Signals::from_bits_retain(RESET));
        }
        false
    }

    /// Moves waiting connections into free places of the queue.
    fn advance(&mut self, file: File) {
        let Some(Bound { role: Role::Listens(backlog), .. }) = self.bound.get_mut(&file) else { return };
        while let Some((number, socket)) = backlog.advance() {
            self.lines.remove(&number);
            // A client that has ended does not need the signal.
            let _ = socket.signal_peer(Signals::NONE, Signals::from_bits_retain(CONNECTED));
        }
    }

    fn listener(&mut self, file: File, connection: u64) -> Result<&mut Backlog<Socket>> {
        match self.bound.get_mut(&file) {
            Some(bound) if bound.connection == connection => match &mut bound.role {
                Role::Listens(backlog) => Ok(backlog),
                Role::Receives(_) => Err(Error::OtherKind),
            },
            _ => Err(Error::Invalid),
        }
    }
}

/// Checks that a name can be a socket's.
fn check_socket_name(name: &[u8]) -> Result<()> {
    if name.len() > SOCKET_NAME_MAX || name.contains(&0) { Err(Error::Invalid) } else { Ok(()) }
}

/// Checks that `Bind` has opened a description.
fn check_bound(open: &Open) -> Result<()> {
    if open.kind == Kind::Socket && open.flags.get() & flags::WRITE != 0 { Ok(()) } else { Err(Error::Invalid) }
}

/// The node of a socket that a path leads to.
fn find_socket(system: &mut impl FileSystem, place: Place) -> Result<Node> {
    let Place::There { node, .. } = place else { return Err(Error::NotFound) };
    match system.kind(node)? {
        (_, mode) if mode & WRITE == 0 => Err(Error::Access),
        (Kind::Socket, _) => Ok(node),
        _ => Err(Error::Refused),
    }
}

impl<F: ServedFileSystem, M: FnMut() -> Option<F>> Service<F, M> {
    /// `Bind`: makes a node only if it can open it, too.
    pub(super) fn bind(
        &mut self,
        from: &Open,
        (path, mode): (&[u8], u32),
        channel: Option<Handle>,
        program: Program,
    ) -> Result<Reply> {
        let channel = channel.ok_or(Error::Invalid)?;
        let system = self.system(from)?;
        let place = place!(walk_to_name(system, from.node, path), false);
        let (directory, name, node) = self.make_at(from, place, New::Socket(mode))?;
        let opened = self.open_node(from.tree, node, flags::READ | flags::WRITE);
        let done = opened.and_then(|open| {
            self.changes(&open, node);
            let done = self.connect(channel, &open, program).map(|()| open.opened());
            self.forget(open);
            done
        });
        if done.is_err() {
            self.system(from)?.unlink(directory, &name)?;
        }
        done.map(|opened| Reply::new(Answer::Opened(opened)))
    }

    /// `Listen`.
    pub(super) fn listen(&mut self, key: u64, open: &Open, backlog: u32, name: &[u8]) -> Result<Reply> {
        check_bound(open)?;
        check_socket_name(name)?;
        let file = (open.tree, open.node);
        if let Entry::Vacant(place) = self.sockets.bound.entry(file) {
            place.insert(Bound { connection: key, name: name.to_vec(), role: Role::Listens(Backlog::new(backlog)) });
        } else {
            self.sockets.listener(file, key)?.set(backlog);
            self.sockets.advance(file);
        }
        Ok(Reply::new(Answer::Done))
    }

    /// `Receive`.
    pub(super) fn receive(&mut self, key: u64, open: &Open, socket: Option<Handle>, name: &[u8]) -> Result<Reply> {
        check_bound(open)?;
        check_socket_name(name)?;
        let socket =
            socket.and_then(|socket| service::socket_for(socket, true, RECEIVER).ok()).ok_or(Error::Invalid)?;
        let file = (open.tree, open.node);
        let Entry::Vacant(place) = self.sockets.bound.entry(file) else { return Err(Error::Busy) };
        place.insert(Bound { connection: key, name: name.to_vec(), role: Role::Receives(socket) });
        Ok(Reply::new(Answer::Done))
    }

    /// `Connect`.
    pub(super) fn connect_socket(
        &mut self,
        from: &Open,
        (path, name, wait): (&[u8], &[u8], bool),
        socket: Option<Handle>,
        program: Program,
    ) -> Result<Reply> {
        check_socket_name(name)?;
        let system = self.system(from)?;
        let place = place!(walk(system, from.node, path, true), false);
        let file = (from.tree, find_socket(system, place)?);
        let socket = socket.and_then(|socket| service::socket_for(socket, false, STREAM).ok()).ok_or(Error::Invalid)?;
        let bound = self.sockets.bound.get_mut(&file).ok_or(Error::Refused)?;
        let Role::Listens(backlog) = &mut bound.role else { return Err(Error::OtherKind) };
        let full = backlog.is_full();
        if full && !wait {
            return Err(Error::WouldWait);
        }
        if !self.sockets.ledger.take(program, 1) {
            return Err(Error::TooManyOpen);
        }
        let waiting = Waiting { socket, name: name.to_vec(), program };
        if full {
            self.next += 1;
            // The client gives up by closing its end.
            if waiting.socket.wait_async(&self.port, self.next, Signals::SOCKET_PEER_CLOSED, 0).is_err() {
                self.sockets.ledger.give(program, 1);
                return Err(Error::Memory);
            }
            backlog.stand(self.next, waiting);
            self.sockets.lines.insert(self.next, (file, program));
        } else {
            backlog.push(waiting);
            if let Some(listener) = self.connections.get(&bound.connection) {
                // The signal fails only if the listener has ended.
                let _ = listener.end.signal_peer(Signals::NONE, Signals::from_bits_retain(INCOMING));
            }
        }
        Ok(Reply { answer: Answer::Connected { waits: full }, data: bound.name.clone(), handles: Vec::new() })
    }

    /// `Accept`.
    pub(super) fn accept(&mut self, key: u64, open: &Open) -> Result<Reply> {
        let file = (open.tree, open.node);
        let taken = self.sockets.listener(file, key)?.take();
        if let Some(waiting) = &taken {
            self.sockets.ledger.give(waiting.program, 1);
            self.sockets.advance(file);
        }
        if self.sockets.listener(file, key)?.is_empty()
            && let Some(listener) = self.connections.get(&key)
        {
            let _ = listener.end.signal_peer(Signals::from_bits_retain(INCOMING), Signals::NONE);
        }
        let Waiting { socket, name, .. } = taken.ok_or(Error::WouldWait)?;
        Ok(Reply { answer: Answer::Socket, data: name, handles: vec![socket.into_handle()] })
    }

    /// `Reach`.
    pub(super) fn reach(&mut self, from: &Open, path: &[u8]) -> Result<Reply> {
        let system = self.system(from)?;
        let place = place!(walk(system, from.node, path, true), false);
        let file = (from.tree, find_socket(system, place)?);
        let bound = self.sockets.bound.get(&file).ok_or(Error::Refused)?;
        let Role::Receives(socket) = &bound.role else { return Err(Error::OtherKind) };
        let sender = socket.duplicate_handle(SENDER).map_err(|_| Error::Memory)?;
        Ok(Reply { answer: Answer::Socket, data: bound.name.clone(), handles: vec![sender] })
    }
}
