//! The file system on a disk.
//!
//! Given: its clients, and the name of the disk's driver, which it connects to again should that end.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::io::{Error, Result};

    use drivers::block::Disk;
    use files::blocks::Blocks;
    use files::ext4::Ext4;
    use files::ext4::device::Device;
    use files::fat::Fat;
    use files::serving::{Served, Service};
    use zx::Status;

    /// The service that is the disk.
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

    /// Serves one tree: it is all that there is, so whoever wants another gets this one.
    fn serve(clients: &service::Clients, system: impl Served) -> std::result::Result<(), String> {
        // What is caught in there is told in a sentence of ours.
        std::panic::set_hook(Box::new(|_| {}));
        let mut system = Some(system);
        let mut service = Service::new(move || system.take()).map_err(|status| format!("a port: {status}"))?;
        service.run(clients).map_err(|status| format!("its port: {status}"))
    }

    pub fn main() -> std::result::Result<(), String> {
        let clients = service::Clients::take()?;
        let disk = Disk::open(DISK).map_err(|status| format!("there is no disk: {status}"))?;
        let device = Device::new(Box::new(Driver(disk)));
        // What lies on the disk says what it is.
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
