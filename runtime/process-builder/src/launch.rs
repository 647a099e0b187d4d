//! Builds a running process from VMOs.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use abi::{Rights, Status, ZX_VM_CAN_MAP_READ, ZX_VM_CAN_MAP_SPECIFIC, ZX_VM_CAN_MAP_WRITE};
use abi::{ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC};
use processargs::{
    BuildError, Builder, HandleInfo, PA_LDSVC_LOADER, PA_PROC_SELF, PA_THREAD_SELF, PA_VMAR_LOADED, PA_VMAR_ROOT,
    PA_VMO_EXECUTABLE, PA_VMO_STACK, PA_VMO_VDSO,
};
use zx::{AsHandleRef, Channel, Handle, Job, Vmar, Vmo};

use crate::image::{ALWAYS_THERE, Image, ImageError, PAGE_SIZE};
use crate::load::{VmoSource, load};

/// Why a process could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a program for this system.
    Image(ImageError),
    /// The dynamic linker's file is not valid.
    Interpreter(ImageError),
    /// The vDSO's file is not valid.
    Vdso(ImageError),
    /// The program needs a dynamic linker and there is none; with the loader service's answer.
    NoInterpreter(Status),
    /// A library that the program names is not available; with the loader service's answer.
    NoLibrary(String, Status),
    /// Arguments, environment or handles do not fit into the start message.
    Message(BuildError),
    /// A system call failed: what was attempted, and the status.
    Call(&'static str, Status),
}

impl Error {
    /// The status that describes the error best.
    pub fn status(&self) -> Status {
        match self {
            Error::Image(ImageError::Unreadable) => Status::IO,
            Error::Image(_) | Error::Interpreter(_) | Error::Vdso(_) => Status::INVALID_ARGS,
            Error::NoInterpreter(status) | Error::NoLibrary(_, status) | Error::Call(_, status) => *status,
            Error::Message(BuildError::NulInString) => Status::INVALID_ARGS,
            Error::Message(_) => Status::OUT_OF_RANGE,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Image(error) => error.fmt(f),
            Error::Interpreter(error) => write!(f, "the dynamic linker: {error}"),
            Error::Vdso(error) => write!(f, "the vDSO: {error}"),
            Error::NoInterpreter(status) => write!(f, "its dynamic linker cannot be had: {status}"),
            Error::NoLibrary(name, status) => write!(f, "it needs the library {name}, which cannot be had: {status}"),
            Error::Message(error) => error.fmt(f),
            Error::Call(what, status) => write!(f, "{what}: {status}"),
        }
    }
}

impl core::error::Error for Error {}

/// Adds to a failed call what was attempted.
trait Trying<T> {
    fn trying(self, what: &'static str) -> Result<T, Error>;
}

impl<T> Trying<T> for Result<T, Status> {
    fn trying(self, what: &'static str) -> Result<T, Error> {
        self.map_err(|status| Error::Call(what, status))
    }
}

/// A running process.
#[derive(Debug)]
pub struct Process {
    /// Its handle.
    pub process: zx::Process,
    /// Its first thread.
    pub thread: zx::Thread,
    /// Base address of its program, or of its dynamic linker if it has one.
    pub base: usize,
}

/// Collects the parts of a new process.
pub struct Launcher<'a> {
    name: &'a str,
    executable: Vmo,
    vdso: &'a Vmo,
    loader: Option<Channel>,
    handles: Vec<(HandleInfo, Handle)>,
    args: Vec<&'a [u8]>,
    environ: Vec<&'a [u8]>,
    names: Vec<&'a [u8]>,
    shared: bool,
}

