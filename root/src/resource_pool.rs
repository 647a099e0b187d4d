//! A resource pool: what one instance or component holds, so that the root task can take all of it back at once and
//! give it to the next life.
//!
//! The resource pool is determined when the system starts, and stays the same in all lives of its owner:
//! - *pieces* of one chunk each, from which the root task makes the server's own objects, in a range of slots that
//!   belongs to the resource pool alone;
//! - *sources*: the untypeds for the server's memory, and those of its devices. The root task keeps these capabilities
//!   and gives the server copies, which the kernel tracks as children of the originals.
//!
//! The pieces form a [`ResourcePool`], the sources a [`SourcePool`]; a component has no source pool.
//!
//! So every capability that a server or its programs derive descends from capabilities here. A life ends in these
//! steps:
//! 1. The server's thread stops; its programs' threads wait for it, or run until step 3 destroys them.
//! 2. Devices can no longer write to memory ([`crate::devices::silence`]).
//! 3. The root task revokes all sources. This deletes the programs' threads, address spaces and pages, and the server's
//!    copies.
//! 4. The root task revokes all pieces. This destroys the server's thread, address space and capability space. The
//!    capability space holds the last capabilities to interrupt handlers, whose deletion masks the interrupts, and to
//!    I/O ports.
//! 5. The root task deletes the remaining capabilities in the resource pool's slots (second capabilities to pages of
//!    others).
//!
//! The kernel clears the memory when the next life first cuts it, so no data of one life is visible in the next.

use sel4::bootinfo::INIT_CNODE;
use sel4::{CPtr, ObjectType, Rights, Slot, Untyped};
use server_boot::layout::{CHUNK, CHUNK_BITS};
use server_boot::{BootInfo, MAX_DEVICES, MAX_SOURCES, Source};

use crate::console::info;
use crate::error::{Context, Error};
use crate::make::{ObjectMaker, own_slot};
use crate::memory::{InstanceUntyped, Memory};

/// Maximum number of pieces of a resource pool.
const PIECES: usize = 32;

/// See the module's description.
pub struct ResourcePool {
    pieces: [Option<Piece>; PIECES],
    first_slot: u64,
    next_slot: u64,
    end_slot: u64,
}

/// The sources of an instance.
pub struct SourcePool {
    sources: List<MAX_SOURCES>,
    devices: List<MAX_DEVICES>,
}

#[derive(Clone, Copy)]
struct Piece {
    gift: InstanceUntyped,
    used: u64,
}

/// Untypeds.
struct List<const N: usize> {
    gifts: [InstanceUntyped; N],
    count: usize,
}

impl<const N: usize> List<N> {
    const fn new() -> Self {
        List { gifts: [InstanceUntyped { cap: Untyped::new(0), address: 0, bits: 0 }; N], count: 0 }
    }

    fn all(&self) -> &[InstanceUntyped] {
        &self.gifts[..self.count]
    }

    fn copy(&self, what: &'static str, place: impl Fn(u64) -> Slot) -> Result<(), Error> {
        self.all()
            .iter()
            .zip(0..)
            .try_for_each(|(gift, i)| place(i).copy_from(own_slot(gift.cap.cptr().0), Rights::ALL).context(what))
    }
}

impl ResourcePool {
    /// A resource pool with this many slots, and no pieces yet.
    pub fn new(memory: &mut Memory, slots: u64) -> Result<Self, Error> {
        let first_slot = memory.slots(slots)?;
        Ok(ResourcePool { pieces: [None; PIECES], first_slot, next_slot: first_slot, end_slot: first_slot + slots })
    }

    /// Logs which memory belongs to this owner. Everything made from pieces lies in these ranges.
    pub fn tell(&self, name: &str) {
        self.pieces.iter().flatten().for_each(|piece| tell(name, &piece.gift));
    }

    /// Takes back everything that was made here: steps 4 and 5.
    pub fn reclaim(&mut self) -> Result<(), Error> {
        for piece in self.pieces.iter_mut().flatten() {
            piece.gift.revoke()?;
            piece.used = 0;
        }
        for slot in self.first_slot..self.next_slot {
            own_slot(slot).delete().context("taking a capability back")?;
        }
        self.next_slot = self.first_slot;
        Ok(())
    }
}

