//! Typed binding to seL4, generated from the kernel's own definitions.
#![no_std]
