//! `run --gdb`: writes the files that let gdb find processes by name (`hafnon.py`), and prints how to start it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::{Object, ObjectSymbol};
use serde::Serialize;

use crate::symbols::Files;
use xtask_build::Built;
use xtask_common::files::write_if_changed;
use xtask_common::paths::Paths;

const SCRIPT: &str = include_str!("hafnon.py");

/// The configuration that the script reads.
#[derive(Serialize)]
struct Config<'a> {
    port: u16,
    server: &'a Path,
    root: &'a Path,
    kernel: PathBuf,
    /// The server's first instruction.
    entry: u64,
    /// The server's flag that a debugger is attached, and the function through which it reports
    /// (`server/src/debugger.rs`).
    attached: u64,
    told: u64,
    /// Files with symbols, by build id.
    files: BTreeMap<String, PathBuf>,
}

/// Writes script and configuration; returns the path of the script.
///
/// # Errors
/// The server's file lacks a symbol, or the files cannot be written.
pub fn prepare(paths: &Paths, built: &Built, files: &Files, port: u16) -> Result<PathBuf> {
    let bytes = fs::read(&built.server).context("cannot read the server")?;
    let server = object::File::parse(&*bytes).context("cannot read the server")?;
    let find = |name: &str| {
        let is_it = |symbol: &object::Symbol<'_, '_>| {
            symbol.name().is_ok_and(|mangled| addr2line::demangle_auto(mangled.into(), None).starts_with(name))
        };
        let symbol = server.symbols().find(is_it);
        Ok::<u64, anyhow::Error>(symbol.with_context(|| format!("the server has no `{name}`"))?.address())
    };
    let config = Config {
        port,
        server: &built.server,
        root: &built.root,
        kernel: built.kernel.with_file_name("kernel64.elf"),
        entry: server.entry(),
        attached: find("server::debugger::ATTACHED")?,
        told: find("server::debugger::told")?,
        // gdb may be started in any folder.
        files: files.by_build_id().into_iter().map(|(id, file)| (id, file.canonicalize().unwrap_or(file))).collect(),
    };
    let folder = paths.out.join("gdb");
    let script = folder.join("hafnon.py");
    write_if_changed(&script, SCRIPT.as_bytes())?;
    write_if_changed(&folder.join("config.json"), &serde_json::to_vec(&config).context("cannot write")?)?;
    Ok(script)
}
