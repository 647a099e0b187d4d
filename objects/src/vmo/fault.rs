//! What happens when a thread touches memory that is not mapped in the machine.

use abi::Status;

use super::{Access, Kind, Vmo};
use crate::kernel::Kernel;
use crate::machine::{Aspace, Cache, Frame, Machine, PAGE, Perm};
use crate::object::Id;
use crate::slab::Key;

/// Pages that a fault maps along if they are committed: those around it in a block of this many.
const FAULT_AROUND: u64 = 16;

impl<M: Machine> Kernel<M> {
    /// A thread of an address space touched an address. A store makes the page; a load of a page that is not there maps
    /// the page of zeroes, which cannot be written, and commits nothing.
    ///
    /// # Errors
    /// What the access deserves: `NOT_FOUND` (nothing is mapped there), `ACCESS_DENIED`, `OUT_OF_RANGE` (beyond the
    /// VMO's end), `NO_MEMORY`, what the VMO's source fails with. [`PAGE_WAIT`](super::PAGE_WAIT): it is to be called
    /// again when the page is there.
    pub fn page_fault(&mut self, key: Key, address: u64, write: bool, execute: bool) -> Result<(), Status> {
        let space = self.aspaces.get(key).ok_or(Status::BAD_STATE)?;
        let machine = space.machine;
        let mapping = *space.find(address).ok_or(Status::NOT_FOUND)?;
        let allowed = match (write, execute) {
            (true, _) => mapping.perm.write,
            (_, true) => mapping.perm.execute,
            _ => mapping.perm.read,
        };
        if !allowed {
            return Err(Status::ACCESS_DENIED);
        }
        let at = address / PAGE * PAGE;
        let page_of = |address: u64| (mapping.offset + (address - mapping.base)) / PAGE;
        let page = page_of(at);
        if mapping.content_only && self.is_beyond_content(&mapping, address) {
            return Err(Status::OUT_OF_RANGE);
        }
        if write {
            let before = self.objects.get(mapping.vmo)?.own_pages();
            let Some(frame) = self.vmo_page(mapping.vmo, page, Access::Write)? else { return Err(Status::INTERNAL) };
            if self.machine.frame_is_large(frame) && self.vmo_map_large(machine, &mapping, at, true) {
                return Ok(());
            }
            self.vmo_map_frame(machine, at, mapping.vmo, frame, mapping.perm)?;
            // Around a page that is new there is seldom one that is there and not mapped.
            if self.objects.get(mapping.vmo)?.own_pages() != before {
                let room = (mapping.end() - at) / PAGE - 1;
                if !mapping.content_only {
                    self.vmo_ahead((key, at), mapping.vmo, page, room, mapping.perm);
                }
                return Ok(());
            }
        } else if let Some(frame) = self.vmo_page(mapping.vmo, page, self.read_access(mapping.vmo))? {
            if self.machine.frame_is_large(frame) && self.vmo_map_large(machine, &mapping, at, false) {
                return Ok(());
            }
            self.vmo_map_if_there(machine, at, mapping.vmo, page, mapping.perm)?;
        } else {
            let zero = self.frames.zero(&mut self.machine).map_err(|_| Status::NO_MEMORY)?;
            self.objects.get_mut(mapping.vmo)?.zero_mapped = true;
            return self.vmo_map_frame(machine, at, mapping.vmo, zero, Perm { write: false, ..mapping.perm });
        }
        if mapping.content_only {
            return Ok(());
        }
        let block = at / (FAULT_AROUND * PAGE) * (FAULT_AROUND * PAGE);
        for i in 0..FAULT_AROUND {
            let near = block + i * PAGE;
            // Only a favour, for which no large page is split: without memory for it the page faults by itself later.
            if near != at
                && (mapping.base..mapping.end()).contains(&near)
                && !self.vmo_page_is_large(mapping.vmo, page_of(near))
                && self.vmo_map_if_there(machine, near, mapping.vmo, page_of(near), mapping.perm).is_err()
            {
                break;
            }
        }
        Ok(())
    }

    /// What a load needs: memory that is cached otherwise than other memory cannot be shown as the page of zeroes.
    fn read_access(&self, vmo: Id<Vmo>) -> Access {
        let device = |kind| matches!(kind, Kind::Physical { .. });
        let as_it_is = self.objects.get(vmo).is_ok_and(|vmo| vmo.cache == Cache::Cached || device(vmo.kind));
        if as_it_is { Access::Read } else { Access::Write }
    }

    /// Maps a page of a VMO if there is one, for writing only if it may be written as it is.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn vmo_map_if_there(
        &mut self,
        machine: Aspace,
        at: u64,
        vmo: Id<Vmo>,
        page: u64,
        perm: Perm,
    ) -> Result<(), Status> {
        match self.vmo_page_if_there(vmo, page) {
            Some((frame, writable)) => {
                self.vmo_map_frame(machine, at, vmo, frame, Perm { write: perm.write && writable, ..perm })
            }
            None => Ok(()),
        }
    }

    fn vmo_map_frame(
        &mut self,
        machine: Aspace,
        at: u64,
        vmo: Id<Vmo>,
        frame: Frame,
        perm: Perm,
    ) -> Result<(), Status> {
        let cache = self.objects.get(vmo)?.cache;
        self.machine.map(machine, at, frame, perm, cache).map_err(|_| Status::NO_MEMORY)
    }
}
