//! The only one that waits for an object.
//!
//! Most objects are waited for by one thread at a time, and most threads wait for one object. Such a wait needs no
//! observer, no interest and no list: the object knows the thread, the thread knows the object, and the handle is
//! marked. Whoever comes later gets an observer. The steps are those of [`crate::core::wait`]:
//!
//! - 2S. The thread is put into the object, the handle that it went through is marked, and the thread is blocked.
//! - 3S. Whatever ends the wait ([`Kernel::take_wait`]) takes both back, from where 2S has noted them: whose thread it
//!   is, and whether that has ended, doesn't matter.

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
    /// The handle that the wait goes through, and the process in whose table it is, which need not be the thread's own
    /// ([shared processes](crate::task::shared_process)).
    pub(crate) handle: HandleValue,
    pub(crate) process: ObjectId,
}

impl<M: Machine> Kernel<M> {
    /// Step 2S, but for the block. Says whether it is done; if not, there is somebody already.
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

    /// Step 3S: the end of the wait.
    pub(crate) fn sole_waiter_clear(&mut self, object: ObjectId) {
        let Some(sole_waiter) = self.objects.any_mut(object).ok().and_then(|object| object.sole_waiter.take()) else {
            return;
        };
        if let Some(handles) = self.objects.handles_mut(sole_waiter.process) {
            handles.set_sole_waiter(sole_waiter.handle, false);
        }
    }

    /// Signals of an object were set: ends the wait (3A), if it is for one of them.
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
