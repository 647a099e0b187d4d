//! `hafnon cc`: clang for C programs of the system.
//!
//! Clang supports this target, so it only needs paths: the sysroot, and the folder with the runtime library
//! (`libclang_rt.builtins`), which it expects next to its own headers. Both are in a clang configuration file, so
//! `clang --config target/hafnon/sysroot/c.cfg` does the same as `hafnon cc`. Builds that want a compiler of one word
//! find it in `target/hafnon/sysroot/bin`, with the other tools. Build scripts under `hafnon cargo` get these paths
//! through variables.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{CLANG, TARGET};
use crate::BuildOptions;
use xtask_common::files::{copy_if_changed, write_if_changed};
use xtask_common::paths::Paths;
use xtask_common::programs::code;
use xtask_common::ui::Ui;

/// Libraries of other systems that C programs link with and that are part of `libc.so` here: empty archives.
const IN_LIBC: [&str; 6] = ["crypt", "dl", "m", "pthread", "rt", "util"];

/// Runs clang; returns its exit code.
///
/// # Errors
/// The system does not build, or clang cannot be started.
pub fn cc(paths: &Paths, args: &[OsString]) -> Result<u8> {
    crate::build(paths, &Ui::new(false), BuildOptions::default())?;
    Ok(code(clang(paths).args(args).status().context("cannot start clang")?))
}

/// Clang with its configuration.
pub fn clang(paths: &Paths) -> Command {
    let mut clang = Command::new(CLANG);
    clang.arg("--config").arg(config(paths));
    clang
}

/// Clang's configuration file.
fn config(paths: &Paths) -> PathBuf {
    paths.out.join("sysroot/c.cfg")
}

/// Writes the configuration, and puts clang's own headers and the runtime library into one folder.
///
/// # Errors
/// gcc or clang do not report where theirs are, or a file cannot be written.
pub fn install(paths: &Paths) -> Result<()> {
    let sysroot = paths.out.join("sysroot");
    let resources = sysroot.join("clang");
    let support = answer(Command::new("gcc").arg("-print-libgcc-file-name"))?;
    copy_if_changed(Path::new(&support), &resources.join("lib/fuchsia/libclang_rt.builtins-x86_64.a"))?;
    let headers = Path::new(&answer(Command::new(CLANG).arg("-print-resource-dir"))?).join("include");
    let link = resources.join("include");
    if fs::read_link(&link).ok().as_deref() != Some(&headers) {
        let _ = fs::remove_file(&link);
        symlink(&headers, &link).with_context(|| format!("cannot link {}", link.display()))?;
    }
    let config_text = format!(
        // File descriptors are in fdio, and an unmodified C program does not link it by itself.
        "# Made by the build.\n--target={TARGET}\n--sysroot={}\n-resource-dir={}\n--unwindlib=none\n\
         --start-no-unused-arguments\n-lfdio\n--end-no-unused-arguments\n",
        sysroot.display(),
        resources.display(),
    );
    write_if_changed(&config(paths), config_text.as_bytes())?;
    for library in IN_LIBC {
        write_if_changed(&paths.sysroot_lib().join(format!("lib{library}.a")), b"!<arch>\n")?;
    }
    let compiler = format!("{CLANG} --config '{}'", config(paths).display());
    tool(paths, "clang", &compiler)?;
    // The binary formats are those of the host.
    ["ar", "ranlib", "nm", "strip", "objcopy"].iter().try_for_each(|name| tool(paths, name, name))
}

/// Writes a script that runs `command`, under the name that cross builds expect.
fn tool(paths: &Paths, name: &str, command: &str) -> Result<()> {
    let path = program(paths, name);
    write_if_changed(&path, format!("#!/bin/sh\nexec {command} \"$@\"\n").as_bytes())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

/// The path of the tool `name` (`clang`, `ar`, …).
pub fn program(paths: &Paths, name: &str) -> PathBuf {
    paths.out.join("sysroot/bin").join(format!("{TARGET}-{name}"))
}

/// The variables that make builds under cargo (the crates `cc` and `cmake`) use these tools for C.
pub fn variables(paths: &Paths) -> [(String, PathBuf); 3] {
    let target = TARGET.replace('-', "_");
    [("CC", "clang"), ("AR", "ar"), ("RANLIB", "ranlib")]
        .map(|(variable, name)| (format!("{variable}_{target}"), program(paths, name)))
}

fn answer(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if !output.status.success() || text.is_empty() {
        bail!("{command:?} gives no answer: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}
