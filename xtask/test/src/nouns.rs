//! `check.nouns`: what depends on the type of an object stands with the noun.
//!
//! The compiler lets no file but the list of nouns match over the variants of `Body`, because their type is private.
//! This check looks for the other ways to such a match: that type outside of its file, and the numbers of the types
//! (`ZX_OBJ_TYPE_*`) outside of the definition of each noun. Comments and tests do not count.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::{Context, architecture};
use xtask_build::cargo;

/// The folders whose code handles objects.
const FOLDERS: [&str; 2] = ["objects/src/", "server/src/"];
/// The list of nouns, and the private type of its variants.
const LIST: &str = "objects/src/kernel/nouns.rs";
const VARIANTS: &str = "AnyNoun";
/// Beginnings of the types' numbers, and numbers that name no type.
const NUMBERS: [&str; 2] = ["ZX_OBJ_TYPE_", "HAFNON_OBJ_TYPE_"];
const NO_TYPES: [&str; 2] = ["ZX_OBJ_TYPE_NONE", "ZX_OBJ_TYPE_UPPER_BOUND"];
/// How a noun states its number.
const STATEMENT: &str = "const TYPE: u32 = abi::";

/// Fails if a file other than a noun's own treats objects of a type specially by its number.
///
/// # Errors
/// There is such a file, or a source cannot be read.
pub fn check(context: &Context<'_>) -> Result<()> {
    let wrong = tree(&context.paths.workspace)?;
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// Faults, one per line.
fn tree(workspace: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for path in cargo::sources(workspace)? {
        let short = path.strip_prefix(workspace).unwrap_or(&path).to_string_lossy().into_owned();
        if !FOLDERS.iter().any(|folder| short.starts_with(folder))
            || !short.ends_with(".rs")
            || architecture::is_test(&short)
        {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for (line, code) in architecture::code_lines(&text, true) {
            let mut words = code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let word = words.find(|word| {
                let number = NUMBERS.iter().any(|number| word.starts_with(number)) && !NO_TYPES.contains(word);
                number && !code.trim().starts_with(STATEMENT) || *word == VARIANTS && short != LIST
            });
            if let Some(word) = word {
                wrong.push(format!("{short}:{line}: `{word}`: say it in the noun's `Noun` or `ObjectOps`"));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        tree(folder.path()).unwrap()
    }

    #[test]
    fn a_match_over_types_is_found() {
        for (path, text) in [
            ("objects/src/core/x.rs", "fn f(t: u32) -> bool {\n    t == abi::ZX_OBJ_TYPE_JOB\n}\n"),
            ("server/src/syscalls/x.rs", "fn f(t: u32) -> bool {\n    matches!(t, HAFNON_OBJ_TYPE_VPROC)\n}\n"),
            ("objects/src/kernel/x.rs", "fn f(body: &Body) {\n    match body.0 { AnyNoun::Job(_) => {} }\n}\n"),
        ] {
            let found = faults(path, text);
            assert!(found.len() == 1 && found[0].starts_with(&format!("{path}:2: ")), "{path}: {found:?}");
        }
    }

    #[test]
    fn others_are_left_alone() {
        for (path, text) in [
            ("objects/src/task/job.rs", "impl Noun for Job {\n    const TYPE: u32 = abi::ZX_OBJ_TYPE_JOB;\n}\n"),
            ("objects/src/kernel/nouns.rs", "enum AnyNoun {}\n"),
            ("objects/src/core/x.rs", "/// `ZX_OBJ_TYPE_JOB`.\nfn f() -> usize { ZX_OBJ_TYPE_UPPER_BOUND }\n"),
            ("objects/src/core/x.rs", "#[cfg(test)]\nmod tests {\n    fn f() { g(abi::ZX_OBJ_TYPE_JOB) }\n}\n"),
            ("server/tests/x.rs", "fn f() { g(abi::ZX_OBJ_TYPE_JOB) }\n"),
            ("services/x/src/x.rs", "fn f() { g(abi::ZX_OBJ_TYPE_JOB) }\n"),
        ] {
            assert_eq!(faults(path, text), Vec::<String>::new(), "{path}: {text}");
        }
    }
}
