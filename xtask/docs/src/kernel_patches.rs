//! The table of docs/kernel-patches.md: how many lines each patch to seL4 adds and removes.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result, ensure};

use xtask_build::kernel;
use xtask_common::paths::Paths;

/// The page that has the table.
pub const PAGE: &str = "docs/kernel-patches.md";
const START: &str = "<!-- made: kernel-patches -->\n";
const END: &str = "<!-- end of what is made -->";

/// The page with an updated table.
///
/// # Errors
/// A patch or the page cannot be read, the page does not say where its table belongs, or it has no row for a patch.
pub fn page(paths: &Paths) -> Result<String> {
    let page = fs::read_to_string(paths.workspace.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let (before, rest) = page.split_once(START).with_context(|| format!("{PAGE} has no place for its table"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE}: its table has no end"))?;

    let mut table = String::from("| group | patch | adds | removes |\n|---|---|--:|--:|\n");
    let mut all = (0, 0);
    let patches = kernel::patches(&paths.workspace.join("kernel/patches"))?;
    for (path, text) in &patches {
        let group = path.parent().and_then(|folder| folder.file_name()).unwrap_or_default().display();
        let file = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = file.split_once('-').map_or(file, |(_, name)| name);
        ensure!(before.contains(&format!("| `{name}` |")), "{PAGE} has no row for the patch {}", path.display());
        let (added, removed) = lines(text);
        all = (all.0 + added, all.1 + removed);
        let _ = writeln!(table, "| {group} | `{name}` | {added} | {removed} |");
    }
    let _ = writeln!(table, "| | all {} | {} | {} |", patches.len(), all.0, all.1);
    Ok(format!("{before}{START}{table}{END}{after}"))
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
