//! Direct copies between a VMO and a program's memory, page by page.
//!
//! The destination page is looked up before the source page: committing it can take memory, and a reclaim at that point
//! must not free a page that is about to be read. Both may be the same page.

use abi::Status;

use crate::containers::slab::Key;
use crate::core::continuation::PAGE_WAIT;
use crate::core::continuation::SLICE_COPY_BYTES;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Machine, PAGE};
use crate::memory::aspace::Mapping;
use crate::memory::vmo::Vmo;

/// Number of bytes copied, and the error that ended the copy, if any.
pub(crate) type CopyResult = (u64, Result<(), Status>);

/// Number of bytes that can be copied in one piece: up to the end of either page.
fn run(a: u64, b: u64, left: u64) -> usize {
    (PAGE - a % PAGE).min(PAGE - b % PAGE).min(left) as usize
}

impl<M: Machine> Kernel<M> {
    /// `vmo_read`: copies out of a VMO or window into a program's memory.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond its end. As [`Kernel::vmo_readable`], [`Kernel::vmo_require`], and [`Kernel::copy_out`].
    pub fn vmo_read_to(&mut self, id: Id<Vmo>, offset: u64, aspace: Key, address: u64, len: u64) -> Result<(), Status> {
        let (target, at) = self.vmo_to_copy(id, offset, len, Access::Read)?;
        self.vmo_to_user(target, at, aspace, address, len).1
    }

    /// One slice of [`Kernel::vmo_read_to`] after `done` bytes. Returns the number of bytes done, if some are left.
    ///
    /// # Errors
    /// As `vmo_read_to`.
    pub fn vmo_read_slice(
        &mut self,
        (id, offset): (Id<Vmo>, u64),
        (aspace, address): (Key, u64),
        len: u64,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        let (target, at) = self.vmo_to_copy(id, offset.wrapping_add(done), len.saturating_sub(done), Access::Read)?;
        let part = len.saturating_sub(done).min(SLICE_COPY_BYTES);
        self.vmo_to_user(target, at, aspace, address.wrapping_add(done), part).1?;
        Ok(Some(done + part).filter(|&done| done < len))
    }

    /// `vmo_write`: copies from a program's memory into a VMO or window. After an error, a part may have been written.
    ///
    /// # Errors
    /// As [`Kernel::vmo_read_to`], and [`Kernel::copy_in`].
    pub fn vmo_write_from(
        &mut self,
        id: Id<Vmo>,
        offset: u64,
        aspace: Key,
        address: u64,
        len: u64,
    ) -> Result<(), Status> {
        let (target, at) = self.vmo_to_copy(id, offset, len, Access::Write)?;
        self.user_to_vmo(target, at, aspace, address, len).1
    }

    /// One slice of [`Kernel::vmo_write_from`], like [`Kernel::vmo_read_slice`].
    ///
    /// # Errors
    /// As `vmo_write_from`.
    pub fn vmo_write_slice(
        &mut self,
        (id, offset): (Id<Vmo>, u64),
        (aspace, address): (Key, u64),
        len: u64,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        let (target, at) = self.vmo_to_copy(id, offset.wrapping_add(done), len.saturating_sub(done), Access::Write)?;
        let part = len.saturating_sub(done).min(SLICE_COPY_BYTES);
        self.user_to_vmo(target, at, aspace, address.wrapping_add(done), part).1?;
        Ok(Some(done + part).filter(|&done| done < len))
    }

    /// Checks a range of a VMO before a copy; returns the VMO and offset of its pages.
    fn vmo_to_copy(&mut self, id: Id<Vmo>, offset: u64, len: u64, access: Access) -> Result<(Id<Vmo>, u64), Status> {
        let limit = self.vmo_size(id)?;
        offset.checked_add(len).filter(|&end| end <= limit).ok_or(Status::OUT_OF_RANGE)?;
        // Later parts are checked when the copy reaches them.
        self.vmo_require_part(id, offset, len, access)?;
        self.vmo_readable(id)?;
        self.vmo_resolve(id, offset)
    }

    /// Copies out of a VMO with its own pages, within its size, into a program's memory.
    pub(crate) fn vmo_to_user(&mut self, vmo: Id<Vmo>, offset: u64, aspace: Key, address: u64, len: u64) -> CopyResult {
        // Requests missing pages from a pager at once; other errors show when the copy reaches the page.
        if len > 0 && self.vmo_require(vmo, offset, len, Access::Read) == Err(PAGE_WAIT) {
            return (0, Err(PAGE_WAIT));
        }
        let (mut done, mut held) = (0, None);
        while done < len {
            let to = (aspace, address.wrapping_add(done));
            match self.vmo_to_user_part(vmo, offset + done, &mut held, to, len - done) {
                Ok(part) => done += part,
                Err(status) => return (done, Err(status)),
            }
        }
        (done, Ok(()))
    }

    fn vmo_to_user_part(
        &mut self,
        vmo: Id<Vmo>,
        at: u64,
        held: &mut Option<Mapping>,
        (aspace, to): (Key, u64),
        left: u64,
    ) -> Result<u64, Status> {
        let part = run(at, to, left);
        let page = self.user_page_next(held, aspace, to, Access::Write)?.ok_or(Status::INTERNAL)?;
        match self.vmo_page(vmo, at / PAGE, Access::Read)? {
            Some(from) => self.machine.frame_move(from, (at % PAGE) as usize, page, (to % PAGE) as usize, part),
            // Pages that were never written read as zeroes.
            None => self.machine.frame_zero(page, (to % PAGE) as usize, part),
        }
        Ok(part as u64)
    }

    /// Copies from a program's memory into a VMO with its own pages, within its size.
    pub(crate) fn user_to_vmo(&mut self, vmo: Id<Vmo>, offset: u64, aspace: Key, address: u64, len: u64) -> CopyResult {
        if len > 0 && self.vmo_require(vmo, offset, len, Access::Write) == Err(PAGE_WAIT) {
            return (0, Err(PAGE_WAIT));
        }
        let (mut done, mut held) = (0, None);
        while done < len {
            let from = (aspace, address.wrapping_add(done));
            match self.user_to_vmo_part(vmo, offset + done, &mut held, from, len - done) {
                Ok(part) => done += part,
                Err(status) => return (done, Err(status)),
            }
        }
        (done, Ok(()))
    }

    fn user_to_vmo_part(
        &mut self,
        vmo: Id<Vmo>,
        at: u64,
        held: &mut Option<Mapping>,
        (aspace, from): (Key, u64),
        left: u64,
    ) -> Result<u64, Status> {
        let part = run(at, from, left);
        // Looks up the source first: no page is committed for bytes that are not readable.
        let mut source = self.user_page_next(held, aspace, from, Access::Read)?;
        let page = match self.vmo_page_if_there(vmo, at / PAGE) {
            Some((page, true)) => page,
            _ => {
                let page = self.vmo_page(vmo, at / PAGE, Access::Write)?.ok_or(Status::INTERNAL)?;
                source = self.user_page_next(held, aspace, from, Access::Read)?;
                page
            }
        };
        match source {
            Some(source) => self.machine.frame_move(source, (from % PAGE) as usize, page, (at % PAGE) as usize, part),
            None => self.machine.frame_zero(page, (at % PAGE) as usize, part),
        }
        Ok(part as u64)
    }
}
