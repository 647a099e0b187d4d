//! The table of docs/kernel-patches.md: how many lines each patch to seL4 adds and removes.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use xtask_build::kernel;
use xtask_common::paths::Paths;

/// The table, for a page on which this text is before it.
///
/// # Errors
/// A patch cannot be read, or the text has no row for a patch.
pub fn part(paths: &Paths, before: &str) -> Result<String> {
    let mut table = String::from("| group | patch | adds | removes |\n|---|---|--:|--:|\n");
    let mut all = (0, 0);
    let patches = kernel::patches(&paths.workspace.join("kernel/patches"))?;
    for (path, text) in &patches {
        let group = path.parent().and_then(|folder| folder.file_name()).unwrap_or_default().display();
        let file = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = file.split_once('-').map_or(file, |(_, name)| name);
        ensure!(before.contains(&format!("| `{name}` |")), "the page has no row for the patch {}", path.display());
        let (added, removed) = lines(text);
        all = (all.0 + added, all.1 + removed);
        let _ = writeln!(table, "| {group} | `{name}` | {added} | {removed} |");
    }
    let _ = writeln!(table, "| | all {} | {} | {} |", patches.len(), all.0, all.1);
    Ok(table)
}

/// Number of lines that a patch adds and removes, including comments and blank lines.
fn lines(patch: &str) -> (usize, usize) {
    // The head may contain a list, whose lines look like removed ones.
    let changes = patch.find("\n--- ").map_or("", |at| &patch[at..]);
    let count = |sign: char, file: &str| {
        changes.lines().filter(|line| line.starts_with(sign) && !line.starts_with(file)).count()
    };
    (count('+', "+++ "), count('-', "--- "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_patch() {
        let patch = "Head\n\n- a list\n\n--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n same\n-old\n+new\n+\n+++i;\n--- a/g\n+++ b/g\n\
                     @@ -1 +0,0 @@\n-gone\n";
        assert_eq!(lines(patch), (3, 2));
        assert_eq!(lines("- no changes\n"), (0, 0));
    }
}
