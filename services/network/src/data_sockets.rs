//! Data sockets: Zircon sockets, created by the client, which has one end; the service has the other.

use std::rc::Rc;

use network::ports::Id;
use network::socket::{End, ReadOutcome, WriteOutcome};
use network::stack::DataSockets;
use network_protocol::{DATAGRAM_MAX, ERROR, Error, HEADER, Kind};
use zx::{AsHandleRef, Handle, Info, Port, Rights, Signals, Socket, Status, Vmo};

/// The kinds of packets on the service's port, in the two lowest bits of their keys. The other bits are a number.
/// The service itself: number 0 is for an event from `init`, the others are the card's.
pub const SERVICE: u64 = 0;
/// A channel has a message, or has closed.
pub const CONTROL: u64 = 1;
/// A client wrote to a data socket.
pub const READABLE: u64 = 2;
/// There is room in a data socket.
pub const WRITABLE: u64 = 3;

/// The key of a packet.
pub fn key(number: u64, kind: u64) -> u64 {
    number << 2 | kind
}

/// Rights of the client's end of an accepted connection. They do not include signals, which the service uses. The
/// connecting client has created the socket, and can do to the other side only what a peer can do: end it.
const RIGHTS: Rights = Rights::TRANSFER
    .union(Rights::DUPLICATE)
    .union(Rights::WAIT)
    .union(Rights::INSPECT)
    .union(Rights::READ)
    .union(Rights::WRITE)
    .union(Rights::MANAGE_SOCKET);

/// Takes or creates data sockets, whose packets go to a port.
pub struct Sockets(pub Rc<Port>);

/// The service's end of a data socket.
pub struct DataEnd {
    id: Id,
    ours: Socket,
    /// The client's end, too: signals are set on it, and it shows the bytes that the client has not read, even after
    /// the client has gone.
    theirs: Socket,
    port: Rc<Port>,
    /// Where the client wants the errors to be counted. It can do there what it likes: nobody else reads it.
    errors: Option<Vmo>,
}

/// The rights that the service needs on both ends of a data socket.
const NEEDED: Rights = Rights::DUPLICATE
    .union(Rights::READ)
    .union(Rights::WRITE)
    .union(Rights::WAIT)
    .union(Rights::INSPECT)
    .union(Rights::SIGNAL)
    .union(Rights::SET_PROPERTY)
    .union(Rights::MANAGE_SOCKET);

/// Checks that these handles are the two ends of one socket of this kind, with all rights that the service needs.
fn check(ours: &Handle, theirs: &Handle, options: u32) -> zx::Result<bool> {
    let (one, other) = (ours.basic_info()?, theirs.basic_info()?);
    let able = |info: &abi::zx_info_handle_basic_t| {
        info.type_ == abi::ZX_OBJ_TYPE_SOCKET && Rights::from_bits_retain(info.rights).contains(NEEDED)
    };
    let is = able(&one) && able(&other) && one.koid == other.related_koid;
    Ok(is && ours.info_record::<abi::zx_info_socket_t>(abi::ZX_INFO_SOCKET)?.options == options)
}

fn options(kind: Kind) -> u32 {
    if kind == Kind::Stream { 0 } else { abi::ZX_SOCKET_DATAGRAM }
}

impl DataSockets for Sockets {
    type End = DataEnd;
    /// The service's end and the client's.
    type ClientEnds = [Handle; 2];

    fn take(&mut self, id: Id, kind: Kind, [ours, theirs]: [Handle; 2]) -> Result<DataEnd, Error> {
        if !check(&ours, &theirs, options(kind)).unwrap_or(false) {
            return Err(Error::Malformed);
        }
        self.end(id, kind, ours.into(), theirs.into())
    }

    fn make(&mut self, id: Id, kind: Kind) -> Result<DataEnd, Error> {
        let (ours, theirs) = Socket::create(options(kind)).map_err(|_| Error::NoMemory)?;
        self.end(id, kind, ours, theirs)
    }

