//! Allocate-ahead: pages that a program gets before it touches them.
//!
//! A program that fills memory touches one page after the other. Each first touch is a fault, and most of its cost is
//! the path to the server and back. So a fault at the page directly after the VMO's last fault makes several pages at
//! once: [`GROWTH`] at first, then [`GROWTH`] times as many with each fault, up to [`MOST`], as long as the guess
//! holds. These pages are like any others: they are charged, and are in the VMO's table.
//!
//! Pages that were guessed wrongly are given back. The pages that the last fault of a run made ahead are *open*. Those
//! of them that the program has not written, according to the dirty bits of the page tables, and that contain only
//! zeroes, are freed again, which no program can observe ([`Kernel::ahead_reclaim`]). That happens when
//!
//! - the VMO has its next fault, or [`RUNS`] other VMOs have had faults since,
//! - a call asks how much memory is committed, or the memory is about to be shared or moved,
//! - memory is short.
//!
//! Nothing is allocated ahead for VMOs whose pages are not simply zeroes (pager-backed, discardable, contiguous or
//! device memory), for a job near its memory limit, so that guessed pages do not exhaust it, when memory is short, or
//! where the machine does not report which pages were written.

use core::ops::Range;

use abi::Status;

use super::pages::Entry;
use super::{AbsentPages, Kind, Vmo};
use crate::containers::slab::Key;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Cache, Frame, Machine, PAGE, PAGE_SIZE, Perm};

/// The maximum number of pages that a fault makes.
const MOST: u64 = 16;
/// Growth factor from one fault to the next. Sixteen pages take three faults.
const GROWTH: u64 = 4;
/// Number of VMOs whose last fault is remembered.
const RUNS: usize = 4;
/// Memory is short below this many free bytes.
const ENOUGH: u64 = 16 << 20;

/// The last fault of a VMO that made a page.
struct Run {
    vmo: Id<Vmo>,
    /// The page at which the next fault continues the run.
    next: u64,
    /// Number of pages that the last fault made.
    made: u64,
    /// Those of them that are not known to have been touched.
    open: Range<u64>,
    /// Address space and address at which the first of these was mapped.
    aspace: Key,
    address: u64,
}

impl Run {
    /// A run after a fault that made one page.
    fn new(vmo: Id<Vmo>, page: u64) -> Run {
        Run { vmo, next: page + 1, made: 1, open: 0..0, aspace: Key::FIRST, address: 0 }
    }
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct AllocateAhead {
    runs: [Option<Run>; RUNS],
    /// Index of the run that is replaced next.
    oldest: usize,
}

impl<M: Machine> Kernel<M> {
    /// A store made `page` of a VMO, which was absent: maps its frame. If the store continues a run, also makes and
    /// maps the pages after it. `room` is the number of pages of the mapping after it.
    ///
    /// # Errors
    /// `NO_MEMORY`: the page cannot be mapped.
    pub(super) fn vmo_ahead(
        &mut self,
        (aspace, at): (Key, u64),
        (id, page, frame): (Id<Vmo>, u64, Frame),
        room: u64,
        perm: Perm,
    ) -> Result<(), Status> {
        let machine = self.aspaces.get(aspace).ok_or(Status::BAD_STATE)?.machine;
        let made = self.ahead_next_count(id, page);
        if made == 1 || !self.vmo_may_allocate_ahead(id) {
            return self.vmo_map_frame(machine, at, id, frame, perm);
        }
        let mut frames = [frame; MOST as usize];
        let count = self.vmo_allocate_ahead(id, page + 1, frames.get_mut(1..=(made - 1).min(room) as usize));
        let (first, open) = (frames.get(..=count).unwrap_or_default(), page + 1..page + 1 + count as u64);
        if let Some(slot) = self.ahead.runs.iter_mut().flatten().find(|run| run.vmo == id) {
            *slot = Run { vmo: id, next: open.end, made, open, aspace, address: at + PAGE };
        }
        // If there is no memory to map the other pages, their first touch maps them.
        match self.machine.map_run(machine, at, first, perm, Cache::Cached) {
            Ok(()) => Ok(()),
            Err(_) => self.vmo_map_frame(machine, at, id, frame, perm),
        }
    }

