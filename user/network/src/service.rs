//! Channels: each message answered, each end noticed.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use network::ports::Id;
use network::stack::Stack;
use network_protocol::{Error, LONGEST, Reply, Request};
use service::{Clients, Event};
use smoltcp::time::Instant;
use zx::{AsHandleRef, Channel, Handle, MonotonicInstant, Port, Signals, Status};

use crate::ends::{self, CLIENTS, CONTROL, READABLE, Sockets, WRITABLE, key};

/// Connections of clients that there may be.
const CLIENTS_MAX: usize = 1024;
/// Packets that are taken from the port before what they touched is moved.
const BATCH: usize = 32;

/// Whom a channel speaks for.
#[derive(Clone, Copy)]
enum Holder {
    /// A process (protocol step 1).
    Client(Id),
    /// A socket (step 3).
    Socket(Id),
}

struct Control {
    channel: Channel,
    holder: Holder,
}

/// An answer, and the handles that go with it.
type Answer = Result<(Reply, Vec<Handle>), Error>;

struct Service {
    port: Rc<Port>,
    clients: Clients,
    stack: Stack<Sockets>,
    /// By the number in the keys of their packets.
    controls: HashMap<u64, Control>,
    client_count: usize,
    last: u64,
}

/// Serves until there will be no more clients.
///
/// # Errors
/// A sentence for the log.
pub fn run() -> Result<(), String> {
    let clients = Clients::take()?;
    let port = Rc::new(Port::create().map_err(|status| format!("no port: {status}"))?);
    let seed = RandomState::new().hash_one(std::process::id());
    // For who wants to see packets of connections that need none.
    let direct = !std::env::args().any(|argument| argument == "packets");
    let stack = Stack::new(Sockets(port.clone()), seed, now(), direct);
    let mut service = Service { port, clients, stack, controls: HashMap::new(), client_count: 0, last: 0 };
    service.serve().map_err(|status| format!("the service ends: {status}"))
}

fn now() -> Instant {
    Instant::from_micros(MonotonicInstant::now().0 / 1000)
}

impl Service {
    fn serve(&mut self) -> Result<(), Status> {
        self.watch(&self.clients.0, key(0, CLIENTS))?;
        let mut deadline = MonotonicInstant::INFINITE;
        loop {
            for _ in 0..BATCH {
                match self.port.wait(deadline) {
                    Ok(packet) => self.packet(packet.key)?,
                    Err(Status::TIMED_OUT) => break,
                    Err(status) => return Err(status),
                }
                deadline = MonotonicInstant::ZERO;
            }
            deadline = match self.stack.poll(now()) {
                Some(at) => MonotonicInstant(at.total_micros().saturating_mul(1000)),
                None => MonotonicInstant::INFINITE,
            };
        }
    }

    fn watch(&self, channel: &Channel, key: u64) -> Result<(), Status> {
        channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    fn packet(&mut self, packet: u64) -> Result<(), Status> {
        let number = packet >> 2;
        match packet & 3 {
            CLIENTS => return self.new_client(),
            CONTROL => self.control(number),
            READABLE => self.stack.readable(number),
            WRITABLE => self.stack.writable(number),
            _ => {}
        }
        Ok(())
    }

    fn new_client(&mut self) -> Result<(), Status> {
        match self.clients.next() {
            Ok(Event::Ended(_)) => {}
            Ok(Event::Client(client)) => {
                for handle in client.handles {
                    if self.client_count < CLIENTS_MAX {
                        let id = self.last + 1;
                        if self.add(Channel::from(handle), Holder::Client(id)).is_ok() {
                            self.client_count += 1;
                        }
                    }
                }
            }
            Err(Status::SHOULD_WAIT) => {}
            Err(status) => return Err(status),
        }
        self.watch(&self.clients.0, key(0, CLIENTS))
    }

    fn add(&mut self, channel: Channel, holder: Holder) -> Result<(), Status> {
        self.last += 1;
        self.watch(&channel, key(self.last, CONTROL))?;
        self.controls.insert(self.last, Control { channel, holder });
        Ok(())
    }

    /// One message of a channel, or its end. Who breaks the rules is cut off, as who has gone.
    fn control(&mut self, number: u64) {
        let Some(control) = self.controls.remove(&number) else { return };
        let holder = control.holder;
        let goes_on = self.message(&control).is_ok() && self.watch(&control.channel, key(number, CONTROL)).is_ok();
        if goes_on {
            self.controls.insert(number, control);
        } else {
            match holder {
                Holder::Client(_) => self.client_count -= 1,
                Holder::Socket(id) => self.stack.close(id),
            }
        }
    }

    fn message(&mut self, control: &Control) -> Result<(), Status> {
        let mut bytes = [0; LONGEST];
        let mut handles = [None];
        let size = match control.channel.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Ok(()),
            Err((status, _)) => return Err(status),
        };
        let [handle] = handles;
        let (transaction, request) = Request::decode(&bytes[..size.bytes]).ok_or(Status::INVALID_ARGS)?;
        let answer = request.ok_or(Error::Malformed).and_then(|request| self.answer(control.holder, request, handle));
        let (reply, handles) = match answer {
            Ok((reply, handles)) => (Ok(reply), handles),
            Err(error) => (Err(error), Vec::new()),
        };
        control.channel.write_handles(Reply::encode(transaction, reply).as_bytes(), handles)
    }

    fn answer(&mut self, holder: Holder, request: Request, handle: Option<Handle>) -> Answer {
        match (holder, request, handle) {
            (Holder::Client(client), Request::Open(family, kind), Some(control)) => {
                let id = self.stack.open(client, family, kind)?;
                let data = self.give(id, Channel::from(control))?;
                Ok((Reply::Done, vec![data]))
            }
            (Holder::Socket(id), Request::Clone, Some(control)) => {
                self.stack.share(id)?;
                self.give(id, Channel::from(control))?;
                Ok((Reply::Done, Vec::new()))
            }
            (Holder::Socket(id), Request::Accept, None) => {
                let (id, peer) = self.stack.accept(id)?;
                let made = Channel::create().map_err(|_| Error::NoMemory);
                let given = made.and_then(|(theirs, ours)| Ok((self.give(id, ours)?, theirs)));
                let Ok((data, theirs)) = given else {
                    self.stack.close(id);
                    return Err(Error::NoMemory);
                };
                Ok((Reply::Address(peer), vec![theirs.into(), data]))
            }
            (Holder::Socket(id), request, None) => Ok((self.stack.request(id, request)?, Vec::new())),
            _ => Err(Error::Malformed),
        }
    }

    /// Gives a socket a control channel; it is the one that the socket counts already. Gives the client's data socket.
    fn give(&mut self, id: Id, control: Channel) -> Result<Handle, Error> {
        let data = self.stack.end(id).ok_or(Error::Invalid).and_then(ends::DataEnd::for_client);
        let added = data.and_then(|data| {
            self.add(control, Holder::Socket(id)).map_err(|_| Error::NoMemory)?;
            Ok(data)
        });
        if added.is_err() {
            self.stack.close(id);
        }
        added
    }
}
