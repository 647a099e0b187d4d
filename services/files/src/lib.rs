//! File services: each is a process that serves one tree of names to programs.
//!
//! [`file_protocol`] defines the protocol. A [`FileSystem`] implements the nodes. In between, [`serving`] manages open
//! descriptions, [`walk`] resolves paths, and [`locks`] manages file locks. There are two kinds of file system:
//! [`memory`], whose contents are VMOs, and those on a disk, [`fat`] and ext4.
//!
//! The service does not trust its clients. It checks their messages, limits what they create, and frees it when their
//! channels close.
#![forbid(unsafe_code)]

pub mod backlog;
pub mod blocks;
pub mod contents;
#[cfg(test)]
mod damage;
pub mod ext4;
pub mod failures;
pub mod fat;
pub mod locks;
pub mod memory;
#[cfg(any(test, feature = "judge"))]
pub mod power_cut_images;
#[cfg(test)]
mod slices;
pub mod system;
#[cfg(test)]
mod test_disk;
pub mod walk;

#[cfg(target_os = "fuchsia")]
pub mod keeper;
#[cfg(target_os = "fuchsia")]
pub mod serving;

use std::cell::Cell;

pub use system::{FileSystem, New, Node};

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Prints a message about a disk to standard error.
fn say(text: &str) {
    if !SILENT.get() {
        eprintln!("{text}");
    }
}

/// Runs `call` without messages about disks, for tests with thousands of damaged ones.
pub fn silently<T>(call: impl FnOnce() -> T) -> T {
    let before = SILENT.replace(true);
    let done = call();
    SILENT.set(before);
    done
}

/// The current time in nanoseconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
