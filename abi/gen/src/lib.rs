//! Reads the system-call definitions and writes what is generated from them.
//!
//! A definition is a `[[syscall]]` table in `abi/syscalls/<noun>.toml`. [`load()`] reads all of them into [`Syscall`]s
//! and refuses contradictions. The other modules are emitters, each from the same list to one kind of text:
//!
//! | module | writes | used by |
//! |---|---|---|
//! | [`numbers`] | Rust constants and the table `SYSCALLS` | `abi/build.rs` |
//! | [`test_info`] | the table `TESTS`: what tests know of each call | `abi/build.rs` |
//! | [`stubs`] | the vDSO's entry points in assembly | `runtime/vdso/build.rs` |
//! | [`header`] | `zircon/syscalls.h` and `zircon/types.h` | the sysroot |
//! | [`pages`] | a reference page for each call, and the support table | `./hafnon docs` |
//!
//! The server's own `build.rs` generates the server's dispatch table from the same list.
#![forbid(unsafe_code)]

mod arch;
pub mod header;
pub mod image;
pub mod load;
pub mod model;
pub mod numbers;
pub mod pages;
pub mod test_info;

pub use arch::stubs;
pub use load::{Error, load};
pub use model::{Arg, Dir, ErrorCase, Right, Support, Syscall, Via};
