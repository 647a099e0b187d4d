//! Attacks through socket names: objects that are no sockets, queues without end, and clients that go before they are
//! accepted.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

use abi::{ZX_SOCKET_DATAGRAM, ZX_SOCKET_STREAM};
use conformance::check::{Failure, Outcome, ensure, equal};
use file_protocol::{Answer, Error, Request, SOCKET_NAME_MAX};
use hostile::attack::{Attacker, BEGUN, goes_on};
use zx::{AsHandleRef, Channel, Event, Handle, Info, MonotonicInstant, Rights, Signals, Socket};

use super::fuchsia::{Before, TMP, call, open, write};

/// The most connections that one program may have in queues.
const SHARE: usize = 2048;

/// A socket name that is removed at the end of the case.
struct Name(&'static str);

impl Name {
    /// Binds the name through the raw protocol.
    fn bind(self, tree: &Channel) -> Result<(Channel, Name), Failure> {
        let (ours, theirs) = Channel::create()?;
        let request = Request::Bind { path: self.0.as_bytes(), mode: 0o777 };
        match call(tree, &request, Some(theirs.into_handle()))? {
            Ok(Answer::Opened(_)) => Ok((ours, self)),
            other => Err(format!("{}: {other:?}", self.0).into()),
        }
    }

    fn listen(self, tree: &Channel, backlog: u32) -> Result<(Channel, Name), Failure> {
        let (listener, name) = self.bind(tree)?;
        equal(call(&listener, &Request::Listen { backlog, name: name.0.as_bytes() }, None)?, Ok(Answer::Done))?;
        Ok((listener, name))
    }

    fn connect(&self, wait: bool) -> Request<'static> {
        Request::Connect { path: self.0.as_bytes(), name: b"", wait }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(format!("/tmp/{}", self.0));
    }
}

/// A new stream: one end to give away, and the other.
fn stream() -> Result<(Socket, Option<Handle>), Failure> {
    let (ours, theirs) = Socket::create(ZX_SOCKET_STREAM)?;
    Ok((ours, Some(theirs.into_handle())))
}

/// A neighbour's sockets work as they should.
fn ordinary() -> std::io::Result<()> {
    let _names = ["ordinary", "letters"].map(Name);
    let listener = UnixListener::bind("/tmp/ordinary")?;
    let mut client = UnixStream::connect("/tmp/ordinary")?;
    client.write_all(b"there")?;
    let mut bytes = [0; 5];
    listener.accept()?.0.read_exact(&mut bytes)?;
    let letters = UnixDatagram::bind("/tmp/letters")?;
    letters.send_to(&bytes, "/tmp/letters")?;
    bytes = [0; 5];
    letters.recv(&mut bytes)?;
    if &bytes == b"there" { Ok(()) } else { Err(std::io::Error::other("a socket does not carry what was sent")) }
}

/// The service checks objects that come instead of connections.
pub fn connections() -> Outcome {
    let before = Before::new()?;
    let tree = zx::startup::connect(TMP)?;
    let (listener, name) = Name("checked").listen(&tree, 8)?;
    let connect = name.connect(false);
    let invalid = |handle: Option<Handle>| equal(call(&tree, &connect, handle)?, Err(Error::Invalid));
    invalid(None)?;
    invalid(Some(Event::create()?.into_handle()))?;
    invalid(Some(Channel::create()?.0.into_handle()))?;
    invalid(Some(Socket::create(ZX_SOCKET_DATAGRAM)?.0.into_handle()))?;
    let all = abi::ZX_DEFAULT_SOCKET_RIGHTS;
    for lacks in [Rights::READ, Rights::WRITE, Rights::WAIT, Rights::DUPLICATE, Rights::MANAGE_SOCKET, Rights::INSPECT]
    {
        invalid(Some(Socket::create(ZX_SOCKET_STREAM)?.0.replace(all - lacks)?.into_handle()))?;
    }
    equal(call(&listener, &Request::Accept, None)?, Err(Error::WouldWait))?;
    // Both ends of one socket: the accepting client gets them, and they are closed when the listener ends.
    let (one, other) = Socket::create(ZX_SOCKET_STREAM)?;
    let connected = Ok(Answer::Connected { waits: false });
    equal(call(&tree, &connect, Some(one.into_handle()))?, connected)?;
    equal(call(&tree, &connect, Some(other.into_handle()))?, connected)?;
    let (ours, theirs) = stream()?;
    equal(call(&tree, &connect, theirs)?, connected)?;
    drop(listener);
    ours.wait_one(Signals::SOCKET_PEER_CLOSED, MonotonicInstant::INFINITE)?;
    equal(call(&tree, &connect, stream()?.1)?, Err(Error::Refused))?;
    // Invalid names.
    let long = [b'n'; SOCKET_NAME_MAX + 1];
    for bad in [&long[..], b"n\0n"] {
        let request = Request::Connect { path: b"checked", name: bad, wait: false };
        equal(call(&tree, &request, stream()?.1)?, Err(Error::Invalid))?;
    }
    ordinary()?;
    before.is_there()
}

