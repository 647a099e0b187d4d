//! User memory: the one place where the kernel accesses a program's memory.
//!
//! An address from a program is not trusted. Every access walks the mappings of the address space, checks their
//! permissions, and commits absent pages, as the program's own access would. Data is copied once and checked
//! afterwards, so that a program that changes its memory meanwhile affects only itself. A range may span mappings, VMOs
//! and pages; one inaccessible byte fails the call.

use abi::Status;

use crate::containers::slab::Key;
use crate::core::account::AccountOwner;
use crate::core::continuation::PAGE_WAIT;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Frame, Machine, PAGE, PAGE_SIZE};
use crate::memory::aspace::Mapping;
use crate::memory::vmo::AbsentPages;

/// A checked destination for a few bytes: the write needs no second look-up.
#[derive(Clone, Copy)]
pub struct UserDestination {
    address: u64,
    /// The frame and offset, if the bytes are in one page that the lookaside cache has.
    known: Option<(Frame, usize)>,
    /// [`Lookaside::era`](crate::memory::lookaside::Lookaside::era) when the destination was looked up.
    era: u64,
}

impl UserDestination {
    /// No destination.
    pub const NOWHERE: Self = UserDestination { address: 0, known: None, era: 0 };

    /// The place `offset` bytes further, which was checked together with it.
    #[inline(always)]
    #[must_use]
    pub fn on(self, bytes: usize) -> Self {
        let known = self.known.map(|(frame, offset)| (frame, offset + bytes));
        UserDestination { address: self.address.wrapping_add(bytes as u64), known, era: self.era }
    }
}

/// The permission rules of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// The program's own loads and stores.
    Program,
    /// A debugger's: everything mapped.
    Forced,
}

impl<M: Machine> Kernel<M> {
    /// The frame behind a user address, if the program itself may access it. For writing, the page is committed if
    /// necessary; for reading, the frame may be missing, and the page then reads as zeroes.
    #[inline]
    pub(crate) fn user_page(&mut self, aspace: Key, address: u64, access: Access) -> Result<Option<Frame>, Status> {
        match self.frames.lookaside.find(aspace, address, access) {
            Some(frame) => Ok(Some(frame)),
            None => self.page_at(aspace, address, access, Rules::Program),
        }
    }

    /// Like [`Kernel::user_page`] for consecutive pages: caches the mapping of the last page in `held`. Nothing that is
    /// done for pages changes mappings.
    #[inline]
    pub(crate) fn user_page_next(
        &mut self,
        held: &mut Option<Mapping>,
        aspace: Key,
        address: u64,
        access: Access,
    ) -> Result<Option<Frame>, Status> {
        if let Some(frame) = self.frames.lookaside.find(aspace, address, access) {
            return Ok(Some(frame));
        }
        match held {
            Some(mapping) if (mapping.base..mapping.end()).contains(&address) => {
                self.page_in(mapping, aspace, address, access, Rules::Program)
            }
            _ => {
                let mapping = *self.mapping_at(aspace, address).ok_or(Status::INVALID_ARGS)?;
                self.page_in(held.insert(mapping), aspace, address, access, Rules::Program)
            }
        }
    }

    /// Frame and offset of bytes in one page that the lookaside cache has.
    #[inline(always)]
    pub(crate) fn known(&self, aspace: Key, address: u64, len: usize, access: Access) -> Option<(Frame, usize)> {
        let offset = (address % PAGE) as usize;
        if len > PAGE_SIZE - offset {
            return None;
        }
        Some((self.frames.lookaside.find(aspace, address, access)?, offset))
    }

    #[inline(never)]
    fn page_at(&mut self, aspace: Key, address: u64, access: Access, rules: Rules) -> Result<Option<Frame>, Status> {
        let mapping = *self.mapping_at(aspace, address).ok_or(Status::INVALID_ARGS)?;
        self.page_in(&mapping, aspace, address, access, rules)
    }

