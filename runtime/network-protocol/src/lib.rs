//! The protocol between fdio and the network service.
//!
//! A client has two handles for a socket of the network: a *control channel*, over which it sends requests, and a *data
//! socket* of Zircon, which carries the data and whose signals report events. Data never goes over the channel. Steps
//! of a conversation; the code refers to these numbers:
//!
//! 1. **Reach.** A process connects once to the service [`SERVICE`]. This is the *client's channel*.
//! 2. **Open.** The client sends [`Request::Open`] over it, with the service's end of a new channel (the control
//!    channel) and with both ends of a new socket of Zircon (the data socket): the service's end, then the client's, of
//!    which the client keeps a duplicate. The data socket is a stream for TCP and carries datagrams for UDP and for ICMP
//!    echo. The client makes the socket, so its queues are charged to the client's job.
//! 3. **Ask.** All other requests go over the control channel. The service answers each at once. If an operation takes
//!    longer, it answers [`Error::InProgress`] or [`Error::Again`], and a signal on the data socket reports the end.
//! 4. **Connect.** After [`Request::Connect`] the data socket gets the signal [`CONNECTED`] or [`ERROR`]; the option
//!    [`Choice::Error`] returns the error, once.
//! 5. **Listen.** A listener's data socket carries no data. It has the signal [`LISTENING`], and [`INCOMING`] while a
//!    connection waits. [`Request::Accept`] carries the service's end of a new control channel; the answer carries the
//!    new data socket and the peer's address.
//! 6. **Carry.** The bytes of the data socket are TCP's bytes. `shutdown` sets the disposition of the data socket, at
//!    either end. A peer that shuts down writing shows as end of stream; a lost connection also as [`ERROR`]. A
//!    datagram is a [header](encode_header) with the peer's address, followed by the data.
//! 7. **Prepare.** Before a client sends datagrams to an address for the first time, it sends [`Request::Prepare`], so
//!    that `sendto` fails if the service can never send there.
//! 8. **Share.** [`Request::Clone`] makes a second control channel to a socket, for another process; the client
//!    duplicates the data socket like any handle.
//! 9. **Close.** A socket exists until its last control channel is closed, for whatever reason.
//! 10. **Look up.** A client sends [`Request::Lookup`] over a client's channel of its own (1). The service asks the
//!     network's name servers and answers when they have answered, or have not for some seconds.
//! 11. **Count errors.** A process that sends datagrams to a connected peer wants to know before each whether there is
//!     an error, and would have to ask the kernel. Instead it sends [`Request::CountErrors`] with a VMO of its own. After
//!     each [`ERROR`] on this socket, the service adds one to the VMO's first word. A process can use one VMO for all
//!     its sockets. A socket has one at most; its other processes look at the signal.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod card;
mod information;
mod message;
mod name;
#[cfg(test)]
mod tests;

pub use card::{ADDRESSES_V6, CardState, CardStateV6, NAME_SERVERS};
pub use information::{Information, tcp_state};
pub use message::{Message, Reply, canonical, decode_header, encode_header, mapped};
pub use name::{ADDRESSES, Addresses, NAME_MAX, Name};

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The service's name below `/svc`.
pub const SERVICE: &str = "network";

/// Signal on the data socket: it is connected, or has been.
pub const CONNECTED: u32 = 1 << 24;
/// Signal on the data socket: a connection waits to be accepted.
pub const INCOMING: u32 = 1 << 25;
/// Signal on the data socket: an error is pending.
pub const ERROR: u32 = 1 << 26;
/// Signal on the data socket: it listens.
pub const LISTENING: u32 = 1 << 27;

/// Limit on a message in bytes.
pub const LONGEST: usize = 8 + NAME_MAX;
/// Size in bytes of a datagram's header.
pub const HEADER: usize = 28;
/// Limit on a datagram over IPv4 in bytes: 65,535 without the headers of IP and UDP.
pub const DATAGRAM_MAX: usize = 65_507;

/// Number of the loopback interface.
pub const LOOPBACK: u32 = 1;
/// Number of the network card's interface. It is also the scope of link-local addresses there.
pub const CARD: u32 = 2;

/// Whether it is a link-local address, which has a meaning on one interface only.
pub fn is_link_local(ip: Ipv6Addr) -> bool {
    ip.segments()[..4] == [0xfe80, 0, 0, 0]
}

/// Address family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 by mapped addresses.
    V6,
}

