//! What every tool of the host side uses: the folders of the tree, messages for the user, the build lock, threads,
//! downloads.
#![forbid(unsafe_code)]

pub mod fetch;
pub mod files;
pub mod lock;
pub mod page;
pub mod paths;
pub mod programs;
pub mod size;
pub mod threads;
pub mod ui;
pub mod words;
