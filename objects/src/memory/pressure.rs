//! Memory pressure levels, and the events that report them.
//!
//! The free share of memory determines one of five levels; the event of the current level is signalled, the others are
//! not. A level becomes worse immediately, but better only with some margin of free memory, so that a program that
//! allocates and frees single pages does not make it oscillate. The level is checked whenever a page is allocated or
//! freed.
//!
//! Events are created when a program asks for them, and last as long as they have handles.
//!
//! Before any operation fails for lack of memory, discardable content is dropped (`vmo/discard.rs`): at
//! [`Level::Critical`], at the end of the call that reached it, until the level is better; and during a call that finds
//! no free frame, as much as the call needs.

use abi::{
    Signals, Status, ZX_SYSTEM_EVENT_IMMINENT_OUT_OF_MEMORY, ZX_SYSTEM_EVENT_MEMORY_PRESSURE_CRITICAL,
    ZX_SYSTEM_EVENT_MEMORY_PRESSURE_NORMAL, ZX_SYSTEM_EVENT_MEMORY_PRESSURE_WARNING, ZX_SYSTEM_EVENT_OUT_OF_MEMORY,
    ZX_TASK_RETCODE_OOM_KILL,
};

use crate::containers::growth::OutOfMemory as NoMemory;
use crate::core::event::Event;
use crate::core::object::DEFERRED_WORK;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Frame, Machine, PAGE};
use crate::memory::vmo::Vmo;

/// Memory pressure; greater is worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// At least an eighth of memory is free.
    Normal,
    /// Less than an eighth.
    Warning,
    /// Less than a sixteenth.
    Critical,
    /// Less than 3/128.
    Imminent,
    /// Less than a 64th. Jobs that allow it (`ZX_PROP_JOB_KILL_ON_OOM`) are killed.
    OutOfMemory,
}

use Level::{Critical, Imminent, Normal, OutOfMemory, Warning};

/// Number of pages reclaimed at a time when there are none.
const BATCH: u64 = 64;
/// Number of slices of the reaper before a call while memory is short.
const SLICES_IF_SHORT: u32 = 4;

const LEVELS: [Level; 5] = [Normal, Warning, Critical, Imminent, OutOfMemory];

impl Level {
    /// The level of an event (`ZX_SYSTEM_EVENT_*`).
    pub fn of_event(kind: u32) -> Option<Level> {
        Some(match kind {
            ZX_SYSTEM_EVENT_OUT_OF_MEMORY => OutOfMemory,
            ZX_SYSTEM_EVENT_IMMINENT_OUT_OF_MEMORY => Imminent,
            ZX_SYSTEM_EVENT_MEMORY_PRESSURE_CRITICAL => Critical,
            ZX_SYSTEM_EVENT_MEMORY_PRESSURE_WARNING => Warning,
            ZX_SYSTEM_EVENT_MEMORY_PRESSURE_NORMAL => Normal,
            _ => return None,
        })
    }

    /// Minimum free bytes of this level.
    fn floor(self, total: u64) -> u64 {
        match self {
            Normal => total / 8,
            Warning => total / 16,
            Critical => total / 128 * 3,
            Imminent => total / 64,
            OutOfMemory => 0,
        }
    }

    /// The level for a number of free bytes, without hysteresis.
    fn of(free: u64, total: u64) -> Level {
        LEVELS.into_iter().find(|level| free >= level.floor(total)).unwrap_or(OutOfMemory)
    }
}

/// State of memory pressure.
pub(crate) struct Pressure {
    level: Level,
    /// At the end of the call, memory must be relieved, if it is still short then.
    relieve: bool,
    events: [Option<Id<Event>>; LEVELS.len()],
    /// The level may change when free memory is below the first or at least the second value.
    bounds: (u64, u64),
}

impl Default for Pressure {
    fn default() -> Self {
        // Forces the first check to determine the level.
        Pressure { level: Normal, relieve: false, events: [None; LEVELS.len()], bounds: (u64::MAX, 0) }
    }
}

