//! Looking up a page.
//!
//! All content is accessed through [`Kernel::vmo_page`], whether a program reads a VMO, faults on it, or passes memory
//! to a call. Two cases take work: a page without a frame, and a frame with several owners. They are handled in this
//! order, so that a failure leaves everything as it was:
//!
//! 1. the page's content is looked up, or the caller must wait for it;
//! 2. a new frame is allocated and charged to the VMO's account;
//! 3. the content is copied;
//! 4. the new frame goes into the table, if there is memory for the entry;
//! 5. the page is unmapped everywhere, and the old frame is released.

use abi::Status;

use super::pages::Entry;
use super::{AbsentPages, Kind, Vmo};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Frame, Machine, PAGE};

impl<M: Machine> Kernel<M> {
    /// The frame of a page of a VMO with its own pages. For reading, the frame may be missing, and the page then reads
    /// as zeroes. For writing, the frame is allocated if necessary and belongs to this VMO alone: it replaces a shared
    /// frame in all mappings of the VMO.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond the VMO's end. `NO_MEMORY`. `NOT_FOUND`: the content was discarded. `ACCESS_DENIED`: the
    /// device memory is not writable. [`PAGE_WAIT`](crate::core::continuation::PAGE_WAIT), and errors of the source.
    #[inline]
    pub(crate) fn vmo_page(&mut self, id: Id<Vmo>, page: u64, access: Access) -> Result<Option<Frame>, Status> {
        let vmo = self.objects.get(id)?;
        // Fast path: most pages are present and not shared.
        if let AbsentPages::Zeroes = vmo.absent_pages
            && let Entry::Frame(frame) = vmo.pages().ok_or(Status::INTERNAL)?.get(page)
            && (access == Access::Read || !self.frames.is_shared(frame))
        {
            return Ok(Some(frame));
        }
        self.vmo_page_slow(id, page, access)
    }

    /// Like [`Kernel::vmo_page`] for writing; also says whether the frame is newly allocated memory.
    ///
    /// # Errors
    /// As `vmo_page`.
    #[inline]
    pub(crate) fn vmo_page_to_write(&mut self, id: Id<Vmo>, page: u64) -> Result<(Frame, bool), Status> {
        let vmo = self.objects.get(id)?;
        let entry = vmo.pages().ok_or(Status::INTERNAL)?.get(page);
        if let (Entry::Frame(frame), AbsentPages::Zeroes) = (entry, &vmo.absent_pages)
            && !self.frames.is_shared(frame)
        {
            return Ok((frame, false));
        }
        let new = !matches!(entry, Entry::Frame(_)) && !matches!(vmo.kind, Kind::Physical { .. });
        let frame = self.vmo_page_slow(id, page, Access::Write)?.ok_or(Status::INTERNAL)?;
        Ok((frame, new))
    }

    /// Slow path of [`Kernel::vmo_page`], for all kinds of pages.
    #[inline(never)]
    fn vmo_page_slow(&mut self, id: Id<Vmo>, page: u64, access: Access) -> Result<Option<Frame>, Status> {
        let vmo = self.objects.get(id)?;
        if page >= vmo.size / PAGE {
            return Err(Status::OUT_OF_RANGE);
        }
        if let AbsentPages::Source(source) = vmo.absent_pages {
            return self.source_page(id, source, page, access);
        }
        let entry = vmo.pages().ok_or(Status::INTERNAL)?.get(page);
        match (entry, access) {
            (Entry::Frame(frame), Access::Read) => Ok(Some(frame)),
            (Entry::Frame(_), Access::Write) if vmo.kind == (Kind::Physical { writable: false }) => {
                Err(Status::ACCESS_DENIED)
            }
            (Entry::Zero, Access::Read) => Ok(None),
            (Entry::Frame(frame), Access::Write) if !self.frames.is_shared(frame) => Ok(Some(frame)),
            (Entry::Frame(frame), Access::Write) => self.vmo_page_new_frame(id, page, Some(frame)).map(Some),
            (Entry::Zero, Access::Write) => self.vmo_page_new_frame(id, page, None).map(Some),
            (Entry::Absent, _) => {
                let absent_pages = match vmo.absent_pages {
                    AbsentPages::Discarded => return Err(Status::NOT_FOUND),
                    AbsentPages::Device(address) => {
                        return self.vmo_page_of_device(id, page, address, access).map(Some);
                    }
                    AbsentPages::Other { vmo: other, from, end } if page < end && vmo.zeroed.get(page).is_none() => {
                        self.vmo_page_for_reader(other, page.saturating_add(from))?
                    }
                    _ => None,
                };
                match access {
                    Access::Read => Ok(absent_pages),
                    Access::Write => self.vmo_page_new_frame(id, page, absent_pages).map(Some),
                }
            }
        }
    }