    fn other(&mut self, id: Id, end: &DataEnd) -> Result<DataEnd, Error> {
        let again = |socket: &Socket| socket.duplicate(Rights::SAME_RIGHTS).map_err(|_| Error::NoMemory);
        Ok(DataEnd { id, ours: again(&end.theirs)?, theirs: again(&end.ours)?, port: self.0.clone(), errors: None })
    }
}

impl Sockets {
    fn end(&self, id: Id, kind: Kind, ours: Socket, theirs: Socket) -> Result<DataEnd, Error> {
        if kind != Kind::Stream {
            // A client waits for room for the longest datagram, not for any room.
            let room = (HEADER + DATAGRAM_MAX).to_ne_bytes();
            theirs.set_property(abi::ZX_PROP_SOCKET_TX_THRESHOLD, &room).map_err(|_| Error::NoMemory)?;
        }
        Ok(DataEnd { id, ours, theirs, port: self.0.clone(), errors: None })
    }
}

impl DataEnd {
    /// A handle for the client.
    pub fn for_client(&self) -> Result<Handle, Error> {
        self.theirs.duplicate_handle(RIGHTS).map_err(|_| Error::NoMemory)
    }

    /// Protocol step 11.
    ///
    /// # Errors
    /// `Malformed`: it is no VMO for this. `Already`: the errors are counted in another one.
    pub fn count_errors(&mut self, count: Handle) -> Result<(), Error> {
        if self.errors.is_some() {
            return Err(Error::Already);
        }
        let rights = Rights::READ | Rights::WRITE;
        self.errors = Some(service::memory(count, rights).map_err(|_| Error::Malformed)?);
        Ok(())
    }

    fn watch(&self, kind: u64, signals: Signals) {
        // It fails only if the server is out of memory. Then this socket stalls, and its holder may close it.
        let _ = self.ours.wait_async(&self.port, key(self.id, kind), signals, 0);
    }
}

impl End for DataEnd {
    fn take(&mut self, into: &mut [u8]) -> ReadOutcome {
        match self.ours.read(into) {
            Ok(count) => ReadOutcome::Bytes(count),
            Err(Status::SHOULD_WAIT) => ReadOutcome::Nothing,
            Err(_) => ReadOutcome::End,
        }
    }

    fn give(&mut self, from: &[u8]) -> WriteOutcome {
        match self.ours.write(from) {
            Ok(count) => WriteOutcome::Bytes(count),
            Err(Status::SHOULD_WAIT) => WriteOutcome::Full,
            Err(_) => WriteOutcome::Refused,
        }
    }

    fn finish(&mut self) {
        let _ = self.ours.set_disposition(abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED, 0);
    }

    fn cut(&mut self) {
        const STOP: u32 = abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED;
        let _ = self.ours.set_disposition(STOP, STOP);
    }

    fn tell(&mut self, clear: u32, set: u32) {
        let _ = self.theirs.signal(Signals::from_bits_retain(clear), Signals::from_bits_retain(set));
        if let Some(errors) = self.errors.as_ref().filter(|_| set & ERROR != 0) {
            // After the signal: who sees the count looks for it. A client whose VMO cannot be written harms itself.
            let mut count = [0; 4];
            let _ = errors.read(&mut count, 0);
            let _ = errors.write(&u32::from_ne_bytes(count).wrapping_add(1).to_ne_bytes(), 0);
        }
    }

    fn unread(&self) -> usize {
        self.theirs.info().map_or(0, |info| info.rx_buf_available)
    }

    fn watch_readable(&mut self) {
        self.watch(READABLE, Signals::SOCKET_READABLE | Signals::SOCKET_PEER_WRITE_DISABLED);
    }

    fn watch_writable(&mut self) {
        self.watch(WRITABLE, Signals::SOCKET_WRITABLE | Signals::SOCKET_WRITE_DISABLED);
    }
}
