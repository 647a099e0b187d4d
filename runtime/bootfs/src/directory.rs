//! The directory of an image. It is checked once; searches cannot fail afterwards.
//!
//! The format stores full paths only. A directory exists if some file's path begins with it: [`Directory::children`]
//! lists the names one level below a path, [`Directory::is_dir`] tells whether any file lies below it.

use crate::{Error, MAX_NAME, PAGE_SIZE, is_clean_path, word};

/// Bytes of an entry before its name.
const ENTRY_HEADER: usize = 12;

/// A checked directory.
#[derive(Clone, Copy, Debug)]
pub struct Directory<'a> {
    bytes: &'a [u8],
    /// The entries are sorted by name, as the writer writes them. A repeated child name is then adjacent to its first.
    sorted: bool,
}

/// One file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Full path without a leading slash.
    pub name: &'a str,
    /// Offset of the contents in the image, in bytes; a multiple of [`PAGE_SIZE`].
    pub offset: u32,
    /// Length of the contents in bytes.
    pub size: u32,
}

impl<'a> Directory<'a> {
    /// Checks the bytes of a directory that belongs to an image of `image_size` bytes.
    ///
    /// # Errors
    /// [`Error::BadEntry`], [`Error::BadName`], [`Error::Unaligned`], [`Error::OutOfImage`].
    pub fn parse(bytes: &'a [u8], image_size: u64) -> Result<Directory<'a>, Error> {
        let mut rest = bytes;
        let mut previous = "";
        let mut sorted = true;
        while !rest.is_empty() {
            let (entry, after) = split_entry(rest)?;
            if !entry.offset.is_multiple_of(PAGE_SIZE) {
                return Err(Error::Unaligned);
            }
            if u64::from(entry.offset) + u64::from(entry.size) > image_size {
                return Err(Error::OutOfImage);
            }
            sorted &= previous < entry.name;
            previous = entry.name;
            rest = after;
        }
        Ok(Directory { bytes, sorted })
    }

    /// All files, in image order.
    pub fn entries(&self) -> Entries<'a> {
        Entries { rest: self.bytes }
    }

    /// The file with this full path. A leading slash is not part of a path.
    pub fn find(&self, path: &str) -> Option<Entry<'a>> {
        let mut rest = self.bytes;
        while !rest.is_empty() {
            // `parse` has checked all names.
            let ((name, ..), after) = split_raw(rest).ok()?;
            if name == path.as_bytes() {
                return split_entry(rest).ok().map(|(entry, _)| entry);
            }
            rest = after;
        }
        None
    }

    /// Whether any file lies below `path`. The empty path is the root, which is always a directory.
    pub fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || self.entries().any(|entry| below(entry.name, path).is_some())
    }

    /// The names one level below `path` (empty for the root), each once.
    pub fn children(&self, path: &'a str) -> Children<'a> {
        Children { directory: *self, path, entries: self.entries(), previous: None }
    }
}

/// Iterator over all files.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (entry, after) = split_entry(self.rest).ok()?;
        self.rest = after;
        Some(entry)
    }
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child<'a> {
    /// The last component of the path.
    pub name: &'a str,
    /// The file; `None` for a directory.
    pub file: Option<Entry<'a>>,
}

/// Iterator over the names one level below a path.
#[derive(Clone, Debug)]
pub struct Children<'a> {
    directory: Directory<'a>,
    path: &'a str,
    entries: Entries<'a>,
    previous: Option<&'a str>,
}

impl<'a> Iterator for Children<'a> {
    type Item = Child<'a>;

    fn next(&mut self) -> Option<Child<'a>> {
        loop {
            let entry = self.entries.next()?;
            let Some(rest) = below(entry.name, self.path) else { continue };
            let (name, file) = match rest.split_once('/') {
                Some((directory, _)) => (directory, None),
                None => (rest, Some(entry)),
            };
            if self.previous == Some(name) {
                continue;
            }
            // In sorted order, only names that begin with "a/" lie between "a/x" and "a/y", so equal children are
            // adjacent.
            if !self.directory.sorted && self.seen_before(name, entry) {
                continue;
            }
            self.previous = Some(name);
            return Some(Child { name, file });
        }
    }
}

impl<'a> Children<'a> {
    fn seen_before(&self, name: &str, until: Entry<'a>) -> bool {
        self.directory.entries().take_while(|entry| entry.name.as_ptr() != until.name.as_ptr()).any(|entry| {
            below(entry.name, self.path).is_some_and(|rest| rest.split('/').next().is_some_and(|first| first == name))
        })
    }
}

/// The part of `name` below the directory `path`; `None` if `name` is not below it.
fn below<'n>(name: &'n str, path: &str) -> Option<&'n str> {
    if path.is_empty() {
        return Some(name);
    }
    name.strip_prefix(path)?.strip_prefix('/')
}

/// An entry whose name has not been checked: name, offset, size.
type Raw<'a> = (&'a [u8], u32, u32);

/// Splits off the first entry, unchecked, and returns it with the bytes after it.
fn split_raw(bytes: &[u8]) -> Result<(Raw<'_>, &[u8]), Error> {
    let name_len = word(bytes, 0).ok_or(Error::BadEntry)? as usize;
    let size = word(bytes, 4).ok_or(Error::BadEntry)?;
    let offset = word(bytes, 8).ok_or(Error::BadEntry)?;
    if !(2..=MAX_NAME + 1).contains(&name_len) {
        return Err(Error::BadName);
    }
    let end = ENTRY_HEADER + name_len;
    let name = bytes.get(ENTRY_HEADER..end).ok_or(Error::BadEntry)?;
    let name = name.strip_suffix(&[0]).ok_or(Error::BadName)?;
    // The padding of the last entry may be left out.
    let after = bytes.get(end.next_multiple_of(4)..).unwrap_or(&[]);
    Ok(((name, offset, size), after))
}

/// Splits off the first entry, checks its name, and returns it with the bytes after it.
fn split_entry(bytes: &[u8]) -> Result<(Entry<'_>, &[u8]), Error> {
    let ((name, offset, size), after) = split_raw(bytes)?;
    let name = core::str::from_utf8(name).map_err(|_| Error::BadName)?;
    if !is_clean_path(name) {
        return Err(Error::BadName);
    }
    Ok((Entry { name, offset, size }, after))
}
