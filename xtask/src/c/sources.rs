//! musl's sources, out of the package that carries them.
//!
//! pip fetches the package that `runtime/libc/c/requirements.txt` pins, and checks its hash. Of the package only musl is
//! unpacked, and the package itself is not kept: it is a whole compiler besides.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::fetch;
use crate::paths::Paths;
use crate::ui::Ui;

/// Where what comes of it lies.
#[derive(Clone, Debug)]
pub struct Sources {
    /// musl's own tree: `src`, `include`, `arch`.
    pub musl: PathBuf,
    /// Its public headers, ready made: those of every processor, then those of ours, which go before.
    pub headers: [PathBuf; 2],
}

/// Unpacks, of the one wheel in the folder, what lies below the paths named.
const UNPACK: &str = "
import pathlib, sys, zipfile
folder, to, *parts = sys.argv[1:]
wheel, = pathlib.Path(folder).glob('*.whl')
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(to, [name for name in archive.namelist() if name.startswith(tuple(parts))])
";

const PARTS: [&str; 5] = [
    "ziglang/lib/libc/musl/src/",
    "ziglang/lib/libc/musl/include/",
    "ziglang/lib/libc/musl/arch/",
    "ziglang/lib/libc/include/generic-musl/",
    "ziglang/lib/libc/include/x86_64-linux-musl/",
];

/// Fetches them, unless they are there.
///
/// # Errors
/// pip or python3 fail; the error says what they said.
pub fn fetched(paths: &Paths, ui: &Ui) -> Result<Sources> {
    let requirements = paths.workspace.join("runtime/libc/c/requirements.txt");
    let wanted = fs::read(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = paths.out.join("musl");
    let tree = folder.join("ziglang/lib/libc");
    let sources = Sources {
        musl: tree.join("musl"),
        headers: [tree.join("include/generic-musl"), tree.join("include/x86_64-linux-musl")],
    };
    // Copied last, so that it says that all is there.
    let stamp = folder.join("requirements.txt");
    if fs::read(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(sources);
    }
    let mut step = ui.step("fetching the C library's sources");
    step.activity("with pip");
    let wheel = folder.join("wheel");
    for old in [&tree, &wheel] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    let mut pip = fetch::pip("download");
    // The file is the same for every machine: no matter which one's package it is taken from.
    pip.args(["--require-hashes", "--only-binary=:all:", "--platform=manylinux2010_x86_64", "--python-version=3.11"]);
    pip.arg("-r").arg(&requirements).arg("-d").arg(&wheel);
    fetch::patiently(&mut pip, "the C library's sources")?;
    step.activity("unpacking");
    let mut unpack = Command::new("python3");
    let output = unpack.args(["-c", UNPACK]).args([&wheel, &folder]).args(PARTS).output();
    let output = output.context("cannot start python3")?;
    if !output.status.success() {
        bail!("python3 cannot unpack the C library's sources: {}", String::from_utf8_lossy(&output.stderr));
    }
    fs::remove_dir_all(&wheel).with_context(|| format!("cannot remove {}", wheel.display()))?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(sources)
}
