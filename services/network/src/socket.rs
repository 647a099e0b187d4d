//! A socket as the stack keeps it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use network_protocol::{Error, Family, Kind};
use service::Program;
use smoltcp::iface::SocketHandle;
use smoltcp::time::Instant;

use crate::ports::Id;

/// What came of reading from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// That many bytes.
    Bytes(usize),
    /// The client has written nothing more, so far.
    Nothing,
    /// And will not.
    End,
}

/// What came of writing to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// That many bytes were taken.
    Bytes(usize),
    /// There is no room until the client reads.
    Full,
    /// The client wants nothing more.
    Refused,
}

/// The service's end of a data socket.
pub trait End {
    /// Takes bytes, or one datagram, that the client wrote.
    fn take(&mut self, into: &mut [u8]) -> Taken;
    /// Gives bytes, or one datagram, to the client.
    fn give(&mut self, from: &[u8]) -> Given;
    /// After what it was given, the client reads the end.
    fn finish(&mut self);
    /// As [`End::finish`], and the client can write no more.
    fn cut(&mut self);
    /// Changes signals that the client sees.
    fn tell(&mut self, clear: u32, set: u32);
    /// Bytes that the client has not read.
    fn unread(&self) -> usize;
    /// Asks for one call of [`readable`](crate::stack::Stack::readable) when there is something to take, or the end.
    fn watch_readable(&mut self);
    /// Asks for one call of [`writable`](crate::stack::Stack::writable) when there is room.
    fn watch_writable(&mut self);
}

/// Options, as they were set. What they change in smoltcp is changed when they are set and when a connection begins.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    /// Small pieces at once.
    pub no_delay: bool,
    /// Idle connections are probed,
    pub keep_alive: bool,
    /// after so many seconds,
    pub keep_idle: u32,
    /// every so many seconds,
    pub keep_interval: u32,
    /// so often.
    pub keep_count: u32,
    /// Seconds of closing plus 1, or 0.
    pub linger: u32,
    /// IPv4's hops.
    pub ttl: u8,
    /// IPv6's hops.
    pub hops: u8,
    /// The address may be shared with what ends there.
    pub reuse: bool,
    /// Broadcast is allowed.
    pub broadcast: bool,
    /// No IPv4 over this IPv6 socket.
    pub only_v6: bool,
    /// Groups, IPv4: what is sent comes back.
    pub loop_v4: bool,
    /// The same for IPv6.
    pub loop_v6: bool,
    /// Groups, IPv4: hops.
    pub group_ttl: u8,
    /// The same for IPv6.
    pub group_hops: u8,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            no_delay: false,
            keep_alive: false,
            keep_idle: 7200,
            keep_interval: 75,
            keep_count: 9,
            linger: 0,
            ttl: 64,
            hops: 64,
            reuse: false,
            broadcast: false,
            only_v6: false,
            loop_v4: true,
            loop_v6: true,
            group_ttl: 1,
            group_hops: 1,
        }
    }
}

/// A socket.
#[derive(Debug)]
pub struct Socket<E> {
    /// The program that it counts for.
    pub program: Program,
    /// Its addresses' family.
    pub family: Family,
    /// What it carries.
    pub kind: Kind,
    /// Its control channels.
    pub holders: u32,
    /// The data socket.
    pub end: E,
    /// Its own address.
    pub local: Option<SocketAddr>,
    /// It has a binding of its own to that port (a connection that was accepted has its listener's).
    pub bound: Option<u16>,
    /// What is to be told by `SO_ERROR`.
    pub error: Option<Error>,
    /// Its options.
    pub choices: Choices,
    /// The rest.
    pub body: Body,
    /// A packet will come when there is something to take.
    pub reads: bool,
    /// A packet will come when there is room.
    pub writes: bool,
    /// It waits for its turn.
    pub touched: bool,
    /// Nobody has it any more; it ends when its turn comes.
    pub closing: bool,
}

/// What a socket is at.
#[derive(Debug)]
pub enum Body {
    /// TCP, neither listening nor connected.
    Fresh,
    /// TCP, waiting for connections.
    Listener(Listener),
    /// TCP, connected or about to be.
    Flow(Flow),
    /// UDP.
    Datagrams(Datagrams),
}

/// What a listener has.
#[derive(Debug)]
pub struct Listener {
    /// For how many there is a place.
    pub backlog: usize,
    /// Those that can be accepted.
    pub waiting: VecDeque<Id>,
    /// Those that are about to be.
    pub coming: Vec<Id>,
    /// Those that ask for a place and wait until there is one.
    pub asking: VecDeque<Id>,
}

impl Listener {
    /// Whether another may come.
    pub fn has_room(&self) -> bool {
        // One more than was asked for, as elsewhere.
        self.waiting.len() + self.coming.len() <= self.backlog
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Asked for by the client, at that moment.
    Connecting(Instant),
    /// Asked for by the peer of a listener.
    Arriving(Id),
    /// Open, in a listener's queue.
    Waiting(Id),
    /// Open, with a client.
    Open,
    /// Without a client; what it wrote is still on its way.
    Orphan,
    /// Ended on both sides, or lost. The client may not know yet.
    Over,
}

/// How a connection's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In packets of this socket of smoltcp.
    Packets(SocketHandle),
    /// Not at all: the other party is this socket, and the two clients have the two ends of one data socket.
    Direct(Id),
    /// Not yet: this listener has no place for it.
    Waits(Id),
    /// No more.
    Gone,
}

/// A connection.
#[derive(Debug)]
pub struct Flow {
    /// How its bytes travel.
    pub way: Way,
    /// The other party.
    pub peer: SocketAddr,
    /// How far it is.
    pub phase: Phase,
    /// The end of what the client writes was sent.
    pub sent_end: bool,
    /// The client was told that no more comes.
    pub told_end: bool,
}

/// What a socket of datagrams has.
#[derive(Debug)]
pub struct Datagrams {
    /// The only party that it hears and, without another address, speaks to.
    pub peer: Option<SocketAddr>,
}
