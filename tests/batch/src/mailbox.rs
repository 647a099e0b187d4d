//! The mailbox: parcels on the disk.

use std::rc::Rc;

use batch::{MAILBOX, PROGRAM, START, Start};
use bootfs::{Directory, HEADER_SIZE, Header};
use drivers::block::Disk;
use process_builder::loader;
use zx::{Status, Vmo};

/// The disk that host and machine share.
pub struct Mailbox {
    disk: Disk,
}

/// A parcel in memory.
pub struct Parcel {
    /// The start parameters of its program.
    pub start: Start,
    /// The program's file.
    pub program: Vmo,
    /// The whole parcel.
    pub image: Rc<Vmo>,
}

impl Mailbox {
    /// Connects to the mailbox.
    ///
    /// # Errors There is no mailbox.
    pub fn open() -> Result<Mailbox, String> {
        let disk = Disk::open(MAILBOX).map_err(|status| format!("there is no mailbox: {status}"))?;
        Ok(Mailbox { disk })
    }

    /// Its size in bytes.
    pub fn room(&self) -> u64 {
        self.disk.size()
    }

    /// Reads a parcel.
    ///
    /// # Errors A sentence that says why it cannot be read.
    pub fn fetch(&mut self, at: u64, size: u64) -> Result<Vmo, String> {
        let block = u64::from(self.disk.shape().block);
        if !at.is_multiple_of(block) || at.checked_add(size).is_none_or(|end| end > self.room()) {
            return Err("its parcel lies outside of the mailbox".to_owned());
        }
        let no_memory = |status: Status| format!("there is no memory for its parcel: {status}");
        let image = Vmo::create(size, 0).map_err(no_memory)?;
        // Piece by piece, so that a large program is never in memory twice.
        let mut piece = vec![0; 512 << 10];
        let mut done = 0;
        while done < size {
            let wanted = piece.len().min((size - done) as usize);
            let whole = &mut piece[..wanted.next_multiple_of(block as usize)];
            self.disk.read((at + done) / block, whole).map_err(|status| format!("the mailbox: {status}"))?;
            image.write(&whole[..wanted], done).map_err(no_memory)?;
            done += wanted as u64;
        }
        image.replace_as_executable(None).map_err(no_memory)
    }
}

impl Parcel {
    /// Splits a program's parcel without copying.
    ///
    /// # Errors The parcel is damaged.
    pub fn open(image: Vmo) -> zx::Result<Parcel> {
        let size = image.get_size()?;
        let mut header = [0; HEADER_SIZE];
        image.read(&mut header, 0)?;
        let header = Header::parse(&header).map_err(|_| Status::IO_DATA_INTEGRITY)?;
        let mut directory = vec![0; header.directory_size()];
        image.read(&mut directory, HEADER_SIZE as u64)?;
        let directory = Directory::parse(&directory, size).map_err(|_| Status::IO_DATA_INTEGRITY)?;
        let start = directory.find(START).ok_or(Status::IO_DATA_INTEGRITY)?;
        let mut bytes = vec![0; start.size as usize];
        image.read(&mut bytes, start.offset.into())?;
        let start = Start::decode(&bytes).map_err(|_| Status::IO_DATA_INTEGRITY)?;
        let in_folder =
            |entry: &bootfs::Entry<'_>| entry.name.strip_prefix(PROGRAM).is_some_and(|rest| rest.starts_with('/'));
        let program = directory.entries().find(in_folder).ok_or(Status::IO_DATA_INTEGRITY)?;
        let program = loader::boot_file(&image, &program)?;
        Ok(Parcel { start, program, image: Rc::new(image) })
    }
}
