//! Reads the server's message, starts `bin/init`, and serves as its loader service until it ends.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt::{self, Display};

use abi::{Rights, Signals, Status, ZX_VM_PERM_READ, zx_wait_item_t};
use bootfs::{Directory, HEADER_SIZE, Header};
use process_builder::Launcher;
use process_builder::loader::{self, Answered};
use processargs::{
    HandleInfo, MAX_BYTES, MAX_HANDLES, Message, PA_CLOCK_UTC, PA_FD, PA_JOB_DEFAULT, PA_RESOURCE, PA_VMAR_ROOT,
    PA_VMO_BOOTFS, PA_VMO_VDSO,
};
use zx::{AsHandleRef, Channel, Clock, Debuglog, Handle, Job, MonotonicInstant, Process, Resource, Vmar, Vmo};

use crate::log::say;

/// The program to start. The word `userboot.next=PATH` of the command line names another.
const INIT: &str = "bin/init";
const NEXT: &str = "userboot.next=";
/// Directory of libraries.
const LIBRARIES: &str = "lib/";
/// Limit on connections to the loader service. Together with init, they are as many objects as one call can wait for.
const MAX_CLIENTS: usize = abi::ZX_WAIT_MANY_MAX_ITEMS - 1;

/// Why init could not be started, or how it ended.
struct Failure(String);

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn failure(what: &str, why: impl Display) -> Failure {
    Failure(alloc::format!("{what}: {why}"))
}

/// Value of the log's handle, for panics.
struct LogHandle(Cell<u32>);
// SAFETY: userboot has one thread.
unsafe impl Sync for LogHandle {}
static LOG: LogHandle = LogHandle(Cell::new(0));

/// Writes a panic's message to the log.
pub fn report_panic(info: &core::panic::PanicInfo<'_>) {
    let log = zx::Unowned::<Debuglog>::from_raw(LOG.0.get());
    say(log.as_deref(), format_args!("{info}"));
}

/// Runs userboot; returns the return code.
pub fn run(bootstrap: Channel) -> i64 {
    let mut handles: [Option<Handle>; MAX_HANDLES] = [const { None }; MAX_HANDLES];
    let mut bytes = alloc::vec![0; MAX_BYTES];
    let Ok(size) = bootstrap.read_wait(&mut bytes, &mut handles, MonotonicInstant::INFINITE) else { return 1 };
    let Ok(message) = Message::parse(&bytes[..size.bytes], size.handles) else { return 1 };
    let mut take = |kind| message.find(HandleInfo::new(kind)).and_then(|index| handles[index].take());

    let resource = take(PA_RESOURCE).map(Resource::from);
    let log = resource.as_ref().and_then(|resource| Debuglog::create(resource, 0).ok());
    LOG.0.set(log.as_ref().map_or(0, |log| log.raw_handle()));
    let given = StartHandles {
        job: take(PA_JOB_DEFAULT).map(Job::from),
        root: take(PA_VMAR_ROOT).map(Vmar::from),
        vdso: take(PA_VMO_VDSO).map(Vmo::from),
        bootfs: take(PA_VMO_BOOTFS).map(Vmo::from),
        resource: resource.as_ref(),
        utc: take(PA_CLOCK_UTC).map(Clock::from),
    };
    let words: Vec<&[u8]> = message.environ().collect();
    match start(given, log.as_ref(), &words) {
        Ok(service) => {
            let how = service.serve();
            say(log.as_ref(), format_args!("{how}, and with it the system"));
        }
        Err(failure) => say(log.as_ref(), format_args!("{failure}")),
    }
    if let Some(resource) = &resource {
        // If this fails, there is nothing left to do.
        let _ = zx::system_powerctl(resource, abi::ZX_SYSTEM_POWERCTL_SHUTDOWN);
    }
    1
}

/// The handles that the server sends.
struct StartHandles<'a> {
    job: Option<Job>,
    root: Option<Vmar>,
    vdso: Option<Vmo>,
    bootfs: Option<Vmo>,
    resource: Option<&'a Resource>,
    utc: Option<Clock>,
}

