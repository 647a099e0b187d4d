//! Code without system calls that `init`, the shell and their tests share: the frames of the host link, the
//! configuration, standard input, the shell's start handles, clients on their way to services, and the check of a
//! program before its start.
#![forbid(unsafe_code)]

pub mod config;
pub mod frames;
pub mod in_flight;
pub mod program;
pub mod start_handles;
pub mod stdin;
pub mod words;
