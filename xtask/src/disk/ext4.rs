//! ext4, by the package `rsext4`.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use rsext4::{
    BlockIo, Clock, DeviceCapabilities, DeviceGeometry, DirectoryCursor, DirectoryEntryType, EntropySource, Ext4,
    Ext4Error, Ext4Result, Ext4Timestamp, FileName, FilePermissions, InodeNumber, MkfsOptions, MountOptions,
    MountServices, MountedServices, MutationContext, NoopObserver, SectorId,
};

use super::device::Device;
use super::{Entry, Kind, Volume};

/// Bytes of a sector.
const SECTOR: u64 = 512;
/// The most entries of a folder that are listed.
const ENTRIES: usize = 1 << 20;
/// Who makes files: the superuser, with all that the permissions below say.
const WHO: MutationContext = MutationContext::new(0, 0, 0, 0);

/// A file system on an image.
pub struct Ext {
    system: Ext4<Device, MountedServices<Chance, NoopObserver>>,
    device: Device,
}

/// The host's time of day.
struct Now;

/// The host's random numbers.
struct Chance(File);

impl Clock for Now {
    fn now(&self) -> Ext4Result<Ext4Timestamp> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Ext4Timestamp::new(i64::try_from(time.as_secs()).unwrap_or(i64::MAX), time.subsec_nanos()))
    }
}

impl EntropySource for Chance {
    fn fill_bytes(&mut self, output: &mut [u8]) -> Ext4Result<()> {
        self.0.read_exact(output).map_err(|_| Ext4Error::io())
    }
}

impl BlockIo for Device {
    fn write(&mut self, bytes: &[u8], sector: SectorId, _count: u32) -> Ext4Result<()> {
        self.write_at(bytes, place(sector)?).map_err(|_| Ext4Error::io())
    }

    fn read(&mut self, bytes: &mut [u8], sector: SectorId, _count: u32) -> Ext4Result<()> {
        self.read_at(bytes, place(sector)?).map_err(|_| Ext4Error::io())
    }

    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry::new(SECTOR as u32, self.size() / SECTOR)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        DeviceCapabilities { flush: true, ..DeviceCapabilities::default() }
    }

    fn flush(&mut self) -> Ext4Result<()> {
        self.settle().map_err(|_| Ext4Error::io())
    }
}

fn place(sector: SectorId) -> Ext4Result<u64> {
    (sector.as_usize()? as u64).checked_mul(SECTOR).ok_or_else(Ext4Error::overflow)
}

/// Makes an empty file system.
///
/// # Errors
/// The image is too small.
pub fn format(device: Device) -> Result<()> {
    rsext4::format(device, Now, MkfsOptions::default()).map(drop).map_err(said)
}

fn said(error: Ext4Error) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

impl Ext {
    /// Opens it; where it is to be changed, what a machine left in its journal is carried out first.
    ///
    /// # Errors
    /// There is none on the image, or it is damaged.
    pub fn open(device: Device, writable: bool) -> Result<Ext> {
        let chance = Chance(File::open("/dev/urandom").context("cannot open /dev/urandom")?);
        let mut options = MountOptions::read_write();
        if !writable {
            (options.readonly, options.replay_journal) = (true, false);
        }
        let services = MountServices::new(Now, chance, NoopObserver);
        let system = Ext4::mount(device.clone(), services, options).map_err(said)?;
        Ok(Ext { system, device })
    }

    fn child(&mut self, folder: InodeNumber, name: &str) -> Result<Option<InodeNumber>> {
        let name = FileName::new(name.as_bytes()).map_err(said)?;
        Ok(self.system.lookup_child(folder, name).map_err(said)?.map(|inode| inode.number))
    }

    fn find(&mut self, path: &[String]) -> Result<InodeNumber> {
        let mut at = self.system.root_inode();
        for name in path {
            at = self.child(at, name)?.context("it is not there")?;
        }
        Ok(at)
    }
}

