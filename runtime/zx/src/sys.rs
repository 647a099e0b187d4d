//! The C interface of the vDSO as it is. Signatures and names are Zircon's; the reference pages describe each call.
#![allow(missing_docs, non_camel_case_types, reason = "the names are Zircon's, and so is what they mean")]

use core::ffi::c_void;

use abi::{zx_handle_disposition_t, zx_handle_info_t, zx_port_packet_t, zx_wait_item_t};

pub type zx_handle_t = u32;
pub type zx_status_t = i32;
pub type zx_time_t = i64;
pub type zx_duration_t = i64;
pub type zx_ticks_t = i64;
pub type zx_signals_t = u32;
pub type zx_rights_t = u32;
pub type zx_koid_t = u64;
pub type zx_vaddr_t = usize;
pub type zx_futex_t = u32;

/// Arguments of [`zx_channel_call`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct zx_channel_call_args_t {
    pub wr_bytes: *const c_void,
    pub wr_handles: *const zx_handle_t,
    pub rd_bytes: *mut c_void,
    pub rd_handles: *mut zx_handle_t,
    pub wr_num_bytes: u32,
    pub wr_num_handles: u32,
    pub rd_num_bytes: u32,
    pub rd_num_handles: u32,
}

/// Arguments of [`zx_channel_call_etc`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct zx_channel_call_etc_args_t {
    pub wr_bytes: *const c_void,
    pub wr_handles: *mut zx_handle_disposition_t,
    pub rd_bytes: *mut c_void,
    pub rd_handles: *mut zx_handle_info_t,
    pub wr_num_bytes: u32,
    pub wr_num_handles: u32,
    pub rd_num_bytes: u32,
    pub rd_num_handles: u32,
}

/// A string that is not ended by a zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct zx_string_view_t {
    pub c_str: *const core::ffi::c_char,
    pub length: usize,
}

/// One buffer of several.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct zx_iovec_t {
    pub buffer: *mut c_void,
    pub capacity: usize,
}

macro_rules! calls {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        unsafe extern "C" { $(pub fn $name($($arg: $ty),*) $(-> $ret)?;)* }
    };
}

