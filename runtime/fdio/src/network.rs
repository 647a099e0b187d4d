//! Sockets of the network: a control channel to the network service and a data socket (crate `network-protocol`, whose
//! steps are named here by their numbers).

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};

use abi::{Rights, Signals, Status, ZX_SOCKET_DATAGRAM, ZX_SOCKET_DISPOSITION_WRITE_DISABLED, ZX_SOCKET_STREAM};
use network_protocol::{self as protocol, Choice, DATAGRAM_MAX, Error, Family, HEADER, Kind, LONGEST, Reply, Request};
use sync::Lock;
use zx::{AsHandleRef, Channel, Duration, Handle, MonotonicInstant, Socket};

use crate::c::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, ECONNABORTED, ECONNREFUSED, ECONNRESET,
    EDESTADDRREQ, EINPROGRESS, EINVAL, EISCONN, EMFILE, EMSGSIZE, ENETDOWN, ENETUNREACH, ENOMEM, ENOPROTOOPT, ENOTCONN,
    EOPNOTSUPP, EPIPE, ETIMEDOUT, Errno, Result,
};
use crate::object::wait_until;
use crate::services;

pub const CONNECTED: Signals = Signals::from_bits_retain(protocol::CONNECTED);
pub const INCOMING: Signals = Signals::from_bits_retain(protocol::INCOMING);
pub const ERROR: Signals = Signals::from_bits_retain(protocol::ERROR);
/// Whoever waits no longer than this may have given up before the service had its turn.
const SHORT: Duration = Duration::from_millis(20);
const LISTENING: Signals = Signals::from_bits_retain(protocol::LISTENING);

pub const READABLE: Signals =
    Signals::SOCKET_READABLE.union(Signals::SOCKET_PEER_WRITE_DISABLED).union(Signals::SOCKET_PEER_CLOSED);
pub const WRITABLE: Signals =
    Signals::SOCKET_WRITABLE.union(Signals::SOCKET_WRITE_DISABLED).union(Signals::SOCKET_PEER_CLOSED);

/// This process' connection with the service (1).
static CLIENT: Lock<Option<Channel>> = Lock::new(None);

