//! The shell of the system: an ordinary program with a POSIX-like command language.
//!
//! The crate `brush-parser` parses; this crate executes. Nothing forks: a subshell is a copy of the shell's state
//! ([`state`]). The parts of a pipeline run concurrently in threads of this process, each of which starts programs and
//! waits for them. The programs of one line form a group ([`group`]) with its own job, which Ctrl-C kills.
//!
//! It also runs on the host, where its tests compare it with the host's shell.
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
