//! The cases, with one file for each group of nouns, and their shared helpers.

mod access;
mod asleep;
mod bti;
mod c11;
mod channel;
mod channel_call;
mod channel_etc;
mod channel_iovec;
mod channel_read;
mod clock;
mod clock_mapped;
mod debuglog;
mod device;
mod endpoint;
mod event;
mod exception;
mod exception_channel;
mod exception_kind;
mod exception_notice;
mod exception_object;
mod exception_order;
mod exception_policy;
mod exception_thread;
mod fault;
mod fifo;
mod futex;
mod futex_owner;
mod handle;
mod interrupt;
mod iob;
mod ioports;
mod job;
mod job_charges;
mod job_count;
mod job_memory;
mod ktrace;
mod memory_mapping;
mod memory_storm;
mod msi;
mod object;
mod object_info;
mod object_info_matrix;
mod object_property;
mod pager;
mod pager_clone;
mod pager_commit;
mod pager_dirty;
mod pager_end;
mod pager_fail;
mod pager_read;
mod policy;
mod port;
mod port_async;
mod process;
mod process_memory;
pub mod process_shared;
mod profile;
pub mod pthread;
mod resource;
mod restricted;
mod restricted_debug;
mod restricted_fault;
pub mod restricted_kick;
mod restricted_shared;
mod restricted_vectors;
mod runtime;
mod runtime_idle;
mod socket;
mod socket_state;
pub mod stack;
mod stream;
mod support;
mod suspend_token;
pub mod sync;
mod system;
mod system_event;
mod system_memory;
mod thread;
mod thread_debug;
mod thread_state;
mod timer;
mod tls;
mod vmar;
mod vmar_change;
mod vmar_execute;
mod vmar_op_range;
mod vmar_page_table;
mod vmar_place;
mod vmar_races;
mod vmar_top;
mod vmo;
mod vmo_clone;
mod vmo_clone_family;
mod vmo_device;
mod vmo_large;
mod vmo_op;
mod vmo_physical;
mod vmo_rights;
mod vmo_slice;
mod vmo_zero;
mod vproc;
mod vproc_bind;
mod vproc_events;
pub mod vproc_hostile;
pub mod vproc_scale;
pub mod vproc_suspend;
pub mod vproc_vectors;
mod wait;
mod zeroed;

use abi::zx_port_packet_t;
pub use asleep::native;
use zx::{AsHandleRef, Duration, Handle, MonotonicInstant, Rights};

use crate::check::{Case, Failure, Outcome, ensure};
use crate::sweep;

/// Lists the cases of a file: their names and their functions.
macro_rules! cases {
    ($($name:literal => $function:expr),+ $(,)?) => {
        /// The cases of this file.
        pub fn cases() -> Vec<$crate::check::Case> {
            vec![$($crate::check::Case::new($name, $function)),+]
        }
    };
}
use cases;

/// Makes a call with raw arguments; gives its status.
macro_rules! raw {
    ($function:ident $(, $argument:expr)* $(,)?) => {
        zx::Status(
            zx::probe::call(zx::sys::$function as *const () as usize, &[$($argument as u64),*]) as i32
        )
    };
}
use raw;

/// Cases that are known to fail, with the reason. They are listed, and they run only when named in full. Each stands
/// for a promise that the system does not keep yet.
pub const KNOWN: &[(&str, &str)] = &[];

