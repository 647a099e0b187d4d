//! The reaper: destroys what has ended, in slices.
//!
//! Calls decide what ends; the reaper destroys it when they are done. Usually that is little. But a program may release
//! at once as much as it could create in a long time: a channel full of handles, a process with thousands of them,
//! memory. Other threads must not have to wait for all of that.
//!
//! 1. A call puts what it ends on lists ([`Kernel::stop_threads`], [`Kernel::doom`], [`Kernel::drop_handle`],
//!    [`Kernel::vmo_left`]). They are processed at the end of the call, before another thread is served
//!    ([`Kernel::reap`]): first observers of the call's changes are notified, if they are many ([`crate::core::wait`]),
//!    then all threads of ended processes are stopped, then the rest is destroyed. A thread that is to be stopped can
//!    make no calls, and its faults are not handled.
//! 2. If that takes longer than a slice, the rest is *left*. What later calls end is processed before it.
//! 3. The call that caused it is not answered yet. Its thread makes the call again, as in
//!    [`crate::core::continuation`], and each time runs a slice of what is left ([`Kernel::left_portion`]). When only
//!    memory of VMOs is left, the call is answered. So for the thread, everything happened in its call, as in Zircon,
//!    and the thread's own processor time pays for it.
//! 4. What no thread waits for, because it has ended or because only the amount of free memory shows it, is processed
//!    on a timer: one slice, then a pause [`PAUSE`] times as long ([`Kernel::left_due`]).
//! 5. An allocation that fails while something is left first frees pages of destroyed VMOs ([`Kernel::with_left`]).
//!    While memory is short, each call first runs a slice of everything.
//! 6. A call that asks for the amount of memory or lists objects is answered when nothing is left.

use alloc::boxed::Box;
use core::mem::ManuallyDrop;

use crate::containers::growth::OutOfMemory;
use crate::containers::list::List;
use crate::core::continuation::{PORTION, Portion, WORK};
use crate::core::object::Held;
use crate::core::object::LEFT;
use crate::core::object::{Id, ObjectId};
use crate::core::wait::{Interests, Through};
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
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
    /// At least this many objects at the front of [`Kernel::doomed`] were added by this event.
    doomed: usize,
    /// This many handles at the front of [`Kernel::closing`] were not added by this event.
    closing: usize,
    /// Destroyed VMOs whose pages are still to be freed.
    vmos: Option<Box<Vmo>>,
    /// The number of those at the front that were added by this event.
    new_vmos: usize,
    /// When the next slice is due; the maximum if nothing is left.
    due: i64,
    /// Settled interests with observers that were not notified yet ([`crate::core::wait`], step 4).
    pub(crate) settled: List<Interests>,
    /// Observers through closed handles ([`crate::core::wait`], step 5).
    pub(crate) cancelled: List<Through>,
    /// Some of these were added by this event. `stops` is then set, too, so one check covers both.
    tells: bool,
    /// Work since the last check of the time.
    work: u32,
    /// What this event ended took more than a slice.
    more: bool,
}

impl Default for Reaper {
    fn default() -> Self {
        Reaper {
            stopping: List::default(),
            stops: false,
            doomed: 0,
            closing: 0,
            vmos: None,
            new_vmos: 0,
            due: i64::MAX,
            settled: List::default(),
            cancelled: List::default(),
            tells: false,
            work: 0,
            more: false,
        }
    }
}

impl<M: Machine> Kernel<M> {
    /// Step 1: puts an object that may have to be destroyed, or emptied, on the reaper's list.
    pub(crate) fn doom(&mut self, id: ObjectId) {
        if self.objects.any(id).is_ok_and(|object| !object.is_doomed()) {
            self.doomed.push_first(&mut self.objects.slab, id.key());
            self.reaper.doomed += 1;
            self.unsettled |= LEFT;
        }
    }

    /// Step 1 for the threads of an ended process: they are stopped before anything is destroyed.
    pub(crate) fn stop_threads(&mut self, id: Id<Process>) {
        self.reaper.stopping.push_first(&mut self.objects.slab, id.object().key());
        self.reaper.stops = true;
        self.unsettled |= LEFT;
    }

    /// Step 1: there are observers to notify before anything else of this event is processed.
    #[cold]
    pub(crate) fn tell_first(&mut self) {
        self.reaper.tells = true;
        self.reaper.stops = true;
        self.unsettled |= LEFT;
    }

    /// Notifies one of those observers, or stops a thread. Says whether there was one.
    fn first_some(&mut self) -> bool {
        self.reaper.tells = self.reaper.tells && self.tell_one();
        self.reaper.tells || self.stop_some()
    }

