//! The system calls that this library uses, as the vDSO exports them.
//!
//! They are bound when the image relocates itself ([`crate::start`]) and must not be called before that.

use core::ffi::{c_char, c_void};

/// A Zircon handle; 0 is invalid.
pub type Handle = u32;
/// `zx_status_t`: 0 or a negative error.
pub type Status = i32;

pub const HANDLE_INVALID: Handle = 0;
pub const OK: Status = 0;
pub const ERR_NOT_SUPPORTED: Status = -2;
pub const ERR_NO_MEMORY: Status = -4;
pub const ERR_INVALID_ARGS: Status = -10;
pub const ERR_BAD_HANDLE: Status = -11;
pub const ERR_OUT_OF_RANGE: Status = -14;
pub const ERR_BAD_STATE: Status = -20;
pub const ERR_TIMED_OUT: Status = -21;
pub const ERR_CANCELED: Status = -23;
pub const ERR_NOT_FOUND: Status = -25;
pub const ERR_ACCESS_DENIED: Status = -30;

pub const TIME_INFINITE: i64 = i64::MAX;
pub const PAGE_SIZE: usize = 4096;
/// Size of a name in bytes, with its terminating zero.
pub const MAX_NAME_LEN: usize = 32;

pub const PROP_NAME: u32 = 3;
pub const PROP_REGISTER_FS: u32 = 4;
pub const PROP_VMO_CONTENT_SIZE: u32 = 17;

pub const TASK_TERMINATED: u32 = 1 << 3;

/// `ZX_THREAD_STATE_GENERAL_REGS`.
pub const THREAD_GENERAL: u32 = 0;

pub const VM_PERM_READ: u32 = 1 << 0;
pub const VM_PERM_WRITE: u32 = 1 << 1;
pub const VM_PERM_EXECUTE: u32 = 1 << 2;
pub const VM_SPECIFIC: u32 = 1 << 4;
pub const VM_SPECIFIC_OVERWRITE: u32 = 1 << 5;
pub const VM_CAN_MAP_SPECIFIC: u32 = 1 << 6;
pub const VM_CAN_MAP_READ: u32 = 1 << 7;
pub const VM_CAN_MAP_WRITE: u32 = 1 << 8;
pub const VM_CAN_MAP_EXECUTE: u32 = 1 << 9;

/// Arguments of `zx_channel_call`: the message, and the buffers for the answer.
#[repr(C)]
pub struct ChannelCallArgs {
    pub wr_bytes: *const c_void,
    pub wr_handles: *const Handle,
    pub rd_bytes: *mut c_void,
    pub rd_handles: *mut Handle,
    pub wr_num_bytes: u32,
    pub wr_num_handles: u32,
    pub rd_num_bytes: u32,
    pub rd_num_handles: u32,
}

unsafe extern "C" {
    pub fn zx_handle_close(handle: Handle) -> Status;
    pub fn zx_object_wait_one(handle: Handle, signals: u32, deadline: i64, observed: *mut u32) -> Status;
    pub fn zx_object_set_property(handle: Handle, property: u32, value: *const c_void, size: usize) -> Status;
    pub fn zx_object_get_property(handle: Handle, property: u32, value: *mut c_void, size: usize) -> Status;
    pub fn zx_object_get_info(
        handle: Handle,
        topic: u32,
        buffer: *mut c_void,
        size: usize,
        actual: *mut usize,
        avail: *mut usize,
    ) -> Status;
    pub fn zx_channel_read(
        channel: Handle,
        options: u32,
        bytes: *mut c_void,
        handles: *mut Handle,
        num_bytes: u32,
        num_handles: u32,
        actual_bytes: *mut u32,
        actual_handles: *mut u32,
    ) -> Status;
    pub fn zx_channel_call(
        channel: Handle,
        options: u32,
        deadline: i64,
        args: *const ChannelCallArgs,
        actual_bytes: *mut u32,
        actual_handles: *mut u32,
    ) -> Status;
    pub fn zx_channel_create(options: u32, out0: *mut Handle, out1: *mut Handle) -> Status;
    pub fn zx_socket_write(
        socket: Handle,
        options: u32,
        buffer: *const c_void,
        size: usize,
        actual: *mut usize,
    ) -> Status;
    pub fn zx_debuglog_create(resource: Handle, options: u32, out: *mut Handle) -> Status;
    pub fn zx_debuglog_write(log: Handle, options: u32, buffer: *const c_void, size: usize) -> Status;
    pub fn zx_vmo_create(size: u64, options: u32, out: *mut Handle) -> Status;
    pub fn zx_vmo_read(vmo: Handle, buffer: *mut c_void, offset: u64, size: usize) -> Status;
    pub fn zx_vmo_replace_as_executable(vmo: Handle, vmex: Handle, out: *mut Handle) -> Status;
    pub fn zx_vmo_get_size(vmo: Handle, size: *mut u64) -> Status;
    pub fn zx_vmar_allocate(
        parent: Handle,
        options: u32,
        offset: usize,
        size: usize,
        child: *mut Handle,
        child_addr: *mut usize,
    ) -> Status;
    pub fn zx_vmar_map(
        vmar: Handle,
        options: u32,
        vmar_offset: usize,
        vmo: Handle,
        vmo_offset: u64,
        len: usize,
        mapped_addr: *mut usize,
    ) -> Status;
    pub fn zx_vmar_unmap(vmar: Handle, addr: usize, len: usize) -> Status;
    pub fn zx_vmar_protect(vmar: Handle, options: u32, addr: usize, len: usize) -> Status;
    pub fn zx_vmar_destroy(vmar: Handle) -> Status;
    pub fn zx_thread_create(
        process: Handle,
        name: *const u8,
        name_size: usize,
        options: u32,
        out: *mut Handle,
    ) -> Status;
    pub fn zx_thread_start_regs(
        thread: Handle,
        entry: usize,
        stack: usize,
        arg1: usize,
        arg2: usize,
        tp: usize,
        abi_reg: usize,
    ) -> Status;
    pub fn zx_thread_read_state(thread: Handle, kind: u32, buffer: *mut c_void, size: usize) -> Status;
    pub fn zx_thread_write_state(thread: Handle, kind: u32, buffer: *const c_void, size: usize) -> Status;
    pub fn zx_task_suspend(task: Handle, token: *mut Handle) -> Status;
    pub fn zx_thread_exit() -> !;
    pub fn zx_thread_legacy_yield(options: u32) -> Status;
    pub fn zx_process_exit(retcode: i64) -> !;
    pub fn zx_nanosleep(deadline: i64) -> Status;
    pub fn zx_status_get_string(status: Status) -> *const c_char;
    pub fn zx_clock_get_monotonic() -> i64;
    pub fn zx_clock_read(clock: Handle, now: *mut i64) -> Status;
    pub fn zx_cprng_draw(buffer: *mut c_void, size: usize);
    pub fn zx_system_get_num_cpus() -> u32;
    pub fn zx_system_get_physmem() -> u64;
}

/// Repeats a blocking call while it fails for lack of memory: the kernel soon has memory for the wait.
pub fn when_there_is_memory(mut call: impl FnMut() -> Status) -> Status {
    loop {
        match call() {
            // SAFETY: no pointers.
            ERR_NO_MEMORY => _ = unsafe { zx_thread_legacy_yield(0) },
            status => return status,
        }
    }
}
