//! Path resolution: from a program's path to a place in its name space.
//!
//! A name space has a few entries: paths, each with a file system that another process serves. The part above and
//! beside the entries is this library's own and never changes: `/` and the directories that lead to entries, `/boot`
//! (the BOOTFS image), `/bin` (an alias of `/boot/bin`), and `/dev` with the devices that every program has. That part
//! has no symbolic links, so its paths can be resolved textually, provided that the path before each `..` is a
//! directory. From an entry on, the entry's file system resolves the rest.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use bootfs::{Directory, Entry};

/// Limit on a path in bytes, with its NUL.
pub const PATH_MAX: usize = 4096;

/// Why a path cannot be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The name does not exist.
    NotFound,
    /// A path component is not a directory.
    NotDirectory,
    /// Longer than [`PATH_MAX`].
    TooLong,
}

/// The devices below `/dev`, which every program has. Each discards what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Reads return end of file.
    Null,
    /// Reads return zeroes.
    Zero,
    /// Reads return random bytes.
    Random,
}

/// Names of the devices.
const DEVICES: [(&str, Device); 4] =
    [("null", Device::Null), ("zero", Device::Zero), ("random", Device::Random), ("urandom", Device::Random)];

/// The path in the boot image of a clean absolute path, if it is below `/boot` or `/bin`.
pub fn in_image(path: &str) -> Option<&str> {
    match path.strip_prefix("/bin") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Some(&path[1..]),
        _ => path.strip_prefix("/boot/"),
    }
}

/// A file or directory in this library's own part of the name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// `/`, `/dev`, or a directory that leads to entries.
    Above,
    /// A device below `/dev`.
    Device(Device),
    /// A directory of the image; empty for `/boot` itself.
    Directory(&'a str),
    /// A file of the image.
    File(Entry<'a>),
}

impl Node<'_> {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self, Node::Above | Node::Directory(_))
    }
}

/// A place in the name space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this library's own part: a clean absolute path, without a trailing slash except for `/` itself. It need not
    /// exist.
    Here(String),
    /// In the file system of an entry: the entry's index, and a path from its root.
    Entry(usize, Vec<u8>),
}

/// A name space.
pub struct Space<'a, 'e> {
    /// The boot image, if the process has one.
    pub image: Option<Directory<'a>>,
    /// The paths of the entries.
    pub entries: &'e [&'e str],
}

