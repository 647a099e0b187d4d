//! Copying out of a VMO and into it.

use abi::Status;

use super::{Vmo, range};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Machine, PAGE, PAGE_SIZE};

impl<M: Machine> Kernel<M> {
    /// Copies out of a VMO. Absent pages stay uncommitted.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond its end. As [`Kernel::vmo_readable`] and [`Kernel::vmo_page`].
    pub fn vmo_read(&mut self, id: Id<Vmo>, offset: u64, out: &mut [u8]) -> Result<(), Status> {
        range(offset, out.len() as u64, self.vmo_size(id)?)?;
        self.vmo_readable(id)?;
        let (id, mut at) = self.vmo_resolve(id, offset)?;
        let mut out = out;
        while !out.is_empty() {
            let within = (at % PAGE) as usize;
            let len = (PAGE_SIZE - within).min(out.len());
            let (part, rest) = out.split_at_mut(len);
            match self.vmo_page(id, at / PAGE, Access::Read)? {
                Some(frame) => self.machine.frame_read(frame, within, part),
                None => part.fill(0),
            }
            at += len as u64;
            out = rest;
        }
        Ok(())
    }

    /// Copies into a VMO.
    ///
    /// # Errors
    /// As [`Kernel::vmo_read`]; a part may then be written.
    pub fn vmo_write(&mut self, id: Id<Vmo>, offset: u64, data: &[u8]) -> Result<(), Status> {
        range(offset, data.len() as u64, self.vmo_size(id)?)?;
        self.vmo_readable(id)?;
        let (id, mut at) = self.vmo_resolve(id, offset)?;
        let mut data = data;
        while !data.is_empty() {
            let within = (at % PAGE) as usize;
            let len = (PAGE_SIZE - within).min(data.len());
            let (part, rest) = data.split_at(len);
            if let Some(frame) = self.vmo_page(id, at / PAGE, Access::Write)? {
                self.machine.frame_write(frame, within, part);
            }
            at += len as u64;
            data = rest;
        }
        Ok(())
    }
}
