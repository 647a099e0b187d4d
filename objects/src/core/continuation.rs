//! Long calls are made in portions.
//!
//! The kernel does one thing at a time, so a call that would take long is cut up: its thread makes it again and again,
//! and each time it goes on from where it was, until it is over. Between two portions the thread is as ready to run as
//! any that computes. So whatever decides who runs ([`crate::task::fair_scheduling`], priorities) decides when the next
//! portion is done, and others are served meanwhile. Its program sees one call.
//!
//! 1. The call is checked as a whole. If it is long, it does a portion of its work and ends with [`CALL_CONTINUES`]
//!    ([`Kernel::continue_call`]), which says what it works on and how far it has come. No program is ever told this
//!    status.
//! 2. The server notes the call as it was first read, and what it works on is kept in being. The thread is not
//!    answered, but sent to make the call again ([`Kernel::continuation_save`]).
//! 3. The thread runs when its turn comes, and makes the call.
//! 4. The server takes the note ([`Kernel::continuation_take`]) and makes the call from there: with the words that were
//!    noted, and without looking for handles and rights, which were good when the call began. The portion itself is
//!    checked anew: the object may have been resized, pinned or changed meanwhile by others. Then 1 or 5A.
//! 5. It ends in one of these ways:
//!    - 5A. The last portion is done, or one fails: the call is answered. What was done before stays done.
//!    - 5B. The thread is killed, or set to go on elsewhere by a debugger: the note is dropped, and so is the rest.
//!    - 5C. The thread comes with another call, or with a fault. No thread of itself does; the note is dropped, and
//!      what it comes with is dealt with.
//!    - 5D. The portion has to wait for a pager: the call is noted for that instead, and made from its start when the
//!      pages have come.
//!
//! A call that has ended more than goes in one portion is answered when that is over ([`crate::kernel::reaper`]): it
//! goes on, too, but is not made again in step 4; each time it comes, a portion of what is left is carried out.
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

/// A slice that has begun: the time when it is over, once that is known.
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
    /// Progress in the call's own unit; 0 only for a call that begins, or that begins when there is more memory.
    pub done: u64,
    /// Further state.
    pub kept: Kept,
}

/// State that a call keeps between two slices, beside its progress.
pub type Kept = [u64; 7];

impl Progress {
    /// Progress without further state.
    pub fn new(object: ObjectId, rights: Rights, done: u64) -> Self {
        Progress { object, with: None, rights, done, kept: Kept::default() }
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
