//! The working directory.

use std::path::{Component, Path, PathBuf};

use crate::state::{Run, Shell, Variable, reason};

/// `cd`
pub fn cd(shell: &mut Shell, words: &[String]) -> Run {
    let back = words.get(1).is_some_and(|word| word == "-");
    let target = match words.get(1).map(String::as_str) {
        None => shell.get("HOME").unwrap_or("/").to_owned(),
        Some("-") => match shell.get("OLDPWD") {
            Some(before) => before.to_owned(),
            None => return shell.fail("cd", "there is no directory to go back to"),
        },
        Some(path) => path.to_owned(),
    };
    let path = clean(&shell.path(&target));
    match std::fs::metadata(&path) {
        Ok(data) if data.is_dir() => {}
        Ok(_) => return shell.fail("cd", &format!("{target}: this is no directory")),
        Err(error) => return shell.fail("cd", &format!("{target}: {}", reason(&error))),
    }
    let exported = |value: String| Variable { value: Some(value), exported: true, readonly: false };
    let before = shell.cwd.to_string_lossy().into_owned();
    shell.put("OLDPWD", exported(before));
    shell.put("PWD", exported(path.to_string_lossy().into_owned()));
    shell.cwd = path;
    if back { pwd(shell, &[]) } else { Ok(0) }
}

/// `pwd`
pub fn pwd(shell: &mut Shell, _words: &[String]) -> Run {
    shell.say(format!("{}\n", shell.cwd.display()))
}

/// A path without `.` and `..`.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => _ = clean.pop(),
            Component::Normal(name) => clean.push(name),
            _ => {}
        }
    }
    clean
}
