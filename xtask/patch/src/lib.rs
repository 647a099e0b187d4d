//! Patches: changes to third-party sources, as `diff -u` writes them.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use xtask_common::files::copy_folder;

/// Applies a patch, which may change several files, to the files in `folder`. Text before the first file's part is a
/// comment. All lines of context must be there; they may have moved.
///
/// # Errors
/// Why it does not apply: the file, and what is wrong. Files of parts before that one have been changed.
pub fn apply(folder: &Path, text: &str) -> Result<(), String> {
    let mut rest = text;
    let mut files = 0;
    while let Some(start) = file_header(rest) {
        let body = &rest[start..];
        let end = file_header(&body[4..]).map_or(body.len(), |next| next + 4);
        let patch = diffy::Patch::from_str(&body[..end]).map_err(|error| error.to_string())?;
        let name = patch.original().and_then(|name| name.split_once('/')).map(|(_, name)| name);
        let name = name.ok_or("a part of it names no file")?;
        let file = folder.join(name);
        let old = fs::read_to_string(&file).map_err(|error| format!("cannot read {name}: {error}"))?;
        let new = diffy::apply(&old, &patch).map_err(|error| format!("{name}: {error}"))?;
        fs::write(&file, new).map_err(|error| format!("cannot write {name}: {error}"))?;
        rest = &body[end..];
        files += 1;
    }
    if files == 0 { Err("it changes no file".into()) } else { Ok(()) }
}

/// For the build script of a crate that consists of another crate's sources: copies the sources of `name`, which is
/// `NAME-VERSION`, from cargo's registry to `src` in the script's output folder, and applies the patches in the folder
/// `patches` of the package, in the order of their names. The other crate must be a dependency of the build script, so
/// that cargo has downloaded it.
///
/// # Errors
/// Cargo does not know the crate, a file cannot be written, or a patch does not apply: another version of the crate
/// needs another patch, or none.
pub fn copy_crate(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=patches");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let to = out.join("src");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    copy_folder(&sources(name)?.join("src"), &to)?;
    let mut patches = fs::read_dir("patches")?.collect::<Result<Vec<_>, _>>()?;
    patches.sort_by_key(|patch| number(&patch.file_name().to_string_lossy()));
    for patch in patches {
        let path = patch.path();
        apply(&out, &fs::read_to_string(&path)?).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    // Inner attributes and inner doc comments of the crate are not allowed in an included file.
    let root = to.join("lib.rs");
    let text = fs::read_to_string(&root)?;
    let kept = text.lines().filter(|line| !line.starts_with("//!") && !line.starts_with("#!["));
    fs::write(&root, kept.map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(())
}

/// The number at the beginning of a patch's name, which says when it is applied.
fn number(name: &str) -> Option<u32> {
    name.split_once('-').and_then(|(number, _)| number.parse().ok())
}

/// Finds the crate's sources in cargo's registry. Cargo answers only when it has all packages of the workspace for this
/// platform, and a build downloads fewer than those, so it may have to download the others now.
fn sources(name: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let (cargo, host) = (env::var("CARGO")?, env::var("HOST")?);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let manifest = text.split('"').find(|text| text.ends_with(&format!("/{name}/Cargo.toml")));
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent()).map(Path::to_path_buf);
    folder.ok_or_else(|| format!("cargo does not know {name}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Start of the part for the next file.
fn file_header(text: &str) -> Option<usize> {
    if text.starts_with("--- ") { Some(0) } else { text.find("\n--- ").map(|at| at + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str =
        "Why.\n\n--- a/one\n+++ b/one\n@@ -1,2 +1,3 @@\n x\n+y\n z\n--- a/two\n+++ b/two\n@@ -1 +1 @@\n-old\n+new\n";

    #[test]
    fn changes_all_its_files_where_their_lines_are() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("one"), "moved\nx\nz\n").unwrap();
        fs::write(folder.path().join("two"), "old\n").unwrap();
        apply(folder.path(), PATCH).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("one")).unwrap(), "moved\nx\ny\nz\n");
        assert_eq!(fs::read_to_string(folder.path().join("two")).unwrap(), "new\n");
    }

    #[test]
    fn other_lines_and_no_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("one"), "x\nz\n").unwrap();
        assert!(apply(folder.path(), PATCH).unwrap_err().contains("two"));
        fs::write(folder.path().join("one"), "x\nq\n").unwrap();
        assert!(apply(folder.path(), PATCH).unwrap_err().contains("one"));
        assert!(apply(folder.path(), "Why.\n").unwrap_err().contains("no file"));
    }
}