    /// Records that a fault made `page`, closes the VMO's last run, and returns how many pages this fault should make.
    fn ahead_next_count(&mut self, id: Id<Vmo>, page: u64) -> u64 {
        let place = self.ahead.runs.iter().position(|run| run.as_ref().is_some_and(|run| run.vmo == id));
        let place = place.unwrap_or_else(|| {
            self.ahead.oldest = (self.ahead.oldest + 1) % RUNS;
            self.ahead.oldest
        });
        let Some(slot) = self.ahead.runs.get_mut(place) else { return 1 };
        let Some(old) = slot.replace(Run::new(id, page)) else { return 1 };
        let goes_on = old.vmo == id && old.next == page;
        // `page` may have been open and dropped since then; the page that this store made is wanted.
        let all_touched = self.ahead_close(&old, (old.vmo == id).then_some(page));
        if goes_on && all_touched { (old.made * GROWTH).min(MOST) } else { 1 }
    }

    fn vmo_may_allocate_ahead(&self, id: Id<Vmo>) -> bool {
        let (used, total) = self.machine.memory();
        let plain = self.objects.get(id).is_ok_and(|vmo| {
            vmo.kind == Kind::Plain
                && matches!(vmo.absent_pages, AbsentPages::Zeroes)
                && vmo.discard.is_none()
                && vmo.cache == Cache::Cached
        });
        self.machine.knows_written()
            && plain
            && total.saturating_sub(used) >= ENOUGH
            && self.has_ample_room(id.object())
    }

    /// Makes absent pages from `first` up, to the first one that is present; returns how many.
    fn vmo_allocate_ahead(&mut self, id: Id<Vmo>, first: u64, frames: Option<&mut [Frame]>) -> usize {
        let Ok(vmo) = self.objects.get(id) else { return 0 };
        let size = vmo.size / PAGE;
        let zero_mapped = vmo.zero_mapped;
        let mut end = first;
        for (page, frame) in (first..).zip(frames.unwrap_or_default()) {
            let Ok(vmo) = self.objects.get_mut(id) else { break };
            let Some(table) = vmo.pages_mut().filter(|table| page < size && table.get(page) == Entry::Absent) else {
                break;
            };
            let Ok(new) = self.machine.frame_alloc() else { break };
            if table.place(page, new).is_err() {
                self.machine.frame_free(new);
                break;
            }
            *frame = new;
            end = page + 1;
        }
        if zero_mapped {
            self.vmo_unmap_pages(id, first, end);
        }
        self.charge(id.object(), (end - first) * PAGE);
        self.pressure_check();
        (end - first) as usize
    }

    /// Gives back the pages made ahead that are not known to have been touched, unless they were written.
    pub fn ahead_reclaim(&mut self) {
        self.ahead_reclaim_if(|_| true);
    }

    /// Like [`Kernel::ahead_reclaim`], for one VMO.
    pub(crate) fn ahead_reclaim_vmo(&mut self, id: Id<Vmo>) {
        self.ahead_reclaim_if(|run| run.vmo == id);
    }

    /// Marks the open pages of a VMO as wanted, whether or not they are touched.
    pub(crate) fn ahead_keep_open(&mut self, id: Id<Vmo>) {
        for run in self.ahead.runs.iter_mut().flatten().filter(|run| run.vmo == id) {
            run.open = 0..0;
        }
    }

    fn ahead_reclaim_if(&mut self, which: impl Fn(&Run) -> bool) {
        for place in 0..RUNS {
            let Some(slot) = self.ahead.runs.get_mut(place) else { return };
            if let Some(run) = slot.take_if(|run| which(run)) {
                self.ahead_close(&run, None);
            }
        }
    }

    /// Gives back the untouched open pages of a run, except `wanted`. Says whether there were none.
    fn ahead_close(&mut self, run: &Run, wanted: Option<u64>) -> bool {
        if run.open.is_empty() {
            return true;
        }
        let machine = self.aspaces.get(run.aspace).map(|space| space.machine);
        let count = (run.open.end - run.open.start).min(MOST);
        let written = machine.map_or(0, |machine| self.machine.written(machine, run.address, count as u32));
        let mut all = true;
        for (page, bit) in run.open.clone().zip(0..MOST) {
            if written >> bit & 1 != 0 || wanted == Some(page) {
                continue;
            }
            let Ok(vmo) = self.objects.get(run.vmo) else { return false };
            let Some(Entry::Frame(frame)) = vmo.pages().map(|table| table.get(page)) else { continue };
            let plain = vmo.kind == Kind::Plain && matches!(vmo.absent_pages, AbsentPages::Zeroes);
            if plain && !vmo.is_pinned(page, page + 1) && !self.frames.is_shared(frame) && self.holds_nothing(frame) {
                self.vmo_drop_pages(run.vmo, page, page + 1);
                all = false;
            }
        }
        all
    }

    fn holds_nothing(&self, frame: Frame) -> bool {
        let mut part = [0; 256];
        (0..PAGE_SIZE).step_by(part.len()).all(|offset| {
            self.machine.frame_read(frame, offset, &mut part);
            part == [0; 256]
        })
    }
}
