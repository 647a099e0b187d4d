//! The compiler of `hafnon cargo`: rustc, but some packages are compiled from patched copies.
//!
//! A package that fails on this target may be deep in a program's dependencies. Cargo's own `[patch]` would change the
//! program's lock file and fix one version only. So cargo starts rustc through this tool (`RUSTC_WRAPPER`):
//!
//! 1. A package of [`PATCHES`] that cargo took from its registry is copied to `target/hafnon/patched`.
//! 2. The package's patches are applied to the copy.
//! 3. rustc compiles the copy; a line on standard error says so.
//!
//! If a patch does not apply, the package is compiled unchanged, and a line on standard error tells the consequence.
//! Everything else reaches rustc as cargo wrote it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use xtask_build::cargo::PROGRAM_TARGET;
use xtask_common::files::{copy_folder, write_if_changed};
use xtask_common::paths::{Paths, own_file};
use xtask_common::words;

/// The caller's own wrapper of rustc.
const THEIRS: &str = "HAFNON_RUSTC_WRAPPER";

/// The patched packages.
const PATCHES: &[Patched] = &[Patched {
    package: "mio",
    patches: &[
        ("1-epoll", include_str!("../patches/mio/1-epoll.patch")),
        ("2-non-blocking", include_str!("../patches/mio/2-non-blocking.patch")),
    ],
    without: "programs with several threads may hang",
    page: "docs/network.md#mio-and-tokio",
}];

/// A package and its patches.
struct Patched {
    package: &'static str,
    /// Names and texts, in the order in which they are applied.
    patches: &'static [(&'static str, &'static str)],
    /// The consequence if a patch does not apply.
    without: &'static str,
    /// The page that tells about it.
    page: &'static str,
}

/// Makes a cargo command compile with this tool, and returns the flags of rustc that this needs.
///
/// # Errors
/// The script that cargo starts cannot be written.
pub fn set(paths: &Paths, command: &mut Command) -> Result<OsString> {
    // Cargo wants a program without arguments.
    let script = paths.out.join("rustc");
    let tool = own_file()?.to_string_lossy().replace('\'', r"'\''");
    write_if_changed(&script, format!("#!/bin/sh\nexec '{tool}' rustc \"$@\"\n").as_bytes())?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", script.display()))?;
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(theirs) = set("RUSTC_WRAPPER").or_else(|| set("CARGO_BUILD_RUSTC_WRAPPER")) {
        command.env(THEIRS, theirs);
    }
    command.env("RUSTC_WRAPPER", script);
    // Cargo does not know the patches; it builds everything anew when a flag changes.
    let patches = PATCHES.iter().flat_map(|patched| patched.patches);
    Ok(format!("--cfg=hafnon_patches=\"{:016x}\"", digest(patches)).into())
}

/// Runs rustc in place of this process. `args` are what cargo passes to a wrapper: rustc, then its arguments.
///
/// # Errors
/// rustc cannot be started.
pub fn compile(paths: &Paths, args: &[OsString]) -> Result<u8> {
    let mut args = args.to_vec();
    let folder = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    // A package that is worked on is compiled as it is.
    if env::var_os("CARGO_PRIMARY_PACKAGE").is_none()
        && let Some((patched, source)) = wanted(&args, &folder)
    {
        let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
        let name = format!("{} {version}", patched.package);
        match copy(&paths.out.join("patched"), patched, &folder, &version) {
            Ok(copy) => {
                let count = patched.patches.len();
                words::say(&format!("hafnon: {name} is compiled with {count} patches ({})", patched.page));
                let below =
                    Path::new(&args[source]).strip_prefix(&folder).context("a source outside of its package")?;
                args[source] = copy.join(below).into();
            }
            Err(why) => {
                let Patched { without, page, .. } = patched;
                words::say(&format!("hafnon: {name} is compiled unpatched, so {without} ({page}): {why:#}"));
            }
        }
    }
    args.splice(0..0, env::var_os(THEIRS));
    let (program, args) = args.split_first().context("cargo names no compiler")?;
    Err(Command::new(program).args(args).exec()).with_context(|| format!("cannot start {}", program.display()))
}

