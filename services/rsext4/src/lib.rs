//! The crate `rsext4` with our patches: see `README.md` next to this folder.
#![no_std]
// All of it is third-party code.
#![allow(warnings, missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
