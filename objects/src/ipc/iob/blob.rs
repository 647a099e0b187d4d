//! Regions of numbered blobs (discipline `IdAllocator`).
//!
//! Such a region begins with the next number and the offset of the last blob; then come size and offset of each blob,
//! by number. The blobs are at the end of the region, the first one last. A blob is added as follows, in as many slices
//! as necessary ([`crate::core::continuation`]):
//!
//! 1. The server checks that the whole blob is readable, as far as mappings say; if not, nothing has changed.
//! 2. Its space is allocated: the last blob begins there from now on, so concurrent allocations get other space.
//! 3. The blob is copied.
//! 4. It gets the number that is then the next one.
//!
//! If the copy fails, the space is freed, unless another blob was allocated below it meanwhile: then the space is lost.

use abi::Status;

use super::{Discipline, Iob, Region};
use crate::containers::slab::Key;
use crate::core::continuation::SLICE_COPY_BYTES;
use crate::core::object::Id;
use crate::ipc::stream::UserBuffer;
use crate::kernel::Kernel;
use crate::machine::Machine;

const HEADER: u64 = 8;
const ENTRY: u64 = 8;
/// Work of copying a part, in destroyed small objects.
const COPY: u32 = 128;

/// Progress of a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Blob {
    /// Number of bytes checked.
    pub checked: u64,
    /// Offset of its space, once allocated; no blob begins at 0.
    pub at: u64,
    /// Number of bytes copied.
    pub copied: u64,
}

impl<M: Machine> Kernel<M> {
    /// One slice of `iob_allocate_id`: copies a blob from a program's memory; returns its number when it is complete.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: no such region. `WRONG_TYPE`: its discipline is not `IdAllocator`. `ACCESS_DENIED`: not allowed
    /// for this end. `IO_DATA_INTEGRITY`: the region's header was overwritten and is invalid. `NO_MEMORY`: the region
    /// is full, or there is no memory for the blob. `INVALID_ARGS`: the blob's buffer is invalid.
    /// [`PAGE_WAIT`](crate::core::continuation::PAGE_WAIT).
    pub fn iob_allocate_id_slice(
        &mut self,
        id: Id<Iob>,
        index: u32,
        aspace: Key,
        part: UserBuffer,
        blob: &mut Blob,
    ) -> Result<Option<u32>, Status> {
        let keeps_blobs = |discipline| (discipline == Discipline::IdAllocator).then_some(());
        let (region, ()) = self.iob_mediated(id, index, keeps_blobs)?;
        if blob.at == 0 {
            // Lack of room is reported before an unreadable buffer.
            let (number, head) = self.blob_place(&region, part.len)?;
            if !self.blob_check(aspace, part, blob)? {
                return Ok(None);
            }
            blob.at = head - part.len;
            self.blob_header(&region, number, blob.at)?;
        }
        let mut slice = self.slice_begin();
        while blob.copied < part.len {
            let (address, len) = (part.address.wrapping_add(blob.copied), SLICE_COPY_BYTES.min(part.len - blob.copied));
            let copied = self.user_to_vmo(region.vmo, blob.at + blob.copied, aspace, address, len).1;
            if let Err(status) = copied {
                self.blob_undo(&region, part.len, blob.at);
                return Err(status);
            }
            blob.copied += len;
            self.slice_add_work(COPY);
            if blob.copied < part.len && self.slice_over(&mut slice) {
                return Ok(None);
            }
        }
        let (number, head) = self.blob_header_of(&region)?;
        let entry = HEADER + number * ENTRY;
        if head > blob.at || entry + ENTRY > head {
            self.blob_undo(&region, part.len, blob.at);
            return Err(if head > blob.at { Status::IO_DATA_INTEGRITY } else { Status::NO_MEMORY });
        }
        self.vmo_write(region.vmo, entry, &(part.len | blob.at << 32).to_le_bytes())?;
        self.blob_header(&region, number + 1, head)?;
        Ok(Some(number as u32))
    }

    /// Step 1. Says whether everything is checked.
    fn blob_check(&mut self, aspace: Key, part: UserBuffer, blob: &mut Blob) -> Result<bool, Status> {
        let mut slice = self.slice_begin();
        while blob.checked < part.len {
            let at = part.address.checked_add(blob.checked).ok_or(Status::INVALID_ARGS)?;
            let mapping =
                self.mapping_at(aspace, at).filter(|mapping| mapping.perm.read).ok_or(Status::INVALID_ARGS)?;
            blob.checked = blob.checked.saturating_add(mapping.end() - at);
            if self.slice_over(&mut slice) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next number, and the offset of the last blob.
    fn blob_header_of(&mut self, region: &Region) -> Result<(u64, u64), Status> {
        let mut header = [0; HEADER as usize];
        self.vmo_read(region.vmo, 0, &mut header)?;
        let header = u64::from_le_bytes(header);
        let (number, head) = (header & u64::from(u32::MAX), header >> 32);
        if head > region.size || HEADER + number * ENTRY > head {
            return Err(Status::IO_DATA_INTEGRITY);
        }
        Ok((number, head))
    }

    fn blob_header(&mut self, region: &Region, number: u64, head: u64) -> Result<(), Status> {
        self.vmo_write(region.vmo, 0, &(number | head << 32).to_le_bytes())
    }

    /// The same after checking that there is room for a blob and its entry.
    fn blob_place(&mut self, region: &Region, len: u64) -> Result<(u64, u64), Status> {
        let (number, head) = self.blob_header_of(region)?;
        let fits = head.checked_sub(len).is_some_and(|at| at >= HEADER + number * ENTRY + ENTRY);
        if fits { Ok((number, head)) } else { Err(Status::NO_MEMORY) }
    }

    /// Frees the space of a blob, if no other was allocated below it.
    fn blob_undo(&mut self, region: &Region, len: u64, at: u64) {
        if let Ok((number, head)) = self.blob_header_of(region)
            && head == at
        {
            // The header was written before, so this needs no memory.
            let _ = self.blob_header(region, number, at + len);
        }
    }
}

#[cfg(test)]
impl<M: Machine> Kernel<M> {
    /// All slices.
    pub(crate) fn iob_allocate_id(
        &mut self,
        id: Id<Iob>,
        index: u32,
        aspace: Key,
        part: UserBuffer,
    ) -> Result<u32, Status> {
        let mut blob = Blob::default();
        loop {
            if let Some(number) = self.iob_allocate_id_slice(id, index, aspace, part, &mut blob)? {
                return Ok(number);
            }
        }
    }
}
