//! Scripts and their expected output: the output of the host's `bash`, except for messages of this shell. The same
//! scripts run in the booted system (`./hafnon test shell`).

use std::path::Path;
use std::process::Command;

/// Runs a script with the shell; compares its output with the file next to it.
fn script(name: &str, arguments: &[&str], status: i32) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let shell = Path::new(env!("CARGO_BIN_EXE_sh"));
    // Scripts that start `sh` get this shell.
    let path = format!("{}:{}", shell.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(shell);
    command.arg(folder.join(name).with_extension("sh")).args(arguments).env("PATH", path);
    let output = command.output().unwrap();
    let expected = std::fs::read_to_string(folder.join(name).with_extension("out")).unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed == expected,
        "expected:\n{expected}\nprinted:\n{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(status));
}

#[test]
fn words() {
    script("words", &[], 0);
}

#[test]
fn flow() {
    script("flow", &[], 7);
}

#[test]
fn pipes() {
    let folder = std::env::temp_dir().join(format!("hafnon-shell-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    script("pipes", &[folder.to_str().unwrap()], 0);
    std::fs::remove_dir_all(folder).unwrap();
}
