//! Sockets of the network. Each has a control channel to the network service and a data socket. Numbers in comments
//! refer to the steps in the crate `network-protocol`.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};

use abi::{Rights, Signals, Status, ZX_SOCKET_DATAGRAM, ZX_SOCKET_DISPOSITION_WRITE_DISABLED, ZX_SOCKET_STREAM};
use network_protocol::{
    self as protocol, Addresses, CardState, Choice, DATAGRAM_MAX, Error, Family, HEADER, Kind, LONGEST, Name, Reply,
    Request,
};
use sync::Lock;
use zx::{AsHandleRef, Channel, Duration, Handle, MonotonicInstant, Socket};

use crate::c::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, ECONNABORTED, ECONNREFUSED, ECONNRESET,
    EDESTADDRREQ, EHOSTUNREACH, EINPROGRESS, EINVAL, EISCONN, EMFILE, EMSGSIZE, ENETDOWN, ENETUNREACH, ENOMEM,
    ENOPROTOOPT, ENOTCONN, EOPNOTSUPP, EPIPE, ETIMEDOUT, Errno, Result,
};
use crate::errors::Errors;
use crate::object::wait_until;
use crate::services;

pub const CONNECTED: Signals = Signals::from_bits_retain(protocol::CONNECTED);
pub const INCOMING: Signals = Signals::from_bits_retain(protocol::INCOMING);
pub const ERROR: Signals = Signals::from_bits_retain(protocol::ERROR);
/// A timeout up to this length can expire before the service has run.
const SHORT: Duration = Duration::from_millis(20);
const LISTENING: Signals = Signals::from_bits_retain(protocol::LISTENING);

pub const READABLE: Signals =
    Signals::SOCKET_READABLE.union(Signals::SOCKET_PEER_WRITE_DISABLED).union(Signals::SOCKET_PEER_CLOSED);
pub const WRITABLE: Signals =
    Signals::SOCKET_WRITABLE.union(Signals::SOCKET_WRITE_DISABLED).union(Signals::SOCKET_PEER_CLOSED);

/// Bytes of a datagram, with its header, whose buffer is on the stack.
const SHORT_DATAGRAM: usize = HEADER + 2048;

/// Calls `act` with room for this many bytes. Nobody fills it first.
fn with_room<T>(len: usize, act: impl FnOnce(&mut [MaybeUninit<u8>]) -> T) -> T {
    if len <= SHORT_DATAGRAM {
        act(&mut [const { MaybeUninit::uninit() }; SHORT_DATAGRAM][..len])
    } else {
        act(&mut Vec::with_capacity(len).spare_capacity_mut()[..len])
    }
}

/// This process's channel to the service (1).
static CLIENT: Lock<Option<Channel>> = Lock::new(None);

impl From<Error> for Errno {
    fn from(error: Error) -> Errno {
        match error {
            Error::Malformed | Error::Invalid => EINVAL,
            Error::NotSupported => EOPNOTSUPP,
            Error::AddressInUse => EADDRINUSE,
            Error::AddressNotAvailable => EADDRNOTAVAIL,
            Error::WrongFamily => EAFNOSUPPORT,
            // The others are never a socket's.
            Error::Unreachable | Error::NoName | Error::NoNameServer | Error::NoCard => ENETUNREACH,
            Error::HostUnreachable => EHOSTUNREACH,
            Error::Refused => ECONNREFUSED,
            Error::Reset => ECONNRESET,
            Error::Aborted => ECONNABORTED,
            Error::TimedOut => ETIMEDOUT,
            Error::IsConnected => EISCONN,
            Error::NotConnected => ENOTCONN,
            Error::Already => EALREADY,
            Error::InProgress => EINPROGRESS,
            Error::Again => EAGAIN,
            Error::TooMany => EMFILE,
            Error::NoMemory => ENOMEM,
            Error::Denied => EACCES,
            Error::NoDestination => EDESTADDRREQ,
            Error::NoOption => ENOPROTOOPT,
        }
    }
}