/// Type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// TCP stream.
    Stream,
    /// UDP datagrams.
    Datagram,
    /// ICMP echo requests and their answers. A datagram carries an ICMP message, and the port of an address is unused;
    /// the port of the local address is the identifier of the socket's requests.
    Echo,
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Creates a socket (2). Carries the service's end of the control channel, and both ends of the data socket.
    Open(Family, Kind),
    /// Adds a control channel (8). Carries the service's end.
    Clone,
    /// Binds the socket to a local address; port 0 means any port.
    Bind(SocketAddr),
    /// Connects (4). Without `wait`, the answer is `InProgress` even if the connection is already established.
    Connect {
        /// The peer's address.
        to: SocketAddr,
        /// Whether the client waits for the result. The answer then holds the result if it is available at once.
        wait: bool,
    },
    /// Makes the socket listen (5); the value is the length of the queue of connections.
    Listen(u32),
    /// Accepts a connection (5). Carries the service's end of its control channel.
    Accept,
    /// Returns the local address.
    LocalAddress,
    /// Returns the peer's address.
    PeerAddress,
    /// Changes an option.
    Set(Choice, u32),
    /// Reads an option.
    Get(Choice),
    /// Asks whether datagrams can be sent to an address (7).
    Prepare(SocketAddr),
    /// Looks up the addresses of a host (10).
    Lookup(Name<'a>),
    /// Returns the state of the network card. Over a client's channel (1).
    Card,
    /// Returns what the service knows about a TCP socket (`TCP_INFO`).
    Information,
    /// Joins a multicast group, or leaves it.
    Group {
        /// Whether it joins.
        join: bool,
        /// The group's address.
        group: Ipv4Addr,
        /// The interface's address. 0.0.0.0 means the card.
        interface: Ipv4Addr,
    },
    /// Joins a multicast group over IPv6, or leaves it.
    GroupV6 {
        /// Whether it joins.
        join: bool,
        /// The group's address.
        group: Ipv6Addr,
        /// The interface's number: [`LOOPBACK`], [`CARD`], or 0 for the card.
        interface: u32,
    },
    /// The machine ends. Closes all sockets, and returns when what was written before is sent and acknowledged, or after two
    /// seconds. Over the channel of `init` (1), and no other.
    Settle,
    /// Counts the errors of a datagram socket (11). Carries the VMO.
    CountErrors,
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident: $($(#[$item_doc:meta])* $item:ident = $number:literal),* $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$item_doc])* $item = $number),* }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$item),*];

            /// The value with this number.
            pub fn from_number(number: u32) -> Option<$name> {
                match number { $($number => Some($name::$item),)* _ => None }
            }
        }
    };
}

numbered! {
    /// Options of a socket. True is 1; false, off and unset are 0.
    Choice:
    /// The pending error: the number of an [`Error`], or 0. Reading it clears it.
    Error = 1,
    /// `TCP_NODELAY`: small segments are sent at once.
    NoDelay = 2,
    /// `SO_KEEPALIVE`: an idle connection is probed.
    KeepAlive = 3,
    /// Idle seconds before the first probe.
    KeepIdle = 4,
    /// Seconds between probes.
    KeepInterval = 5,
    /// Number of unanswered probes after which the connection ends.
    KeepCount = 6,
    /// `SO_LINGER`: limit on the duration of a close in seconds, plus 1. 1: a close resets the connection. 0: off.
    Linger = 7,
    /// Limit on the hops of a packet over IPv4.
    Ttl = 8,
    /// Limit on the hops of a packet over IPv6.
    Hops = 9,
    /// `SO_REUSEADDR`: the address can be bound while old connections of another listener there are still closing.
    ReuseAddress = 10,
    /// `SO_REUSEPORT`: several sockets can bind the address.
    ReusePort = 11,
    /// `SO_BROADCAST`: datagrams can be sent to broadcast addresses.
    Broadcast = 12,
    /// `IPV6_V6ONLY`: the IPv6 socket does not carry IPv4.
    OnlyV6 = 13,
    /// Multicast datagrams are looped back. IPv4.
    MulticastLoop = 14,
    /// Multicast datagrams are looped back. IPv6.
    MulticastLoopV6 = 15,
    /// Limit on the hops of a multicast datagram over IPv4.
    MulticastTtl = 16,
    /// Limit on the hops of a multicast datagram over IPv6.
    MulticastHops = 17,
    /// Whether the socket listens; read-only.
    Accepting = 18,
    /// `SO_RCVBUF`: size of the receive buffer in bytes. A connection in packets has it from its beginning.
    ReceiveBuffer = 19,
    /// `SO_SNDBUF`: size of the send buffer in bytes. The same.
    SendBuffer = 20,
    /// `SO_PROTOCOL`: the number of the socket's protocol over IP; read-only.
    Protocol = 21,
    /// `TCP_MAXSEG`: largest segment of TCP in bytes.
    MaxSegment = 22,
    /// `IP_MULTICAST_IF`: the address of the interface for datagrams to groups, as a number; 0 for the default.
    MulticastInterface = 23,
    /// `IPV6_MULTICAST_IF`: the number of the interface for datagrams to groups; 0 for the default.
    MulticastInterfaceV6 = 24,
}

numbered! {
    /// Why a request failed, or a connection ended.
    Error:
    /// Not a valid message of this protocol.
    Malformed = 1,
    /// The socket's state does not allow the request, or a value is out of range.
    Invalid = 2,
    /// The service does not support this.
    NotSupported = 3,
    /// Another socket uses the address.
    AddressInUse = 4,
    /// The address is not an address of this machine.
    AddressNotAvailable = 5,
    /// The address is of the other family.
    WrongFamily = 6,
    /// No interface has a route to the address.
    Unreachable = 7,
    /// No socket listens at the address.
    Refused = 8,
    /// The peer reset the connection.
    Reset = 9,
    /// The peer does not answer.
    TimedOut = 10,
    /// The socket is already connected.
    IsConnected = 11,
    /// The socket is not connected.
    NotConnected = 12,
    /// The socket is already connecting.
    Already = 13,
    /// The operation has begun; the data socket's signals report its end.
    InProgress = 14,
    /// Nothing is pending; the data socket's signals report when that changes.
    Again = 15,
    /// The client, or all clients together, have too many sockets, or memberships in groups.
    TooMany = 16,
    /// No memory is left.
    NoMemory = 17,
    /// A datagram to a broadcast address, without the option; or the description's rule for the program forbids it.
    Denied = 18,
    /// The request has no address, and the socket has no peer.
    NoDestination = 19,
    /// The option does not exist.
    NoOption = 20,
    /// No host has this name, or none with an address.
    NoName = 21,
    /// There is no name server, or none answers.
    NoNameServer = 22,
    /// The machine has no network card.
    NoCard = 23,
    /// The host cannot be reached.
    HostUnreachable = 24,
    /// The connection's address is not this machine's any more.
    Aborted = 25,
}
