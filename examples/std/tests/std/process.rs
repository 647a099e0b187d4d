//! Child processes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;

use crate::roles::{child, end, output, text};

pub fn argument_zero() {
    use std::os::unix::process::CommandExt;
    let output = child("zero").arg0("another name").output().unwrap();
    assert_eq!(text(&output.stdout), "another name");
}

/// A program that was just written is started, and keeps running when its file changes.
pub fn a_copy() {
    let copy = std::env::temp_dir().join(format!("copy-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut command = std::process::Command::new(&copy);
    let mut child = command.env("CHILD", "lines").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::fs::remove_file(&copy).unwrap();
    child.stdin.take().unwrap().write_all(b"x\ny").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), r#""x\n" "y""#);
    assert!(std::process::Command::new(&copy).spawn().is_err());
}

pub fn environments() {
    let lines = |bytes: &[u8]| text(bytes).lines().map(str::to_owned).collect::<BTreeSet<String>>();
    let all = lines(&child("environment").env("A", "b=c").output().unwrap().stdout);
    assert!(all.contains("A=b=c") && all.contains("CHILD=environment"));
    let less = lines(&child("environment").env("A", "b").env_remove("A").output().unwrap().stdout);
    assert!(!less.iter().any(|line| line.starts_with("A=")));
    let cleared = lines(&child("x").env_clear().env("CHILD", "environment").env("EMPTY", "").output().unwrap().stdout);
    assert_eq!(cleared, BTreeSet::from(["CHILD=environment".to_string(), "EMPTY=".to_string()]));
}

pub fn bare_names() {
    let program = std::env::current_exe().unwrap();
    let (folder, name) = (program.parent().unwrap(), program.file_name().unwrap());
    let mut command = std::process::Command::new(name);
    let path = std::env::join_paths(["/no/such/folder".as_ref(), folder]).unwrap();
    let output = command.env("PATH", &path).env("CHILD", "speak").output().unwrap();
    assert_eq!(text(&output.stdout), "out");
    assert!(std::process::Command::new(name).env("PATH", "/no/such/folder").spawn().is_err());
}

pub fn many_arguments() {
    let long = "x".repeat(5000);
    let output = child("count").args(["a"; 3000]).arg(&long).output().unwrap();
    assert_eq!(text(&output.stdout), "3001 8000");
    let output = child("count").env("LONG", "y".repeat(40_000)).output().unwrap();
    assert_eq!(text(&output.stdout), "0 0");
}

pub fn too_many_arguments() {
    let huge = "x".repeat(4 << 20);
    assert!(child("count").arg(&huge).spawn().is_err());
    assert!(child("count").env("HUGE", &huge).spawn().is_err());
    assert_eq!(text(&output("count").stdout), "0 0");
}

pub fn stdio() {
    let said = output("inherit");
    assert_eq!((text(&said.stdout), text(&said.stderr)), ("out".into(), "err".into()));
    let status = child("speak").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    let input = File::open(std::env::current_exe().unwrap()).unwrap();
    let output = child("speak").stdin(input).output().unwrap();
    assert_eq!(text(&output.stdout), "out");
}

pub fn both_outputs() {
    let output = output("both");
    assert!(output.status.success());
    assert_eq!((output.stdout.len(), output.stderr.len()), (3 << 20, 3 << 20));
    assert!(output.stdout.iter().chain(&output.stderr).all(|byte| *byte == b'.'));
}

pub fn waiting() {
    let mut sleeper = child("sleep").stdout(Stdio::piped()).spawn().unwrap();
    assert!(sleeper.id() > 0);
    assert_eq!(sleeper.try_wait().unwrap(), None);
    let mut pipe = sleeper.stdout.take().unwrap();
    let reader = thread::spawn(move || pipe.read_to_end(&mut Vec::new()));
    sleeper.kill().unwrap();
    let status = sleeper.wait().unwrap();
    assert!(!status.success());
    assert_eq!((sleeper.try_wait().unwrap(), sleeper.wait().unwrap()), (Some(status), status));
    assert_eq!(reader.join().unwrap().unwrap(), 0);
    sleeper.kill().unwrap();
}

pub fn exit_codes() {
    let code = |code: i32| child("exit").arg(code.to_string()).status().unwrap().code().unwrap();
    for small in [0, 1, 7, 101, 255] {
        assert_eq!(code(small), small);
    }
    // On Unix only the low eight bits are passed on.
    for large in [256, 65536 + 3, i32::MAX, -1, i32::MIN] {
        let expected = if cfg!(target_os = "fuchsia") { large } else { large & 0xff };
        assert_eq!(code(large), expected);
    }
}

pub fn exit_in_a_thread() {
    let mut child = child("exit in a thread").stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(end(&mut child).code(), Some(9));
}

pub fn aborts() {
    let status = output("abort").status;
    assert!(!status.success() && status.code() != Some(0), "{status}");
}

pub fn own_id() {
    assert!(text(&output("id").stdout).parse::<u32>().unwrap() > 0);
}
