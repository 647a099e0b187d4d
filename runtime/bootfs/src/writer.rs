//! Builds images. The same files give the same bytes, regardless of the order in which they are added.

use std::collections::{BTreeMap, HashMap};
use std::string::{String, ToString};
use std::sync::Arc;
use std::vec::Vec;
use std::{fmt, io};

use crate::{HEADER_SIZE, MAGIC, MAX_DIRECTORY_SIZE, PAGE_SIZE, is_clean_path};

/// Why an image cannot be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// Not a clean relative path (`bin/sh`), or too long.
    BadName(String),
    /// The path is already in use, or one path is both a file and a directory.
    Duplicate(String),
    /// The image would exceed 4 GiB, or its directory would exceed the limit of readers.
    TooBig,
    /// The output could not be written.
    Io(io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::BadName(name) => write!(f, "`{name}` is not a path for a BOOTFS image"),
            WriteError::Duplicate(name) => write!(f, "`{name}` stands in the image already"),
            WriteError::TooBig => f.write_str("the files are too big for a BOOTFS image"),
            WriteError::Io(error) => write!(f, "the image cannot be written: {error}"),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Io(error)
    }
}

/// Collects files, then writes the image.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// Contents by path. A file with several paths is stored once.
    files: BTreeMap<String, Arc<Vec<u8>>>,
}

impl Writer {
    /// Creates an image without files.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Adds a file under its full path (`bin/init`, no leading slash).
    ///
    /// # Errors
    /// [`WriteError::BadName`], [`WriteError::Duplicate`].
    pub fn add(&mut self, path: &str, data: impl Into<Vec<u8>>) -> Result<&mut Writer, WriteError> {
        self.insert(path, Arc::new(data.into()))
    }

    /// Adds another path for a file that has been added.
    ///
    /// # Errors
    /// [`WriteError::BadName`], also if `file` has not been added; [`WriteError::Duplicate`].
    pub fn add_name(&mut self, path: &str, file: &str) -> Result<&mut Writer, WriteError> {
        let data = self.files.get(file).ok_or_else(|| WriteError::BadName(file.to_string()))?.clone();
        self.insert(path, data)
    }

    fn insert(&mut self, path: &str, data: Arc<Vec<u8>>) -> Result<&mut Writer, WriteError> {
        if !is_clean_path(path) {
            return Err(WriteError::BadName(path.to_string()));
        }
        let as_directory = std::format!("{path}/");
        let has_children =
            self.files.range(as_directory.clone()..).next().is_some_and(|(n, _)| n.starts_with(&as_directory));
        let parent_is_file = path.match_indices('/').any(|(at, _)| self.files.contains_key(&path[..at]));
        if has_children || parent_is_file || self.files.contains_key(path) {
            return Err(WriteError::Duplicate(path.to_string()));
        }
        self.files.insert(path.to_string(), data);
        Ok(self)
    }

    /// The paths and sizes in bytes of the files added so far, in image order.
    pub fn files(&self) -> impl Iterator<Item = (&str, usize)> {
        self.files.iter().map(|(name, data)| (name.as_str(), data.len()))
    }

    /// The image as bytes.
    ///
    /// # Errors
    /// [`WriteError::TooBig`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        let mut image = Vec::new();
        self.write_to(&mut image)?;
        Ok(image)
    }

    /// Writes the image; its length is a multiple of the page size.
    ///
    /// # Errors
    /// [`WriteError::TooBig`], [`WriteError::Io`].
    pub fn write_to(&self, out: &mut impl io::Write) -> Result<(), WriteError> {
        let directory_size: usize = self.files.keys().map(|name| (12 + name.len() + 1).next_multiple_of(4)).sum();
        let directory_size = u32::try_from(directory_size).map_err(|_| WriteError::TooBig)?;
        if directory_size > MAX_DIRECTORY_SIZE {
            return Err(WriteError::TooBig);
        }
        let head = HEADER_SIZE as u64 + u64::from(directory_size);
        let data_start = page_ceil(head);
        let mut bytes = Vec::with_capacity(data_start as usize);
        for word in [MAGIC, directory_size, 0, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let mut offset = data_start;
        let mut places: HashMap<*const Vec<u8>, u64> = HashMap::new();
        for (name, data) in &self.files {
            let known = places.get(&Arc::as_ptr(data)).copied();
            let at = u32::try_from(known.unwrap_or(offset)).map_err(|_| WriteError::TooBig)?;
            let size = u32::try_from(data.len()).map_err(|_| WriteError::TooBig)?;
            for word in [name.len() as u32 + 1, size, at] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            if known.is_none() {
                places.insert(Arc::as_ptr(data), offset);
                offset = page_ceil(offset + u64::from(size));
            }
        }
        if offset > 1 << 32 {
            return Err(WriteError::TooBig);
        }
        bytes.resize(data_start as usize, 0);
        out.write_all(&bytes)?;
        let zeros = [0; PAGE_SIZE as usize];
        for data in self.files.values() {
            // Write the contents only once, at the file's first name.
            if places.remove(&Arc::as_ptr(data)).is_none() {
                continue;
            }
            out.write_all(data)?;
            let padding = page_ceil(data.len() as u64) as usize - data.len();
            out.write_all(&zeros[..padding])?;
        }
        Ok(())
    }
}

fn page_ceil(size: u64) -> u64 {
    size.next_multiple_of(u64::from(PAGE_SIZE))
}
