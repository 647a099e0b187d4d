//! Continuations: long calls run in slices.
//!
//! The server does one thing at a time, so a long call is split: its thread makes the call again and again, and each
//! time the server resumes it where it stopped, until it is done. Between two slices the thread is as runnable as any
//! computing thread. So the scheduler (fair shares, [`crate::turns`], and priorities) decides when the next slice runs,
//! and other threads are served meanwhile. The program sees one call.
//!
//! 1. The server checks the call as a whole. If it is long, it does one slice of the work and ends with [`GOES_ON`]
//!    ([`Kernel::goes_on`]), which records the objects and the progress. This status never reaches a program.
//! 2. The server stores the call's arguments as first read, and keeps the objects alive. The thread gets no answer, but
//!    is made to repeat the call ([`Kernel::going_begin`]).
//! 3. The thread runs when it is scheduled, and makes the call.
//! 4. The server takes the continuation ([`Kernel::going_take`]) and resumes the call with the stored arguments. It
//!    does not look up handles and rights again, which were valid when the call began. It does check the slice itself
//!    again: other threads may have resized, pinned or changed the object meanwhile. Then 1 or 5A.
//! 5. It ends in one of these ways:
//!    - 5A. The last slice is done, or one fails: the call is answered. What was done before stays done.
//!    - 5B. The thread is killed, or a debugger moves it elsewhere: the continuation is dropped, and with it the
//!      remaining work.
//!    - 5C. The thread comes with another call, or with a fault. No thread does so by itself; the continuation is
//!      dropped, and the event is handled.
//!    - 5D. The slice must wait for a pager: the call becomes a page wait instead, and starts over when the pages have
//!      arrived.
//!
//! A call that ended more than fits in one slice is answered when that is destroyed ([`crate::ends`]). Its thread
//! repeats the call as well, but step 4 does not run the call again: each time it runs a slice of the reaper.
//!
//! A thread that is suspended in step 3 makes the call when it is resumed.

use alloc::boxed::Box;

use abi::{Rights, Status, ZX_TIME_INFINITE};

use crate::kernel::Kernel;
use crate::machine::{LARGE_PAGES, Machine, PAGE};
use crate::object::{Id, ObjectId};
use crate::thread::{Thread, Wait};

/// Internal status: the call continues in another slice; see the module's description.
pub const GOES_ON: Status = Status(i32::MIN + 1);

/// Number of pages that a slice commits one by one.
pub(crate) const MAKES: u64 = 64;
/// Number of pages that a slice frees. A large page is committed and freed as one.
pub(crate) const GIVES_BACK: u64 = LARGE_PAGES;
/// Number of pages that a slice maps; a large page is mapped as one.
pub(crate) const SHOWS: u64 = LARGE_PAGES;
/// Longest range in bytes that is unmapped or changed without slices.
pub const SHORT: u64 = SHOWS * PAGE;
/// Number of mapped pages that are unmapped or changed between two checks of the time.
pub(crate) const UNMAPS: u32 = 128;
/// Unmapping this many pages costs as much as destroying a small object.
pub(crate) const WORK: u32 = 8;
/// Number of bytes that a slice copies.
pub const COPIES: u64 = 512 << 10;

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
pub struct Going {
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
    pub fn goes_on(&mut self, progress: Progress) -> Status {
        self.progress = Some(progress);
        GOES_ON
    }

    /// Step 2, for a thread whose call ended with [`GOES_ON`].
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn going_begin(&mut self, id: Id<Thread>, number: u32, args: [u64; 8]) -> Result<(), Status> {
        let progress = self.progress.take().ok_or(Status::INTERNAL)?;
        self.going_note(id, Going { number, args, progress, result: None })
    }

    /// The same for a call whose own work is done, but not the reaper's.
    ///
    /// # Errors
    /// As [`Kernel::going_begin`].
    pub fn going_ends(&mut self, id: Id<Thread>, number: u32, result: i64) -> Result<(), Status> {
        let process = self.objects.get(id)?.process.object();
        let progress = Progress::new(process, Rights::NONE, 0);
        self.going_note(id, Going { number, args: [0; 8], progress, result: Some(result) })
    }

    fn going_note(&mut self, id: Id<Thread>, going: Going) -> Result<(), Status> {
        let (object, with) = (going.progress.object, going.progress.with);
        self.block(id, Wait::Goes(Box::new(going)), ZX_TIME_INFINITE)?;
        self.add_ref(object);
        with.into_iter().for_each(|with| self.add_ref(with));
        if let Some(machine) = self.objects.get(id)?.machine {
            self.machine.thread_again(machine);
        }
        Ok(())
    }

    /// Steps 4, 5B and 5C: takes the continuation of a thread, if it has one. The call's objects stay alive until the
    /// end of this event.
    pub fn going_take(&mut self, id: Id<Thread>) -> Option<Going> {
        if !self.objects.get(id).is_ok_and(|thread| matches!(thread.wait, Wait::Goes(_))) {
            return None;
        }
        self.upcall_asked(id);
        match self.take_wait(id) {
            Some(Wait::Goes(going)) => Some(*going),
            _ => None,
        }
    }

    /// Step 5A: a call that ran in slices ends with a result.
    pub fn going_over(&mut self, id: Id<Thread>, result: i64) {
        if self.trace_is_on() {
            self.trace_woken(id, Some(result));
        }
    }
}
