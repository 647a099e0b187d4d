//! Directories, links and names.
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use files::Scratch;

fn names(path: &std::path::Path) -> BTreeSet<String> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn write_and_read() {
    let dir = Scratch::new();
    fs::write(dir.join("a"), "hello").unwrap();
    assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "hello");
    assert_eq!(fs::metadata(dir.join("a")).unwrap().len(), 5);
    fs::write(dir.join("a"), "x").unwrap();
    assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "x");
}

#[test]
fn directories() {
    let dir = Scratch::new();
    fs::create_dir_all(dir.join("a/b/c")).unwrap();
    fs::write(dir.join("a/x"), "").unwrap();
    assert_eq!(names(&dir.join("a")), BTreeSet::from(["b".to_owned(), "x".to_owned()]));
    assert_eq!(fs::create_dir(dir.join("a")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::create_dir(dir.join("n/m")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::create_dir(dir.join("a/x/y")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(fs::remove_dir(dir.join("a")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    assert_eq!(fs::remove_file(dir.join("a/b")).unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(fs::remove_dir(dir.join("a/x")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(fs::read(dir.join("a")).unwrap_err().kind(), ErrorKind::IsADirectory);
    fs::remove_dir_all(dir.join("a")).unwrap();
    assert_eq!(fs::metadata(dir.join("a")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn open_flags() {
    let dir = Scratch::new();
    let path = dir.join("f");
    assert_eq!(OpenOptions::new().write(true).open(&path).unwrap_err().kind(), ErrorKind::NotFound);
    File::create_new(&path).unwrap().write_all(b"abc").unwrap();
    assert_eq!(File::create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"def").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"abcdef");
    OpenOptions::new().write(true).open(&path).unwrap().write_all(b"X").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"Xbcdef");
    OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    let mut text = String::new();
    let only_writes = OpenOptions::new().write(true).open(&path).unwrap().read_to_string(&mut text);
    assert!(only_writes.is_err());
    assert!(File::open(&path).unwrap().write(b"x").is_err());
}

#[test]
fn links() {
    let dir = Scratch::new();
    fs::write(dir.join("f"), "one").unwrap();
    fs::hard_link(dir.join("f"), dir.join("g")).unwrap();
    assert_eq!(fs::metadata(dir.join("f")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(dir.join("f")).unwrap().ino(), fs::metadata(dir.join("g")).unwrap().ino());
    fs::remove_file(dir.join("f")).unwrap();
    assert_eq!(fs::read_to_string(dir.join("g")).unwrap(), "one");
    symlink("g", dir.join("s")).unwrap();
    symlink(dir.join("g"), dir.join("t")).unwrap();
    assert_eq!(fs::read_to_string(dir.join("s")).unwrap(), "one");
    assert_eq!(fs::read_to_string(dir.join("t")).unwrap(), "one");
    assert_eq!(fs::read_link(dir.join("s")).unwrap().to_str(), Some("g"));
    assert!(fs::symlink_metadata(dir.join("s")).unwrap().file_type().is_symlink());
    assert_eq!(fs::canonicalize(dir.join("t")).unwrap(), fs::canonicalize(dir.join("g")).unwrap());
    symlink("loop", dir.join("loop")).unwrap();
    assert!(fs::read(dir.join("loop")).is_err());
    symlink("nothing", dir.join("dangling")).unwrap();
    assert_eq!(fs::metadata(dir.join("dangling")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!dir.join("dangling").exists());
    // Writing through the link creates the target.
    fs::write(dir.join("dangling"), "now").unwrap();
    assert_eq!(fs::read_to_string(dir.join("nothing")).unwrap(), "now");
    fs::create_dir(dir.join("d")).unwrap();
    fs::write(dir.join("d/in"), "in").unwrap();
    symlink("d", dir.join("dl")).unwrap();
    assert_eq!(fs::read_to_string(dir.join("dl/in")).unwrap(), "in");
    assert_eq!(fs::read_to_string(dir.join("dl/../g")).unwrap(), "one");
    fs::remove_dir_all(dir.join("d")).unwrap();
}

#[test]
fn rename() {
    let dir = Scratch::new();
    fs::write(dir.join("a"), "a").unwrap();
    fs::write(dir.join("b"), "b").unwrap();
    fs::rename(dir.join("a"), dir.join("b")).unwrap();
    assert_eq!(fs::read_to_string(dir.join("b")).unwrap(), "a");
    assert!(!dir.join("a").exists());
    fs::create_dir_all(dir.join("d/e")).unwrap();
    fs::create_dir(dir.join("empty")).unwrap();
    assert_eq!(fs::rename(dir.join("empty"), dir.join("d")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::rename(dir.join("d"), dir.join("empty")).unwrap();
    assert!(dir.join("empty/e").is_dir());
    assert!(fs::rename(dir.join("empty"), dir.join("empty/e/x")).is_err());
    assert_eq!(fs::rename(dir.join("b"), dir.join("empty")).unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(fs::rename(dir.join("empty"), dir.join("b")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(fs::rename(dir.join("none"), dir.join("x")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn permissions_and_times() {
    let dir = Scratch::new();
    let path = dir.join("f");
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(1);
    fs::write(&path, "x").unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert!(meta.modified().unwrap() >= before);
    assert_eq!(meta.permissions().mode() & 0o777, 0o644);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(fs::metadata(&path).unwrap().permissions().readonly());
    let then = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000, 5);
    File::open(&path).unwrap().set_modified(then).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), then);
}

#[test]
fn removed_while_open() {
    let dir = Scratch::new();
    let path = dir.join("f");
    fs::write(&path, "still here").unwrap();
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    file.write_all(b"!").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 11);
    assert_eq!(file.metadata().unwrap().nlink(), 0);
}

#[test]
fn long_names() {
    let dir = Scratch::new();
    let name = "n".repeat(255);
    fs::write(dir.join(&name), "").unwrap();
    assert!(names(dir.path()).contains(&name));
    assert!(fs::write(dir.join(format!("{name}x")), "").is_err());
    assert!(fs::write(dir.join("x/".repeat(2100)), "").is_err());
}
