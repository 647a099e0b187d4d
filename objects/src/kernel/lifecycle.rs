//! Destruction of objects: what each type does when its last handle is closed, and how it is destroyed.

use crate::core::handle::Handle;
use crate::core::object::{Id, Object, ObjectId};
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::Machine;

impl Object {
    /// Whether the object has neither handles, references nor waiters and is of a type that holds nothing, so that it
    /// can be dropped without the reaper.
    #[inline(always)]
    fn can_drop_in_place(&self) -> bool {
        self.handles == 0
            && matches!(self.body, Body::Event(_) | Body::Counter(_) | Body::Debuglog(_))
            && self.is_unneeded()
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
        } else if object.handles == 0 {
            match &object.body {
                Body::Channel(_) => self.channel_closed(Id::new(handle.object)),
                _ => self.close_last(handle.object),
            }
        }
    }

    #[inline(never)]
    pub(crate) fn close_last(&mut self, id: ObjectId) {
        self.last_handle_gone(id);
        let Ok(object) = self.objects.any(id) else { return };
        if object.refs == 0 && object.handles == 0 {
            match &object.body {
                _ if object.is_watched() => self.reaper_enqueue(id),
                Body::Process(_) | Body::Vproc(_) => self.reaper_enqueue(id),
                Body::Channel(channel) if !channel.is_empty() => self.reaper_enqueue(id),
                Body::Port(port) if !port.is_empty() => self.reaper_enqueue(id),
                Body::Pager(pager) if !pager.is_empty() => self.reaper_enqueue(id),
                _ => self.object_destroy(id),
            }
        }
    }

    fn last_handle_gone(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        match &object.body {
            Body::Channel(_) => self.channel_unreachable(Id::new(id)),
            Body::Socket(_) => self.socket_unreachable(Id::new(id)),
            Body::Fifo(_) => self.fifo_unreachable(Id::new(id)),
            Body::EventPair(_) => self.eventpair_unreachable(Id::new(id)),
            Body::Iob(_) => self.iob_unreachable(Id::new(id)),
            Body::Port(_) => self.port_unreachable(Id::new(id)),
            Body::Timer(_) => self.timer_unreachable(Id::new(id)),
            Body::Job(_) => self.job_prune(Id::new(id)),
            Body::Process(_) => self.process_unreachable(Id::new(id)),
            Body::Exception(_) => self.exception_unreachable(Id::new(id)),
            Body::Interrupt(_) => self.interrupt_unreachable(Id::new(id)),
            Body::Pager(_) => self.pager_unreachable(Id::new(id)),
            Body::Bti(_) => self.bti_unreachable(Id::new(id)),
            Body::Pmt(_) => self.pmt_unreachable(Id::new(id)),
            Body::Endpoint(_) => self.endpoint_unreachable(Id::new(id)),
            Body::Vproc(_) => self.vproc_unreachable(Id::new(id)),
            _ => {}
        }
    }

    pub(crate) fn object_destroy(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        let listed = matches!(object.body, Body::Job(_) | Body::Thread(_) | Body::Process(_) | Body::Vmo(_));
        if object.is_on_reap_list() {
            self.reap_list.remove(&mut self.objects.slab, id.0);
        }
        if listed {
            self.leave_lists(id);
        }
        self.object_free(id);
    }

    /// Destroys an object that has no references.
    fn object_free(&mut self, id: ObjectId) {
        let taken = self.objects.slab.vacate(id.0, |object| Some((object.charge, object.take_body())));
        let Some((charge, body)) = taken else { return };
        match &body {
            Body::Channel(end) => self.uncount_whole_queue(charge, end.counted),
            Body::Socket(end) => self.uncount_whole_queue(charge, end.counted),
            _ => {}
        }
        self.charge_end(charge);
        match body {
            Body::Channel(end) => self.channel_end(end),
            Body::Job(job) => self.job_end(*job),
            Body::Process(process) => self.process_end(Id::new(id), *process),
            Body::Thread(thread) => self.thread_end(*thread),
            Body::Vmo(vmo) => self.vmo_end(vmo),
            Body::Stream(stream) => self.stream_end(*stream),
            Body::Iob(end) => self.iob_end(*end),
            Body::IobSharedRegion(region) => self.iob_shared_region_end(*region),
            Body::Resource(resource) => self.resource_end(&resource),
            Body::SuspendToken(token) => self.suspend_token_end(*token),
            Body::Exception(exception) => self.exception_end(*exception),
            Body::Interrupt(interrupt) => self.interrupt_end(&interrupt),
            Body::Msi(msi) => self.msi_end(&msi),
            Body::Bti(bti) => self.bti_end(&bti),
            Body::Pmt(pmt) => self.pmt_end(*pmt),
            Body::Clock(clock) => self.clock_end(&clock),
            Body::Endpoint(endpoint) => self.endpoint_end(&endpoint),
            Body::Vproc(vproc) => self.vproc_end(*vproc),
            _ => {}
        }
        self.kernel_time_charge_destroy(charge);
    }

    /// Removes an object that is about to be destroyed from its parent's lists.
    fn leave_lists(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        let koid = object.koid;
        match &object.body {
            Body::Job(_) => self.job_leave(Id::new(id)),
            Body::Thread(_) => self.thread_leave(Id::new(id)),
            Body::Process(_) => {}
            Body::Vmo(_) => return self.vmo_leave(Id::new(id)),
            _ => return,
        }
        self.objects.task_ended(koid);
    }
}
