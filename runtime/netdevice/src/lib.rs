//! The protocol between a network device and its client: the driver of a card and the TCP/IP service, or the switch between
//! the two, which is the device of the one and the client of the other.
//!
//! The data plane is that of Fuchsia's `fuchsia.hardware.network`: buffer descriptors in a VMO, frames in a second VMO,
//! and two FIFOs of descriptor numbers. The control messages on the client's channel are of our own, because there is no
//! FIDL here; their fields have Fuchsia's names. Steps of a session; the code refers to these numbers:
//!
//! 1. **Ask.** A client connects to the device's service. It sends [`Request::Info`], and the device answers with its
//!    [`Info`].
//! 2. **Open.** The client sends [`Request::Open`] with the VMO of descriptors and the VMO of frames. The device pins
//!    both, and answers with the client's ends of two FIFOs, *rx* and *tx*. The client's VMOs are charged to the
//!    client. A device has one session at a time.
//! 3. **Receive.** The client describes free buffers, and writes the numbers of their descriptors to rx. The device
//!    fills a buffer, writes the length of the frame to the descriptor, and returns the number on rx. A length of 0
//!    says that there is no frame in the buffer.
//! 4. **Send.** The client puts a frame in a buffer, describes it, and writes the number to tx. The device returns the
//!    number on tx when the buffer is free again. [`TX_ERROR`] in the descriptor says that the frame was not sent. While
//!    it has fewer than 32 numbers of frames, sent or not, a device may keep them.
//!    So a client that waits for free buffers has 32 or more of them to send.
//! 5. **Own.** A descriptor and its buffer belong to the side that has its number. The device copies a descriptor once,
//!    when it gets the number, and checks the copy ([`Descriptor::buffer`]). It keeps for itself which numbers it has
//!    ([`Owned`]). A client that breaks a rule loses its session.
//! 6. **Close.** The session ends when the channel closes. When the device ends, channel and FIFOs close: frames in
//!    flight may be lost, and the client opens a new session.
//! 7. **Watch.** The client with the session sends [`Request::WatchStatus`]. The device answers with its [`Info`] when the
//!    status of its port, [`Info::online`], is another one than in the last answer: at once, or at the next change. One
//!    such request waits at a time. So a link that changes often costs no more answers than the client asks for, and the
//!    client may ask as seldom as it wants; it learns of the last status.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod descriptor;
mod message;
mod owned;
#[cfg(test)]
mod tests;

pub use descriptor::{
    Buffer, DATA_LENGTH_AT, DESCRIPTOR, Descriptor, FRAME_ETHERNET, Fault, INBOUND_FLAGS_AT, RETURN_FLAGS_AT, TX_ERROR,
};
pub use message::{ANSWER, Info, REQUEST, Request, decode_answer, encode_answer};
pub use owned::Owned;

/// Size of an element of the FIFOs in bytes: the number of a descriptor.
pub const ELEMENT: usize = 2;
/// Number of elements that an end of a FIFO holds at most. A session has no more descriptors, so no end is ever full
/// unless a client breaks the rules.
pub const DEPTH: usize = 1024;
/// Handles of the answer to [`Request::Open`]: the client's ends of rx and tx.
pub const OPEN_HANDLES: usize = 2;
