//! Copies the sources of `rsext4` and applies the patches in `patches/`, in the order of their names. A patch that does not fit is an
//! error: another version of the crate needs another patch, or none.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The crate, as cargo names its folder.
const CRATE: &str = "rsext4-0.9.2";

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=patches");
    let to = PathBuf::from(env::var("OUT_DIR")?).join("src");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    copy(&sources()?.join("src"), &to)?;
    let mut patches = fs::read_dir("patches")?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    patches.sort();
    for patch in patches {
        apply(&fs::read_to_string(&patch)?, &to).map_err(|error| format!("{}: {error}", patch.display()))?;
    }
    // As a part of another file it may not begin with words about the whole crate.
    let root = to.join("lib.rs");
    let text = fs::read_to_string(&root)?;
    let kept = text.lines().filter(|line| !line.starts_with("//!") && !line.starts_with("#!["));
    fs::write(&root, kept.map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(())
}

/// Where cargo has put the crate.
fn sources() -> Result<PathBuf> {
    let cargo = env::var("CARGO")?;
    let output = Command::new(cargo).args(["metadata", "--format-version", "1", "--locked", "--offline"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let manifest = text.split('"').find(|text| text.ends_with(&format!("{CRATE}/Cargo.toml")));
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent()).map(Path::to_path_buf);
    folder.ok_or_else(|| format!("cargo does not know {CRATE}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, to) = (entry.as_ref().map(fs::DirEntry::path), to);
        let path = path.map_err(ToString::to_string)?;
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &to)?;
        } else {
            fs::write(&to, fs::read(&path)?)?;
        }
    }
    Ok(())
}

/// Applies a patch in the unified format. The lines that a part of it changes are found by themselves, and must be there once.
fn apply(patch: &str, folder: &Path) -> Result<()> {
    let mut file: Option<(PathBuf, String)> = None;
    let (mut old, mut new) = (String::new(), String::new());
    for line in patch.lines().chain(["@@"]) {
        if line.starts_with("@@") || line.starts_with("--- ") {
            if let Some((path, text)) = file.as_mut().filter(|_| !old.is_empty()) {
                if text.matches(&old).count() != 1 {
                    return Err(format!("{} has not what is changed, once:\n{old}", path.display()).into());
                }
                *text = text.replace(&old, &new);
                fs::write(path, text)?;
            }
            (old, new) = (String::new(), String::new());
        } else if let Some(name) = line.strip_prefix("+++ b/src/") {
            let path = folder.join(name);
            let text = fs::read_to_string(&path)?;
            file = Some((path, text));
        } else if let Some(rest) = line.strip_prefix('-') {
            old.push_str(&format!("{rest}\n"));
        } else if let Some(rest) = line.strip_prefix('+') {
            new.push_str(&format!("{rest}\n"));
        } else if file.is_some() && (line.starts_with(' ') || line.is_empty()) {
            let rest = line.strip_prefix(' ').unwrap_or(line);
            old.push_str(&format!("{rest}\n"));
            new.push_str(&format!("{rest}\n"));
        }
    }
    Ok(())
}
