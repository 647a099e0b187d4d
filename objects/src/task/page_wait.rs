//! Threads that wait for pages: steps 1, 2, 5 and 6 of the protocol of [`crate::memory::pager`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use abi::{Status, ZX_TIME_INFINITE};

use crate::containers::list::List;
use crate::containers::slab::Key;
use crate::core::continuation::PAGE_WAIT;
use crate::core::object::DEFERRED_WORK;
use crate::core::object::{Id, ObjectId};
use crate::core::wait::Waiters;
use crate::core::wait::Waiting;
use crate::ipc::channel::{CallBuffers, Message};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::memory::pager::{Kind, MissingPages};
use crate::task::blocking::Wait;
use crate::task::thread::Thread;

/// A thread's continuation after a wait for pages.
pub enum AfterPageWait {
    /// A memory access that faulted.
    Fault {
        /// The address.
        address: u64,
        /// The access is a store.
        write: bool,
        /// The access was an instruction fetch.
        execute: bool,
    },
    /// A system call.
    Call {
        /// The call's number.
        number: u32,
        /// Its arguments, as first read.
        args: [u64; 8],
    },
    /// A completed call that still has to write its results, and then returns `result`.
    Hand {
        /// Addresses, and the bytes to write there.
        to: Vec<(u64, Vec<u8>)>,
        /// The call's result.
        result: Status,
    },
    /// A completed call whose answer still has to be delivered.
    Answer(Box<(Message, CallBuffers)>),
}

/// A thread's wait for pages.
pub(crate) struct PageWait {
    source: Key,
    kind: Kind,
    /// The request's first page.
    request: u64,
    /// The first page that it wants, if it joined an existing request.
    joined: Option<u64>,
    pub then: AfterPageWait,
    /// Step 5: the wait is over with this status.
    ready: Option<Status>,
    /// Step 4F: the thread is suspended and has left its request.
    left: bool,
}

impl<M: Machine> Kernel<M> {
    /// Step 1: records the pages to wait for.
    pub(crate) fn page_wait_record(&mut self, source: Key, kind: Kind, pages: Range<u64>) {
        self.wanted = Some(MissingPages { source, kind, pages });
    }

    /// The first recorded page, if it was recorded for this kind of request.
    pub(crate) fn first_wanted(&self, kind: Kind) -> Option<u64> {
        self.wanted.as_ref().filter(|wanted| wanted.kind == kind).map(|wanted| wanted.pages.start)
    }

    /// Step 2: blocks a thread whose call or fault ended with [`PAGE_WAIT`].
    ///
    /// # Errors
    /// `BAD_STATE`: there is no pager to ask. `NO_MEMORY`.
    pub fn page_wait(&mut self, thread: Id<Thread>, then: AfterPageWait) -> Result<Waiting, Status> {
        let wanted = self.wanted.take();
        let source = wanted.as_ref().and_then(|wanted| self.sources.get_mut(wanted.source));
        let (Some(MissingPages { source: key, kind, pages }), Some(source)) = (wanted, source.filter(|s| !s.detached))
        else {
            self.page_wait_discard(then);
            return Err(Status::BAD_STATE);
        };
        let first = pages.start;
        let (start, new) = source.requests.ask(kind, pages);
        let joined = (!new).then_some(first);
        let wait = PageWait { source: key, kind, request: start, joined, then, ready: None, left: false };
        let blocked = self.block(thread, Wait::Page(Box::new(wait)), ZX_TIME_INFINITE);
        if blocked == Ok(Waiting::Blocked) {
            self.page_change_waiters(key, kind, start, joined, |list, kernel| {
                list.push(&mut kernel.objects.slab, thread.object().key());
            });
            self.source_send_now(key);
        } else if new {
            self.source_finish(key, kind, start, Status::OK);
        }
        blocked
    }

    /// Changes a list of a request's waiters.
    fn page_change_waiters(
        &mut self,
        source: Key,
        kind: Kind,
        start: u64,
        joined: Option<u64>,
        change: impl FnOnce(&mut List<Waiters>, &mut Self),
    ) {
        let Some(r) = self.sources.get_mut(source).and_then(|s| s.requests.get_mut(kind, start)) else { return };
        let mut list = match joined {
            None => r.whole,
            Some(page) => r.joined.get(&page).copied().unwrap_or_default(),
        };
        change(&mut list, self);
        let Some(r) = self.sources.get_mut(source).and_then(|s| s.requests.get_mut(kind, start)) else { return };
        match joined {
            None => r.whole = list,
            Some(page) if list.is_empty() => drop(r.joined.remove(&page)),
            Some(page) => drop(r.joined.insert(page, list)),
        }
    }

    /// Step 4E: a thread no longer waits.
    pub(crate) fn page_wait_cancel(&mut self, thread: Id<Thread>, wait: &PageWait) {
        let &PageWait { source, kind, request, joined, ready, left, .. } = wait;
        if ready.is_some() {
            self.page_ready_queue.remove(&mut self.objects.slab, thread.object().key());
        } else if !left {
            self.page_leave_request(thread, source, kind, request, joined);
        }
    }

