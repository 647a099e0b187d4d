//! Data sockets: Zircon's, with one end here and the other with a client.

use std::rc::Rc;

use network::ports::Id;
use network::socket::{End, Given, Taken};
use network::stack::World;
use network_protocol::{DATAGRAM_MAX, Error, HEADER, Kind};
use zx::{AsHandleRef, Handle, Port, Rights, Signals, Socket, Status};

/// The kinds of packets of the service's port, in the last two bits of their keys; above stands a number.
pub const CLIENTS: u64 = 0;
/// Something came over a channel, or its end.
pub const CONTROL: u64 = 1;
/// A client wrote to a data socket.
pub const READABLE: u64 = 2;
/// There is room in a data socket.
pub const WRITABLE: u64 = 3;

/// The key of a packet.
pub fn key(number: u64, kind: u64) -> u64 {
    number << 2 | kind
}

/// What a client can do with its end: nothing to the signals, by which the service speaks.
const RIGHTS: Rights = Rights::TRANSFER
    .union(Rights::DUPLICATE)
    .union(Rights::WAIT)
    .union(Rights::INSPECT)
    .union(Rights::READ)
    .union(Rights::WRITE)
    .union(Rights::MANAGE_SOCKET);

/// Makes data sockets, whose packets go to a port.
pub struct Sockets(pub Rc<Port>);

/// The end of one.
pub struct DataEnd {
    id: Id,
    ours: Socket,
    /// The client's, too: signals are set on it, and what the client has not read is seen there, also when the client has
    /// gone.
    theirs: Socket,
    port: Rc<Port>,
}

impl World for Sockets {
    type End = DataEnd;

    fn make(&mut self, id: Id, kind: Kind) -> Result<DataEnd, Error> {
        let options = if kind == Kind::Stream { 0 } else { abi::ZX_SOCKET_DATAGRAM };
        let (ours, theirs) = Socket::create(options).map_err(|_| Error::NoMemory)?;
        if kind == Kind::Datagram {
            // A client waits for room for the longest datagram, not for room.
            let room = (HEADER + DATAGRAM_MAX).to_ne_bytes();
            theirs.set_property(abi::ZX_PROP_SOCKET_TX_THRESHOLD, &room).map_err(|_| Error::NoMemory)?;
        }
        Ok(DataEnd { id, ours, theirs, port: self.0.clone() })
    }

    fn other(&mut self, id: Id, end: &DataEnd) -> Result<DataEnd, Error> {
        let again = |socket: &Socket| socket.duplicate(Rights::SAME_RIGHTS).map_err(|_| Error::NoMemory);
        Ok(DataEnd { id, ours: again(&end.theirs)?, theirs: again(&end.ours)?, port: self.0.clone() })
    }
}

impl DataEnd {
    /// A handle for the client.
    pub fn for_client(&self) -> Result<Handle, Error> {
        self.theirs.duplicate_handle(RIGHTS).map_err(|_| Error::NoMemory)
    }

    fn watch(&self, kind: u64, signals: Signals) {
        // It fails only for want of memory in the kernel: then this socket stands still, and its holder may close it.
        let _ = self.ours.wait_async(&self.port, key(self.id, kind), signals, 0);
    }
}

impl End for DataEnd {
    fn take(&mut self, into: &mut [u8]) -> Taken {
        match self.ours.read(into) {
            Ok(count) => Taken::Bytes(count),
            Err(Status::SHOULD_WAIT) => Taken::Nothing,
            Err(_) => Taken::End,
        }
    }

    fn give(&mut self, from: &[u8]) -> Given {
        match self.ours.write(from) {
            Ok(count) => Given::Bytes(count),
            Err(Status::SHOULD_WAIT) => Given::Full,
            Err(_) => Given::Refused,
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
