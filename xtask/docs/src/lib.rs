//! `docs`: pages that are generated from other files of the tree: the definitions of the system calls, the table of the
//! support for Rust's `std`, the measured figures, the families of objects, the components of rump kernels, and the
//! rooms of the tree.
#![forbid(unsafe_code)]

pub mod families;
mod kernel_patches;
mod rooms;
mod rump;
#[path = "../../../examples/std/src/table.rs"]
mod std_table;
pub mod trusted_base;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use std_table::{Entry, Proof, Status, TABLE};

use xtask_bench::page;
use xtask_common::files::write_if_changed;
use xtask_common::page::Page;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// The table of the implemented calls, a page of the tree.
const COMPATIBILITY: &str = "docs/compatibility.md";
/// The table of the support for `std`, also a page of the tree.
const STD: &str = "docs/std.md";

/// Writes the compatibility page, and a reference page for each call into a folder.
///
/// # Errors
/// The definitions cannot be read, or a page cannot be written.
pub fn docs(paths: &Paths, folder: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    write_pages(paths, &ui)?;
    let calls = abi_gen::load(paths.workspace.join("abi/syscalls"))?;
    let reference = paths.out.join("reference");
    let folder = folder.unwrap_or(&reference);
    let pages =
        abi_gen::pages::write(&calls, folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    ui.note(&format!("{} reference pages: {}", pages.len(), paths.short(&folder.join("index.md")).display()));
    Ok(())
}

/// Writes the generated pages of the tree.
///
/// # Errors
/// A source cannot be read, or a page cannot be written.
pub fn write_pages(paths: &Paths, ui: &Ui) -> Result<()> {
    for (name, page) in pages(paths)? {
        let written = write_if_changed(&paths.workspace.join(name), page.as_bytes())?;
        ui.note(&format!("{name} {}", if written { "is new" } else { "is up to date" }));
    }
    Ok(())
}

/// The pages of the tree that differ from what their sources generate.
///
/// # Errors
/// A page or a source cannot be read.
pub fn stale(paths: &Paths) -> Result<Vec<&'static str>> {
    let mut stale = Vec::new();
    for (name, page) in pages(paths)? {
        let found = fs::read_to_string(paths.workspace.join(name)).with_context(|| format!("cannot read {name}"))?;
        if found != page {
            stale.push(name);
        }
    }
    Ok(stale)
}

/// Every generated page of the tree, by name.
fn pages(paths: &Paths) -> Result<Vec<(&'static str, String)>> {
    let calls = abi_gen::load(paths.workspace.join("abi/syscalls"))?;
    let mut pages = vec![(COMPATIBILITY, abi_gen::pages::compatibility(&calls)), (STD, std_page())];
    pages.extend(page::pages(paths)?);
    let mut page = Page::read(paths, "docs/architecture.md")?;
    page.set("families", &families::part(paths)?)?;
    page.set("rooms", &rooms::part(paths, page.part("rooms")?)?)?;
    pages.push(page.finish());
    let mut page = Page::read(paths, "docs/kernel-patches.md")?;
    page.set("kernel-patches", &kernel_patches::part(paths, page.before("kernel-patches")?)?)?;
    pages.push(page.finish());
    let mut page = Page::read(paths, "docs/security.md")?;
    page.set("trusted-base", &trusted_base::part(paths, page.part("trusted-base")?)?)?;
    pages.push(page.finish());
    let mut page = Page::read(paths, "docs/rump.md")?;
    page.set("components", &rump::part())?;
    pages.push(page.finish());
    Ok(pages)
}

/// The page about the support for `std`.
fn std_page() -> String {
    let count = |status| TABLE.iter().filter(|entry| entry.status == status).count();
    let mut page = format!(
        "# What of std works\n\n\
         Rust's official `std` for `x86_64-unknown-fuchsia`, unchanged, as it behaves here: of {} lines {} work as std promises, {} \
         differ, {} answer `io::ErrorKind::Unsupported` at once.\n\n\
         This page is written by `./hafnon docs` from `examples/std/src/table.rs`. Each line names what shows it: a test of that \
         example, of another, or of Rust's own (`./hafnon test rust`, [testing.md](testing.md)). \
         `./hafnon test example.std` runs the example's.\n\n\
         | module | what | | shown by | |\n|---|---|---|---|---|\n",
        TABLE.len(),
        count(Status::Works),
        count(Status::Differs),
        count(Status::Unsupported),
    );
    for Entry { module, api, status, proof, note } in TABLE {
        let status = match status {
            Status::Works => "works",
            Status::Unsupported => "**unsupported**",
            Status::Differs => "**differs**",
        };
        let proof = match proof {
            Proof::Test(name) => format!("`{name}`"),
            Proof::Rust(name) => format!("Rust's `{name}`"),
            Proof::Example(example, name) => format!("{example} `{name}`"),
        };
        page.push_str(&format!("| {module} | {api} | {status} | {proof} | {note} |\n"));
    }
    page
}