impl From<Error> for Errno {
    fn from(error: Error) -> Errno {
        match error {
            Error::Malformed | Error::Invalid => EINVAL,
            Error::NotSupported => EOPNOTSUPP,
            Error::AddressInUse => EADDRINUSE,
            Error::AddressNotAvailable => EADDRNOTAVAIL,
            Error::WrongFamily => EAFNOSUPPORT,
            Error::Unreachable => ENETUNREACH,
            Error::Refused => ECONNREFUSED,
            Error::Reset => ECONNRESET,
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

/// What is known of a TCP socket here; the data socket's signals say more.
pub const FRESH: u32 = 0;
pub const CONNECTING: u32 = 1;
pub const OPEN: u32 = 2;
pub const LISTENS: u32 = 3;

/// A socket of the network.
pub struct Network {
    control: Channel,
    data: Socket,
    kind: Kind,
    /// What is known of it as far as TCP goes.
    pub state: AtomicU32,
    /// Where datagrams were last sent to with the service's leave (7).
    prepared: Lock<Option<SocketAddr>>,
}

/// What the service answered, and the handles with it.
type Answer<const M: usize> = (core::result::Result<Reply, Error>, [Option<Handle>; M]);

fn call<const N: usize, const M: usize>(
    channel: &Channel,
    request: Request,
    handles: [Handle; N],
) -> core::result::Result<Answer<M>, Status> {
    let mut bytes = [0; LONGEST];
    let mut out = [const { None }; M];
    let message = request.encode(0);
    let size = channel.call(MonotonicInstant::INFINITE, message.as_bytes(), handles, &mut bytes, &mut out)?;
    let reply = bytes.get(..size.bytes).and_then(Reply::decode).ok_or(Status::IO)?;
    Ok((reply, out))
}

/// Opens a socket over this process' connection, or over a new one when there is none or the service has ended since. Gives its
/// control channel and its data socket.
fn open(family: Family, kind: Kind) -> Result<(Channel, Socket)> {
    let options = if kind == Kind::Datagram { ZX_SOCKET_DATAGRAM } else { ZX_SOCKET_STREAM };
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
        let (ours, theirs) = Channel::create()?;
        let (data, far) = Socket::create(options)?;
        let handles = [theirs.into_handle(), far.into_handle(), data.duplicate_handle(Rights::SAME_RIGHTS)?];
        match call(&channel, Request::Open(family, kind), handles) {
            Ok((reply, [])) => {
                *client = Some(channel);
                reply?;
                return Ok((ours, data));
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

impl Network {
    /// Makes a socket (2).
    ///
    /// # Errors
    /// `ENETDOWN`: there is no network service. `EMFILE`, `ENOMEM`.
    pub fn open(family: Family, kind: Kind) -> Result<Network> {
        let (control, data) = open(family, kind)?;
        Ok(Network::new(control, data, kind, FRESH))
    }

    fn new(control: Channel, data: Socket, kind: Kind, state: u32) -> Network {
        Network { control, data, kind, state: AtomicU32::new(state), prepared: Lock::new(None) }
    }

    /// The socket of two handles that [`Network::to_handles`] gave another process, in its order.
    ///
    /// # Errors
    /// As what the handles answer.
    pub fn from_handles(data: &Socket, control: Handle) -> core::result::Result<Network, Status> {
        let data = data.duplicate(Rights::SAME_RIGHTS)?;
        let kind = if data.info()?.options & ZX_SOCKET_DATAGRAM != 0 { Kind::Datagram } else { Kind::Stream };
        Ok(Network::new(Channel::from(control), data, kind, FRESH))
    }

    /// The data socket and another control channel (8).
    ///
    /// # Errors
    /// [`Status::NO_RESOURCES`]: the service refuses; [`Status::PEER_CLOSED`]: it has ended.
    pub fn to_handles(&self) -> core::result::Result<Vec<Handle>, Status> {
        let data = self.data.duplicate_handle(Rights::SAME_RIGHTS)?;
        let (ours, theirs) = Channel::create()?;
        let (reply, []) = call(&self.control, Request::Clone, [theirs.into_handle()])?;
        reply.map_err(|_| Status::NO_RESOURCES)?;
        Ok(alloc::vec![data, ours.into_handle()])
    }

    /// Whether it carries datagrams.
    pub fn is_datagram(&self) -> bool {
        self.kind == Kind::Datagram
    }

    /// Asks the service (3).
    ///
    /// # Errors
    /// What it answers; `ECONNABORTED`: it has ended.
    pub fn ask(&self, request: Request) -> Result<Reply> {
        let (reply, []) = call(&self.control, request, []).map_err(|status| match status {
            Status::PEER_CLOSED => ECONNABORTED,
            status => status.into(),
        })?;
        Ok(reply?)
    }

    /// An address that the service tells.
    ///
    /// # Errors
    /// As [`Network::ask`].
    pub fn address(&self, request: Request) -> Result<SocketAddr> {
        match self.ask(request)? {
            Reply::Address(address) => Ok(address),
            _ => Err(EINVAL),
        }
    }

    /// An option's value.
    ///
    /// # Errors
    /// As [`Network::ask`].
    pub fn choice(&self, choice: Choice) -> Result<u32> {
        match self.ask(Request::Get(choice))? {
            Reply::Value(value) => Ok(value),
            _ => Err(EINVAL),
        }
    }

    /// The error that waits, which is told once.
    ///
    /// # Errors
    /// As [`Network::ask`].
    pub fn take_error(&self) -> Result<Option<Errno>> {
        let number = self.choice(Choice::Error)?;
        if number != 0 {
            // A connection that did not come about may be tried again.
            let _ = self.state.compare_exchange(CONNECTING, FRESH, Ordering::Relaxed, Ordering::Relaxed);
        }
        Ok(Error::from_number(number).map(Errno::from))
    }

    /// What it is at, as far as TCP goes.
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
    /// Why not; `EINPROGRESS`: it goes on, `until` is over.
    pub fn connect(&self, to: SocketAddr, until: MonotonicInstant) -> Result<()> {
        let wait = until != MonotonicInstant::ZERO;
        match self.ask(Request::Connect { to, wait }) {
            Ok(_) => {
                self.state.store(OPEN, Ordering::Relaxed);
                *self.prepared.lock() = None;
                return Ok(());
            }
            Err(EINPROGRESS) => self.state.store(CONNECTING, Ordering::Relaxed),
            // The first call after it came about tells so; then it is an error to connect again.
            Err(EISCONN) if self.state.load(Ordering::Relaxed) == CONNECTING => {
                self.state.store(OPEN, Ordering::Relaxed);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        // Who does not wait is told of the end by `poll`, also where it is there already.
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

    /// Listens (5).
    ///
    /// # Errors
    /// As [`Network::ask`].
    pub fn listen(&self, backlog: u32) -> Result<()> {
        self.ask(Request::Listen(backlog))?;
        self.state.store(LISTENS, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a connection (5).
    ///
    /// # Errors
    /// `EAGAIN` when `until` is over. `EINVAL`: it does not listen. `EOPNOTSUPP`: it never can.
    pub fn accept(&self, until: MonotonicInstant) -> Result<(Network, SocketAddr)> {
        if self.kind == Kind::Datagram {
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
                // Another thread or process was faster.
                (Err(Error::Again), ..) => {}
                (Err(error), ..) => return Err(error.into()),
                _ => return Err(ECONNABORTED),
            }
        }
    }

    /// Ends what this side may read or write (6).
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

    /// Bytes that can be read at once.
    ///
    /// # Errors
    /// As what the data socket answers.
    pub fn waiting(&self) -> Result<usize> {
        let waiting = self.data.info()?.rx_buf_available;
        Ok(if self.is_datagram() { waiting.saturating_sub(HEADER) } else { waiting })
    }

    /// Reads bytes, or a datagram and whom it is from (6).
    ///
    /// # Errors
    /// `EAGAIN` when `until` is over; what became of the connection.
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
                    // The service tells the error of a lost connection, and then the end. Who polls may see the error
                    // alone, so who does not wait must be told it too.
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
            // An attempt to connect that failed.
            if self.state.load(Ordering::Relaxed) == CONNECTING
                && let Some(error) = self.lost()
            {
                return Err(error);
            }
        }
    }

    /// Waits until there is something to read, or an error. What was sent before the wait began comes in time, however short the
    /// time: it is with the service, if it is not here.
    fn wait_for_more(&self, until: MonotonicInstant) -> Result<Signals> {
        let short = until != MonotonicInstant::ZERO && until < MonotonicInstant::after(SHORT);
        match wait_until(&self.data, READABLE | ERROR, until) {
            Err(EAGAIN) if short => {
                // The service answers, moves what was sent, and then answers again.
                let _ = self.ask(Request::LocalAddress);
                let _ = self.ask(Request::LocalAddress);
                wait_until(&self.data, READABLE | ERROR, MonotonicInstant::ZERO)
            }
            seen => seen,
        }
    }

    /// The error that came with the end of a connection, if it is one and was not told yet.
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
        let mut datagram = alloc::vec![0; HEADER + bytes.len().min(DATAGRAM_MAX)];
        loop {
            match self.data.read_with(options, &mut datagram) {
                Ok(len) => {
                    let (from, received) = protocol::decode_header(&datagram[..len]).ok_or(EINVAL)?;
                    bytes[..received.len()].copy_from_slice(received);
                    return Ok((received.len(), from));
                }
                Err(Status::SHOULD_WAIT) => {
                    self.wait_for_more(until)?;
                    if let Some(error) = self.lost() {
                        return Err(error);
                    }
                }
                // The end, by this side's own wish.
                Err(Status::BAD_STATE) => return Ok((0, None)),
                Err(Status::PEER_CLOSED) => return Err(ECONNABORTED),
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// Writes bytes, or a datagram, to `to` or to whom it is connected (6).
    ///
    /// # Errors
    /// `EAGAIN` when `until` is over and nothing went; `EPIPE`, and what became of the connection.
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
                    // Of a lost connection, told before its end.
                    Ok(_) if done == 0 => self.lost().unwrap_or(EPIPE),
                    Ok(_) => EPIPE,
                    Err(error) => error,
                },
                Err(Status::BAD_STATE) if done == 0 => self.lost().unwrap_or(EPIPE),
                Err(status) => status.into(),
            };
            // What went out has gone out: the error comes with the next call.
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
                if let Some(error) = self.lost() {
                    return Err(error);
                }
            }
        }
        let datagram: Vec<u8> = protocol::encode_header(to).into_iter().chain(bytes.iter().copied()).collect();
        loop {
            match self.data.write(&datagram) {
                Ok(_) => return Ok(bytes.len()),
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

    /// The data socket, to wait for.
    pub fn data(&self) -> &Socket {
        &self.data
    }
}
