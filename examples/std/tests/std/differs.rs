//! Behaviour that differs from other systems, as the table's notes say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::roles::{child, text};

pub fn exec_panics() {
    let exec = || child("speak").exec();
    assert!(panic::catch_unwind(AssertUnwindSafe(exec)).is_err());
}

pub fn killed_has_no_signal() {
    let mut child = child("sleep").spawn().unwrap();
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(-1024), None));
}

pub fn current_dir_is_ignored() {
    let here = std::env::current_dir().unwrap();
    let output = child("directory").current_dir("/boot/lib").output().unwrap();
    assert_eq!(text(&output.stdout), here.to_str().unwrap());
}

/// The status of starting a program.
fn status(program: impl AsRef<Path>) -> Option<i32> {
    let error = Command::new(program.as_ref()).spawn().expect_err("it was started");
    assert_ne!(error.to_string(), "");
    error.raw_os_error()
}

/// An executable file with these bytes.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

pub fn spawn_errors() {
    // ZX_ERR_NOT_FOUND, ZX_ERR_NOT_FILE, ZX_ERR_OUT_OF_RANGE
    assert_eq!(status("/no/such/program"), Some(-25));
    assert_eq!(status("no-such-program"), Some(-25));
    let error = Command::new("no-such-program").spawn().unwrap_err();
    assert_eq!(error.to_string(), "ZX_ERR_NOT_FOUND (os error -25)");
    assert_eq!(status("/boot/bin"), Some(-52));
    let huge = "x".repeat(4 << 20);
    assert_eq!(child("count").arg(huge).spawn().unwrap_err().raw_os_error(), Some(-14));
}

pub fn spawn_of_bad_files() {
    // ZX_ERR_INVALID_ARGS
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(status(file("empty", b"")), Some(-10));
    assert_eq!(status(file("text", b"#!/bin/sh\necho no\n")), Some(-10));
    assert_eq!(status(file("truncated", &program[..8192])), Some(-10));
    let mut other = program.clone();
    other[18] = 183;
    assert_eq!(status(file("aarch64", &other)), Some(-10));
    // ZX_ERR_ACCESS_DENIED
    let forbidden = file("forbidden", &program);
    fs::set_permissions(&forbidden, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(status(forbidden), Some(-30));
}

pub fn spawn_without_a_library() {
    let mut program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let name = b"libfdio.so\0";
    let at = program.windows(name.len()).position(|part| part == name).unwrap();
    program[at..at + name.len()].copy_from_slice(b"libnone.so\0");
    // ZX_ERR_NOT_FOUND
    assert_eq!(status(file("lacking", &program)), Some(-25));
}
