//! Pages and kernel objects from chunks, and the window through which the server sees every page.
//!
//! A chunk has one *kind* at a time:
//!
//! - **pages**: 512 frames. Frame number `f` is page `f % 512` of chunk `f / 512`. Its address in the window is
//!   `WINDOW + f * 4096`. The slots of its capabilities follow from `f`, too: slot `f % 512` of the chunk's leaf holds
//!   the capability for the window, slot `512 + f % 512` the one for a program (its *spare*). At most one program maps
//!   most pages; further mappings take loose slots.
//! - **units**: 512 untypeds of 4 KiB. A unit becomes kernel objects ([those of a thread](thread_objects), or a paging
//!   structure) and can be used again when they are gone. Slot `u % 512` holds the untyped, slot `512 + u % 512` its
//!   first object.
//! - **large**: 512 frames under one capability ([`large`]).
//! - **leaves**: 64 leaf CNodes, permanently.
//!
//! Parts are retyped in batches on first use; pages are mapped in the window at the same time. Free parts are tracked
//! by a bitmap and a counter. When the server needs a chunk and there is none, it revokes and reuses a chunk without
//! parts in use. Every number is derived from the others in O(1), and every table has the size of the memory.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use objects::containers::failure_injection::{MemoryRequest, should_fail};
use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{Frame, MachineUsage};
use server_boot::cspace::{LEAF_BITS, LEAF_SLOTS, LOOSE_LEAF, STRIP_LEAVES, leaf_slot, loose_slots};
use server_boot::layout::{CHUNK, CHUNK_BITS, WINDOW};

mod contiguous;
mod large;
mod loose_slots;
pub mod strips;
pub mod thread_objects;
mod window;

use self::loose_slots::LooseSlots;
use self::strips::Strips;
use super::arch::zero_page;
use super::chunks::{CHUNKS, NONE, untyped_of};
use super::heap;
use super::sys::{self, Object};

/// Parts in a chunk.
pub const PARTS: u32 = 512;
/// Leaf CNodes in a chunk.
const LEAVES: u32 = (CHUNK >> (LEAF_BITS + 5)) as u32;
/// Number of objects that one kernel call makes.
const BATCH: u32 = 256;
/// Minimum charge for a slot, in bytes: the kernel's record, and the server's entry for it.
const SLOT: u64 = 64;

/// 4 KiB of memory for kernel objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit(u32);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Pages,
    Units,
    Large,
}

impl Kind {
    /// Index of the list of chunks with room, and of the count, for parts of this kind.
    fn class(self) -> usize {
        usize::from(self == Kind::Units)
    }
}

/// State of one chunk.
#[derive(Clone, Copy)]
struct Chunk {
    kind: Kind,
    /// It has its leaf CNode, which it keeps.
    leaf: bool,
    /// The window's page table for it, which it keeps.
    window: Option<Unit>,
    /// The page table is mapped in the window. Otherwise it is put aside, because the chunk is or was a large page.
    window_up: bool,
    /// It is in the list of chunks with room.
    listed: bool,
    previous: u32,
    next: u32,
    /// Parts in use.
    live: u16,
    /// Parts that have been allocated at least once since the chunk got its kind.
    fresh: u16,
    /// Bitmap of the parts that were allocated and freed again.
    free: [u64; 8],
    /// Bitmaps of the pages whose spare capability exists, and of those where it is in use.
    spare: [u64; 8],
    mapped: [u64; 8],
}

const EMPTY: Chunk = Chunk {
    kind: Kind::None,
    leaf: false,
    window: None,
    window_up: false,
    listed: false,
    previous: NONE,
    next: NONE,
    live: 0,
    fresh: 0,
    free: [0; 8],
    spare: [0; 8],
    mapped: [0; 8],
};

impl Chunk {
    /// The state between two uses.
    fn emptied(&self) -> Chunk {
        Chunk { leaf: self.leaf, window: self.window, window_up: self.window_up, ..EMPTY }
    }
}

/// All memory of the server except its heap.
pub struct Memory {
    chunks: Vec<Chunk>,
    /// Root slot of chunk 0's leaf.
    leaf_base: u64,
    /// Heads of the lists of chunks with room: pages, units.
    room: [u32; 2],
    leaf_chunk: u32,
    leaves_used: u32,
    /// Permanently used chunks that are in no list: those of leaves, and the one that is put aside.
    spent: u64,
    loose: LooseSlots,
    /// Parts in use, for statistics.
    live: [u64; 2],
    /// Page tables of the window.
    windows: u64,
    /// Large mappings: chunk, and slot of the capability.
    large: BTreeSet<(u32, u64)>,
    /// The chunk to which a large page's content is copied when it is split.
    aside: u32,
    strips: Strips,
    /// Loose slots of permanent objects.
    kept: u64,
    /// Pages of devices; the index plus [`Frame::DEVICE`] is the number.
    devices: Vec<DevicePage>,
    /// Bytes of memory for each slot that can be allocated one by one.
    slot_price: u64,
}

