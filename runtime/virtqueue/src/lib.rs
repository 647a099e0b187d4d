//! Split virtqueues in a guest's memory.
//!
//! The device's side ([`Ring`]) believes nothing. The guest can change every byte at any time, and the memory can go away.
//! So:
//!
//! - each number is read once, into a local copy, which is checked and then used;
//! - the index of the available ring is read with acquire order, and may be at most a queue's size ahead;
//! - a chain has at most as many descriptors as the queue, those in an indirect table included, so a loop ends;
//! - a table of indirect descriptors is not empty, is made of whole descriptors, and has no tables in it;
//! - all parts of a chain lie in the guest's memory, and the device may access them in the direction of the queue;
//! - what the device has written to the used ring is never read back.
//!
//! After [`Broken`], the device does not access the queue any more.
//!
//! [`DriverRing`] is the other side, for programs that are guests, and for tests.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod device;
mod driver;
mod memory;
#[cfg(test)]
mod tests;

pub use device::{Broken, Chain, Direction, Part, Ring, RingPlace};
pub use driver::{Buffer, DriverRing};
pub use memory::{Gone, Memory, Plain};

/// Size of a descriptor in bytes: address, length, flags, next.
pub const DESCRIPTOR: usize = 16;
/// Flag of a descriptor: there is a next one.
pub const NEXT: u16 = 1;
/// Flag of a descriptor: the device writes to it.
pub const WRITE: u16 = 2;
/// Flag of a descriptor: it is a table of descriptors.
pub const INDIRECT: u16 = 4;
/// In the flags of the available ring: the driver wants no notifications.
pub const NO_INTERRUPT: u16 = 1;
/// In the flags of the used ring: the device wants no notifications.
pub const NO_NOTIFY: u16 = 1;

/// Where `used_event` is in the available ring, and its whole size but two bytes.
fn used_event_at(size: u16) -> u64 {
    4 + 2 * u64::from(size)
}

/// Where `avail_event` is in the used ring.
fn avail_event_at(size: u16) -> u64 {
    4 + 8 * u64::from(size)
}

/// Whether the other side wants to be notified of the step from index `old` to `new`: it asked for the event at `event`.
fn wants_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}
