//! Paths: from what a program says to one clean absolute path, and what it names.
//!
//! The name space is small: `/`, `/boot` (the BOOTFS image), `/dev` with `null` in it. It has no symbolic links, so a path can be
//! cleaned up by looking at its text, as long as each `..` follows something that is a directory.

use alloc::string::String;

use bootfs::{Directory, Entry};

/// The longest path that is taken, in bytes, its NUL counted.
pub const PATH_MAX: usize = 4096;

/// Why a path names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// Nothing has this name.
    NotFound,
    /// Something that is not a directory is used as one.
    NotDirectory,
    /// Longer than [`PATH_MAX`].
    TooLong,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// `/`.
    Root,
    /// `/dev`.
    Dev,
    /// `/dev/null`.
    Null,
    /// A directory of the image; empty for `/boot` itself.
    Directory(&'a str),
    /// A file of the image.
    File(Entry<'a>),
}

impl Node<'_> {
    /// Whether it can have names below it.
    pub fn is_directory(&self) -> bool {
        matches!(self, Node::Root | Node::Dev | Node::Directory(_))
    }
}

/// Makes `path` absolute, seen from the directory `base` (itself clean and absolute), and takes out `.`, `..` and empty
/// components. The result has no slash at its end, but for `/` itself.
///
/// # Errors
/// [`PathError::NotFound`] for the empty path; what is wrong with a name before a `..`; [`PathError::NotDirectory`] for a
/// slash after a file.
pub fn resolve(image: Option<Directory<'_>>, base: &str, path: &str) -> Result<String, PathError> {
    if path.is_empty() {
        return Err(PathError::NotFound);
    }
    if path.len() >= PATH_MAX {
        return Err(PathError::TooLong);
    }
    let mut clean = String::new();
    if !path.starts_with('/') && base != "/" {
        clean.push_str(base);
    }
    for part in path.split('/') {
        match part {
            "" => continue,
            "." => check_directory(image, &clean)?,
            ".." => {
                check_directory(image, &clean)?;
                clean.truncate(clean.rfind('/').unwrap_or(0));
            }
            name => {
                clean.push('/');
                clean.push_str(name);
            }
        }
        if clean.len() >= PATH_MAX {
            return Err(PathError::TooLong);
        }
    }
    if path.ends_with('/') {
        // Something that is yet to be made may end so too.
        match look_up(image, &clean) {
            Ok(node) if !node.is_directory() => return Err(PathError::NotDirectory),
            _ => {}
        }
    }
    if clean.is_empty() {
        clean.push('/');
    }
    Ok(clean)
}

fn check_directory(image: Option<Directory<'_>>, path: &str) -> Result<(), PathError> {
    if look_up(image, path)?.is_directory() { Ok(()) } else { Err(PathError::NotDirectory) }
}

/// What a clean absolute path names.
///
/// # Errors
/// [`PathError::NotFound`], [`PathError::NotDirectory`] when the path goes through a file.
pub fn look_up<'a>(image: Option<Directory<'a>>, path: &'a str) -> Result<Node<'a>, PathError> {
    match path {
        "" | "/" => return Ok(Node::Root),
        "/dev" => return Ok(Node::Dev),
        "/dev/null" => return Ok(Node::Null),
        _ => {}
    }
    if path.starts_with("/dev/null/") {
        return Err(PathError::NotDirectory);
    }
    let image = image.ok_or(PathError::NotFound)?;
    if path == "/boot" {
        return Ok(Node::Directory(""));
    }
    let inside = path.strip_prefix("/boot/").ok_or(PathError::NotFound)?;
    if let Some(entry) = image.find(inside) {
        return Ok(Node::File(entry));
    }
    if image.is_dir(inside) {
        return Ok(Node::Directory(inside));
    }
    let through_file = inside.match_indices('/').any(|(at, _)| image.find(&inside[..at]).is_some());
    Err(if through_file { PathError::NotDirectory } else { PathError::NotFound })
}

/// The directory that a clean absolute path lies in.
pub fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}
