//! Memory mappings.
//!
//! As with the address-space calls of the crate `zx`, the caller is responsible for what is at an address.

use std::ffi::c_void;

pub const PROT_NONE: i32 = 0;
pub const PROT_READ: i32 = 1;
pub const PROT_WRITE: i32 = 2;
pub const PROT_EXEC: i32 = 4;
pub const MAP_SHARED: i32 = 1;
pub const MAP_PRIVATE: i32 = 2;
pub const MAP_FIXED: i32 = 0x10;
pub const MAP_ANON: i32 = 0x20;
pub const EBADF: i32 = 9;
pub const ENOMEM: i32 = 12;
pub const EINVAL: i32 = 22;
pub const ENOTSUP: i32 = 95;

mod c {
    use super::c_void;

    unsafe extern "C" {
        pub safe fn mmap(
            hint: *mut c_void,
            len: usize,
            protection: i32,
            flags: i32,
            file: i32,
            offset: i64,
        ) -> *mut c_void;
        pub safe fn munmap(address: *mut c_void, len: usize) -> i32;
        pub safe fn mprotect(address: *mut c_void, len: usize, protection: i32) -> i32;
    }
}

fn result(value: isize) -> Result<usize, i32> {
    if value == -1 { Err(super::errno()) } else { Ok(value as usize) }
}

/// Maps memory; returns the address, or `errno`.
pub fn mmap(hint: usize, len: usize, protection: i32, flags: i32, file: i32, offset: i64) -> Result<usize, i32> {
    let hint = std::ptr::with_exposed_provenance_mut(hint);
    result(c::mmap(hint, len, protection, flags, file, offset).expose_provenance() as isize)
}

/// Unmaps memory; returns 0, or `errno`.
pub fn munmap(address: usize, len: usize) -> Result<usize, i32> {
    result(c::munmap(std::ptr::with_exposed_provenance_mut(address), len) as isize)
}

/// Changes protection; returns 0, or `errno`.
pub fn mprotect(address: usize, len: usize, protection: i32) -> Result<usize, i32> {
    result(c::mprotect(std::ptr::with_exposed_provenance_mut(address), len, protection) as isize)
}