/// A page of a device.
struct DevicePage {
    address: u64,
    /// The capability from which the mapping capabilities are copied.
    slot: u64,
}

fn bit(map: &[u64; 8], i: u32) -> bool {
    map[i as usize / 64] >> (i % 64) & 1 != 0
}

fn set_bit(map: &mut [u64; 8], i: u32, on: bool) {
    let mask = 1 << (i % 64);
    if on { map[i as usize / 64] |= mask } else { map[i as usize / 64] &= !mask }
}

fn first_bit(map: &[u64; 8]) -> Option<u32> {
    let word = map.iter().position(|word| *word != 0)?;
    Some(word as u32 * 64 + map[word].trailing_zeros())
}

impl Memory {
    /// Takes over `chunks` chunks. The heap must be initialised.
    pub fn new(chunks: u64, root_bits: u8) -> Result<Self, OutOfMemory> {
        let mut list = Vec::new();
        list.room_exact(chunks as usize)?;
        list.resize(chunks as usize, EMPTY);
        Ok(Memory {
            chunks: list,
            leaf_base: 1 << (root_bits - 1),
            room: [NONE; 2],
            leaf_chunk: NONE,
            leaves_used: 0,
            spent: 0,
            loose: LooseSlots::default(),
            live: [0; 2],
            windows: 0,
            large: BTreeSet::new(),
            aside: NONE,
            strips: Strips::default(),
            kept: 0,
            devices: Vec::new(),
            slot_price: (chunks * CHUNK).div_ceil(loose_slots(root_bits)).max(SLOT),
        })
    }

    /// Bytes in use, and bytes in total.
    pub fn bytes(&self) -> (u64, u64) {
        let (_, total) = CHUNKS.with(|chunks| chunks.bytes());
        ((self.live[0] + self.live[1]) * 4096 + self.spent * CHUNK + heap::bytes().0, total)
    }

    /// The resources in use. The window's page tables are not counted, because a chunk keeps its table forever, nor are
    /// the slots of permanent objects.
    pub fn usage(&self) -> MachineUsage {
        let taken = self.loose.next.saturating_sub(leaf_slot(LOOSE_LEAF, 0));
        MachineUsage {
            frames: self.live[0],
            units: self.live[1].saturating_sub(self.windows),
            slots: taken.saturating_sub(self.loose.count + self.kept),
        }
    }

    // --- pages ---

    /// The address at which the server sees a page.
    #[inline(always)]
    pub fn address(frame: Frame) -> u64 {
        WINDOW + u64::from(frame.0) * 4096
    }

    /// Allocates a page of zeroes.
    pub fn frame_alloc(&mut self) -> Result<Frame, OutOfMemory> {
        fail_if_planned(MemoryRequest::Frame)?;
        let (part, used_before) = self.part_alloc(Kind::Pages)?;
        if used_before {
            zero_page(Self::address(Frame(part)));
        }
        Ok(Frame(part))
    }

    /// Frees a page that is not mapped anywhere except in the window.
    pub fn frame_free(&mut self, frame: Frame) {
        self.part_free(frame.0);
    }

    /// A capability of the page for a program's mapping.
    pub fn mapping_take(&mut self, frame: Frame) -> Result<u64, OutOfMemory> {
        if frame.is_device() {
            let own = self.device_page(frame).ok_or(OutOfMemory)?.slot;
            return self.mapping_further(frame, own);
        }
        if self.is_large(frame) {
            self.split(frame.0 / PARTS);
        }
        let own = self.slot(frame.0, 0);
        let spare = self.slot(frame.0, PARTS);
        let i = frame.0 % PARTS;
        let chunk = &mut self.chunks[(frame.0 / PARTS) as usize];
        if !bit(&chunk.mapped, i) {
            if !bit(&chunk.spare, i) {
                sys::copy(spare, own).map_err(|_| OutOfMemory)?;
                set_bit(&mut chunk.spare, i, true);
            }
            set_bit(&mut chunk.mapped, i, true);
            return Ok(spare);
        }
        self.mapping_further(frame, own)
    }

