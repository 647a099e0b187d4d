//! TCP and UDP with `std::net` alone. Where the times are short, only that a call ended is judged, never how fast.
#![forbid(unsafe_code)]

mod names;
mod process;
mod tcp;
mod udp;