/// State of a TCP socket as this process knows it; the signals of the data socket can say more.
pub const FRESH: u32 = 0;
pub const CONNECTING: u32 = 1;
pub const OPEN: u32 = 2;
pub const LISTENS: u32 = 3;

/// A socket of the network.
pub struct Network {
    control: Channel,
    data: Socket,
    kind: Kind,
    /// State of a TCP socket; the same in other threads.
    pub state: AtomicU32,
    /// Destination of the last datagram that the service has approved (7).
    prepared: Lock<Option<SocketAddr>>,
    /// Its errors, if it carries datagrams.
    errors: Errors,
}

/// The service's answer, with its handles.
type Answer<const M: usize> = (core::result::Result<Reply, Error>, [Option<Handle>; M]);

/// Sends a request, and waits for the answer.
pub fn call<const N: usize, const M: usize>(
    channel: &Channel,
    request: Request<'_>,
    handles: [Handle; N],
) -> core::result::Result<Answer<M>, Status> {
    let mut bytes = [0; LONGEST];
    let mut out = [const { None }; M];
    let message = request.encode(0);
    let size = channel.call(MonotonicInstant::INFINITE, message.as_bytes(), handles, &mut bytes, &mut out)?;
    let reply = bytes.get(..size.bytes).and_then(Reply::decode).ok_or(Status::IO)?;
    Ok((reply, out))
}

/// Asks over this process's channel to the service. Connects to the service first if there is no channel or the service
/// has ended.
fn ask_service<T>(mut ask: impl FnMut(&Channel) -> core::result::Result<T, Status>) -> Result<T> {
    let mut client = CLIENT.lock();
    for again in [true, false] {
        let channel = match client.take() {
            Some(channel) => channel,
            None => {
                let (ours, theirs) = Channel::create()?;
                services::connect(protocol::SERVICE, theirs.into_handle()).map_err(|_| ENETDOWN)?;
                ours
            }
        };
        match ask(&channel) {
            Ok(answer) => {
                *client = Some(channel);
                return Ok(answer);
            }
            Err(Status::PEER_CLOSED) if again => {}
            Err(Status::PEER_CLOSED) => return Err(ENETDOWN),
            Err(status) => {
                *client = Some(channel);
                return Err(status.into());
            }
        }
    }
    Err(ENETDOWN)
}

/// Opens a socket. Returns the control channel and the data socket.
fn open(family: Family, kind: Kind) -> Result<(Channel, Socket)> {
    let options = if kind != Kind::Stream { ZX_SOCKET_DATAGRAM } else { ZX_SOCKET_STREAM };
    let (reply, opened) = ask_service(|channel| {
        let (ours, theirs) = Channel::create()?;
        let (data, far) = Socket::create(options)?;
        let handles = [theirs.into_handle(), far.into_handle(), data.duplicate_handle(Rights::SAME_RIGHTS)?];
        let (reply, []) = call(channel, Request::Open(family, kind), handles)?;
        Ok((reply, (ours, data)))
    })?;
    reply?;
    Ok(opened)
}

/// The state of the network card. `None`: the machine has none.
///
/// # Errors
/// `ENETDOWN`: there is no network service.
pub fn card() -> Result<Option<CardState>> {
    let (reply, []) = ask_service(|channel| call(channel, Request::Card, []))?;
    match reply {
        Ok(Reply::Card(state)) => Ok(Some(state)),
        Err(Error::NoCard) => Ok(None),
        Ok(_) => Err(EINVAL),
        Err(error) => Err(error.into()),
    }
}

