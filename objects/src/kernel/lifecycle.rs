//! Closing of handles and destruction of objects. What depends on the type is in the noun's
//! [`ObjectOps`](crate::core::noun::ObjectOps).

use crate::core::handle::Handle;
use crate::core::object::{Object, ObjectId};
use crate::kernel::Kernel;
use crate::machine::Machine;

impl Object {
    /// Whether the object has neither handles, references nor waiters and is of a type that holds nothing, so that it
    /// can be dropped without the reaper.
    #[inline(always)]
    fn can_drop_in_place(&self) -> bool {
        self.handles == 0 && self.body.owns_nothing() && self.is_unneeded()
    }
}

impl<M: Machine> Kernel<M> {
    #[inline]
    pub(crate) fn close_now(&mut self, handle: Handle) {
        let Ok(object) = self.objects.any_mut(handle.object) else { return };
        object.handles = object.handles.saturating_sub(1);
        if object.can_drop_in_place() {
            let charge = object.charge;
            self.objects.slab.drop_entry(handle.object.0);
            self.charge_end(charge);
        } else if object.handles == 0 && !self.object_close_fast(handle.object) {
            self.close_last(handle.object);
        }
    }

    #[inline(never)]
    pub(crate) fn close_last(&mut self, id: ObjectId) {
        self.object_last_handle_closed(id);
        let Ok(object) = self.objects.any(id) else { return };
        if object.refs == 0 && object.handles == 0 {
            if object.is_watched() || object.body.needs_drain() {
                self.reaper_enqueue(id);
            } else {
                self.object_destroy(id);
            }
        }
    }

    pub(crate) fn object_destroy(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        let task = object.body.is_task().then_some(object.koid);
        if object.is_on_reap_list() {
            self.reap_list.remove(&mut self.objects.slab, id.0);
        }
        self.object_leave_lists(id);
        if let Some(koid) = task {
            self.objects.task_ended(koid);
        }
        self.object_free(id);
    }

    /// Destroys an object that has no references.
    fn object_free(&mut self, id: ObjectId) {
        let taken = self.objects.slab.vacate(id.0, |object| Some((object.charge, object.take_body())));
        let Some((charge, body)) = taken else { return };
        if let Some(counted) = body.queue_charge() {
            self.uncount_whole_queue(charge, counted);
        }
        self.charge_end(charge);
        body.destroyed(self, id);
        self.kernel_time_charge_destroy(charge);
    }
}
