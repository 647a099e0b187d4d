//! Virtual memory objects: memory whose pages are allocated when they are first written.
//!
//! A VMO either has its own pages or is a *window* onto another VMO: a slice shows a part of it, a reference all of it.
//! Windows hold no pages. [`Kernel::vmo_resolve`] translates an offset in a window to an offset in the VMO that holds
//! the pages, its *target*. Only targets are ever mapped or accessed.
//!
//! A *clone* is a copy. Creating it copies only the page table: each frame gets one more owner
//! ([`crate::memory::frames`]), and a frame with several owners is never written. A write first gives its VMO a private
//! copy of the frame. So there is no structure between a VMO and its clones to maintain when one of them is written,
//! resized or closed: each has only its own table. Ancestry remains only in the reported parent: when a VMO is
//! destroyed, its clones become children of its parent. A window keeps its parent alive.
//!
//! A page without a frame reads as zeroes, unless the VMO says otherwise ([`AbsentPages`]): a pager supplies it, or, in
//! a clone of a pager-backed VMO, that VMO does.
//!
//! - `pages`: the page table; `page_lookup`: look-up of a page for reading or writing;
//! - `reverse_map`: the reverse map, and unmapping through it; `fault`: page faults; `allocate_ahead`, `large`: several
//!   pages at once;
//! - `children`: parents and children; `windows`, `clones`: creation of children;
//! - `read_write`, `op_range`, `size`, `transfer`: operations on the content; `source`: pages of pager-backed VMOs;
//! - `page_notes`: metadata of pages that have no frame; `info`: memory usage;
//! - `discard`, `pins`: discardable content, and pinned pages; `physical`: device memory and memory for devices.

mod allocate_ahead;
mod children;
mod clones;
mod discard;
mod fault;
mod info;
mod large;
mod op_range;
mod page_lookup;
mod page_notes;
mod pages;
mod physical;
mod pins;
mod read_write;
mod reverse_map;
mod size;
pub(crate) mod source;
#[cfg(test)]
mod tests;
mod transfer;
#[cfg(test)]
mod trees;
mod windows;

use alloc::boxed::Box;
use core::mem::ManuallyDrop;

use abi::{Signals, Status};

pub(crate) use self::allocate_ahead::AllocateAhead;
pub use self::clones::CloneKind;
pub(crate) use self::fault::FAULT_AROUND;
pub use self::info::{FRACTION, Memory};
pub(crate) use self::page_notes::{NOTES, SOURCE};
pub(crate) use self::pages::Chunk;
pub use self::pins::Pin;

use self::discard::Discard;
use self::pages::Pages;
use crate::containers::inline_map::Counts;
use crate::containers::interval_map::IntervalMap;
use crate::containers::list::{Link, List};
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::noun::{Noun, ObjectOps, chain};
use crate::core::object::Id;
use crate::core::object::ObjectId;
use crate::kernel::Kernel;
use crate::machine::{Cache, Frame, Machine, PAGE};
use crate::memory::pager::{DirtyState, RunMap};

/// The maximum size of a VMO: 2^62 bytes, far above any address space.
pub const MAX_SIZE: u64 = 1 << 62;

/// The maximum number of pages and page notes that are freed immediately when their VMO is destroyed.
const FREE_AT_ONCE: u64 = 256;

/// Where a VMO's pages are.
pub(crate) enum Backing {
    /// In its own page table.
    Pages(Pages),
    /// In another VMO with its own pages, from an offset up.
    Window { target: Id<Vmo>, offset: u64, whole: bool },
}

/// The content of a page that has no frame and is not marked as zero.
#[derive(Clone, Copy)]
pub(crate) enum AbsentPages {
    /// Zeroes the range.
    Zeroes,
    /// Supplied by a pager; the key of the pager's state for this VMO.
    Source(Key),
    /// The content of another VMO, which has a pager and which this VMO keeps alive: page 0 here is page `from` there;
    /// from page `end` (here) up, all pages are zeroes.
    Other { vmo: Id<Vmo>, from: u64, end: u64 },
    /// None: the content was discarded.
    Discarded,
    /// Device memory; page 0 is at this physical address.
    Device(u64),
}

