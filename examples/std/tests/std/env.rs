//! Arguments, environment, directories.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::roles::{child, text};

pub fn arguments() {
    let strange = OsString::from_vec(vec![0xff, 0xfe, b'x', b' ', 0x80]);
    let output = child("arguments").arg("").arg(&strange).arg("ü").output().unwrap();
    assert_eq!(output.stdout, b"\n\xff\xfex \x80\n\xc3\xbc\n");
}

pub fn executable() {
    let path = std::env::current_exe().unwrap();
    assert!(path.is_absolute() && std::fs::metadata(&path).unwrap().is_file());
}

pub fn places() {
    let output = child("places").env_remove("TMPDIR").env("HOME", "/somewhere").output().unwrap();
    assert_eq!(text(&output.stdout), r#""/tmp" Some("/somewhere")"#);
    let output = child("places").env("TMPDIR", "/elsewhere").output().unwrap();
    assert!(text(&output.stdout).starts_with(r#""/elsewhere""#));
}

/// It belongs to the whole process; no other test uses it.
pub fn working_directory() {
    let before = std::env::current_dir().unwrap();
    let folder = std::env::current_exe().unwrap().parent().unwrap().canonicalize().unwrap();
    std::env::set_current_dir(&folder).unwrap();
    assert_eq!(std::env::current_dir().unwrap(), folder);
    let output = child("directory").output().unwrap();
    assert_eq!(text(&output.stdout), folder.to_str().unwrap());
    std::env::set_current_dir(&before).unwrap();
    assert!(std::env::set_current_dir("/no/such/folder").is_err());
    assert_eq!(std::env::current_dir().unwrap(), before);
}
