//! The BOOTFS image format: reader and writer.
//!
//! A BOOTFS image is the read-only file system that a system boots from. It holds one flat directory of full paths
//! (`bin/init`, `lib/ld.so.1`), then the contents of the files. Each file begins on a page boundary, so that a program
//! can map it in place.
//!
//! ```text
//! offset 0   u32 magic  u32 directory size  u32 0  u32 0
//! offset 16  directory: entries of { u32 name length with its NUL, u32 data length, u32 data offset, name }, each
//!            padded to 4 bytes
//! then       the files, each at a multiple of 4096
//! ```
//!
//! All numbers are little-endian. An image may be a slice or lie in a VMO, so reading takes two steps:
//! [`Header::parse`] returns the directory's length, and [`Directory::parse`] checks the directory's bytes once. In a
//! checked directory, all names are clean paths and every file lies inside the image. [`Bootfs`] does both steps for a
//! slice.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

mod directory;
#[cfg(feature = "std")]
mod writer;

pub use directory::{Child, Children, Directory, Entries, Entry};
#[cfg(feature = "std")]
pub use writer::{WriteError, Writer};

use core::fmt;

/// The first word of every image.
pub const MAGIC: u32 = 0xa56d_3ff9;

/// Size of the header in bytes; the directory follows it.
pub const HEADER_SIZE: usize = 16;

/// Alignment of files in the image, in bytes.
pub const PAGE_SIZE: u32 = 4096;

/// Limit on the directory's length in bytes, for readers that copy the directory.
pub const MAX_DIRECTORY_SIZE: u32 = 4 << 20;

/// Limit on a file's path in bytes, without its NUL.
pub const MAX_NAME: usize = 1023;

/// Why an image cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Shorter than a header, or than the directory that the header announces.
    Truncated,
    /// The first word is not [`MAGIC`].
    BadMagic,
    /// The directory is longer than [`MAX_DIRECTORY_SIZE`].
    DirectoryTooBig,
    /// An entry does not fit into the directory.
    BadEntry,
    /// A name is empty, too long, not UTF-8, without its NUL, or not a clean relative path.
    BadName,
    /// A file does not begin on a page.
    Unaligned,
    /// A file reaches beyond the end of the image.
    OutOfImage,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Truncated => "the image is truncated",
            Error::BadMagic => "not a BOOTFS image",
            Error::DirectoryTooBig => "the directory is too big",
            Error::BadEntry => "a directory entry does not fit into the directory",
            Error::BadName => "a file name is not a clean relative path",
            Error::Unaligned => "a file does not begin on a page",
            Error::OutOfImage => "a file reaches beyond the end of the image",
        })
    }
}

impl core::error::Error for Error {}

/// The header of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    directory_size: u32,
}

impl Header {
    /// Reads the header from the first [`HEADER_SIZE`] bytes of an image.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::BadMagic`], [`Error::DirectoryTooBig`].
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        if word(bytes, 0).ok_or(Error::Truncated)? != MAGIC {
            return Err(Error::BadMagic);
        }
        let directory_size = word(bytes, 4).ok_or(Error::Truncated)?;
        if bytes.len() < HEADER_SIZE {
            return Err(Error::Truncated);
        }
        if directory_size > MAX_DIRECTORY_SIZE {
            return Err(Error::DirectoryTooBig);
        }
        Ok(Header { directory_size })
    }

    /// Length in bytes of the directory, which begins at [`HEADER_SIZE`].
    pub fn directory_size(&self) -> usize {
        self.directory_size as usize
    }
}

/// A whole image in memory.
#[derive(Clone, Copy, Debug)]
pub struct Bootfs<'a> {
    image: &'a [u8],
    directory: Directory<'a>,
}

impl<'a> Bootfs<'a> {
    /// Checks the image's header and directory, but not the file contents.
    ///
    /// # Errors
    /// An [`Error`] that says what is wrong with the image.
    pub fn new(image: &'a [u8]) -> Result<Bootfs<'a>, Error> {
        let header = Header::parse(image)?;
        let end = HEADER_SIZE + header.directory_size();
        let directory = image.get(HEADER_SIZE..end).ok_or(Error::Truncated)?;
        Ok(Bootfs { image, directory: Directory::parse(directory, image.len() as u64)? })
    }

    /// The directory of the image.
    pub fn directory(&self) -> Directory<'a> {
        self.directory
    }

    /// The contents of the file with this full path (`bin/init`).
    pub fn read(&self, path: &str) -> Option<&'a [u8]> {
        self.directory.find(path).map(|entry| self.data(&entry))
    }

    /// The contents of a file. Empty if the entry belongs to a longer image and lies outside this one.
    pub fn data(&self, entry: &Entry<'_>) -> &'a [u8] {
        let start = entry.offset as usize;
        self.image.get(start..start.saturating_add(entry.size as usize)).unwrap_or(&[])
    }
}

/// The little-endian 32-bit word at byte `at`.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Whether a path is clean and relative: no component is empty, `.` or `..`, and it contains no NUL.
fn is_clean_path(path: &str) -> bool {
    path.len() <= MAX_NAME
        && !path.contains('\0')
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}
