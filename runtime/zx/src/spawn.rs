//! Starts programs through fdio, with handles that `std::process` does not support.
//!
//! [`Spawn`] collects the parts of the process and starts it. The process shares this one's loader service, UTC clock
//! and name space; the caller chooses its descriptors, its job and further handles.

use core::ffi::{c_char, c_void};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::string::{String, ToString};
use std::vec::Vec;

use crate::{AsHandleRef, Channel, Handle, Job, Process, Status, Vmo, sys};

const CLONE_JOB: u32 = 0x01;
const CLONE_LDSVC: u32 = 0x02;
const CLONE_NAMESPACE: u32 = 0x04;
const CLONE_ENVIRON: u32 = 0x10;
const CLONE_UTC_CLOCK: u32 = 0x20;
/// `HAFNON_FDIO_SPAWN_SHARED`.
const SHARED: u32 = 0x1_0000;
const ACTION_CLONE_FD: u32 = 1;
const ACTION_ADD_NS_ENTRY: u32 = 3;
const ACTION_ADD_HANDLE: u32 = 4;
const ACTION_SET_NAME: u32 = 5;
const MESSAGE: usize = 1024;
/// `PA_FD`: a descriptor; its number is the argument.
const DESCRIPTOR: u32 = 0x30;

unsafe extern "C" {
    fn fdio_spawn_etc(
        job: sys::zx_handle_t,
        flags: u32,
        path: *const c_char,
        argv: *const *const c_char,
        envp: *const *const c_char,
        action_count: usize,
        actions: *const Action,
        process: *mut sys::zx_handle_t,
        message: *mut c_char,
    ) -> i32;
    fn fdio_spawn_vmo(
        job: sys::zx_handle_t,
        flags: u32,
        executable: sys::zx_handle_t,
        argv: *const *const c_char,
        envp: *const *const c_char,
        action_count: usize,
        actions: *const Action,
        process: *mut sys::zx_handle_t,
        message: *mut c_char,
    ) -> i32;
}

/// `fdio_spawn_action_t`.
#[repr(C)]
struct Action {
    kind: u32,
    reserved: u32,
    first: u32,
    second: u32,
    third: u64,
}

impl Action {
    fn with_text(kind: u32, text: &CStr, third: u64) -> Action {
        let address = text.as_ptr().cast::<c_void>().expose_provenance() as u64;
        Action { kind, reserved: 0, first: address as u32, second: (address >> 32) as u32, third }
    }
}

/// Why a program was not started: a status for programs, and a sentence for users.
pub type Failure = (Status, String);

/// Source of the program.
#[derive(Debug)]
enum File {
    Path(String),
    Vmo(Vmo),
}

/// A process to start.
#[derive(Debug)]
pub struct Spawn<'a> {
    file: File,
    name: Option<String>,
    args: Vec<String>,
    env: Option<Vec<String>>,
    job: Option<&'a Job>,
    to_share: bool,
    handles: Vec<(u32, Handle)>,
    shared: Vec<(u16, BorrowedFd<'a>)>,
    entries: Vec<(String, Channel)>,
}

impl<'a> Spawn<'a> {
    fn new(file: File) -> Spawn<'a> {
        Spawn {
            file,
            name: None,
            args: Vec::new(),
            env: None,
            job: None,
            to_share: false,
            handles: Vec::new(),
            shared: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// The program in a file.
    pub fn file(path: &str) -> Spawn<'a> {
        Spawn::new(File::Path(path.to_string()))
    }

