//! Moving pages from one VMO to another.

use abi::Status;

use super::{AbsentPages, Kind, Vmo, range};
use crate::containers::failure_injection::without_failures;
use crate::core::continuation::{PAGES_PER_OBJECT, SLICE_FREE_PAGES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

impl<M: Machine> Kernel<M> {
    /// `vmo_transfer_data`: moves the pages of a range of `from` to a range of `to`; the source range reads as zeroes
    /// afterwards. The ranges may overlap. The cost depends on the number of present pages.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages. `OUT_OF_RANGE`. `NOT_SUPPORTED`: a VMO is contiguous, device memory or
    /// pager-backed. `BAD_STATE`: pages are pinned. `NO_MEMORY`.
    pub fn vmo_transfer(&mut self, to: (Id<Vmo>, u64), len: u64, from: (Id<Vmo>, u64)) -> Result<(), Status> {
        self.ahead_reclaim();
        let [(to, to_page), (from, from_page)] = self.vmo_may_transfer(to, len, from)?;
        let count = len / PAGE;
        if to == from && to_page == from_page {
            return Ok(());
        }
        let moved = self.objects.get(from)?.pages().map_or(0, |pages| pages.count(from_page, from_page + count));
        self.may_charge(to.object(), moved * PAGE)?;
        self.vmo_transfer_room(to, to_page, from, from_page, count)?;
        // Shared frames stay shared, with another owner, so `to` may not write them in place either.
        let shares = self.objects.get(from)?.shares;
        self.objects.get_mut(to)?.shares |= shares;
        self.vmo_unmap_pages(from, from_page, from_page + count);
        self.vmo_unmap_pages(to, to_page, to_page + count);
        self.frames.lookaside.forget_all();
        // Moves a run of pages at a time, starting at the end towards the destination, so that no page is overwritten
        // before it is moved.
        let upwards = to != from || to_page < from_page;
        let (mut low, mut high) = (from_page, from_page + count);
        while low < high {
            let pages = self.objects.get_mut(from)?.pages_mut().ok_or(Status::INTERNAL)?;
            let taken = if upwards { pages.take(low, high) } else { pages.take_last(low, high) };
            let (first, end) = match (&taken, upwards) {
                (Some(chunk), true) => (low, chunk.end().min(high)),
                (Some(chunk), false) => (chunk.base.max(low), high),
                (None, _) => (low, high),
            };
            self.vmo_drop_pages(to, first - from_page + to_page, end - from_page + to_page);
            if let Some(chunk) = taken {
                // The table has room, or just got room when entries were taken out.
                let pages = self.objects.get_mut(to)?.pages_mut().ok_or(Status::INTERNAL)?;
                without_failures(|| pages.put(&chunk, from_page, to_page))?;
                let bytes = chunk.frames().count() as u64 * PAGE;
                self.discharge(from.object(), bytes);
                self.charge(to.object(), bytes);
            }
            if upwards {
                low = end;
            } else {
                high = first;
            }
        }
        self.vmo_may_be_discarded(to);
        Ok(())
    }

    /// Checks [`Kernel::vmo_transfer`]; returns the VMOs with their first pages.
    fn vmo_may_transfer(
        &self,
        to: (Id<Vmo>, u64),
        len: u64,
        from: (Id<Vmo>, u64),
    ) -> Result<[(Id<Vmo>, u64); 2], Status> {
        if ![to.1, from.1, len].iter().all(|n| n.is_multiple_of(PAGE)) {
            return Err(Status::INVALID_ARGS);
        }
        let count = len / PAGE;
        let mut places = [(to.0, 0), (from.0, 0)];
        for (place, (id, offset)) in places.iter_mut().zip([to, from]) {
            range(offset, len, self.vmo_size(id)?)?;
            let (target, offset) = self.vmo_resolve(id, offset)?;
            *place = (target, offset / PAGE);
            let vmo = self.objects.get(target)?;
            if vmo.kind != Kind::Plain || !matches!(vmo.absent_pages, AbsentPages::Zeroes) {
                return Err(Status::NOT_SUPPORTED);
            }
            if vmo.is_pinned(place.1, place.1 + count) {
                return Err(Status::BAD_STATE);
            }
        }
        Ok(places)
    }

    /// One slice of [`Kernel::vmo_transfer`] after `done` bytes. Returns the number of bytes done, if some are left.
    ///
    /// # Errors
    /// As `vmo_transfer`; pages that were moved stay moved.
    pub fn vmo_transfer_slice(
        &mut self,
        to: (Id<Vmo>, u64),
        len: u64,
        from: (Id<Vmo>, u64),
        mut done: u64,
    ) -> Result<Option<u64>, Status> {
        if done == 0 {
            // The first slice reports the errors of the whole range.
            let [(target, _), (source, page)] = self.vmo_may_transfer(to, len, from)?;
            if len <= PAGE || self.vmo_transfer_part(to, from) >= len {
                return self.vmo_transfer(to, len, from).map(|()| None);
            }
            let moved = self.objects.get(source)?.pages().map_or(0, |pages| pages.count(page, page + len / PAGE));
            self.may_charge(target.object(), moved * PAGE)?;
        }
        let mut slice = self.slice_begin();
        while done < len {
            let [(target, to_page), (source, from_page)] = self.vmo_may_transfer(to, len, from)?;
            let count = len / PAGE;
            // Starts at the end towards the destination. Pages absent on both sides cost nothing.
            let upwards = target != source || to_page < from_page;
            let all = |vmo: Id<Vmo>, first: u64| {
                let pages = self.objects.get(vmo).ok().and_then(Vmo::pages);
                let (done, end) = (done / PAGE, first + count);
                let next = match upwards {
                    true => pages.and_then(|pages| pages.first(first + done, end)).map(|page| page - first),
                    false => pages.and_then(|pages| pages.last(first, end - done)).map(|page| end - 1 - page),
                };
                next.map_or(len, |next| next * PAGE)
            };
            let skipped = all(target, to_page).min(all(source, from_page));
            let first = if upwards { skipped } else { len.saturating_sub(skipped + PAGE) };
            let part = self.vmo_transfer_part((to.0, to.1 + first), (from.0, from.1 + first));
            let next = skipped.saturating_add(part).min(len);
            let at = if upwards { done } else { len - next };
            self.vmo_transfer((to.0, to.1 + at), next - done, (from.0, from.1 + at))?;
            done = next;
            self.slice_add_work(SLICE_FREE_PAGES as u32 / PAGES_PER_OBJECT);
            if self.slice_over(&mut slice) {
                break;
            }
        }
        Ok(Some(done).filter(|&done| done < len))
    }

    /// Number of bytes to move in one part from an offset in one VMO to an offset in another.
    fn vmo_transfer_part(&self, to: (Id<Vmo>, u64), from: (Id<Vmo>, u64)) -> u64 {
        let part = |(id, offset)| match self.vmo_resolve(id, offset) {
            Ok((target, at)) => self.vmo_pages_per_slice(target, at / PAGE) * PAGE,
            Err(_) => PAGE,
        };
        part(to).min(part(from))
    }

    /// Allocates the runs in the table of `to` for all pages to come, so that without memory nothing has been moved.
    fn vmo_transfer_room(
        &mut self,
        to: Id<Vmo>,
        to_page: u64,
        from: Id<Vmo>,
        from_page: u64,
        count: u64,
    ) -> Result<(), Status> {
        let (mut at, end) = (from_page, from_page + count);
        while let Some(chunk) = self.objects.get(from)?.pages().and_then(|pages| pages.peek(at, end)) {
            self.retry_with_reaper(|kernel| kernel.machine.heap_reserve()).map_err(|_| Status::NO_MEMORY)?;
            let pages = self.objects.get_mut(to)?.pages_mut().ok_or(Status::INTERNAL)?;
            // A chunk may span two runs there.
            for page in [chunk.base.max(at), chunk.end().min(end) - 1] {
                pages.reserve(page - from_page + to_page).map_err(|_| Status::NO_MEMORY)?;
            }
            at = chunk.end();
        }
        Ok(())
    }
}
