//! A switch for Ethernet frames. At each of its ports is a guest's network device, by vhost-user, or the TCP/IP service or
//! the network card, by the protocol `netdevice`; docs/switch.md has the whole picture.
//!
//! A frame travels from the sender's queue to the receiver's buffers like this; the code refers to these steps:
//!
//! 1. **Take.** The next chain of the sender's queue is taken: its descriptors are copied and checked (crate `virtqueue`).
//! 2. **Gather.** The virtio header and the first [`HEAD`] bytes of the frame are copied to private memory. All decisions
//!    are made on this copy, and this copy is what is sent on: the guest can change its own memory at any time.
//! 3. **Decide.** The source address must be the port's own. The destination address and the rules say which ports get
//!    the frame ([`Ports::targets`]). Nothing is learnt from frames.
//! 4. **Find room.** The receiver's buffers are taken. If they are too few, they go back, and the frame waits for more if
//!    the receiver goes on ([`Turn::waits_for`]); else it is dropped and counted.
//! 5. **Copy.** The private copy is written, and the rest of the frame is copied from the sender's memory to the
//!    receiver's: one copy. If the sender's memory goes meanwhile, the receiver's buffers go back: a frame is whole, or
//!    it is not sent.
//! 6. **Give back.** Both chains go back to their drivers, which are told after a batch of frames, and notified if they
//!    want to be.
//!
//! Every copy counts against the turn of the port that sent the frame, also those of a broadcast ([`Budget`]).
#![forbid(unsafe_code)]

mod cut;
mod frame;
mod guest;
mod offload;
mod ports;
mod session;
mod switch;
#[cfg(test)]
mod tests;

pub use frame::{Counters, DropReason, HEAD, HEADER, LONGEST_FRAME, SHORTEST_FRAME};
pub use guest::{Guest, GuestMemory, Queues, RX, Side, TX, Wrong};
pub use offload::Offers;
pub use ports::{Mac, Ports};
pub use session::{BUFFER, DESCRIPTORS, FRAMES, LONGEST, Session};
pub use switch::{Budget, Ending, Notice, Switch, Turn};
