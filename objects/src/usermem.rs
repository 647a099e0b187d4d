//! The one place where the kernel touches a program's memory.
//!
//! An address from a program is an allegation. Every access walks the mappings of its address space, checks what they
//! allow, and commits pages that are not there yet, as the program's own access would. What is read is copied once and
//! checked afterwards, so that a program that changes its memory meanwhile deceives only itself. A range may span
//! mappings, VMOs and pages; one byte that may not be touched fails the call.

use abi::Status;

use crate::kernel::Kernel;
use crate::machine::{Frame, Machine, PAGE, PAGE_SIZE};
use crate::slab::Key;

impl<M: Machine> Kernel<M> {
    /// The page behind a user address, committed if need be.
    fn user_page(&mut self, aspace: Key, address: u64, write: bool) -> Result<Frame, Status> {
        let space = self.aspaces.get(aspace).ok_or(Status::INVALID_ARGS)?;
        let mapping = space.find(address).ok_or(Status::INVALID_ARGS)?;
        if !(if write { mapping.perm.write } else { mapping.perm.read }) {
            return Err(Status::INVALID_ARGS);
        }
        let (vmo, offset) = (mapping.vmo, mapping.offset + (address - mapping.base));
        self.vmo_page(vmo, offset / PAGE).map_err(|status| match status {
            Status::NO_MEMORY => Status::NO_MEMORY,
            _ => Status::INVALID_ARGS,
        })
    }

    fn each_page(
        &mut self,
        aspace: Key,
        address: u64,
        len: usize,
        write: bool,
        mut use_it: impl FnMut(&mut M, Frame, usize, core::ops::Range<usize>),
    ) -> Result<(), Status> {
        let mut done = 0;
        while done < len {
            let at = address.checked_add(done as u64).ok_or(Status::INVALID_ARGS)?;
            let offset = (at % PAGE) as usize;
            let part = (PAGE_SIZE - offset).min(len - done);
            let frame = self.user_page(aspace, at, write)?;
            use_it(&mut self.machine, frame, offset, done..done + part);
            done += part;
        }
        Ok(())
    }

    /// Copies from a program's memory.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not all of it may be read. `NO_MEMORY`.
    pub fn copy_in(&mut self, aspace: Key, address: u64, out: &mut [u8]) -> Result<(), Status> {
        self.each_page(aspace, address, out.len(), false, |machine, frame, offset, range| {
            if let Some(part) = out.get_mut(range) {
                machine.frame_read(frame, offset, part);
            }
        })
    }

    /// Copies into a program's memory. On an error a part may have been written.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not all of it may be written. `NO_MEMORY`.
    pub fn copy_out(&mut self, aspace: Key, address: u64, data: &[u8]) -> Result<(), Status> {
        self.each_page(aspace, address, data.len(), true, |machine, frame, offset, range| {
            if let Some(part) = data.get(range) {
                machine.frame_write(frame, offset, part);
            }
        })
    }

    /// Makes sure that a range of a program's memory could be written just now, and commits its pages.
    ///
    /// # Errors
    /// As [`Kernel::copy_out`].
    pub fn check_out(&mut self, aspace: Key, address: u64, len: usize) -> Result<(), Status> {
        self.each_page(aspace, address, len, true, |_, _, _, _| {})
    }

    /// As [`Kernel::check_out`], for reading.
    ///
    /// # Errors
    /// As [`Kernel::copy_in`].
    pub fn check_in(&mut self, aspace: Key, address: u64, len: usize) -> Result<(), Status> {
        self.each_page(aspace, address, len, false, |_, _, _, _| {})
    }
}
