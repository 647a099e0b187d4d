//! Zircon's kernel objects as plain Rust over an abstract machine.
#![no_std]
