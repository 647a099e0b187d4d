//! The crate `smoltcp` with our patches: see `README.md` next to this folder.
// All of it is third-party code.
#![allow(warnings, missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

// Its tests need packages that nothing here uses.
#[cfg(not(test))]
include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
