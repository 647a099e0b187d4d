//! IOBuffers: memory regions that two ends share, each with access rights of either end and a *discipline*: rules by
//! which the kernel accesses it on an end's behalf.
//!
//! A region is a VMO without handles. An end maps a region through a window that is created for the mapping. The window
//! keeps the end alive, so that an end counts as closed only when it has neither handles nor mappings
//! ([`Kernel::iob_window_end`]). A shared region belongs to its own object, and any number of IOBuffers can use it.
//!
//! Programs may map and write the data that a discipline keeps in a region. So the kernel reads it once, checks it, and
//! trusts it no further than that.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use abi::{
    Signals, Status, ZX_IOB_ACCESS_EP0_CAN_MAP_READ, ZX_IOB_ACCESS_EP0_CAN_MAP_WRITE,
    ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE,
};

use crate::containers::growth::Grows;
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::account::AccountOwner;
use crate::core::noun::{Noun, ObjectOps, Peer, peered};
use crate::core::object::Id;
use crate::ipc::stream::UserBuffer;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE, Perm};
use crate::memory::vmo::Vmo;

mod blob;

pub use blob::Blob;

/// Maximum number of regions of an IOBuffer.
pub const MAX_REGIONS: usize = 64;

/// Maximum number of bytes in one ring write.
pub const MAX_RING_WRITE: u64 = 65_535;

/// Bit position of end 1's bits in a region's access bits.
const OTHER_END: u32 = 4;

/// How the kernel accesses a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discipline {
    /// Not at all.
    None,
    /// Stores copies of blobs by number.
    IdAllocator,
    /// Writes tagged records into a ring.
    Ring {
        /// The tag of this IOBuffer's records.
        tag: u64,
    },
}

/// The memory of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Allocated for this IOBuffer, with this size in bytes.
    Private(u64),
    /// That of a shared region.
    Shared(Id<IobSharedRegion>),
}

/// Parameters of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSpec {
    /// Its memory.
    pub source: Source,
    /// `ZX_IOB_ACCESS_*`.
    pub access: u32,
    /// What the kernel does in it.
    pub discipline: Discipline,
}

/// A region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its parameters.
    pub spec: RegionSpec,
    /// Its memory.
    pub vmo: Id<Vmo>,
    /// Its size in bytes.
    pub size: u64,
}

/// One end of an IOBuffer.
pub struct Iob {
    pub(crate) peer: Option<Id<Iob>>,
    /// The peer's koid, also after the peer is closed.
    pub peer_koid: u64,
    /// Its name, common to both ends.
    pub name: Name,
    /// Whether it is end 1.
    second: bool,
    regions: Arc<[Region]>,
    /// Number of windows through which regions are mapped from this end.
    windows: usize,
}

impl Noun for Iob {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_IOB;

    fn name(&self) -> Option<Name> {
        Some(self.name)
    }

    fn peer(&self) -> Option<Peer> {
        Peer::new(self.peer, self.peer_koid)
    }
}

impl ObjectOps for Iob {
    fn rename<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, name: Name) -> Result<(), Status> {
        kernel.iob_set_name(id, name)
    }

    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.iob_unreachable(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        for region in self.regions.iter() {
            kernel.drop_ref(region.vmo.object());
            if let Source::Shared(shared) = region.spec.source {
                kernel.drop_ref(shared.object());
            }
        }
    }
}

peered!(Iob);

impl Iob {
    /// Its regions.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The access bits (`ZX_IOB_ACCESS_*`) of a region, with this end's bits in the position of end 0.
    pub fn access(&self, region: &Region) -> u32 {
        let access = region.spec.access;
        if self.second { access >> OTHER_END | (access & ((1 << OTHER_END) - 1)) << OTHER_END } else { access }
    }
}

/// A region that several IOBuffers can share.
pub struct IobSharedRegion {
    vmo: Id<Vmo>,
    size: u64,
}

impl Noun for IobSharedRegion {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_IOB_SHARED_REGION;
}

impl ObjectOps for IobSharedRegion {
    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.drop_ref(self.vmo.object());
    }
}

/// Header of a ring record: tag and data length, 8 bytes each. Records are aligned to eight bytes.
const RING_RECORD: u64 = 16;

