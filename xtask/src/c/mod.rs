//! C: where the C library's sources come from, the headers that programs are compiled with, and the compiler for them.
//!
//! Half of `libc.so` is our own (`runtime/libc/src`, in Rust); the other half is musl, which the Python package `ziglang`
//! carries: [`sources`] fetches it. [`headers`] makes `sysroot/include` of musl's public headers, those that the definitions of the
//! system calls give, and our own. [`library`] compiles and links it. [`front`] is clang with everything set.

pub mod front;
pub mod headers;
pub mod library;
pub mod sources;

/// What C is compiled for.
pub const TARGET: &str = "x86_64-unknown-fuchsia";
/// The compiler.
pub const CLANG: &str = "clang";
