//! Where the pages of a VMO come from that a pager supplies.
//!
//! Such a VMO hands every look-up of its pages over ([`Kernel::source_page`]). Clones of it show its pages where they
//! have none of their own: they are its *readers*, and whatever is taken out of its mappings is taken out of theirs.

use abi::Status;

use super::pages::Entry;
use super::{Access, Beneath, Vmo};
use crate::kernel::Kernel;
use crate::machine::{Frame, Machine};
use crate::object::Id;
use crate::slab::Key;

/// A page is not there yet, and who wants it is to wait for it. No program is ever told this status: what touches pages
/// passes it up as it is, and the server has the thread wait and then serves its fault, or makes its call, once more.
/// So nothing may be changed before the last page that a call needs is known to be there.
pub const PAGE_WAIT: Status = Status(i32::MIN);

impl<M: Machine> Kernel<M> {
    /// The frame of a page of a VMO with a source, as [`Kernel::vmo_page`] gives it; the page is within the VMO.
    ///
    /// # Errors
    /// [`PAGE_WAIT`]: it is not there, or may not be written yet; the source has been asked.
    pub(crate) fn source_page(
        &mut self,
        id: Id<Vmo>,
        _source: Key,
        page: u64,
        access: Access,
    ) -> Result<Option<Frame>, Status> {
        match (self.objects.get(id)?.pages().map(|pages| pages.get(page)), access) {
            (Some(Entry::Frame(frame)), _) => Ok(Some(frame)),
            (Some(Entry::Zero), Access::Read) => Ok(None),
            _ => Err(PAGE_WAIT),
        }
    }

    /// Whether mappings of a page of a VMO with a source may allow to write it without asking the source first.
    pub(crate) fn source_allows_write(&self, _vmo: &Vmo, _source: Key, _page: u64) -> bool {
        true
    }

    /// The end of a VMO with a source has come down to `size` pages: what its readers showed beyond it is zeroes for
    /// good.
    pub(crate) fn source_cut(&mut self, id: Id<Vmo>, size: u64) {
        let Ok(vmo) = self.objects.get(id) else { return };
        let mut next = self.objects.after(vmo.readers, None);
        while let Some(reader) = next {
            if let Ok(Vmo { beneath: Beneath::Other { from, end, .. }, .. }) = self.objects.get_mut(Id::new(reader)) {
                *end = (*end).min(size.saturating_sub(*from));
            }
            let Ok(vmo) = self.objects.get(id) else { return };
            next = self.objects.after(vmo.readers, Some(reader));
        }
    }
}
