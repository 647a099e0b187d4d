//! What a service was started with: its clients, as they come, the programs that they are of, and its connections to the
//! services that it uses.
//!
//! `init` starts a service when somebody needs it, and gives it one channel. `init` sends on it each client, and the end
//! of each program that had one ([`message`]). A client is words for the service, and the ends of channels or sockets
//! whose other ends the client holds. What is spoken on those is the service's own affair. A client of a file system has
//! one end, a connection to its root.
//!
//! **Whose it is.** Everything that a service keeps belongs to a [`Program`]. A service counts it in a [`Ledger`], which
//! bounds what each program has, and lets go of all of it when [`Event::Ended`] says that the program has ended. The end
//! of a client's channel comes sooner as a rule, but no service may rely on it: a program can have a channel kept
//! open by others when it ends, even by services.
//!
//! **What comes is checked.** [`Ends`] takes a client's end of a channel: an object of another kind is refused, and so is
//! the other end of a channel that the service holds already.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod clients;
#[cfg(target_os = "fuchsia")]
mod ends;
mod ledger;
pub mod message;
mod turns;

#[cfg(target_os = "fuchsia")]
pub use clients::{Client, Clients, Event, uses};
#[cfg(target_os = "fuchsia")]
pub use ends::{End, Ends, memory, socket, socket_for};
pub use ledger::{Ledger, Program};
pub use turns::Turns;
