//! Starting a driver: its process, and every handle that it gets.
//!
//! A driver is an ordinary program. What makes it one is its start message: a resource for each part of the machine that
//! the system description gives it, a channel on which it is told of its clients, and a connection to each service that
//! it uses. It gets no job, no files and no names of other services, and its output goes to the host, each line with
//! its name.

use description::drivers::{Driver, Resource};
use process_builder::{Launcher, loader};
use processargs::{HandleInfo, PA_FD, PA_USER0, PA_USER1};
use zx::{AsHandleRef, Channel, Job, Process, Rights, Socket, Status, Vmo};

use crate::boot::Boot;

/// What drivers are made from.
pub struct Maker {
    pub boot: std::sync::Arc<Boot>,
    pub vdso: Vmo,
    pub resource: &'static zx::Resource,
    pub job: Job,
}

/// A driver that runs.
pub struct Running {
    pub process: Process,
    /// Its clients' ends of channels are sent here.
    pub clients: Channel,
}

impl Maker {
    /// Starts a driver; `connect` gives the connections to the services that it uses. Gives what it says, too.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn start(
        &self,
        driver: &Driver,
        mut connect: impl FnMut(&str) -> Result<Channel, String>,
    ) -> Result<(Running, Socket), String> {
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let program = self.boot.open(&format!("bin/{}", driver.program)).map_err(step("its program"))?;
        let mut launcher = Launcher::new(&driver.program, program, &self.vdso);
        launcher.loader(zx::startup::clone_loader_service().map_err(step("its libraries"))?);
        launcher.arg(driver.program.as_bytes());
        for (index, part) in (0..).zip(&driver.resources) {
            let resource = self.part(part, &driver.name).map_err(|status| format!("{part:?}: {status}"))?;
            launcher.handle(HandleInfo::with_arg(PA_USER0, index), resource.into());
        }
        let (clients, theirs) = Channel::create().map_err(step("a channel"))?;
        launcher.handle(HandleInfo::with_arg(PA_USER1, 0), theirs.into());
        for (index, service) in (1..).zip(&driver.uses) {
            launcher.handle(HandleInfo::with_arg(PA_USER1, index), connect(service)?.into());
        }
        let (log, theirs) = Socket::create(0).map_err(step("a socket"))?;
        let second = theirs.duplicate_handle(Rights::SAME_RIGHTS).map_err(step("a socket"))?;
        launcher.handle(HandleInfo::with_arg(PA_FD, 1), theirs.into());
        launcher.handle(HandleInfo::with_arg(PA_FD, 2), second);
        let interpreter = |name: &str, service: Option<&Channel>| match service {
            Some(service) => loader::load_object(service, name),
            None => Err(Status::NOT_FOUND),
        };
        let started = launcher.start(&self.job, interpreter).map_err(|error| error.to_string())?;
        Ok((Running { process: started.process, clients }, log))
    }

    /// The resource for one part of the machine and nothing else. Ranges are the driver's alone.
    fn part(&self, part: &Resource, name: &str) -> zx::Result<zx::Resource> {
        let system = abi::ZX_RSRC_KIND_SYSTEM;
        let (options, base, size) = match *part {
            Resource::Ports { first, last } => {
                let size = usize::from(last.saturating_sub(first)) + 1;
                (abi::ZX_RSRC_KIND_IOPORT | abi::ZX_RSRC_FLAG_EXCLUSIVE, u64::from(first), size)
            }
            Resource::Pin(pin) => (abi::ZX_RSRC_KIND_IRQ | abi::ZX_RSRC_FLAG_EXCLUSIVE, u64::from(pin), 1),
            Resource::Memory { first, last } => {
                let size = last.checked_sub(first).and_then(|size| usize::try_from(size).ok()?.checked_add(1));
                (abi::ZX_RSRC_KIND_MMIO | abi::ZX_RSRC_FLAG_EXCLUSIVE, first, size.ok_or(Status::OUT_OF_RANGE)?)
            }
            Resource::Iommu => (system, abi::ZX_RSRC_SYSTEM_IOMMU_BASE, 1),
            Resource::Msi => (system, abi::ZX_RSRC_SYSTEM_MSI_BASE, 1),
        };
        self.resource.create_child(options, base, size, name)
    }
}
