//! Starting processes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int};

use abi::{Rights, Status};
use process_builder::{Launcher, loader};
use processargs::{HandleInfo, PA_CLOCK_UTC, PA_FD, PA_JOB_DEFAULT, PA_NS_DIR, PA_RESOURCE, PA_VMO_BOOTFS};
use zx::{AsHandleRef, Channel, Handle, HandleRef, Job, Unowned, Vmo};

use crate::namespace;
use crate::object::Object;
use crate::path::Device;
use crate::program;
use crate::services;
use crate::startup::{DIRECTORY, clone_fd, transfer_fd, vdso};
use crate::table;

const CLONE_JOB: u32 = 0x01;
const CLONE_LDSVC: u32 = 0x02;
const CLONE_NAMESPACE: u32 = 0x04;
const CLONE_STDIO: u32 = 0x08;
const CLONE_ENVIRON: u32 = 0x10;
const CLONE_UTC_CLOCK: u32 = 0x20;
/// The flags that Fuchsia defines or reserves.
const CLONE_ALL: u32 = 0xffff;
/// Other processes can share the new process's address space; an extension of this library.
const SHARED: u32 = 0x1_0000;
/// The caller tells the C library of the process itself, when it is ready for its end; another extension.
const UNTOLD: u32 = 0x2_0000;

const ACTION_NONE: u32 = 0;
const ACTION_CLONE_FD: u32 = 1;
const ACTION_TRANSFER_FD: u32 = 2;
const ACTION_ADD_NS_ENTRY: u32 = 3;
const ACTION_ADD_HANDLE: u32 = 4;
const ACTION_SET_NAME: u32 = 5;

/// Variable with the working directory of the child.
const PWD: &[u8] = b"PWD=";

/// Size in bytes of the caller's buffer for an error message.
const ERROR_MESSAGE_MAX: usize = 1024;

unsafe extern "C" {
    static environ: *const *const c_char;
    safe fn zx_job_default() -> u32;
    safe fn zx_utc_reference_get() -> u32;
    safe fn hafnon_startup_handle(info: u32) -> u32;
    safe fn __libc_child_started(process: u32);
    fn dl_clone_loader_service(out: *mut u32) -> i32;
}

/// `fdio_spawn_action_t`. Meaning of the two words after the kind, by kind: the local and the target descriptor; the
/// purpose of a handle and the handle; the address of a name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    kind: u32,
    reserved: u32,
    first: u32,
    second: u32,
    third: u64,
}

impl Action {
    fn address(&self) -> *const c_char {
        core::ptr::with_exposed_provenance((u64::from(self.first) | u64::from(self.second) << 32) as usize)
    }
}

/// Why a process was not started: a status for programs, and a sentence for users.
struct Failure(Status, String);

impl Failure {
    fn new(status: Status, text: impl ToString) -> Failure {
        Failure(status, text.to_string())
    }
}

/// Starts a program with copies of what `flags` selects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_spawn(
    job: u32,
    flags: u32,
    path: *const c_char,
    argv: *const *const c_char,
    process: *mut u32,
) -> i32 {
    use core::ptr::null;
    // SAFETY: the same conditions; no environment, no actions, no message.
    unsafe { fdio_spawn_etc(job, flags, path, argv, null(), 0, null(), process, core::ptr::null_mut()) }
}

/// Starts a program. Consumes the descriptors and handles of the actions, even on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_spawn_etc(
    job: u32,
    flags: u32,
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    action_count: usize,
    actions: *const Action,
    process: *mut u32,
    message: *mut c_char,
) -> i32 {
    // SAFETY: the caller's arrays and strings.
    let started = unsafe {
        let actions = if action_count == 0 { &[] } else { core::slice::from_raw_parts(actions, action_count) };
        // Perform the actions first, so that they consume their descriptors and handles even if a later step fails.
        let done = perform(actions);
        match c_path(path) {
            Ok(path) => {
                let envp = environment(envp);
                let file = program::find(path, envp.as_deref()).map_err(|(status, why)| Failure(status, why));
                spawn(job, flags, path, file, strings(argv), envp, done)
            }
            Err(failure) => Err(failure),
        }
    };
    // SAFETY: the caller's memory, or null.
    unsafe { give(started, process, message) }
}

