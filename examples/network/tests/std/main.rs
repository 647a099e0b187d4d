//! TCP and UDP with `std::net` alone. Where times are short, the tests only check that a call returned, never how fast.
#![forbid(unsafe_code)]

mod names;
mod process;
mod tcp;
mod udp;
