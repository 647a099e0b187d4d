//! The initial file system: Debian's busybox, and `guests/linux/init`. The launcher adds the command.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use cpio::newc::ModeFileType;

use super::Guest;
use super::archive::Archive;
use xtask_common::paths::Paths;

/// The folder of the host's files.
const HOST: &str = "host";

/// Makes it.
///
/// # Errors
/// A file cannot be read, or is too large.
pub fn made(paths: &Paths, busybox: &Path, guest: &Guest) -> Result<Vec<u8>> {
    with_init(&paths.workspace.join("guests/linux/init"), busybox, guest)
}

/// Makes it with another first program, for another kernel.
///
/// # Errors
/// As [`made`].
pub fn with_init(init: &Path, busybox: &Path, guest: &Guest) -> Result<Vec<u8>> {
    let read = |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    let init = read(init)?;
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "etc", "proc", "root", "sys", "tmp"] {
        archive.add(folder, ModeFileType::Directory, 0o755, &[])?;
    }
    archive.add("bin/busybox", ModeFileType::Regular, 0o755, &read(busybox)?)?;
    archive.add("bin/sh", ModeFileType::Symlink, 0o777, b"busybox")?;
    // The name servers of the network that gave the kernel its address.
    archive.add("etc/resolv.conf", ModeFileType::Symlink, 0o777, b"/proc/net/pnp")?;
    archive.add("init", ModeFileType::Regular, 0o755, &init)?;
    for (name, file) in &guest.programs {
        archive.add(&format!("bin/{name}"), ModeFileType::Regular, 0o755, &read(file)?)?;
    }
    if let Some(folder) = &guest.files {
        add_folder(&mut archive, folder, HOST).context("--files")?;
    }
    archive.finish()
}

/// Adds a folder with all that is in it; what is neither file, folder nor symbolic link is left out.
fn add_folder(archive: &mut Archive, folder: &Path, name: &str) -> Result<()> {
    let mode = |permissions: &fs::Permissions| permissions.mode() & 0o777;
    let about = |path: &Path| fs::symlink_metadata(path).with_context(|| format!("cannot read {}", path.display()));
    archive.add(
        name,
        ModeFileType::Directory,
        mode(&fs::metadata(folder).context("cannot read it")?.permissions()),
        &[],
    )?;
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        let (about, file) = (about(&path)?, path.file_name().unwrap_or_default());
        let file = file.to_str().with_context(|| format!("the name {} is no text", path.display()))?;
        let name = format!("{name}/{file}");
        if about.is_dir() {
            add_folder(archive, &path, &name)?;
        } else if about.is_file() {
            let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            archive.add(&name, ModeFileType::Regular, mode(&about.permissions()), &content)?;
        } else if about.is_symlink() {
            let target = fs::read_link(&path).with_context(|| format!("cannot read {}", path.display()))?;
            archive.add(&name, ModeFileType::Symlink, 0o777, target.as_os_str().as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_a_shell() {
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
        assert!(names.contains(&("init".into(), 0o100_755)), "{names:?}");
    }
}
