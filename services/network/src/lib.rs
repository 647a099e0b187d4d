//! The core of the network service: everything but its channels and its port, so that it is tested on the host.
//!
//! A client's TCP socket is a data socket of Zircon with the client at one end and the [`stack`] at the other, which moves
//! bytes between it and a socket of smoltcp; smoltcp makes packets of them, and sends these over a [`wire`]. There is one
//! wire so far, the machine's own loop (127.0.0.0/8 and ::1). The protocol between clients and service is the crate
//! `network-protocol`.
//!
//! What smoltcp leaves to its user is here: [`ports`], listeners with a queue, what becomes of a connection whose client
//! has gone, errors that wait to be asked for, limits.
#![forbid(unsafe_code)]

mod choices;
pub mod frames;
pub mod ports;
pub mod socket;
pub mod stack;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
pub mod wire;
