//! Address spaces of programs.
//!
//! The kernel keeps no list of mappings: to unmap a page, the server needs the capability that mapped it. So each
//! address space has a tree of tables that mirrors the processor's page tables: four levels of 512 entries. A lower
//! table, and the kernel's paging structure of the same extent, is created on first use and freed when it is empty. An
//! entry of the lowest level is the pointer to the capability that maps the page, with [`WRITE`] if it is writable,
//! [`EXECUTE`] if it is executable and [`CACHE`] for its cache mode; 0 means not mapped. A request that would not
//! change a mapping makes no kernel call.
//!
//! An entry of the next level can be a large page instead of a table: [`LARGE`], its capability, and the same bits. An
//! operation on a part of a large mapping ends the whole mapping; page faults map what programs still use.
//!
//! The tables of all address spaces are in one arena, so a table is a number and an entry has 32 bits.

use alloc::boxed::Box;
use alloc::vec::Vec;

use core::cell::Cell;
use core::ops::Range;

use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{Cache, Frame, PAGE, Perm};

use server_boot::cspace::{ASID_POOLS, LEAF_BITS};

use super::memory::strips::MappedBy;
use super::memory::{Memory, Unit};
use super::sys::{self, Object};

const ENTRIES: usize = 512;
/// Maximum number of empty tables per level that are kept for reuse.
const SPARES: usize = 8;
/// The level whose entries are pages; the root is level 3.
const LEAF: u32 = 0;
const ROOT: u32 = 3;
/// Bit of an entry: the page is writable. Slot pointers do not reach this bit.
const WRITE: u32 = 1 << 31;
/// Bits of an entry: the page's cache mode.
const CACHE: u32 = 3 << CACHE_SHIFT;
const CACHE_SHIFT: u32 = 29;
/// Bit of an entry above the lowest level: it is a large page.
const LARGE: u32 = 1 << 28;
/// Bit of an entry: the page is executable.
const EXECUTE: u32 = 1 << 27;
/// Bits of an entry that do not belong to the pointer.
const FLAGS: u32 = WRITE | CACHE | LARGE | EXECUTE;
/// Cost of removing a table, in unmapped pages.
const TABLE_WORK: u32 = 16;
/// The level of large pages.
const LARGE_LEVEL: u32 = 1;

/// One mirrored paging structure.
struct Table {
    entries: Box<[u32]>,
    /// Bitmap of the entries that are not 0.
    used: [u64; ENTRIES / 64],
    /// The kernel's paging structure.
    unit: Unit,
}

impl Table {
    fn mark(&mut self, index: usize, used: bool) {
        let bit = 1 << (index % 64);
        let word = &mut self.used[index / 64];
        *word = if used { *word | bit } else { *word & !bit };
    }
}

/// Number of ASIDs that are in use, for each pool.
#[derive(Default)]
struct Pools([u32; ASID_POOLS as usize]);

/// Bytes of a table: the kernel's paging structure, and its mirror.
const TABLE: u64 = PAGE + PAGE / 2;

/// ASIDs in a pool.
const IN_POOL: u32 = 512;

impl Pools {
    /// Assigns an ASID to a new address space and returns its pool.
    fn assign(&mut self, vspace: u64) -> Result<u64, OutOfMemory> {
        let with_room = (0..).zip(&mut self.0).filter(|(_, taken)| **taken < IN_POOL);
        for (pool, taken) in with_room {
            // A server may have fewer pools than the maximum.
            if sys::asid_assign(pool, vspace).is_ok() {
                *taken += 1;
                return Ok(pool);
            }
        }
        Err(OutOfMemory)
    }

    fn give(&mut self, pool: u64) {
        let taken = self.0.get_mut(pool as usize);
        taken.into_iter().for_each(|taken| *taken = taken.saturating_sub(1));
    }
}

