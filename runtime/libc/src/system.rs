//! This process: its handles, its memory, and information about the system (`sysconf` and others).

use crate::errno::{self, EINVAL, ERANGE};
use crate::lock::Lock;
use crate::sys::{self, Handle, Status};
use crate::thread;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_long};
use core::sync::atomic::{AtomicU32, Ordering};
use processargs::{HandleInfo, PA_CLOCK_UTC, PA_JOB_DEFAULT, PA_PROC_SELF, PA_VMAR_ROOT};
use zx::{HandleRef, Info};

static PROCESS: AtomicU32 = AtomicU32::new(sys::HANDLE_INVALID);
static JOB: AtomicU32 = AtomicU32::new(sys::HANDLE_INVALID);
static ROOT_VMAR: AtomicU32 = AtomicU32::new(sys::HANDLE_INVALID);
static UTC_CLOCK: AtomicU32 = AtomicU32::new(sys::HANDLE_INVALID);

/// Start-up handles that have not been taken: purpose and handle.
static UNCLAIMED: Lock<Vec<(u32, Handle)>> = Lock::new(Vec::new());

/// Keeps `handle` if this library uses its type; returns false if the caller keeps it.
pub fn adopt(info: HandleInfo, handle: Handle) -> bool {
    let place = match info.kind {
        PA_PROC_SELF => &PROCESS,
        PA_JOB_DEFAULT => &JOB,
        PA_VMAR_ROOT => &ROOT_VMAR,
        PA_CLOCK_UTC => &UTC_CLOCK,
        _ => return false,
    };
    let old = place.swap(handle, Ordering::Relaxed);
    if old != sys::HANDLE_INVALID {
        // SAFETY: the previous handle belongs to this library and is no longer reachable.
        unsafe { sys::zx_handle_close(old) };
    }
    true
}

/// Keeps a start-up handle for `zx_take_startup_handle`.
pub fn keep_unclaimed(info: u32, handle: Handle) {
    UNCLAIMED.lock().push((info, handle));
}

/// The handle of the UTC clock, or 0.
pub fn utc_clock() -> Handle {
    UTC_CLOCK.load(Ordering::Relaxed)
}

/// The handle of the root VMAR.
pub fn root_vmar() -> Handle {
    ROOT_VMAR.load(Ordering::Relaxed)
}

macro_rules! handle_getters {
    ($($(#[$doc:meta])* $name:ident, $alias:ident => $place:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> Handle {
            $place.load(Ordering::Relaxed)
        }

        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $alias() -> Handle {
            $name()
        }
    )*};
}

handle_getters! {
    /// This process. The library keeps ownership of the handle.
    zx_process_self, _zx_process_self => PROCESS;
    /// The job for new processes. The library keeps ownership of the handle.
    zx_job_default, _zx_job_default => JOB;
    /// The root VMAR. The library keeps ownership of the handle.
    zx_vmar_root_self, _zx_vmar_root_self => ROOT_VMAR;
    /// The UTC clock, or 0. The library keeps ownership of the handle.
    zx_utc_reference_get, _zx_utc_reference_get => UTC_CLOCK;
}

/// The calling thread. The library keeps ownership of the handle.
#[unsafe(no_mangle)]
pub extern "C" fn zx_thread_self() -> Handle {
    thread::current_handle()
}

/// The calling thread. The library keeps ownership of the handle.
#[unsafe(no_mangle)]
pub extern "C" fn _zx_thread_self() -> Handle {
    thread::current_handle()
}

/// Replaces the UTC clock and returns the previous one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zx_utc_reference_swap(clock: Handle, old: *mut Handle) -> Status {
    let previous = UTC_CLOCK.swap(clock, Ordering::Relaxed);
    // SAFETY: `old` has room for the result.
    unsafe { *old = previous };
    sys::OK
}

/// Transfers the start-up handle with this purpose to the caller, once; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn zx_take_startup_handle(info: u32) -> Handle {
    let mut unclaimed = UNCLAIMED.lock();
    match unclaimed.iter().position(|&(kind, _)| kind == info) {
        Some(index) => unclaimed.swap_remove(index).1,
        None => sys::HANDLE_INVALID,
    }
}

