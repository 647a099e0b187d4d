//! The scalar types of arguments and fields.
//!
//! A handle is a number that identifies an object in one process; a koid identifies it in the whole system. Times are
//! nanoseconds, ticks are counts of the processor's clock. *Monotonic* time stops while the system is suspended, *boot*
//! time does not.

/// A handle's value in its process. A valid one is never zero, and its two lowest bits are set.
pub type zx_handle_t = u32;
/// See [`crate::Status`].
pub type zx_status_t = i32;
/// See [`crate::Rights`].
pub type zx_rights_t = u32;
/// See [`crate::Signals`].
pub type zx_signals_t = u32;
/// The koid of an object, unique while the system runs.
pub type zx_koid_t = u64;
/// `ZX_OBJ_TYPE_*`
pub type zx_obj_type_t = u32;
/// Nanoseconds on the clock that the call specifies.
pub type zx_time_t = i64;
/// Nanoseconds since the system started, suspension not counted.
pub type zx_instant_mono_t = i64;
/// Nanoseconds since the system started, suspension counted.
pub type zx_instant_boot_t = i64;
/// A difference of two times, in nanoseconds.
pub type zx_duration_t = i64;
/// A count of ticks; see `zx_ticks_per_second`.
pub type zx_ticks_t = i64;
/// `ZX_CLOCK_MONOTONIC` or `ZX_CLOCK_BOOT`
pub type zx_clock_t = u32;
/// An address in the caller's address space.
pub type zx_vaddr_t = usize;
/// A physical address.
pub type zx_paddr_t = usize;
/// A physical address of a guest.
pub type zx_gpaddr_t = usize;
/// An offset into a VMO or stream.
pub type zx_off_t = u64;
/// `ZX_VM_*`
pub type zx_vm_option_t = u32;
/// The first four bytes of a message to which a reply is matched.
pub type zx_txid_t = u32;
/// The word of a futex; C declares it atomic.
pub type zx_futex_t = i32;

consts! { TABLE;
    [zx_handle_t]
        /// No handle.
        ZX_HANDLE_INVALID = 0;
        /// Bits that are set in every valid handle.
        ZX_HANDLE_FIXED_BITS_MASK = 3;
    [zx_koid_t]
        /// No object.
        ZX_KOID_INVALID = 0;
        /// The system itself.
        ZX_KOID_KERNEL = 1;
        /// The first koid of an ordinary object.
        ZX_KOID_FIRST = 1024;
    [zx_time_t]
        /// A deadline that never passes.
        ZX_TIME_INFINITE = i64::MAX;
        /// A deadline that has always passed.
        ZX_TIME_INFINITE_PAST = i64::MIN;
    [zx_clock_t]
        /// Time since the start, suspension not counted.
        ZX_CLOCK_MONOTONIC = 0;
        /// Time since the start, suspension counted.
        ZX_CLOCK_BOOT = 1;
}
