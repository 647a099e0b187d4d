//! The shell inside the system: an ordinary program with a POSIX-like command language.
//!
//! A text is parsed by the crate `brush-parser`; what it means is here. Nothing forks: a subshell is a copy of the shell's
//! state ([`state`]), and the parts of a pipeline run beside each other in threads of this process, each of which starts
//! programs and waits for them. What one line starts is a group ([`group`]), with a job of its own, which Ctrl-C ends.
//!
//! It runs on the host, too, where its tests compare it with the host's shell.
#![forbid(unsafe_code)]

mod arithmetic;
mod builtin;
mod escape;
mod exec;
mod expand;
pub mod group;
mod jobs;
mod parameter;
mod pattern;
mod ps;
mod read;
mod redirect;
mod simple;
mod start;
pub mod state;
mod top;

pub use exec::STACK;
