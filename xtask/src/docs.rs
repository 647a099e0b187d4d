//! `docs`: what is made from the system calls' definitions for people to read.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::files::write_if_changed;
use crate::paths::Paths;
use crate::ui::Ui;

/// The table of what is built, which stands in the tree.
const COMPATIBILITY: &str = "docs/compatibility.md";

/// Writes the compatibility page, and a reference page for each call into a folder.
///
/// # Errors
/// The definitions cannot be read, or a page cannot be written.
pub fn docs(paths: &Paths, folder: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    let calls = abi_gen::load(paths.workspace.join("abi/syscalls"))?;
    let page = abi_gen::pages::compatibility(&calls);
    let written = write_if_changed(&paths.workspace.join(COMPATIBILITY), page.as_bytes())?;
    ui.note(&format!("{COMPATIBILITY} {}", if written { "is new" } else { "is up to date" }));
    let reference = paths.out.join("reference");
    let folder = folder.unwrap_or(&reference);
    let pages =
        abi_gen::pages::write(&calls, folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    ui.note(&format!("{} reference pages: {}", pages.len(), paths.short(&folder.join("index.md")).display()));
    Ok(())
}

/// Whether the page in the tree is what the definitions say.
///
/// # Errors
/// It cannot be read.
pub fn up_to_date(paths: &Paths) -> Result<bool> {
    let calls = abi_gen::load(paths.workspace.join("abi/syscalls"))?;
    let page = fs::read_to_string(paths.workspace.join(COMPATIBILITY));
    Ok(page.with_context(|| format!("cannot read {COMPATIBILITY}"))? == abi_gen::pages::compatibility(&calls))
}