    /// Maps a page into an address space with a capability as of [`Memory::mapping_take`], which it returns.
    pub fn map_one(
        &mut self,
        frame: Frame,
        (vspace, address): (u64, u64),
        write: bool,
        attributes: sys::Attributes,
    ) -> Result<u64, OutOfMemory> {
        if let Some(slot) = self.map_further(frame, (vspace, address), write, attributes)? {
            return Ok(slot);
        }
        let slot = self.mapping_take(frame)?;
        if sys::page_map(slot, vspace, address, write, attributes).is_err() {
            self.mapping_give(slot);
            return Err(OutOfMemory);
        }
        Ok(slot)
    }

    /// Copies the capability of a page that is mapped already, and maps the page, in one kernel call. `None` if that
    /// cannot be done.
    fn map_further(
        &mut self,
        frame: Frame,
        (vspace, address): (u64, u64),
        write: bool,
        attributes: sys::Attributes,
    ) -> Result<Option<u64>, OutOfMemory> {
        if frame.is_device() {
            return Ok(None);
        }
        let chunk = &self.chunks[(frame.0 / PARTS) as usize];
        if chunk.kind != Kind::Pages || !bit(&chunk.mapped, frame.0 % PARTS) {
            return Ok(None);
        }
        let (own, slot) = (self.slot(frame.0, 0), self.slot_alloc()?);
        let mapped = sys::pages_map(sys::place(own), sys::place(slot), 1, vspace, address, write, attributes);
        if let Some(Ok(())) = mapped {
            *self.loose.note(LooseSlots::number(slot)) = frame.0;
            self.loose.mapping += 1;
            return Ok(Some(slot));
        }
        // The kernel may have made the copy.
        if mapped.is_some() {
            sys::delete(slot);
        }
        self.slot_free(slot);
        mapped.map_or(Ok(None), |_| Err(OutOfMemory))
    }

    /// A copy of a page's capability in a loose slot.
    fn mapping_further(&mut self, frame: Frame, own: u64) -> Result<u64, OutOfMemory> {
        let slot = self.slot_alloc()?;
        if sys::copy(slot, own).is_err() {
            self.slot_free(slot);
            return Err(OutOfMemory);
        }
        *self.loose.note(LooseSlots::number(slot)) = frame.0;
        self.loose.mapping += 1;
        Ok(slot)
    }

    /// The page of a capability from [`Memory::mapping_take`].
    #[inline]
    pub fn mapping_frame(&self, slot: u64) -> Frame {
        let loose = || self.loose.frame(slot);
        Frame(self.spare_of(slot).or_else(|| self.strip_frame(slot)).unwrap_or_else(loose))
    }

    /// Ends the mapping made with a capability from [`Memory::mapping_take`], and frees the capability.
    pub fn mapping_give(&mut self, slot: u64) {
        if self.stays(slot) {
            return self.mappings_give(slot, 1);
        }
        sys::delete(slot);
        self.slot_free(slot);
        self.loose.mapping -= 1;
    }

    /// The frame whose spare capability is in this slot.
    fn spare_of(&self, slot: u64) -> Option<u32> {
        let chunk = (slot >> LEAF_BITS).checked_sub(self.leaf_base)?;
        Some(chunk as u32 * PARTS + (slot % LEAF_SLOTS) as u32 - PARTS)
    }

    /// Assigns numbers to adjacent pages of a device; returns the first.
    pub fn device_pages_add(&mut self, address: u64, slots: &[u64]) -> Result<Frame, OutOfMemory> {
        self.devices.room(slots.len())?;
        let first = Frame(Frame::DEVICE + self.devices.len() as u32);
        let pages = slots.iter().zip(0..).map(|(slot, i)| DevicePage { address: address + i * 4096, slot: *slot });
        self.devices.extend(pages);
        Ok(first)
    }

    fn device_page(&self, frame: Frame) -> Option<&DevicePage> {
        self.devices.get((frame.0 - Frame::DEVICE) as usize)
    }

    // --- kernel objects ---

    /// Allocates memory for kernel objects.
    pub fn unit_alloc(&mut self) -> Result<Unit, OutOfMemory> {
        fail_if_planned(MemoryRequest::Unit)?;
        self.part_alloc(Kind::Units).map(|(part, _)| Unit(part))
    }

    /// Frees a unit and destroys all objects in it.
    pub fn unit_free(&mut self, unit: Unit) {
        sys::revoke(self.slot(unit.0, 0));
        self.part_free(unit.0);
    }