/// The tables of all address spaces.
#[derive(Default)]
pub struct Tables {
    pools: Pools,
    list: Vec<Option<Table>>,
    free: Vec<u32>,
    /// For each level below the root, empty tables that are kept for reuse. Most processes are short-lived, and the
    /// next one needs as many tables.
    spare: [Vec<Spare>; ROOT as usize],
    /// The lowest-level table that was used last (lookaside cache).
    cached_walk: CachedWalk,
}

/// What a new table is made of: entries that are all 0, and a paging structure of the kernel that is in no address
/// space.
struct Spare {
    entries: Box<[u32]>,
    unit: Unit,
}

/// A cached walk to a lowest-level table. It holds for all addresses that the table covers until a table is removed or
/// replaced by a large page.
#[derive(Clone, Copy, Default)]
struct CachedWalk {
    root: u32,
    /// The cached address, without the bits below this table.
    block: u64,
    /// The table's number plus 1; 0 if the cache is empty.
    leaf: u32,
}

impl CachedWalk {
    /// The lowest-level table for an address of the address space with this root, if it is the cached one.
    #[inline]
    fn leaf(&self, root: u32, address: u64) -> Option<u32> {
        let same = self.root == root && self.block == address / span(LARGE_LEVEL);
        self.leaf.checked_sub(1).filter(|_| same)
    }
}

impl Tables {
    /// The parts for a new table of a level: kept ones, or new ones.
    fn spare(&mut self, memory: &mut Memory, level: u32, object: Object) -> Result<Spare, OutOfMemory> {
        if let Some(spare) = self.spare.get_mut(level as usize).and_then(Vec::pop) {
            return Ok(spare);
        }
        let mut entries = Vec::new();
        entries.room_exact(ENTRIES)?;
        entries.resize(ENTRIES, 0);
        let (unit, _) = memory.unit_object(object)?;
        Ok(Spare { entries: entries.into_boxed_slice(), unit })
    }

    /// Number of tables.
    fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }

    fn add(&mut self, spare: Spare) -> Result<u32, Spare> {
        // Makes sure that a freed number finds room in the list.
        let room = self.list.len() + 1 - self.free.len();
        if self.free.is_empty() && (self.list.room(1).is_err() || self.free.room(room).is_err()) {
            return Err(spare);
        }
        let table = Some(Table { entries: spare.entries, used: [0; ENTRIES / 64], unit: spare.unit });
        if let Some(number) = self.free.pop() {
            self.list[number as usize] = table;
            return Ok(number);
        }
        self.list.push(table);
        Ok(self.list.len() as u32 - 1)
    }

    /// Removes an empty table of a level, or keeps its parts for reuse.
    fn remove(&mut self, memory: &mut Memory, number: u32, level: u32) {
        self.cached_walk = CachedWalk::default();
        let Some(Table { entries, unit, .. }) = self.list[number as usize].take() else { return };
        self.free.push(number);
        if let Some(spare) = self.spare.get_mut(level as usize)
            && spare.len() < SPARES
            && spare.room(1).is_ok()
            && unmap_table(memory.unit_slot(unit), level).is_ok()
        {
            return spare.push(Spare { entries, unit });
        }
        memory.unit_free(unit);
    }

    /// Number of the kernel's paging structures that are kept for reuse.
    pub fn spares(&self) -> u64 {
        self.spare.iter().map(|spare| spare.len() as u64).sum()
    }

    /// Frees them. Returns whether there were any.
    pub fn give_up_spares(&mut self, memory: &mut Memory) -> bool {
        let before = self.spares();
        self.spare.iter_mut().flat_map(|spare| spare.drain(..)).for_each(|spare| memory.unit_free(spare.unit));
        before != 0
    }

    #[inline]
    fn entry(&self, table: u32, index: usize) -> u32 {
        self.list[table as usize].as_ref().map_or(0, |table| table.entries[index])
    }

    fn set(&mut self, table: u32, index: usize, value: u32) {
        if let Some(table) = &mut self.list[table as usize] {
            table.entries[index] = value;
            table.mark(index, value != 0);
        }
    }

    /// Whether any entry in a range is used.
    fn any(&self, table: u32, entries: Range<usize>) -> bool {
        self.first(table, entries).is_some()
    }

    /// Fills unused entries with consecutive values.
    fn fill(&mut self, table: u32, entries: Range<usize>, first: u32) {
        if let Some(table) = &mut self.list[table as usize] {
            entries.clone().for_each(|i| table.mark(i, true));
            (first..).zip(&mut table.entries[entries]).for_each(|(value, entry)| *entry = value);
        }
    }

    fn empty(&self, table: u32) -> bool {
        self.list[table as usize].as_ref().is_none_or(|table| table.used.iter().all(|word| *word == 0))
    }

    /// The first used entry in a range.
    fn first(&self, table: u32, entries: Range<usize>) -> Option<usize> {
        let table = self.list[table as usize].as_ref()?;
        let (mut word, mut mask) = (entries.start / 64, u64::MAX << (entries.start % 64));
        loop {
            let used = table.used.get(word)? & mask;
            if used != 0 {
                let i = word * 64 + used.trailing_zeros() as usize;
                return (i < entries.end).then_some(i);
            }
            (word, mask) = (word + 1, u64::MAX);
        }
    }
}