impl<'a> Launcher<'a> {
    /// Begins a process named `name`, from the VMOs of an executable and of the vDSO.
    pub fn new(name: &'a str, executable: Vmo, vdso: &'a Vmo) -> Launcher<'a> {
        Launcher {
            name,
            executable,
            vdso,
            loader: None,
            handles: Vec::new(),
            args: Vec::new(),
            environ: Vec::new(),
            names: Vec::new(),
            shared: false,
        }
    }

    /// Makes a process whose address space others can share (`ZX_PROCESS_SHARED`): it occupies the upper half.
    pub fn shared(&mut self) -> &mut Self {
        self.shared = true;
        self
    }

    /// Sets the loader service from which the dynamic linker requests libraries.
    pub fn loader(&mut self, loader: Channel) -> &mut Self {
        self.loader = Some(loader);
        self
    }

    /// Adds a handle for the program.
    pub fn handle(&mut self, info: HandleInfo, handle: Handle) -> &mut Self {
        self.handles.push((info, handle));
        self
    }

    /// Adds an argument; the first is the program's name.
    pub fn arg(&mut self, arg: &'a [u8]) -> &mut Self {
        self.args.push(arg);
        self
    }

    /// Adds an environment string, `KEY=VALUE`.
    pub fn env(&mut self, entry: &'a [u8]) -> &mut Self {
        self.environ.push(entry);
        self
    }

    /// Adds a name, which handles refer to by index.
    pub fn name(&mut self, name: &'a [u8]) -> &mut Self {
        self.names.push(name);
        self
    }

    /// Builds the process in `job` and starts it. If the program names a dynamic linker, calls `find` for the linker's
    /// file and then for each library that the program names.
    ///
    /// # Errors
    /// [`Error`]. The process has then been killed, and all handles are closed.
    pub fn start(
        self,
        job: &Job,
        mut find: impl FnMut(&str, Option<&Channel>) -> Result<Vmo, Status>,
    ) -> Result<Process, Error> {
        let program =
            Image::program(&VmoSource::new(&self.executable).trying("the program's size")?).map_err(Error::Image)?;
        let linker = match &program.interpreter {
            None => None,
            Some(name) => {
                let vmo = find(name, self.loader.as_ref()).map_err(Error::NoInterpreter)?;
                let source = VmoSource::new(&vmo).map_err(Error::NoInterpreter)?;
                let image = Image::program(&source).map_err(Error::Interpreter)?;
                // The dynamic linker requests the libraries itself, in the new process. This only checks that they
                // exist.
                for name in program.needed.iter().filter(|name| !ALWAYS_THERE.contains(&name.as_str())) {
                    find(name, self.loader.as_ref()).map_err(|status| Error::NoLibrary(name.clone(), status))?;
                }
                Some((vmo, image))
            }
        };
        let vdso_image = Image::library(&VmoSource::new(self.vdso).trying("the vDSO's size")?).map_err(Error::Vdso)?;

        let made = if self.shared { job.create_shared_process(self.name) } else { job.create_process(self.name) };
        let (process, root) = made.trying("create the process")?;
        let built = self.build(&process, &root, &program, linker.as_ref(), &vdso_image);
        if built.is_err() {
            // A process that was never started ends when its last handle is closed; the kill frees its memory now.
            let _ = process.kill();
        }
        let (thread, base) = built?;
        Ok(Process { process, thread, base })
    }

    fn build(
        mut self,
        process: &zx::Process,
        root: &Vmar,
        program: &Image,
        linker: Option<&(Vmo, Image)>,
        vdso_image: &Image,
    ) -> Result<(zx::Thread, usize), Error> {
        let (vmo, image) = linker.map_or((&self.executable, program), |(vmo, image)| (vmo, image));
        let loaded = load(root, vmo, image).trying("load the program")?;
        let vdso = load(root, self.vdso, vdso_image).trying("load the vDSO")?;
        let (stack_vmo, stack_pointer) = map_stack(root, program.stack_size).trying("map the stack")?;
        let thread = process.create_thread("initial-thread").trying("create the thread")?;
        let (bootstrap, theirs) = Channel::create().trying("create the bootstrap channel")?;

        let own = |builder: &mut Builder, handles: &mut Vec<Handle>| -> Result<(), Status> {
            let all = [
                (PA_PROC_SELF, process.duplicate_handle(Rights::SAME_RIGHTS)?),
                (PA_THREAD_SELF, thread.duplicate_handle(Rights::SAME_RIGHTS)?),
                (PA_VMAR_ROOT, root.duplicate_handle(Rights::SAME_RIGHTS)?),
            ];
            for (kind, handle) in all {
                builder.handle(HandleInfo::new(kind));
                handles.push(handle);
            }
            Ok(())
        };

        if linker.is_some() {
            let mut builder = Builder::new();
            let mut handles = Vec::new();
            own(&mut builder, &mut handles).trying("duplicate the process's handles")?;
            builder.handle(HandleInfo::new(PA_VMAR_LOADED)).handle(HandleInfo::new(PA_VMO_EXECUTABLE));
            handles.push(loaded.vmar.into_handle());
            handles.push(self.executable.into_handle());
            if let Some(loader) = self.loader.take() {
                builder.handle(HandleInfo::new(PA_LDSVC_LOADER));
                handles.push(loader.into_handle());
            }
            send(&bootstrap, &builder, handles, &self.args, &self.environ, &self.names)?;
        } else {
            self.handles.push((HandleInfo::new(PA_VMAR_LOADED), loaded.vmar.into_handle()));
        }

        let mut builder = Builder::new();
        let mut handles = Vec::new();
        own(&mut builder, &mut handles).trying("duplicate the process's handles")?;
        let vdso_handle = self.vdso.duplicate_handle(Rights::SAME_RIGHTS).trying("duplicate the vDSO's handle")?;
        self.handles.push((HandleInfo::new(PA_VMO_VDSO), vdso_handle));
        self.handles.push((HandleInfo::new(PA_VMO_STACK), stack_vmo.into_handle()));
        for (info, handle) in self.handles {
            builder.handle(info);
            handles.push(handle);
        }
        send(&bootstrap, &builder, handles, &self.args, &self.environ, &self.names)?;
        process
            .start(&thread, loaded.entry, stack_pointer, theirs.into_handle(), vdso.base)
            .trying("start the process")?;
        Ok((thread, loaded.base))
    }
}

fn send(
    channel: &Channel,
    builder: &Builder,
    handles: Vec<Handle>,
    args: &[&[u8]],
    environ: &[&[u8]],
    names: &[&[u8]],
) -> Result<(), Error> {
    let mut builder = builder.clone();
    for arg in args {
        builder.arg(arg);
    }
    for entry in environ {
        builder.env(entry);
    }
    for name in names {
        builder.name(name);
    }
    let bytes = builder.build().map_err(Error::Message)?;
    channel.write_handles(&bytes, handles).trying("send the start message")
}

/// Maps a stack with an unmapped guard page below it. Returns the initial stack pointer.
fn map_stack(root: &Vmar, size: u64) -> Result<(Vmo, usize), Status> {
    let vmo = Vmo::create(size, 0)?;
    vmo.set_name("stack")?;
    let len = usize::try_from(size).map_err(|_| Status::OUT_OF_RANGE)?;
    let guard = PAGE_SIZE as usize;
    let options = ZX_VM_CAN_MAP_READ | ZX_VM_CAN_MAP_WRITE | ZX_VM_CAN_MAP_SPECIFIC;
    let (vmar, _) = root.allocate(options, 0, len + guard)?;
    let base = vmar.map(ZX_VM_SPECIFIC | ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, guard, &vmo, 0, len)?;
    // Aligned as after a call instruction, which is what a function's entry expects.
    Ok((vmo, ((base + len) & !15) - 8))
}
