//! What fdio and the network service say to each other.
//!
//! A socket of the network is two things in the client: a *control channel*, over which it is bound, connected and asked,
//! and a *data socket* of Zircon, which carries its bytes and, by its signals, says what can be done. Bytes never travel
//! over the channel. The steps, by whose numbers the code refers to them:
//!
//! 1. **Reach.** A process connects to the service [`SERVICE`] once: the *client's channel*.
//! 2. **Open.** Over it goes [`Request::Open`] with the service's end of a new channel, the control channel, and with handles to
//!    both ends of a new socket of Zircon, the data socket: the service's end, then the client's, which it keeps a handle to.
//!    It is a stream for TCP and has datagrams for UDP. What waits in it is charged to the client's job, which made it.
//! 3. **Ask.** Every other request goes over the control channel. Each is answered at once, also where what was asked for
//!    takes longer: then with [`Error::InProgress`] or [`Error::Again`], and a signal on the data socket tells of the end.
//! 4. **Connect.** After [`Request::Connect`] the data socket has [`CONNECTED`], or [`ERROR`]; which error it was, the
//!    option [`Choice::Error`] tells, once.
//! 5. **Listen.** A listener's data socket carries nothing; it has [`LISTENING`], and [`INCOMING`] while a connection waits.
//!    [`Request::Accept`] goes with the service's end of a new control channel; the answer has its data socket and its peer's address.
//! 6. **Carry.** TCP's bytes are the data socket's bytes. Writing is ended (`shutdown`) by the socket's disposition, at
//!    either end; a peer that ended shows as the end of the bytes, one that was lost as [`ERROR`] too. A datagram is a
//!    [header](encode_header) with the address of its other party, and the bytes.
//! 7. **Prepare.** Before a client sends datagrams to an address for the first time it asks ([`Request::Prepare`]), so
//!    that what can never be sent is refused to the one who sends it.
//! 8. **Share.** [`Request::Clone`] gives a socket another control channel, for another process; the data socket is
//!    duplicated as any handle.
//! 9. **Close.** A socket lives until the last of its control channels is closed, by whatever end of their holders.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod message;
#[cfg(test)]
mod tests;

pub use message::{Message, Reply, canonical, decode_header, encode_header, mapped};

use core::net::SocketAddr;

/// The service's name below `/svc`.
pub const SERVICE: &str = "network";

/// Signal on the data socket: connected, or connected once.
pub const CONNECTED: u32 = 1 << 24;
/// Signal on the data socket: a connection waits to be accepted.
pub const INCOMING: u32 = 1 << 25;
/// Signal on the data socket: there is an error to be asked for.
pub const ERROR: u32 = 1 << 26;
/// Signal on the data socket: it listens.
pub const LISTENING: u32 = 1 << 27;

/// No message is longer.
pub const LONGEST: usize = 64;
/// Bytes before each datagram.
pub const HEADER: usize = 28;
/// The most bytes in a datagram over IPv4: what is left of 65,535 after the headers of IP and UDP.
pub const DATAGRAM_MAX: usize = 65_507;

/// Which addresses a socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 by mapped addresses.
    V6,
}

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A stream of bytes: TCP.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Makes a socket (2). With the service's end of the control channel, and with both ends of the data socket.
    Open(Family, Kind),
    /// Makes another control channel (8). With its end.
    Clone,
    /// Gives the socket a local address; port 0 asks for any.
    Bind(SocketAddr),
    /// Connects (4). Without `wait` the answer is `InProgress` even when it is done.
    Connect {
        /// The other party.
        to: SocketAddr,
        /// The client will wait for the end, so it may as well be told now.
        wait: bool,
    },
    /// Makes it a listener (5) for which that many connections may wait.
    Listen(u32),
    /// Takes a connection (5). With the service's end of its control channel.
    Accept,
    /// The local address.
    LocalAddress,
    /// The other party's address.
    PeerAddress,
    /// Changes an option.
    Set(Choice, u32),
    /// Reads an option.
    Get(Choice),
    /// Whether datagrams can be sent to an address (7).
    Prepare(SocketAddr),
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident: $($(#[$item_doc:meta])* $item:ident = $number:literal),* $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$item_doc])* $item = $number),* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$item),*];

            /// By its number.
            pub fn from_number(number: u32) -> Option<$name> {
                match number { $($number => Some($name::$item),)* _ => None }
            }
        }
    };
}

numbered! {
    /// Options of a socket. Truth is 1, what is off or has no value 0.
    Choice:
    /// The error that waits; asking takes it. The number of an [`Error`], or 0.
    Error = 1,
    /// Small pieces are sent at once.
    NoDelay = 2,
    /// An idle connection is probed.
    KeepAlive = 3,
    /// After how many idle seconds.
    KeepIdle = 4,
    /// Seconds between probes.
    KeepInterval = 5,
    /// Unanswered probes that end the connection.
    KeepCount = 6,
    /// Seconds that closing may take, plus 1; 1 is: closing resets. 0 is off.
    Linger = 7,
    /// How many routers a packet may pass over IPv4.
    Ttl = 8,
    /// The same over IPv6.
    Hops = 9,
    /// The address may be bound though connections of another listener there still end.
    ReuseAddress = 10,
    /// Several sockets may share the address.
    ReusePort = 11,
    /// Datagrams may go to broadcast addresses.
    Broadcast = 12,
    /// An IPv6 socket has nothing to do with IPv4.
    OnlyV6 = 13,
    /// Datagrams to groups come back. IPv4.
    MulticastLoop = 14,
    /// The same for IPv6.
    MulticastLoopV6 = 15,
    /// Routers that a datagram to a group may pass.
    MulticastTtl = 16,
    /// The same for IPv6.
    MulticastHops = 17,
    /// Whether it listens; cannot be set.
    Accepting = 18,
    /// Bytes that wait for the reader; a wish.
    ReceiveBuffer = 19,
    /// Bytes that wait to be sent; a wish.
    SendBuffer = 20,
}

numbered! {
    /// Why a request was refused, or what became of a connection.
    Error:
    /// The message is none of this protocol.
    Malformed = 1,
    /// The socket is not in a state for it, or the value is out of range.
    Invalid = 2,
    /// There is no such thing here.
    NotSupported = 3,
    /// Another socket has the address.
    AddressInUse = 4,
    /// The address is not one of this machine.
    AddressNotAvailable = 5,
    /// An address of the other family.
    WrongFamily = 6,
    /// No interface leads there.
    Unreachable = 7,
    /// Nobody listens there.
    Refused = 8,
    /// The other party is gone.
    Reset = 9,
    /// The other party does not answer.
    TimedOut = 10,
    /// It is connected already.
    IsConnected = 11,
    /// It is not connected.
    NotConnected = 12,
    /// It is being connected already.
    Already = 13,
    /// It has begun; the data socket's signals tell the end.
    InProgress = 14,
    /// Nothing waits; the data socket's signals tell of it.
    Again = 15,
    /// The client, or all together, have as many sockets as there may be.
    TooMany = 16,
    /// There is no memory.
    NoMemory = 17,
    /// To a broadcast address, without the option.
    Denied = 18,
    /// No address was given, and the socket has none.
    NoDestination = 19,
    /// There is no such option.
    NoOption = 20,
}