/// One address space.
pub struct Space {
    root: u32,
    /// The kernel's root structure.
    pub vspace: u64,
    /// Number of tables below the root.
    tables: Cell<u32>,
    /// Number of loose slots with which it maps pages that are also mapped elsewhere.
    slots: Cell<u64>,
    /// The pool of its ASID, if the server assigned the ASID.
    pool: Option<u64>,
}

#[inline]
fn index(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * level)) as usize % ENTRIES
}

/// The flags of an entry.
fn flags(perm: Perm, cache: Cache) -> u32 {
    let write = if perm.write { WRITE } else { 0 };
    let execute = if perm.execute { EXECUTE } else { 0 };
    write | execute | (cache as u32) << CACHE_SHIFT
}

/// Removes a table's paging structure from its address space in the kernel.
fn unmap_table(slot: u64, level: u32) -> Result<(), OutOfMemory> {
    let unmapped = match level {
        LEAF => sys::page_table_unmap(slot),
        1 => sys::page_directory_unmap(slot),
        _ => sys::pdpt_unmap(slot),
    };
    unmapped.map_err(|_| OutOfMemory)
}

/// The mapping attributes for an entry's flags, except for write permission.
fn attributes(flags: u32) -> sys::Attributes {
    sys::Attributes { caching: caching(flags), execute: flags & EXECUTE != 0 }
}

fn caching(flags: u32) -> sys::Caching {
    const CACHED: u32 = Cache::Cached as u32;
    const UNCACHED: u32 = Cache::Uncached as u32;
    const DEVICE: u32 = Cache::UncachedDevice as u32;
    match (flags & CACHE) >> CACHE_SHIFT {
        CACHED => sys::Caching::WriteBack,
        UNCACHED => sys::Caching::Disabled,
        DEVICE => sys::Caching::Uncacheable,
        _ => sys::Caching::WriteCombining,
    }
}

/// Bytes that one entry of a level covers.
const fn span(level: u32) -> u64 {
    1 << (12 + 9 * level)
}

impl Space {
    /// An empty address space.
    pub fn new(memory: &mut Memory, tables: &mut Tables) -> Result<Self, OutOfMemory> {
        let spare = tables.spare(memory, ROOT, Object::VSpace)?;
        let vspace = memory.unit_slot(spare.unit);
        let pool = tables.pools.assign(vspace).inspect_err(|_| memory.unit_free(spare.unit))?;
        match tables.add(spare) {
            Ok(root) => Ok(Space { root, vspace, tables: Cell::new(0), slots: Cell::new(0), pool: Some(pool) }),
            Err(spare) => {
                memory.unit_free(spare.unit);
                tables.pools.give(pool);
                Err(OutOfMemory)
            }
        }
    }

