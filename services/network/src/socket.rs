//! The stack's state of a socket.

use std::collections::VecDeque;
use std::net::SocketAddr;

use network_protocol::{Error, Family, Kind};
use service::Program;
use smoltcp::time::Instant;

use crate::datagrams::Way;
use crate::groups::Membership;
use crate::packets::Side;
use crate::ports::Id;
use crate::rules::ProgramRule;

/// The result of reading from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// This many bytes were read.
    Bytes(usize),
    /// The client has written nothing more so far.
    Nothing,
    /// The client has written nothing more and never will.
    End,
}

/// The result of writing to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// This many bytes were written.
    Bytes(usize),
    /// There is no room until the client reads.
    Full,
    /// The client does not read any more.
    Refused,
}

/// The service's end of a data socket.
pub trait End {
    /// Reads bytes, or one datagram, that the client wrote.
    fn take(&mut self, into: &mut [u8]) -> ReadOutcome;
    /// Writes bytes, or one datagram, to the client.
    fn give(&mut self, from: &[u8]) -> WriteOutcome;
    /// Ends the stream to the client: it reads the end after the bytes written so far.
    fn finish(&mut self);
    /// As [`End::finish`]; in addition, the client can write no more.
    fn cut(&mut self);
    /// Changes signals that the client sees.
    fn tell(&mut self, clear: u32, set: u32);
    /// Number of bytes that the client has not read.
    fn unread(&self) -> usize;
    /// Requests one call of [`readable`](crate::stack::Stack::readable) when there is something to read, or the end.
    fn watch_readable(&mut self);
    /// Requests one call of [`writable`](crate::stack::Stack::writable) when there is room.
    fn watch_writable(&mut self);
}

/// Size of a smoltcp buffer in bytes, if the client does not set it. The data socket holds more.
pub const BUFFER: usize = 64 << 10;
/// The sizes that a client can set.
pub const BUFFERS: std::ops::RangeInclusive<u32> = 4 << 10..=256 << 10;

/// Socket options. They are applied to smoltcp when they are set and when a connection begins.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    /// `TCP_NODELAY`: sends small segments at once.
    pub no_delay: bool,
    /// `SO_KEEPALIVE`: idle connections are probed.
    pub keep_alive: bool,
    /// Seconds until the first probe.
    pub keep_idle: u32,
    /// Seconds between probes.
    pub keep_interval: u32,
    /// Number of probes.
    pub keep_count: u32,
    /// Seconds of `SO_LINGER` plus 1, or 0 for off.
    pub linger: u32,
    /// Hop limit for IPv4.
    pub ttl: u8,
    /// Hop limit for IPv6.
    pub hops: u8,
    /// `SO_REUSEADDR`: the address may be shared with connections that are ending.
    pub reuse: bool,
    /// Broadcast is allowed.
    pub broadcast: bool,
    /// `IPV6_V6ONLY`: this IPv6 socket takes no IPv4.
    pub only_v6: bool,
    /// Multicast loopback, IPv4.
    pub loop_v4: bool,
    /// Multicast loopback, IPv6.
    pub loop_v6: bool,
    /// Multicast hop limit, IPv4.
    pub group_ttl: u8,
    /// Multicast hop limit, IPv6.
    pub group_hops: u8,
    /// The interface for datagrams to groups, if the client has chosen one.
    pub group_interface: Option<Side>,
    /// Size of the receive buffer of a connection in packets.
    pub receive_buffer: u32,
    /// Size of the send buffer of a connection in packets.
    pub send_buffer: u32,
    /// Limit on the segments of a connection in packets, if there is one.
    pub max_segment: Option<u16>,
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
            group_interface: None,
            receive_buffer: BUFFER as u32,
            send_buffer: BUFFER as u32,
            max_segment: None,
        }
    }
}

/// A socket.
#[derive(Debug)]
pub struct Socket<E> {
    /// The program that it is charged to.
    pub program: Program,
    /// What it may do.
    pub rule: ProgramRule,
    /// Its address family.
    pub family: Family,
    /// Stream, datagrams, or echo requests.
    pub kind: Kind,
    /// Number of its control channels.
    pub holders: u32,
    /// The service's end of its data socket.
    pub end: E,
    /// Its local address.
    pub local: Option<SocketAddr>,
    /// The port that it has bound itself. (An accepted connection uses its listener's binding.)
    pub bound: Option<u16>,
    /// The pending error for `SO_ERROR`.
    pub error: Option<Error>,
    /// Its options.
    pub choices: Choices,
    /// State that depends on the kind of socket.
    pub body: Body,
    /// A packet is requested for readable data.
    pub reads: bool,
    /// A packet is requested for room.
    pub writes: bool,
    /// It is queued for a turn.
    pub touched: bool,
    /// It has no client any more, and ends in its next turn.
    pub closing: bool,
    /// It is a connection whose address the card has lost, and ends in its next turn.
    pub lost: bool,
}

/// The state of a socket by kind.
#[derive(Debug)]
pub enum Body {
    /// TCP, neither listening nor connected.
    Fresh,
    /// TCP, waiting for connections.
    Listener(Listener),
    /// TCP, connected or connecting.
    Flow(Flow),
    /// UDP, or ICMP echo.
    Datagrams(Datagrams),
}

/// The queues of a listener.
#[derive(Debug)]
pub struct Listener {
    /// The requested length of the queue.
    pub backlog: usize,
    /// Connections that can be accepted.
    pub waiting: VecDeque<Id>,
    /// Connections whose handshake is in progress.
    pub coming: Vec<Id>,
    /// Connections that wait for a place in the queue.
    pub asking: VecDeque<Id>,
}

impl Listener {
    /// Whether the queue has room for another connection.
    pub fn has_room(&self) -> bool {
        // One more than requested, as in other systems.
        self.waiting.len() + self.coming.len() <= self.backlog
    }
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The client has asked for it, at this time.
    Connecting(Instant),
    /// The peer has asked this listener for it.
    Arriving(Id),
    /// Open, in this listener's queue.
    Waiting(Id),
    /// Open, with a client.
    Open,
    /// Without a client; data that the client wrote is still being sent.
    Orphan,
    /// Closed on both sides, or lost. The client may not know it yet.
    Over,
}

/// How a connection's bytes are transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In packets of the socket's smoltcp socket.
    Packets,
    /// Without packets: the other side is this socket, and the two clients have the two ends of one data socket.
    Direct(Id),
    /// Not yet: this listener's queue is full.
    Waits(Id),
    /// Not any more.
    Gone,
}

/// A connection.
#[derive(Debug)]
pub struct Flow {
    /// How its bytes are transferred.
    pub way: Transport,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Its state.
    pub phase: Phase,
    /// The end of the client's data was sent.
    pub sent_end: bool,
    /// The client was notified that no more data comes.
    pub end_reported: bool,
}

/// The state of a datagram socket.
#[derive(Debug)]
pub struct Datagrams {
    /// The only peer that it receives from, and the default destination.
    pub peer: Option<SocketAddr>,
    /// How its last datagram left over the card, while none of its waits there.
    pub way: Option<Way>,
    /// The multicast groups that it has joined.
    pub groups: Vec<Membership>,
}
