//! Resources: the right to use ranges of addresses, I/O ports, interrupts and so on.
//!
//! A resource is a range of a kind. The root resource covers every kind. A resource can be exclusive: then no other one
//! may overlap it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use abi::{Signals, Status, ZX_RSRC_FLAG_EXCLUSIVE, ZX_RSRC_KIND_ROOT};

use crate::containers::name::Name;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

/// A resource.
pub struct Resource {
    /// `ZX_RSRC_KIND_*`.
    pub kind: u32,
    /// `ZX_RSRC_FLAG_*`.
    pub flags: u32,
    /// Start of the range.
    pub base: u64,
    /// Length of the range; 0 for the root resource, which has no range.
    pub size: u64,
    /// Its name.
    pub name: Name,
}

impl Noun for Resource {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_RESOURCE;

    fn name(&self) -> Option<Name> {
        Some(self.name)
    }
}

impl ObjectOps for Resource {
    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.ranges.remove(&self);
    }
}

/// The allocated ranges. Queries cost O(log n).
#[derive(Default)]
pub struct RangeBook {
    /// Exclusive ranges: kind and start, to end. No two of them overlap.
    exclusive: BTreeMap<(u32, u64), u64>,
    /// Starts of the others,
    starts: Tally,
    /// and their ends.
    ends: Tally,
}

impl RangeBook {
    /// Whether a range overlaps an exclusive range, or any range if it is to be exclusive itself.
    fn clashes(&self, kind: u32, base: u64, end: u64, exclusive: bool) -> bool {
        let before = self.exclusive.range((kind, 0)..(kind, end)).next_back();
        if before.is_some_and(|(_, &theirs)| base < theirs) {
            return true;
        }
        // Of the ranges that start before its end, all overlap except those that end at or before its start.
        exclusive && self.starts.below(kind, end) > self.ends.below(kind, base.saturating_add(1))
    }

    fn add(&mut self, resource: &Resource) {
        let Resource { kind, base, size, .. } = *resource;
        if size == 0 {
            // The root resource covers everything, and allocates nothing.
        } else if resource.is_exclusive() {
            self.exclusive.insert((kind, base), base.saturating_add(size));
        } else {
            self.starts.add(kind, base);
            self.ends.add(kind, base.saturating_add(size));
        }
    }

    fn remove(&mut self, resource: &Resource) {
        let Resource { kind, base, size, .. } = *resource;
        if size == 0 {
            // As in `add`.
        } else if resource.is_exclusive() {
            self.exclusive.remove(&(kind, base));
        } else {
            self.starts.remove(kind, base);
            self.ends.remove(kind, base.saturating_add(size));
        }
    }
}

/// A multiset of numbers per kind that can count those below a limit. Numbers are counted by their first hexadecimal
/// digit, by their first two, and so on.
#[derive(Default)]
struct Tally {
    /// Kind, number of leading digits, and those digits, to the number of entries.
    counts: BTreeMap<(u32, u32, u64), u64>,
}

impl Tally {
    const DIGITS: u32 = u64::BITS / 4;

    fn prefixes(number: u64) -> impl Iterator<Item = (u32, u64)> {
        (1..=Self::DIGITS).map(move |digits| (digits, number >> (4 * (Self::DIGITS - digits))))
    }

    fn add(&mut self, kind: u32, number: u64) {
        for (digits, prefix) in Self::prefixes(number) {
            *self.counts.entry((kind, digits, prefix)).or_default() += 1;
        }
    }