    /// Allocates a unit and makes the object that fills it, or its first one.
    pub fn unit_object(&mut self, object: Object) -> Result<(Unit, u64), OutOfMemory> {
        let unit = self.unit_alloc()?;
        match self.unit_first(unit, object) {
            Ok(slot) => Ok((unit, slot)),
            Err(error) => {
                self.part_free(unit.0);
                Err(error)
            }
        }
    }

    fn unit_first(&mut self, unit: Unit, object: Object) -> Result<u64, OutOfMemory> {
        let slot = self.unit_slot(unit);
        self.make_at(self.slot(unit.0, 0), object, slot)?;
        Ok(slot)
    }

    /// The slot of a unit's first object.
    pub fn unit_slot(&self, unit: Unit) -> u64 {
        leaf_slot(self.leaf_base + u64::from(unit.0 / PARTS), u64::from(PARTS + unit.0 % PARTS))
    }

    /// Makes an object from an untyped, with its capability in a loose slot.
    pub fn make_at(&mut self, untyped: u64, object: Object, slot: u64) -> Result<(), OutOfMemory> {
        sys::retype(untyped, object, Some(slot >> LEAF_BITS), slot % LEAF_SLOTS, 1).map_err(|_| OutOfMemory)
    }

    // --- the common part ---

    /// Pointer to a capability of part `part`; `which` is 0 or [`PARTS`].
    #[inline]
    fn slot(&self, part: u32, which: u32) -> u64 {
        leaf_slot(self.leaf_base + u64::from(part / PARTS), u64::from(which + part % PARTS))
    }

    /// Allocates a part of a chunk of `kind`. Also returns whether the part was in use before.
    fn part_alloc(&mut self, kind: Kind) -> Result<(u32, bool), OutOfMemory> {
        let list = kind.class();
        if self.room[list] == NONE
            && let Err(error) = self.chunk_make(kind)
            && !(kind == Kind::Pages && self.split_for_room())
        {
            return Err(error);
        }
        let number = self.room[list];
        let chunk = &mut self.chunks[number as usize];
        let (i, used_before) = match first_bit(&chunk.free) {
            Some(i) => {
                set_bit(&mut chunk.free, i, false);
                (i, true)
            }
            None => (self.part_fresh(number, kind)?, false),
        };
        self.part_taken(number);
        Ok((number * PARTS + i, used_before))
    }

    /// The next part of a chunk that was never allocated. Retypes a batch if necessary.
    fn part_fresh(&mut self, number: u32, kind: Kind) -> Result<u32, OutOfMemory> {
        let i = u32::from(self.chunks[number as usize].fresh);
        if i % BATCH == 0 {
            let object = if kind == Kind::Pages { Object::Page } else { Object::Untyped(12) };
            let leaf = self.leaf_base + u64::from(number);
            let made = sys::retype(untyped_of(number), object, Some(leaf), u64::from(i), u64::from(BATCH));
            made.map_err(|_| OutOfMemory)?;
            if kind == Kind::Pages {
                self.window_show(number, i, BATCH);
            }
        }
        self.chunks[number as usize].fresh += 1;
        Ok(i)
    }

    /// Counts an allocated part.
    fn part_taken(&mut self, number: u32) {
        let chunk = &mut self.chunks[number as usize];
        chunk.live += 1;
        self.live[chunk.kind.class()] += 1;
        if u32::from(chunk.live) == PARTS {
            self.unlist(number);
        }
    }

    fn part_free(&mut self, part: u32) {
        let number = part / PARTS;
        let chunk = &mut self.chunks[number as usize];
        debug_assert!(!bit(&chunk.free, part % PARTS), "given back twice");
        set_bit(&mut chunk.free, part % PARTS, true);
        chunk.live -= 1;
        let kind = chunk.kind;
        self.live[kind.class()] -= 1;
        if !chunk.listed && kind != Kind::Large {
            self.list(number, kind);
        }
    }

    /// Puts a new chunk of `kind` into use, with all its parts free.
    fn chunk_make(&mut self, kind: Kind) -> Result<(), OutOfMemory> {
        let number = self.chunk_take()?;
        if let Err(error) = self.chunk_prepare(number, kind) {
            CHUNKS.with(|chunks| chunks.give(number));
            return Err(error);
        }
        self.chunk_open(number, kind);
        Ok(())
    }

    /// Puts a prepared chunk into use.
    fn chunk_open(&mut self, number: u32, kind: Kind) {
        let chunk = &mut self.chunks[number as usize];
        *chunk = Chunk { kind, ..chunk.emptied() };
        self.list(number, kind);
    }