    /// A component's address space. Its root structure belongs to the component; here a table without ASID represents
    /// it.
    pub fn of_component(memory: &mut Memory, tables: &mut Tables, vspace: u64) -> Result<Self, OutOfMemory> {
        let spare = tables.spare(memory, ROOT, Object::VSpace)?;
        match tables.add(spare) {
            Ok(root) => Ok(Space { root, vspace, tables: Cell::new(0), slots: Cell::new(0), pool: None }),
            Err(spare) => {
                memory.unit_free(spare.unit);
                Err(OutOfMemory)
            }
        }
    }

    /// Destroys it with all its mappings.
    pub fn destroy(self, memory: &mut Memory, tables: &mut Tables) {
        self.unmap(memory, tables, 0, 1 << 47);
        tables.remove(memory, self.root, ROOT);
        self.pool.into_iter().for_each(|pool| tables.pools.give(pool));
    }

    /// As [`Self::descend`], to the lowest level.
    #[inline]
    fn descend_leaf(&self, memory: &mut Memory, tables: &mut Tables, address: u64) -> Result<u32, OutOfMemory> {
        if let Some(leaf) = tables.cached_walk.leaf(self.root, address) {
            return Ok(leaf);
        }
        let leaf = self.descend(memory, tables, address, LEAF)?;
        tables.cached_walk = CachedWalk { root: self.root, block: address / span(LARGE_LEVEL), leaf: leaf + 1 };
        Ok(leaf)
    }

    /// Maps a page. The new mapping replaces an old one.
    pub fn map(
        &self,
        memory: &mut Memory,
        tables: &mut Tables,
        address: u64,
        frame: Frame,
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let flags = flags(perm, cache);
        if memory.is_large(frame) && self.shows(memory, tables, address, frame, flags) {
            return Ok(());
        }
        let leaf = self.descend_leaf(memory, tables, address)?;
        let before = memory.mapping_slots();
        let mapped = self.map_in(memory, tables, leaf, address, frame, flags);
        self.slots_since(memory, before);
        if mapped.is_err() {
            self.prune(memory, tables, address);
        }
        mapped
    }

    /// Accounts for the slots that were taken and freed since there were `before` of them.
    #[inline]
    fn slots_since(&self, memory: &Memory, before: u64) {
        let change = memory.mapping_slots().wrapping_sub(before);
        self.slots.update(|slots| slots.wrapping_add(change));
    }

    fn map_in(
        &self,
        memory: &mut Memory,
        tables: &mut Tables,
        leaf: u32,
        address: u64,
        frame: Frame,
        flags: u32,
    ) -> Result<(), OutOfMemory> {
        let i = index(address, LEAF);
        let old = tables.entry(leaf, i);
        let (write, attributes) = (flags & WRITE != 0, attributes(flags));
        if old != 0 {
            let slot = u64::from(old & !FLAGS);
            if memory.mapping_frame(slot) == frame {
                if old & FLAGS != flags {
                    sys::page_remap(slot, self.vspace, address, write, attributes).map_err(|_| OutOfMemory)?;
                    tables.set(leaf, i, slot as u32 | flags);
                }
                return Ok(());
            }
            memory.mapping_give(slot);
            tables.set(leaf, i, 0);
        }
        let slot = memory.map_one(frame, (self.vspace, address), write, attributes)?;
        tables.set(leaf, i, slot as u32 | flags);
        Ok(())
    }

    /// Maps pages at consecutive addresses. Where nothing is mapped, it maps as many as possible in one kernel call. On
    /// an error some of the first pages are mapped.
    pub fn map_run(
        &self,
        memory: &mut Memory,
        tables: &mut Tables,
        address: u64,
        frames: &[Frame],
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let flags = flags(perm, cache);
        let (mut rest, mut at) = (frames, address);
        while let Some(&first) = rest.first() {
            let (count, by) = memory.mappable(rest);
            let count = count.min((ENTRIES - index(at, LEAF)) as u32);
            let mapped =
                if count > 1 { self.map_at_once(memory, tables, at, first, (count, by), flags)? } else { None };
            let done = match mapped {
                Some(()) => count as usize,
                None => {
                    self.map(memory, tables, at, first, perm, cache)?;
                    1
                }
            };
            rest = rest.get(done..).unwrap_or_default();
            at += done as u64 * PAGE;
        }
        Ok(())
    }