/// Looks up the addresses of a host (10), over a channel of its own: it may take seconds.
///
/// # Errors
/// `NoName`, `Denied`, `NoNameServer`; the last one also if there is no network service.
pub fn look_up(name: Name<'_>) -> core::result::Result<Addresses, Error> {
    let connected = Channel::create().map_err(Errno::from).and_then(|(ours, theirs)| {
        services::connect(protocol::SERVICE, theirs.into_handle()).map_err(|_| ENETDOWN)?;
        Ok(ours)
    });
    let channel = connected.map_err(|_| Error::NoNameServer)?;
    match call(&channel, Request::Lookup(name), []) {
        Ok((Ok(Reply::Addresses(addresses)), [])) => Ok(addresses),
        Ok((Err(error), [])) => Err(error),
        _ => Err(Error::NoNameServer),
    }
}

impl Network {
    /// Creates a socket (2).
    ///
    /// # Errors
    /// `ENETDOWN`: there is no network service. `EMFILE`, `ENOMEM`.
    pub fn open(family: Family, kind: Kind) -> Result<Network> {
        let (control, data) = open(family, kind)?;
        Ok(Network::new(control, data, kind, FRESH))
    }

    fn new(control: Channel, data: Socket, kind: Kind, state: u32) -> Network {
        Network { control, data, kind, state: AtomicU32::new(state), prepared: Lock::new(None), errors: Errors::new() }
    }

    /// Makes a socket from the two handles of [`Network::to_handles`] in another process, in the same order.
    ///
    /// # Errors
    /// Errors of the kernel for these handles.
    pub fn from_handles(data: &Socket, control: Handle) -> core::result::Result<Network, Status> {
        let data = data.duplicate(Rights::SAME_RIGHTS)?;
        let kind = if data.info()?.options & ZX_SOCKET_DATAGRAM != 0 { Kind::Datagram } else { Kind::Stream };
        Ok(Network::new(Channel::from(control), data, kind, FRESH))
    }

    /// Returns the data socket and a new control channel, for another process (8).
    ///
    /// # Errors
    /// [`Status::NO_RESOURCES`]: the service refuses. [`Status::PEER_CLOSED`]: the service has ended.
    pub fn to_handles(&self) -> core::result::Result<Vec<Handle>, Status> {
        let data = self.data.duplicate_handle(Rights::SAME_RIGHTS)?;
        let (ours, theirs) = Channel::create()?;
        let (reply, []) = call(&self.control, Request::Clone, [theirs.into_handle()])?;
        reply.map_err(|_| Status::NO_RESOURCES)?;
        Ok(alloc::vec![data, ours.into_handle()])
    }

    /// Whether this is a socket of datagrams or of echoes.
    pub fn is_datagram(&self) -> bool {
        self.kind != Kind::Stream
    }

    /// Sends a request to the service and returns its answer (3).
    ///
    /// # Errors
    /// The service's error; `ECONNABORTED`: the service has ended.
    pub fn ask(&self, request: Request<'_>) -> Result<Reply> {
        let (reply, []) = call(&self.control, request, []).map_err(|status| match status {
            Status::PEER_CLOSED => ECONNABORTED,
            status => status.into(),
        })?;
        Ok(reply?)
    }

    /// Sends a request whose answer is an address.
    ///
    /// # Errors
    /// As [`Network::ask`].
    pub fn address(&self, request: Request<'_>) -> Result<SocketAddr> {
        match self.ask(request)? {
            Reply::Address(address) => Ok(address),
            _ => Err(EINVAL),
        }
    }

    /// The value of an option.
    ///
    /// # Errors
    /// As [`Network::ask`].
    pub fn choice(&self, choice: Choice) -> Result<u32> {
        match self.ask(Request::Get(choice))? {
            Reply::Value(value) => Ok(value),
            _ => Err(EINVAL),
        }
    }

    /// Takes the pending error; the service returns it once.
    ///
    /// # Errors
    /// As [`Network::ask`].
    pub fn take_error(&self) -> Result<Option<Errno>> {
        let number = self.choice(Choice::Error)?;
        if number != 0 {
            // A failed attempt to connect can be repeated.
            let _ = self.state.compare_exchange(CONNECTING, FRESH, Ordering::Relaxed, Ordering::Relaxed);
        }
        Ok(Error::from_number(number).map(Errno::from))
    }

