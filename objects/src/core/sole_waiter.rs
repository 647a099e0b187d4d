//! The only one that waits for an object.
//!
//! Most objects are waited for by one thread at a time, and most threads wait for one object. Such a wait needs no
//! observer, no interest and no list: the object knows the thread, the thread knows the object, and the handle is
//! marked. Whoever comes later gets an observer. The steps are those of [`crate::core::wait`]:
//!
//! - 2S. The thread is put into the object, the handle that it went through is marked, and the thread is blocked.
//! - 3S. Whatever ends the wait ([`Kernel::take_wait`]) takes both back, from where 2S has noted them: whose thread it is, and whether
//!   that has ended, doesn't matter.

use abi::{Signals, Status};

use crate::core::continuation::PAGE_WAIT;
use crate::core::handle::HandleValue;
use crate::core::object::{Id, ObjectId};
use crate::core::wait::{WaitItem, met};
use crate::kernel::Kernel;
use crate::kernel::blocking::Wait;
use crate::machine::Machine;
use crate::task::process::Process;
use crate::task::thread::Thread;

/// See the module's description.
#[derive(Clone, Copy)]
pub(crate) struct SoleWaiter {
    pub(crate) thread: Id<Thread>,
    /// Any of these ends the wait.
    signals: Signals,
    /// The handle that the wait goes through, and the process in whose table it is, which need not be the thread's own
    /// ([shared processes](crate::task::shared_process)).
    pub(crate) handle: HandleValue,
    pub(crate) process: Id<Process>,
}

impl<M: Machine> Kernel<M> {
    /// Step 2S, but for the block. Says whether it is done; if not, there is somebody already.
    pub(crate) fn sole_begin(&mut self, thread: Id<Thread>, process: Id<Process>, item: &WaitItem) -> bool {
        let Ok(object) = self.objects.any_mut(item.object) else { return false };
        if object.sole.is_some() || !object.interests.is_empty() {
            return false;
        }
        object.sole = Some(SoleWaiter { thread, signals: item.signals, handle: item.handle, process });
        let marked = self.objects.get_mut(process).is_ok_and(|p| p.handles.set_sole(item.handle, true));
        if !marked && let Ok(object) = self.objects.any_mut(item.object) {
            object.sole = None;
        }
        marked
    }

    /// Step 3S.
    pub(crate) fn sole_end(&mut self, object: ObjectId) {
        let Some(sole) = self.objects.any_mut(object).ok().and_then(|object| object.sole.take()) else { return };
        if let Ok(process) = self.objects.get_mut(sole.process) {
            process.handles.set_sole(sole.handle, false);
        }
    }

    /// Ends a thread's wait with a status, if it is such a wait; says whether it was. What was found of the object goes where
    /// the thread wants it.
    #[inline]
    pub(crate) fn sole_finish(&mut self, id: Id<Thread>, status: Status) -> bool {
        let Ok(thread) = self.objects.get_mut(id) else { return false };
        let Wait::Sole { object, out, closed } = thread.wait else { return false };
        let (aspace, machine) = (thread.aspace, thread.at_hand());
        if thread.over() {
            self.disarm();
        }
        self.sole_end(object);
        let mut status = status;
        if let (Some(address), Some(aspace)) = (out.place(0), aspace) {
            let found = self.found(object, met(closed)).to_le_bytes();
            match self.copy_out(aspace, address, &found) {
                Err(PAGE_WAIT) => {
                    self.page_hand(id, alloc::vec![(address, found.to_vec())], status);
                    return true;
                }
                Err(failure) if status == Status::OK => status = failure,
                _ => {}
            }
        }
        self.wake_machine(id, machine, i64::from(status.0));
        true
    }

    /// Signals of an object were set: ends the wait (3A), if it is for one of them.
    #[inline]
    pub(crate) fn sole_notify(&mut self, sole: Option<SoleWaiter>, set: Signals) {
        if let Some(sole) = sole.filter(|sole| sole.signals.intersects(set)) {
            self.finish_wait(sole.thread, Status::OK);
        }
    }

    /// Ends the wait (3C) through a handle that is about to leave its process's table.
    pub(crate) fn sole_cancel_through(&mut self, process: Id<Process>, handle: HandleValue) {
        let marked = self.objects.get(process).ok().and_then(|p| p.handles.sole(handle));
        let Some(sole) = marked.and_then(|object| self.objects.any(object).ok()?.sole) else { return };
        if let Ok(Thread { wait: Wait::Sole { closed, .. }, .. }) = self.objects.get_mut(sole.thread) {
            *closed = true;
        }
        self.finish_wait(sole.thread, Status::CANCELED);
    }

    /// Ends the wait for an object that is about to go.
    pub(crate) fn sole_cancel(&mut self, object: ObjectId) {
        if let Some(sole) = self.objects.any(object).ok().and_then(|object| object.sole) {
            self.finish_wait(sole.thread, Status::CANCELED);
        }
    }
}
