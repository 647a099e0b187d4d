//! `Fill`: copies files from a BOOTFS image, which a program brings along, into its own tree.
//!
//! The image belongs to a client, which may change it at any time and may write anything into it. It is read in pieces,
//! never mapped, and each piece is checked after it was read. The work runs in slices, so other requests come in
//! between. After a failure the changes are undone, in slices, too.

use bootfs::{Directory, HEADER_SIZE, Header, MAX_NAME};
use file_protocol::{Error, Kind, Result, check_name};
use zx::{Handle, Rights, Vmo};

use super::long::Long;
use super::names::check_change;
use super::open::Open;
use super::{Reply, ServedFileSystem, Service};
use crate::system::{FileSystem, New, Node};

/// Modes of an image's directories and files: they allow everything to the owner, and only the owner's bits are
/// checked.
const FOLDER: u32 = 0o755;
const FILE: u32 = 0o755;
/// Bytes of one copy.
const PIECE: usize = 64 << 10;
/// Bytes that one slice copies.
const SLICE_BYTES: usize = 2 * PIECE;
/// Cost of creating a file or a directory, in copied bytes.
const NAME: usize = SLICE_BYTES / 8;
/// Number of names that one slice removes.
const UNDONE: usize = 32;
/// Size of an entry without its name in bytes.
const ENTRY_HEADER: usize = 12;
/// Maximum size of an entry in bytes: the name ends with a NUL, and is padded to a multiple of four bytes.
const LONGEST_ENTRY: usize = ENTRY_HEADER + (MAX_NAME + 1).next_multiple_of(4);

/// A running `Fill` request.
pub(super) struct Fill {
    pub(super) transaction: u32,
    image: Vmo,
    size: u64,
    /// The prefix of names, including the slash.
    folder: String,
    /// Positions of the next entry and of the end of the last one.
    next: u64,
    end: u64,
    /// The file that is being copied.
    file: Option<Copying>,
    /// What was created: directory, name, node.
    made: Vec<(Node, Vec<u8>, Node)>,
    /// The reason for undoing all of it.
    failed: Option<Error>,
}

struct Copying {
    file: Node,
    offset: u64,
    done: u64,
    size: u64,
}

fn unreadable<E>(_: E) -> Error {
    Error::Invalid
}

impl Fill {
    fn begin(
        system: &mut impl FileSystem,
        open: &Open,
        transaction: u32,
        folder: &[u8],
        image: Option<Handle>,
    ) -> Result<Fill> {
        let image = image.and_then(|image| service::memory(image, Rights::READ).ok()).ok_or(Error::Invalid)?;
        let folder = format!("{}/", std::str::from_utf8(folder).map_err(unreadable)?);
        check_change(system, open.node)?;
        let mut entries = Vec::new();
        system.entries(open.node, 0, &mut entries)?;
        if open.kind != Kind::Directory || !entries.is_empty() {
            return Err(Error::NotEmpty);
        }
        let size = image.get_size().map_err(unreadable)?;
        let mut header = [0; HEADER_SIZE];
        image.read(&mut header, 0).map_err(unreadable)?;
        let header = Header::parse(&header).map_err(unreadable)?;
        let next = HEADER_SIZE as u64;
        let end = next + header.directory_size() as u64;
        Ok(Fill { transaction, image, size, folder, next, end, file: None, made: Vec::new(), failed: None })
    }

    /// No client waits for the result any more.
    pub(super) fn stop(&mut self) {
        self.failed.get_or_insert(Error::Invalid);
    }

