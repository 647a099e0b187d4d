//! Copies between a VMO and a program's memory, from page to page, with nothing in between.
//!
//! The page that is written is looked up before the one that is read: bringing it into being can take memory, and
//! whatever gives memory back on the way must not take away a page that is about to be read. Both may be the same page.

use abi::Status;

use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::object::Id;
use crate::slab::Key;
use crate::vmo::{Access, PAGE_WAIT, Vmo};

/// How far a copy came, and why no further.
pub(crate) type Copied = (u64, Result<(), Status>);

/// Bytes from a place that can be copied at once to another: as far as both pages go.
fn run(a: u64, b: u64, left: u64) -> usize {
    (PAGE - a % PAGE).min(PAGE - b % PAGE).min(left) as usize
}

impl<M: Machine> Kernel<M> {
    /// Copies out of a VMO with pages of its own, within its size, into a program's memory.
    pub(crate) fn vmo_to_user(&mut self, vmo: Id<Vmo>, offset: u64, aspace: Key, address: u64, len: u64) -> Copied {
        // What a pager must be asked for is asked for at once; otherwise it shows when its turn comes.
        if len > 0 && self.vmo_require(vmo, offset, len, Access::Read) == Err(PAGE_WAIT) {
            return (0, Err(PAGE_WAIT));
        }
        let mut done = 0;
        while done < len {
            match self.vmo_to_user_part(vmo, offset + done, aspace, address.wrapping_add(done), len - done) {
                Ok(part) => done += part,
                Err(status) => return (done, Err(status)),
            }
        }
        (done, Ok(()))
    }

    fn vmo_to_user_part(&mut self, vmo: Id<Vmo>, at: u64, aspace: Key, to: u64, left: u64) -> Result<u64, Status> {
        let part = run(at, to, left);
        let page = self.user_page(aspace, to, Access::Write)?.ok_or(Status::INTERNAL)?;
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
        let mut done = 0;
        while done < len {
            match self.user_to_vmo_part(vmo, offset + done, aspace, address.wrapping_add(done), len - done) {
                Ok(part) => done += part,
                Err(status) => return (done, Err(status)),
            }
        }
        (done, Ok(()))
    }

    fn user_to_vmo_part(&mut self, vmo: Id<Vmo>, at: u64, aspace: Key, from: u64, left: u64) -> Result<u64, Status> {
        let part = run(at, from, left);
        // Nothing is committed for bytes that cannot be had.
        self.user_page(aspace, from, Access::Read)?;
        let page = self.vmo_page(vmo, at / PAGE, Access::Write)?.ok_or(Status::INTERNAL)?;
        match self.user_page(aspace, from, Access::Read)? {
            Some(source) => self.machine.frame_move(source, (from % PAGE) as usize, page, (at % PAGE) as usize, part),
            None => self.machine.frame_zero(page, (at % PAGE) as usize, part),
        }
        Ok(part as u64)
    }
}