/// The first two 8-byte words of a page.
fn words(bytes: [u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(bytes);
    (both as u64, (both >> 64) as u64)
}

impl<M: Machine> Kernel<M> {
    /// `iob_create_shared_region` for a process, whose job is charged for the memory.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages. `OUT_OF_RANGE`: too large. `NO_MEMORY`.
    pub fn iob_create_shared_region<P: AccountOwner>(
        &mut self,
        process: Id<P>,
        size: u64,
    ) -> Result<Id<IobSharedRegion>, Status> {
        if size == 0 || !size.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        let vmo = self.vmo_create(size, false)?;
        self.charge_to(process, vmo).inspect_err(|_| self.reaper_enqueue(vmo.object()))?;
        let region = self.create(Signals::NONE, Box::new(IobSharedRegion { vmo, size }));
        let region = region.inspect_err(|_| self.reaper_enqueue(vmo.object()))?;
        self.add_ref(vmo.object());
        Ok(region)
    }

    /// Checks a region's parameters.
    fn iob_check(&self, spec: &RegionSpec) -> Result<(), Status> {
        let size = match spec.source {
            Source::Private(size) => size,
            Source::Shared(region) => self.objects.get(region)?.size,
        };
        let fits = match (spec.discipline, spec.source) {
            (Discipline::None, Source::Private(_)) => true,
            // Offsets in it have 32 bits.
            (Discipline::IdAllocator, Source::Private(_)) => size <= u64::from(u32::MAX) / PAGE * PAGE,
            // A page with the two counters, and a ring whose size is a power of two.
            (Discipline::Ring { .. }, Source::Shared(_)) => size.checked_sub(PAGE).is_some_and(u64::is_power_of_two),
            _ => false,
        };
        if fits && size > 0 { Ok(()) } else { Err(Status::INVALID_ARGS) }
    }

    /// Gets the VMO of a region; the caller keeps it alive or releases it.
    fn iob_region<P: AccountOwner>(&mut self, process: Id<P>, spec: RegionSpec) -> Result<Region, Status> {
        let (vmo, size) = match spec.source {
            Source::Shared(region) => {
                let region = self.objects.get(region)?;
                (region.vmo, region.size)
            }
            Source::Private(size) => {
                let vmo = self.vmo_create(size, false)?;
                self.charge_to(process, vmo).inspect_err(|_| self.reaper_enqueue(vmo.object()))?;
                (vmo, self.objects.get(vmo)?.size)
            }
        };
        let begun = match spec.discipline {
            // The next number is 0, and the last blob begins at the region's end.
            Discipline::IdAllocator => self.vmo_write(vmo, 4, &(size as u32).to_le_bytes()),
            Discipline::None | Discipline::Ring { .. } => Ok(()),
        };
        begun.inspect_err(|_| self.reaper_enqueue(vmo.object()))?;
        Ok(Region { spec, vmo, size })
    }

    /// `iob_create` for a process, whose job is charged for the regions; returns both ends.
    ///
    /// # Errors
    /// `INVALID_ARGS`: invalid region parameters. `OUT_OF_RANGE`: too large. `NO_MEMORY`.
    pub fn iob_create<P: AccountOwner>(
        &mut self,
        process: Id<P>,
        specs: &[RegionSpec],
    ) -> Result<(Id<Iob>, Id<Iob>), Status> {
        specs.iter().try_for_each(|spec| self.iob_check(spec))?;
        let mut regions = Vec::new();
        regions.room_exact(specs.len())?;
        let made = specs.iter().try_for_each(|&spec| {
            regions.push(self.iob_region(process, spec)?);
            Ok(())
        });
        let regions: Arc<[Region]> = regions.into();
        let ends = made.and_then(|()| {
            let end = |second| {
                let (name, regions) = (Name::default(), regions.clone());
                Box::new(Iob { peer: None, peer_koid: 0, name, second, regions, windows: 0 })
            };
            self.create_pair(Signals::NONE, [end(false), end(true)])
        });
        match ends {
            Ok(_) => self.iob_hold(&regions, 2),
            Err(_) => {
                // Regions with other references stay.
                regions.iter().for_each(|region| self.reaper_enqueue(region.vmo.object()));
            }
        }
        ends
    }

    /// Adds `ends` references to each region.
    fn iob_hold(&mut self, regions: &[Region], ends: usize) {
        for region in regions {
            for _ in 0..ends {
                self.add_ref(region.vmo.object());
                if let Source::Shared(shared) = region.spec.source {
                    self.add_ref(shared.object());
                }
            }
        }
    }

    /// The last handle to an end is closed.
    pub(crate) fn iob_unreachable(&mut self, id: Id<Iob>) {
        if self.objects.get(id).is_ok_and(|end| end.windows == 0)
            && let Some(peer) = self.part_pair(id)
        {
            self.signal(peer.object(), Signals::NONE, Signals::IOB_PEER_CLOSED);
        }
    }

    /// Sets the name of an IOBuffer and its private regions.
    pub(crate) fn iob_set_name(&mut self, id: Id<Iob>, name: Name) -> Result<(), Status> {
        let end = self.objects.get(id)?;
        let (regions, peer) = (end.regions.clone(), end.peer);
        for end in [Some(id), peer].into_iter().flatten() {
            self.objects.get_mut(end)?.name = name;
        }
        for region in regions.iter().filter(|region| matches!(region.spec.source, Source::Private(_))) {
            self.objects.get_mut(region.vmo)?.name = name;
        }
        Ok(())
    }

    fn iob_region_at(&self, id: Id<Iob>, index: u32) -> Result<(Region, u32), Status> {
        let end = self.objects.get(id)?;
        let region = *end.regions.get(index as usize).ok_or(Status::OUT_OF_RANGE)?;
        Ok((region, end.access(&region)))
    }

    /// Creates the window through which an end maps a region once. The mapping must keep it alive; the caller calls
    /// [`Kernel::iob_window_made`] when the mapping is made or has failed. Also returns the size and the access that
    /// the end may map. The job of the mapping process is charged.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: no such region. `NO_MEMORY`.
    pub fn iob_window<P: AccountOwner>(
        &mut self,
        process: Id<P>,
        id: Id<Iob>,
        index: u32,
    ) -> Result<(Id<Vmo>, u64, Perm), Status> {
        let (region, access) = self.iob_region_at(id, index)?;
        let perm = Perm {
            read: access & ZX_IOB_ACCESS_EP0_CAN_MAP_READ != 0,
            write: access & ZX_IOB_ACCESS_EP0_CAN_MAP_WRITE != 0,
            execute: false,
        };
        let window = self.vmo_create_reference(region.vmo, false)?;
        self.charge_to(process, window).inspect_err(|_| self.reaper_enqueue(window.object()))?;
        let name = self.objects.get(region.vmo)?.name;
        let vmo = self.objects.get_mut(window)?;
        vmo.name = name;
        vmo.iob = Some(id.object());
        self.objects.get_mut(id)?.windows += 1;
        self.add_ref(id.object());
        self.add_ref(window.object());
        Ok((window, region.size, perm))
    }

    /// Releases the reference of [`Kernel::iob_window`].
    pub fn iob_window_made(&mut self, window: Id<Vmo>) {
        self.drop_ref(window.object());
    }

    /// A window is destroyed.
    pub(crate) fn iob_window_end(&mut self, id: Id<Iob>) {
        let Ok(end) = self.objects.get_mut(id) else { return };
        end.windows = end.windows.saturating_sub(1);
        if self.objects.any(id.object()).is_ok_and(|end| end.handles == 0) {
            self.iob_unreachable(id);
        }
        self.drop_ref(id.object());
    }

    /// Checks that an end may change a region by a call, and that `of` accepts its discipline; returns the region and
    /// the result of `of`.
    fn iob_mediated<T>(
        &self,
        id: Id<Iob>,
        index: u32,
        of: impl Fn(Discipline) -> Option<T>,
    ) -> Result<(Region, T), Status> {
        let (region, access) = self.iob_region_at(id, index)?;
        let what = of(region.spec.discipline).ok_or(Status::WRONG_TYPE)?;
        if access & ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE == 0 {
            return Err(Status::ACCESS_DENIED);
        }
        Ok((region, what))
    }

    /// `iob_writev`: writes a record with buffers of a program's memory as its data.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: no such region. `WRONG_TYPE`: it is no ring. `ACCESS_DENIED`: not allowed for this end.
    /// `INVALID_ARGS`: too many bytes, or invalid buffers. `BAD_STATE`: the ring's counters are invalid. `NO_SPACE`:
    /// the ring is full. `NO_MEMORY`. [`PAGE_WAIT`](crate::core::continuation::PAGE_WAIT).
    pub fn iob_write(&mut self, id: Id<Iob>, index: u32, aspace: Key, parts: &[UserBuffer]) -> Result<(), Status> {
        let tag_of = |discipline| match discipline {
            Discipline::Ring { tag } => Some(tag),
            _ => None,
        };
        let (region, tag) = self.iob_mediated(id, index, tag_of)?;
        let len: u64 = parts.iter().map(|part| part.len).sum();
        if len > MAX_RING_WRITE {
            return Err(Status::INVALID_ARGS);
        }
        let ring = region.size - PAGE;
        let mut counters = [0; 16];
        self.vmo_read(region.vmo, 0, &mut counters)?;
        let (head, tail) = words(counters);
        let filled = head.checked_sub(tail).filter(|&filled| filled <= ring).ok_or(Status::BAD_STATE)?;
        let record = RING_RECORD + len.next_multiple_of(8);
        let end = head.checked_add(record).ok_or(Status::BAD_STATE)?;
        if !head.is_multiple_of(8) {
            return Err(Status::BAD_STATE);
        }
        if ring - filled < record {
            return Err(Status::NO_SPACE);
        }
        // Readers read only up to `head`, which advances when the record is complete.
        self.ring_put(region.vmo, ring, head, &tag.to_le_bytes())?;
        self.ring_put(region.vmo, ring, head + 8, &len.to_le_bytes())?;
        let mut at = head + RING_RECORD;
        for part in parts {
            let (mut address, mut left) = (part.address, part.len);
            while left > 0 {
                let place = at % ring;
                let run = left.min(ring - place);
                self.user_to_vmo(region.vmo, PAGE + place, aspace, address, run).1?;
                (at, address, left) = (at + run, address.wrapping_add(run), left - run);
            }
        }
        self.vmo_write(region.vmo, 0, &end.to_le_bytes())?;
        if let Source::Shared(shared) = region.spec.source {
            let updated = Signals::IOB_SHARED_REGION_UPDATED;
            self.signal(shared.object(), Signals::NONE, updated);
            self.signal(shared.object(), updated, Signals::NONE);
        }
        Ok(())
    }

    /// Writes eight bytes, which never cross the end of the ring.
    fn ring_put(&mut self, vmo: Id<Vmo>, ring: u64, at: u64, bytes: &[u8; 8]) -> Result<(), Status> {
        self.vmo_write(vmo, PAGE + at % ring, bytes)
    }
}
