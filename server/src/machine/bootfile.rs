//! The boot file, which the root task serves.
//!
//! The device behind it can write to any memory, so the server has no access to the device. The server asks the root
//! task, which has the device fill a buffer that the server can only read.

use alloc::vec::Vec;

use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{Frame, Memory as _, PAGE, PAGE_SIZE};
use server_boot::layout::{BOOT_FILE, CHUNK};
use server_boot::service;

use super::{Sel4, sys};

/// Why there is no boot file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The machine was started without one.
    NotFound,
    /// The device reported an error.
    Io,
    /// It does not fit into memory.
    OutOfMemory,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::NotFound => "the machine has no boot file",
            Error::Io => "the boot file cannot be read",
            Error::OutOfMemory => "the boot file does not fit into memory",
        })
    }
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Error::OutOfMemory
    }
}

/// The boot file's size in bytes.
pub fn size() -> Result<u64, Error> {
    match sys::call_root(service::SIZE, [0; 2]) {
        (service::OK, size) => Ok(size),
        (service::NOT_FOUND, _) => Err(Error::NotFound),
        _ => Err(Error::Io),
    }
}

/// Reads the whole file, of `size` bytes, into pages. On an error the filled pages are lost; without its boot file the
/// system does not start anyway.
pub fn load(machine: &mut Sel4, size: u64) -> Result<Vec<Frame>, Error> {
    let mut frames = Vec::new();
    frames.room_exact(size.div_ceil(PAGE) as usize).map_err(|_| Error::OutOfMemory)?;
    for offset in (0..size).step_by(CHUNK as usize) {
        let wanted = (size - offset).min(CHUNK);
        match sys::call_root(service::READ, [offset, wanted]) {
            (service::OK, read) if read == wanted => {}
            _ => return Err(Error::Io),
        }
        for part in (0..wanted).step_by(PAGE_SIZE) {
            let frame = machine.frame_alloc()?;
            machine.frame_fill(frame, (BOOT_FILE + part) as usize, (wanted - part).min(PAGE) as usize);
            frames.push(frame);
        }
    }
    Ok(frames)
}