    /// Takes a chunk without parts in use out of use.
    fn chunk_close(&mut self, number: u32) {
        sys::revoke(untyped_of(number));
        self.unlist(number);
        self.chunks[number as usize].kind = Kind::None;
    }

    fn chunk_prepare(&mut self, number: u32, kind: Kind) -> Result<(), OutOfMemory> {
        self.leaf_ready(number)?;
        if kind == Kind::Pages { self.window_ready(number, true) } else { Ok(()) }
    }

    /// Makes sure that a chunk has its leaf.
    fn leaf_ready(&mut self, number: u32) -> Result<(), OutOfMemory> {
        if !self.chunks[number as usize].leaf {
            self.leaf_make(self.leaf_base + u64::from(number))?;
            self.chunks[number as usize].leaf = true;
        }
        Ok(())
    }

    /// Makes sure that a chunk has a page table, mapped in the window or put aside.
    fn window_ready(&mut self, number: u32, up: bool) -> Result<(), OutOfMemory> {
        let unit = match self.chunks[number as usize].window {
            Some(unit) => unit,
            None => {
                let (unit, _) = self.unit_object(Object::PageTable)?;
                self.chunks[number as usize].window = Some(unit);
                self.windows += 1;
                unit
            }
        };
        let table = self.slot(unit.0, PARTS);
        let is_up = self.chunks[number as usize].window_up;
        if up && !is_up {
            let address = WINDOW + u64::from(number) * CHUNK;
            sys::page_table_map(table, sys::OWN_VSPACE, address).map_err(|_| OutOfMemory)?;
        } else if is_up && !up {
            sys::page_table_unmap(table).map_err(|_| OutOfMemory)?;
        }
        self.chunks[number as usize].window_up = up;
        Ok(())
    }

    /// Allocates a chunk. If there is none, reclaims a chunk without parts in use.
    fn chunk_take(&mut self) -> Result<u32, OutOfMemory> {
        fail_if_planned(MemoryRequest::Chunk)?;
        CHUNKS.with(|chunks| chunks.take()).or_else(|| self.chunk_reclaim()).ok_or(OutOfMemory)
    }

    /// Finds a chunk without parts in use and takes it out of use.
    fn chunk_reclaim(&mut self) -> Option<u32> {
        let idle = |chunk: &Chunk| chunk.kind != Kind::None && chunk.live == 0;
        let number = self.chunks.iter().position(idle)? as u32;
        self.chunk_close(number);
        Some(number)
    }

    /// Returns one chunk without parts in use to the free list, for example for the heap.
    pub fn release_one(&mut self) -> bool {
        let Some(number) = self.chunk_reclaim() else { return false };
        CHUNKS.with(|chunks| chunks.give(number));
        true
    }

    /// Makes the leaf CNode at a slot of the root CNode.
    fn leaf_make(&mut self, root_slot: u64) -> Result<(), OutOfMemory> {
        if self.leaf_chunk == NONE || self.leaves_used == LEAVES {
            self.leaf_chunk = self.chunk_take()?;
            self.leaves_used = 0;
            self.spent += 1;
        }
        let made = sys::retype(untyped_of(self.leaf_chunk), Object::CNode(LEAF_BITS), None, root_slot, 1);
        made.map_err(|_| OutOfMemory)?;
        self.leaves_used += 1;
        Ok(())
    }

    fn list(&mut self, number: u32, kind: Kind) {
        let head = &mut self.room[kind.class()];
        let next = core::mem::replace(head, number);
        let chunk = &mut self.chunks[number as usize];
        chunk.listed = true;
        chunk.previous = NONE;
        chunk.next = next;
        if next != NONE {
            self.chunks[next as usize].previous = number;
        }
    }

    fn unlist(&mut self, number: u32) {
        let chunk = &mut self.chunks[number as usize];
        if !chunk.listed {
            return;
        }
        chunk.listed = false;
        let (previous, next, list) = (chunk.previous, chunk.next, chunk.kind.class());
        if previous == NONE {
            self.room[list] = next;
        } else {
            self.chunks[previous as usize].next = next;
        }
        if next != NONE {
            self.chunks[next as usize].previous = previous;
        }
    }
}

/// Fails if the failure injection plan says so.
#[inline]
fn fail_if_planned(want: MemoryRequest) -> Result<(), OutOfMemory> {
    if should_fail(want) { Err(OutOfMemory) } else { Ok(()) }
}