/// Only a bound socket listens and receives, and it can be bound only once.
pub fn bound() -> Outcome {
    let before = Before::new()?;
    let tree = zx::startup::connect(TMP)?;
    let listen = Request::Listen { backlog: 1, name: b"" };
    let receive = Request::Receive { name: b"" };
    let datagrams = || Socket::create(ZX_SOCKET_DATAGRAM).map(|(one, _)| Some(one.into_handle()));
    // A name is not created if its socket cannot be opened.
    let refused = Name("refused");
    let bind = Request::Bind { path: b"refused", mode: 0o777 };
    for handle in [None, Some(Event::create()?.into_handle())] {
        equal(call(&tree, &bind, handle)?, Err(Error::Invalid))?;
        ensure(fs::metadata("/tmp/refused").is_err(), "a name is there that nobody holds")?;
    }
    drop(refused);
    let file = open(&tree, "a-file")?;
    let (socket, name) = Name("bound").bind(&tree)?;
    // Opening a socket's name alone does not bind it.
    let (ours, theirs) = Channel::create()?;
    let looks = Request::Open { path: b"bound", flags: 0, mode: 0 };
    ensure(
        matches!(call(&tree, &looks, Some(theirs.into_handle()))?, Ok(Answer::Opened(_))),
        "it cannot be looked at",
    )?;
    for other in [&tree, &file, &ours] {
        equal(call(other, &listen, None)?, Err(Error::Invalid))?;
        equal(call(other, &receive, datagrams()?)?, Err(Error::Invalid))?;
        equal(call(other, &Request::Accept, None)?, Err(Error::Invalid))?;
    }
    for request in
        [Request::Read { len: 1 }, Request::Write, Request::Resize { size: 1 }, Request::Memory { write: true }]
    {
        ensure(call(&socket, &request, None)?.is_err(), "a socket's name has content")?;
    }
    let stream = Socket::create(ZX_SOCKET_STREAM)?.0.into_handle();
    for handle in [None, Some(Event::create()?.into_handle()), Some(stream)] {
        equal(call(&socket, &receive, handle)?, Err(Error::Invalid))?;
    }
    // It receives both ends of a socket that it sends to itself, and continues to work.
    let (one, other) = Socket::create(ZX_SOCKET_DATAGRAM)?;
    equal(call(&socket, &receive, Some(one.into_handle()))?, Ok(Answer::Done))?;
    equal(call(&socket, &receive, Some(other.into_handle()))?, Err(Error::Busy))?;
    equal(call(&socket, &listen, None)?, Err(Error::OtherKind))?;
    // Another connection to the name is not the one that bound it.
    let (again, theirs) = Channel::create()?;
    equal(call(&socket, &Request::Clone, Some(theirs.into_handle()))?, Ok(Answer::Done))?;
    equal(call(&again, &Request::Accept, None)?, Err(Error::Invalid))?;
    equal(call(&again, &listen, None)?, Err(Error::Invalid))?;
    drop(again);
    equal(call(&tree, &Request::Reach { path: b"bound" }, None)?, Ok(Answer::Socket))?;
    drop((socket, name));
    fs::remove_file("/tmp/a-file")?;
    ordinary()?;
    before.is_there()
}