    /// The frame behind an address in a mapping.
    fn page_in(
        &mut self,
        mapping: &Mapping,
        aspace: Key,
        address: u64,
        access: Access,
        rules: Rules,
    ) -> Result<Option<Frame>, Status> {
        let allowed = match access {
            _ if rules == Rules::Forced => !mapping.table,
            Access::Read => mapping.perm.read,
            Access::Write => mapping.perm.write,
        };
        if !allowed {
            return Err(Status::INVALID_ARGS);
        }
        if mapping.content_only && self.is_beyond_content(mapping, address) {
            return Err(Status::INVALID_ARGS);
        }
        let lasts = rules == Rules::Program && !mapping.content_only;
        let (vmo, offset) = (mapping.vmo, mapping.offset + (address - mapping.base));
        let frame = self.vmo_page(vmo, offset / PAGE, access).map_err(|status| match status {
            // Not an error to report: the call waits for the page, or for memory.
            PAGE_WAIT | Status::NO_MEMORY => status,
            _ => Status::INVALID_ARGS,
        })?;
        match frame {
            // The kernel does not access device memory on a program's behalf.
            Some(frame) if frame.is_device() => Err(Status::INVALID_ARGS),
            Some(frame) => {
                if lasts && matches!(self.objects.get(vmo)?.absent_pages, AbsentPages::Zeroes) {
                    self.frames.lookaside.keep(aspace, address, frame, access == Access::Write);
                }
                Ok(Some(frame))
            }
            None => Ok(None),
        }
    }

    #[inline]
    fn each_page(
        &mut self,
        aspace: Key,
        address: u64,
        len: usize,
        access: Access,
        rules: Rules,
        mut use_it: impl FnMut(&mut M, Option<Frame>, usize, core::ops::Range<usize>),
    ) -> Result<(), Status> {
        let mut done = 0;
        while done < len {
            let at = address.checked_add(done as u64).ok_or(Status::INVALID_ARGS)?;
            let offset = (at % PAGE) as usize;
            let part = (PAGE_SIZE - offset).min(len - done);
            let frame = match rules {
                Rules::Program => self.user_page(aspace, at, access)?,
                Rules::Forced => self.page_at(aspace, at, access, rules)?,
            };
            use_it(&mut self.machine, frame, offset, done..done + part);
            done += part;
        }
        Ok(())
    }

    /// Copies from a program's memory.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not all of it is readable. `NO_MEMORY`. [`PAGE_WAIT`]: a page of it must be waited for.
    #[inline(always)]
    pub fn copy_in(&mut self, aspace: Key, address: u64, out: &mut [u8]) -> Result<(), Status> {
        if let Some((frame, offset)) = self.known(aspace, address, out.len(), Access::Read) {
            self.machine.frame_read(frame, offset, out);
            return Ok(());
        }
        self.copy_in_pages(aspace, address, out)
    }

    #[inline(never)]
    fn copy_in_pages(&mut self, aspace: Key, address: u64, out: &mut [u8]) -> Result<(), Status> {
        self.each_page(
            aspace,
            address,
            out.len(),
            Access::Read,
            Rules::Program,
            |machine, frame, offset, range| match (out.get_mut(range), frame) {
                (Some(part), Some(frame)) => machine.frame_read(frame, offset, part),
                (Some(part), None) => part.fill(0),
                (None, _) => {}
            },
        )
    }

    /// Copies into a program's memory. After an error, a part may have been written.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not all of it is writable. `NO_MEMORY`.
    #[inline(always)]
    pub fn copy_out(&mut self, aspace: Key, address: u64, data: &[u8]) -> Result<(), Status> {
        if let Some((frame, offset)) = self.known(aspace, address, data.len(), Access::Write) {
            self.machine.frame_write(frame, offset, data);
            return Ok(());
        }
        self.copy_out_pages(aspace, address, data)
    }

    #[inline(never)]
    fn copy_out_pages(&mut self, aspace: Key, address: u64, data: &[u8]) -> Result<(), Status> {
        self.each_page(aspace, address, data.len(), Access::Write, Rules::Program, |machine, frame, offset, range| {
            if let (Some(part), Some(frame)) = (data.get(range), frame) {
                machine.frame_write(frame, offset, part);
            }
        })
    }

    /// Checks that a range of a program's memory is writable now, and commits its pages.
    ///
    /// # Errors
    /// As [`Kernel::copy_out`].
    #[inline]
    pub fn check_out(&mut self, aspace: Key, address: u64, len: usize) -> Result<(), Status> {
        if self.known(aspace, address, len, Access::Write).is_some() {
            return Ok(());
        }
        self.check_out_pages(aspace, address, len)
    }

