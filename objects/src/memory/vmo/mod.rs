//! Virtual memory objects: pages that come into being when they are written.
//!
//! A VMO either has pages of its own or is a *window* onto another: a slice is a part of it, a reference all of it.
//! Windows hold no pages; [`Kernel::vmo_resolve`] turns an offset in one into an offset in the VMO that does, its
//! *target*, and only targets are ever mapped or touched.
//!
//! A *clone* is a copy. Nothing is copied for it but the table of pages: the frames get one owner more each
//! ([`crate::memory::frames`]), and a frame with several owners is written by nobody. Who wants to write a page gets a frame of
//! his own first. So there is nothing between a VMO and its clones that would have to be kept right when one of them
//! is written, resized or closed: each has its table and that is all. What is left of descent is whose child a VMO is
//! said to be: when a VMO ends, its clones become its parent's children. A window keeps its parent.
//!
//! A page that a VMO has no frame for reads as zeroes, unless the VMO says otherwise ([`Beneath`]): a pager supplies
//! it, or it is the page of a VMO with a pager of which this one is a clone.
//!
//! - [`pages`](self): the table; `page`: looking a page up, to read it or to write it;
//! - `mapped`: where VMOs are mapped, and taking pages out there; `fault`: what happens when a thread touches one;
//!   `ahead`: what a thread gets before it does;
//! - `family`: parents and children; `windows`, `clones`: how children come about;
//! - `data`, `ops`, `size`, `transfer`: what is done to the content;
//! - `notes`: what is known of pages that have no frame;
//! - `discard`, `pins`: content that may go, and pages that may not; `special`: memory of devices and for them.

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

pub(crate) use self::allocate_ahead::Ahead;
pub use self::clones::CloneKind;
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
use crate::core::noun::Noun;
use crate::core::noun::chain;
use crate::core::object::Id;
use crate::core::object::ObjectId;
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::{Cache, Frame, Machine, PAGE};
use crate::memory::pager::{Dirt, Runs};

/// The largest size a VMO can have: 2^62 bytes, far above any address space.
pub const MAX_SIZE: u64 = 1 << 62;

/// Pages, and notes of pages, that are let go of at once when their VMO ends.
const FEW: u64 = 256;

/// Where a VMO's bytes are.
pub(crate) enum Backing {
    /// In its own pages.
    Pages(Pages),
    /// In another VMO with pages of its own, from an offset on.
    Window { target: Id<Vmo>, offset: u64, whole: bool },
}

/// What a page is that a VMO has no frame for and does not know to be zero.
#[derive(Clone, Copy)]
pub(crate) enum Beneath {
    /// Zeroes.
    Zeroes,
    /// What a pager supplies: the pager's record of the VMO.
    Source(Key),
    /// What it is in a VMO with a pager, which the VMO keeps: page 0 here is page `from` there; from page `end` (here)
    /// on there is nothing but zeroes.
    Other { vmo: Id<Vmo>, from: u64, end: u64 },
    /// Nothing any more: its content was thrown away.
    Discarded,
    /// The device's page there; page 0 is at this physical address.
    Device(u64),
}

/// What kind of memory a VMO shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Any pages there are.
    Plain,
    /// Pages that follow each other and stay.
    Contiguous,
    /// A device's.
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
    /// Whether its size can change.
    pub resizable: bool,
    /// The VMO that it is a child of, as long as that is there.
    pub(crate) parent: Option<Id<Vmo>>,
    /// Children that exist.
    pub children: u64,
    /// Those of them that are clones.
    pub(crate) clones: u64,
    pub(crate) kids: List<VmoChildren>,
    pub(crate) siblings: Link,
    /// The VMOs that show its pages where they have none of their own.
    pub(crate) readers: List<VmoReaders>,
    pub(crate) reader: Link,
    pub(crate) backing: Backing,
    pub(crate) beneath: Beneath,
    /// Pages that are zero where it has none of its own, whatever lies beneath; at its end what its source knew of all.
    pub(crate) zeroed: Runs<Dirt>,
    /// Bytes that it is charged for what is noted of its pages.
    pub(crate) notes_paid: u64,
    pub(crate) kind: Kind,
    pub(crate) discard: Option<Discard>,
    /// Its place among the discardable VMOs that nobody has locked.
    pub(crate) unlocked: Link,
    /// Runs of pages that a device may use.
    pub(crate) pins: IntervalMap<u64>,
    /// It came about as a copy of another.
    pub is_clone: bool,
    /// It is a snapshot that nobody was given to write or to resize.
    pub is_immutable: bool,
    /// Frames may have other owners too: it is a clone or has been cloned.
    pub(crate) shares: bool,
    /// The page of zeroes may be mapped where it has no frame.
    pub(crate) zero_mapped: bool,
    /// Where it is mapped, also through windows onto it: offsets, and the address space and base of each mapping.
    pub(crate) mappings: IntervalMap<(Key, u64)>,
    /// How many mappings there are of it by name or through windows onto it, by address space.
    pub(crate) spaces: Counts<Key>,
    /// Mappings made of it by name.
    pub num_mappings: usize,
    /// How mappings of it are cached.
    pub cache: Cache,
    /// It is a window through which this end of an IOBuffer maps a region.
    pub(crate) iob: Option<ObjectId>,
    /// It is the vDSO's: only exact executable mappings are allowed.
    pub is_vdso: bool,
    /// When it is gone but for its pages, the next one of which that is so ([`crate::kernel::reaper`]). Not dropped with it: that would be a
    /// recursion, and dearer for all others.
    pub(crate) left: Option<ManuallyDrop<Box<Vmo>>>,
}

impl Noun for Vmo {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_VMO;
    const BYTES: u64 = size_of::<Vmo>() as u64;

    fn held_bytes(&self) -> u64 {
        self.own_pages().saturating_mul(PAGE).saturating_add(self.notes_paid)
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
    /// Discardable VMOs that nobody has locked.
    Unlocked = Vmo.unlocked
}
chain! {
    /// Clones that show pages of a VMO with a pager where they have none of their own.
    VmoReaders = Vmo.reader
}

impl Vmo {
    /// Whether it is a window onto another VMO, with no pages of its own.
    pub fn is_window(&self) -> bool {
        matches!(self.backing, Backing::Window { .. })
    }

    /// Address spaces that it is mapped in.
    pub fn share_count(&self) -> usize {
        self.spaces.len()
    }

    /// Its table, if it has pages of its own.
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
            beneath: Beneath::Zeroes,
            zeroed: Runs::default(),
            notes_paid: 0,
            kind: Kind::Plain,
            discard: None,
            unlocked: Link::default(),
            pins: IntervalMap::default(),
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

    pub(crate) fn vmo_end(&mut self, mut vmo: Box<Vmo>) {
        if let Some(end) = vmo.iob {
            self.iob_window_end(Id::new(end));
        }
        match vmo.beneath {
            Beneath::Zeroes | Beneath::Discarded | Beneath::Device(_) => {}
            Beneath::Source(source) => vmo.zeroed = self.source_vmo_gone(source),
            Beneath::Other { vmo: other, .. } => self.drop_ref(other.object()),
        }
        match &mut vmo.backing {
            Backing::Pages(pages)
                if pages.len() > FEW || pages.runs() > FEW as usize || vmo.zeroed.len() > FEW as usize =>
            {
                self.vmo_left(vmo);
            }
            Backing::Pages(pages) if pages.len() != 0 => {
                self.worked(pages.len() as u32 / 32);
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
