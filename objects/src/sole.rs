//! The sole waiter of an object.
//!
//! Most objects have one waiting thread at a time, and most threads wait for one object. Such a wait needs no observer,
//! no interest and no list: the object stores the thread, the thread stores the object, and the handle is marked. Any
//! further waiter gets an observer. The steps are those of [`crate::wait`]:
//!
//! - 2S. The thread is stored in the object, the handle is marked, and the thread blocks.
//! - 3S. The end of the wait, whatever its cause ([`Kernel::take_wait`]), undoes both with the data that 2S stored. It
//!   does not matter whose thread it is, or whether that thread has ended.

use abi::{Signals, Status};

use crate::handle::HandleValue;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Id, ObjectId};
use crate::process::Process;
use crate::thread::{Thread, Wait};
use crate::vmo::PAGE_WAIT;
use crate::wait::{WaitItem, met};

/// See the module's description.
#[derive(Clone, Copy)]
pub(crate) struct Sole {
    pub(crate) thread: Id<Thread>,
    /// Any of these signals ends the wait.
    signals: Signals,
    /// The handle through which the thread waits, and the process whose table holds it. With [shared
    /// processes](crate::shared) it can be another process than the thread's.
    pub(crate) handle: HandleValue,
    pub(crate) process: Id<Process>,
}

impl<M: Machine> Kernel<M> {
    /// Step 2S without blocking. Says whether it succeeded; it fails if the object already has a waiter.
    pub(crate) fn sole_begin(&mut self, thread: Id<Thread>, process: Id<Process>, item: &WaitItem) -> bool {
        let Ok(object) = self.objects.any_mut(item.object) else { return false };
        if object.sole.is_some() || !object.interests.is_empty() {
            return false;
        }
        object.sole = Some(Sole { thread, signals: item.signals, handle: item.handle, process });
        let marked = self.objects.get_mut(process).is_ok_and(|p| p.handles.set_sole(item.handle, true));
        if !marked && let Ok(object) = self.objects.any_mut(item.object) {
            object.sole = None;
        }
        marked
    }

    /// Step 3S: the end of the wait.
    pub(crate) fn sole_end(&mut self, object: ObjectId) {
        let Some(sole) = self.objects.any_mut(object).ok().and_then(|object| object.sole.take()) else { return };
        if let Ok(process) = self.objects.get_mut(sole.process) {
            process.handles.set_sole(sole.handle, false);
        }
    }

    /// Ends a thread's wait with a status, if it is such a wait; says whether it was. Writes the observed signals to
    /// where the thread wants them.
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

    /// Signals of an object were set: ends the wait (3A) if it is for one of them.
    #[inline]
    pub(crate) fn sole_notify(&mut self, sole: Option<Sole>, set: Signals) {
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

    /// Ends the wait for an object that is about to be destroyed.
    pub(crate) fn sole_cancel(&mut self, object: ObjectId) {
        if let Some(sole) = self.objects.any(object).ok().and_then(|object| object.sole) {
            self.finish_wait(sole.thread, Status::CANCELED);
        }
    }
}
