//! The reaper: destroys what has ended, in slices.
//!
//! A call only marks what is to be destroyed; the reaper destroys it at the end of the call. Usually that is little.
//! But a program may release at once what it took long to create: a channel full of handles, a process with thousands
//! of them, or much memory. Other threads must not have to wait for all of that.
//!
//! 1. A call puts what is to be destroyed on lists ([`Kernel::stop_threads`], [`Kernel::reaper_enqueue`],
//!    [`Kernel::drop_handle`], [`Kernel::reaper_enqueue_vmo`]). They are processed at the end of the call, before
//!    another thread is served ([`Kernel::reap`]): first observers of the call's changes are notified, if they are many
//!    ([`crate::core::wait`]), then all threads of ended processes are stopped, then the rest is destroyed. A thread
//!    that is to be stopped can make no calls, and its faults are not handled.
//! 2. If that takes longer than a slice, the rest is deferred. What later calls put on the lists is processed before
//!    it.
//! 3. The call that caused it is not answered yet. Its thread makes the call again, as in
//!    [`crate::core::continuation`], and each time runs a slice of the deferred work ([`Kernel::reaper_slice`]). When
//!    only memory of VMOs is deferred, the call is answered. So for the thread, everything happened in its call, as in
//!    Zircon, and the thread's own processor time pays for it.
//! 4. Deferred work for which no thread waits, because the thread has ended or because only the amount of free memory
//!    reveals the work, runs on a timer: one slice, then a pause [`PAUSE`] times as long ([`Kernel::reaper_timer`]).
//! 5. An allocation that fails while work is deferred first frees pages of destroyed VMOs
//!    ([`Kernel::retry_with_reaper`]). While memory is short, each call first runs a slice of all deferred work.
//! 6. A call that asks for the amount of memory or lists objects is answered when no work is deferred.

use alloc::boxed::Box;
use core::mem::ManuallyDrop;

use crate::containers::growth::OutOfMemory;
use crate::containers::list::List;
use crate::core::continuation::{PAGES_PER_OBJECT, SLICE_NANOS, SliceTimer};
use crate::core::object::DEFERRED_WORK;
use crate::core::object::{DrainStep, Id, ObjectId, Users};
use crate::core::wait::{Interests, WaitHandle};
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::memory::vmo::{NOTES, Vmo};
use crate::task::process::Process;
use crate::task::process::Stopping;

/// Length of the pause after a slice, in slices.
const PAUSE: i64 = 3;
/// Destroying a thread costs as much as destroying this many small objects.
const THREAD: u32 = 4;
/// Work between two checks of the time, in destroyed small objects.
const LOOK: u32 = 16;

/// The reaper's state.
pub(crate) struct Reaper {
    /// Processes whose threads are to be stopped.
    stopping: List<Stopping>,
    /// Some at the front of that list were added by this event.
    stops: bool,
    /// At least this many objects at the front of [`Kernel::reap_list`] were added by this event.
    new_objects: usize,
    /// This many handles at the front of [`Kernel::closing`] were not added by this event.
    closing: usize,
    /// Destroyed VMOs whose pages are still to be freed.
    vmos: Option<Box<Vmo>>,
    /// The number of those at the front that were added by this event.
    new_vmos: usize,
    /// When the next slice is due; the maximum if no work is deferred.
    due: i64,
    /// Settled interests with observers that were not notified yet ([`crate::core::wait`], step 4).
    pub(crate) settled: List<Interests>,
    /// Observers through closed handles ([`crate::core::wait`], step 5).
    pub(crate) cancelled: List<WaitHandle>,
    /// Some of these were added by this event. `stops` is then set, too, so one check covers both.
    notifies: bool,
    /// Work since the last check of the time.
    work: u32,
    /// What this event put on the lists took more than a slice.
    more: bool,
}

impl Default for Reaper {
    fn default() -> Self {
        Reaper {
            stopping: List::default(),
            stops: false,
            new_objects: 0,
            closing: 0,
            vmos: None,
            new_vmos: 0,
            due: i64::MAX,
            settled: List::default(),
            cancelled: List::default(),
            notifies: false,
            work: 0,
            more: false,
        }
    }
}

impl<M: Machine> Kernel<M> {
    /// Step 1: puts an object that may have to be destroyed, or emptied, on the reaper's list.
    pub(crate) fn reaper_enqueue(&mut self, id: ObjectId) {
        if self.objects.any(id).is_ok_and(|object| !object.is_on_reap_list()) {
            self.reap_list.push_first(&mut self.objects.slab, id.key());
            self.reaper.new_objects += 1;
            self.unsettled |= DEFERRED_WORK;
        }
    }

    /// Step 1 for the threads of an ended process: they are stopped before anything is destroyed.
    pub(crate) fn stop_threads(&mut self, id: Id<Process>) {
        self.reaper.stopping.push_first(&mut self.objects.slab, id.object().key());
        self.reaper.stops = true;
        self.unsettled |= DEFERRED_WORK;
    }