    /// Stops one thread of an ended process. Says whether there was one.
    fn stop_some(&mut self) -> bool {
        let Some(first) = self.reaper.stopping.first() else { return false };
        if self.process_stop_some(Id::new(ObjectId(first))) {
            self.worked(THREAD);
        } else {
            self.reaper.stopping.remove(&mut self.objects.slab, first);
        }
        true
    }

    /// Step 1 for the pages of a destroyed VMO.
    pub(crate) fn vmo_left(&mut self, mut vmo: Box<Vmo>) {
        vmo.left = self.reaper.vmos.take().map(ManuallyDrop::new);
        self.reaper.vmos = Some(vmo);
        self.reaper.new_vmos += 1;
        self.unsettled |= LEFT;
    }

    /// Accounts work, in destroyed small objects.
    pub fn worked(&mut self, ends: u32) {
        self.reaper.work = self.reaper.work.saturating_add(ends);
    }

    /// Starts a slice now, for work whose pieces may each be long.
    pub fn portion(&mut self) -> Portion {
        Portion(Some(self.machine.now().saturating_add(PORTION)))
    }

    /// Whether a slice is over.
    #[inline]
    pub fn portion_over(&mut self, portion: &mut Portion) -> bool {
        self.reaper.work = self.reaper.work.saturating_add(1);
        self.reaper.work >= LOOK && self.look_at_clock(portion)
    }

    #[inline(never)]
    fn look_at_clock(&mut self, portion: &mut Portion) -> bool {
        self.reaper.work = 0;
        let now = self.machine.now();
        now >= *portion.0.get_or_insert(now.saturating_add(PORTION))
    }

    /// Steps 1 and 2: destroys everything that has ended since the last call. Called at the end of a call, never during
    /// one.
    ///
    /// Large contents of an object (a process's handles, a channel's messages) are released piece by piece from where
    /// they are. So the reaper needs no memory, however much it destroys.
    pub fn reap(&mut self) {
        let mut portion = Portion::default();
        loop {
            let first = if self.reaper.doomed > 0 { self.doomed.first().map(ObjectId) } else { None };
            if self.reaper.stops {
                self.reaper.stops = self.first_some();
            } else if self.closing.len() > self.reaper.closing
                && let Some(handle) = self.closing.pop()
            {
                self.close_now(handle);
            } else if let Some(id) = first {
                self.end_some(id);
            } else if self.reaper.new_vmos > 0 {
                self.left_pages();
            } else {
                self.reaper.doomed = 0;
                if self.pressure_relieve() {
                    continue;
                }
                return;
            }
            if self.portion_over(&mut portion) {
                self.reaper.more = true;
                self.unsettled |= LEFT;
                return self.leave_rest();
            }
        }
    }

    /// Step 3: whether the call is to be answered only when nothing visible is left.
    pub fn ends_go_on(&mut self) -> bool {
        core::mem::take(&mut self.reaper.more) && self.is_left_to_see()
    }

    /// Step 2: what is on the lists is left.
    fn leave_rest(&mut self) {
        self.reaper.tells = false;
        self.reaper.stops = false;
        self.reaper.doomed = 0;
        self.reaper.closing = self.closing.len();
        self.reaper.new_vmos = 0;
        if self.is_left() && self.reaper.due == i64::MAX {
            self.left_pause(PORTION);
            self.attend();
        }
    }

    /// Schedules the next slice after a pause.
    fn left_pause(&mut self, portion: i64) {
        let now = self.machine.now();
        self.reaper.due = now.saturating_add(portion.saturating_mul(PAUSE));
        self.machine.set_deadline(self.reaper.due);
    }