impl Volume for Ext {
    fn list(&mut self, path: &[String]) -> Result<Vec<Entry>> {
        self.device.turn();
        let folder = self.find(path)?;
        if !self.system.inode(folder).map_err(said)?.is_directory() {
            bail!("it is no folder");
        }
        let mut reader = self.system.open_directory_reader(folder).map_err(said)?;
        let (mut cursor, mut found) = (DirectoryCursor::Start, Vec::new());
        loop {
            let some = self.system.read_directory_with_reader(&mut reader, cursor, 64).map_err(said)?;
            let Some(last) = some.last() else { return Ok(found) };
            cursor = last.next_cursor;
            for entry in some {
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let inode = self.system.inode(entry.inode).map_err(said)?;
                let kind = match inode.file_type() {
                    DirectoryEntryType::Directory => Kind::Folder,
                    DirectoryEntryType::RegularFile => Kind::File,
                    _ => Kind::Other,
                };
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                found.push(Entry { name, kind, size: inode.size });
                if found.len() > ENTRIES {
                    bail!("the folder has more entries than are listed");
                }
            }
        }
    }

    fn read(&mut self, path: &[String], to: &mut dyn Write) -> Result<()> {
        self.device.turn();
        let file = self.find(path)?;
        let inode = self.system.inode(file).map_err(said)?;
        if inode.file_type() != DirectoryEntryType::RegularFile {
            bail!("it is no file");
        }
        let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
        while at < inode.size {
            self.device.turn();
            let count = self.system.read_inode(file, at, &mut buffer).map_err(said)?;
            if count == 0 {
                bail!("it is shorter than it says");
            }
            to.write_all(&buffer[..count])?;
            at += count as u64;
        }
        Ok(())
    }

    fn make_folder(&mut self, path: &[String]) -> Result<()> {
        self.device.turn();
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        let above = self.find(above)?;
        match self.child(above, name)? {
            Some(there) if self.system.inode(there).map_err(said)?.is_directory() => Ok(()),
            Some(_) => bail!("it is there and no folder"),
            None => {
                let name = FileName::new(name.as_bytes()).map_err(said)?;
                let mode = FilePermissions::new(0o755).map_err(said)?;
                self.system.create_directory(WHO, above, name, mode).map(drop).map_err(said)
            }
        }
    }

    fn write(&mut self, path: &[String], from: &mut dyn Read) -> Result<()> {
        self.device.turn();
        let (name, above) = path.split_last().context("a file has a name")?;
        let above = self.find(above)?;
        let file = match self.child(above, name)? {
            Some(there) if self.system.inode(there).map_err(said)?.file_type() == DirectoryEntryType::RegularFile => {
                self.system.truncate_inode(there, 0).map_err(said)?;
                // What was freed is not used again before that is certain.
                self.system.sync().map_err(said)?;
                there
            }
            Some(_) => bail!("it is there and no file"),
            None => {
                let name = FileName::new(name.as_bytes()).map_err(said)?;
                let mode = FilePermissions::new(0o644).map_err(said)?;
                self.system.create_regular_file(WHO, above, name, mode).map_err(said)?.number
            }
        };
        let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    self.device.turn();
                    self.system.write_inode(file, at, &buffer[..count]).map_err(said)?;
                    at += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn remove(&mut self, path: &[String]) -> Result<()> {
        self.device.turn();
        let (name, above) = path.split_last().context("a file has a name")?;
        let above = self.find(above)?;
        let removed = self.system.unlink(above, FileName::new(name.as_bytes()).map_err(said)?).map_err(said)?;
        if removed.requires_reap() {
            self.system.reap_unlinked_inode(removed.inode).map_err(said)?;
        }
        Ok(())
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        self.device.turn();
        // All else is where it belongs before the superblock says that no recovery is needed.
        self.system.sync().map_err(said)?;
        self.system.unmount().map_err(said)
    }

    fn complaint(&mut self) -> Result<Option<String>> {
        Ok(None)
    }
}
