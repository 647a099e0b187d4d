//! Creates processes from the boot image, for everything that `init` starts.
//!
//! A program can do only what its start handles allow. Each program has its own job, through which it cannot reach
//! processes of other programs. The caller decides about further handles: [`crate::runner`] for programs,
//! [`crate::services`] for services.

use std::sync::Arc;

use description::services::{Resource, Service};
use process_builder::{Launcher, loader};
use processargs::{
    HandleInfo, PA_CLOCK_UTC, PA_FD, PA_JOB_DEFAULT, PA_NS_DIR, PA_USER0, PA_USER1, PA_USER2, PA_VMO_BOOTFS,
};
use zx::{AsHandleRef, Channel, Handle, Info, Job, Process, Rights, Socket, Status, Vmo};

use crate::boot::Boot;
use crate::loader::Loader;

/// The parts from which processes are created.
pub struct Maker {
    pub boot: Arc<Boot>,
    vdso: Vmo,
    /// The loader service; without it, libraries still come from the loader service of `userboot`.
    loader: Option<Arc<Loader>>,
    /// The koid of the job of all programs and services.
    all: Option<u64>,
}

/// A service that runs.
pub struct Running {
    pub process: Process,
    /// Its job, which is killed with it.
    pub job: Job,
    /// The service receives its clients' channels here.
    pub clients: Channel,
}

/// The strings of a start message.
#[derive(Default)]
pub struct Strings<'a> {
    pub arguments: Vec<&'a str>,
    pub environment: Vec<String>,
    /// The paths of the handles in the name space, in order.
    pub names: Vec<&'a str>,
}

fn step(what: &str) -> impl FnOnce(Status) -> String {
    let what = what.to_owned();
    move |status| format!("{what}: {status}")
}

impl Maker {
    /// Takes the vDSO from the start handles of this process.
    ///
    /// # Errors
    /// A message for the user.
    pub fn new(boot: Arc<Boot>, loader: Option<Arc<Loader>>) -> Result<Maker, String> {
        let vdso = zx::startup::take(u32::from(processargs::PA_VMO_VDSO), 0).ok_or("there is no vDSO")?;
        let all = zx::startup::job_default().and_then(|job| job.koid().ok());
        Ok(Maker { boot, vdso: vdso.into(), loader, all })
    }

    /// A connection to the loader service for the programs of this job. Programs in the job of all are not tied to the
    /// end of a job.
    fn libraries(&self, job: &Job) -> zx::Result<Channel> {
        match &self.loader {
            Some(loader) => loader.connect(if job.koid().ok() == self.all { None } else { Some(job) }),
            None => zx::startup::clone_loader_service(),
        }
    }

    /// Starts a process in a job.
    ///
    /// # Errors
    /// A message for the user.
    pub fn start(
        &self,
        job: &Job,
        name: &str,
        program: Vmo,
        strings: &Strings<'_>,
        handles: Vec<(HandleInfo, Handle)>,
    ) -> Result<Process, String> {
        let mut launcher = Launcher::new(name, program, &self.vdso);
        launcher.loader(self.libraries(job).map_err(step("its libraries"))?);
        for argument in &strings.arguments {
            launcher.arg(argument.as_bytes());
        }
        for entry in &strings.environment {
            launcher.env(entry.as_bytes());
        }
        for name in &strings.names {
            launcher.name(name.as_bytes());
        }
        for (info, handle) in handles {
            launcher.handle(info, handle);
        }
        let interpreter = |name: &str, service: Option<&Channel>| match service {
            Some(service) => loader::load_object(service, name),
            None => Err(Status::NOT_FOUND),
        };
        let started = launcher.start(job, interpreter).map_err(|error| match error.status() {
            Status::NO_MEMORY => "there is not enough memory for it".to_owned(),
            _ => error.to_string(),
        })?;
        Ok(started.process)
    }

