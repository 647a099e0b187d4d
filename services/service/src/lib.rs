//! The service side of `init`'s protocol: clients as they arrive, the programs that they belong to, and the connections
//! to services that this one uses.
//!
//! `init` starts a service on the first request for it, and gives it one channel. On it `init` sends each client, and
//! the end of each program that had one ([`message`]). A client is words for the service, and ends of channels or
//! sockets whose other ends the client holds. The service defines the protocol on those. A client of a file system has
//! one end, a connection to its root.
//!
//! **Ownership.** Everything that a service keeps belongs to a [`Program`]. A service counts it in a [`Ledger`], which
//! bounds each program's use, and frees all of it when [`Event::Ended`] reports that the program has ended. A client's
//! channel usually closes earlier, but no service may rely on it: other programs, even services, can keep a channel
//! open beyond the program's end.
//!
//! **Checks.** [`ChannelEnds`] takes a client's end of a channel. It refuses objects of another type, and the other end of a
//! channel that the service already holds.
//!
//! [`DescriptorFifo`] is what drivers of network cards and the switch share of the protocol of the crate `netdevice`.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod channel_ends;
#[cfg(target_os = "fuchsia")]
mod clients;
#[cfg(target_os = "fuchsia")]
mod descriptor_fifo;
mod fair_queue;
mod ledger;
pub mod message;

#[cfg(target_os = "fuchsia")]
pub use channel_ends::{ChannelEnds, End, memory, socket, socket_for};
#[cfg(target_os = "fuchsia")]
pub use clients::{Client, Clients, Event, uses, uses_again};
#[cfg(target_os = "fuchsia")]
pub use descriptor_fifo::DescriptorFifo;
pub use fair_queue::FairQueue;
pub use ledger::{Ledger, Program};