/// Starts a program from a VMO with its file. Consumes the VMO, even on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_spawn_vmo(
    job: u32,
    flags: u32,
    executable: u32,
    argv: *const *const c_char,
    envp: *const *const c_char,
    action_count: usize,
    actions: *const Action,
    process: *mut u32,
    message: *mut c_char,
) -> i32 {
    // SAFETY: the caller's arrays and strings.
    let started = unsafe {
        let file = Handle::from_raw(executable)
            .map(Vmo::from)
            .ok_or_else(|| Failure::new(Status::BAD_HANDLE, "no executable's memory object"));
        let actions = if action_count == 0 { &[] } else { core::slice::from_raw_parts(actions, action_count) };
        let done = perform(actions);
        let argv = strings(argv);
        let name = argv.first().map_or("vmo", |name| name.to_str().unwrap_or("vmo"));
        spawn(job, flags, name, file, argv.clone(), environment(envp), done)
    };
    // SAFETY: the caller's memory, or null.
    unsafe { give(started, process, message) }
}

/// # Safety
/// `process` is null or points to a handle; `message` is null or has `ERROR_MESSAGE_MAX` bytes.
unsafe fn give(started: Result<zx::Process, Failure>, process: *mut u32, message: *mut c_char) -> i32 {
    let (status, text) = match started {
        Ok(started) => {
            if !process.is_null() {
                // SAFETY: as the caller says.
                unsafe { process.write(started.into_handle().into_raw()) };
            }
            (Status::OK, String::new())
        }
        Err(Failure(status, text)) => (status, text),
    };
    if !message.is_null() {
        let len = text.len().min(ERROR_MESSAGE_MAX - 1);
        // SAFETY: as the caller says.
        unsafe {
            message.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), len);
            message.add(len).write(0);
        }
    }
    status.0
}

/// # Safety
/// `path` is null or a C string.
unsafe fn c_path<'a>(path: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: as the caller says.
    unsafe { crate::c::text(path) }.map_err(|_| Failure::new(Status::INVALID_ARGS, "a path that is not UTF-8"))
}

/// The strings of a null-terminated array; none for null.
///
/// # Safety
/// The array and its strings live as long as the result is used.
unsafe fn strings<'a>(array: *const *const c_char) -> Vec<&'a CStr> {
    let mut strings = Vec::new();
    if !array.is_null() {
        // SAFETY: as the caller says.
        unsafe {
            let mut next = array;
            while !(*next).is_null() {
                strings.push(CStr::from_ptr(*next));
                next = next.add(1);
            }
        }
    }
    strings
}

/// The caller's environment, or `None` for null.
///
/// # Safety
/// As for [`strings`].
unsafe fn environment<'a>(array: *const *const c_char) -> Option<Vec<&'a CStr>> {
    // SAFETY: as the caller says.
    (!array.is_null()).then(|| unsafe { strings(array) })
}

/// Result of the actions.
struct ActionResults {
    handles: Vec<(HandleInfo, Handle)>,
    /// Entries of the child's name space.
    entries: Vec<(String, Handle)>,
    name: Option<String>,
    failure: Option<Failure>,
}

/// Performs all actions, even after one fails, so that every action consumes its descriptor or handle.
///
/// # Safety
/// Names are C strings.
unsafe fn perform(actions: &[Action]) -> ActionResults {
    let mut done = ActionResults { handles: Vec::new(), entries: Vec::new(), name: None, failure: None };
    for action in actions {
        let result = match action.kind {
            ACTION_NONE => Ok(()),
            ACTION_CLONE_FD => add_fd(&mut done, clone_fd, action),
            ACTION_TRANSFER_FD => add_fd(&mut done, transfer_fd, action),
            ACTION_ADD_HANDLE => match Handle::from_raw(action.second) {
                Some(handle) => {
                    done.handles.push((HandleInfo::from_word(action.first), handle));
                    Ok(())
                }
                None => Err(Failure::new(Status::INVALID_ARGS, "no handle to add")),
            },
            ACTION_SET_NAME => {
                // SAFETY: as the caller says.
                done.name = unsafe { crate::c::text(action.address()) }.ok().map(String::from);
                Ok(())
            }
            ACTION_ADD_NS_ENTRY => {
                let handle = Handle::from_raw(action.third as u32);
                // SAFETY: as the caller says.
                match (handle, unsafe { crate::c::text(action.address()) }) {
                    (Some(handle), Ok(path)) if path.starts_with('/') => {
                        done.entries.push((String::from(path), handle));
                        Ok(())
                    }
                    _ => Err(Failure::new(
                        Status::INVALID_ARGS,
                        "a name-space entry needs an absolute path and a handle",
                    )),
                }
            }
            other => Err(Failure::new(Status::INVALID_ARGS, format!("unknown action {other}"))),
        };
        if let Err(failure) = result {
            done.failure.get_or_insert(failure);
        }
    }
    done
}