/// All cases, sorted by name.
pub fn all() -> Vec<Case> {
    let groups = [
        c11::cases(),
        access::cases(),
        channel::cases(),
        channel_call::cases(),
        channel_etc::cases(),
        channel_iovec::cases(),
        channel_read::cases(),
        clock::cases(),
        clock_mapped::cases(),
        debuglog::cases(),
        device::cases(),
        endpoint::cases(),
        event::cases(),
        handle::cases(),
        object::cases(),
        object_info::cases(),
        object_info_matrix::cases(),
        object_property::cases(),
        wait::cases(),
        zeroed::cases(),
        socket::cases(),
        socket_state::cases(),
        pager::cases(),
        pager_clone::cases(),
        pager_commit::cases(),
        pager_dirty::cases(),
        pager_end::cases(),
        pager_fail::cases(),
        pager_read::cases(),
        port::cases(),
        port_async::cases(),
        timer::cases(),
        futex::cases(),
        futex_owner::cases(),
        exception::cases(),
        exception_channel::cases(),
        exception_kind::cases(),
        exception_object::cases(),
        exception_notice::cases(),
        exception_order::cases(),
        exception_policy::cases(),
        exception_thread::cases(),
        process::cases(),
        process_memory::cases(),
        process_shared::cases(),
        pthread::cases(),
        stack::cases(),
        stream::cases(),
        sync::cases(),
        tls::cases(),
        thread::cases(),
        thread_state::cases(),
        thread_debug::cases(),
        runtime::cases(),
        runtime_idle::cases(),
        suspend_token::cases(),
        bti::cases(),
        interrupt::cases(),
        iob::cases(),
        ioports::cases(),
        msi::cases(),
        vmo_physical::cases(),
        job::cases(),
        job_count::cases(),
        job_memory::cases(),
        job_charges::cases(),
        memory_mapping::cases(),
        memory_storm::cases(),
        policy::cases(),
        profile::cases(),
        resource::cases(),
        restricted::cases(),
        restricted_debug::cases(),
        restricted_fault::cases(),
        restricted_kick::cases(),
        restricted_shared::cases(),
        restricted_vectors::cases(),
        system_event::cases(),
        system_memory::cases(),
        vmo::cases(),
        vmo_large::cases(),
        vmo_clone::cases(),
        vmo_clone_family::cases(),
        vmo_op::cases(),
        vmo_rights::cases(),
        vmo_slice::cases(),
        vmo_device::cases(),
        vmo_zero::cases(),
        vproc::cases(),
        vproc_bind::cases(),
        vproc_events::cases(),
        vproc_hostile::cases(),
        vproc_scale::cases(),
        vproc_suspend::cases(),
        vproc_vectors::cases(),
        vmar::cases(),
        vmar_change::cases(),
        vmar_execute::cases(),
        vmar_op_range::cases(),
        vmar_page_table::cases(),
        vmar_top::cases(),
        vmar_place::cases(),
        vmar_races::cases(),
        fault::cases(),
        fifo::cases(),
        ktrace::cases(),
        system::cases(),
        support::cases(),
        sweep::cases(),
    ];
    let mut all: Vec<Case> = groups.into_iter().flatten().collect();
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}

/// A packet as programs queue it.
pub fn user_packet(key: u64, payload: [u64; 4]) -> zx_port_packet_t {
    zx_port_packet_t { key, type_: abi::ZX_PKT_TYPE_USER, status: 0, payload }
}

/// The time `milliseconds` from now.
pub fn soon(milliseconds: i64) -> MonotonicInstant {
    MonotonicInstant::after(Duration::from_millis(milliseconds))
}

/// The root resource, which this program receives in the machine that is booted for tests.
fn root_resource() -> Result<zx::Unowned<'static, zx::Resource>, Failure> {
    zx::startup::resource().ok_or_else(|| "this program was not given the root resource".into())
}

/// A deadline that a working system never reaches and that a broken one reaches before the case's time limit.
pub fn late() -> MonotonicInstant {
    MonotonicInstant::after(Duration::from_seconds(5))
}

/// Plays rounds, each with more time than the one before, until the machine was fast enough for one to mean something: a
/// busy host may leave the machine standing for hundreds of milliseconds, at any instruction. `round` gets the time ahead
/// of which it has to be, and returns whether it was.
pub fn until_fast_enough(mut round: impl FnMut(Duration) -> Result<bool, Failure>) -> Outcome {
    let mut ahead = Duration::from_millis(30);
    while !round(ahead)? {
        ensure(ahead < Duration::from_seconds(3), "the machine was too slow in each round")?;
        ahead = Duration(ahead.0 * 2);
    }
    Ok(())
}

/// A handle to the same object without the rights `rights`.
fn without(object: &impl AsHandleRef, rights: Rights) -> Result<Handle, Failure> {
    let basic = zx::Info::basic_info(&object.as_handle_ref())?;
    Ok(object.duplicate_handle(Rights::from_bits_retain(basic.rights) & !rights)?)
}
