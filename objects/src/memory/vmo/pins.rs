//! Pinned pages, which a device may access at any time.
//!
//! A pin keeps a range of pages unchanged: they are committed, belong to the VMO alone, and neither move nor are freed
//! until the pin is removed. Operations that would free them fail. A VMO with pins is not cloned, because a clone
//! shares frames, and a write to a shared frame moves it. A page table of the VMO pins all pages that are committed
//! ([`crate::memory::vmar::page_table`]).

use abi::Status;

use super::{Vmo, range};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Frame, Machine, PAGE};

/// A pinned range of a VMO. Only [`Kernel::vmo_unpin`] ends it.
#[derive(PartialEq, Eq, Debug)]
pub struct Pin {
    /// The VMO that has the pages; the pin keeps it alive.
    vmo: Id<Vmo>,
    /// The first page.
    page: u64,
    /// The number of pages.
    count: u64,
    number: u64,
}

impl Pin {
    /// The number of pinned pages.
    pub fn pages(&self) -> u64 {
        self.count
    }
}

impl Vmo {
    /// Whether any page of `[from, to)` is pinned.
    pub(crate) fn is_pinned(&self, from: u64, to: u64) -> bool {
        self.page_tables != 0 || self.pins.meeting(from, to).next().is_some()
    }

    /// Whether any page is pinned, or will be when it is committed.
    pub(crate) fn has_pins(&self) -> bool {
        self.page_tables != 0 || !self.pins.is_empty()
    }
}

impl<M: Machine> Kernel<M> {
    /// Pins a range of whole pages, and commits them if necessary.
    ///
    /// # Errors
    /// `INVALID_ARGS`: no pages, or not whole pages. `OUT_OF_RANGE`. `NO_MEMORY`. As [`Kernel::vmo_page`].
    pub fn vmo_pin(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<Pin, Status> {
        if len == 0 || !offset.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        range(offset, len, self.vmo_size(id)?)?;
        let (target, from) = self.vmo_resolve(id, offset)?;
        let (page, count) = (from / PAGE, len / PAGE);
        self.vmo_commit_pages(target, page, page + count)?;
        let number = self.next_pin;
        self.next_pin += 1;
        self.objects.get_mut(target)?.pins.insert(page, count, number);
        self.add_ref(target.object());
        Ok(Pin { vmo: target, page, count, number })
    }

    /// The frame of page `index` of a pin.
    pub fn vmo_pinned_frame(&self, pin: &Pin, index: u64) -> Option<Frame> {
        let page = pin.page.checked_add(index).filter(|_| index < pin.count)?;
        self.vmo_page_if_there(pin.vmo, page).map(|(frame, _)| frame)
    }

    /// Removes a pin.
    pub fn vmo_unpin(&mut self, pin: Pin) {
        if let Ok(vmo) = self.objects.get_mut(pin.vmo) {
            vmo.pins.remove(pin.page, pin.number);
        }
        self.vmo_may_be_discarded(pin.vmo);
        self.drop_ref(pin.vmo.object());
    }
}