/// Adds the handles of a descriptor, which `take` returns, to the child's handles.
fn add_fd(
    done: &mut ActionResults,
    take: impl FnOnce(c_int) -> Result<Vec<Handle>, Status>,
    action: &Action,
) -> Result<(), Failure> {
    let fd = action.first as c_int;
    // A device that returns data must not become `/dev/null` in the child.
    let gives = table::get(fd)
        .is_ok_and(|description| matches!(description.object, Object::Device(Device::Zero | Device::Random)));
    let handles = match take(fd) {
        Ok(handles) => handles,
        // A descriptor without a handle is closed in the child. If it is one of the first three, the child's fdio opens
        // `/dev/null` for it.
        Err(Status::NOT_SUPPORTED) if !(gives && action.second <= 2) => return Ok(()),
        Err(status) => return Err(Failure::new(status, format!("file descriptor {fd} cannot be handed over"))),
    };
    let target = u16::try_from(action.second as c_int)
        .map_err(|_| Failure::new(Status::INVALID_ARGS, "a target file descriptor out of range"))?;
    done.handles.extend(handles.into_iter().map(|handle| (HandleInfo::with_arg(PA_FD, target), handle)));
    Ok(())
}

fn spawn(
    job: u32,
    flags: u32,
    path: &str,
    file: Result<Vmo, Failure>,
    argv: Vec<&CStr>,
    envp: Option<Vec<&CStr>>,
    done: ActionResults,
) -> Result<zx::Process, Failure> {
    let ActionResults { handles, mut entries, name, failure } = done;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if flags & !(CLONE_ALL | SHARED | UNTOLD) != 0 {
        return Err(Failure::new(Status::INVALID_ARGS, "unknown flags"));
    }
    let file = file?;
    let job_value = if job == 0 { zx_job_default() } else { job };
    let job = Unowned::<Job>::from_raw(job_value)
        .ok_or_else(|| Failure::new(Status::BAD_HANDLE, "no job to start a process in"))?;
    let vdso = vdso().ok_or_else(|| Failure::new(Status::BAD_STATE, "this process was not given the vDSO"))?;
    let last = path.rsplit('/').next().unwrap_or(path);
    let name = name.unwrap_or_else(|| String::from(last));
    let mut launcher = Launcher::new(&name, file, &vdso);

    if flags & SHARED != 0 {
        launcher.shared();
    }

    let given = |wanted: HandleInfo| handles.iter().any(|(info, _)| *info == wanted);
    let mut extra: Vec<(HandleInfo, Handle)> = Vec::new();
    let mut again = |info: HandleInfo, value: u32| -> Result<(), Failure> {
        if value != 0 && !given(info) {
            let handle = HandleRef::from_raw(value)
                .duplicate_handle(Rights::SAME_RIGHTS)
                .map_err(|status| Failure::new(status, "a handle cannot be duplicated for the child"))?;
            extra.push((info, handle));
        }
        Ok(())
    };
    if flags & CLONE_JOB != 0 {
        again(HandleInfo::new(PA_JOB_DEFAULT), job_value)?;
        // If this process received the root resource and has not taken it, the child receives it too.
        again(HandleInfo::new(PA_RESOURCE), hafnon_startup_handle(PA_RESOURCE.into()))?;
    }
    if flags & CLONE_NAMESPACE != 0
        && let Some(boot) = namespace::boot()
    {
        again(HandleInfo::new(PA_VMO_BOOTFS), boot.image.raw_handle())?;
    }
    if flags & CLONE_NAMESPACE != 0 {
        // The caller's entries replace this process's own.
        let given: Vec<String> = entries.iter().map(|(path, _)| path.clone()).collect();
        entries.extend(own_entries().into_iter().filter(|(path, _)| !given.contains(path)));
    }
    if flags & CLONE_UTC_CLOCK != 0 {
        again(HandleInfo::new(PA_CLOCK_UTC), zx_utc_reference_get())?;
    }
    if flags & CLONE_STDIO != 0 {
        for fd in 0..3u16 {
            let info = HandleInfo::with_arg(PA_FD, fd);
            if !given(info)
                && table::in_use(fd.into())
                && let Ok(handles) = clone_fd(fd.into())
            {
                extra.extend(handles.into_iter().map(|handle| (info, handle)));
            }
        }
    }
    if flags & CLONE_LDSVC != 0 {
        launcher.loader(clone_loader().map_err(|status| Failure::new(status, "no loader service"))?);
    }
    let (paths, entries): (Vec<String>, Vec<Handle>) = entries.into_iter().unzip();
    for ((path, handle), number) in paths.iter().zip(entries).zip(0..) {
        launcher.name(path.as_bytes()).handle(HandleInfo::with_arg(PA_NS_DIR, number), handle);
    }
    for (info, handle) in handles.into_iter().chain(extra) {
        launcher.handle(info, handle);
    }

    if argv.is_empty() {
        launcher.arg(path.as_bytes());
    }
    for arg in argv {
        launcher.arg(arg.to_bytes());
    }
    // SAFETY: the C library's array, which must not change while a process is started.
    let own = unsafe { strings(environ) };
    let told = value_of(&own, PWD);
    let envp = match envp {
        Some(envp) => envp,
        None if flags & CLONE_ENVIRON != 0 => own.clone(),
        None => Vec::new(),
    };
    let directory = working_directory(value_of(&envp, PWD), told);
    if let Some(directory) = &directory {
        launcher.env(directory);
    }
    for entry in envp {
        launcher.env(entry.to_bytes());
    }
    let find = |name: &str, loader: Option<&Channel>| match loader {
        Some(loader) => loader::load_object(loader, name),
        None => Err(Status::NOT_FOUND),
    };
    match launcher.start(&job, find) {
        Ok(started) => {
            if flags & UNTOLD == 0 {
                __libc_child_started(started.process.raw_handle());
            }
            Ok(started.process)
        }
        Err(error) => Err(Failure::new(error.status(), format!("{path}: {error}"))),
    }
}

