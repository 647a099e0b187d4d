//! Patches: changes to third-party sources, as `diff -u` writes them.

use std::fs;
use std::path::Path;

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