    /// Destroyed VMOs whose pages are still to be freed.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn left_vmos(&self) -> impl Iterator<Item = &Vmo> {
        core::iter::successors(self.reaper.vmos.as_deref(), |vmo| vmo.left.as_ref().map(|left| &***left))
    }

    /// Whether anything is left.
    pub fn is_left(&self) -> bool {
        self.reaper.vmos.is_some() || self.is_left_to_see()
    }

    /// Whether anything but memory is left.
    pub fn is_left_to_see(&self) -> bool {
        let told = self.reaper.settled.is_empty() && self.reaper.cancelled.is_empty();
        !told || !self.reaper.stopping.is_empty() || !self.doomed.is_empty() || !self.closing.is_empty()
    }

    /// One slice of what is left, the oldest first. Says whether there was anything. Must not be called during a call.
    pub fn left_portion(&mut self) -> bool {
        if !self.is_left() {
            return false;
        }
        let mut portion = Portion::default();
        loop {
            if self.tell_one() || self.stop_some() {
                // Observers come first; threads of ended processes that still run are stopped before their handles are
                // closed.
            } else if let Some(handle) = self.closing.pop() {
                self.close_now(handle);
            } else if let Some(id) = self.doomed.last(&self.objects.slab) {
                self.end_some(ObjectId(id));
            } else if !self.left_pages() {
                break;
            }
            if self.portion_over(&mut portion) {
                break;
            }
        }
        self.leave_rest();
        if !self.is_left() && self.reaper.due != i64::MAX {
            self.reaper.due = i64::MAX;
            self.attend();
        }
        self.pressure_check();
        self.pressure_look_again();
        true
    }

    /// Step 4, if it is due. Returns when the next slice is due.
    pub(crate) fn left_due(&mut self, now: i64) -> Option<i64> {
        if now >= self.reaper.due {
            // What this event has ended comes first.
            self.reap();
            self.left_portion();
            if self.is_left() {
                let took = self.machine.now().saturating_sub(now).max(0);
                self.left_pause(took);
            }
        }
        (self.reaper.due != i64::MAX).then_some(self.reaper.due)
    }

    /// Frees some pages of a destroyed VMO. Says whether there is one.
    fn left_pages(&mut self) -> bool {
        let Some(vmo) = &mut self.reaper.vmos else { return false };
        let taken = vmo.pages_mut().and_then(|pages| pages.take_last(0, u64::MAX));
        match taken {
            Some(chunk) => {
                chunk.frames().for_each(|(_, frame)| self.frames.release(&mut self.machine, frame));
                self.worked(2);
            }
            None if vmo.zeroed.forget_some(NOTES) => self.worked(NOTES as u32 / WORK),
            None => {
                self.reaper.vmos = vmo.left.take().map(ManuallyDrop::into_inner);
                self.reaper.new_vmos = self.reaper.new_vmos.saturating_sub(1);
                self.pressure_check();
            }
        }
        true
    }

    /// Step 5: repeats an allocation as long as it fails and freeing pages of destroyed VMOs may help.
    pub(crate) fn with_left<T>(
        &mut self,
        mut make: impl FnMut(&mut Self) -> Result<T, OutOfMemory>,
    ) -> Result<T, OutOfMemory> {
        loop {
            match make(self) {
                Err(OutOfMemory) if self.reaper.vmos.is_some() => {
                    let mut portion = Portion::default();
                    while self.left_pages() && !self.portion_over(&mut portion) {}
                }
                made => return made,
            }
        }
    }

    /// Whether `count` frames are not free now, but may be when everything left is destroyed.
    pub(crate) fn frames_are_left(&self, count: u64) -> bool {
        let (used, total) = self.machine.memory();
        let possible = (total.saturating_sub(used) / PAGE..=total / PAGE).contains(&count);
        possible && self.is_left()
    }

    /// One step of destroying an object: closes a handle that it holds, or destroys the object itself.
    fn end_some(&mut self, id: ObjectId) {
        match self.held_by(id) {
            Held::Handle(handle) => self.close_now(handle),
            Held::More => {}
            Held::Nothing => {
                self.doomed.remove(&mut self.objects.slab, id.key());
                self.reaper.doomed = self.reaper.doomed.saturating_sub(1);
                if self.objects.any(id).is_ok_and(|o| o.refs == 0 && o.handles == 0) {
                    self.take_apart(id);
                }
            }
        }
    }

    /// Takes something out of an object that is being destroyed.
    fn held_by(&mut self, id: ObjectId) -> Held {
        let Ok(object) = self.objects.any_mut(id) else { return Held::Nothing };
        let (unreachable, unneeded) = (object.handles == 0, object.refs == 0 && object.handles == 0);
        if unneeded && object.is_watched() && self.drop_observer_of(id) {
            return Held::More;
        }
        let Ok(object) = self.objects.any_mut(id) else { return Held::Nothing };
        match &mut object.body {
            Body::Process(process) => {
                let account = process.account;
                let held = self.process_let_go(crate::Id::new(id));
                self.worked_on(account);
                held
            }
            Body::Port(_) if unreachable => {
                if self.port_let_go(Id::new(id)) {
                    Held::More
                } else {
                    Held::Nothing
                }
            }
            Body::Pager(_) if unreachable => {
                if self.pager_let_go(Id::new(id)) {
                    Held::More
                } else {
                    Held::Nothing
                }
            }
            Body::Vproc(vproc) if unneeded || vproc.has_stopped() => self.vproc_let_go(crate::Id::new(id)),
            Body::Channel(channel) if unneeded => channel.let_go().map_or(Held::Nothing, Held::Handle),
            _ => Held::Nothing,
        }
    }
}
