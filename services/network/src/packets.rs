//! smoltcp's sockets, each in a set of its own.
//!
//! A frame finds its socket by a table, a timer belongs to a socket, and only sockets with events send. smoltcp itself
//! walks all sockets of a set for each frame, for each frame that it sends, and for each timer.

use std::collections::BTreeSet;

use service::Program;
use smoltcp::iface::{Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp::State;
use smoltcp::socket::{AnySocket, Socket};
use smoltcp::time::{Duration, Instant};

use crate::ports::Id;
use crate::wire::Wire;

/// Frames that a socket sends in one turn at most.
const BURST: usize = 32;
/// How long a socket of smoltcp's waits for a neighbour before it asks again.
const NEIGHBOUR: Duration = Duration::from_secs(1);

/// When smoltcp's sockets must send.
pub(crate) type Timers = BTreeSet<(Instant, Id)>;

/// A program that is charged for buffers, and how much.
pub(crate) type Charge = (Program, u64);

/// An interface and the device below it.
pub(crate) struct Link {
    pub interface: Interface,
    pub wire: Wire,
}

/// Which interface a socket uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The loopback device.
    Loop,
    /// The network card.
    Card,
}

/// A smoltcp socket.
pub(crate) struct Packets {
    set: SocketSet<'static>,
    handle: SocketHandle,
    /// Its interface.
    pub side: Side,
    /// The program that its buffers are charged to, and how much.
    pub charged: Option<Charge>,
    /// Its entry among the timers.
    timer: Option<Instant>,
    /// It waits for a neighbour's hardware address.
    asks: bool,
    /// Number of datagrams that wait to be sent. `None`: it is neither a UDP socket nor one for echoes.
    pub datagrams: Option<usize>,
    /// Since when its datagrams wait without a break.
    pub waits_since: Option<Instant>,
}

/// What became of a socket's turn at its interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Number of frames.
    pub frames: usize,
    /// It has more to send now.
    pub more: bool,
    /// It has more to send, and the device has no room.
    pub wants_room: bool,
    /// It waits for a neighbour's hardware address.
    pub asks: bool,
}

impl Packets {
    pub(crate) fn new(socket: impl AnySocket<'static>, side: Side) -> Packets {
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let socket = socket.upcast();
        let datagrams = matches!(socket, Socket::Udp(_) | Socket::Icmp(_)).then_some(0);
        let handle = set.add(socket);
        Packets { set, handle, side, charged: None, timer: None, asks: false, datagrams, waits_since: None }
    }

    /// smoltcp's socket. It must be of the type that this one was made with.
    pub(crate) fn socket<T: AnySocket<'static>>(&mut self) -> &mut T {
        self.set.get_mut(self.handle)
    }

    /// Gives smoltcp the next frame, for this socket.
    pub(crate) fn receive(&mut self, link: &mut Link, now: Instant) {
        let is_checked = link.wire.is_checked();
        if is_checked {
            link.interface.set_tcp_checked(true);
        }
        link.interface.poll_ingress_single(now, &mut link.wire, &mut self.set);
        if is_checked {
            link.interface.set_tcp_checked(false);
        }
    }

    /// Sends frames, and sets the socket's timer.
    pub(crate) fn send(&mut self, link: &mut Link, now: Instant, id: Id, timers: &mut Timers) -> Sent {
        let mut frames = 0;
        while frames < BURST
            && link.interface.poll_egress(now, &mut link.wire, &mut self.set) == PollResult::SocketStateChanged
        {
            frames += 1;
        }
        if let Some(datagrams) = &mut self.datagrams {
            *datagrams = datagrams.saturating_sub(frames);
        }
        // Without an address, smoltcp drops the requests of an echo socket, and sends no frames.
        let is_empty = |socket: &Socket<'_>| matches!(socket, Socket::Icmp(icmp) if icmp.send_queue() == 0);
        if let Some(datagrams) = &mut self.datagrams
            && self.set.iter().any(|(_, socket)| is_empty(socket))
        {
            frames += std::mem::take(datagrams);
        }
        let before = self.timer;
        let next = link.interface.poll_at(now, &self.set);
        let more = next.is_some_and(|at| at <= now);
        self.set_timer(next.filter(|at| *at > now), id, timers);
        // smoltcp does not say it: a socket that asked just now is silent for this time, one that asked before until
        // the same time as before. After a frame, the time can also be that of TCP's next retransmission.
        let silent = self.timer.is_some_and(|at| at == now + NEIGHBOUR || self.asks && Some(at) == before);
        self.asks = silent && (frames == 0 || self.datagrams.is_some());
        Sent { frames, more: more && link.wire.has_room(), wants_room: more && !link.wire.has_room(), asks: self.asks }
    }

    /// Whether it is a closed TCP socket. It can become one when it sends: a time limit is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.set.iter().any(|(_, socket)| matches!(socket, Socket::Tcp(tcp) if tcp.state() == State::Closed))
    }

    /// Sets or clears the socket's timer.
    pub(crate) fn set_timer(&mut self, at: Option<Instant>, id: Id, timers: &mut Timers) {
        if self.timer == at {
            return;
        }
        if let Some(before) = self.timer.take() {
            timers.remove(&(before, id));
        }
        if let Some(at) = at {
            timers.insert((at, id));
        }
        self.timer = at;
    }

    /// The socket's timer has fired, and is no longer among the timers.
    pub(crate) fn fired(&mut self) {
        self.timer = None;
    }
}
