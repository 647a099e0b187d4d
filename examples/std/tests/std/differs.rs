//! What is otherwise than on other systems, as the table's notes say.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{self, AssertUnwindSafe};
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

pub fn spawn_errors() {
    let status = |program: &str| Command::new(program).spawn().unwrap_err().raw_os_error();
    // ZX_ERR_NOT_FOUND, ZX_ERR_NOT_FILE, ZX_ERR_INVALID_ARGS, ZX_ERR_OUT_OF_RANGE
    assert_eq!(status("/no/such/program"), Some(-25));
    assert_eq!(status("no-such-program"), Some(-25));
    assert_eq!(status("/boot/bin"), Some(-52));
    assert_eq!(status("/boot/config/mode"), Some(-10));
    let huge = "x".repeat(4 << 20);
    assert_eq!(child("count").arg(huge).spawn().unwrap_err().raw_os_error(), Some(-14));
}