/// A sender may write to a receiver's socket, and may do nothing else with it.
pub fn senders() -> Outcome {
    let _name = Name("receives");
    let receiver = UnixDatagram::bind("/tmp/receives")?;
    let tree = zx::startup::connect(TMP)?;
    tree.write(&file_protocol::encode(7, &Request::Reach { path: b"receives" }, &[]).unwrap_or_default(), [])?;
    let (mut bytes, mut handles) = (file_protocol::buffer(), [None]);
    tree.read_wait(&mut bytes, &mut handles, MonotonicInstant::INFINITE)?;
    let sender = Socket::from(handles[0].take().ok_or("no socket came")?);
    let rights = Rights::from_bits_retain(sender.basic_info()?.rights);
    equal(rights, Rights::WRITE | Rights::WAIT | Rights::TRANSFER)?;
    ensure(sender.set_disposition(abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED, 0).is_err(), "a sender ends it for all")?;
    // Bytes that are no datagram of the protocol are received as a datagram without a sender.
    sender.write(&[200, 1, 2])?;
    let mut bytes = [0; 9];
    let (len, from) = receiver.recv_from(&mut bytes)?;
    ensure(len == 3 && from.is_unnamed(), "what says nothing of its sender has one")?;
    Ok(ordinary()?)
}

/// Connections without end: each program may have a limited share, and clients that give up free theirs.
pub fn queues() -> Outcome {
    let before = Before::new()?;
    let tree = zx::startup::connect(TMP)?;
    let (listener, name) = Name("full").listen(&tree, u32::MAX)?;
    let connect = name.connect(true);
    let mut clients = Vec::new();
    let refused = loop {
        let (ours, theirs) = stream()?;
        match call(&tree, &connect, theirs)? {
            Ok(Answer::Connected { waits }) => {
                // The queue does not exceed its limit.
                equal(waits, clients.len() > file_protocol::BACKLOG_MAX as usize)?;
                clients.push(ours);
            }
            other => break other,
        }
        ensure(clients.len() <= SHARE, "a program may have as many connections wait as it likes")?;
    };
    equal(refused, Err(Error::TooManyOpen))?;
    equal(clients.len(), SHARE)?;
    before.is_there()?;
    // A client that gives up waiting makes room for another, which gets it.
    for _ in 0..100 {
        clients.pop();
        let (ours, theirs) = stream()?;
        equal(call(&tree, &connect, theirs)?, Ok(Answer::Connected { waits: true }))?;
        clients.push(ours);
    }
    drop(listener);
    for client in &clients {
        client.wait_one(Signals::SOCKET_PEER_CLOSED, MonotonicInstant::INFINITE)?;
    }
    ordinary()?;
    drop(name);
    let (_listener, name) = Name("full").listen(&tree, 0)?;
    equal(call(&tree, &name.connect(false), stream()?.1)?, Ok(Answer::Connected { waits: false }))?;
    equal(call(&tree, &name.connect(false), stream()?.1)?, Err(Error::WouldWait))?;
    before.is_there()
}

/// Again and again, a listener ends whose queue and waiting line are full.
pub fn storm_child() -> Outcome {
    let tree = zx::startup::connect(TMP)?;
    let mut begun = false;
    loop {
        let (listener, name) = Name("storm").listen(&tree, u32::MAX)?;
        let connect = name.connect(true);
        let mut clients = Vec::new();
        loop {
            let (ours, theirs) = stream()?;
            if call(&tree, &connect, theirs)?.is_err() {
                break;
            }
            clients.push(ours);
        }
        drop(listener);
        if !std::mem::replace(&mut begun, true) {
            println!("{BEGUN}");
        }
    }
}

pub fn storm() -> Outcome {
    let before = Before::new()?;
    let attacker = Attacker::start("storm")?;
    goes_on("a write beside listeners that end", 40, write)?;
    drop(attacker);
    goes_on("a write after their end", 20, write)?;
    drop(Name("storm"));
    ordinary()?;
    before.is_there()
}
