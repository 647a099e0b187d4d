//! Virtual memory objects: pages that come into being when they are touched.
//!
//! A VMO either has pages of its own or is a window onto another: a *slice* is a part of its parent, a *reference* all
//! of it. Windows hold no pages; [`Kernel::vmo_resolve`] turns an offset in one into an offset in the VMO that does,
//! and only such VMOs are ever mapped or touched.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use abi::{Signals, Status};

use crate::aspace::Mapping;
use crate::kernel::Kernel;
use crate::machine::{Frame, Machine, PAGE, PAGE_SIZE};
use crate::name::Name;
use crate::object::{Body, Id, Object};
use crate::pages::Pages;
use crate::slab::Key;

/// The largest size a VMO can have: 2^63 bytes less a page's worth of room for rounding, far above any address space.
pub const MAX_SIZE: u64 = 1 << 62;

/// A page must be waited for: the call or fault is made again when it is there. Never told to a program.
pub const PAGE_WAIT: Status = Status(i32::MIN);

/// Where a VMO's bytes are.
pub(crate) enum Backing {
    /// In its own pages.
    Pages(Pages),
    /// In another VMO, from an offset on.
    Window { parent: Id<Vmo>, offset: u64 },
}

/// A VMO.
pub struct Vmo {
    /// Its name.
    pub name: Name,
    /// Its size in bytes, a multiple of the page size.
    pub size: u64,
    /// The size that its user gave it, which files and streams keep here.
    pub content_size: u64,
    /// Whether its size can change.
    pub resizable: bool,
    /// The VMO that it is a child of.
    pub parent_koid: u64,
    /// Children that exist.
    pub children: u64,
    pub(crate) backing: Backing,
    /// Where it is mapped: address space and base, to offset and length. A VMO with pages of its own also has those
    /// that were made through windows onto it.
    pub(crate) mappings: BTreeMap<(Key, u64), (u64, u64)>,
    /// Mappings made of it by name.
    pub num_mappings: usize,
    /// Address spaces that it is mapped in.
    pub share_count: usize,
    /// It is the vDSO's: only exact executable mappings are allowed.
    pub is_vdso: bool,
}

/// Rounds a size up to whole pages.
///
/// # Errors
/// `OUT_OF_RANGE`: larger than a VMO can be.
pub fn round_up(size: u64) -> Result<u64, Status> {
    if size > MAX_SIZE {
        return Err(Status::OUT_OF_RANGE);
    }
    Ok(size.next_multiple_of(PAGE))
}

/// The range `[offset, offset + len)`, if it lies below `limit`.
fn range(offset: u64, len: u64, limit: u64) -> Result<core::ops::Range<u64>, Status> {
    let end = offset.checked_add(len).filter(|&end| end <= limit).ok_or(Status::OUT_OF_RANGE)?;
    Ok(offset..end)
}

impl Vmo {
    fn is_mapped_in(&self, aspace: Key) -> bool {
        self.mappings.range((aspace, 0)..=(aspace, u64::MAX)).next().is_some()
    }

    fn mapped(&mut self, aspace: Key, base: u64, offset: u64, len: u64) {
        if !self.is_mapped_in(aspace) {
            self.share_count += 1;
        }
        self.mappings.insert((aspace, base), (offset, len));
    }

    fn unmapped(&mut self, aspace: Key, base: u64) {
        if self.mappings.remove(&(aspace, base)).is_some() && !self.is_mapped_in(aspace) {
            self.share_count = self.share_count.saturating_sub(1);
        }
    }

    /// Whether it is a window onto another VMO, with no pages of its own.
    pub fn is_window(&self) -> bool {
        matches!(self.backing, Backing::Window { .. })
    }

    /// Bytes that the kernel itself needs for it.
    pub fn metadata_bytes(&self) -> usize {
        let pages = match &self.backing {
            Backing::Pages(pages) => pages.metadata_bytes(),
            Backing::Window { .. } => 0,
        };
        size_of::<Object>() + size_of::<Vmo>() + pages
    }
}

impl<M: Machine> Kernel<M> {
    /// The VMOs of a mapping that has come into being know of it and live as long.
    pub(crate) fn mapping_take_up(&mut self, aspace: Key, mapping: &Mapping) {
        let Mapping { base, len, vmo, offset, named, named_offset, .. } = *mapping;
        if let Ok(vmo) = self.objects.get_mut(vmo) {
            vmo.mapped(aspace, base, offset, len);
        }
        self.add_ref(vmo.object());
        if let Ok(named) = self.objects.get_mut(named) {
            named.num_mappings += 1;
        }
        if named != vmo {
            if let Ok(named) = self.objects.get_mut(named) {
                named.mapped(aspace, base, named_offset, len);
            }
            self.add_ref(named.object());
        }
    }