    /// A page of a pager-backed VMO that another VMO shows.
    fn vmo_page_for_reader(&mut self, id: Id<Vmo>, page: u64) -> Result<Option<Frame>, Status> {
        let vmo = self.objects.get(id)?;
        match vmo.absent_pages {
            AbsentPages::Source(source) if page < vmo.size / PAGE => self.source_page(id, source, page, Access::Read),
            _ => Ok(None),
        }
    }

    /// Gives a page a new frame with the content of another frame or zeroes. See the module's description.
    pub(super) fn vmo_page_new_frame(
        &mut self,
        id: Id<Vmo>,
        page: u64,
        content: Option<Frame>,
    ) -> Result<Frame, Status> {
        let vmo = self.objects.get_mut(id)?;
        let discardable = vmo.discard.is_some();
        let mapped = !vmo.mappings.is_empty() && (content.is_some() || vmo.zero_mapped);
        let more = !matches!(vmo.pages().map(|pages| pages.get(page)), Some(Entry::Frame(_)));
        if more {
            self.may_charge(id.object(), PAGE)?;
        }
        // The frame comes first: memory reclaimed for it can make the table smaller.
        let frame = self.frame_take(id)?;
        if let Some(content) = content {
            self.machine.frame_copy(content, frame);
        }
        let pages = self.objects.get_mut(id)?.pages_mut().ok_or(Status::INTERNAL)?;
        let Ok(old) = pages.place(page, frame) else {
            self.machine.frame_free(frame);
            return Err(Status::NO_MEMORY);
        };
        if mapped {
            self.vmo_unmap_pages(id, page, page + 1);
        }
        if let Some(old) = old {
            self.frames.release(&mut self.machine, old);
        }
        if more {
            self.charge(id.object(), PAGE);
        }
        if discardable {
            self.vmo_may_be_discarded(id);
        }
        self.pressure_check();
        Ok(frame)
    }

    /// The first page in `[from, to)` with a frame, of a VMO with its own pages.
    pub(crate) fn vmo_first_page(&self, id: Id<Vmo>, from: u64, to: u64) -> Option<u64> {
        self.objects.get(id).ok()?.pages()?.first(from, to)
    }

    /// The frame of a page, if present, and whether a mapping of it may be writable. Never asks a pager.
    pub(crate) fn vmo_page_if_there(&self, id: Id<Vmo>, page: u64) -> Option<(Frame, bool)> {
        let vmo = self.objects.get(id).ok()?;
        match (vmo.pages()?.get(page), &vmo.absent_pages) {
            (Entry::Frame(frame), &AbsentPages::Source(source)) => {
                Some((frame, self.source_allows_write(source, page)))
            }
            (Entry::Frame(frame), _) if frame.is_device() => {
                Some((frame, vmo.kind == (Kind::Physical { writable: true })))
            }
            (Entry::Frame(frame), _) => Some((frame, !self.frames.is_shared(frame))),
            (Entry::Absent, &AbsentPages::Other { vmo: other, from, end })
                if page < end && vmo.zeroed.get(page).is_none() =>
            {
                let other = self.objects.get(other).ok()?;
                let page = page.saturating_add(from);
                match other.pages()?.get(page) {
                    Entry::Frame(frame) if page < other.size / PAGE => Some((frame, false)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