/// Logs the owner of a range of memory.
fn tell(name: &str, gift: &InstanceUntyped) {
    info!("memory of {name:?}: {:#x}-{:#x}", gift.address, gift.address + ((1 << gift.bits) - 1));
}

impl InstanceUntyped {
    /// Revokes everything that was made from it.
    fn revoke(&self) -> Result<(), Error> {
        own_slot(self.cap.cptr().0).revoke().context("taking memory back")
    }
}

impl SourcePool {
    /// An empty source pool.
    pub const fn new() -> Self {
        SourcePool { sources: List::new(), devices: List::new() }
    }

    /// Takes this many chunks for the server, and records them in its boot pages.
    pub fn take_memory(&mut self, memory: &mut Memory, chunks: u64, info: &mut BootInfo) -> Result<(), Error> {
        let mut left = chunks;
        let mut count = 0;
        while left > 0 && count < MAX_SOURCES {
            let gift = memory.gift(left)?;
            left -= (1 << gift.bits) / CHUNK;
            info.source[count] = Source { address: gift.address, bits: gift.bits.into() };
            self.sources.gifts[count] = gift;
            count += 1;
        }
        // They were taken largest first.
        info.source[..count].reverse();
        self.sources.gifts[..count].reverse();
        self.sources.count = count;
        info.sources = count as u64;
        info.chunks = chunks - left;
        Ok(())
    }

    /// Takes a piece of device memory.
    pub fn take_device(&mut self, gift: &InstanceUntyped) -> Result<(), Error> {
        let place = self.devices.gifts.get_mut(self.devices.count);
        *place.ok_or(Error::Pieces("device memory", MAX_DEVICES))? = *gift;
        self.devices.count += 1;
        Ok(())
    }

    /// Gives the server its memory: untyped number `i` goes to `place(i)`.
    pub fn give_memory(&self, place: impl Fn(u64) -> Slot) -> Result<(), Error> {
        self.sources.copy("a server's memory", place)
    }

    /// As [`SourcePool::give_memory`], for the devices.
    pub fn give_devices(&self, place: impl Fn(u64) -> Slot) -> Result<(), Error> {
        self.devices.copy("device memory", place)
    }

    /// Logs which memory belongs to this owner.
    pub fn tell(&self, name: &str) {
        self.sources.all().iter().for_each(|gift| tell(name, gift));
    }

    /// Revokes everything that was made from it: step 3.
    pub fn reclaim(&self) -> Result<(), Error> {
        self.sources.all().iter().chain(self.devices.all()).try_for_each(InstanceUntyped::revoke)
    }
}

/// Makes objects from a resource pool's pieces. If they have no room in the first life, the resource pool gets another
/// piece.
pub struct Builder<'a> {
    /// The root task's memory.
    pub memory: &'a mut Memory,
    /// The resource pool.
    pub resource_pool: &'a mut ResourcePool,
}

impl ObjectMaker for Builder<'_> {
    fn slot(&mut self) -> Result<u64, Error> {
        let resource_pool = &mut *self.resource_pool;
        if resource_pool.next_slot == resource_pool.end_slot {
            return Err(Error::OutOfSlots);
        }
        resource_pool.next_slot += 1;
        Ok(resource_pool.next_slot - 1)
    }

    fn make(&mut self, object: ObjectType) -> Result<CPtr, Error> {
        let slot = self.slot()?;
        if object.size_bits() > CHUNK_BITS {
            return Err(Error::OutOfMemory);
        }
        let size = 1u64 << object.size_bits();
        for place in &mut self.resource_pool.pieces {
            let piece = match place {
                Some(piece) => piece,
                None => place.insert(Piece { gift: self.memory.gift(1)?, used: 0 }),
            };
            let at = piece.used.next_multiple_of(size);
            if at + size <= CHUNK {
                piece.gift.cap.retype(object, INIT_CNODE, 0, 0, slot, 1).context("making an object")?;
                piece.used = at + size;
                return Ok(CPtr(slot));
            }
        }
        Err(Error::OutOfMemory)
    }
}
