//! For build scripts: the sources of a crate from cargo's registry, with patches.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The result of a build script.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// For the build script of a crate that consists of another crate's sources: copies the sources of `name`, which is
/// `NAME-VERSION`, from cargo's registry to `src` in the script's output folder, and applies the patches in the folder
/// `patches` of the package, in the order of their names. The other crate must be a dependency of the build script, so
/// that cargo has downloaded it.
///
/// # Errors
/// Cargo does not know the crate, a file cannot be written, or a patch does not apply: another version of the crate
/// needs another patch, or none.
pub fn copy(name: &str) -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=patches");
    let to = PathBuf::from(env::var("OUT_DIR")?).join("src");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    copy_folder(&sources(name)?.join("src"), &to)?;
    let mut patches = fs::read_dir("patches")?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    patches.sort();
    for patch in patches {
        apply(&fs::read_to_string(&patch)?, &to).map_err(|error| format!("{}: {error}", patch.display()))?;
    }
    // Inner attributes and inner doc comments of the crate are not allowed in an included file.
    let root = to.join("lib.rs");
    let text = fs::read_to_string(&root)?;
    let kept = text.lines().filter(|line| !line.starts_with("//!") && !line.starts_with("#!["));
    fs::write(&root, kept.map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(())
}

/// Finds the crate's sources in cargo's registry. Cargo answers only when it has all packages of the workspace for this
/// platform, and a build downloads fewer than those, so it may have to download the others now.
fn sources(name: &str) -> Result<PathBuf> {
    let (cargo, host) = (env::var("CARGO")?, env::var("HOST")?);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let manifest = text.split('"').find(|text| text.ends_with(&format!("/{name}/Cargo.toml")));
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent()).map(Path::to_path_buf);
    folder.ok_or_else(|| format!("cargo does not know {name}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &to)?;
        } else {
            fs::write(&to, fs::read(&path)?)?;
        }
    }
    Ok(())
}

/// Applies a patch to the file that it names.
fn apply(text: &str, folder: &Path) -> Result<()> {
    let start = text.find("--- a/src/").ok_or("it changes no file of the crate's")?;
    let patch = diffy::Patch::from_str(&text[start..])?;
    let name = patch.original().and_then(|name| name.strip_prefix("a/src/")).ok_or("it names no file")?;
    let path = folder.join(name);
    let patched = diffy::apply(&fs::read_to_string(&path)?, &patch)?;
    fs::write(&path, patched)?;
    Ok(())
}
