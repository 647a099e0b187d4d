//! VMOs of files, for `mmap` and for starting programs.

use core::ffi::c_int;

use abi::{Rights, Status};
use zx::Vmo;

use crate::c::{AT_FDCWD, Errno, O_RDONLY};
use crate::object::{File, Object, file_memory};
use crate::open::open_at;
use crate::remote::READ_ONLY;
use crate::table;

type Result<T> = core::result::Result<T, Status>;

/// The VMO of an open file, for `mmap`. If the file system keeps the file in memory and the file is open for writing,
/// writes to the VMO change the file. If the file is on a disk, the VMO is a read-only copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_get_vmo_exact(fd: c_int, out: *mut u32) -> i32 {
    give_vmo(
        with(fd, |object| match object {
            Object::File(file) => file_memory(file),
            Object::Remote(file) => match file.memory() {
                Err(Status::NOT_SUPPORTED) => file.copy()?.replace(READ_ONLY),
                memory => memory,
            },
            _ => Err(Status::NOT_SUPPORTED),
        }),
        out,
    )
}

/// A VMO with a writable copy of an open file, for private mappings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_get_vmo_copy(fd: c_int, out: *mut u32) -> i32 {
    give_vmo(
        with(fd, |object| match object {
            Object::File(file) => copy_of(file),
            Object::Remote(file) => file.copy(),
            _ => Err(Status::NOT_SUPPORTED),
        }),
        out,
    )
}

fn with(fd: c_int, get: impl FnOnce(&Object) -> Result<Vmo>) -> Result<Vmo> {
    get(&table::get(fd).map_err(|_| Status::BAD_HANDLE)?.object)
}

fn copy_of(file: &File) -> Result<Vmo> {
    let copy = Vmo::create(file.size, 0)?;
    let mut buffer = alloc::vec![0; 64 << 10];
    let mut done = 0;
    loop {
        let len = file.read_at(done, &mut buffer).map_err(|_: Errno| Status::IO)?;
        if len == 0 {
            return copy.replace(Rights::SAME_RIGHTS);
        }
        copy.write(&buffer[..len], done)?;
        done += len as u64;
    }
}

/// The VMO of a program's file. It is executable, and later changes of the file do not affect it.
///
/// # Errors
/// `NOT_FOUND`, `NOT_FILE`, `NOT_DIR`, `ACCESS_DENIED`: the file does not exist, is not a file, and so on. `IO`.
pub fn program(path: &[u8]) -> Result<Vmo> {
    use crate::c::{EACCES, ENOENT, ENOTDIR};
    let object = open_at(AT_FDCWD, path, O_RDONLY, 0).map_err(|error| match error {
        ENOENT => Status::NOT_FOUND,
        ENOTDIR => Status::NOT_DIR,
        EACCES => Status::ACCESS_DENIED,
        _ => Status::IO,
    })?;
    match &object {
        Object::File(file) => file_memory(file),
        Object::Remote(file) if file.opened.kind == file_protocol::Kind::File => {
            if file.attributes().map_err(|_| Status::IO)?.mode & 0o111 == 0 {
                return Err(Status::ACCESS_DENIED);
            }
            file.copy()?.replace_as_executable(None)
        }
        _ => Err(Status::NOT_FILE),
    }
}

fn give_vmo(vmo: Result<Vmo>, out: *mut u32) -> i32 {
    match vmo {
        Ok(vmo) => {
            // SAFETY: `out` points to the caller's handle.
            unsafe { out.write(vmo.into_handle().into_raw()) };
            0
        }
        Err(status) => status.0,
    }
}
