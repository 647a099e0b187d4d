//! What holds the content of Linux' block devices: a service of the block protocol, or a file.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;

use drivers::block::Disk;
use zx::Status;

use crate::virtio::Device;
use crate::virtio::block::{Backing, Block};

/// The smallest unit of a file, in bytes.
const SECTOR: u32 = 512;

/// A block device whose content is at `place`: the path of a file, which has a slash, or a service. What cannot be
/// written is a read-only device.
///
/// # Errors
/// It is not there, or no whole number of blocks.
pub fn open(place: &str) -> std::result::Result<Box<dyn Device>, String> {
    if place.contains('/') {
        let file = OpenFile::new(place).map_err(|why| format!("the disk {place}: {why}"))?;
        return Ok(Box::new(Block::new(file)));
    }
    let disk = Disk::open(place).map_err(|status| match status {
        Status::PEER_CLOSED | Status::NOT_FOUND => {
            format!("the disk {place}: this machine has none, or this program may not use it")
        }
        status => format!("the disk {place}: {status}"),
    })?;
    let block = disk.shape().block;
    if !block.is_power_of_two() || block < SECTOR {
        return Err(format!("the disk {place}: its blocks have {block} bytes, which Linux cannot use"));
    }
    Ok(Box::new(Block::new(Service(disk))))
}

/// A disk of the system's, by its driver.
struct Service(Disk);

fn io(result: zx::Result<()>) -> Result<()> {
    result.map_err(|status| Error::other(status.to_string()))
}

impl Backing for Service {
    fn block(&self) -> u32 {
        self.0.shape().block
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_only(&self) -> bool {
        self.0.shape().read_only
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        io(self.0.read(offset / u64::from(self.block()), bytes))
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        io(self.0.write(offset / u64::from(self.block()), bytes))
    }

    fn flush(&mut self) -> Result<()> {
        io(self.0.flush())
    }
}

/// A file of the system's.
struct OpenFile {
    file: File,
    size: u64,
    read_only: bool,
}

impl OpenFile {
    fn new(path: &str) -> Result<OpenFile> {
        let (file, read_only) = match File::options().read(true).write(true).open(path) {
            Ok(file) => (file, false),
            Err(error) if matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
                (File::open(path)?, true)
            }
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.len();
        if size == 0 || size % u64::from(SECTOR) != 0 {
            return Err(Error::other("it has no whole number of blocks of 512 bytes"));
        }
        Ok(OpenFile { file, size, read_only })
    }
}

impl Backing for OpenFile {
    fn block(&self) -> u32 {
        SECTOR
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.sync_data()
    }
}
