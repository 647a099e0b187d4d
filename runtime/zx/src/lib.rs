//! Safe Zircon calls: owned handles, typed objects, results.
//!
//! A **handle** is a number that refers to an object, with rights. [`Handle`] owns a handle and closes it when it is
//! dropped; [`HandleRef`] and [`Unowned`] borrow one. Each type of object has its own Rust type ([`Channel`], [`Vmo`],
//! ...), whose methods have the names of the system calls. [`AsHandleRef`] has the calls that work on all objects. All
//! calls return a [`Result`] with a [`Status`].
//!
//! [`sys`] has the declarations below this crate; the calls to them are the only `unsafe` code here. The symbols are
//! those of the vDSO, `libzircon.so`. `std` links it into every program; a program without `std` must provide them
//! itself.
//!
//! Calls on address spaces ([`Vmar::unmap`], [`Process::write_memory`], ...) act through a handle that can refer to any
//! process, including this one. Like writes to a debugger's memory file, they are outside of what the compiler can
//! check, and they are not marked `unsafe`.
#![no_std]

#[cfg(feature = "std")]
extern crate std;

mod arch;
mod bti;
mod channel;
mod clock;
mod debug;
mod endpoint;
mod event;
mod exception;
mod futex;
mod handle;
mod info;
mod interrupt;
mod iob;
mod memory;
mod pager;
mod port;
#[cfg(feature = "probe")]
pub mod probe;
mod restricted;
#[cfg(feature = "std")]
pub mod spawn;
#[cfg(feature = "std")]
pub mod startup;
mod stream;
pub mod sys;
mod system;
mod task;
mod time;
#[cfg(feature = "std")]
mod tolerant;
mod transfer;
mod vproc;

pub use abi::{Rights, Signals, Status};
#[cfg(feature = "probe")]
pub use arch::FxRegisters;
pub use arch::IoPorts;
pub use bti::{Bti, Iommu, Msi, Pmt};
pub use channel::{Channel, MAX_MESSAGE_BYTES, MAX_MESSAGE_HANDLES, MessageSize};
pub use clock::{Clock, clock_details_mapped, clock_read_mapped};
pub use debug::{
    Debuglog, Resource, debug_read, debug_send_command, debug_write, ktrace_control, ktrace_read, ktrace_start,
};
pub use endpoint::{Endpoint, Received, Slot, Words};
pub use event::{Counter, Event, EventPair, Timer};
pub use exception::{Exception, raise_user_exception};
pub use futex::{futex_get_owner, futex_requeue, futex_wait, futex_wake, futex_wake_single_owner};
pub use handle::{AsHandleRef, Handle, HandleRef, Unowned, close_many, wait_many};
pub use info::{Info, InfoSize, Record, TaskInfo};
pub use interrupt::Interrupt;
pub use iob::{Iob, IobDiscipline, IobSharedRegion};
pub use memory::{Mapping, Vmar, Vmo};
pub use pager::Pager;
pub use port::Port;
pub use restricted::{Reason, Restricted, unbind_restricted_state};
pub use stream::Stream;
pub use system::{
    cprng_add_entropy, cprng_draw, system_get_dcache_line_size, system_get_event, system_get_num_cpus,
    system_get_page_size, system_get_physmem, system_get_version_string, system_get_version_view, system_powerctl,
};
pub use task::{Job, Process, Profile, Suspend, Thread, process_exit, thread_exit, thread_legacy_yield};
pub use time::{Duration, MonotonicInstant, nanosleep, ticks_get, ticks_per_second};
#[cfg(feature = "std")]
pub use tolerant::{CopyFault, Region};
pub use transfer::{Fifo, Socket};
pub use vproc::{Events, Exit, Handler, Vectors, VirtualProcessor, Vproc, map_runs};

/// Result of all calls.
pub type Result<T> = core::result::Result<T, Status>;

/// Converts a status to a result.
fn check(status: sys::zx_status_t) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Status(status)) }
}
