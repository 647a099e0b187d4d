//! The initial file system: Debian's busybox, `guests/linux/init`, and the command.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cpio::newc::ModeFileType;

use super::Guest;
use super::archive::Archive;
use crate::paths::Paths;

/// The file that init runs.
const COMMAND: &str = "command";

/// Makes it; without a command, init starts a shell.
///
/// # Errors
/// A file cannot be read, or is too large.
pub fn made(paths: &Paths, busybox: &Path, guest: &Guest) -> Result<Vec<u8>> {
    let read = |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    let init = read(&paths.workspace.join("guests/linux/init"))?;
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "proc", "root", "sys", "tmp"] {
        archive.add(folder, ModeFileType::Directory, 0o755, &[])?;
    }
    archive.add("bin/busybox", ModeFileType::Regular, 0o755, &read(busybox)?)?;
    archive.add("bin/sh", ModeFileType::Symlink, 0o777, b"busybox")?;
    archive.add("init", ModeFileType::Regular, 0o755, &init)?;
    for (name, file) in &guest.programs {
        archive.add(&format!("bin/{name}"), ModeFileType::Regular, 0o755, &read(file)?)?;
    }
    if !guest.command.is_empty() {
        archive.add(COMMAND, ModeFileType::Regular, 0o644, script(&guest.command).as_bytes())?;
    }
    archive.finish()
}

/// A shell script that becomes a command.
fn script(command: &[String]) -> String {
    let words = command.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    format!("exec {}\n", words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_passed_word_by_word() {
        let words = ["sh", "-c", "echo \"it's $1\"; exit 5"].map(String::from);
        let output = std::process::Command::new("sh").args(["-c", &script(&words)]).output().expect("a shell");
        assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"it's \n"[..], Some(5)));
    }

    #[test]
    fn an_archive_has_a_command() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("guests/linux")).expect("a folder");
        fs::write(folder.path().join("guests/linux/init"), "init").expect("a file");
        fs::write(folder.path().join("busybox"), "program").expect("a file");
        let paths = Paths { workspace: folder.path().into(), out: folder.path().into() };
        let made = made(&paths, &folder.path().join("busybox"), &Guest::new(&["true"])).expect("an archive");
        let mut names = Vec::new();
        let mut left = made.as_slice();
        loop {
            let reader = cpio::newc::Reader::new(left).expect("an entry");
            let entry = reader.entry();
            if entry.is_trailer() {
                break;
            }
            names.push((entry.name().to_string(), entry.mode()));
            left = reader.finish().expect("the next");
        }
        assert!(names.contains(&("bin/sh".into(), 0o120_777)), "{names:?}");
        assert!(names.contains(&("command".into(), 0o100_644)), "{names:?}");
    }
}
