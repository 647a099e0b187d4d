//! `mmap` and related functions, on top of VMOs in the root VMAR.
//!
//! Anonymous memory is a new VMO, which is committed when it is touched. It can be made executable later, as JIT
//! compilers do, unless the job's policy forbids that. A file's VMO comes from libfdio, if that is loaded
//! (`fdio_get_vmo_copy` for private writable mappings, `fdio_get_vmo_exact` for all others).

use crate::errno::{self, EACCES, EBADF, EEXIST, EINVAL, ENODEV, ENOMEM, ENOTSUP};
use crate::loader;
use crate::sys::{self, Handle, PAGE_SIZE};
use crate::system::root_vmar;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const PROT_EXEC: c_int = 4;
const MAP_PRIVATE: c_int = 2;
const MAP_FIXED: c_int = 0x10;
const MAP_ANON: c_int = 0x20;
/// As `MAP_FIXED`, but nothing is replaced.
const MAP_FIXED_NOREPLACE: c_int = 0x10_0000;
/// Flags that are met in any case (`MAP_STACK`, `MAP_NORESERVE`), hints (`MAP_POPULATE`, `MAP_NONBLOCK`), and flags of
/// old systems that Linux does not look at either (`MAP_DENYWRITE`, `MAP_EXECUTABLE`).
const MAP_HINTS: c_int = 0x2_0000 | 0x4000 | 0x8000 | 0x1_0000 | 0x800 | 0x1000;
/// `MAP_SHARED` of a file, and unknown flags are an error, which they always are here.
const MAP_SHARED_VALIDATE: c_int = 3;
/// Memory for code that is generated at run time, under Zircon's name.
const MAP_JIT: c_int = 0x8_0000;
/// `ZX_ERR_ALREADY_EXISTS`: something is mapped there.
const ALREADY_EXISTS: sys::Status = -26;
const FAILED: *mut c_void = usize::MAX as *mut c_void;

/// Writable or executable memory is also readable: POSIX allows a system to grant more than was requested.
fn with_reading(protection: c_int) -> c_int {
    if protection & (PROT_WRITE | PROT_EXEC) != 0 { protection | PROT_READ } else { protection }
}

fn rights(protection: c_int) -> u32 {
    [(PROT_READ, sys::VM_PERM_READ), (PROT_WRITE, sys::VM_PERM_WRITE), (PROT_EXEC, sys::VM_PERM_EXECUTE)]
        .iter()
        .filter(|(flag, _)| protection & flag != 0)
        .fold(0, |all, (_, right)| all | right)
}

fn failed(error: c_int) -> *mut c_void {
    errno::set(error);
    FAILED
}

fn error_of(status: sys::Status) -> c_int {
    match status {
        // There is no room, or the range is not free.
        sys::ERR_NO_MEMORY | -3 | -54 | -26 | -16 => ENOMEM,
        sys::ERR_ACCESS_DENIED => EACCES,
        _ => EINVAL,
    }
}

/// Base address of the root VMAR, to which fixed addresses are relative, and its length.
fn root() -> Option<[usize; 2]> {
    const INFO_VMAR: u32 = 7;
    let mut info = [0usize; 2];
    let (place, size) = (info.as_mut_ptr().cast(), size_of_val(&info));
    let none = core::ptr::null_mut;
    // SAFETY: `zx_info_vmar_t` is two words, the base and the length.
    let status = unsafe { sys::zx_object_get_info(root_vmar(), INFO_VMAR, place, size, none(), none()) };
    (status == sys::OK).then_some(info)
}

/// Whether the job's policy has denied this process executable memory. Policies of jobs with processes do not change.
static NEVER_EXECUTABLE: AtomicBool = AtomicBool::new(false);

/// Creates a VMO that can be made executable, if the system allows that; if `now`, it must be executable.
fn anonymous_memory(size: usize, now: bool) -> Result<Handle, c_int> {
    let create = || {
        let mut memory = sys::HANDLE_INVALID;
        // SAFETY: there is room for the result.
        match unsafe { sys::zx_vmo_create(size as u64, 0, &mut memory) } {
            sys::OK => Ok(memory),
            // Larger than any VMO can be.
            sys::ERR_OUT_OF_RANGE => Err(ENOMEM),
            status => Err(error_of(status)),
        }
    };
    let plain = create()?;
    if !now && NEVER_EXECUTABLE.load(Ordering::Relaxed) {
        return Ok(plain);
    }
    let mut memory = sys::HANDLE_INVALID;
    // SAFETY: as above; the call consumes the old handle even on failure.
    match unsafe { sys::zx_vmo_replace_as_executable(plain, sys::HANDLE_INVALID, &mut memory) } {
        sys::OK => Ok(memory),
        sys::ERR_ACCESS_DENIED => {
            NEVER_EXECUTABLE.store(true, Ordering::Relaxed);
            if now { Err(EACCES) } else { create() }
        }
        status => Err(error_of(status)),
    }
}