/// The patched package in `folder` that rustc is to compile for this target, and the argument that is its source file.
fn wanted(args: &[OsString], folder: &Path) -> Option<(&'static Patched, usize)> {
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.to_str()
    };
    if value("--target") != Some(PROGRAM_TARGET) {
        return None;
    }
    let patched = PATCHES.iter().find(|patched| Some(patched.package) == value("--crate-name"))?;
    // Other copies (of a repository, or vendored) may have been changed already, and may change.
    let parts: Vec<&OsStr> = folder.iter().collect();
    parts.windows(2).any(|parts| parts == ["registry", "src"]).then_some(())?;
    let source = |arg: &OsString| {
        let path = Path::new(arg);
        path.extension() == Some(OsStr::new("rs")) && path.starts_with(folder)
    };
    Some((patched, args.iter().position(source)?))
}

/// The patched copy of the package in `folder`.
fn copy(all: &Path, patched: &Patched, folder: &Path, version: &str) -> Result<PathBuf> {
    let digest = digest(patched.patches.iter().chain([&("", &*folder.to_string_lossy())]));
    let to = all.join(format!("{}-{version}-{digest:016x}", patched.package));
    if to.is_dir() {
        return Ok(to);
    }
    fs::create_dir_all(all).with_context(|| format!("cannot make {}", all.display()))?;
    let new = tempfile::tempdir_in(all).with_context(|| format!("cannot make a folder in {}", all.display()))?;
    copy_folder(folder, new.path())?;
    for (name, text) in patched.patches {
        xtask_patch::apply(new.path(), text).map_err(anyhow::Error::msg).with_context(|| format!("patch {name}"))?;
    }
    // Another compiler may have been faster.
    match fs::rename(new.path(), &to) {
        Err(_) if to.is_dir() => {}
        result => result.with_context(|| format!("cannot make {}", to.display()))?,
    }
    Ok(to)
}

fn digest<'a>(texts: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> u64 {
    let mut hasher = DefaultHasher::new();
    texts.into_iter().for_each(|text| text.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "/home/x/.cargo/registry/src/index-1/mio-1.2.4";

    fn args(target: &str, name: &str, source: &str) -> Vec<OsString> {
        ["rustc", "--crate-name", name, "--edition=2021", source, "--target", target].map(OsString::from).to_vec()
    }

    #[test]
    fn only_a_package_of_the_registry_for_this_target_is_patched() {
        let source = format!("{FOLDER}/src/lib.rs");
        let found = |args: &[OsString], folder: &str| wanted(args, Path::new(folder)).map(|(_, source)| source);
        assert_eq!(found(&args(PROGRAM_TARGET, "mio", &source), FOLDER), Some(4));
        assert_eq!(found(&args("x86_64-unknown-linux-gnu", "mio", &source), FOLDER), None);
        assert_eq!(found(&args(PROGRAM_TARGET, "memchr", &source), FOLDER), None);
        assert_eq!(found(&args(PROGRAM_TARGET, "mio", "/own/mio/src/lib.rs"), "/own/mio"), None);
        assert_eq!(found(&args(PROGRAM_TARGET, "mio", "/other/lib.rs"), FOLDER), None);
        assert_eq!(found(&[], FOLDER), None);
        assert_eq!(found(&["--target".into()], FOLDER), None);
    }

    #[test]
    fn a_copy_is_made_once_and_an_unknown_version_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("p");
        fs::create_dir_all(package.join("src")).unwrap();
        fs::write(package.join("src/lib.rs"), "one\ntwo\n").unwrap();
        let text = "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
        let patched = |patches| Patched { package: "p", patches, without: "", page: "" };
        let all = folder.path().join("all");
        let good = patched(Box::leak(Box::new([("1", text)])));
        let made = copy(&all, &good, &package, "1.0.0").unwrap();
        assert_eq!(fs::read_to_string(made.join("src/lib.rs")).unwrap(), "one\n2\n");
        assert_eq!(fs::read_to_string(package.join("src/lib.rs")).unwrap(), "one\ntwo\n");
        assert_eq!(copy(&all, &good, &package, "1.0.0").unwrap(), made);
        // Twice is wrong: the second does not apply, and leaves nothing.
        let bad = patched(Box::leak(Box::new([("1", text), ("2", text)])));
        let why = format!("{:#}", copy(&all, &bad, &package, "1.0.0").unwrap_err());
        assert!(why.contains("patch 2") && why.contains("src/lib.rs"), "{why}");
        assert_eq!(fs::read_dir(&all).unwrap().count(), 1);
    }
}
