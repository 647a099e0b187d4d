//! The server: Zircon's system calls over seL4.
#![no_std]
