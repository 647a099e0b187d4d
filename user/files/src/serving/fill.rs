//! Files that come along with a program: out of a BOOTFS image, into a tree of its own.

use bootfs::{Directory, HEADER_SIZE, Header};
use file_protocol::{Answer, Error, Kind, Result, check_name};
use zx::{Handle, Vmo};

use super::names::check_change;
use super::open::Open;
use super::{Reply, Served, Service};
use crate::system::New;

/// What files and folders of an image may be used for: all, as far as their owner is asked.
const FOLDER: u32 = 0o755;
const FILE: u32 = 0o755;
/// Bytes that are copied at once.
const PIECE: usize = 64 << 10;

impl<F: Served, M: FnMut() -> Option<F>> Service<F, M> {
    /// The image is read, never mapped: whoever sent it may change it meanwhile. What it can take is bounded as all else is.
    pub(super) fn fill(&mut self, open: &Open, folder: &[u8], image: Option<Handle>) -> Result<Reply> {
        let image = Vmo::from(image.ok_or(Error::Invalid)?);
        let folder = std::str::from_utf8(folder).map_err(|_| Error::Invalid)?;
        let system = self.system(open)?;
        check_change(system, open.node)?;
        let mut entries = Vec::new();
        system.entries(open.node, 0, &mut entries)?;
        if open.kind != Kind::Directory || !entries.is_empty() {
            return Err(Error::NotEmpty);
        }
        let unreadable = |_| Error::Invalid;
        let size = image.get_size().map_err(unreadable)?;
        let mut header = [0; HEADER_SIZE];
        image.read(&mut header, 0).map_err(unreadable)?;
        let header = Header::parse(&header).map_err(|_| Error::Invalid)?;
        let mut bytes = vec![0; header.directory_size()];
        image.read(&mut bytes, HEADER_SIZE as u64).map_err(unreadable)?;
        let directory = Directory::parse(&bytes, size).map_err(|_| Error::Invalid)?;
        for entry in directory.entries() {
            let Some(path) = entry.name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else { continue };
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            let mut node = open.node;
            for name in above.split('/').filter(|name| !name.is_empty()) {
                check_name(name.as_bytes())?;
                node = match system.find(node, name.as_bytes()) {
                    Ok(node) => node,
                    Err(Error::NotFound) => system.make(node, name.as_bytes(), New::Directory(FOLDER))?,
                    Err(error) => return Err(error),
                };
            }
            check_name(name.as_bytes())?;
            if system.find(node, name.as_bytes()).is_ok() {
                return Err(Error::Exists);
            }
            let file = system.make(node, name.as_bytes(), New::File(FILE))?;
            let (mut done, size) = (0, u64::from(entry.size));
            let mut piece = vec![0; PIECE];
            while done < size {
                let wanted = PIECE.min((size - done) as usize);
                image.read(&mut piece[..wanted], u64::from(entry.offset) + done).map_err(unreadable)?;
                match system.write(file, done, &piece[..wanted])? {
                    0 => return Err(Error::Full),
                    count => done += count as u64,
                }
            }
        }
        Ok(Reply::new(Answer::Done))
    }
}