/// The kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ordinary pages.
    Plain,
    /// Physically contiguous pages that stay allocated.
    Contiguous,
    /// Device memory.
    Physical {
        /// It may be mapped for writing.
        writable: bool,
    },
}

/// A VMO.
pub struct Vmo {
    /// Its name.
    pub name: Name,
    /// Its size in bytes, a multiple of the page size. A reference is as large as its target: [`Kernel::vmo_size`].
    pub(crate) size: u64,
    /// The size that its user gave it, which files and streams keep here.
    pub content_size: u64,
    /// Whether its size can change after creation.
    pub resizable: bool,
    /// Its parent, while that exists.
    pub(crate) parent: Option<Id<Vmo>>,
    /// Number of children.
    pub children: u64,
    /// Number of children that are clones.
    pub(crate) clones: u64,
    pub(crate) kids: List<VmoChildren>,
    pub(crate) siblings: Link,
    /// Clones that show its pages where they have no pages of their own.
    pub(crate) readers: List<VmoReaders>,
    pub(crate) reader: Link,
    pub(crate) backing: Backing,
    pub(crate) absent_pages: AbsentPages,
    /// Pages without a frame that are zeroes, whatever the content of absent pages is. On destruction, also the dirty
    /// and zero ranges of its source.
    pub(crate) zeroed: RunMap<DirtyState>,
    /// Bytes that it is charged for notes about its pages.
    pub(crate) notes_charge: u64,
    pub(crate) kind: Kind,
    pub(crate) discard: Option<Discard>,
    /// Its link in the list of unlocked discardable VMOs.
    pub(crate) unlocked: Link,
    /// Ranges of pinned pages.
    pub(crate) pins: IntervalMap<u64>,
    /// Number of page tables of it. While there are any, all its pages are pinned as soon as they are committed.
    pub(crate) page_tables: u32,
    /// It was created as a clone.
    pub is_clone: bool,
    /// It is a snapshot whose handles never allowed writing or resizing.
    pub is_immutable: bool,
    /// Frames may have other owners: it is a clone or has been cloned.
    pub(crate) shares: bool,
    /// The page of zeroes may be mapped where it has no frame.
    pub(crate) zero_mapped: bool,
    /// Reverse map: offsets, and the address space and base of each mapping, including mappings through windows.
    pub(crate) mappings: IntervalMap<(Key, u64)>,
    /// Number of mappings of it or of windows onto it, per address space.
    pub(crate) spaces: Counts<Key>,
    /// Number of mappings made of this VMO itself.
    pub num_mappings: usize,
    /// The caching of its mappings.
    pub cache: Cache,
    /// It is a window through which this end of an IOBuffer maps a region.
    pub(crate) iob: Option<ObjectId>,
    /// It is the vDSO: executable mappings must cover exactly its code.
    pub is_vdso: bool,
    /// Once it is destroyed and only its pages must still be freed: the next such VMO ([`crate::kernel::reaper`]). It
    /// is not dropped with this one: that would recurse, and would cost more for all other VMOs.
    pub(crate) left: Option<ManuallyDrop<Box<Vmo>>>,
}

impl Noun for Vmo {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_VMO;
    const BYTES: u64 = size_of::<Vmo>() as u64;

    fn held_bytes(&self) -> u64 {
        self.own_pages().saturating_mul(PAGE).saturating_add(self.notes_charge)
    }

    fn name(&self) -> Option<Name> {
        Some(self.name)
    }
}

impl ObjectOps for Vmo {
    fn rename<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, name: Name) -> Result<(), Status> {
        kernel.objects.get_mut(id)?.name = name;
        Ok(())
    }

    #[inline(always)]
    fn leave_lists<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.vmo_leave(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.vmo_end(self);
    }
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

chain! {
    /// Children of a VMO.
    VmoChildren = Vmo.siblings
}
chain! {
    /// Unlocked discardable VMOs.
    Unlocked = Vmo.unlocked
}
chain! {
    /// Clones that show pages of a pager-backed VMO where they have none of their own.
    VmoReaders = Vmo.reader
}

impl Vmo {
    /// Whether it is a window onto another VMO and has no pages of its own.
    pub fn is_window(&self) -> bool {
        matches!(self.backing, Backing::Window { .. })
    }

