//! Rump kernels: NetBSD's kernel parts as a library of a program.
//!
//! The user brings a *prefix*, the libraries that NetBSD's build makes; nothing of NetBSD is in this tree. [`objects`]
//! reads their archives, [`prefix`] tells from them how the prefix was built, [`components`] knows the parts by short
//! names, [`plan`] selects the object files, [`report`] prints what is found, and [`link`] carries a plan out.

pub mod components;
pub mod link;
pub mod objects;
pub mod plan;
pub mod prefix;
pub mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use xtask_common::paths::Paths;
use xtask_common::words;

/// The library that answers the hypercalls, in the sysroot.
const ROOM: &str = "librumpuser.a";

/// Prints what a prefix is; returns 0 if programs can be linked with it, else 1.
///
/// # Errors
/// The folder is no prefix.
pub fn check(paths: &Paths, folder: &Path) -> Result<u8> {
    let read = prefix::read(folder)?;
    let (text, is_usable) = report::report(&read, answered(paths).as_ref());
    // Names in it come from the prefix.
    print!("{}", words::visible_lines(&text));
    Ok(u8::from(!is_usable))
}

/// The calls that this system's library defines; none if it is not built.
fn answered(paths: &Paths) -> Option<BTreeSet<String>> {
    let library = paths.sysroot_lib().join(ROOM);
    let objects = objects::read(&prefix::bytes(&library).ok()?).ok()?;
    Some(objects.into_iter().flat_map(|object| object.defined).filter(|symbol| symbol.starts_with("rump")).collect())
}