/// The VMO of a file.
fn file_memory(descriptor: c_int, flags: c_int, protection: c_int) -> Result<Handle, c_int> {
    type Get = unsafe extern "C" fn(c_int, *mut Handle) -> sys::Status;
    let private = flags & MAP_PRIVATE != 0;
    let name: &[u8] =
        if private && protection & PROT_WRITE != 0 { b"fdio_get_vmo_copy" } else { b"fdio_get_vmo_exact" };
    let get = loader::find_global(name).ok_or(ENODEV)?;
    let mut memory = sys::HANDLE_INVALID;
    // SAFETY: libfdio's functions have this type.
    match unsafe { core::mem::transmute::<usize, Get>(get)(descriptor, &mut memory) } {
        sys::OK => Ok(memory),
        sys::ERR_BAD_HANDLE => Err(EBADF),
        _ => Err(ENODEV),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    hint: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    if len >= isize::MAX as usize {
        return failed(ENOMEM);
    }
    if protection & !(PROT_READ | PROT_WRITE | PROT_EXEC) != 0 {
        return failed(EINVAL);
    }
    const KNOWN: c_int = MAP_SHARED_VALIDATE | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_ANON | MAP_JIT | MAP_HINTS;
    // Others would have to do what they say: memory that grows, is locked, consists of large pages, or lies low.
    if flags & !KNOWN != 0 {
        return failed(ENOTSUP);
    }
    let protection = with_reading(protection);
    let kind = flags & MAP_SHARED_VALIDATE;
    // Both bits are a kind for files only.
    let one = kind != 0 && (kind != MAP_SHARED_VALIDATE || flags & MAP_ANON == 0);
    let flags = if kind == MAP_SHARED_VALIDATE { flags & !MAP_PRIVATE } else { flags };
    let Some(size) = len.checked_next_multiple_of(PAGE_SIZE).filter(|&size| one && size > 0) else {
        return failed(EINVAL);
    };
    let Some(offset) = u64::try_from(offset).ok().filter(|offset| offset % PAGE_SIZE as u64 == 0) else {
        return failed(EINVAL);
    };
    let mut options = rights(protection);
    let mut at = 0;
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
        match root().and_then(|[base, _]| (hint as usize).checked_sub(base)).filter(|at| at % PAGE_SIZE == 0) {
            Some(offset) => at = offset,
            None => return failed(EINVAL),
        }
        let keeps = flags & MAP_FIXED_NOREPLACE != 0;
        options |= if keeps { sys::VM_SPECIFIC } else { sys::VM_SPECIFIC_OVERWRITE };
    }
    let anonymous = flags & MAP_ANON != 0;
    let memory = if anonymous {
        anonymous_memory(size, protection & PROT_EXEC != 0 || flags & MAP_JIT != 0)
    } else {
        file_memory(descriptor, flags, protection)
    };
    let memory = match memory {
        Ok(memory) => memory,
        Err(error) => return failed(error),
    };
    let mut address = 0;
    // SAFETY: there is room for the result; with MAP_FIXED the caller wants the old mappings to be replaced.
    let status = unsafe {
        let from = if anonymous { 0 } else { offset };
        let status = sys::zx_vmar_map(root_vmar(), options, at, memory, from, size, &mut address);
        sys::zx_handle_close(memory);
        status
    };
    if status == sys::OK {
        return address as *mut c_void;
    }
    if status == ALREADY_EXISTS {
        return failed(EEXIST);
    }
    // Larger than the address space.
    let fits = root().is_none_or(|[_, all]| at.checked_add(size).is_some_and(|end| end <= all));
    failed(if fits { error_of(status) } else { ENOMEM })
}

/// Unmaps a range, whatever is mapped there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, len: usize) -> c_int {
    let Some(size) = len.checked_next_multiple_of(PAGE_SIZE).filter(|&size| size > 0) else {
        return errno::fail(EINVAL);
    };
    match crate::system::unmap(address as usize, size) {
        // Nothing is mapped there: POSIX defines that as success.
        sys::OK | sys::ERR_NOT_FOUND => 0,
        status => errno::fail(error_of(status)),
    }
}

/// Changes the protection of a mapped range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, len: usize, protection: c_int) -> c_int {
    if protection & !(PROT_READ | PROT_WRITE | PROT_EXEC) != 0 {
        return errno::fail(EINVAL);
    }
    // Write-only or execute-only memory does not exist. The call fails, as in Zircon's own library, and as POSIX
    // allows.
    if protection != with_reading(protection) {
        return errno::fail(ENOTSUP);
    }
    let start = address as usize & !(PAGE_SIZE - 1);
    let size = (address as usize - start).checked_add(len).and_then(|size| size.checked_next_multiple_of(PAGE_SIZE));
    let Some(size) = size.filter(|&size| size > 0) else { return errno::fail(EINVAL) };
    // SAFETY: the caller's own range.
    match unsafe { sys::zx_vmar_protect(root_vmar(), rights(protection), start, size) } {
        sys::OK => 0,
        // Part of the range is not mapped, or it exceeds the address space.
        sys::ERR_NOT_FOUND | sys::ERR_INVALID_ARGS => errno::fail(ENOMEM),
        status => errno::fail(error_of(status)),
    }
}

/// Advice about a program's future accesses has no effect: pages are committed when they are touched, and there is no
/// `fork`. Advice that must change memory fails (`MADV_DONTNEED`, which zeroes pages; `MADV_REMOVE`; making a page
/// fail), because this library does not know whether a mapping is a file's, whose content would be lost.
#[unsafe(no_mangle)]
pub extern "C" fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    const NORMAL: c_int = 0;
    const WILL_NEED: c_int = 3;
    // The pages it frees may stay as they are until memory is short.
    const FREE: c_int = 8;
    const DO_NOT_FORK: c_int = 10;
    const PAGE_OUT: c_int = 21;
    let range = (address as usize).is_multiple_of(PAGE_SIZE) && (address as usize).checked_add(len).is_some();
    let hint = matches!(advice, NORMAL..=WILL_NEED | FREE | DO_NOT_FORK..=PAGE_OUT);
    if range && hint { 0 } else { errno::fail(EINVAL) }
}