impl<M: Machine> Kernel<M> {
    /// Returns the event of a level, and creates it if necessary.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn pressure_event(&mut self, level: Level) -> Result<Id<Event>, Status> {
        self.pressure_check();
        let place = level as usize;
        if let Some(event) = self.pressure.events.get(place).copied().flatten()
            && self.objects.get(event).is_ok()
        {
            return Ok(event);
        }
        let event = self.event_create()?;
        if level == self.pressure.level {
            self.signal(event.object(), Signals::NONE, Signals::EVENT_SIGNALED);
        }
        if let Some(slot) = self.pressure.events.get_mut(place) {
            *slot = Some(event);
        }
        Ok(event)
    }

    /// Updates the level; called after a change of free memory.
    #[inline]
    pub(crate) fn pressure_check(&mut self) {
        let (used, total) = self.machine.memory();
        let free = total.saturating_sub(used);
        if free < self.pressure.bounds.0 || free >= self.pressure.bounds.1 {
            self.pressure_changed(free, total);
        }
    }

    #[cold]
    fn pressure_changed(&mut self, free: u64, total: u64) {
        let (old, mut new) = (self.pressure.level, Level::of(free, total));
        let margin = total / 128;
        if new < old {
            // Better, but only as far as the margin allows.
            new = Level::of(free.saturating_sub(margin), total).min(old);
        }
        let better = LEVELS.get((new as usize).wrapping_sub(1));
        let upper = better.map_or(u64::MAX, |level| level.floor(total).saturating_add(margin));
        self.pressure.bounds = (new.floor(total), upper);
        self.pressure.level = new;
        if new == old {
            return;
        }
        for (level, signalled) in [(old, false), (new, true)] {
            if let Some(event) = self.pressure.events.get(level as usize).copied().flatten() {
                let signal = Signals::EVENT_SIGNALED;
                let (clear, set) = if signalled { (Signals::NONE, signal) } else { (signal, Signals::NONE) };
                self.signal(event.object(), clear, set);
            }
        }
        if new >= Critical {
            // Not now: the current operation must not lose its process half-way.
            self.pressure.relieve = true;
            self.unsettled |= DEFERRED_WORK;
        }
    }

    /// A VMO has become discardable.
    #[inline]
    pub(crate) fn pressure_may_relieve(&mut self) {
        self.pressure.relieve |= self.pressure.level >= Critical;
    }

    /// Before a call: if memory is short, runs some slices of the reaper.
    pub fn reap_if_short(&mut self) {
        let mut slices = 0..SLICES_IF_SHORT;
        while self.pressure.level >= Warning && slices.next().is_some() && self.reaper_slice() {}
    }

    /// The reaper has made progress while memory is to be relieved.
    pub(crate) fn pressure_recheck(&mut self) {
        if self.pressure.relieve && !self.reaper_has_work() {
            self.unsettled |= DEFERRED_WORK;
        }
    }

    /// Allocates a frame for a VMO. If none is free, drops discardable content of other VMOs.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    #[inline]
    pub(crate) fn frame_take(&mut self, id: Id<Vmo>) -> Result<Frame, Status> {
        self.machine.frame_alloc().or_else(|_| self.frame_reclaim(id)).map_err(|_| Status::NO_MEMORY)
    }

    #[cold]
    fn frame_reclaim(&mut self, id: Id<Vmo>) -> Result<Frame, NoMemory> {
        self.ahead_reclaim();
        let left = self.retry_with_reaper(|kernel| kernel.machine.frame_alloc());
        if left.is_ok() {
            return left;
        }
        self.vmo_unlisted(id);
        // The dropped memory may be free for other uses than frames, so this may take several attempts.
        let frame = loop {
            if self.vmo_reclaim_discardable(BATCH) == 0 {
                break Err(NoMemory);
            }
            if let Ok(frame) = self.machine.frame_alloc() {
                break Ok(frame);
            }
        };
        self.vmo_may_be_discarded(id);
        frame
    }

    /// Whether `count` frames can be allocated for a VMO, possibly after dropping content of others.
    pub(crate) fn frames_can_be_had(&mut self, id: Id<Vmo>, count: u64) -> bool {
        let missing = |kernel: &Self| {
            let (used, total) = kernel.machine.memory();
            count.saturating_sub(total.saturating_sub(used) / PAGE)
        };
        let possible = |kernel: &mut Self| if missing(kernel) == 0 { Ok(()) } else { Err(NoMemory) };
        self.retry_with_reaper(possible).is_ok() || missing(self) <= self.vmo_discardable_pages(id)
    }

    /// Ensures that the objects' own small allocations cannot fail ([`Memory::heap_reserve`](crate::machine::Memory::heap_reserve)), possibly after dropping
    /// discardable content.
    #[inline]
    pub fn heap_reserve(&mut self) -> Result<(), NoMemory> {
        self.machine.heap_reserve().or_else(|_| self.heap_reclaim())
    }

    #[cold]
    fn heap_reclaim(&mut self) -> Result<(), NoMemory> {
        if self.retry_with_reaper(|kernel| kernel.machine.heap_reserve()).is_ok() {
            return Ok(());
        }
        // The heap grows in pieces larger than pages.
        while self.vmo_reclaim_discardable(BATCH) != 0 {
            if self.machine.heap_reserve().is_ok() {
                return Ok(());
            }
        }
        Err(NoMemory)
    }

    /// Drops discardable content. If memory is still nearly exhausted, kills the newest job that allows it; the reaper
    /// frees its memory before the next call of this method. Says whether there was anything to do.
    pub(crate) fn pressure_relieve(&mut self) -> bool {
        // The reaper's remaining work may free enough; this is checked again when that is done.
        if self.reaper_has_work() || !core::mem::take(&mut self.pressure.relieve) {
            return false;
        }
        self.pressure_check();
        if self.pressure.level >= Critical {
            let (used, total) = self.machine.memory();
            let enough = Warning.floor(total).saturating_add(total / 128);
            let missing = enough.saturating_sub(total.saturating_sub(used));
            if self.vmo_reclaim_discardable(missing.div_ceil(PAGE)) != 0 {
                self.pressure.relieve = true;
                self.unsettled |= DEFERRED_WORK;
                return true;
            }
        }
        if self.pressure.level != OutOfMemory {
            return true;
        }
        if let Some(job) = self.job_out_of_memory() {
            self.pressure.relieve = true;
            self.unsettled |= DEFERRED_WORK;
            self.job_kill(job, ZX_TASK_RETCODE_OOM_KILL);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::core::handle::Handle;
    use crate::fake::FakeMachine;
    use crate::machine::PAGE;
    use abi::Rights;
    use proptest::prelude::*;
    use std::vec::Vec;

    const FRAMES: u64 = 256;

    /// Asks for all events; returns the level of the one that is signalled.
    fn signalled(kernel: &mut Kernel<FakeMachine>, events: &[Id<Event>]) -> Level {
        let mut on = events.iter().map(|event| kernel.signals(event.object()).contains(Signals::EVENT_SIGNALED));
        let level = on.position(|on| on).expect("one is signalled");
        assert!(!on.any(|on| on), "two are signalled");
        LEVELS[level]
    }

    fn world() -> (Kernel<FakeMachine>, Vec<Id<Event>>, Vec<Handle>) {
        let mut kernel = Kernel::new(FakeMachine::new(FRAMES as usize)).unwrap();
        let events: Vec<_> = LEVELS.iter().map(|&level| kernel.pressure_event(level).unwrap()).collect();
        let hold = |event: &Id<Event>| kernel.dup_handle(Handle { object: event.object(), rights: Rights::NONE });
        let handles = events.iter().map(hold).collect();
        (kernel, events, handles)
    }

    #[test]
    fn memory_becomes_short_and_is_given_back() {
        let (mut kernel, events, handles) = world();
        assert_eq!(signalled(&mut kernel, &events), Normal);
        let vmo = kernel.vmo_create(FRAMES * PAGE, false).unwrap();
        let mut seen = Vec::new();
        let mut look = |kernel: &mut Kernel<FakeMachine>| {
            let level = signalled(kernel, &events);
            if seen.last() != Some(&level) {
                seen.push(level);
            }
        };
        for page in 0..FRAMES {
            kernel.vmo_commit(vmo, page * PAGE, PAGE).unwrap();
            look(&mut kernel);
        }
        for page in 0..FRAMES {
            kernel.vmo_decommit(vmo, page * PAGE, PAGE).unwrap();
            look(&mut kernel);
        }
        let down = [Normal, Warning, Critical, Imminent, OutOfMemory];
        let up = [Imminent, Critical, Warning, Normal];
        assert_eq!(seen, [down.as_slice(), &up].concat());
        // Asked for again, it is the same event; without handles, it is destroyed.
        assert_eq!(kernel.pressure_event(Normal), Ok(events[0]));
        handles.into_iter().for_each(|handle| kernel.close(handle));
        kernel.reaper_enqueue(vmo.object());
        kernel.reap();
        assert_eq!(kernel.census(), (1, 0, 0));
    }

    #[test]
    fn jobs_that_offered_are_ended_newest_first() {
        let (mut kernel, events, handles) = world();
        let root = kernel.root_job().unwrap();
        let mut jobs = Vec::new();
        let mut held = Vec::new();
        for offered in [true, false, true] {
            let job = kernel.job_create(root).unwrap();
            kernel.job_set_kill_on_oom(job, offered).unwrap();
            held.push(kernel.dup_handle(Handle { object: job.object(), rights: Rights::NONE }));
            // Each has a process with a quarter of the memory.
            let (process, _) = kernel.process_create(job, Name::default()).unwrap();
            held.push(kernel.dup_handle(Handle { object: process.object(), rights: Rights::NONE }));
            let vmo = kernel.vmo_create(FRAMES / 4 * PAGE, false).unwrap();
            kernel.vmo_commit(vmo, 0, FRAMES / 4 * PAGE).unwrap();
            kernel.give_new(process, vmo, Rights::NONE).unwrap();
            jobs.push(job);
        }
        let vmo = kernel.vmo_create(FRAMES / 4 * PAGE, false).unwrap();
        kernel.vmo_commit(vmo, 0, FRAMES / 4 * PAGE).unwrap();
        kernel.reap();
        let dead: Vec<bool> = jobs.iter().map(|&job| kernel.objects.get(job).unwrap().dead).collect();
        assert_eq!(dead, [false, false, true]);
        assert_eq!(signalled(&mut kernel, &events), Normal);
        handles.into_iter().chain(held).for_each(|handle| kernel.close(handle));
        kernel.reaper_enqueue(vmo.object());
        kernel.reap();
        assert_eq!(kernel.census(), (1, 0, 0));
    }

    /// An unlocked VMO full of ones.
    fn discardable(kernel: &mut Kernel<FakeMachine>, pages: u64) -> Id<Vmo> {
        let vmo = kernel.vmo_create(pages * PAGE, false).unwrap();
        kernel.vmo_make_discardable(vmo).unwrap();
        kernel.vmo_lock(vmo, 0, pages * PAGE).unwrap();
        for page in 0..pages {
            kernel.vmo_write(vmo, page * PAGE, &[1]).unwrap();
        }
        kernel.vmo_unlock(vmo, 0, pages * PAGE).unwrap();
        vmo
    }

    #[test]
    fn discardable_memory_is_freed_oldest_first_before_a_refusal() {
        let (mut kernel, events, handles) = world();
        let quarter = FRAMES / 4;
        let old = discardable(&mut kernel, quarter);
        let new = discardable(&mut kernel, quarter);
        let kept = discardable(&mut kernel, quarter / 2);
        kernel.vmo_lock(kept, 0, quarter / 2 * PAGE).unwrap();
        let vmo = kernel.vmo_create(FRAMES * PAGE, false).unwrap();
        // As soon as memory is short, at the end of the call: as much as is needed.
        kernel.vmo_commit(vmo, 0, (quarter + quarter / 2 - 4) * PAGE).unwrap();
        kernel.reap();
        assert_eq!(signalled(&mut kernel, &events), Normal);
        assert_eq!(kernel.vmo_try_lock(old, 0, quarter * PAGE), Err(Status::UNAVAILABLE));
        assert_eq!(kernel.vmo_try_lock(new, 0, quarter * PAGE), Ok(()));
        kernel.vmo_unlock(new, 0, quarter * PAGE).unwrap();
        // During a call that takes the rest.
        let all = FRAMES - quarter / 2;
        assert_eq!(kernel.vmo_commit(vmo, 0, (all + 1) * PAGE), Err(Status::NO_MEMORY));
        assert_eq!(kernel.vmo_try_lock(new, 0, quarter * PAGE), Ok(()), "nothing goes for what cannot be had");
        kernel.vmo_unlock(new, 0, quarter * PAGE).unwrap();
        kernel.vmo_commit(vmo, 0, all * PAGE).unwrap();
        assert_eq!(kernel.vmo_lock(new, 0, quarter * PAGE), Ok(true));
        assert_eq!(kernel.vmo_lock(kept, 0, quarter / 2 * PAGE), Ok(false));
        let mut byte = [0];
        kernel.vmo_read(kept, 0, &mut byte).unwrap();
        assert_eq!(byte, [1]);
        for vmo in [old, new, kept, vmo] {
            kernel.reaper_enqueue(vmo.object());
        }
        handles.into_iter().for_each(|handle| kernel.close(handle));
        kernel.reap();
        assert_eq!(kernel.machine.frames_in_use(), 0);
    }

    #[test]
    fn a_vmo_is_not_thrown_away_for_its_own_sake() {
        let mut kernel = Kernel::new(FakeMachine::new(16)).unwrap();
        let vmo = discardable(&mut kernel, 16);
        let more = kernel.vmo_create(PAGE, false).unwrap();
        // There is no free page, and only its own pages could be dropped.
        kernel.vmo_drop_pages(vmo, 15, 16);
        kernel.vmo_write(more, 0, &[1]).unwrap();
        assert_eq!(kernel.vmo_write(vmo, 15 * PAGE, &[1]), Err(Status::NO_MEMORY));
        let mut byte = [0];
        kernel.vmo_read(vmo, 0, &mut byte).unwrap();
        assert_eq!(byte, [1]);
        // For another VMO they are dropped.
        let other = kernel.vmo_create(PAGE, false).unwrap();
        kernel.vmo_write(other, 0, &[1]).unwrap();
        assert_eq!(kernel.vmo_lock(vmo, 0, 16 * PAGE), Ok(true));
    }

    proptest! {
        #[test]
        fn exactly_one_event_and_the_right_one(sizes in proptest::collection::vec(0..=FRAMES, 1..30)) {
            let (mut kernel, events, handles) = world();
            let vmo = kernel.vmo_create(FRAMES * PAGE, false).unwrap();
            for used in sizes {
                kernel.vmo_decommit(vmo, used * PAGE, (FRAMES - used) * PAGE).unwrap();
                kernel.vmo_commit(vmo, 0, used * PAGE).unwrap();
                let (free, total) = ((FRAMES - used) * PAGE, FRAMES * PAGE);
                let level = signalled(&mut kernel, &events);
                let (best, worst) = (Level::of(free, total), Level::of(free.saturating_sub(total / 128), total));
                prop_assert!(best <= level && level <= worst, "{:?} with {} free", level, free / PAGE);
            }
            handles.into_iter().for_each(|handle| kernel.close(handle));
            kernel.reaper_enqueue(vmo.object());
            kernel.reap();
        }
    }
}
