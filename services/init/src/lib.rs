//! What init, the shell and the tests of both share, free of system calls: the frames of the host link, the
//! configuration, the way of standard input, what the shell is given, clients on their way to services,
//! and the check of a program before it is started.
#![forbid(unsafe_code)]

pub mod config;
pub mod frames;
pub mod given;
pub mod program;
pub mod stdin;
pub mod under_way;
pub mod words;