    /// Step 1: there are observers to notify before anything else of this event is processed.
    #[cold]
    pub(crate) fn defer_notifications(&mut self) {
        self.reaper.notifies = true;
        self.reaper.stops = true;
        self.unsettled |= DEFERRED_WORK;
    }

    /// Notifies one of those observers, or stops a thread. Says whether there was one.
    fn reap_urgent(&mut self) -> bool {
        self.reaper.notifies = self.reaper.notifies && self.notify_one();
        self.reaper.notifies || self.stop_one_thread()
    }

    /// Stops one thread of an ended process. Says whether there was one.
    fn stop_one_thread(&mut self) -> bool {
        let Some(first) = self.reaper.stopping.first() else { return false };
        if self.process_stop_one_thread(Id::new(ObjectId(first))) {
            self.slice_add_work(THREAD);
        } else {
            self.reaper.stopping.remove(&mut self.objects.slab, first);
        }
        true
    }

    /// Step 1 for the pages of a destroyed VMO.
    pub(crate) fn reaper_enqueue_vmo(&mut self, mut vmo: Box<Vmo>) {
        vmo.left = self.reaper.vmos.take().map(ManuallyDrop::new);
        self.reaper.vmos = Some(vmo);
        self.reaper.new_vmos += 1;
        self.unsettled |= DEFERRED_WORK;
    }

    /// Accounts work, in destroyed small objects.
    pub fn slice_add_work(&mut self, ends: u32) {
        self.reaper.work = self.reaper.work.saturating_add(ends);
    }

    /// Starts a slice now, for work whose pieces may each be long.
    pub fn slice_begin(&mut self) -> SliceTimer {
        SliceTimer(Some(self.machine.now().saturating_add(SLICE_NANOS)))
    }

    /// Whether a slice is over.
    #[inline]
    pub fn slice_over(&mut self, slice: &mut SliceTimer) -> bool {
        self.reaper.work = self.reaper.work.saturating_add(1);
        self.reaper.work >= LOOK && self.slice_check_clock(slice)
    }

    #[inline(never)]
    fn slice_check_clock(&mut self, slice: &mut SliceTimer) -> bool {
        self.reaper.work = 0;
        let now = self.machine.now();
        now >= *slice.0.get_or_insert(now.saturating_add(SLICE_NANOS))
    }

    /// Steps 1 and 2: destroys everything that has ended since the last call. Called at the end of a call, never during
    /// one.
    ///
    /// Large contents of an object (a process's handles, a channel's messages) are released piece by piece from where
    /// they are. So the reaper needs no memory, however much it destroys.
    pub fn reap(&mut self) {
        let mut slice = SliceTimer::default();
        loop {
            let first = if self.reaper.new_objects > 0 { self.reap_list.first().map(ObjectId) } else { None };
            if self.reaper.stops {
                self.reaper.stops = self.reap_urgent();
            } else if self.closing.len() > self.reaper.closing
                && let Some(handle) = self.closing.pop()
            {
                self.close_now(handle);
            } else if let Some(id) = first {
                self.reap_step(id);
            } else if self.reaper.new_vmos > 0 {
                self.reaper_free_pages();
            } else {
                self.reaper.new_objects = 0;
                if self.pressure_relieve() {
                    continue;
                }
                return;
            }
            if self.slice_over(&mut slice) {
                self.reaper.more = true;
                self.unsettled |= DEFERRED_WORK;
                return self.reaper_defer_rest();
            }
        }
    }

    /// Step 3: whether the call is answered only when no visible work is deferred any more.
    pub fn reaper_delays_answer(&mut self) -> bool {
        core::mem::take(&mut self.reaper.more) && self.reaper_has_visible_work()
    }

    /// Step 2: defers everything that is on the lists.
    fn reaper_defer_rest(&mut self) {
        self.reaper.notifies = false;
        self.reaper.stops = false;
        self.reaper.new_objects = 0;
        self.reaper.closing = self.closing.len();
        self.reaper.new_vmos = 0;
        if self.reaper_has_work() && self.reaper.due == i64::MAX {
            self.reaper_schedule(SLICE_NANOS);
            self.update_slow_path();
        }
    }

    /// Schedules the next slice after a pause.
    fn reaper_schedule(&mut self, slice: i64) {
        let now = self.machine.now();
        self.reaper.due = now.saturating_add(slice.saturating_mul(PAUSE));
        self.machine.set_deadline(self.reaper.due);
    }

