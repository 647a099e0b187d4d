//! UNIX stream sockets.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use abi::{Rights, Signals, Status, ZX_SOCKET_DISPOSITION_WRITE_DISABLED, ZX_SOCKET_STREAM};
use file_protocol::{Answer, Request};
use sync::Lock;
use zx::{AsHandleRef, Handle, MonotonicInstant, Socket};

use super::{Bound, CONNECTED, INCOMING, Watched, ask_at};
use crate::address::Name;
use crate::c::{EAGAIN, ECONNABORTED, ECONNREFUSED, EINVAL, EIO, EISCONN, ENOTCONN, EOPNOTSUPP, Result};
use crate::object::{read_socket, reset_if_unread, take_reset, wait_until, write_socket};
use crate::readiness::Events;
use crate::remote::{Remote, SMALL};

/// A connection.
pub struct Connected {
    pub socket: Socket,
    own: Name,
    peer: Name,
}

#[derive(Clone)]
enum State {
    Fresh,
    Bound(Arc<Bound>),
    Listens(Arc<Bound>),
    Connected(Arc<Connected>),
}

/// A stream socket, connected or listening.
pub struct Stream {
    state: Lock<State>,
}

impl Stream {
    pub fn new() -> Stream {
        Stream { state: Lock::new(State::Fresh) }
    }

    fn of(connected: Connected) -> Stream {
        Stream { state: Lock::new(State::Connected(Arc::new(connected))) }
    }

    fn state(&self) -> State {
        self.state.lock().clone()
    }

    fn connected(&self) -> Option<Arc<Connected>> {
        match &*self.state.lock() {
            State::Connected(connected) => Some(connected.clone()),
            _ => None,
        }
    }

    /// The name that it listens on.
    ///
    /// # Errors
    /// `EINVAL`: the socket does not listen.
    pub fn listener(&self) -> Result<Arc<Bound>> {
        match &*self.state.lock() {
            State::Listens(bound) => Ok(bound.clone()),
            _ => Err(EINVAL),
        }
    }

    pub fn bind(&self, name: Name) -> Result<()> {
        let mut state = self.state.lock();
        let State::Fresh = *state else { return Err(EINVAL) };
        *state = State::Bound(Arc::new(Bound::new(name)?));
        Ok(())
    }

    pub fn listen(&self, backlog: u32) -> Result<()> {
        let mut state = self.state.lock();
        let (State::Bound(bound) | State::Listens(bound)) = &*state else { return Err(EINVAL) };
        let request = Request::Listen { backlog, name: &bound.name };
        let reply = bound.remote.call_with(&request, &[], [], SMALL)?;
        if reply.answer != Answer::Done {
            return Err(EIO);
        }
        let bound = bound.clone();
        *state = State::Listens(bound);
        Ok(())
    }

    /// Accepts the connection that has waited longest (step 8).
    pub fn accept(&self, until: MonotonicInstant) -> Result<(Stream, Name)> {
        let bound = self.listener()?;
        loop {
            let signals = wait_until(bound.remote.channel(), INCOMING | Signals::CHANNEL_PEER_CLOSED, until)?;
            if signals.contains(Signals::CHANNEL_PEER_CLOSED) {
                return Err(ECONNABORTED);
            }
            let reply = match bound.remote.call_with(&Request::Accept, &[], [], SMALL) {
                // Another thread accepted it.
                Err(EAGAIN) => continue,
                reply => reply?,
            };
            let (Answer::Socket, Some(socket)) = (reply.answer, reply.handle) else { return Err(EIO) };
            let connected = Connected { socket: socket.into(), own: bound.name.clone(), peer: reply.data.clone() };
            return Ok((Stream::of(connected), reply.data));
        }
    }

    /// Connects to a listener (step 8). If its queue is full, a blocking call waits for a place in the queue.
    pub fn connect(&self, to: &[u8], until: MonotonicInstant) -> Result<()> {
        let own = match self.state() {
            State::Fresh => Name::new(),
            State::Bound(bound) => bound.name.clone(),
            State::Listens(_) => return Err(EINVAL),
            State::Connected(_) => return Err(EISCONN),
        };
        let wait = until != MonotonicInstant::ZERO;
        let (socket, waits, peer) = ask_at(to, |remote, path| {
            let (ours, theirs) = Socket::create(ZX_SOCKET_STREAM)?;
            let request = Request::Connect { path, name: &own, wait };
            let reply = remote.call_with(&request, &[], [theirs.into_handle()], SMALL)?;
            Remote::reached(reply, |reply| match reply.answer {
                Answer::Connected { waits } => Some((ours, waits, reply.data)),
                _ => None,
            })
        })?;
        if waits && !wait_until(&socket, CONNECTED | Signals::SOCKET_PEER_CLOSED, until)?.contains(CONNECTED) {
            // The listener has ended.
            return Err(ECONNREFUSED);
        }
        let mut state = self.state.lock();
        match &*state {
            State::Fresh | State::Bound(_) => {}
            State::Listens(_) => return Err(EINVAL),
            State::Connected(_) => return Err(EISCONN),
        }
        *state = State::Connected(Arc::new(Connected { socket, own, peer }));
        Ok(())
    }

    pub fn own_name(&self) -> Name {
        match &*self.state.lock() {
            State::Fresh => Name::new(),
            State::Bound(bound) | State::Listens(bound) => bound.name.clone(),
            State::Connected(connected) => connected.own.clone(),
        }
    }

    pub fn peer_name(&self) -> Result<Name> {
        self.connected().map(|connected| connected.peer.clone()).ok_or(ENOTCONN)
    }

    pub fn shutdown(&self, reading: bool, writing: bool) -> Result<()> {
        const STOP: u32 = ZX_SOCKET_DISPOSITION_WRITE_DISABLED;
        let [own, peer] = [writing, reading].map(|stop| if stop { STOP } else { 0 });
        Ok(self.connected().ok_or(ENOTCONN)?.socket.set_disposition(own, peer)?)
    }

    pub fn receive(&self, bytes: &mut [u8], options: u32, until: MonotonicInstant) -> Result<usize> {
        read_socket(&self.connected().ok_or(EINVAL)?.socket, bytes, options, until)
    }

    pub fn send(&self, bytes: &[u8], to_another: bool, until: MonotonicInstant) -> Result<usize> {
        match self.connected() {
            Some(_) if to_another => Err(EISCONN),
            Some(connected) => write_socket(&connected.socket, bytes, until),
            None => Err(if to_another { EOPNOTSUPP } else { ENOTCONN }),
        }
    }

    pub fn reset_if_unread(&self) {
        if let Some(connected) = self.connected() {
            reset_if_unread(&connected.socket);
        }
    }

    pub fn take_reset(&self) -> bool {
        self.connected().is_some_and(|connected| take_reset(&connected.socket))
    }

    pub fn waiting(&self) -> Result<usize> {
        Ok(self.connected().ok_or(EINVAL)?.socket.info()?.rx_buf_available)
    }

    pub fn to_handle(&self) -> core::result::Result<Handle, Status> {
        self.connected().ok_or(Status::NOT_SUPPORTED)?.socket.duplicate_handle(Rights::SAME_RIGHTS)
    }

    pub fn watched(&self) -> (Vec<Watched>, Events) {
        match self.state() {
            State::Fresh | State::Bound(_) => (Vec::new(), Events { write: true, hung_up: true, ..Events::default() }),
            State::Listens(bound) => (vec![Watched::Listener(bound)], Events::default()),
            State::Connected(connected) => (vec![Watched::Stream(connected)], Events::default()),
        }
    }
}