impl<'a> Space<'a, '_> {
    /// Resolves `path`; a relative path starts at the absolute directory `base`.
    ///
    /// # Errors
    /// [`PathError::NotFound`] for the empty path; the error of a path before a `..`; [`PathError::NotDirectory`] for a
    /// slash after a file.
    pub fn resolve(&self, base: &[u8], path: &[u8]) -> Result<Place, PathError> {
        if path.is_empty() {
            return Err(PathError::NotFound);
        }
        if path.len() >= PATH_MAX {
            return Err(PathError::TooLong);
        }
        let mut whole = Vec::new();
        if path[0] != b'/' {
            whole.extend_from_slice(base);
            whole.push(b'/');
        }
        whole.extend_from_slice(path);
        let mut clean = String::new();
        let mut at = 0;
        while at < whole.len() {
            let end = whole[at..].iter().position(|byte| *byte == b'/').map_or(whole.len(), |len| at + len);
            let part = &whole[at..end];
            at = end + 1;
            match part {
                b"" => continue,
                b"." => self.check_directory(&clean)?,
                b".." => {
                    self.check_directory(&clean)?;
                    clean.truncate(clean.rfind('/').unwrap_or(0));
                }
                name => {
                    clean.push('/');
                    // All names in this part are UTF-8.
                    clean.push_str(core::str::from_utf8(name).map_err(|_| PathError::NotFound)?);
                    if let Some(found) = self.entry(&clean, &whole[end..]) {
                        return Ok(found);
                    }
                }
            }
            if clean.len() >= PATH_MAX {
                return Err(PathError::TooLong);
            }
        }
        if path.ends_with(b"/") {
            // A path to a directory that does not exist yet can end with a slash too.
            match self.look_up(&clean) {
                Ok(node) if !node.is_directory() => return Err(PathError::NotDirectory),
                _ => {}
            }
        }
        if clean.is_empty() {
            clean.push('/');
        }
        Ok(Place::Here(clean))
    }

    /// The entry at the path `clean`, or a nested entry that the plain names at the start of `rest` lead to.
    fn entry(&self, clean: &str, rest: &[u8]) -> Option<Place> {
        let here = self.entries.iter().position(|entry| *entry == clean)?;
        let mut found = (here, rest);
        for (index, entry) in self.entries.iter().enumerate() {
            let Some(below) = entry.strip_prefix(clean).filter(|below| below.starts_with('/')) else { continue };
            let mut left = rest;
            let leads = below[1..].split('/').all(|name| {
                let begin = left.iter().position(|byte| *byte != b'/').unwrap_or(left.len());
                let end = left[begin..].iter().position(|byte| *byte == b'/').map_or(left.len(), |len| begin + len);
                let same = &left[begin..end] == name.as_bytes();
                left = &left[end..];
                same
            });
            if leads && left.len() < found.1.len() {
                found = (index, left);
            }
        }
        let begin = found.1.iter().position(|byte| *byte != b'/').unwrap_or(found.1.len());
        Some(Place::Entry(found.0, found.1[begin..].to_owned()))
    }

    fn check_directory(&self, path: &str) -> Result<(), PathError> {
        if self.look_up(path)?.is_directory() { Ok(()) } else { Err(PathError::NotDirectory) }
    }

    /// Looks up a clean absolute path in this library's own part of the name space.
    ///
    /// # Errors
    /// [`PathError::NotFound`]. [`PathError::NotDirectory`]: the path leads through a file.
    pub fn look_up<'p>(&self, path: &'p str) -> Result<Node<'p>, PathError>
    where
        'a: 'p,
    {
        if let "" | "/" | "/dev" = path {
            return Ok(Node::Above);
        }
        if let Some(below) = path.strip_prefix("/dev/") {
            let (name, rest) = below.split_once('/').map_or((below, None), |(name, rest)| (name, Some(rest)));
            if let Some((_, device)) = DEVICES.iter().find(|(other, _)| *other == name) {
                return if rest.is_none() { Ok(Node::Device(*device)) } else { Err(PathError::NotDirectory) };
            }
        }
        if self.entries.iter().any(|entry| entry.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))) {
            return Ok(Node::Above);
        }
        let image = self.image.ok_or(PathError::NotFound)?;
        if path == "/boot" {
            return Ok(Node::Directory(""));
        }
        let inside = in_image(path).ok_or(PathError::NotFound)?;
        if let Some(entry) = image.find(inside) {
            return Ok(Node::File(entry));
        }
        if image.is_dir(inside) {
            return Ok(Node::Directory(inside));
        }
        let through_file = inside.match_indices('/').any(|(at, _)| image.find(&inside[..at]).is_some());
        Err(if through_file { PathError::NotDirectory } else { PathError::NotFound })
    }

    /// The names in a directory of this library's own part that leads to entries, and whether each is a directory.
    pub fn names(&self, path: &str) -> Vec<(String, bool)> {
        let below = if path == "/" { "" } else { path };
        let mut names: Vec<(String, bool)> = Vec::new();
        match path {
            "/" => {
                let there = ["/bin", "/boot", "/dev"].into_iter().filter(|path| self.look_up(path).is_ok());
                names.extend(there.map(|path| (path[1..].to_owned(), true)));
            }
            "/dev" => names.extend(DEVICES.iter().map(|(name, _)| ((*name).to_owned(), false))),
            _ => {}
        }
        for entry in self.entries {
            let name = entry.strip_prefix(below).and_then(|rest| rest.strip_prefix('/')?.split('/').next());
            if let Some(name) = name
                && names.iter().all(|(other, _)| other != name)
            {
                names.push((name.to_owned(), true));
            }
        }
        names
    }
}

/// The parent directory of an absolute path.
pub fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}