    /// The state of a TCP socket.
    pub fn state(&self) -> Result<u32> {
        let known = self.state.load(Ordering::Relaxed);
        if known == OPEN || known == LISTENS {
            return Ok(known);
        }
        let signals = self.data.signals()?;
        let now = match () {
            () if signals.contains(CONNECTED) => OPEN,
            () if signals.contains(LISTENING) => LISTENS,
            () => return Ok(known),
        };
        self.state.store(now, Ordering::Relaxed);
        Ok(now)
    }

    /// Connects (4).
    ///
    /// # Errors
    /// The reason for the failure. `EINPROGRESS`: the deadline is over, and the attempt continues.
    pub fn connect(&self, to: SocketAddr, until: MonotonicInstant) -> Result<()> {
        let wait = until != MonotonicInstant::ZERO;
        match self.ask(Request::Connect { to, wait }) {
            Ok(_) => {
                self.state.store(OPEN, Ordering::Relaxed);
                *self.prepared.lock() = None;
                return Ok(());
            }
            Err(EINPROGRESS) => self.state.store(CONNECTING, Ordering::Relaxed),
            // The first call after the connection is established succeeds; later calls to connect fail.
            Err(EISCONN) if self.state.load(Ordering::Relaxed) == CONNECTING => {
                self.state.store(OPEN, Ordering::Relaxed);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        // A non-blocking caller learns the result from `poll`, even if it is already available.
        if !wait {
            return Err(EINPROGRESS);
        }
        let ends = CONNECTED | ERROR | Signals::SOCKET_PEER_CLOSED;
        match wait_until(&self.data, ends, until) {
            Ok(signals) if signals.contains(CONNECTED) => {
                self.state.store(OPEN, Ordering::Relaxed);
                Ok(())
            }
            Ok(_) => Err(self.take_error()?.unwrap_or(ECONNREFUSED)),
            Err(EAGAIN) => Err(EINPROGRESS),
            Err(error) => Err(error),
        }
    }

    /// Makes the socket listen (5).
    ///
    /// # Errors
    /// As [`Network::ask`].
    pub fn listen(&self, backlog: u32) -> Result<()> {
        self.ask(Request::Listen(backlog))?;
        self.state.store(LISTENS, Ordering::Relaxed);
        Ok(())
    }

    /// Accepts a connection (5).
    ///
    /// # Errors
    /// `EAGAIN`: the deadline is over. `EINVAL`: the socket does not listen. `EOPNOTSUPP`: it is a datagram socket.
    pub fn accept(&self, until: MonotonicInstant) -> Result<(Network, SocketAddr)> {
        if self.kind != Kind::Stream {
            return Err(EOPNOTSUPP);
        }
        loop {
            if self.state()? == LISTENS {
                let signals = wait_until(&self.data, INCOMING | Signals::SOCKET_PEER_CLOSED, until)?;
                if signals.contains(Signals::SOCKET_PEER_CLOSED) {
                    return Err(ECONNABORTED);
                }
            }
            let (control, theirs) = Channel::create()?;
            let (reply, [data]) =
                call(&self.control, Request::Accept, [theirs.into_handle()]).map_err(|_: Status| ECONNABORTED)?;
            match (reply, data) {
                (Ok(Reply::Address(peer)), Some(data)) => {
                    let accepted = Network::new(control, Socket::from(data), Kind::Stream, OPEN);
                    return Ok((accepted, peer));
                }
                // Another thread or process accepted the connection.
                (Err(Error::Again), ..) => {}
                (Err(error), ..) => return Err(error.into()),
                _ => return Err(ECONNABORTED),
            }
        }
    }

    /// Shuts down reading, writing, or both (6).
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn shutdown(&self, reading: bool, writing: bool) -> Result<()> {
        const STOP: u32 = ZX_SOCKET_DISPOSITION_WRITE_DISABLED;
        if self.state()? != OPEN {
            return Err(ENOTCONN);
        }
        let [own, peer] = [writing, reading].map(|stop| if stop { STOP } else { 0 });
        self.data.set_disposition(own, peer).map_err(|_| ENOTCONN)
    }

    /// Number of bytes that a read returns without blocking.
    ///
    /// # Errors
    /// Errors of the kernel for the data socket.
    pub fn waiting(&self) -> Result<usize> {
        let waiting = self.data.info()?.rx_buf_available;
        Ok(if self.is_datagram() { waiting.saturating_sub(HEADER) } else { waiting })
    }

    /// Reads bytes, or a datagram and its sender's address (6).
    ///
    /// # Errors
    /// `EAGAIN`: the deadline is over. Errors of the connection.
    pub fn receive(
        &self,
        bytes: &mut [u8],
        options: u32,
        until: MonotonicInstant,
    ) -> Result<(usize, Option<SocketAddr>)> {
        if self.is_datagram() {
            return self.receive_datagram(bytes, options, until);
        }
        if bytes.is_empty() {
            return Ok((0, None));
        }
        loop {
            match self.data.read_with(options, bytes) {
                Ok(len) => return Ok((len, None)),
                Err(Status::SHOULD_WAIT) => match self.state()? {
                    // The service signals the error of a lost connection before it closes the data socket. A caller of
                    // `poll` may see only the error, so a non-blocking read must return it too.
                    OPEN => {
                        let seen = self.wait_for_more(until)?;
                        if !seen.intersects(READABLE)
                            && let Some(error) = self.lost()
                        {
                            return Err(error);
                        }
                    }
                    CONNECTING => _ = wait_until(&self.data, READABLE | ERROR, until)?,
                    _ => return Err(ENOTCONN),
                },
                Err(Status::BAD_STATE) => return self.lost().map_or(Ok((0, None)), Err),
                Err(Status::PEER_CLOSED) => return Err(ECONNRESET),
                Err(status) => return Err(status.into()),
            }
            // The attempt to connect failed.
            if self.state.load(Ordering::Relaxed) == CONNECTING
                && let Some(error) = self.lost()
            {
                return Err(error);
            }
        }
    }

    /// Waits until there is something to read, or an error. Data that a local peer sent before the wait began arrives
    /// even if the timeout is short: what is not in the data socket yet is in the service.
    fn wait_for_more(&self, until: MonotonicInstant) -> Result<Signals> {
        let short = until != MonotonicInstant::ZERO && until < MonotonicInstant::after(SHORT);
        match wait_until(&self.data, READABLE | ERROR, until) {
            Err(EAGAIN) if short => {
                // The service answers, moves pending data, and then answers the second request.
                let _ = self.ask(Request::LocalAddress);
                let _ = self.ask(Request::LocalAddress);
                wait_until(&self.data, READABLE | ERROR, MonotonicInstant::ZERO)
            }
            seen => seen,
        }
    }

    /// Takes the error that ended the connection, if there is one that has not been returned yet.
    fn lost(&self) -> Option<Errno> {
        let told = self.data.signals().is_ok_and(|signals| signals.contains(ERROR));
        if told { self.take_error().ok().flatten() } else { None }
    }

    fn receive_datagram(
        &self,
        bytes: &mut [u8],
        options: u32,
        until: MonotonicInstant,
    ) -> Result<(usize, Option<SocketAddr>)> {
        with_room(HEADER + bytes.len().min(DATAGRAM_MAX), |room| self.receive_into(room, bytes, options, until))
    }

    /// The same with room for the datagram and its header.
    fn receive_into(
        &self,
        room: &mut [MaybeUninit<u8>],
        bytes: &mut [u8],
        options: u32,
        until: MonotonicInstant,
    ) -> Result<(usize, Option<SocketAddr>)> {
        loop {
            match self.data.read_uninit(options, room) {
                Ok(datagram) => {
                    let (from, received) = protocol::decode_header(datagram).ok_or(EINVAL)?;
                    bytes[..received.len()].copy_from_slice(received);
                    return Ok((received.len(), from));
                }
                Err(Status::SHOULD_WAIT) => {
                    let seen = self.wait_for_more(until)?;
                    if seen.contains(ERROR)
                        && let Some(error) = self.lost()
                    {
                        return Err(error);
                    }
                }
                // This process has shut down reading.
                Err(Status::BAD_STATE) => return Ok((0, None)),
                Err(Status::PEER_CLOSED) => return Err(ECONNABORTED),
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// Writes bytes, or a datagram to `to` or to the connected peer (6).
    ///
    /// # Errors
    /// `EAGAIN`: the deadline is over and nothing was sent. `EPIPE`, and errors of the connection.
    pub fn send(&self, bytes: &[u8], to: Option<SocketAddr>, until: MonotonicInstant) -> Result<usize> {
        if self.is_datagram() {
            return self.send_datagram(bytes, to, until);
        }
        match self.state()? {
            OPEN => {}
            CONNECTING => _ = wait_until(&self.data, CONNECTED | ERROR, until)?,
            _ => return Err(EPIPE),
        }
        let mut done = 0;
        while done < bytes.len() {
            let error: Errno = match self.data.write(&bytes[done..]) {
                Ok(len) => {
                    done += len;
                    continue;
                }
                Err(Status::SHOULD_WAIT) => match wait_until(&self.data, WRITABLE | ERROR, until) {
                    Ok(seen) if seen.intersects(WRITABLE) => continue,
                    // The error of a lost connection, signalled before its end.
                    Ok(_) if done == 0 => self.lost().unwrap_or(EPIPE),
                    Ok(_) => EPIPE,
                    Err(error) => error,
                },
                Err(Status::BAD_STATE) if done == 0 => self.lost().unwrap_or(EPIPE),
                Err(status) => status.into(),
            };
            // Bytes already sent count as success; the next call returns the error.
            return if done > 0 { Ok(done) } else { Err(error) };
        }
        Ok(done)
    }

    fn send_datagram(&self, bytes: &[u8], to: Option<SocketAddr>, until: MonotonicInstant) -> Result<usize> {
        if bytes.len() > DATAGRAM_MAX {
            return Err(EMSGSIZE);
        }
        match to {
            Some(to) => {
                let mut prepared = self.prepared.lock();
                if *prepared != Some(to) {
                    self.ask(Request::Prepare(to))?;
                    *prepared = Some(to);
                }
            }
            None if self.state()? != OPEN => return Err(EDESTADDRREQ),
            None => {
                if self.errors.may_be_new(&self.control)
                    && let Some(error) = self.lost()
                {
                    return Err(error);
                }
            }
        }
        with_room(HEADER + bytes.len(), |room| {
            let (header, data) = room.split_at_mut(HEADER);
            header.write_copy_of_slice(&protocol::encode_header(to));
            data.write_copy_of_slice(bytes);
            // SAFETY: all of it was just written.
            self.send_whole(unsafe { room.assume_init_ref() }, until)
        })?;
        Ok(bytes.len())
    }

    /// Writes a datagram with its header.
    fn send_whole(&self, datagram: &[u8], until: MonotonicInstant) -> Result<()> {
        loop {
            match self.data.write(datagram) {
                Ok(_) => return Ok(()),
                Err(Status::SHOULD_WAIT) => {
                    let room = Signals::SOCKET_WRITE_THRESHOLD | Signals::SOCKET_WRITE_DISABLED;
                    wait_until(&self.data, room | Signals::SOCKET_PEER_CLOSED, until)?;
                }
                Err(Status::BAD_STATE) => return Err(EPIPE),
                Err(Status::PEER_CLOSED) => return Err(ECONNABORTED),
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// The data socket, for waiting.
    pub fn data(&self) -> &Socket {
        &self.data
    }
}
