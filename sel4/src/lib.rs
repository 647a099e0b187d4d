//! A thin typed binding to seL4.
//!
//! The binding does not hide the kernel: a function is one kernel operation unless its documentation says otherwise. It
//! adds types (a capability to a page is a [`Page`], not a number), errors with their details, and one vocabulary for
//! two families of kernels: that of seL4 16 without MCS. 5.0.0 is a back end under it (`family/v5.rs`).
//!
//! - **Capabilities** are `Copy` newtypes around a [`CPtr`], an address in the caller's CSpace. They claim what kind of
//!   object is there; if it is of another kind, the kernel reports an error. They own nothing: deleting is an operation
//!   on a [`Slot`].
//! - **Messages** of at most four words travel in registers, and no function that takes a [`Message`] touches the IPC
//!   buffer.
//! - **The IPC buffer** is accessed only through [`ipc`]. Invocations of objects use it, and so do longer messages.
//! - **Numbers** (labels, object types, system calls) are generated from the kernel's own files and stay inside this
//!   crate.
//! - **Badges** stay below 2^28 ([`BADGE_BITS`]), which is what 5.0.0 supports.
#![no_std]

mod asid;
pub mod bootinfo;
mod cap;
mod cnode;
#[macro_use]
pub mod debug;
mod endpoint;
#[macro_use]
mod entry;
mod error;
mod family;
mod fault;
pub mod ipc;
mod irq;
mod message;
mod port;
mod sys;
mod tcb;
mod untyped;
mod vspace;

// The generated half names this crate's own items through `crate::`.
#[allow(clippy::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}

pub use asid::{AsidControl, AsidPool};
pub use bootinfo::BootInfo;
pub use cap::{CPtr, Cap};
pub use cnode::{CNode, CapData, Rights, Slot};
pub use endpoint::{Endpoint, Notification, ReplySlot, r#yield};
pub use error::{Error, LookupFailure, Result, TableLevel};
pub use fault::{Fault, SyscallRegisters};
pub use generated::config;
pub use irq::{IrqControl, IrqHandler};
pub use message::{Message, MessageInfo, Received};
pub use port::{IoPort, IoPortControl};
pub use tcb::{
    DEBUG_REGISTERS, FPU_WORDS, HAS_DEBUG_REGISTERS, HoldResult, KEEPS_STACK_POINTER, KEEPS_TRAP_FLAG, KERNEL_KEEPS_GS,
    NO_BASES, RUNS_FOREIGN, SchedParams, TELLS_TICKS, Tcb, TcbConfig, UserContext,
};
pub use untyped::{MAX_OBJECTS_PER_RETYPE, ObjectType, Untyped};
pub use vspace::{
    AT_ONCE, AdjacentPages, Attributes, Caching, KNOWS_EXECUTE, KNOWS_WRITTEN, PAGE_SIZE, Page, PageDirectory,
    PageTable, Pdpt, VSpace,
};

/// Bits of a badge that every supported kernel preserves.
pub const BADGE_BITS: u32 = 28;
/// Bits of a message's label that every supported kernel transfers.
pub const LABEL_BITS: u32 = 20;
