//! Names, and the encoding of directory entries in answers.

use alloc::vec::Vec;

use crate::{DATA_MAX, Error, Kind, NAME_MAX, Result};

/// A directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Type of the file.
    pub kind: Kind,
    /// Number in the tree (inode number).
    pub node: u64,
    /// Cookie with which a client requests the entries after this one.
    pub cookie: u64,
}

/// Size in bytes of an encoded entry before its name: node, cookie, type, length.
const HEAD: usize = 18;

/// Checks a new name: not empty, not too long, without slash and NUL, and neither `.` nor `..`.
///
/// # Errors
/// [`Error::TooLong`], [`Error::Invalid`].
pub fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Error::TooLong);
    }
    let bad = name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0);
    if bad { Err(Error::Invalid) } else { Ok(()) }
}

/// Appends an entry to an answer's data; returns false if there is no room.
pub fn push_entry(data: &mut Vec<u8>, entry: &Entry<'_>) -> bool {
    let Ok(len) = u8::try_from(entry.name.len()) else { return false };
    if data.len() + HEAD + entry.name.len() > DATA_MAX {
        return false;
    }
    data.extend_from_slice(&entry.node.to_le_bytes());
    data.extend_from_slice(&entry.cookie.to_le_bytes());
    data.push(match entry.kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Link => 2,
        Kind::Socket => 3,
    });
    data.push(len);
    data.extend_from_slice(entry.name);
    true
}

/// Decodes the entries of an answer's data; stops at the first invalid one.
pub fn entries(mut data: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    core::iter::from_fn(move || {
        let (head, rest) = data.split_first_chunk::<HEAD>()?;
        let number = |at: usize| head[at..at + 8].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let kind = match head[16] {
            0 => Kind::File,
            1 => Kind::Directory,
            2 => Kind::Link,
            3 => Kind::Socket,
            _ => return None,
        };
        let (name, rest) = rest.split_at_checked(usize::from(head[17]))?;
        data = rest;
        Some(Entry { name, kind, node: number(0)?, cookie: number(8)? })
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Answer, Request, decode, encode, transaction};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_and_back(names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..256), 0..30)) {
            let mut data = Vec::new();
            for (index, name) in (0..).zip(&names) {
                let entry = Entry { name, kind: Kind::Link, node: index, cookie: index + 1 };
                prop_assert!(push_entry(&mut data, &entry));
            }
            let back: Vec<_> = entries(&data).map(|entry| entry.name.to_vec()).collect();
            prop_assert_eq!(back, names);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode::<Request<'_>>(&bytes);
            let _ = decode::<Result<Answer>>(&bytes);
            let _ = entries(&bytes).count();
            let _ = transaction(&bytes);
        }

        #[test]
        fn requests_and_back(path in proptest::collection::vec(any::<u8>(), 0..100), data in proptest::collection::vec(any::<u8>(), 0..100)) {
            let request = Request::Open { path: &path, flags: 7, mode: 0o644 };
            let bytes = encode(9, &request, &data).unwrap();
            prop_assert_eq!(transaction(&bytes), Some(9));
            prop_assert_eq!(decode::<Request<'_>>(&bytes), Ok((request, data.as_slice())));
        }
    }

    #[test]
    fn a_directory_s_data_is_limited() {
        let mut data = Vec::new();
        let entry = Entry { name: &[b'x'; 255], kind: Kind::File, node: 1, cookie: 2 };
        while push_entry(&mut data, &entry) {}
        assert!(data.len() <= DATA_MAX && data.len() > DATA_MAX - 300);
    }

    #[test]
    fn names() {
        assert_eq!(check_name(b"a"), Ok(()));
        assert_eq!(check_name(&[b'x'; 256]), Err(Error::TooLong));
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert_eq!(check_name(bad), Err(Error::Invalid));
        }
    }
}