    /// Maps pages with consecutive numbers in one kernel call. `None` if something else is mapped there, or the kernel
    /// cannot do it.
    fn map_at_once(
        &self,
        memory: &mut Memory,
        tables: &mut Tables,
        address: u64,
        first: Frame,
        (count, by): (u32, MappedBy),
        flags: u32,
    ) -> Result<Option<()>, OutOfMemory> {
        let leaf = self.descend_leaf(memory, tables, address)?;
        let entries = index(address, LEAF)..index(address, LEAF) + count as usize;
        if tables.any(leaf, entries.clone()) {
            return Ok(None);
        }
        let place = (self.vspace, address);
        match memory.map_several(first, (count, by), place, flags & WRITE != 0, attributes(flags)) {
            Some(Ok(slot)) => {
                tables.fill(leaf, entries, slot as u32 | flags);
                Ok(Some(()))
            }
            other => {
                self.prune(memory, tables, address);
                other.map_or(Ok(None), |mapped| mapped.map(|_| None))
            }
        }
    }

    /// See [`objects::AddressSpaces::written`](objects::machine::AddressSpaces::written).
    pub fn written(&self, memory: &Memory, tables: &Tables, address: u64, pages: u32) -> u64 {
        let mut written = 0;
        // A run of adjacent capabilities that have not been queried yet: index of the page, first slot, count.
        let mut run = (0, 0, 0);
        let mut leaf = None;
        for n in 0..pages {
            let at = address + u64::from(n) * PAGE;
            if n == 0 || index(at, LEAF) == 0 {
                leaf = self.leaf(tables, at);
            }
            let slot = leaf.map_or(0, |leaf| u64::from(tables.entry(leaf, index(at, LEAF)) & !FLAGS));
            if slot == 0 || !memory.stays(slot) {
                continue;
            }
            let (page, first, count) = run;
            if count != 0 && page + count == n && follows(first, count, slot) {
                run.2 += 1;
                continue;
            }
            if count != 0 {
                written |= memory.written(first, count) << page;
            }
            run = (n, slot, 1);
        }
        if run.2 != 0 { written | memory.written(run.1, run.2) << run.0 } else { written }
    }

    /// The lowest-level table for an address, if it exists.
    fn leaf(&self, tables: &Tables, address: u64) -> Option<u32> {
        let cached_walk = tables.cached_walk.leaf(self.root, address);
        if cached_walk.is_some() {
            return cached_walk;
        }
        let mut table = self.root;
        for level in (LEAF + 1..=ROOT).rev() {
            let below = tables.entry(table, index(address, level)).checked_sub(1)?;
            if below & LARGE != 0 {
                return None;
            }
            table = below;
        }
        Some(table)
    }

    /// Whether a large mapping already shows this page of a large page at this address with these flags.
    fn shows(&self, memory: &Memory, tables: &Tables, address: u64, frame: Frame, flags: u32) -> bool {
        let entry = self.large_entry(tables, address);
        let first = Frame(frame.0.wrapping_sub(index(address, LEAF) as u32));
        entry & FLAGS == flags | LARGE && memory.large_frame(u64::from(entry & !FLAGS)) == Some(first)
    }

    /// The entry for an address at the level of large pages; 0 if there is none.
    fn large_entry(&self, tables: &Tables, address: u64) -> u32 {
        let mut table = self.root;
        for level in (LARGE_LEVEL + 1..=ROOT).rev() {
            let Some(below) = tables.entry(table, index(address, level)).checked_sub(1) else { return 0 };
            table = below;
        }
        tables.entry(table, index(address, LARGE_LEVEL))
    }

