//! Files and names.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

pub fn null() {
    let mut file = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    assert_eq!(file.read(&mut [0; 4]).unwrap(), 0);
    assert_eq!(file.write(b"gone").unwrap(), 4);
}

pub fn directories_are_no_files() {
    assert!(fs::metadata("/").unwrap().is_dir());
    assert_eq!(fs::read("/").unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(fs::read("/dev/null/x").unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(fs::read_dir("/dev/null").unwrap_err().kind(), ErrorKind::NotADirectory);
    assert!(fs::read_dir("/dev").unwrap().any(|entry| entry.unwrap().file_name() == "null"));
}

pub fn missing() {
    for name in ["/nothing", "/nothing/below", ""] {
        assert_eq!(File::open(name).unwrap_err().kind(), ErrorKind::NotFound, "{name:?}");
    }
    assert!(!fs::exists("/nothing").unwrap());
    assert_eq!(fs::remove_file("/nothing").unwrap_err().kind(), ErrorKind::NotFound);
}

pub fn canonical_paths() {
    assert_eq!(fs::canonicalize("/dev/.././/dev/null").unwrap(), Path::new("/dev/null"));
    assert_eq!(fs::canonicalize("/../..").unwrap(), Path::new("/"));
    assert_eq!(fs::canonicalize("/nothing/..").unwrap_err().kind(), ErrorKind::NotFound);
}

#[cfg(target_os = "fuchsia")]
pub use boot::*;

/// The boot file system.
#[cfg(target_os = "fuchsia")]
mod boot {
    use std::fs::{self, File};
    use std::io::{ErrorKind, Read, Seek, SeekFrom};
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    const FILE: &str = "/boot/lib/ld.so.1";

    pub fn reads() {
        let bytes = fs::read(FILE).unwrap();
        assert_eq!(bytes[..4], *b"\x7fELF");
        assert_eq!(bytes, fs::read("/boot/lib/libc.so").unwrap());
        let mut part = [0; 3];
        let file = File::open(FILE).unwrap();
        file.read_exact_at(&mut part, 1).unwrap();
        assert_eq!(&part, b"ELF");
        assert_eq!(file.read_at(&mut part, 1 << 40).unwrap(), 0);
    }

    pub fn seeks() {
        let mut file = File::open(FILE).unwrap();
        let mut part = [0; 3];
        file.seek(SeekFrom::Start(1)).unwrap();
        file.read_exact(&mut part).unwrap();
        assert_eq!((&part, file.stream_position().unwrap()), (b"ELF", 4));
        let end = file.seek(SeekFrom::End(0)).unwrap();
        assert_eq!(end, file.metadata().unwrap().len());
        assert_eq!(file.read(&mut part).unwrap(), 0);
        assert!(file.seek(SeekFrom::Current(i64::MIN)).is_err());
        assert_eq!(file.stream_position().unwrap(), end);
    }

    pub fn metadata() {
        let file = fs::metadata(FILE).unwrap();
        assert!(file.is_file() && file.permissions().readonly() && file.len() > 1000);
        assert!(fs::metadata("/boot/lib").unwrap().is_dir());
        assert!(fs::symlink_metadata("/boot").unwrap().is_dir());
    }

    pub fn lists() {
        let names = |path| {
            let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
            let mut names: Vec<_> = entries.map(|e| (e.file_name(), e.file_type().unwrap().is_dir())).collect();
            names.sort();
            names
        };
        assert!(names("/").contains(&("boot".into(), true)));
        assert!(names("/boot").contains(&("bin".into(), true)));
        assert!(names("/boot/lib").contains(&("ld.so.1".into(), false)));
    }

    pub fn nothing_can_be_changed() {
        let refused =
            |result: std::io::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        refused(fs::write("/boot/new", "x"));
        refused(fs::write(FILE, "x"));
        refused(fs::create_dir("/boot/new"));
        refused(fs::remove_file(FILE));
        refused(fs::rename(FILE, "/boot/new"));
        refused(File::open(FILE).unwrap().set_permissions(fs::metadata(FILE).unwrap().permissions()));
        assert_eq!(fs::create_dir("/boot/bin").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::write("/boot/no/new", "x").unwrap_err().kind(), ErrorKind::NotFound);
    }

    pub fn working_directory() {
        std::env::set_current_dir("/boot/lib").unwrap();
        assert_eq!(std::env::current_dir().unwrap(), Path::new("/boot/lib"));
        assert!(File::open("ld.so.1").is_ok() && File::open("../lib/ld.so.1").is_ok());
        assert!(std::env::set_current_dir("ld.so.1").is_err());
        std::env::set_current_dir("/").unwrap();
    }

    pub fn many_open() {
        let files: Vec<File> = (0..2000).map(|_| File::open(FILE).unwrap()).collect();
        assert_eq!(files.len(), 2000);
    }
}
