//! The 64-bit x86 processors.

pub mod stubs;