    fn remove(&mut self, kind: u32, number: u64) {
        for (digits, prefix) in Self::prefixes(number) {
            if let Entry::Occupied(mut count) = self.counts.entry((kind, digits, prefix)) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    fn below(&self, kind: u32, limit: u64) -> u64 {
        // A number is below the limit if its digit is smaller where they first differ.
        let siblings = |(digits, prefix): (u32, u64)| {
            self.counts
                .range((kind, digits, prefix & !0xf)..(kind, digits, prefix))
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        Self::prefixes(limit).map(siblings).sum()
    }
}

impl Resource {
    /// Whether it covers a range of a kind.
    pub fn covers(&self, kind: u32, base: u64, size: u64) -> bool {
        if self.kind == ZX_RSRC_KIND_ROOT {
            return true;
        }
        let Some(offset) = base.checked_sub(self.base) else { return false };
        self.kind == kind && self.size.checked_sub(offset).is_some_and(|left| size <= left)
    }

    /// [`Resource::covers`] for memory that is to be mapped: a part of a page counts as the whole page.
    pub fn covers_pages(&self, kind: u32, base: u64, size: u64) -> bool {
        let first = self.base & !(PAGE - 1);
        // A range that ends with the last page has no representable end.
        let end = self.base.saturating_add(self.size).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        if self.kind == ZX_RSRC_KIND_ROOT {
            return true;
        }
        self.kind == kind && base >= first && base.checked_add(size).is_some_and(|last| last <= end)
    }

    /// Whether no other resource may overlap it.
    pub fn is_exclusive(&self) -> bool {
        self.flags & ZX_RSRC_FLAG_EXCLUSIVE != 0
    }
}

impl<M: Machine> Kernel<M> {
    /// Creates the root resource.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn resource_root(&mut self) -> Result<Id<Resource>, Status> {
        let root = Resource { kind: ZX_RSRC_KIND_ROOT, flags: 0, base: 0, size: 0, name: Name::new(b"root") };
        self.create(Signals::NONE, Box::new(root))
    }

    /// `resource_create`: creates a resource from another one.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: not within the parent. `INVALID_ARGS`: invalid range, or the parent is not the root and one of
    /// the two is exclusive. `NOT_FOUND`: it overlaps an exclusive one, or is to be exclusive and overlaps any.
    /// `NO_MEMORY`.
    pub fn resource_create(&mut self, parent: Id<Resource>, resource: Resource) -> Result<Id<Resource>, Status> {
        let p = self.objects.get(parent)?;
        let end = resource.base.checked_add(resource.size).ok_or(Status::INVALID_ARGS)?;
        if !p.covers(resource.kind, resource.base, resource.size) {
            return Err(Status::ACCESS_DENIED);
        }
        let of_root = p.kind == ZX_RSRC_KIND_ROOT;
        // An exclusive range cannot be divided, and cannot be taken from a shared one.
        if !of_root && (p.is_exclusive() || resource.is_exclusive()) {
            return Err(Status::INVALID_ARGS);
        }
        // The root resource has no range; all others have one.
        let whole = resource.kind == ZX_RSRC_KIND_ROOT;
        if whole && (resource.base != 0 || resource.size != 0) || !whole && resource.size == 0 {
            return Err(Status::INVALID_ARGS);
        }
        if self.ranges.clashes(resource.kind, resource.base, end, resource.is_exclusive()) {
            return Err(Status::NOT_FOUND);
        }
        let id: Id<Resource> = self.create(Signals::NONE, Box::new(resource))?;
        if let Ok(resource) = self.objects.get(id) {
            self.ranges.add(resource);
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use abi::{ZX_RSRC_KIND_IRQ, ZX_RSRC_KIND_MMIO};
    use proptest::prelude::*;

    use super::*;

    fn resource(kind: u32, flags: u32, base: u64, size: u64) -> Resource {
        Resource { kind, flags, base, size, name: Name::default() }
    }

    #[test]
    fn a_part_of_a_page_is_the_page() {
        let covers = |base, size, wanted: (u64, u64)| {
            resource(ZX_RSRC_KIND_MMIO, 0, base, size).covers_pages(ZX_RSRC_KIND_MMIO, wanted.0, wanted.1)
        };
        assert!(covers(0x7800, 0x2000, (0x7000, 0x3000)) && covers(0x7800, 1, (0x7000, 0x1000)));
        assert!(!covers(0x7800, 0x2000, (0x7000, 0x4000)) && !covers(0x7800, 0x2000, (0x6000, 0x1000)));
        assert!(!covers(0x7800, 0x800, (0x8000, 0x1000)) && !covers(0x7000, 0x1000, (0x7000, u64::MAX)));
        assert!(covers(u64::MAX - 10, 10, (u64::MAX - 0xfff, 0xfff)));
        assert!(!resource(ZX_RSRC_KIND_IRQ, 0, 0, 0x1000).covers_pages(ZX_RSRC_KIND_MMIO, 0, 0x1000));
    }

    #[test]
    fn the_last_numbers_count_as_well() {
        let mut book = RangeBook::default();
        let last = resource(ZX_RSRC_KIND_MMIO, 0, u64::MAX - 1, 1);
        book.add(&last);
        assert!(book.clashes(ZX_RSRC_KIND_MMIO, u64::MAX - 1, u64::MAX, true));
        assert!(!book.clashes(ZX_RSRC_KIND_MMIO, u64::MAX - 2, u64::MAX - 1, true));
        book.remove(&last);
        assert!(book.starts.counts.is_empty() && book.ends.counts.is_empty());
    }

    proptest! {
        /// The allocated ranges answer as a scan of all resources would.
        #[test]
        fn clashes_are_those_of_a_list(
            steps in prop::collection::vec((any::<bool>(), 0_u64..64, 1_u64..16, any::<bool>(), any::<u8>()), 1..80),
            shift in 0_u32..56,
        ) {
            let mut book = RangeBook::default();
            let mut list: Vec<Resource> = Vec::new();
            for (irq, base, size, exclusive, which) in steps {
                let kind = if irq { ZX_RSRC_KIND_IRQ } else { ZX_RSRC_KIND_MMIO };
                let flags = if exclusive { ZX_RSRC_FLAG_EXCLUSIVE } else { 0 };
                let new = resource(kind, flags, base << shift, size << shift);
                let end = new.base + new.size;
                let clash = list.iter().any(|other| {
                    other.kind == kind
                        && (exclusive || other.is_exclusive())
                        && other.base < end
                        && new.base < other.base + other.size
                });
                prop_assert_eq!(book.clashes(kind, new.base, end, exclusive), clash);
                if !clash {
                    book.add(&new);
                    list.push(new);
                } else if let Some(place) = (which as usize).checked_rem(list.len()) {
                    book.remove(&list.swap_remove(place));
                }
            }
            list.iter().for_each(|resource| book.remove(resource));
            prop_assert!(book.exclusive.is_empty() && book.starts.counts.is_empty() && book.ends.counts.is_empty());
        }
    }
}