    /// The end of [`Kernel::mapping_take_up`].
    pub(crate) fn mapping_let_go(&mut self, aspace: Key, mapping: &Mapping) {
        let Mapping { base, vmo, named, .. } = *mapping;
        if let Ok(named) = self.objects.get_mut(named) {
            named.num_mappings = named.num_mappings.saturating_sub(1);
        }
        if named != vmo {
            if let Ok(named) = self.objects.get_mut(named) {
                named.unmapped(aspace, base);
            }
            self.drop_ref(named.object());
        }
        if let Ok(vmo) = self.objects.get_mut(vmo) {
            vmo.unmapped(aspace, base);
        }
        self.drop_ref(vmo.object());
    }

    fn vmo_new(&mut self, size: u64, content_size: u64, resizable: bool, backing: Backing) -> Result<Id<Vmo>, Status> {
        let vmo = Vmo {
            name: Name::default(),
            size,
            content_size,
            resizable,
            parent_koid: 0,
            children: 0,
            backing,
            mappings: BTreeMap::new(),
            num_mappings: 0,
            share_count: 0,
            is_vdso: false,
        };
        self.create(Signals::VMO_ZERO_CHILDREN, Body::Vmo(Box::new(vmo)))
    }

    /// `vmo_create`: a VMO of zeroes, rounded up to pages, none of them committed.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: too large. `NO_MEMORY`.
    pub fn vmo_create(&mut self, size: u64, resizable: bool) -> Result<Id<Vmo>, Status> {
        self.vmo_new(round_up(size)?, size, resizable, Backing::Pages(Pages::default()))
    }

    /// A VMO made of pages that there are already; it owns them from now on.
    ///
    /// # Errors
    /// `NO_MEMORY`; the pages are given back.
    pub fn vmo_from_frames(&mut self, frames: &[Frame], content_size: u64) -> Result<Id<Vmo>, Status> {
        let mut pages = Pages::default();
        for (i, &frame) in frames.iter().enumerate() {
            if pages.reserve(i as u64).is_err() {
                frames.iter().for_each(|&f| self.machine.frame_free(f));
                return Err(Status::NO_MEMORY);
            }
            pages.set(i as u64, frame);
        }
        let result = self.vmo_new(frames.len() as u64 * PAGE, content_size, false, Backing::Pages(pages));
        if result.is_err() {
            frames.iter().for_each(|&f| self.machine.frame_free(f));
        }
        result
    }

