//! Long calls run in slices.
//!
//! The server does one thing at a time, so it splits a call that would take long into slices. After each slice the
//! call's state is saved as a [`Continuation`], and the thread makes the call again, until the call is complete.
//! Between two slices the thread is runnable like any computing thread. So the scheduler (priorities,
//! [`crate::task::fair_scheduling`]) decides when the next slice runs, and the server handles other threads' calls
//! meanwhile. The program sees a single call.
//!
//! 1. The server checks the whole call. If the call is long, it does one slice of its work and fails with
//!    [`CALL_CONTINUES`] ([`Kernel::continue_call`]); the [`Progress`] names its objects and how far it has come. This
//!    status never reaches a program.
//! 2. The server saves the call's number and its arguments as first read, and takes references to the objects
//!    ([`Kernel::continuation_save`]). It does not answer the call; it makes the thread repeat it.
//! 3. The scheduler runs the thread, and the thread makes the call.
//! 4. The server takes the continuation ([`Kernel::continuation_take`]) and resumes the call from there, with the saved
//!    arguments. It does not look up handles and rights again: they were valid when the call began. It does check the
//!    objects again for this slice, because other threads may have resized, pinned or changed them. Then step 1 or 5A
//!    follows.
//! 5. The call ends in one of these ways:
//!    - 5A. The last slice is done, or a slice fails: the call returns. Work that is done stays done.
//!    - 5B. The thread is killed, or a debugger changes its instruction pointer: the continuation is dropped, and the
//!      remaining work with it.
//!    - 5C. The thread makes a different call, or faults. No thread does that by itself. The continuation is dropped,
//!      and the server handles the call or fault.
//!    - 5D. The slice must wait for a pager: the saved call becomes that wait's continuation, and it starts over when
//!      the pages have arrived.
//!
//! A call that has released more than the reaper can destroy in one slice is answered only when the reaper has finished
//! ([`crate::kernel::reaper`]). Its thread repeats the call, too, but step 4 runs a slice of the reaper instead of the
//! call.
//!
//! A thread that is suspended in step 3 makes the call when it is resumed.

use abi::{Rights, Status};

use crate::core::object::ObjectId;
use crate::kernel::Kernel;
use crate::machine::{LARGE_PAGES, Machine, PAGE};

/// Internal status: the call continues in another slice; see the module's description.
pub const CALL_CONTINUES: Status = Status(i32::MIN + 1);

/// A page is not present yet, and the thread must wait for it. This status never reaches a program: code that accesses
/// pages passes it up unchanged, and the server blocks the thread and later handles its fault or makes its call again.
/// So a call must change nothing before the last page that it needs is known to be present.
pub const PAGE_WAIT: Status = Status(i32::MIN);

/// Length of a slice, in nanoseconds.
pub(crate) const SLICE_NANOS: i64 = 250_000;
/// Number of pages that a slice commits one by one.
pub(crate) const SLICE_COMMIT_PAGES: u64 = 64;
/// Number of pages that a slice frees. A large page is committed and freed as one.
pub(crate) const SLICE_FREE_PAGES: u64 = LARGE_PAGES;
/// Number of pages that a slice maps; a large page is mapped as one.
pub(crate) const SLICE_MAP_PAGES: u64 = LARGE_PAGES;
/// Longest range in bytes that is unmapped or changed without slices.
pub const UNSLICED_BYTES: u64 = SLICE_MAP_PAGES * PAGE;
/// Number of mapped pages that are unmapped or changed between two checks of the time.
pub(crate) const UNMAP_BATCH_PAGES: u32 = 128;
/// Unmapping this many pages costs as much as destroying a small object.
pub(crate) const PAGES_PER_OBJECT: u32 = 8;
/// Number of bytes that a slice copies.
pub const SLICE_COPY_BYTES: u64 = 512 << 10;

/// The end time of a slice that has begun; none until the time is first read.
#[derive(Default)]
pub struct SliceTimer(pub(crate) Option<i64>);

/// Objects and progress of a call that continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The object.
    pub object: ObjectId,
    /// A second object that it needs.
    pub with: Option<ObjectId>,
    /// The rights of the handle to the first object.
    pub rights: Rights,
    /// Progress in the call's own unit. It is 0 only for a call that has done nothing yet, or that starts over when
    /// more memory is free.
    pub done: u64,
    /// Further state.
    pub state: ContinuationState,
}

/// State that a call keeps between two slices, beside its progress.
pub type ContinuationState = [u64; 7];

impl Progress {
    /// Progress without further state.
    pub fn new(object: ObjectId, rights: Rights, done: u64) -> Self {
        Progress { object, with: None, rights, done, state: ContinuationState::default() }
    }
}

/// A continuation.
#[derive(Debug)]
pub struct Continuation {
    /// The call's number.
    pub number: u32,
    /// Its arguments, as first read.
    pub args: [u64; 8],
    /// Its [`Progress`].
    pub progress: Progress,
    /// Its result, if only the reaper's work is left.
    pub result: Option<i64>,
}

impl<M: Machine> Kernel<M> {
    /// Step 1: records the progress of a call; returns the status with which it must end.
    pub fn continue_call(&mut self, progress: Progress) -> Status {
        self.progress = Some(progress);
        CALL_CONTINUES
    }
}