    /// Whether it is plain memory of a fixed size, of which page tables can be made.
    pub(crate) fn may_have_page_tables(&self) -> bool {
        self.kind == Kind::Plain
            && matches!((&self.backing, &self.absent_pages), (Backing::Pages(_), AbsentPages::Zeroes))
            && self.cache == Cache::Cached
            && !(self.resizable || self.is_discardable() || self.is_vdso)
    }

    /// Number of address spaces that map it.
    pub fn share_count(&self) -> usize {
        self.spaces.len()
    }

    /// Its page table, if it has its own pages.
    pub(crate) fn pages(&self) -> Option<&Pages> {
        match &self.backing {
            Backing::Pages(pages) => Some(pages),
            Backing::Window { .. } => None,
        }
    }

    pub(crate) fn pages_mut(&mut self) -> Option<&mut Pages> {
        match &mut self.backing {
            Backing::Pages(pages) => Some(pages),
            Backing::Window { .. } => None,
        }
    }
}

impl<M: Machine> Kernel<M> {
    fn vmo_new(&mut self, size: u64, content_size: u64, resizable: bool, backing: Backing) -> Result<Id<Vmo>, Status> {
        let vmo = Vmo {
            name: Name::default(),
            size,
            content_size,
            resizable,
            parent: None,
            children: 0,
            clones: 0,
            kids: List::default(),
            siblings: Link::default(),
            readers: List::default(),
            reader: Link::default(),
            backing,
            absent_pages: AbsentPages::Zeroes,
            zeroed: RunMap::default(),
            notes_charge: 0,
            kind: Kind::Plain,
            discard: None,
            unlocked: Link::default(),
            pins: IntervalMap::default(),
            page_tables: 0,
            is_clone: false,
            is_immutable: false,
            shares: false,
            zero_mapped: false,
            mappings: IntervalMap::default(),
            spaces: Counts::default(),
            num_mappings: 0,
            cache: Cache::Cached,
            iob: None,
            is_vdso: false,
            left: None,
        };
        self.create(Signals::VMO_ZERO_CHILDREN, Box::new(vmo))
    }

    /// `vmo_create`: creates a VMO of zeroes. The size is rounded up to whole pages, none of them committed.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: too large. `NO_MEMORY`.
    pub fn vmo_create(&mut self, size: u64, resizable: bool) -> Result<Id<Vmo>, Status> {
        self.vmo_new(round_up(size)?, size, resizable, Backing::Pages(Pages::default()))
    }

    /// Creates a VMO from existing frames, which it then owns.
    ///
    /// # Errors
    /// `NO_MEMORY`; the frames are freed.
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

    /// Makes a VMO the vDSO: its code can only be mapped as a whole, once, and permanently.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_seal_as_vdso(&mut self, id: Id<Vmo>, name: Name) -> Result<(), Status> {
        let vmo = self.objects.get_mut(id)?;
        vmo.is_vdso = true;
        vmo.name = name;
        Ok(())
    }

    /// A VMO is destroyed. Inlined into its only caller, as the end of an object must not pay for a call.
    #[inline(always)]
    pub(crate) fn vmo_end(&mut self, mut vmo: Box<Vmo>) {
        if let Some(end) = vmo.iob {
            self.iob_window_end(Id::new(end));
        }
        match vmo.absent_pages {
            AbsentPages::Zeroes | AbsentPages::Discarded | AbsentPages::Device(_) => {}
            AbsentPages::Source(source) => vmo.zeroed = self.source_vmo_gone(source),
            AbsentPages::Other { vmo: other, .. } => self.drop_ref(other.object()),
        }
        match &mut vmo.backing {
            Backing::Pages(pages)
                if pages.len() > FREE_AT_ONCE
                    || pages.runs() > FREE_AT_ONCE as usize
                    || vmo.zeroed.len() > FREE_AT_ONCE as usize =>
            {
                self.reaper_enqueue_vmo(vmo);
            }
            Backing::Pages(pages) if pages.len() != 0 => {
                self.slice_add_work(pages.len() as u32 / 32);
                self.vmo_discard_table(core::mem::take(pages));
                self.pressure_check();
            }
            Backing::Pages(_) => {}
            Backing::Window { .. } => {
                if let Some(parent) = vmo.parent {
                    self.drop_ref(parent.object());
                }
            }
        }
    }
}