    /// Destroyed VMOs whose pages are still to be freed.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn reaper_vmos(&self) -> impl Iterator<Item = &Vmo> {
        core::iter::successors(self.reaper.vmos.as_deref(), |vmo| vmo.left.as_ref().map(|left| &***left))
    }

    /// Whether any work is deferred.
    pub fn reaper_has_work(&self) -> bool {
        self.reaper.vmos.is_some() || self.reaper_has_visible_work()
    }

    /// Whether any work except freeing memory is deferred.
    pub fn reaper_has_visible_work(&self) -> bool {
        let told = self.reaper.settled.is_empty() && self.reaper.cancelled.is_empty();
        !told || !self.reaper.stopping.is_empty() || !self.reap_list.is_empty() || !self.closing.is_empty()
    }

    /// One slice of the deferred work, oldest first. Says whether there was any. Must not be called during a call.
    pub fn reaper_slice(&mut self) -> bool {
        if !self.reaper_has_work() {
            return false;
        }
        let mut slice = SliceTimer::default();
        loop {
            if self.notify_one() || self.stop_one_thread() {
                // Observers come first; threads of ended processes that still run are stopped before their handles are
                // closed.
            } else if let Some(handle) = self.closing.pop() {
                self.close_now(handle);
            } else if let Some(id) = self.reap_list.last(&self.objects.slab) {
                self.reap_step(ObjectId(id));
            } else if !self.reaper_free_pages() {
                break;
            }
            if self.slice_over(&mut slice) {
                break;
            }
        }
        self.reaper_defer_rest();
        if !self.reaper_has_work() && self.reaper.due != i64::MAX {
            self.reaper.due = i64::MAX;
            self.update_slow_path();
        }
        self.pressure_check();
        self.pressure_recheck();
        true
    }

    /// Step 4, if it is due. Returns when the next slice is due.
    pub(crate) fn reaper_timer(&mut self, now: i64) -> Option<i64> {
        if now >= self.reaper.due {
            // What this event put on the lists comes first.
            self.reap();
            self.reaper_slice();
            if self.reaper_has_work() {
                let took = self.machine.now().saturating_sub(now).max(0);
                self.reaper_schedule(took);
            }
        }
        (self.reaper.due != i64::MAX).then_some(self.reaper.due)
    }

    /// Frees some pages of a destroyed VMO. Says whether there is one.
    fn reaper_free_pages(&mut self) -> bool {
        let Some(vmo) = &mut self.reaper.vmos else { return false };
        let taken = vmo.pages_mut().and_then(|pages| pages.take_last(0, u64::MAX));
        match taken {
            Some(chunk) => {
                chunk.frames().for_each(|(_, frame)| self.frames.release(&mut self.machine, frame));
                self.slice_add_work(2);
            }
            None if vmo.zeroed.forget_some(NOTES) => self.slice_add_work(NOTES as u32 / PAGES_PER_OBJECT),
            None => {
                self.reaper.vmos = vmo.left.take().map(ManuallyDrop::into_inner);
                self.reaper.new_vmos = self.reaper.new_vmos.saturating_sub(1);
                self.pressure_check();
            }
        }
        true
    }

    /// Step 5: repeats an allocation as long as it fails and freeing pages of destroyed VMOs may help.
    pub(crate) fn retry_with_reaper<T>(
        &mut self,
        mut make: impl FnMut(&mut Self) -> Result<T, OutOfMemory>,
    ) -> Result<T, OutOfMemory> {
        loop {
            match make(self) {
                Err(OutOfMemory) if self.reaper.vmos.is_some() => {
                    let mut slice = SliceTimer::default();
                    while self.reaper_free_pages() && !self.slice_over(&mut slice) {}
                }
                made => return made,
            }
        }
    }

    /// Whether `count` frames are not free now, but may be when all deferred work is done.
    pub(crate) fn reaper_may_free_frames(&self, count: u64) -> bool {
        let (used, total) = self.machine.memory();
        let possible = (total.saturating_sub(used) / PAGE..=total / PAGE).contains(&count);
        possible && self.reaper_has_work()
    }

    /// One step of destroying an object: closes a handle that it holds, or destroys the object itself.
    fn reap_step(&mut self, id: ObjectId) {
        match self.drain_object(id) {
            DrainStep::Handle(handle) => self.close_now(handle),
            DrainStep::More => {}
            DrainStep::Nothing => {
                self.reap_list.remove(&mut self.objects.slab, id.key());
                self.reaper.new_objects = self.reaper.new_objects.saturating_sub(1);
                if self.objects.any(id).is_ok_and(|o| o.refs == 0 && o.handles == 0) {
                    self.object_destroy(id);
                }
            }
        }
    }

    /// Takes something out of an object that is being destroyed.
    fn drain_object(&mut self, id: ObjectId) -> DrainStep {
        let Ok(object) = self.objects.any(id) else { return DrainStep::Nothing };
        let users = Users { handles: object.handles != 0, any: object.refs != 0 || object.handles != 0 };
        if !users.any && object.is_watched() && self.drop_observer_of(id) {
            return DrainStep::More;
        }
        self.object_drain(id, users)
    }
}