    /// The program in a VMO, which must be executable.
    pub fn vmo(executable: Vmo) -> Spawn<'a> {
        Spawn::new(File::Vmo(executable))
    }

    /// Sets the process's name; the default is the name of its file.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.name = Some(name.to_string());
        self
    }

    /// Adds an argument; the first is the program's name.
    pub fn arg(&mut self, arg: &str) -> &mut Self {
        self.args.push(arg.to_string());
        self
    }

    /// Adds a variable, `KEY=VALUE`, to an own environment. Without any, the process gets this process's environment.
    pub fn env(&mut self, variable: &str) -> &mut Self {
        self.env.get_or_insert_default().push(variable.to_string());
        self
    }

    /// Sets the job in which to start it, which is also its default job. The default is this process's.
    pub fn job(&mut self, job: &'a Job) -> &mut Self {
        self.job = Some(job);
        self
    }

    /// Lets other processes share it ([`Process::create_shared`]).
    pub fn to_share(&mut self) -> &mut Self {
        self.to_share = true;
        self
    }

    /// Adds a handle that becomes a descriptor.
    pub fn descriptor(&mut self, number: u16, handle: Handle) -> &mut Self {
        self.handle(DESCRIPTOR | u32::from(number) << 16, handle)
    }

    /// Adds a duplicate of one of this process's descriptors.
    pub fn descriptor_like(&mut self, number: u16, own: BorrowedFd<'a>) -> &mut Self {
        self.shared.push((number, own));
        self
    }

    /// Adds a handle for a purpose (`PA_*` and argument).
    pub fn handle(&mut self, purpose: u32, handle: Handle) -> &mut Self {
        self.handles.push((purpose, handle));
        self
    }

    /// Adds an entry to its name space.
    pub fn entry(&mut self, path: &str, channel: Channel) -> &mut Self {
        self.entries.push((path.to_string(), channel));
        self
    }

    /// Starts the process. Consumes all handles, even on failure.
    ///
    /// # Errors
    /// The status, and a sentence that describes it.
    pub fn start(self) -> Result<Process, Failure> {
        let wrong = |_| (Status::INVALID_ARGS, "a text with a NUL in it".to_string());
        let texts = |list: &[String]| -> Result<Vec<CString>, Failure> {
            list.iter().map(|text| CString::new(text.as_str()).map_err(wrong)).collect()
        };
        let args = texts(&self.args)?;
        let env = self.env.as_deref().map(texts).transpose()?;
        let name = self.name.map(CString::new).transpose().map_err(wrong)?;
        let (paths, channels): (Vec<String>, Vec<Channel>) = self.entries.into_iter().unzip();
        let paths = texts(&paths)?;
        let mut flags = CLONE_JOB | CLONE_LDSVC | CLONE_NAMESPACE | CLONE_UTC_CLOCK;
        if env.is_none() {
            flags |= CLONE_ENVIRON;
        }
        if self.to_share {
            flags |= SHARED;
        }
        let mut actions: Vec<Action> = Vec::new();
        for (path, channel) in paths.iter().zip(channels) {
            actions.push(Action::with_text(ACTION_ADD_NS_ENTRY, path, channel.into_handle().into_raw().into()));
        }
        for (purpose, handle) in self.handles {
            let second = handle.into_raw();
            actions.push(Action { kind: ACTION_ADD_HANDLE, reserved: 0, first: purpose, second, third: 0 });
        }
        for (number, own) in self.shared {
            let first = own.as_raw_fd() as u32;
            actions.push(Action { kind: ACTION_CLONE_FD, reserved: 0, first, second: number.into(), third: 0 });
        }
        if let Some(name) = &name {
            actions.push(Action::with_text(ACTION_SET_NAME, name, 0));
        }
        let (argv, envp) = (pointers(&args), env.as_deref().map(pointers));
        let envp = envp.as_ref().map_or(core::ptr::null(), |list| list.as_ptr());
        let job = self.job.map_or(0, AsHandleRef::raw_handle);
        let (mut process, mut message) = (0, [0_u8; MESSAGE]);
        let (count, list, text) = (actions.len(), actions.as_ptr(), message.as_mut_ptr().cast());
        let status = match self.file {
            File::Path(path) => {
                let path = CString::new(path).map_err(wrong)?;
                // SAFETY: C strings, null-terminated arrays of them, actions valid for their number, room for one
                // handle and for a message; all of them outlive the call.
                unsafe {
                    fdio_spawn_etc(job, flags, path.as_ptr(), argv.as_ptr(), envp, count, list, &mut process, text)
                }
            }
            File::Vmo(vmo) => {
                let vmo = vmo.into_handle().into_raw();
                // SAFETY: as above.
                unsafe { fdio_spawn_vmo(job, flags, vmo, argv.as_ptr(), envp, count, list, &mut process, text) }
            }
        };
        if status != 0 {
            let text = CStr::from_bytes_until_nul(&message).map(|text| text.to_string_lossy().into_owned());
            return Err((Status(status), text.unwrap_or_default()));
        }
        Handle::from_call(process).map(Process::from).map_err(|status| (status, String::new()))
    }
}

/// The addresses of C strings, with a null at the end.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([core::ptr::null()]).collect()
}
