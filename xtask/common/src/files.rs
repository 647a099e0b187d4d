//! Writes files only when their content changes, so that nothing that depends on them is rebuilt without need.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes `bytes` to `path` unless the file already has this content. Returns whether it wrote.
///
/// # Errors
/// The file cannot be read or written; the error names it.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool> {
    match fs::read(path) {
        Ok(old) if old == bytes => return Ok(false),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
        _ => {}
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    // Not in place: a process that reads the old file meanwhile (QEMU, another invocation) keeps the whole old file.
    let mut new = path.to_path_buf().into_os_string();
    new.push(".new");
    fs::write(&new, bytes)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

/// Copies `from` to `to` unless they have the same content. Returns whether it wrote.
///
/// # Errors
/// As [`write_if_changed`].
pub fn copy_if_changed(from: &Path, to: &Path) -> Result<bool> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    write_if_changed(to, &bytes)
}

/// Copies a folder with everything below it.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let to = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}
