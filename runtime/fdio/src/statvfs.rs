//! `statvfs`: size and free space of file systems.

use core::ffi::{c_char, c_int};

use file_protocol::Information;

use crate::c::{self, AT_FDCWD, Result};
use crate::namespace::{locate_at, look_up};
use crate::object::Object;
use crate::remote::PathResult;
use crate::table;

const ST_RDONLY: u64 = 1;

/// `struct statvfs`.
#[repr(C)]
#[derive(Default)]
pub struct StatVfs {
    block: u64,
    fragment: u64,
    blocks: u64,
    free: u64,
    available: u64,
    files: u64,
    files_free: u64,
    files_available: u64,
    id: u64,
    flags: u64,
    name_max: u64,
    spare: [c_int; 6],
}

impl From<Information> for StatVfs {
    fn from(information: Information) -> StatVfs {
        let block = u64::from(information.block.max(1));
        let free = information.bytes.saturating_sub(information.used_bytes) / block;
        let files_free = information.nodes.saturating_sub(information.used_nodes);
        StatVfs {
            block,
            fragment: block,
            blocks: information.bytes / block,
            free,
            available: free,
            files: information.nodes,
            files_free,
            files_available: files_free,
            id: information.tree,
            flags: if information.read_only { ST_RDONLY } else { 0 },
            name_max: file_protocol::NAME_MAX as u64,
            spare: [0; 6],
        }
    }
}

/// This library's own part of the name space: one block, and no free space, because nothing can be added.
fn here() -> StatVfs {
    let name_max = file_protocol::NAME_MAX as u64;
    StatVfs { block: 4096, fragment: 4096, blocks: 1, id: 1, flags: ST_RDONLY, name_max, ..StatVfs::default() }
}

fn give(information: Result<StatVfs>, out: *mut StatVfs) -> c_int {
    // SAFETY: the caller's structure, as each caller says.
    c::done(information.map(|information| unsafe { out.write(information) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn statvfs(path: *const c_char, out: *mut StatVfs) -> c_int {
    // SAFETY: a C string, as the caller says.
    let information = unsafe { c::bytes(path) }.and_then(|path| {
        locate_at(AT_FDCWD, path)?.reach(
            |path| look_up(path).map(|_| here()),
            |remote, path| {
                Ok(match remote.attributes(path, true)? {
                    PathResult::Done(_) => PathResult::Done(remote.information()?.into()),
                    PathResult::Elsewhere { second, above, rest } => PathResult::Elsewhere { second, above, rest },
                })
            },
        )
    });
    give(information, out)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstatvfs(fd: c_int, out: *mut StatVfs) -> c_int {
    let information = table::get(fd).and_then(|description| match &description.object {
        Object::Remote(file) => Ok(file.remote.information()?.into()),
        _ => Ok(here()),
    });
    give(information, out)
}