    /// Step 4F: a thread that waits for pages has been suspended, and leaves its request; or has been resumed, and looks
    /// again, which may be a new request.
    pub(crate) fn page_wait_suspended(&mut self, thread: Id<Thread>, suspended: bool) {
        let Ok(Thread { wait: Wait::Page(wait), .. }) = self.objects.get_mut(thread) else { return };
        if wait.ready.is_some() || wait.left == suspended {
            return;
        }
        wait.left = suspended;
        let (source, kind, request, joined) = (wait.source, wait.kind, wait.request, wait.joined);
        if suspended {
            self.page_leave_request(thread, source, kind, request, joined);
        } else {
            wait.ready = Some(Status::OK);
            self.unsettled |= DEFERRED_WORK;
            self.page_ready_queue.push(&mut self.objects.slab, thread.object().key());
        }
    }

    /// Removes a thread from its request, which is withdrawn with its last waiter.
    fn page_leave_request(&mut self, thread: Id<Thread>, source: Key, kind: Kind, request: u64, joined: Option<u64>) {
        let place = thread.object().key();
        self.page_change_waiters(source, kind, request, joined, |list, kernel| {
            list.remove(&mut kernel.objects.slab, place);
        });
        let idle = self.sources.get_mut(source).and_then(|s| s.requests.get_mut(kind, request));
        if idle.is_some_and(|request| request.is_idle()) {
            self.source_finish(source, kind, request, Status::OK);
        }
    }

    /// Drops a continuation that will not run.
    pub(crate) fn page_wait_discard(&mut self, then: AfterPageWait) {
        if let AfterPageWait::Answer(answer) = then {
            self.drop_message(answer.0);
        }
    }

    /// A thread's wait on another object is over, and results must be written to its memory before the call returns
    /// `result`. That may start a wait for the memory.
    pub(crate) fn page_write_results(&mut self, thread: Id<Thread>, mut to: Vec<(u64, Vec<u8>)>, result: Status) {
        let Ok(aspace) = self.aspace_of_thread(thread) else { return };
        let written = to.iter().try_for_each(|(address, bytes)| self.copy_out(aspace, *address, bytes));
        match written {
            Ok(()) => self.wake(thread, result),
            Err(PAGE_WAIT) => {
                let to = core::mem::take(&mut to);
                self.page_wait_or_wake(thread, AfterPageWait::Hand { to, result });
            }
            Err(status) => self.wake(thread, status),
        }
    }

    /// Blocks a thread whose wait on another object is over; if that fails, its call returns.
    pub(crate) fn page_wait_or_wake(&mut self, thread: Id<Thread>, then: AfterPageWait) {
        match self.page_wait(thread, then) {
            Ok(Waiting::Blocked) => {}
            Ok(Waiting::Over(status)) | Err(status) => self.wake(thread, status),
        }
    }

    /// Step 6 for continuations that the kernel handles itself.
    pub fn page_wait_resume(&mut self, thread: Id<Thread>, then: AfterPageWait, result: Result<(), Status>) {
        match (then, result) {
            (AfterPageWait::Hand { to, result }, Ok(())) => self.page_write_results(thread, to, result),
            (AfterPageWait::Answer(answer), Ok(())) => self.channel_deliver(thread, answer.0, answer.1),
            (then, Err(status)) => {
                self.page_wait_discard(then);
                self.wake(thread, status);
            }
            (AfterPageWait::Fault { .. } | AfterPageWait::Call { .. }, Ok(())) => {}
        }
    }

    /// Step 5: all threads of a list continue.
    pub(crate) fn page_wait_end(&mut self, mut waiters: List<Waiters>, status: Status) {
        while let Some(place) = waiters.pop(&mut self.objects.slab) {
            let thread = Id::<Thread>::new(ObjectId(place));
            if let Ok(Thread { wait: Wait::Page(wait), .. }) = self.objects.get_mut(thread) {
                wait.ready = Some(status);
            }
            self.unsettled |= DEFERRED_WORK;
            self.page_ready_queue.push(&mut self.objects.slab, place);
        }
    }

    /// Whether [`Kernel::page_wait_next`] has a thread to return.
    #[inline]
    pub fn page_waits_done(&self) -> bool {
        !self.page_ready_queue.is_empty()
    }

    /// Step 6: takes the next thread whose wait is over off the queue; returns its continuation and the result of the
    /// wait.
    pub fn page_wait_next(&mut self) -> Option<(Id<Thread>, AfterPageWait, Result<(), Status>)> {
        loop {
            let thread = Id::new(ObjectId(self.page_ready_queue.first()?));
            let Some(Wait::Page(wait)) = self.take_wait(thread) else {
                // A thread in the queue always has such a wait.
                self.page_ready_queue.remove(&mut self.objects.slab, thread.object().key());
                continue;
            };
            let failure = wait.ready.filter(|&status| status != Status::OK);
            return Some((thread, wait.then, failure.map_or(Ok(()), Err)));
        }
    }
}
