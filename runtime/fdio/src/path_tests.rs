//! Tests of path resolution.
use crate::path::{Device, Node, PathError, Place, Space, in_image, parent};
use bootfs::{Bootfs, Writer};
use proptest::prelude::*;

const ENTRIES: &[&str] = &["/tmp", "/home/me/work", "/home/me/work/deep/er"];

fn image() -> Vec<u8> {
    let mut writer = Writer::new();
    for name in ["bin/init", "bin/sh", "lib/ld.so.1", "config/env"] {
        writer.add(name, *b"x").unwrap();
    }
    writer.to_bytes().unwrap()
}

fn space(bytes: &[u8]) -> Space<'_, 'static> {
    Space { image: Some(Bootfs::new(bytes).unwrap().directory()), entries: ENTRIES }
}

fn here(path: &str) -> Result<Place, PathError> {
    Ok(Place::Here(path.to_owned()))
}

#[test]
fn paths_become_clean() {
    let bytes = image();
    let space = space(&bytes);
    let clean = |base: &str, path: &str| space.resolve(base.as_bytes(), path.as_bytes());
    assert_eq!(clean("/", "boot/bin/sh"), here("/boot/bin/sh"));
    assert_eq!(clean("/boot/bin", "../lib//./ld.so.1"), here("/boot/lib/ld.so.1"));
    assert_eq!(clean("/boot", "/../.."), here("/"));
    assert_eq!(clean("/boot", "."), here("/boot"));
    assert_eq!(clean("/boot", "bin/"), here("/boot/bin"));
    assert_eq!(clean("/", "boot/new"), here("/boot/new"));
    assert_eq!(clean("/", ""), Err(PathError::NotFound));
    assert_eq!(clean("/boot", "bin/sh/"), Err(PathError::NotDirectory));
    assert_eq!(clean("/boot", "bin/sh/.."), Err(PathError::NotDirectory));
    assert_eq!(clean("/boot", "nothing/../bin"), Err(PathError::NotFound));
    assert_eq!(clean("/", &"x/".repeat(3000)), Err(PathError::TooLong));
}

#[test]
fn paths_lead_into_entries() {
    let bytes = image();
    let space = space(&bytes);
    let to = |base: &str, path: &str| space.resolve(base.as_bytes(), path.as_bytes());
    let entry = |index, rest: &str| Ok(Place::Entry(index, rest.as_bytes().to_vec()));
    assert_eq!(to("/", "tmp"), entry(0, ""));
    assert_eq!(to("/", "tmp/"), entry(0, ""));
    assert_eq!(to("/boot", "../tmp//a/../b/"), entry(0, "a/../b/"));
    assert_eq!(to("/tmp/x", "y"), entry(0, "x/y"));
    assert_eq!(to("/", "tmpx"), here("/tmpx"));
    assert_eq!(to("/home", "me/work/a"), entry(1, "a"));
    assert_eq!(to("/home/me", "work/deep//er/a"), entry(2, "a"));
    assert_eq!(to("/", "home/me/work/deep/er"), entry(2, ""));
    assert_eq!(to("/", "home/me/work/deep/erx"), entry(1, "deep/erx"));
    assert_eq!(to("/", "home/me/.."), here("/home"));
    assert_eq!(space.look_up("/home/me"), Ok(Node::Above));
    assert_eq!(space.look_up("/home/you"), Err(PathError::NotFound));
    assert_eq!(space.names("/home"), [("me".to_owned(), true)]);
    let names: Vec<_> = space.names("/").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["bin", "boot", "dev", "tmp", "home"]);
    let devices = ["null", "zero", "random", "urandom"].map(|name| (name.to_owned(), false));
    assert_eq!(space.names("/dev"), devices);
    // A name that is not UTF-8 does not exist in this library's own part, but can exist in an entry's file system.
    assert_eq!(space.resolve(b"/", b"\xff"), Err(PathError::NotFound));
    assert_eq!(space.resolve(b"/tmp", b"\xff"), Ok(Place::Entry(0, b"\xff".to_vec())));
}

#[test]
fn names_are_found() {
    let bytes = image();
    let directory = Bootfs::new(&bytes).unwrap().directory();
    let space = space(&bytes);
    let find = |path| space.look_up(path);
    assert_eq!(find("/"), Ok(Node::Above));
    assert_eq!(find("/boot"), Ok(Node::Directory("")));
    assert_eq!(find("/boot/bin"), Ok(Node::Directory("bin")));
    assert_eq!(find("/boot/bin/sh"), Ok(Node::File(directory.find("bin/sh").unwrap())));
    assert_eq!(find("/dev/null"), Ok(Node::Device(Device::Null)));
    assert_eq!(find("/dev/zero"), Ok(Node::Device(Device::Zero)));
    assert_eq!((find("/dev/random"), find("/dev/urandom")), (find("/dev/urandom"), Ok(Node::Device(Device::Random))));
    assert_eq!(find("/dev/zero/x"), Err(PathError::NotDirectory));
    assert_eq!(find("/dev/full"), Err(PathError::NotFound));
    assert_eq!(find("/boot/bin/sh/x"), Err(PathError::NotDirectory));
    assert_eq!(find("/boot/bin/x"), Err(PathError::NotFound));
    // `/bin` is an alias of `/boot/bin`.
    assert_eq!(find("/bin"), Ok(Node::Directory("bin")));
    assert_eq!(find("/bin/sh"), find("/boot/bin/sh"));
    assert_eq!(find("/bin/sh/x"), Err(PathError::NotDirectory));
    assert_eq!((find("/binx"), find("/lib")), (Err(PathError::NotFound), Err(PathError::NotFound)));
    assert_eq!(
        (in_image("/bin/sh"), in_image("/boot/lib/x"), in_image("/boot")),
        (Some("bin/sh"), Some("lib/x"), None)
    );
    let nothing = Space { image: None, entries: &[] };
    assert_eq!(
        (nothing.look_up("/boot"), nothing.look_up("/bin")),
        (Err(PathError::NotFound), Err(PathError::NotFound))
    );
    assert_eq!(nothing.names("/"), [("dev".to_owned(), true)]);
    assert_eq!((parent("/boot/x"), parent("/boot"), parent("/")), ("/boot", "/", "/"));
}

proptest! {
    #[test]
    fn resolving_is_final(path in "[a-z./]{0,40}") {
        let bytes = image();
        let space = space(&bytes);
        if let Ok(Place::Here(clean)) = space.resolve(b"/boot", path.as_bytes()) {
            prop_assert!(clean.starts_with('/') && !clean.contains("//") && (clean == "/" || !clean.ends_with('/')));
            prop_assert_eq!(space.resolve(b"/", clean.as_bytes()), here(&clean));
        }
    }
}
