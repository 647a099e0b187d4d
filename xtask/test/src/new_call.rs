//! `check.new-call`: follows the page on system calls in a copy of the tree. Its example becomes a call, the system is
//! built with it, and conformance cases make the call in the booted system.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::{Context, Test};
use crate::args::TestArgs;
use xtask_common::files::copy_folder;
use xtask_common::words::tail;

/// The page with the example.
const PAGE: &str = "docs/system-calls.md";
/// The prefixes of the example's cases, and some of the cases: one that the page adds, one of the sweep, one of the
/// table.
const GROUPS: [&str; 3] = ["conformance", "event.toggle.", "support.event_toggle"];
const CASES: [&str; 3] = ["event.toggle.twice", "event.toggle.wrong_type", "support.event_toggle"];
/// Build outputs that a new call does not change: the kernel and the C library's sources.
const KEPT: [&str; 2] = ["kernel", "musl"];

/// The test. It rebuilds the system, so it runs only with `--all` or by its exact name.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let wanted = args.all || args.filter.as_deref() == Some("check.new-call");
    if wanted { vec![Test::one("check.new-call", new_call)] } else { Vec::new() }
}

fn new_call(context: &Context<'_>) -> Result<()> {
    let (from, to) = (&context.paths.workspace, context.paths.out.join("new-call"));
    let page = fs::read_to_string(from.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let steps = steps(&page);
    ensure!(!steps.is_empty(), "{PAGE} has no example");
    if to.exists() {
        fs::remove_dir_all(&to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let (name, path) = (entry.file_name(), entry.path());
        match name.to_str() {
            Some("target" | ".git") => {}
            _ if path.is_dir() => copy_folder(&path, &to.join(&name))?,
            _ => drop(fs::copy(&path, to.join(&name)).with_context(|| format!("cannot copy {}", path.display()))?),
        }
    }
    for kept in KEPT {
        let place = context.paths.out.join(kept);
        if place.exists() {
            copy_folder(&place, &to.join("target/hafnon").join(kept))?;
        }
    }
    steps.iter().try_for_each(|step| step.take(&to))?;
    let mut command = Command::new(to.join("hafnon"));
    command.args(["--yes", "test", "-v"]).args(GROUPS).current_dir(&to);
    // Without this variable, the copy uses its own location as the tree.
    command.env_remove("HAFNON_ROOT");
    let output = command.output().context("cannot start the copy's ./hafnon")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let missing = CASES.iter().find(|case| !text.contains(&format!("ok      conformance: {case}\n")));
    if let Some(case) = missing.filter(|_| output.status.success()) {
        bail!("the case {case} did not run:\n{}", tail(&text, 20));
    }
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("the page's example does not work:\n{}\n{}", tail(&errors, 40), tail(&text, 20));
    }
    fs::remove_dir_all(&to).with_context(|| format!("cannot remove {}", to.display()))
}

/// Text that the page adds to a file.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    file: String,
    /// The line after which the text is inserted; none for the end of the file.
    behind: Option<String>,
    text: String,
}

impl Step {
    /// Adds the text to the file in this tree.
    fn take(&self, tree: &Path) -> Result<()> {
        let path = tree.join(&self.file);
        let mut text = fs::read_to_string(&path).with_context(|| format!("{PAGE} adds to {}", self.file))?;
        let at = match &self.behind {
            None => text.len(),
            Some(line) => {
                let whole = format!("\n{line}\n");
                let start = text.find(&whole).with_context(|| format!("{} has no line `{line}`", self.file))?;
                start + whole.len()
            }
        };
        let blank = if self.behind.is_none() { "\n" } else { "" };
        text.insert_str(at, &format!("{blank}{}", self.text));
        fs::write(&path, text).with_context(|| format!("cannot write {}", self.file))
    }
}

/// The steps of the example: code blocks whose first line names a file after the language, and possibly a line of that
/// file.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(head) = line.strip_prefix("```").and_then(|head| head.split_once(' ')) else { continue };
        let (file, behind) = head.1.split_once(" behind ").map_or((head.1, None), |(file, line)| (file, Some(line)));
        let text = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        steps.push(Step { file: file.to_owned(), behind: behind.map(str::to_owned), text });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_files_are_steps() {
        let page =
            "text\n```toml a/b.toml\nx = 1\n```\n```sh\nls\n```\n```rust c.rs behind cases! {\n    \"y\" => z,\n```\n";
        let first = Step { file: "a/b.toml".into(), behind: None, text: "x = 1\n".into() };
        let second = Step { file: "c.rs".into(), behind: Some("cases! {".into()), text: "    \"y\" => z,\n".into() };
        assert_eq!(steps(page), [first, second]);
    }

    #[test]
    fn a_step_adds_where_it_says() {
        let tree = tempfile::tempdir().expect("a folder");
        fs::write(tree.path().join("c.rs"), "a\ncases! {\n    b\n}\n").expect("a file");
        let step =
            |behind: Option<&str>| Step { file: "c.rs".into(), behind: behind.map(str::to_owned), text: "x\n".into() };
        step(Some("cases! {")).take(tree.path()).expect("there is such a line");
        step(None).take(tree.path()).expect("there is such a file");
        let text = fs::read_to_string(tree.path().join("c.rs")).expect("a file");
        assert_eq!(text, "a\ncases! {\nx\n    b\n}\n\nx\n");
        assert!(step(Some("nothing")).take(tree.path()).is_err());
    }
}
