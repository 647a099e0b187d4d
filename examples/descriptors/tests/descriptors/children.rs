//! Child processes: this program itself, in another role.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, ExitCode, Output, Stdio};
use std::thread;
use std::time::Duration;

/// The child's role, by name.
pub fn be(role: &str) -> ExitCode {
    match role {
        "code" => return ExitCode::from(7),
        "upper" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).unwrap();
            print!("{}", text.to_uppercase());
            eprint!("{} bytes", text.len());
        }
        "environment" => std::env::vars().for_each(|(key, value)| println!("{key}={value}")),
        "arguments" => std::env::args().skip(1).for_each(|argument| println!("[{argument}]")),
        "much" => std::io::stdout().write_all(&vec![b'x'; 1 << 20]).unwrap(),
        "sleep" => thread::sleep(Duration::from_secs(1000)),
        "panic" => panic!("as told"),
        "count" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).unwrap();
            print!("{}", bytes.len());
        }
        role if role.starts_with("socket-") => crate::sockets::be(role),
        other => panic!("no role {other}"),
    }
    ExitCode::SUCCESS
}

fn child(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("CHILD", role);
    command
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

pub fn exit_code() {
    assert_eq!(child("code").status().unwrap().code(), Some(7));
}

pub fn output_and_errors() {
    let output = output_of(b"hello pipes");
    assert_eq!(output.stdout, b"HELLO PIPES");
    assert_eq!(output.stderr, b"11 bytes");
    assert!(output.status.success());
}

fn output_of(input: &[u8]) -> Output {
    let mut child = child("upper").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

pub fn environment() {
    let text = output(child("environment").env("FLAVOUR", "sour")).stdout;
    assert!(String::from_utf8(text).unwrap().lines().any(|line| line == "FLAVOUR=sour"));
}

pub fn cleared_environment() {
    let text = output(child("environment").env_clear().env("CHILD", "environment").env("A", "b")).stdout;
    let mut lines: Vec<String> = String::from_utf8(text).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["A=b", "CHILD=environment"]);
}

pub fn arguments() {
    let text = output(child("arguments").args(["a", "", "b c", "ü"])).stdout;
    assert_eq!(String::from_utf8(text).unwrap(), "[a]\n[]\n[b c]\n[ü]\n");
}

pub fn much_output() {
    assert_eq!(output(&mut child("much")).stdout.len(), 1 << 20);
}

pub fn kill() {
    let mut child = child("sleep").spawn().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

pub fn null_input() {
    assert_eq!(output(child("count").stdin(Stdio::null())).stdout, b"0");
}

pub fn file_as_input() {
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    let size = file.metadata().unwrap().len();
    assert_eq!(String::from_utf8(output(child("count").stdin(file)).stdout).unwrap(), size.to_string());
}

pub fn panic_code() {
    let output = output(&mut child("panic"));
    assert_eq!(output.status.code(), Some(101));
    assert!(String::from_utf8_lossy(&output.stderr).contains("as told"));
}

pub fn missing_program() {
    assert!(Command::new("/no/such/program").spawn().is_err());
}

pub fn broken_pipe() {
    let mut child = child("code").stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    child.wait().unwrap();
    assert_eq!(input.write_all(&[0; 1 << 20]).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

/// Starting a child, successfully or not, leaves no descriptor open, however often it is repeated. (A system may keep
/// the numbers of descriptors that it gave to children reserved for a while.)
pub fn no_descriptor_stays() {
    use std::os::fd::AsRawFd;
    for _ in 0..150 {
        let mut missing = Command::new("/no/such/program");
        assert!(missing.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().is_err());
    }
    for _ in 0..10 {
        output(&mut child("code"));
    }
    assert!(File::open("/dev/null").unwrap().as_raw_fd() < 400);
}

/// One child's output is the next one's input.
pub fn pipeline() {
    let mut first = child("much").stdout(Stdio::piped()).spawn().unwrap();
    let second = output(child("count").stdin(first.stdout.take().unwrap()));
    assert!(first.wait().unwrap().success());
    assert_eq!(second.stdout, (1 << 20).to_string().as_bytes());
}

pub fn many_at_once() {
    let starters: Vec<_> = (0..8)
        .map(|number| {
            thread::spawn(move || {
                for round in 0..4 {
                    let text = format!("thread {number} round {round}");
                    let output = output_of(text.as_bytes());
                    assert_eq!(String::from_utf8(output.stdout).unwrap(), text.to_uppercase());
                }
            })
        })
        .collect();
    starters.into_iter().for_each(|starter| starter.join().unwrap());
}
