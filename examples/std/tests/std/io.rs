//! Streams, pipes, descriptors, random states.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use crate::roles::{child, output, text};

pub fn random_states_differ() {
    let own: HashSet<u64> = (0..100).map(|_| RandomState::new().hash_one("x")).collect();
    assert_eq!(own.len(), 100);
}

pub fn lines_of_input() {
    let mut child = child("lines").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for part in [&b"on"[..], b"e\ntw", b"o\n\nlast"] {
        input.write_all(part).unwrap();
    }
    drop(input);
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), r#""one\n" "two" "" "last""#);
}

pub fn lines_stay_whole() {
    let said = text(&output("threads").stdout);
    assert_eq!(said.lines().count(), 200);
    let whole = |line: &str| line.len() == 100 && line.bytes().all(|byte| byte == line.as_bytes()[0]);
    assert!(said.lines().all(whole));
}

pub fn no_terminals() {
    let output = child("terminals").stdin(Stdio::null()).output().unwrap();
    assert_eq!(text(&output.stdout), "false false false");
}

pub fn pipes() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let another = writer.try_clone().unwrap();
    writer.write_all(b"one ").unwrap();
    let mut child = child("speak").stdout(another).stderr(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    drop(writer);
    let mut all = String::new();
    reader.read_to_string(&mut all).unwrap();
    assert_eq!(all, "one out");
    let (reader, mut writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(writer.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

pub fn descriptors() {
    let (reader, writer) = std::io::pipe().unwrap();
    let owned: OwnedFd = writer.into();
    let mut again = std::fs::File::from(owned.try_clone().unwrap());
    let third = owned.as_fd().try_clone_to_owned().unwrap();
    again.write_all(b"through a copy").unwrap();
    drop((owned, again, third));
    let mut all = String::new();
    std::fs::File::from(OwnedFd::from(reader)).read_to_string(&mut all).unwrap();
    assert_eq!(all, "through a copy");
}
