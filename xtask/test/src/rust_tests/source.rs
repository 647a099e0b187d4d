//! The folder in which the tests are built: our manifests, and next to them the files of the component `rust-src`.

use std::path::{Path, PathBuf};
use std::{fs, str};

use anyhow::{Context, Result, bail};

use xtask_build::cargo::rustc;
use xtask_common::files::{copy_if_changed, write_if_changed};
use xtask_common::paths::Paths;

/// The parts of the component that are copied. The sources of `alloc` and `std` are not packages here: tests include
/// parts of them.
const PARTS: [&str; 5] = ["coretests", "alloctests", "alloc/src", "std/src", "std/tests"];

/// Cases that use internals of `std`, in files whose other cases do not: file and function. They are cut out.
const CUT: [(&str, &str); 4] = [
    ("std/src/fs/tests.rs", "dir_entry_debug"),
    ("std/src/io/buffered/tests.rs", "bufreader_full_initialize"),
    ("std/src/net/udp/tests.rs", "debug"),
    ("std/src/thread/tests.rs", "test_thread_os_id_not_equal"),
];

/// Creates the folder, or updates it where something differs; returns its path.
///
/// # Errors
/// The component is missing, or a file cannot be read or written.
pub fn lay_out(paths: &Paths) -> Result<PathBuf> {
    let output = rustc().args(["--print", "sysroot"]).output().context("cannot start rustc")?;
    let sysroot = str::from_utf8(&output.stdout).context("the toolchain's path is not UTF-8")?.trim();
    let library = Path::new(sysroot).join("lib/rustlib/src/rust/library");
    if !library.is_dir() {
        bail!("the toolchain lacks the component rust-src; `rustup component add rust-src` brings it");
    }
    let folder = paths.out.join("rust-tests");
    for part in PARTS {
        copy(&library.join(part), &folder.join(part), &|file| cut(&library, file))?;
    }
    copy(&paths.workspace.join("xtask/test/rust-tests"), &folder, &|_| Ok(None))?;
    Ok(folder)
}

/// Copies changed files of a folder and all below it, so that cargo rebuilds no more than necessary. `change` returns
/// the new content of a file that must be modified.
fn copy(from: &Path, to: &Path, change: &dyn Fn(&Path) -> Result<Option<String>>) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let to = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            copy(&entry.path(), &to, change)?;
        } else if let Some(text) = change(&entry.path())? {
            write_if_changed(&to, text.as_bytes())?;
        } else {
            copy_if_changed(&entry.path(), &to)?;
        }
    }
    Ok(())
}

/// A file of the component without the excluded cases; `None` if it has none.
fn cut(library: &Path, file: &Path) -> Result<Option<String>> {
    let Some((_, name)) = CUT.iter().find(|(path, _)| library.join(path) == file) else { return Ok(None) };
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let without = without(&text, name).with_context(|| format!("{} has no case {name}", file.display()))?;
    Ok(Some(without))
}

/// A source without the test function of this name, which is not inside another item.
fn without(text: &str, name: &str) -> Option<String> {
    let function = text.find(&format!("\nfn {name}("))?;
    let begin = text[..function].rfind("\n#[test]")?;
    let end = function + text[function..].find("\n}\n")? + "\n}".len();
    Some([&text[..begin], &text[end..]].concat())
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_function_is_cut_out() {
        let text = "use a;\n\n#[test]\nfn one() {\n    a();\n}\n\n#[test]\n#[cfg(x)]\nfn two() {\n    b();\n}\nend\n";
        assert_eq!(super::without(text, "two").unwrap(), "use a;\n\n#[test]\nfn one() {\n    a();\n}\n\nend\n");
        assert_eq!(super::without(text, "three"), None);
    }
}
