//! The boot image: the source of programs and their libraries.

use bootfs::{Directory, HEADER_SIZE, Header};
use process_builder::loader;
use zx::{AsHandleRef, Handle, Info, Rights, Status, Vmo};

/// The image and its directory.
pub struct Boot {
    image: Vmo,
    directory: Directory<'static>,
}

impl Boot {
    /// Takes the image from the start handles of this process.
    ///
    /// # Errors
    /// There is no image, or it is damaged.
    pub fn take() -> zx::Result<Self> {
        let image = zx::startup::take(u32::from(processargs::PA_VMO_BOOTFS), 0).ok_or(Status::NOT_FOUND)?;
        let image = Vmo::from(image);
        let size = image.get_size()?;
        let mut header = [0; HEADER_SIZE];
        image.read(&mut header, 0)?;
        let header = Header::parse(&header).map_err(|_| Status::IO_DATA_INTEGRITY)?;
        let mut directory = vec![0; header.directory_size()];
        image.read(&mut directory, HEADER_SIZE as u64)?;
        // The directory stays mapped for the life of this process. It is checked once, and searched for each library of
        // each program.
        let directory = Directory::parse(directory.leak(), size).map_err(|_| Status::IO_DATA_INTEGRITY)?;
        Ok(Self { image, directory })
    }

    /// Another handle to the image, for a process that opens files in it by name. All processes share the VMO, so the
    /// handle allows no writes, names or signals.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn image(&self) -> zx::Result<Handle> {
        let rights = Rights::BASIC | Rights::READ | Rights::EXECUTE | Rights::MAP | Rights::GET_PROPERTY;
        self.image.duplicate_handle(Rights::from_bits_retain(self.image.basic_info()?.rights) & rights)
    }

    /// A handle to the content of a file, by its path in the image.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn open(&self, path: &str) -> zx::Result<Vmo> {
        let entry = self.directory.find(path).ok_or(Status::NOT_FOUND)?;
        loader::boot_file(&self.image, &entry)
    }
}
