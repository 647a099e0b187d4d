//! Safe Zircon calls: owned handles, typed objects, results.
//!
//! A **handle** is a number that names an object and what its holder may do with it. [`Handle`] owns one and closes it
//! when it goes out of scope; [`HandleRef`] and [`Unowned`] borrow. Each kind of object has a type of its own
//! ([`Channel`], [`Vmo`], ...) whose methods carry the names of the system calls; what works on every object stands in
//! [`AsHandleRef`]. All calls give [`Result`] with a [`Status`].
//!
//! The declarations below this crate are in [`sys`]; calling them is the only `unsafe` here. The symbols are those of
//! the vDSO, `libzircon.so`: `std` links it into every program, a program without `std` must bring them itself.
//!
//! Address-space calls ([`Vmar::unmap`], [`Process::write_memory`], ...) act through a handle that may name any process,
//! this one too. Like a write to a debugger's memory file they are outside of what the compiler can check, and
//! they are not marked `unsafe`.
#![no_std]

#[cfg(feature = "std")]
extern crate std;

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
mod ioports;
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
mod transfer;
mod vproc;

pub use abi::{Rights, Signals, Status};
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
pub use ioports::IoPorts;
pub use memory::{Mapping, Vmar, Vmo};
pub use pager::Pager;
pub use port::Port;
#[cfg(feature = "probe")]
pub use restricted::FxRegisters;
pub use restricted::{Reason, Restricted, unbind_restricted_state};
pub use stream::Stream;
pub use system::{
    cprng_add_entropy, cprng_draw, system_get_dcache_line_size, system_get_event, system_get_num_cpus,
    system_get_page_size, system_get_physmem, system_get_version_string, system_get_version_view, system_powerctl,
};
pub use task::{Job, Process, Profile, Suspend, Thread, process_exit, thread_exit, thread_legacy_yield};
pub use time::{Duration, MonotonicInstant, nanosleep, ticks_get, ticks_per_second};
pub use transfer::{Fifo, Socket};
pub use vproc::{Events, Exit, Handler, Vectors, VirtualProcessor, Vproc, map_runs};

/// What every call gives.
pub type Result<T> = core::result::Result<T, Status>;

/// A status as a result.
fn check(status: sys::zx_status_t) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Status(status)) }
}
