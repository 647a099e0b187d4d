//! libfdio.so: file descriptors and process spawning over Zircon handles.
#![no_std]
