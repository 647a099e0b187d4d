//! The core of the network service: everything except its channels and its port, so that it can be tested on the host.
//!
//! A client's TCP socket is a Zircon data socket between the client and the [`stack`]. The stack moves bytes between it
//! and a smoltcp socket. smoltcp makes packets and sends them over a [`wire`]: the loopback device (127.0.0.0/8 and ::1),
//! or a network [`card`]. The crate `network-protocol` defines the protocol between clients and service.
//!
//! This crate adds what smoltcp leaves to its user: [`ports`], listeners with a queue, connections whose client has
//! gone, pending errors, limits.
#![forbid(unsafe_code)]

pub mod card;
mod carrier;
mod choices;
mod datagrams;
mod echo;
mod ending;
pub mod frames;
pub mod groups;
mod half_open;
pub mod hosts;
mod information;
pub mod ipv6;
mod join;
pub mod lookup;
mod lookup_stream;
mod lost;
mod packets;
pub mod ports;
mod room;
pub mod rules;
mod segments;
pub mod socket;
pub mod stack;
mod sums;
mod tcp;
#[cfg(test)]
mod tests;
mod time_wait;
mod udp;
pub mod wire;
