//! The file service for a disk.
//!
//! At its start it gets the channel of its clients and the name of the disk's driver. It connects to that name again if
//! the driver ends.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::io::{Error, Result};

    use drivers::block::Disk;
    use files::blocks::Blocks;
    use files::ext4::Ext4;
    use files::ext4::device::Device;
    use files::fat::Fat;
    use files::serving::{ServedFileSystem, Service};
    use zx::Status;

    /// The name of the disk's service.
    const DISK: &str = "disk";

    struct Driver(Disk);

    fn of_status(status: Status) -> Error {
        Error::other(format!("the disk: {status}"))
    }

    impl Driver {
        fn number(&self, offset: u64) -> u64 {
            offset / u64::from(self.0.shape().block)
        }
    }

    impl Blocks for Driver {
        fn size(&self) -> u64 {
            self.0.size()
        }

        fn block(&self) -> u32 {
            self.0.shape().block
        }

        fn read_only(&self) -> bool {
            self.0.shape().read_only
        }

        fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
            let block = self.number(offset);
            self.0.read(block, bytes).map_err(of_status)
        }

        fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
            let block = self.number(offset);
            self.0.write(block, bytes).map_err(of_status)
        }

        fn flush(&mut self) -> Result<()> {
            self.0.flush().map_err(of_status)
        }
    }

    /// Serves one tree. There is only this one, so a client that asks for another tree gets it, too.
    fn serve(clients: &service::Clients, system: impl ServedFileSystem) -> std::result::Result<(), String> {
        // Panics in the file system are caught and reported in a message of our own.
        std::panic::set_hook(Box::new(|_| {}));
        let mut system = Some(system);
        let mut service = Service::new(move || system.take()).map_err(|status| format!("a port: {status}"))?;
        service.run(clients).map_err(|status| format!("its port: {status}"))
    }

    pub fn main() -> std::result::Result<(), String> {
        let clients = service::Clients::take()?;
        let disk = Disk::open(DISK).map_err(|status| format!("there is no disk: {status}"))?;
        let device = Device::new(Box::new(Driver(disk)));
        // The content of the disk decides which file system it is.
        match device.has_superblock() {
            Ok(true) => serve(&clients, Ext4::mount(device)?),
            Ok(false) => serve(&clients, Fat::mount(device.into_disk().ok_or("the disk is in use")?)?),
            Err(error) => Err(format!("the disk cannot be read: {error}")),
        }
    }
}

#[cfg(target_os = "fuchsia")]
fn main() {
    if let Err(problem) = here::main() {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("disk-files: this file system runs on Hafnon");
    std::process::exit(2);
}
