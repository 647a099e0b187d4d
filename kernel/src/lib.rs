//! Contains nothing. The package exists so that cargo fetches, and verifies by checksum, the tree that seL4 is built
//! from.
#![no_std]
#![forbid(unsafe_code)]
