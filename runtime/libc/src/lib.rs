//! libc.so, which is also ld.so.1.
#![no_std]