fn start(given: StartHandles<'_>, log: Option<&Debuglog>, words: &[&[u8]]) -> Result<Service, Failure> {
    let (Some(job), Some(root), Some(vdso), Some(image)) = (given.job, given.root, given.vdso, given.bootfs) else {
        return Err(failure("the first message", "a handle is missing"));
    };
    let directory = map_directory(&root, &image)?;
    let next = words.iter().filter_map(|word| core::str::from_utf8(word).ok()?.strip_prefix(NEXT)).next_back();
    let path = next.unwrap_or(INIT);
    let entry = directory.find(path).ok_or_else(|| failure(path, "not in the BOOTFS image"))?;
    let executable = loader::boot_file(&image, &entry).map_err(|status| failure(path, status))?;

    let (own, theirs) = Channel::create().map_err(|status| failure("the loader channel", status))?;
    let files = Files { image, directory };

    let shown = alloc::format!("/boot/{path}");
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut launcher = Launcher::new(name, executable, &vdso);
    launcher.arg(shown.as_bytes()).loader(theirs);
    for word in words {
        launcher.env(word);
    }
    let same = |object: &dyn ObjectRef, what: &str| object.again().map_err(|status| failure(what, status));
    launcher.handle(HandleInfo::new(PA_JOB_DEFAULT), same(&job, "the root job")?);
    launcher.handle(HandleInfo::new(PA_VMO_BOOTFS), same(&files.image, "the BOOTFS image")?);
    if let Some(resource) = given.resource {
        launcher.handle(HandleInfo::new(PA_RESOURCE), same(resource, "the root resource")?);
    }
    if let Some(utc) = &given.utc {
        launcher.handle(HandleInfo::new(PA_CLOCK_UTC), same(utc, "the clock")?);
    }
    if let Some(log) = log {
        for fd in [1, 2] {
            launcher.handle(HandleInfo::with_arg(PA_FD, fd), same(log, "the log")?);
        }
    }
    let started = launcher.start(&job, |name, _| files.find(name)).map_err(|error| failure(&shown, error))?;
    Ok(Service { files, init: started.process, clients: Vec::from([own]) })
}

/// Duplicates handles of different types.
trait ObjectRef {
    fn again(&self) -> Result<Handle, Status>;
}

impl<T: AsHandleRef> ObjectRef for T {
    fn again(&self) -> Result<Handle, Status> {
        self.duplicate_handle(Rights::SAME_RIGHTS)
    }
}

/// Maps the pages of the image's directory, and checks it.
fn map_directory(root: &Vmar, image: &Vmo) -> Result<Directory<'static>, Failure> {
    let bad = |error: bootfs::Error| failure("BOOTFS", error);
    let call = |status: Status| failure("BOOTFS", status);
    let size = image.get_stream_size().or_else(|_| image.get_size()).map_err(call)?;
    let mut header = [0; HEADER_SIZE];
    if size < HEADER_SIZE as u64 {
        return Err(bad(bootfs::Error::Truncated));
    }
    image.read(&mut header, 0).map_err(call)?;
    let len = HEADER_SIZE + Header::parse(&header).map_err(bad)?.directory_size();
    if len as u64 > size {
        return Err(bad(bootfs::Error::Truncated));
    }
    let pages = len.next_multiple_of(4096);
    let address = root.map(ZX_VM_PERM_READ, 0, image, 0, pages).map_err(call)?;
    // SAFETY: `len` bytes are mapped there until the process ends, and the image is never written.
    let bytes = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len) };
    Directory::parse(&bytes[HEADER_SIZE..], size).map_err(bad)
}

/// The BOOTFS image.
struct Files {
    image: Vmo,
    directory: Directory<'static>,
}

impl Files {
    /// The VMO of a library.
    fn find(&self, name: &str) -> Result<Vmo, Status> {
        let path = alloc::format!("{LIBRARIES}{name}");
        let entry = self.directory.find(&path).ok_or(Status::NOT_FOUND)?;
        loader::boot_file(&self.image, &entry)
    }
}

/// The loader service for init.
struct Service {
    files: Files,
    init: Process,
    clients: Vec<Channel>,
}

impl Service {
    /// Serves until init has ended; returns how it ended.
    fn serve(mut self) -> Failure {
        let mut items = Vec::new();
        loop {
            items.clear();
            items.push(item(&self.init, Signals::PROCESS_TERMINATED));
            items
                .extend(self.clients.iter().map(|c| item(c, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED)));
            if let Err(status) = zx::wait_many(&mut items, MonotonicInstant::INFINITE) {
                return failure("waiting for init", status);
            }
            if items[0].pending & Signals::PROCESS_TERMINATED.bits() != 0 {
                return match self.init.info() {
                    Ok(info) => failure("init has ended with code", info.return_code),
                    Err(status) => failure("init has ended", status),
                };
            }
            // In descending order, so that a removal does not move entries that are still to be visited.
            for index in (0..self.clients.len()).rev() {
                // Clients that were added since the wait are at the end and have no item.
                if items.get(index + 1).is_none_or(|item| item.pending == 0) {
                    continue;
                }
                // Refuse a connection beyond the limit.
                let (full, mut more) = (self.clients.len() >= MAX_CLIENTS, None);
                let add = |handle| {
                    more = Some(Channel::from(handle)).filter(|_| !full);
                    if full { Err(Status::NO_RESOURCES) } else { Ok(()) }
                };
                let answered = loader::answer(&self.clients[index], |name| self.files.find(name), add);
                if !matches!(answered, Ok(Answered::Yes | Answered::Nothing)) {
                    drop(self.clients.remove(index));
                }
                self.clients.extend(more);
            }
        }
    }
}

fn item(object: &impl AsHandleRef, signals: Signals) -> zx_wait_item_t {
    zx_wait_item_t { handle: object.raw_handle(), waitfor: signals.bits(), pending: 0 }
}
