//! Copies between a VMO and a program's memory, from page to page, with nothing in between.
//!
//! The page that is written is looked up before the one that is read: bringing it into being can take memory, and
//! whatever gives memory back on the way must not take away a page that is about to be read. Both may be the same page.

use abi::Status;

use crate::containers::slab::Key;
use crate::core::continuation::COPIES;
use crate::core::continuation::PAGE_WAIT;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Machine, PAGE};
use crate::memory::aspace::Mapping;
use crate::memory::vmo::Vmo;

/// How far a copy came, and why no further.
pub(crate) type Copied = (u64, Result<(), Status>);

/// Bytes from a place that can be copied at once to another: as far as both pages go.
fn run(a: u64, b: u64, left: u64) -> usize {
    (PAGE - a % PAGE).min(PAGE - b % PAGE).min(left) as usize
}

impl<M: Machine> Kernel<M> {
    /// `vmo_read`: copies out of a VMO, a window or not, into a program's memory.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond its end. As [`Kernel::vmo_readable`], [`Kernel::vmo_require`], and [`Kernel::copy_out`].
    pub fn vmo_read_to(&mut self, id: Id<Vmo>, offset: u64, aspace: Key, address: u64, len: u64) -> Result<(), Status> {
        let (target, at) = self.vmo_to_copy(id, offset, len, Access::Read)?;
        self.vmo_to_user(target, at, aspace, address, len).1
    }

    /// A portion of [`Kernel::vmo_read_to`], of which `done` bytes are copied. Says how many are then, if some are left.
    ///
    /// # Errors
    /// As `vmo_read_to`.
    pub fn vmo_read_portion(
        &mut self,
        (id, offset): (Id<Vmo>, u64),
        (aspace, address): (Key, u64),
        len: u64,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        let (target, at) = self.vmo_to_copy(id, offset.wrapping_add(done), len.saturating_sub(done), Access::Read)?;
        let part = len.saturating_sub(done).min(COPIES);
        self.vmo_to_user(target, at, aspace, address.wrapping_add(done), part).1?;
        Ok(Some(done + part).filter(|&done| done < len))
    }

    /// `vmo_write`: copies from a program's memory into a VMO, a window or not. On an error a part may have been written.
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

    /// A portion of [`Kernel::vmo_write_from`], as [`Kernel::vmo_read_portion`].
    ///
    /// # Errors
    /// As `vmo_write_from`.
    pub fn vmo_write_portion(
        &mut self,
        (id, offset): (Id<Vmo>, u64),
        (aspace, address): (Key, u64),
        len: u64,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        let (target, at) = self.vmo_to_copy(id, offset.wrapping_add(done), len.saturating_sub(done), Access::Write)?;
        let part = len.saturating_sub(done).min(COPIES);
        self.user_to_vmo(target, at, aspace, address.wrapping_add(done), part).1?;
        Ok(Some(done + part).filter(|&done| done < len))
    }

    /// Where a range of a VMO lies that is about to be copied out of it or into it.
    fn vmo_to_copy(&mut self, id: Id<Vmo>, offset: u64, len: u64, access: Access) -> Result<(Id<Vmo>, u64), Status> {
        let limit = self.vmo_size(id)?;
        offset.checked_add(len).filter(|&end| end <= limit).ok_or(Status::OUT_OF_RANGE)?;
        // What lies further on is looked at when its turn comes.
        self.vmo_require_part(id, offset, len, access)?;
        self.vmo_readable(id)?;
        self.vmo_resolve(id, offset)
    }

    /// Copies out of a VMO with pages of its own, within its size, into a program's memory.
    pub(crate) fn vmo_to_user(&mut self, vmo: Id<Vmo>, offset: u64, aspace: Key, address: u64, len: u64) -> Copied {
        // What a pager must be asked for is asked for at once; otherwise it shows when its turn comes.
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
            // What was never written reads as zeroes.
            None => self.machine.frame_zero(page, (to % PAGE) as usize, part),
        }
        Ok(part as u64)
    }

    /// Copies from a program's memory into a VMO with pages of its own, within its size.
    pub(crate) fn user_to_vmo(&mut self, vmo: Id<Vmo>, offset: u64, aspace: Key, address: u64, len: u64) -> Copied {
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
        // Nothing is committed for bytes that cannot be had.
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