    /// The start handles of every program: its job, the boot files, the time of day. The program cannot change the
    /// limits of its job. It cannot change the job's policies either, because the job contains a process.
    ///
    /// # Errors
    /// A message for the user.
    pub fn usual(&self, job: &Job) -> Result<Vec<(HandleInfo, Handle)>, String> {
        let same = |object: &dyn Fn() -> zx::Result<Handle>, what: &str| object().map_err(step(what));
        let held = Rights::from_bits_retain(job.basic_info().map_err(step("its job"))?.rights);
        let rights = Rights::from_bits_retain(held.bits() & !Rights::SET_POLICY.bits());
        let mut handles = vec![
            (HandleInfo::new(PA_JOB_DEFAULT), same(&|| job.duplicate_handle(rights), "its job")?),
            (HandleInfo::new(PA_VMO_BOOTFS), same(&|| self.boot.image(), "the boot files")?),
        ];
        handles.extend(time_of_day()?);
        Ok(handles)
    }

    /// Starts a service in `job`. `connections` are its connections to services that it uses, `root` is the root
    /// resource. Also returns the socket with its output.
    ///
    /// A service gets a resource for each part of the machine that the system description assigns to it, a channel for
    /// its clients, its connections, and the time of day. A service with a memory limit can ask its job for it. A
    /// service gets no files. Its output goes to the host, with its name on each line. Through `names` it reaches the
    /// services that it uses again if they have ended.
    ///
    /// # Errors
    /// A message for the user.
    pub fn start_service(
        &self,
        job: Job,
        service: &Service,
        connections: Vec<Channel>,
        names: Option<Channel>,
        root: Option<&zx::Resource>,
    ) -> Result<(Running, Socket), String> {
        let program = self.boot.open(&format!("bin/{}", service.program)).map_err(step("its program"))?;
        let mut handles: Vec<(HandleInfo, Handle)> = Vec::new();
        for (index, part) in (0..).zip(&service.resources) {
            let root = root.ok_or("there is no root resource")?;
            let resource = resource(root, part, &service.name).map_err(|status| format!("{part:?}: {status}"))?;
            handles.push((HandleInfo::with_arg(PA_USER0, index), resource.into()));
        }
        let (clients, theirs) = Channel::create().map_err(step("a channel"))?;
        handles.push((HandleInfo::with_arg(PA_USER1, 0), theirs.into()));
        for (index, connection) in (1..).zip(connections) {
            handles.push((HandleInfo::with_arg(PA_USER1, index), connection.into()));
        }
        if service.memory.is_some() {
            // With this handle it can neither start nor kill processes.
            let account = job.duplicate_handle(Rights::GET_PROPERTY | Rights::TRANSFER).map_err(step("its job"))?;
            handles.push((HandleInfo::new(PA_USER2), account));
        }
        handles.extend(time_of_day()?);
        let (log, theirs) = Socket::create(0).map_err(step("a socket"))?;
        let second = theirs.duplicate_handle(Rights::SAME_RIGHTS).map_err(step("a socket"))?;
        handles.push((HandleInfo::with_arg(PA_FD, 1), theirs.into()));
        handles.push((HandleInfo::with_arg(PA_FD, 2), second));
        let arguments = [&service.program].into_iter().chain(&service.arguments).map(String::as_str).collect();
        let mut strings = Strings { arguments, ..Strings::default() };
        if let Some(names) = names {
            strings.names.push("/svc");
            handles.push((HandleInfo::with_arg(PA_NS_DIR, 0), names.into()));
        }
        let process = self.start(&job, &service.program, program, &strings, handles)?;
        Ok((Running { process, job, clients }, log))
    }
}

/// The clock of the time of day, which all programs share. The handle allows no changes, names or signals.
fn time_of_day() -> Result<Option<(HandleInfo, Handle)>, String> {
    let Some(clock) = zx::startup::utc_reference() else { return Ok(None) };
    let shared = clock.basic_info().and_then(|info| {
        let rights = Rights::BASIC | Rights::READ | Rights::MAP | Rights::GET_PROPERTY;
        clock.duplicate_handle(Rights::from_bits_retain(info.rights) & rights)
    });
    Ok(Some((HandleInfo::new(PA_CLOCK_UTC), shared.map_err(step("the clock"))?)))
}

/// A resource for one part of the machine only. Ranges are exclusive to the driver.
fn resource(root: &zx::Resource, part: &Resource, name: &str) -> zx::Result<zx::Resource> {
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
    root.create_child(options, base, size, name)
}