    /// Maps a whole large page at an aligned address. The new mapping replaces old ones.
    pub fn map_large(
        &self,
        memory: &mut Memory,
        tables: &mut Tables,
        address: u64,
        first: Frame,
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let flags = flags(perm, cache) | LARGE;
        let (write, attributes) = (perm.write, attributes(flags));
        let old = self.large_entry(tables, address);
        if old & LARGE != 0 && memory.large_frame(u64::from(old & !FLAGS)) == Some(first) {
            let slot = u64::from(old & !FLAGS);
            if old & FLAGS == flags {
                return Ok(());
            }
            sys::page_remap(slot, self.vspace, address, write, attributes).map_err(|_| OutOfMemory)?;
            let table = self.descend(memory, tables, address, LARGE_LEVEL)?;
            tables.set(table, index(address, LARGE_LEVEL), slot as u32 | flags);
            return Ok(());
        }
        self.unmap(memory, tables, address, address + span(LARGE_LEVEL));
        let table = self.descend(memory, tables, address, LARGE_LEVEL)?;
        let before = memory.mapping_slots();
        let mapped = memory.large_take(first).and_then(|slot| {
            let mapped = sys::page_map(slot, self.vspace, address, write, attributes);
            mapped.map(|()| slot).map_err(|_| memory.large_give(slot)).map_err(|()| OutOfMemory)
        });
        self.slots_since(memory, before);
        match mapped {
            Ok(slot) => {
                tables.set(table, index(address, LARGE_LEVEL), slot as u32 | flags);
                Ok(())
            }
            Err(error) => {
                self.prune(memory, tables, address);
                Err(error)
            }
        }
    }

    /// The capability that maps the page at an address.
    pub fn mapping(&self, tables: &Tables, address: u64) -> Option<u64> {
        let leaf = self.leaf(tables, address)?;
        Some(u64::from(tables.entry(leaf, index(address, LEAF)) & !FLAGS)).filter(|slot| *slot != 0)
    }

    /// The table of a level for an address. Creates missing tables; ends a large mapping that is in the way.
    fn descend(&self, memory: &mut Memory, tables: &mut Tables, address: u64, lowest: u32) -> Result<u32, OutOfMemory> {
        let mut table = self.root;
        for level in (lowest + 1..=ROOT).rev() {
            let i = index(address, level);
            let mut below = tables.entry(table, i);
            if below & LARGE != 0 {
                let before = memory.mapping_slots();
                memory.large_give(u64::from(below & !FLAGS));
                self.slots_since(memory, before);
                tables.set(table, i, 0);
                below = 0;
            }
            table = if below != 0 {
                below - 1
            } else {
                match self.make(memory, tables, level - 1, address) {
                    Ok(new) => {
                        tables.set(table, i, new + 1);
                        new
                    }
                    Err(error) => {
                        self.prune(memory, tables, address);
                        return Err(error);
                    }
                }
            };
        }
        Ok(table)
    }

    fn make(&self, memory: &mut Memory, tables: &mut Tables, level: u32, address: u64) -> Result<u32, OutOfMemory> {
        let (object, map): (Object, sys::MapTable) = match level {
            LEAF => (Object::PageTable, sys::page_table_map),
            1 => (Object::PageDirectory, sys::page_directory_map),
            _ => (Object::Pdpt, sys::pdpt_map),
        };
        let spare = tables.spare(memory, level, object)?;
        let made = match map(memory.unit_slot(spare.unit), self.vspace, address) {
            Ok(()) => tables.add(spare).inspect(|_| self.tables.update(|tables| tables + 1)),
            Err(_) => Err(spare),
        };
        made.map_err(|spare| {
            memory.unit_free(spare.unit);
            OutOfMemory
        })
    }

    /// Frees the empty tables on the path to an address, from the lowest up.
    fn prune(&self, memory: &mut Memory, tables: &mut Tables, address: u64) {
        let mut path = [self.root; ROOT as usize + 1];
        let mut lowest = ROOT;
        while lowest > LEAF {
            let below = tables.entry(path[lowest as usize], index(address, lowest));
            if below == 0 || below & LARGE != 0 {
                break;
            }
            lowest -= 1;
            path[lowest as usize] = below - 1;
        }
        for level in lowest..ROOT {
            if !tables.empty(path[level as usize]) {
                return;
            }
            tables.set(path[level as usize + 1], index(address, level + 1), 0);
            tables.remove(memory, path[level as usize], level);
            self.tables.update(|tables| tables.saturating_sub(1));
        }
    }