// Time, system, randomness.
calls! {
    fn zx_cache_flush(address: *const c_void, size: usize, options: u32) -> zx_status_t;
    fn zx_clock_create(options: u64, args: *const c_void, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_clock_get_boot() -> zx_time_t;
    fn zx_clock_get_details(handle: zx_handle_t, options: u64, details: *mut c_void) -> zx_status_t;
    fn zx_clock_get_monotonic() -> zx_time_t;
    fn zx_clock_read(handle: zx_handle_t, now: *mut zx_time_t) -> zx_status_t;
    fn zx_clock_update(handle: zx_handle_t, options: u64, args: *const c_void) -> zx_status_t;
    fn zx_cprng_add_entropy(buffer: *const c_void, size: usize) -> zx_status_t;
    fn zx_cprng_draw(buffer: *mut c_void, size: usize);
    fn zx_deadline_after(nanoseconds: zx_duration_t) -> zx_time_t;
    fn zx_nanosleep(deadline: zx_time_t) -> zx_status_t;
    fn zx_system_get_dcache_line_size() -> u32;
    fn zx_system_get_event(root_job: zx_handle_t, kind: u32, event: *mut zx_handle_t) -> zx_status_t;
    fn zx_system_get_features(kind: u32, features: *mut u32) -> zx_status_t;
    fn zx_system_get_num_cpus() -> u32;
    fn zx_system_get_page_size() -> u32;
    fn zx_system_get_physmem() -> u64;
    fn zx_system_get_version_string() -> zx_string_view_t;
    fn zx_system_powerctl(resource: zx_handle_t, command: u32, argument: *const c_void) -> zx_status_t;
    fn zx_ticks_get() -> zx_ticks_t;
    fn zx_ticks_get_boot() -> zx_ticks_t;
    fn zx_ticks_per_second() -> zx_ticks_t;
}

// Handles and objects of every kind.
calls! {
    fn zx_handle_check_valid(handle: zx_handle_t) -> zx_status_t;
    fn zx_handle_close(handle: zx_handle_t) -> zx_status_t;
    fn zx_handle_close_many(handles: *const zx_handle_t, count: usize) -> zx_status_t;
    fn zx_handle_duplicate(handle: zx_handle_t, rights: zx_rights_t, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_handle_replace(handle: zx_handle_t, rights: zx_rights_t, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_object_get_child(handle: zx_handle_t, koid: zx_koid_t, rights: zx_rights_t, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_object_get_info(handle: zx_handle_t, topic: u32, buffer: *mut c_void, size: usize, actual: *mut usize, avail: *mut usize) -> zx_status_t;
    fn zx_object_get_property(handle: zx_handle_t, property: u32, value: *mut c_void, size: usize) -> zx_status_t;
    fn zx_object_set_profile(handle: zx_handle_t, profile: zx_handle_t, options: u32) -> zx_status_t;
    fn zx_object_set_property(handle: zx_handle_t, property: u32, value: *const c_void, size: usize) -> zx_status_t;
    fn zx_object_signal(handle: zx_handle_t, clear: u32, set: u32) -> zx_status_t;
    fn zx_object_signal_peer(handle: zx_handle_t, clear: u32, set: u32) -> zx_status_t;
    fn zx_object_wait_async(handle: zx_handle_t, port: zx_handle_t, key: u64, signals: zx_signals_t, options: u32) -> zx_status_t;
    fn zx_object_wait_many(items: *mut zx_wait_item_t, count: usize, deadline: zx_time_t) -> zx_status_t;
    fn zx_object_wait_one(handle: zx_handle_t, signals: zx_signals_t, deadline: zx_time_t, observed: *mut zx_signals_t) -> zx_status_t;
}

// Messages, streams of bytes, packets, signals.
calls! {
    fn zx_channel_call(handle: zx_handle_t, options: u32, deadline: zx_time_t, args: *const zx_channel_call_args_t, bytes: *mut u32, handles: *mut u32) -> zx_status_t;
    fn zx_channel_call_etc(handle: zx_handle_t, options: u32, deadline: zx_time_t, args: *mut zx_channel_call_etc_args_t, bytes: *mut u32, handles: *mut u32) -> zx_status_t;
    fn zx_channel_create(options: u32, out0: *mut zx_handle_t, out1: *mut zx_handle_t) -> zx_status_t;
    fn zx_channel_read(handle: zx_handle_t, options: u32, bytes: *mut c_void, handles: *mut zx_handle_t, num_bytes: u32, num_handles: u32, actual_bytes: *mut u32, actual_handles: *mut u32) -> zx_status_t;
    fn zx_channel_read_etc(handle: zx_handle_t, options: u32, bytes: *mut c_void, handles: *mut zx_handle_info_t, num_bytes: u32, num_handles: u32, actual_bytes: *mut u32, actual_handles: *mut u32) -> zx_status_t;
    fn zx_channel_write(handle: zx_handle_t, options: u32, bytes: *const c_void, num_bytes: u32, handles: *const zx_handle_t, num_handles: u32) -> zx_status_t;
    fn zx_channel_write_etc(handle: zx_handle_t, options: u32, bytes: *const c_void, num_bytes: u32, handles: *mut zx_handle_disposition_t, num_handles: u32) -> zx_status_t;
    fn zx_counter_add(handle: zx_handle_t, value: i64) -> zx_status_t;
    fn zx_counter_create(options: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_counter_read(handle: zx_handle_t, value: *mut i64) -> zx_status_t;
    fn zx_counter_write(handle: zx_handle_t, value: i64) -> zx_status_t;
    fn zx_event_create(options: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_eventpair_create(options: u32, out0: *mut zx_handle_t, out1: *mut zx_handle_t) -> zx_status_t;
    fn zx_fifo_create(count: usize, size: usize, options: u32, out0: *mut zx_handle_t, out1: *mut zx_handle_t) -> zx_status_t;
    fn zx_fifo_read(handle: zx_handle_t, size: usize, data: *mut c_void, count: usize, actual: *mut usize) -> zx_status_t;
    fn zx_fifo_write(handle: zx_handle_t, size: usize, data: *const c_void, count: usize, actual: *mut usize) -> zx_status_t;
    fn zx_futex_get_owner(value: *const zx_futex_t, koid: *mut zx_koid_t) -> zx_status_t;
    fn zx_futex_requeue(value: *const zx_futex_t, wake: u32, current: zx_futex_t, requeue: *const zx_futex_t, count: u32, owner: zx_handle_t) -> zx_status_t;
    fn zx_futex_requeue_single_owner(value: *const zx_futex_t, current: zx_futex_t, requeue: *const zx_futex_t, count: u32, owner: zx_handle_t) -> zx_status_t;
    fn zx_futex_wait(value: *const zx_futex_t, current: zx_futex_t, owner: zx_handle_t, deadline: zx_time_t) -> zx_status_t;
    fn zx_futex_wake(value: *const zx_futex_t, count: u32) -> zx_status_t;
    fn zx_futex_wake_single_owner(value: *const zx_futex_t) -> zx_status_t;
    fn zx_port_cancel(handle: zx_handle_t, source: zx_handle_t, key: u64) -> zx_status_t;
    fn zx_port_cancel_key(handle: zx_handle_t, options: u32, key: u64) -> zx_status_t;
    fn zx_port_create(options: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_port_queue(handle: zx_handle_t, packet: *const zx_port_packet_t) -> zx_status_t;
    fn zx_port_wait(handle: zx_handle_t, deadline: zx_time_t, packet: *mut zx_port_packet_t) -> zx_status_t;
    fn zx_socket_create(options: u32, out0: *mut zx_handle_t, out1: *mut zx_handle_t) -> zx_status_t;
    fn zx_socket_read(handle: zx_handle_t, options: u32, buffer: *mut c_void, size: usize, actual: *mut usize) -> zx_status_t;
    fn zx_socket_set_disposition(handle: zx_handle_t, disposition: u32, peer: u32) -> zx_status_t;
    fn zx_socket_write(handle: zx_handle_t, options: u32, buffer: *const c_void, size: usize, actual: *mut usize) -> zx_status_t;
    fn zx_stream_create(options: u32, vmo: zx_handle_t, seek: u64, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_stream_readv(handle: zx_handle_t, options: u32, vectors: *const zx_iovec_t, count: usize, actual: *mut usize) -> zx_status_t;
    fn zx_stream_seek(handle: zx_handle_t, whence: u32, offset: i64, seek: *mut u64) -> zx_status_t;
    fn zx_stream_writev(handle: zx_handle_t, options: u32, vectors: *const zx_iovec_t, count: usize, actual: *mut usize) -> zx_status_t;
    fn zx_timer_cancel(handle: zx_handle_t) -> zx_status_t;
    fn zx_timer_create(options: u32, clock: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_timer_set(handle: zx_handle_t, deadline: zx_time_t, slack: zx_duration_t) -> zx_status_t;
}

// Tasks.
calls! {
    fn zx_exception_get_process(handle: zx_handle_t, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_exception_get_thread(handle: zx_handle_t, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_job_create(parent: zx_handle_t, options: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_job_set_critical(job: zx_handle_t, options: u32, process: zx_handle_t) -> zx_status_t;
    fn zx_job_set_policy(job: zx_handle_t, options: u32, topic: u32, policy: *const c_void, count: u32) -> zx_status_t;
    fn zx_process_create(job: zx_handle_t, name: *const u8, name_size: usize, options: u32, process: *mut zx_handle_t, vmar: *mut zx_handle_t) -> zx_status_t;
    fn zx_process_exit(code: i64) -> !;
    fn zx_process_read_memory(handle: zx_handle_t, address: zx_vaddr_t, buffer: *mut c_void, size: usize, actual: *mut usize) -> zx_status_t;
    fn zx_process_start(handle: zx_handle_t, thread: zx_handle_t, entry: zx_vaddr_t, stack: zx_vaddr_t, arg1: zx_handle_t, arg2: usize) -> zx_status_t;
    fn zx_process_write_memory(handle: zx_handle_t, address: zx_vaddr_t, buffer: *const c_void, size: usize, actual: *mut usize) -> zx_status_t;
    fn zx_task_create_exception_channel(handle: zx_handle_t, options: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_task_kill(handle: zx_handle_t) -> zx_status_t;
    fn zx_task_suspend(handle: zx_handle_t, token: *mut zx_handle_t) -> zx_status_t;
    fn zx_thread_create(process: zx_handle_t, name: *const u8, name_size: usize, options: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_thread_exit() -> !;
    fn zx_thread_legacy_yield(options: u32) -> zx_status_t;
    fn zx_thread_raise_exception(options: u32, kind: u32, context: *const c_void) -> zx_status_t;
    fn zx_thread_read_state(handle: zx_handle_t, kind: u32, buffer: *mut c_void, size: usize) -> zx_status_t;
    fn zx_thread_start(handle: zx_handle_t, entry: zx_vaddr_t, stack: zx_vaddr_t, arg1: usize, arg2: usize) -> zx_status_t;
    fn zx_thread_write_state(handle: zx_handle_t, kind: u32, buffer: *const c_void, size: usize) -> zx_status_t;
}

// Memory, logs, resources.
calls! {
    fn zx_debug_read(handle: zx_handle_t, buffer: *mut u8, size: usize, actual: *mut usize) -> zx_status_t;
    fn zx_debug_write(buffer: *const u8, size: usize) -> zx_status_t;
    fn zx_debuglog_create(resource: zx_handle_t, options: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_debuglog_read(handle: zx_handle_t, options: u32, buffer: *mut c_void, size: usize) -> zx_status_t;
    fn zx_debuglog_write(handle: zx_handle_t, options: u32, buffer: *const c_void, size: usize) -> zx_status_t;
    fn zx_resource_create(parent: zx_handle_t, options: u32, base: u64, size: usize, name: *const u8, name_size: usize, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_vmar_allocate(parent: zx_handle_t, options: u32, offset: usize, size: usize, child: *mut zx_handle_t, address: *mut zx_vaddr_t) -> zx_status_t;
    fn zx_vmar_destroy(handle: zx_handle_t) -> zx_status_t;
    fn zx_vmar_map(handle: zx_handle_t, options: u32, offset: usize, vmo: zx_handle_t, vmo_offset: u64, len: usize, address: *mut zx_vaddr_t) -> zx_status_t;
    fn zx_vmar_op_range(handle: zx_handle_t, op: u32, address: zx_vaddr_t, size: usize, buffer: *mut c_void, buffer_size: usize) -> zx_status_t;
    fn zx_vmar_protect(handle: zx_handle_t, options: u32, address: zx_vaddr_t, len: usize) -> zx_status_t;
    fn zx_vmar_unmap(handle: zx_handle_t, address: zx_vaddr_t, len: usize) -> zx_status_t;
    fn zx_vmo_create(size: u64, options: u32, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_vmo_create_child(handle: zx_handle_t, options: u32, offset: u64, size: u64, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_vmo_get_size(handle: zx_handle_t, size: *mut u64) -> zx_status_t;
    fn zx_vmo_get_stream_size(handle: zx_handle_t, size: *mut u64) -> zx_status_t;
    fn zx_vmo_op_range(handle: zx_handle_t, op: u32, offset: u64, size: u64, buffer: *mut c_void, buffer_size: usize) -> zx_status_t;
    fn zx_vmo_read(handle: zx_handle_t, buffer: *mut c_void, offset: u64, size: usize) -> zx_status_t;
    fn zx_vmo_replace_as_executable(handle: zx_handle_t, resource: zx_handle_t, out: *mut zx_handle_t) -> zx_status_t;
    fn zx_vmo_set_cache_policy(handle: zx_handle_t, policy: u32) -> zx_status_t;
    fn zx_vmo_set_size(handle: zx_handle_t, size: u64) -> zx_status_t;
    fn zx_vmo_set_stream_size(handle: zx_handle_t, size: u64) -> zx_status_t;
    fn zx_vmo_write(handle: zx_handle_t, buffer: *const c_void, offset: u64, size: usize) -> zx_status_t;
}
