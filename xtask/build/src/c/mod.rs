//! C: the C library's sources, the headers for programs, and the compiler.
//!
//! Half of `libc.so` is our own (`runtime/libc/src`, in Rust). The other half is musl, which is part of the Python
//! package `ziglang`: [`sources`] fetches it. [`headers`] assembles `sysroot/include` from musl's public headers, the
//! generated headers of the system calls, and our own. [`library`] compiles and links it. [`rumpuser`] is
//! the library for rump kernels. [`front`] is clang with everything set.

pub mod front;
pub mod headers;
pub mod library;
pub mod rumpuser;
pub mod sources;

/// The target for C.
pub const TARGET: &str = "x86_64-unknown-fuchsia";
/// The compiler.
pub const CLANG: &str = "clang";