    #[inline(never)]
    fn check_out_pages(&mut self, aspace: Key, address: u64, len: usize) -> Result<(), Status> {
        self.each_page(aspace, address, len, Access::Write, Rules::Program, |_, _, _, _| {})
    }

    /// Like [`Kernel::check_out`], for [`Kernel::fill_place`].
    ///
    /// # Errors
    /// As [`Kernel::copy_out`].
    #[inline(always)]
    pub fn user_place(&mut self, aspace: Key, address: u64, len: usize) -> Result<UserDestination, Status> {
        let known = self.known(aspace, address, len, Access::Write);
        if known.is_none() {
            self.check_out_pages(aspace, address, len)?;
        }
        Ok(UserDestination { address, known, era: self.frames.lookaside.era() })
    }

    /// Writes to a place. If its page may have changed since, looks it up again.
    ///
    /// # Errors
    /// As [`Kernel::copy_out`].
    #[inline(always)]
    pub fn fill_place(&mut self, aspace: Key, place: UserDestination, data: &[u8]) -> Result<(), Status> {
        match place.known {
            Some((frame, offset)) if place.era == self.frames.lookaside.era() => {
                self.machine.frame_write(frame, offset, data);
                Ok(())
            }
            None if place.address == 0 => Ok(()),
            _ => self.copy_out_pages(aspace, place.address, data),
        }
    }

    /// Like [`Kernel::check_out`], for reading.
    ///
    /// # Errors
    /// As [`Kernel::copy_in`].
    #[inline]
    pub fn check_in(&mut self, aspace: Key, address: u64, len: usize) -> Result<(), Status> {
        if self.known(aspace, address, len, Access::Read).is_some() {
            return Ok(());
        }
        self.check_in_pages(aspace, address, len)
    }

    #[inline(never)]
    fn check_in_pages(&mut self, aspace: Key, address: u64, len: usize) -> Result<(), Status> {
        self.each_page(aspace, address, len, Access::Read, Rules::Program, |_, _, _, _| {})
    }

    /// Copies from the memory of a program that the caller may debug: everything mapped is readable.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not all of it is mapped. `NO_MEMORY`.
    pub fn copy_in_forced(&mut self, aspace: Key, address: u64, out: &mut [u8]) -> Result<(), Status> {
        self.each_page(aspace, address, out.len(), Access::Read, Rules::Forced, |machine, frame, offset, range| match (
            out.get_mut(range),
            frame,
        ) {
            (Some(part), Some(frame)) => machine.frame_read(frame, offset, part),
            (Some(part), None) => part.fill(0),
            (None, _) => {}
        })
    }

    /// Copies into the memory of a program that the caller may debug, within one mapping. If the program could not be
    /// allowed to write there, the mapping first gets a private copy, for which the caller's job is charged, so that
    /// other users of the same memory are not affected.
    ///
    /// # Errors
    /// As [`Kernel::copy_in_forced`]. `ACCESS_DENIED`: the memory cannot be copied.
    pub fn copy_out_forced<P: AccountOwner>(
        &mut self,
        caller: Id<P>,
        aspace: Key,
        address: u64,
        data: &[u8],
    ) -> Result<(), Status> {
        self.mapping_copy(caller, aspace, address)?;
        self.each_page(aspace, address, data.len(), Access::Write, Rules::Forced, |machine, frame, offset, range| {
            if let (Some(part), Some(frame)) = (data.get(range), frame) {
                machine.frame_write(frame, offset, part);
            }
        })
    }

    /// Whether the vDSO is mapped at an address. It is never writable.
    pub fn is_vdso_at(&self, aspace: Key, address: u64) -> bool {
        let mapping = self.mapping_at(aspace, address);
        mapping.is_some_and(|m| [m.vmo, m.named].into_iter().any(|vmo| self.objects.get(vmo).is_ok_and(|v| v.is_vdso)))
    }

    /// Number of bytes from an address to the end of its mapping.
    pub fn mapped_from(&self, aspace: Key, address: u64) -> Option<u64> {
        let mapping = self.mapping_at(aspace, address)?;
        Some(mapping.end() - address)
    }
}