/// The start-up handle with this purpose; the library keeps ownership. 0 if there is none or it has been taken.
#[unsafe(no_mangle)]
pub extern "C" fn hafnon_startup_handle(info: u32) -> Handle {
    let unclaimed = UNCLAIMED.lock();
    unclaimed.iter().find(|&&(kind, _)| kind == info).map_or(sys::HANDLE_INVALID, |&(_, handle)| handle)
}

/// Maps `size` bytes of new zeroed memory, readable and writable, at any address.
pub fn map_memory(size: usize, name: &CStr) -> Result<usize, Status> {
    let mut vmo = sys::HANDLE_INVALID;
    let mut address = 0;
    // SAFETY: there is room for the results; the mapping keeps the VMO, so the handle can be closed.
    unsafe {
        check(sys::zx_vmo_create(size as u64, 0, &mut vmo))?;
        sys::zx_object_set_property(vmo, sys::PROP_NAME, name.as_ptr().cast(), name.count_bytes());
        let rights = sys::VM_PERM_READ | sys::VM_PERM_WRITE;
        let status = sys::zx_vmar_map(root_vmar(), rights, 0, vmo, 0, size, &mut address);
        sys::zx_handle_close(vmo);
        check(status)?;
    }
    Ok(address)
}

/// Unmaps a range of the root VMAR.
pub fn unmap(address: usize, size: usize) -> Status {
    // SAFETY: the range is the caller's own mapping.
    unsafe { sys::zx_vmar_unmap(root_vmar(), address, size) }
}

/// Converts a status to a result.
pub fn check(status: Status) -> Result<(), Status> {
    if status == sys::OK { Ok(()) } else { Err(status) }
}

/// A value of the system; -1 with EINVAL for an unknown name, -1 alone for "no limit".
#[unsafe(no_mangle)]
pub extern "C" fn sysconf(name: i32) -> c_long {
    match name {
        0 => 131_072,   // _SC_ARG_MAX: two messages' worth at most
        2 => 1_000_000, // _SC_CLK_TCK: microseconds, as CLOCKS_PER_SEC
        4 => 65536,     // _SC_OPEN_MAX: fdio's limit
        29 => 200_809,  // _SC_VERSION
        30 => sys::PAGE_SIZE as c_long,
        60 => 1024,                   // _SC_IOV_MAX
        67 | 68 | 77 | 78 => 200_809, // threads, their stacks: present
        69 | 70 => 1024,              // _SC_GETGR_R_SIZE_MAX, _SC_GETPW_R_SIZE_MAX
        73 => 4,                      // _SC_THREAD_DESTRUCTOR_ITERATIONS
        74 => thread::KEYS as c_long,
        75 => thread::STACK_MIN as c_long,
        76 => -1, // _SC_THREAD_THREADS_MAX: memory is the limit
        // SAFETY: the vDSO answers this without a system call.
        83 | 84 => unsafe { c_long::from(sys::zx_system_get_num_cpus()) },
        // SAFETY: as above.
        85 => unsafe { (sys::zx_system_get_physmem() / sys::PAGE_SIZE as u64) as c_long },
        180 => 255, // _SC_HOST_NAME_MAX
        _ => c_long::from(errno::fail(EINVAL)),
    }
}

/// Page size in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn getpagesize() -> i32 {
    sys::PAGE_SIZE as i32
}

/// The low bits of this process's koid. They are unique during its life unless billions of objects were created.
#[unsafe(no_mangle)]
pub extern "C" fn getpid() -> i32 {
    let koid = HandleRef::from_raw(zx_process_self()).koid();
    koid.map_or(1, |koid| (koid & 0x7fff_ffff) as i32)
}

/// A process does not know its parent: 0, as in a process without a parent.
#[unsafe(no_mangle)]
pub extern "C" fn getppid() -> i32 {
    0
}

macro_rules! no_users {
    ($($name:ident)*) => {$(
        /// There are no users: rights come only from handles.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> u32 {
            0
        }
    )*};
}
no_users!(getuid geteuid getgid getegid);

/// The name of this host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostname(name: *mut c_char, size: usize) -> i32 {
    let host = c"hafnon".to_bytes_with_nul();
    if size < host.len() {
        return errno::fail(ERANGE);
    }
    // SAFETY: the caller's buffer is large enough, as checked above.
    unsafe { core::ptr::copy_nonoverlapping(host.as_ptr(), name.cast(), host.len()) };
    0
}
