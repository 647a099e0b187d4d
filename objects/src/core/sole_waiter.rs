//! Fast path for an object on which exactly one thread waits.
//!
//! Most objects have one waiting thread at a time, and most threads wait on one object. Such a wait needs no observer,
//! no interest and no list: the object stores the thread, the thread stores the object, and a flag marks the handle.
//! Later waiters get observers. The steps are those of [`crate::core::wait`]:
//!
//! - 2S. The object stores the thread as its sole waiter, the handle through which it waits is marked, and the thread
//!   is blocked.
//! - 3S. Whatever ends the wait calls [`Kernel::take_wait`], which undoes both from the record made in 2S. This works
//!   even if the handle belongs to another process, or to one that has ended.

use abi::{Signals, Status};

use crate::core::handle::HandleValue;
use crate::core::object::{Id, ObjectId};
use crate::core::wait::WaitItem;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// See the module's description.
#[derive(Clone, Copy)]
pub(crate) struct SoleWaiter {
    pub(crate) thread: ObjectId,
    /// Any of these ends the wait.
    signals: Signals,
    /// The handle through which the thread waits, and the process in whose table it is. This need not be the thread's
    /// own process ([shared processes](crate::task::shared_process)).
    pub(crate) handle: HandleValue,
    pub(crate) process: ObjectId,
}

impl<M: Machine> Kernel<M> {
    /// Step 2S without blocking the thread. Returns false if the object has a waiter already or the handle is gone.
    pub(crate) fn sole_waiter_set(&mut self, thread: ObjectId, process: ObjectId, item: &WaitItem) -> bool {
        let Ok(object) = self.objects.any_mut(item.object) else { return false };
        if object.sole_waiter.is_some() || !object.interests.is_empty() {
            return false;
        }
        object.sole_waiter = Some(SoleWaiter { thread, signals: item.signals, handle: item.handle, process });
        let marked =
            self.objects.handles_mut(process).is_some_and(|handles| handles.set_sole_waiter(item.handle, true));
        if !marked && let Ok(object) = self.objects.any_mut(item.object) {
            object.sole_waiter = None;
        }
        marked
    }

    /// Step 3S: clears the record and the mark.
    pub(crate) fn sole_waiter_clear(&mut self, object: ObjectId) {
        let Some(sole_waiter) = self.objects.any_mut(object).ok().and_then(|object| object.sole_waiter.take()) else {
            return;
        };
        if let Some(handles) = self.objects.handles_mut(sole_waiter.process) {
            handles.set_sole_waiter(sole_waiter.handle, false);
        }
    }

    /// Signals of an object were set: ends the wait (3A) if it is for one of them.
    #[inline]
    pub(crate) fn sole_waiter_notify(&mut self, sole_waiter: Option<SoleWaiter>, set: Signals) {
        if let Some(sole_waiter) = sole_waiter.filter(|sole_waiter| sole_waiter.signals.intersects(set)) {
            self.finish_wait(Id::new(sole_waiter.thread), Status::OK);
        }
    }

    /// Ends the wait for an object that is about to be destroyed.
    pub(crate) fn sole_waiter_cancel(&mut self, object: ObjectId) {
        if let Some(sole_waiter) = self.objects.any(object).ok().and_then(|object| object.sole_waiter) {
            self.finish_wait(Id::new(sole_waiter.thread), Status::CANCELED);
        }
    }
}
