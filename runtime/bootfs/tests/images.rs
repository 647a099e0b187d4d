//! The reader reads what the writer writes, and rejects malformed images without a panic.
use std::collections::BTreeMap;

use bootfs::{Bootfs, Directory, Error, HEADER_SIZE, Header, MAGIC, PAGE_SIZE, Writer};
use proptest::prelude::*;

fn image(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = Writer::new();
    for (name, data) in files {
        writer.add(name, *data).unwrap();
    }
    writer.to_bytes().unwrap()
}

fn entry(name: &[u8], size: u32, offset: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [name.len() as u32, size, offset] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(name);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let image = image(&[("bin/a", b"xyz")]);
    assert_eq!(image.len(), 8192);
    assert_eq!(image[..8], [0xf9, 0x3f, 0x6d, 0xa5, 20, 0, 0, 0]);
    assert_eq!(image[8..16], [0; 8]);
    assert_eq!(image[16..28], [6, 0, 0, 0, 3, 0, 0, 0, 0, 0x10, 0, 0]);
    assert_eq!(image[28..36], *b"bin/a\0\0\0");
    assert_eq!(image[4096..4100], *b"xyz\0");
}

#[test]
fn an_empty_image_is_an_image() {
    let image = image(&[]);
    let bootfs = Bootfs::new(&image).unwrap();
    assert_eq!(bootfs.directory().entries().count(), 0);
    assert!(bootfs.directory().is_dir(""));
    assert!(!bootfs.directory().is_dir("bin"));
}

#[test]
fn directories_are_common_prefixes_of_paths() {
    let image = image(&[("bin/sh", b"1"), ("bin/x/y", b"2"), ("bin/x/z", b"3"), ("bin-a", b""), ("lib/ld.so.1", b"4")]);
    let directory = Bootfs::new(&image).unwrap().directory();
    let names = |path| directory.children(path).map(|c| (c.name, c.file.is_some())).collect::<Vec<_>>();
    assert_eq!(names(""), [("bin-a", true), ("bin", false), ("lib", false)]);
    assert_eq!(names("bin"), [("sh", true), ("x", false)]);
    assert_eq!(names("bin/x"), [("y", true), ("z", true)]);
    assert_eq!(names("bin/sh"), []);
    assert!(directory.is_dir("bin/x") && !directory.is_dir("bin/sh") && !directory.is_dir("bi"));
    assert!(directory.find("bin/x").is_none() && directory.find("/bin/sh").is_none());
}

#[test]
fn children_of_an_unsorted_directory_come_once() {
    let bytes = [entry(b"a/1\0", 0, 0), entry(b"b/1\0", 0, 0), entry(b"a/2\0", 0, 0), entry(b"b/2\0", 0, 0)].concat();
    let directory = Directory::parse(&bytes, 0).unwrap();
    assert_eq!(directory.children("").map(|c| c.name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(directory.children("b").map(|c| c.name).collect::<Vec<_>>(), ["1", "2"]);
}

#[test]
fn the_writer_refuses_paths_that_form_no_tree() {
    let mut writer = Writer::new();
    for bad in ["", "/a", "a/", "a//b", ".", "a/../b", "a\0b", &"x".repeat(1024)] {
        assert!(writer.add(bad, *b"").is_err(), "{bad:?}");
    }
    writer.add("a/b", *b"").unwrap();
    assert!(writer.add("a/b", *b"").is_err());
    assert!(writer.add("a", *b"").is_err());
    assert!(writer.add("a/b/c", *b"").is_err());
    writer.add("a-b", *b"").unwrap();
}

#[test]
fn each_fault_has_its_name() {
    assert_eq!(Header::parse(&[]), Err(Error::Truncated));
    assert_eq!(Header::parse(&MAGIC.to_le_bytes()), Err(Error::Truncated));
    assert_eq!(Header::parse(&[0; HEADER_SIZE]), Err(Error::BadMagic));
    let mut header = [0; HEADER_SIZE];
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Header::parse(&header), Err(Error::DirectoryTooBig));
    header[4..8].copy_from_slice(&8u32.to_le_bytes());
    assert_eq!(Bootfs::new(&header).unwrap_err(), Error::Truncated);

    let parse = |bytes: &[u8]| Directory::parse(bytes, 0x3000).map(|_| ());
    assert_eq!(parse(&entry(b"a\0", 0x1000, 0x2000)), Ok(()));
    assert_eq!(parse(&entry(b"a\0", 0x1001, 0x2000)), Err(Error::OutOfImage));
    assert_eq!(parse(&entry(b"a\0", u32::MAX, 0xffff_f000)), Err(Error::OutOfImage));
    assert_eq!(parse(&entry(b"a\0", 1, 0x2001)), Err(Error::Unaligned));
    for name in [&b"\0"[..], b"ab", b"/a\0", b"a/../b\0", b"\xff\0", b"a\0b\0", &[0; 2000]] {
        assert_eq!(parse(&entry(name, 1, 0x1000)), Err(Error::BadName), "{name:?}");
    }
    assert_eq!(parse(&entry(b"abcdefgh\0", 1, 0x1000)[..16]), Err(Error::BadEntry));
    assert_eq!(parse(&[0; 11]), Err(Error::BadEntry));
}

proptest! {
    #[test]
    fn written_data_is_read(files in prop::collection::btree_map("[a-z]{1,3}/[a-z.]{1,5}x", prop::collection::vec(any::<u8>(), 0..9000), 0..20)) {
        let mut writer = Writer::new();
        // The order of adding must not matter.
        for (name, data) in files.iter().rev() {
            writer.add(name, data.clone()).unwrap();
        }
        let bytes = writer.to_bytes().unwrap();
        prop_assert_eq!(bytes.len() % PAGE_SIZE as usize, 0);
        let bootfs = Bootfs::new(&bytes).unwrap();
        let read: BTreeMap<_, _> = bootfs.directory().entries().map(|e| (e.name.to_string(), bootfs.data(&e).to_vec())).collect();
        prop_assert_eq!(&read, &files);
        for name in files.keys() {
            let (dir, last) = name.split_once('/').unwrap();
            prop_assert_eq!(bootfs.directory().children(dir).filter(|c| c.name == last && c.file.is_some()).count(), 1);
        }
    }

    #[test]
    fn corrupt_images_never_panic(damage in prop::collection::vec((0..200usize, any::<u8>()), 1..20), cut in 0..20000usize) {
        let mut bytes = image(&[("bin/init", &[1; 5000]), ("bin/sh", &[2; 10]), ("lib/ld.so.1", &[3; 4096])]);
        for (at, value) in damage {
            bytes[at] = value;
        }
        bytes.truncate(cut);
        if let Ok(bootfs) = Bootfs::new(&bytes) {
            for entry in bootfs.directory().entries() {
                prop_assert_eq!(bootfs.data(&entry).len(), entry.size as usize);
            }
            let _ = bootfs.directory().children("").chain(bootfs.directory().children("bin")).count();
        }
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..400), size in any::<u32>()) {
        if let Ok(directory) = Directory::parse(&noise, size.into()) {
            let _ = directory.entries().count();
        }
    }
}
