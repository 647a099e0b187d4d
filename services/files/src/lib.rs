//! File systems: a process each, which serves one tree of names to programs.
//!
//! What the conversation is, says [`file_protocol`]; what a name may lead to and what happens to it, a [`FileSystem`]. In between,
//! [`serving`] keeps who has what open, [`walk`] goes along paths, and [`locks`] knows who has locked what. There are two
//! file systems: [`memory`], whose files are memory objects, and [`fat`], on a disk.
//!
//! Nothing here trusts a client: what it sends is checked, what it makes is counted, and with its channels goes what it
//! had.
#![forbid(unsafe_code)]

pub mod backlog;
pub mod blocks;
pub mod contents;
#[cfg(test)]
mod damage;
pub mod ext4;
pub mod failures;
pub mod fat;
#[cfg(any(test, feature = "judge"))]
pub mod judged;
pub mod locks;
pub mod memory;
#[cfg(test)]
mod played;
#[cfg(test)]
mod portions;
pub mod system;
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

/// Says a sentence about a disk on standard error.
fn say(text: &str) {
    if !SILENT.get() {
        eprintln!("{text}");
    }
}

/// Carries out `call` without a word about disks: for whoever looks at thousands of damaged ones.
pub fn silently<T>(call: impl FnOnce() -> T) -> T {
    let before = SILENT.replace(true);
    let done = call();
    SILENT.set(before);
    done
}

/// Nanoseconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
