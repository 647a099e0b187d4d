//! libfdio.so: file descriptors and process spawning over Zircon handles.
//!
//! Zircon has handles, but no file descriptors. This library keeps the table of descriptors in the process itself. A
//! descriptor refers to an open [`description`], which its duplicates share as POSIX demands; a description refers to
//! an [`object`]: a socket (pipes, standard input and output), a file or directory of the boot file system or of a file
//! system that another process serves ([`remote`]), the kernel's log, a counter, or a device below `/dev`. This library
//! has the POSIX functions on descriptors ([`io`], [`open`], [`stat`], [`dir`], [`lock`], [`memory`], [`net`]) and on
//! names ([`names`], [`namespace`]); libc.so has the rest of the C library and calls [`startup`] before `main`.
//!
//! [`spawn`] starts processes: it finds the program, collects the handles for the child's descriptors, and calls the
//! process builder for the rest.
//!
//! [`services`] connects to services of other processes by name.
//!
//! `/boot` is the BOOTFS image, which every process has; it is read-only (`EROFS`). [`network`] has the sockets of the
//! network service, and [`unix`] the UNIX sockets, whose names are in file systems.
#![cfg_attr(target_os = "fuchsia", no_std)]
// On the build host only modules that need no system are compiled, for their tests.
#![cfg_attr(not(target_os = "fuchsia"), forbid(unsafe_code), allow(dead_code))]
// POSIX documents what these C functions demand of their arguments.
#![allow(clippy::missing_safety_doc)]

extern crate alloc;

mod interfaces;
mod path;
#[cfg(test)]
mod path_tests;
mod tcp_info;

#[cfg(target_os = "fuchsia")]
mod address;
#[cfg(target_os = "fuchsia")]
mod c;
#[cfg(target_os = "fuchsia")]
mod description;
#[cfg(target_os = "fuchsia")]
mod dir;
#[cfg(target_os = "fuchsia")]
mod epoll;
#[cfg(target_os = "fuchsia")]
mod errors;
#[cfg(target_os = "fuchsia")]
mod eventfd;
#[cfg(target_os = "fuchsia")]
mod heap;
#[cfg(target_os = "fuchsia")]
mod ifaddrs;
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
