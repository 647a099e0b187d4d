//! libfdio.so: file descriptors and process spawning over Zircon handles.
//!
//! Zircon knows handles, not file descriptors. This library keeps the table from one to the other, in the process
//! itself: a descriptor names an open [`description`] (shared by duplicates, as POSIX has it) of an [`object`]: a socket
//! (pipes, standard input and output), a file or directory of the boot file system or of a file system that another process
//! serves ([`remote`]), the kernel's log, a counter, or a device below `/dev`. The POSIX functions on descriptors ([`io`],
//! [`open`], [`stat`], [`dir`], [`lock`], [`memory`], [`net`]) and those on names ([`names`], [`namespace`]) are here; the rest of the C library is libc.so's, which calls [`startup`] before `main`.
//!
//! [`spawn`] starts processes: it finds the program, gathers the handles that become the child's descriptors, and leaves
//! the rest to the process builder.
//!
//! [`services`] connects to what other processes offer by name.
//!
//! `/boot` is the BOOTFS image that every process is given, and nothing can be written there (`EROFS`). Sockets of the
//! [`network`] are those of the network service; [`unix`] sockets have their names in file systems.
#![cfg_attr(target_os = "fuchsia", no_std)]
// On the build host only the names are there, so that they can be tested.
#![cfg_attr(not(target_os = "fuchsia"), forbid(unsafe_code), allow(dead_code))]
// C functions: what they demand of their arguments is what POSIX says, not repeated at each.
#![allow(clippy::missing_safety_doc)]

extern crate alloc;

mod path;
#[cfg(test)]
mod path_tests;

#[cfg(target_os = "fuchsia")]
mod address;
#[cfg(target_os = "fuchsia")]
mod c;
#[cfg(target_os = "fuchsia")]
mod description;
#[cfg(target_os = "fuchsia")]
mod dir;
#[cfg(target_os = "fuchsia")]
mod eventfd;
#[cfg(target_os = "fuchsia")]
mod heap;
#[cfg(target_os = "fuchsia")]
mod io;
#[cfg(target_os = "fuchsia")]
mod lock;
#[cfg(target_os = "fuchsia")]
mod memory;
#[cfg(target_os = "fuchsia")]
mod names;
#[cfg(target_os = "fuchsia")]
mod namespace;
#[cfg(target_os = "fuchsia")]
mod net;
#[cfg(target_os = "fuchsia")]
mod network;
#[cfg(target_os = "fuchsia")]
mod object;
#[cfg(target_os = "fuchsia")]
mod open;
#[cfg(target_os = "fuchsia")]
mod options;
#[cfg(target_os = "fuchsia")]
mod poll;
#[cfg(target_os = "fuchsia")]
mod program;
#[cfg(target_os = "fuchsia")]
mod readiness;
#[cfg(target_os = "fuchsia")]
mod remote;
#[cfg(target_os = "fuchsia")]
mod resolve;
#[cfg(target_os = "fuchsia")]
mod select;
#[cfg(target_os = "fuchsia")]
mod services;
#[cfg(target_os = "fuchsia")]
mod spawn;
#[cfg(target_os = "fuchsia")]
mod startup;
#[cfg(target_os = "fuchsia")]
mod stat;
#[cfg(target_os = "fuchsia")]
mod statvfs;
#[cfg(target_os = "fuchsia")]
mod table;
#[cfg(target_os = "fuchsia")]
mod unix;
