//! Safe Zircon calls.
#![no_std]