/// The entries of this process's name space, each with a new channel. `/boot` is not an entry.
fn own_entries() -> Vec<(String, Handle)> {
    let mut entries = namespace::entries();
    entries.extend(services::another().map(|channel| (String::from(services::PATH), channel.into_handle())));
    entries
}

/// The environment variable that makes a child's fdio start in this process's working directory; fdio removes it before
/// the child's `main`. `None` if the child starts there anyway, or if the `PWD` in its environment differs from the one
/// that this process was started with (`told`): then the caller has chosen the child's working directory.
fn working_directory(given: Option<&[u8]>, told: Option<&[u8]>) -> Option<Vec<u8>> {
    let current = namespace::working_directory();
    let usual = given
        .map_or_else(|| current == namespace::default_directory(), |given| given == current || told != Some(given));
    (!usual).then(|| [DIRECTORY, &current].concat())
}

/// The value of a variable; `name` ends with `=`.
fn value_of<'a>(entries: &[&'a CStr], name: &[u8]) -> Option<&'a [u8]> {
    entries.iter().find_map(|entry| entry.to_bytes().strip_prefix(name))
}

fn clone_loader() -> Result<Channel, Status> {
    let mut out = 0;
    // SAFETY: `out` has room for a handle.
    match unsafe { dl_clone_loader_service(&mut out) } {
        0 => Handle::from_raw(out).map(Channel::from).ok_or(Status::NOT_FOUND),
        status => Err(Status(status)),
    }
}
