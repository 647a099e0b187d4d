//! Search for a program's file.
//!
//! A name with a slash is a path. Any other name is searched for in the directories of `PATH`: from the child's
//! environment, else from this process's own, else `/boot/bin`. The first directory that has a file of this name wins.

use alloc::format;
use alloc::string::{String, ToString};
use core::ffi::{CStr, c_char};

use abi::Status;
use zx::Vmo;

use crate::memory;

/// Search path if no `PATH` is set.
const DEFAULT_PATH: &str = "/boot/bin";

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *mut c_char;
}

/// The VMO of a program's file; `envp` is the child's environment, if it differs from this process's.
///
/// # Errors
/// A status for programs, and a sentence for users.
pub fn find(name: &str, envp: Option<&[&CStr]>) -> Result<Vmo, (Status, String)> {
    let found = if name.contains('/') { file(name) } else { search(name, &search_path(envp)) };
    found.map_err(|status| {
        let why = match status {
            Status::NOT_FOUND => "no such file".to_string(),
            Status::NOT_FILE => "not a file".to_string(),
            Status::INVALID_ARGS => "an empty file".to_string(),
            status => status.to_string(),
        };
        (status, format!("{name}: {why}"))
    })
}

fn search(name: &str, path: &str) -> Result<Vmo, Status> {
    let mut worst = Status::NOT_FOUND;
    // An empty directory in `PATH` means the working directory, as in POSIX.
    for folder in path.split(':').map(|folder| if folder.is_empty() { "." } else { folder }) {
        match file(&format!("{folder}/{name}")) {
            Err(Status::NOT_FOUND | Status::NOT_FILE | Status::NOT_DIR) => {}
            Err(status) => worst = status,
            found => return found,
        }
    }
    Err(worst)
}

fn search_path(envp: Option<&[&CStr]>) -> String {
    let given = envp.into_iter().flatten().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
    // SAFETY: a C string; the result is copied at once, and the environment must not change while a process is started.
    let own = || unsafe {
        let value = getenv(c"PATH".as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    };
    let bytes = given.or_else(own);
    bytes.and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or(DEFAULT_PATH).to_string()
}

/// The VMO of the file at a path.
fn file(path: &str) -> Result<Vmo, Status> {
    memory::program(path.as_bytes()).map_err(|status| match status {
        Status::NOT_SUPPORTED => Status::INVALID_ARGS,
        status => status,
    })
}