    /// Fast check that nothing is mapped in a range: the range lies below one entry, and that entry is unused.
    fn shows_nothing(&self, tables: &Tables, start: u64, end: u64) -> bool {
        let mut table = self.root;
        for level in (LEAF + 1..=ROOT).rev() {
            let i = index(start, level);
            if (start ^ end.wrapping_sub(1)) >> (12 + 9 * level) != 0 {
                return false;
            }
            match tables.entry(table, i) {
                0 => return true,
                entry if entry & LARGE != 0 => return false,
                entry => table = entry - 1,
            }
        }
        tables.first(table, index(start, LEAF)..index(end - 1, LEAF) + 1).is_none()
    }

    /// Unmaps all pages from `start` (inclusive) to `end` (exclusive), both page-aligned.
    pub fn unmap(&self, memory: &mut Memory, tables: &mut Tables, start: u64, end: u64) {
        if self.shows_nothing(tables, start, end) {
            return;
        }
        self.unmap_some(memory, tables, start, end, u32::MAX);
    }

    /// Unmaps pages from `start` up to `end`, but with at most the cost of unmapping `most` pages. Returns where it
    /// stopped.
    pub fn unmap_some(&self, memory: &mut Memory, tables: &mut Tables, start: u64, end: u64, most: u32) -> u64 {
        let (before, slots) = (tables.len(), memory.mapping_slots());
        let mut left = most.max(1);
        let stop = unmap_below(memory, tables, self.root, ROOT, (start, end.min(1 << 47)), &mut left);
        self.slots_since(memory, slots);
        self.tables.update(|own| own.saturating_sub(before.saturating_sub(tables.len()) as u32));
        stop
    }

    /// An address up to which unmapping from `start` costs at most as much as unmapping `most` pages. It lies after
    /// `start` and at most at `end`; both are page-aligned.
    pub fn stretch(&self, tables: &Tables, start: u64, end: u64, most: u32) -> u64 {
        stretch_below(tables, self.root, ROOT, start, end.min(1 << 47), &mut most.max(1))
    }

    /// Bytes that it takes beyond its root: its tables, with their mirrors, and its slots.
    #[inline]
    pub fn bytes(&self, memory: &Memory) -> u64 {
        u64::from(self.tables.get()) * TABLE + self.slots.get() * memory.slot_price()
    }
}

impl Space {
    /// Removes permissions that are not in `within` from all pages from `start` (inclusive) to `end` (exclusive), both
    /// page-aligned.
    pub fn protect(&self, memory: &mut Memory, tables: &mut Tables, (start, end): (u64, u64), within: Perm) {
        let mut failed = false;
        let takes = FLAGS & !LARGE & !CACHE & !flags(within, Cache::Cached);
        self.protect_below(memory, tables, (self.root, ROOT), (start, end.min(1 << 47)), takes, &mut failed);
        if failed {
            // A page whose mapping cannot be changed is unmapped; a fault maps it again.
            self.unmap(memory, tables, start, end);
        }
    }

    /// As [`unmap_below`]. Sets `failed` if a page kept its permissions.
    fn protect_below(
        &self,
        memory: &Memory,
        tables: &mut Tables,
        (table, level): (u32, u32),
        (start, end): (u64, u64),
        takes: u32,
        failed: &mut bool,
    ) {
        let mut parts = EntriesInRange::of(level, start, end);
        while let Some((i, from, to)) = parts.next(tables, table) {
            let entry = tables.entry(table, i);
            if level != LEAF && entry & LARGE == 0 {
                self.protect_below(memory, tables, (entry - 1, level - 1), (from, to), takes, failed);
            } else if entry & takes != 0 {
                // A large page changes as a whole.
                let slot = u64::from(entry & !FLAGS);
                if entry & LARGE != 0 && memory.large_frame(slot).is_none() {
                    *failed = true;
                    continue;
                }
                let address = from & !(span(level) - 1);
                let left = entry & !takes;
                match sys::page_remap(slot, self.vspace, address, left & WRITE != 0, attributes(left)) {
                    Ok(()) => tables.set(table, i, left),
                    Err(_) => *failed = true,
                }
            }
        }
    }
}

