//! musl's sources, from the package that contains them.
//!
//! pip fetches the package that `runtime/libc/c/requirements.txt` pins, and checks its hash. Only musl is unpacked. The
//! package itself, which also contains a whole compiler, is not kept.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use xtask_common::fetch;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// The locations of the unpacked files.
#[derive(Clone, Debug)]
pub struct Sources {
    /// musl's own tree: `src`, `include`, `arch`.
    pub musl: PathBuf,
    /// Its public headers: those for every processor, then those for ours, which take precedence.
    pub headers: [PathBuf; 2],
}

/// Unpacks the given paths from the only wheel in the folder.
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

/// Fetches them, unless they exist.
///
/// # Errors
/// pip or python3 fails; the error contains its message.
pub fn fetched(paths: &Paths, ui: &Ui) -> Result<Sources> {
    let requirements = paths.workspace.join("runtime/libc/c/requirements.txt");
    let wanted = fs::read(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = paths.out.join("musl");
    let tree = folder.join("ziglang/lib/libc");
    let sources = Sources {
        musl: tree.join("musl"),
        headers: [tree.join("include/generic-musl"), tree.join("include/x86_64-linux-musl")],
    };
    // Copied last, so its presence shows that everything is complete.
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
    // The sources are the same in the packages for all machines, so any of them will do.
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
