//! The server on seL4: the start, and the event loop.
//!
//! Everything comes to one endpoint. The badge says from whom and what ([`machine::thread`]): a thread's call, a thread's
//! fault, or a signal of the server's own notification (the timer, the host link), which is bound to its only thread.
//! Every call is answered in the same entry of the kernel that waits for the next event, which keeps both in the
//! kernel's fast path.
//!
//! What a thread sends is what it wants to send: an odd label is an unknown call, an odd fault message is dropped and the
//! thread stays where it put itself. No capability is ever received, as no slot is named for it.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod machine;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the server runs on seL4 only");
}