/// Iterator over the used entries of a table in a range, with the part of the range below each.
struct EntriesInRange {
    level: u32,
    /// The address of the table's first entry.
    origin: u64,
    from: u64,
    end: u64,
}

impl EntriesInRange {
    /// For a range that is not empty and lies within one table of the level.
    fn of(level: u32, from: u64, end: u64) -> EntriesInRange {
        EntriesInRange { level, origin: from & !(span(level + 1) - 1), from, end }
    }

    /// The next used entry, and the part of the range below it.
    fn next(&mut self, tables: &Tables, table: u32) -> Option<(usize, u64, u64)> {
        if self.from >= self.end {
            return None;
        }
        let last = index(self.end - 1, self.level);
        let i = tables.first(table, index(self.from, self.level)..last + 1)?;
        let start = self.origin + i as u64 * span(self.level);
        let part = (i, self.from.max(start), self.end.min(start + span(self.level)));
        self.from = part.2;
        Some(part)
    }
}

/// Whether a slot extends a run of adjacent slots in one leaf that is short enough for one kernel call.
fn follows(first: u64, count: u32, slot: u64) -> bool {
    let (leaf, count) = (first >> LEAF_BITS, u64::from(count));
    first + count == slot && slot >> LEAF_BITS == leaf && count < sys::AT_ONCE
}

/// [`Space::stretch`] for the subtree below `table`, in the order of [`unmap_below`]. `left` is the remaining cost.
fn stretch_below(tables: &Tables, table: u32, level: u32, start: u64, end: u64, left: &mut u32) -> u64 {
    let mut parts = EntriesInRange::of(level, start, end);
    while let Some((i, from, to)) = parts.next(tables, table) {
        let entry = tables.entry(table, i);
        let mut at = to;
        if level != LEAF && entry & LARGE == 0 {
            *left = left.saturating_sub(TABLE_WORK).max(1);
            at = stretch_below(tables, entry - 1, level - 1, from, to, left);
        } else {
            *left = left.saturating_sub(1);
        }
        if *left == 0 {
            return at;
        }
    }
    end
}

/// Unmaps in the subtree below `table`, which covers the range. The recursion is as deep as the tree. Stops when the
/// cost `left` is used up, and returns where.
fn unmap_below(
    memory: &mut Memory,
    tables: &mut Tables,
    table: u32,
    level: u32,
    (start, end): (u64, u64),
    left: &mut u32,
) -> u64 {
    // A run of adjacent capabilities to unmap in one kernel call: first slot, and count.
    let mut run = (0, 0);
    let mut stop = end;
    let mut parts = EntriesInRange::of(level, start, end);
    while let Some((i, from, to)) = parts.next(tables, table) {
        let entry = tables.entry(table, i);
        let slot = u64::from(entry & !FLAGS);
        if level != LEAF && entry & LARGE == 0 {
            let at = unmap_below(memory, tables, entry - 1, level - 1, (from, to), left);
            if tables.empty(entry - 1) {
                tables.set(table, i, 0);
                tables.remove(memory, entry - 1, level - 1);
                *left = left.saturating_sub(TABLE_WORK);
            }
            if *left == 0 {
                stop = at;
                break;
            }
            continue;
        }
        tables.set(table, i, 0);
        let (first, count) = run;
        if level != LEAF {
            memory.large_give(slot);
        } else if !memory.stays(slot) {
            memory.mapping_give(slot);
        } else if count != 0 && follows(first, count, slot) {
            run = (first, count + 1);
        } else {
            memory.mappings_give(first, count);
            run = (slot, 1);
        }
        *left = left.saturating_sub(1);
        if *left == 0 {
            stop = to;
            break;
        }
    }
    memory.mappings_give(run.0, run.1);
    stop
}