    /// Makes a VMO the vDSO's: from now on its code is mapped whole, once, and for good.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_seal_as_vdso(&mut self, id: Id<Vmo>, name: Name) -> Result<(), Status> {
        let vmo = self.objects.get_mut(id)?;
        vmo.is_vdso = true;
        vmo.name = name;
        Ok(())
    }

    /// `vmo_create_child` for slices and references. `size` counts for slices.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: the slice is not within its parent. `NOT_SUPPORTED`: a slice of a resizable VMO. `NO_MEMORY`.
    pub fn vmo_create_window(&mut self, parent: Id<Vmo>, offset: u64, size: u64) -> Result<Id<Vmo>, Status> {
        let p = self.objects.get(parent)?;
        if p.resizable {
            return Err(Status::NOT_SUPPORTED);
        }
        let rounded = round_up(size)?;
        range(offset, rounded, p.size)?;
        let child = self.vmo_new(rounded, size, false, Backing::Window { parent, offset })?;
        let koid = self.koid(parent.object());
        self.objects.get_mut(child)?.parent_koid = koid;
        self.objects.get_mut(parent)?.children += 1;
        self.add_ref(parent.object());
        self.signal(parent.object(), Signals::VMO_ZERO_CHILDREN, Signals::NONE);
        Ok(child)
    }

    /// The VMO with pages of its own that an offset of a VMO means, and the offset there.
    pub(crate) fn vmo_resolve(&self, mut vmo: Id<Vmo>, mut offset: u64) -> Result<(Id<Vmo>, u64), Status> {
        loop {
            match self.objects.get(vmo)?.backing {
                Backing::Pages(_) => return Ok((vmo, offset)),
                Backing::Window { parent, offset: from } => {
                    vmo = parent;
                    offset = offset.checked_add(from).ok_or(Status::OUT_OF_RANGE)?;
                }
            }
        }
    }

    /// The frame of a page of a VMO with pages of its own, committed if need be.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond the VMO's end. `NO_MEMORY`.
    pub(crate) fn vmo_page(&mut self, id: Id<Vmo>, page: u64) -> Result<Frame, Status> {
        let vmo = self.objects.get_mut(id)?;
        if page >= vmo.size / PAGE {
            return Err(Status::OUT_OF_RANGE);
        }
        let Backing::Pages(pages) = &mut vmo.backing else { return Err(Status::INTERNAL) };
        if let Some(frame) = pages.get(page) {
            return Ok(frame);
        }
        pages.reserve(page).map_err(|_| Status::NO_MEMORY)?;
        let frame = self.machine.frame_alloc().map_err(|_| Status::NO_MEMORY)?;
        pages.set(page, frame);
        self.pressure_check();
        Ok(frame)
    }

    /// The frame of a page, if it is committed.
    pub(crate) fn vmo_page_if_there(&self, id: Id<Vmo>, page: u64) -> Option<Frame> {
        match &self.objects.get(id).ok()?.backing {
            Backing::Pages(pages) => pages.get(page),
            Backing::Window { .. } => None,
        }
    }

    /// The first committed page in `[from, to)` of a VMO with pages of its own.
    pub(crate) fn vmo_first_page(&self, id: Id<Vmo>, from: u64, to: u64) -> Option<(u64, Frame)> {
        match &self.objects.get(id).ok()?.backing {
            Backing::Pages(pages) => pages.first(from, to),
            Backing::Window { .. } => None,
        }
    }

    /// Copies out of a VMO.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond its end. `NO_MEMORY`.
    pub fn vmo_read(&mut self, id: Id<Vmo>, offset: u64, out: &mut [u8]) -> Result<(), Status> {
        range(offset, out.len() as u64, self.objects.get(id)?.size)?;
        let (id, mut at) = self.vmo_resolve(id, offset)?;
        let mut out = out;
        while !out.is_empty() {
            let within = (at % PAGE) as usize;
            let len = (PAGE_SIZE - within).min(out.len());
            let (part, rest) = out.split_at_mut(len);
            // A page that was never touched reads as zeroes and stays uncommitted.
            match self.vmo_page_if_there(id, at / PAGE) {
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
    /// As [`Kernel::vmo_read`].
    pub fn vmo_write(&mut self, id: Id<Vmo>, offset: u64, data: &[u8]) -> Result<(), Status> {
        range(offset, data.len() as u64, self.objects.get(id)?.size)?;
        let (id, mut at) = self.vmo_resolve(id, offset)?;
        let mut data = data;
        while !data.is_empty() {
            let within = (at % PAGE) as usize;
            let len = (PAGE_SIZE - within).min(data.len());
            let (part, rest) = data.split_at(len);
            let frame = self.vmo_page(id, at / PAGE)?;
            self.machine.frame_write(frame, within, part);
            at += len as u64;
            data = rest;
        }
        Ok(())
    }

    /// `ZX_VMO_OP_COMMIT`: every page of a range exists afterwards.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`, `NO_MEMORY`; a part may be committed then.
    pub fn vmo_commit(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        let r = range(offset, len, self.objects.get(id)?.size)?;
        let (id, from) = self.vmo_resolve(id, offset)?;
        for page in from / PAGE..(from + (r.end - r.start)).div_ceil(PAGE) {
            self.vmo_page(id, page)?;
        }
        Ok(())
    }

    /// `ZX_VMO_OP_DECOMMIT`: gives pages back; they read as zeroes afterwards.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages. `OUT_OF_RANGE`. `NOT_SUPPORTED`: a child.
    pub fn vmo_decommit(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        let vmo = self.objects.get(id)?;
        if !matches!(vmo.backing, Backing::Pages(_)) {
            return Err(Status::NOT_SUPPORTED);
        }
        let r = range(offset, len, vmo.size)?;
        if !offset.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        self.vmo_drop_pages(id, r.start / PAGE, r.end / PAGE);
        Ok(())
    }

    /// `ZX_VMO_OP_ZERO`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`, `NO_MEMORY`.
    pub fn vmo_zero(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        let r = range(offset, len, self.objects.get(id)?.size)?;
        let (id, from) = self.vmo_resolve(id, offset)?;
        let to = from + (r.end - r.start);
        let whole = from.next_multiple_of(PAGE)..to / PAGE * PAGE;
        if whole.start < whole.end {
            self.vmo_drop_pages(id, whole.start / PAGE, whole.end / PAGE);
        }
        let mut at = from;
        while at < to {
            let within = at % PAGE;
            let part = (PAGE - within).min(to - at);
            if let Some(frame) = self.vmo_page_if_there(id, at / PAGE) {
                self.machine.frame_zero(frame, within as usize, part as usize);
                at += part;
            } else {
                // Not committed, so zero; on to the next page that is.
                let next = match &self.objects.get(id)?.backing {
                    Backing::Pages(pages) => pages.first(at / PAGE + 1, to.div_ceil(PAGE)),
                    Backing::Window { .. } => None,
                };
                at = next.map_or(to, |(page, _)| page * PAGE);
            }
        }
        Ok(())
    }

    /// Unmaps and frees the committed pages `[from, to)`.
    fn vmo_drop_pages(&mut self, id: Id<Vmo>, from: u64, to: u64) {
        self.vmo_unmap_pages(id, from, to);
        while let Ok(Vmo { backing: Backing::Pages(pages), .. }) = self.objects.get_mut(id)
            && let Some((_, frame)) = pages.take_first(from, to)
        {
            self.machine.frame_free(frame);
        }
        self.pressure_check();
    }

    /// Takes the pages `[from, to)` out of all address spaces that map them.
    fn vmo_unmap_pages(&mut self, id: Id<Vmo>, from: u64, to: u64) {
        let Ok(vmo) = self.objects.get(id) else { return };
        for (&(aspace, base), &(offset, len)) in &vmo.mappings {
            let start = (from * PAGE).max(offset);
            let end = to.saturating_mul(PAGE).min(offset + len);
            if let Some(space) = self.aspaces.get(aspace)
                && start < end
            {
                self.machine.unmap(space.machine, base + (start - offset), (end - start) / PAGE);
            }
        }
    }

    /// `vmo_set_size`. Pages beyond the new end are given back; accesses there are faults.
    ///
    /// # Errors
    /// `UNAVAILABLE`: not resizable. `OUT_OF_RANGE`: too large. `BAD_STATE`: it has slices.
    pub fn vmo_set_size(&mut self, id: Id<Vmo>, size: u64) -> Result<(), Status> {
        let vmo = self.objects.get(id)?;
        if !vmo.resizable {
            return Err(Status::UNAVAILABLE);
        }
        let rounded = round_up(size)?;
        let old = vmo.size;
        if rounded < old {
            self.vmo_drop_pages(id, rounded / PAGE, old / PAGE);
        }
        let vmo = self.objects.get_mut(id)?;
        vmo.size = rounded;
        vmo.content_size = size;
        Ok(())
    }

    /// `vmo_set_stream_size`: the size of the content; bytes between an old and a larger new one are zeroes.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: larger than the VMO.
    pub fn vmo_set_content_size(&mut self, id: Id<Vmo>, size: u64) -> Result<(), Status> {
        let vmo = self.objects.get(id)?;
        if size > vmo.size {
            return Err(Status::OUT_OF_RANGE);
        }
        let old = vmo.content_size;
        if size > old {
            self.vmo_zero(id, old, size - old)?;
        }
        self.objects.get_mut(id)?.content_size = size;
        Ok(())
    }

    /// Bytes committed in a VMO.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_committed(&self, id: Id<Vmo>) -> Result<u64, Status> {
        let size = self.objects.get(id)?.size;
        let (id, from) = self.vmo_resolve(id, 0)?;
        match &self.objects.get(id)?.backing {
            Backing::Pages(pages) if from == 0 && size == self.objects.get(id)?.size => Ok(pages.len() * PAGE),
            Backing::Pages(pages) => Ok(pages.count(from / PAGE, (from + size) / PAGE) * PAGE),
            Backing::Window { .. } => Err(Status::INTERNAL),
        }
    }

    /// How many of the pages of a VMO are committed.
    pub fn vmo_count(&self, id: Id<Vmo>, pages: core::ops::Range<u64>) -> u64 {
        match self.objects.get(id).map(|vmo| &vmo.backing) {
            Ok(Backing::Pages(p)) => p.count(pages.start, pages.end),
            _ => 0,
        }
    }

    pub(crate) fn vmo_end(&mut self, _id: Id<Vmo>, vmo: Vmo) {
        match vmo.backing {
            Backing::Pages(mut pages) => {
                while let Some((_, frame)) = pages.take_first(0, u64::MAX) {
                    self.machine.frame_free(frame);
                }
                self.pressure_check();
            }
            Backing::Window { parent, .. } => {
                let last = self.objects.get_mut(parent).is_ok_and(|p| {
                    p.children = p.children.saturating_sub(1);
                    p.children == 0
                });
                if last {
                    self.signal(parent.object(), Signals::NONE, Signals::VMO_ZERO_CHILDREN);
                }
                self.drop_ref(parent.object());
            }
        }
    }
}
