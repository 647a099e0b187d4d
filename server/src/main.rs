//! The server on seL4: its start, and the event loop.
//!
//! All events arrive at one endpoint. The badge tells the sender and the kind ([`machine::thread`]): a thread's call, a
//! thread's fault, or a signal of the server's own notification (timer, host link), which is bound to its only thread.
//! The server answers each call in the same kernel entry in which it waits for the next event, which keeps both on the
//! kernel's fastpath.
//!
//! A thread can send any message. An unknown label is an unknown call. A malformed fault message is dropped, and the
//! thread stays blocked. The server receives no capabilities, because it names no slot for them.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod machine;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the server runs on seL4 only");
}
