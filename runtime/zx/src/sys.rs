//! The C interface of the vDSO, generated from the calls' definitions. Signatures and names are Zircon's; the reference
//! pages describe each call.
#![allow(missing_docs, non_camel_case_types, reason = "the names are Zircon's, and so is what they mean")]

use core::ffi::c_void;

use abi::{zx_handle_disposition_t, zx_handle_info_t};

pub type zx_handle_t = u32;
pub type zx_status_t = i32;
pub type zx_time_t = i64;
pub type zx_duration_t = i64;
pub type zx_ticks_t = i64;
pub type zx_signals_t = u32;
pub type zx_rights_t = u32;
pub type zx_koid_t = u64;
pub type zx_vaddr_t = usize;
pub type zx_futex_t = i32;

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

/// A string without a terminating zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct zx_string_view_t {
    pub c_str: *const core::ffi::c_char,
    pub length: usize,
}

/// One buffer of a scatter/gather call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct zx_iovec_t {
    pub buffer: *mut c_void,
    pub capacity: usize,
}

// All calls, each with the first sentence of its definition.
include!(concat!(env!("OUT_DIR"), "/calls.rs"));
