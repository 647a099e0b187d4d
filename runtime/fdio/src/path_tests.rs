//! Names and what they mean.
use crate::path::{Node, PathError, look_up, parent, resolve};
use bootfs::{Bootfs, Writer};
use proptest::prelude::*;

fn image() -> Vec<u8> {
    let mut writer = Writer::new();
    for name in ["bin/init", "bin/sh", "lib/ld.so.1", "config/env"] {
        writer.add(name, *b"x").unwrap();
    }
    writer.to_bytes().unwrap()
}

#[test]
fn paths_become_clean() {
    let bytes = image();
    let directory = Some(Bootfs::new(&bytes).unwrap().directory());
    let clean = |base: &str, path: &str| resolve(directory, base, path);
    assert_eq!(clean("/", "boot/bin/sh").unwrap(), "/boot/bin/sh");
    assert_eq!(clean("/boot/bin", "../lib//./ld.so.1").unwrap(), "/boot/lib/ld.so.1");
    assert_eq!(clean("/boot", "/../..").unwrap(), "/");
    assert_eq!(clean("/boot", ".").unwrap(), "/boot");
    assert_eq!(clean("/boot", "bin/").unwrap(), "/boot/bin");
    assert_eq!(clean("/", "boot/new").unwrap(), "/boot/new");
    assert_eq!(clean("/", ""), Err(PathError::NotFound));
    assert_eq!(clean("/boot", "bin/sh/"), Err(PathError::NotDirectory));
    assert_eq!(clean("/boot", "bin/sh/.."), Err(PathError::NotDirectory));
    assert_eq!(clean("/boot", "nothing/../bin"), Err(PathError::NotFound));
    assert_eq!(clean("/", &"x/".repeat(3000)), Err(PathError::TooLong));
}

#[test]
fn names_are_found() {
    let bytes = image();
    let directory = Bootfs::new(&bytes).unwrap().directory();
    let find = |path| look_up(Some(directory), path);
    assert_eq!(find("/"), Ok(Node::Root));
    assert_eq!(find("/boot"), Ok(Node::Directory("")));
    assert_eq!(find("/boot/bin"), Ok(Node::Directory("bin")));
    assert_eq!(find("/boot/bin/sh"), Ok(Node::File(directory.find("bin/sh").unwrap())));
    assert_eq!(find("/dev/null"), Ok(Node::Null));
    assert_eq!(find("/boot/bin/sh/x"), Err(PathError::NotDirectory));
    assert_eq!(find("/boot/bin/x"), Err(PathError::NotFound));
    assert_eq!(find("/bin"), Err(PathError::NotFound));
    assert_eq!(look_up(None, "/boot"), Err(PathError::NotFound));
    assert_eq!((parent("/boot/x"), parent("/boot"), parent("/")), ("/boot", "/", "/"));
}

proptest! {
    #[test]
    fn resolving_is_final(path in "[a-z./]{0,40}") {
        let bytes = image();
        let directory = Some(Bootfs::new(&bytes).unwrap().directory());
        if let Ok(clean) = resolve(directory, "/boot", &path) {
            prop_assert!(clean.starts_with('/') && !clean.contains("//") && (clean == "/" || !clean.ends_with('/')));
            prop_assert_eq!(resolve(directory, "/", &clean), Ok(clean.clone()));
        }
    }
}