    /// Runs one slice; returns the result at the end.
    pub(super) fn go_on(&mut self, system: &mut impl FileSystem, root: Node) -> Option<Result<()>> {
        if let Some(error) = self.failed {
            return self.undo(system).then_some(Err(error));
        }
        let mut left = SLICE_BYTES;
        while left > 0 {
            let went = match &self.file {
                Some(_) => self.copy(system),
                None if self.next >= self.end => return Some(Ok(())),
                None => self.entry(system, root),
            };
            match went {
                Ok(cost) => left = left.saturating_sub(cost),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        None
    }

    /// Copies a piece of a file. Returns its cost.
    fn copy(&mut self, system: &mut impl FileSystem) -> Result<usize> {
        let Some(copying) = &mut self.file else { return Ok(0) };
        let wanted = PIECE.min(usize::try_from(copying.size - copying.done).unwrap_or(PIECE));
        if wanted == 0 {
            self.file = None;
            return Ok(0);
        }
        let mut piece = vec![0; wanted];
        self.image.read(&mut piece, copying.offset + copying.done).map_err(unreadable)?;
        match system.write(copying.file, copying.done, &piece)? {
            0 => Err(Error::Full),
            count => {
                copying.done += count as u64;
                Ok(count)
            }
        }
    }

    /// Creates the file or directory of the next entry. Returns its cost.
    fn entry(&mut self, system: &mut impl FileSystem, root: Node) -> Result<usize> {
        let mut bytes = [0; LONGEST_ENTRY];
        let there = usize::try_from(self.end - self.next).map_or(LONGEST_ENTRY, |left| left.min(LONGEST_ENTRY));
        let bytes = &mut bytes[..there];
        self.image.read(bytes, self.next).map_err(unreadable)?;
        let len = bytes.first_chunk().map(|len| u32::from_le_bytes(*len) as usize).ok_or(Error::Invalid)?;
        let len = len.checked_add(ENTRY_HEADER).filter(|len| *len <= LONGEST_ENTRY).ok_or(Error::Invalid)?;
        let bytes = &bytes[..there.min(len.next_multiple_of(4))];
        let directory = Directory::parse(bytes, self.size).map_err(unreadable)?;
        let entry = directory.entries().next().ok_or(Error::Invalid)?;
        self.next += bytes.len() as u64;
        let Some(path) = entry.name.strip_prefix(self.folder.as_str()) else { return Ok(NAME) };
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (mut node, mut cost) = (root, NAME);
        for name in above.split('/').filter(|name| !name.is_empty()) {
            check_name(name.as_bytes())?;
            node = match system.find(node, name.as_bytes()) {
                Ok(node) => node,
                Err(Error::NotFound) => self.make(system, node, name, New::Directory(FOLDER))?,
                Err(error) => return Err(error),
            };
            cost += NAME;
        }
        check_name(name.as_bytes())?;
        if system.find(node, name.as_bytes()).is_ok() {
            return Err(Error::Exists);
        }
        let file = self.make(system, node, name, New::File(FILE))?;
        self.file = Some(Copying { file, offset: entry.offset.into(), done: 0, size: entry.size.into() });
        Ok(cost)
    }

    fn make(&mut self, system: &mut impl FileSystem, place: Node, name: &str, new: New<'_>) -> Result<Node> {
        let node = system.make(place, name.as_bytes(), new)?;
        self.made.push((place, name.as_bytes().to_vec(), node));
        Ok(node)
    }

    /// Removes some of the created names, the last first; returns whether all are removed. A name that now has another
    /// node stays.
    fn undo(&mut self, system: &mut impl FileSystem) -> bool {
        for _ in 0..UNDONE {
            let Some((place, name, node)) = self.made.pop() else { return true };
            if system.find(place, &name) == Ok(node) {
                // Fails for a directory to which other programs have added names; it stays.
                let _ = system.unlink(place, &name);
            }
        }
        false
    }
}

impl<F: ServedFileSystem, M: FnMut() -> Option<F>> Service<F, M> {
    /// `Fill`. Returns `None` if the work has begun and the answer follows later.
    pub(super) fn fill(
        &mut self,
        (key, transaction): (u64, u32),
        open: &Open,
        folder: &[u8],
        image: Option<Handle>,
    ) -> Option<Result<Reply>> {
        let begun = self.system(open).and_then(|system| Fill::begin(system, open, transaction, folder, image));
        match begun {
            Ok(fill) => {
                self.begin_long(key, Long::Fill(fill));
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}
