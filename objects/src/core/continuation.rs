//! Long calls are made in portions.
//!
//! The kernel does one thing at a time, so a call that would take long is cut up: its thread makes it again and again,
//! and each time it goes on from where it was, until it is over. Between two portions the thread is as ready to run as any that
//! computes. So whatever decides who runs ([`crate::task::fair_scheduling`], priorities) decides when the next portion is done, and others are
//! served meanwhile. Its program sees one call.
//!
//! 1. The call is checked as a whole. If it is long, it does a portion of its work and ends with [`GOES_ON`]
//!    ([`Kernel::goes_on`]), which says what it works on and how far it has come. No program is ever told this status.
//! 2. The server notes the call as it was first read, and what it works on is kept in being. The thread is not answered,
//!    but sent to make the call again ([`Kernel::going_begin`]).
//! 3. The thread runs when its turn comes, and makes the call.
//! 4. The server takes the note ([`Kernel::going_take`]) and makes the call from there: with the words that were noted, and
//!    without looking for handles and rights, which were good when the call began. The portion itself is checked anew: the
//!    object may have been resized, pinned or changed meanwhile by others. Then 1 or 5A.
//! 5. It ends in one of these ways:
//!    - 5A. The last portion is done, or one fails: the call is answered. What was done before stays done.
//!    - 5B. The thread is killed, or set to go on elsewhere by a debugger: the note is dropped, and so is the rest.
//!    - 5C. The thread comes with another call, or with a fault. No thread of itself does; the note is dropped, and what it comes with
//!      is dealt with.
//!    - 5D. The portion has to wait for a pager: the call is noted for that instead, and made from its start when the pages have come.
//!
//! A call that has ended more than goes in one portion is answered when that is over ([`crate::kernel::reaper`]): it goes on, too, but is not made
//! again in step 4; each time it comes, a portion of what is left is carried out.
//!
//! A thread that is suspended in step 3 makes the call when it is resumed.

use abi::{Rights, Status};

use crate::core::object::ObjectId;
use crate::kernel::Kernel;
use crate::machine::{LARGE_PAGES, Machine, PAGE};

/// A call is not over, and goes on: see the module's description.
pub const GOES_ON: Status = Status(i32::MIN + 1);

/// A page is not there yet, and who wants it is to wait for it. No program is ever told this status: what touches pages
/// passes it up as it is, and the server has the thread wait and then serves its fault, or makes its call, once more.
/// So nothing may be changed before the last page that a call needs is known to be there.
pub const PAGE_WAIT: Status = Status(i32::MIN);

/// How long a portion is, in nanoseconds.
pub(crate) const PORTION: i64 = 250_000;
/// Pages that a portion makes, one by one.
pub(crate) const MAKES: u64 = 64;
/// Pages that a portion gives back. A large page is made as one and given back as one.
pub(crate) const GIVES_BACK: u64 = LARGE_PAGES;
/// Pages that a portion maps; a large one is mapped as one.
pub(crate) const SHOWS: u64 = LARGE_PAGES;
/// A range that is not worth cutting up to unmap or change it, in bytes.
pub const SHORT: u64 = SHOWS * PAGE;
/// Mapped pages that are unmapped or changed between two looks at the clock.
pub(crate) const UNMAPS: u32 = 128;
/// As many of them are as much work as the end of a small object.
pub(crate) const WORK: u32 = 8;
/// Bytes that a portion copies.
pub const COPIES: u64 = 512 << 10;

/// A portion that has begun: when it will have been long enough, once that is known.
#[derive(Default)]
pub struct Portion(pub(crate) Option<i64>);

/// What a call works on, and how far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The object.
    pub object: ObjectId,
    /// Another one that it needs.
    pub with: Option<ObjectId>,
    /// The rights of the handle to it.
    pub rights: Rights,
    /// As much as the call counts of its work; 0 only for one that begins, or that begins when there is more memory.
    pub done: u64,
    /// What else it has to know to go on.
    pub kept: Kept,
}

/// What a call keeps of its work between two portions, beside how much of it is done.
pub type Kept = [u64; 7];

impl Progress {
    /// So much is done, which is all that there is to know.
    pub fn new(object: ObjectId, rights: Rights, done: u64) -> Self {
        Progress { object, with: None, rights, done, kept: Kept::default() }
    }
}

/// A call that goes on.
#[derive(Debug)]
pub struct Going {
    /// Its number.
    pub number: u32,
    /// Its arguments, as they were first read.
    pub args: [u64; 8],
    /// See [`Progress`].
    pub progress: Progress,
    /// Its result, if it is over but for what it has ended.
    pub result: Option<i64>,
}

impl<M: Machine> Kernel<M> {
    /// Step 1: notes how far a call has come; what it ends with.
    pub fn goes_on(&mut self, progress: Progress) -> Status {
        self.progress = Some(progress);
        GOES_ON
    }
}
