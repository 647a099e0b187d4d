//! VMOs whose pages are fixed from the start: device memory, and contiguous memory for devices.

use alloc::vec::Vec;

use abi::Status;

use super::pages::Pages;
use super::{AbsentPages, Backing, Kind, Vmo, round_up};
use crate::containers::growth::Grows;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Cache, DeviceError, Frame, LARGE_PAGE, LARGE_PAGES, Machine, PAGE};

impl<M: Machine> Kernel<M> {
    /// `vmo_create_contiguous`: physically contiguous memory, aligned to `2^align_log2` bytes.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the size is 0, or the alignment is invalid. `NO_MEMORY`: there is no such block.
    pub fn vmo_create_contiguous(&mut self, size: u64, align_log2: u8) -> Result<Id<Vmo>, Status> {
        let rounded = round_up(size)?;
        if rounded == 0 || align_log2 >= 64 {
            return Err(Status::INVALID_ARGS);
        }
        let count = u32::try_from(rounded / PAGE).map_err(|_| Status::NO_MEMORY)?;
        // Uses large pages if the size is a multiple of theirs.
        let large = LARGE_PAGE.trailing_zeros() as u8;
        let wish = if u64::from(count).is_multiple_of(LARGE_PAGES) { align_log2.max(large) } else { align_log2 };
        let first = self.retry_with_reaper(|kernel| {
            let first = kernel.machine.frames_contiguous(count, wish);
            first.or_else(|_| kernel.machine.frames_contiguous(count, align_log2))
        });
        let first = first.map_err(|_| Status::NO_MEMORY)?;
        let mut frames = Vec::new();
        if frames.room_exact(count as usize).is_err() {
            (0..count).for_each(|i| self.machine.frame_free(Frame(first.0 + i)));
            return Err(Status::NO_MEMORY);
        }
        frames.extend((0..count).map(|i| Frame(first.0 + i)));
        let id = self.vmo_from_frames(&frames, size)?;
        self.objects.get_mut(id)?.kind = Kind::Contiguous;
        self.pressure_check();
        Ok(id)
    }

    /// `vmo_create_physical`: device memory at a physical address.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages, or not device memory. `NO_MEMORY`.
    pub fn vmo_create_physical(&mut self, address: u64, size: u64) -> Result<Id<Vmo>, Status> {
        let rounded = round_up(size)?;
        if rounded == 0 || !address.is_multiple_of(PAGE) || address.checked_add(rounded).is_none() {
            return Err(Status::INVALID_ARGS);
        }
        // Does not allocate the pages yet: a range may be much larger than the part that is ever touched, and each page
        // takes a capability permanently.
        let writable = self.machine.device_range(address, rounded / PAGE).map_err(|_| Status::INVALID_ARGS)?;
        let id = self.vmo_new(rounded, size, false, Backing::Pages(Pages::default()))?;
        let vmo = self.objects.get_mut(id)?;
        vmo.kind = Kind::Physical { writable };
        vmo.absent_pages = AbsentPages::Device(address);
        vmo.cache = Cache::Uncached;
        Ok(id)
    }

    /// The device page behind a page of a VMO; enters it into the page table.
    pub(super) fn vmo_page_of_device(
        &mut self,
        id: Id<Vmo>,
        page: u64,
        first: u64,
        access: Access,
    ) -> Result<Frame, Status> {
        let device = self.machine.device_frame(first.saturating_add(page.saturating_mul(PAGE)));
        let device = device.map_err(|error| match error {
            DeviceError::OutOfMemory | DeviceError::NoneLeft => Status::NO_MEMORY,
            DeviceError::Denied | DeviceError::Taken => Status::OUT_OF_RANGE,
        })?;
        if access == Access::Write && !device.writable {
            return Err(Status::ACCESS_DENIED);
        }
        let pages = self.objects.get_mut(id)?.pages_mut().ok_or(Status::INTERNAL)?;
        pages.reserve(page).map_err(|_| Status::NO_MEMORY)?;
        pages.set(page, device.frame);
        Ok(device.frame)
    }

    /// Whether a VMO's memory is physically contiguous, device memory or not.
    pub fn vmo_is_contiguous(&self, id: Id<Vmo>) -> bool {
        self.vmo_kind(id).is_ok_and(|kind| kind != Kind::Plain)
    }

    /// The kind of memory that a VMO shows.
    pub fn vmo_kind(&self, id: Id<Vmo>) -> Result<Kind, Status> {
        let (target, _) = self.vmo_resolve(id, 0)?;
        Ok(self.objects.get(target)?.kind)
    }

    /// The cache policy of a VMO.
    pub fn vmo_cache(&self, id: Id<Vmo>) -> Result<Cache, Status> {
        let (target, _) = self.vmo_resolve(id, 0)?;
        Ok(self.objects.get(target)?.cache)
    }

    /// Whether the kernel can copy out of and into a VMO.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: it is device memory. `BAD_STATE`: it is not cached.
    #[inline]
    pub fn vmo_readable(&self, id: Id<Vmo>) -> Result<(), Status> {
        let (target, _) = self.vmo_resolve(id, 0)?;
        let vmo = self.objects.get(target)?;
        match (vmo.kind, vmo.cache) {
            (Kind::Physical { .. }, _) => Err(Status::NOT_SUPPORTED),
            (_, Cache::Cached) => Ok(()),
            _ => Err(Status::BAD_STATE),
        }
    }

    /// `vmo_set_cache_policy`.
    ///
    /// # Errors
    /// `BAD_STATE`: it is mapped or pinned, has a parent or children, or has pages and is not cached.
    pub fn vmo_set_cache(&mut self, id: Id<Vmo>, cache: Cache) -> Result<(), Status> {
        let vmo = self.objects.get_mut(id)?;
        let related = vmo.is_window() || vmo.parent.is_some() || vmo.children != 0 || !vmo.readers.is_empty();
        let pages = vmo.pages().map_or(0, Pages::len);
        let is_memory = !matches!(vmo.kind, Kind::Physical { .. });
        let fixed = is_memory && pages != 0 && vmo.cache != Cache::Cached;
        if related || !vmo.mappings.is_empty() || vmo.has_pins() || fixed {
            return Err(Status::BAD_STATE);
        }
        vmo.cache = cache;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use crate::fake::FakeMachine;

    use super::*;
    use crate::machine::Memory;

    #[test]
    fn a_devices_pages_are_taken_as_they_are_looked_up() {
        let mut kernel = Kernel::new(FakeMachine::new(8)).unwrap();
        let huge = 1u64 << 46;
        kernel.machine.devices.memory = vec![(huge, huge, true), (0xfed0_0000, PAGE, false)];
        assert!(kernel.vmo_create_physical(huge - PAGE, 2 * PAGE).is_err());
        let vmo = kernel.vmo_create_physical(huge, huge).unwrap();
        assert!(kernel.vmo_page_if_there(vmo, 7).is_none());
        let frame = kernel.vmo_page(vmo, 7, Access::Write).unwrap().unwrap();
        assert_eq!(kernel.machine.frame_address(frame), huge + 7 * PAGE);
        assert_eq!(kernel.vmo_page_if_there(vmo, 7), Some((frame, true)));
        let timer = kernel.vmo_create_physical(0xfed0_0000, PAGE).unwrap();
        assert_eq!(kernel.vmo_page(timer, 0, Access::Write), Err(Status::ACCESS_DENIED));
        assert!(kernel.vmo_page(timer, 0, Access::Read).unwrap().unwrap().is_device());
        assert_eq!(kernel.vmo_page(timer, 0, Access::Write), Err(Status::ACCESS_DENIED));
    }
}
