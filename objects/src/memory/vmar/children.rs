//! The children of a VMAR by address, mappings and VMARs, and the gaps between them.
//!
//! They form a binary search tree by address. Each node has a random *rank*, and no node has a higher rank than its
//! parent (a *treap*): whatever the order of insertions and removals, the tree is as deep as one that was filled in
//! random order, about twice the logarithm of the number of children. Keeping it so takes a few steps at the point of
//! an insertion or removal and none on the way back up, so only a failed search returns up the tree.
//!
//! A missing child of a node stands for a *gap* between two neighbours in address order. Each node has an upper bound
//! for the gaps below it:
//!
//! 1. An insertion only makes gaps narrower, so the bounds above it stay valid.
//! 2. A removal merges the removed range and the gaps beside it, so the bounds of all nodes above the gap are raised to
//!    its width.
//! 3. A search skips subtrees whose bound is too small. Where it searched a subtree and found nothing, it lowers the
//!    bound to what the children's bounds say.
//!
//! So a search costs O(log n) plus repairs: each change leaves at most one path of bounds that are too high, and a
//! search visits each of them in vain only once.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Vmar;
use crate::containers::growth::Grows;
use crate::core::object::Id;
use crate::machine::{Machine, PAGE};
use crate::memory::aspace::Mapping;

/// An occupied part of a VMAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child {
    /// A VMAR with its start and end address.
    Vmar(Id<Vmar>, u64, u64),
    Mapping(Mapping),
}

impl Child {
    pub fn base(&self) -> u64 {
        match self {
            Child::Vmar(_, base, _) => *base,
            Child::Mapping(mapping) => mapping.base,
        }
    }

    pub fn end(&self) -> u64 {
        match self {
            Child::Vmar(_, _, end) => *end,
            Child::Mapping(mapping) => mapping.end(),
        }
    }
}

type Link = Option<Box<Node>>;

pub(crate) struct Node {
    base: u64,
    end: u64,
    left: Link,
    right: Link,
    /// Upper bound of the gaps below.
    widest: u64,
    rank: u32,
    child: Child,
}

impl Node {
    /// The side of an address; narrows `bounds` to that side.
    #[inline]
    fn side(&mut self, address: u64, bounds: &mut (u64, u64)) -> &mut Link {
        if address < self.base {
            bounds.1 = self.base;
            &mut self.left
        } else {
            bounds.0 = self.end;
            &mut self.right
        }
    }
}

/// The bound of a side; `gap` is the width of its gap if it is empty.
fn widest(link: &Link, gap: u64) -> u64 {
    link.as_ref().map_or(gap, |node| node.widest)
}

/// Puts a node into an empty link: there is nothing to drop.
#[inline(always)]
fn put(link: &mut Link, node: Box<Node>) -> Option<&mut Box<Node>> {
    core::mem::forget(link.replace(node));
    link.as_mut()
}

/// Allocator of nodes: random ranks, and free nodes for reuse.
#[derive(Default)]
pub(crate) struct Nodes {
    /// State of the generator of ranks; 0 before the first.
    random: u64,
    // Boxed, as they move between trees.
    #[expect(clippy::vec_box)]
    spare: Vec<Box<Node>>,
}

impl Nodes {
    /// Maximum number of free nodes.
    const SPARE: usize = 16;

    /// A rank: a number that programs can neither see nor predict, from a fast generator (Marsaglia's xorshift).
    #[inline]
    fn rank(&mut self, machine: &mut impl Machine) -> u32 {
        if self.random == 0 {
            let mut seed = [0; 8];
            machine.random(&mut seed);
            self.random = u64::from_le_bytes(seed) | 1;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u32
    }

    /// Creates a node that is in no tree.
    #[inline(always)]
    pub fn make(&mut self, machine: &mut impl Machine, child: Child) -> Box<Node> {
        let (base, end, rank) = (child.base(), child.end(), self.rank(machine));
        match self.spare.pop() {
            Some(mut node) => {
                (node.base, node.end, node.rank, node.child) = (base, end, rank, child);
                node
            }
            None => Box::new(Node { base, end, left: None, right: None, widest: 0, rank, child }),
        }
    }

    /// Frees a node.
    #[inline]
    fn keep(&mut self, node: Box<Node>) {
        if self.spare.len() < Self::SPARE && self.spare.room(1).is_ok() {
            self.spare.push(node);
        }
    }
}

/// The children of a VMAR; see the module's description.
pub(crate) struct Children {
    root: Link,
    start: u64,
    end: u64,
}

/// The surroundings of an address.
pub(crate) struct Surroundings<'a> {
    /// The child that the address is in.
    pub child: Option<&'a Child>,
    /// The end of the previous neighbour of that child, or of the address, and the start of the next one.
    pub room: (u64, u64),
}

/// Parameters of a search for free addresses.
#[derive(Clone, Copy)]
pub(crate) struct FreeRangeSearch {
    /// Length in bytes, whole pages.
    pub len: u64,
    /// Alignment: a power of two, at least a page.
    pub align: u64,
    /// The lowest address.
    pub from: u64,
    /// The highest end.
    pub limit: u64,
}

impl FreeRangeSearch {
    /// The lowest fitting address in a gap.
    fn lowest_in(&self, start: u64, end: u64) -> Option<u64> {
        let at = start.max(self.from).checked_next_multiple_of(self.align)?;
        (at.checked_add(self.len)? <= end.min(self.limit)).then_some(at)
    }

    /// The lowest fitting address and the end of its gap, among the gaps of a subtree that are at least `wide`. The
    /// subtree's neighbours end at `start` and begin at `end`. Recursion depth is the depth of the tree.
    fn search(&self, link: &mut Link, start: u64, end: u64, wide: u64) -> Option<(u64, u64)> {
        let Some(node) = link else { return self.lowest_in(start, end).map(|at| (at, end)) };
        if node.widest < wide || end <= self.from || start >= self.limit {
            return None;
        }
        let (base, past) = (node.base, node.end);
        let found = self.search(&mut node.left, start, base, wide);
        let found = found.or_else(|| self.search(&mut node.right, past, end, wide));
        if found.is_none() {
            node.widest = widest(&node.left, base - start).max(widest(&node.right, end - past));
        }
        found
    }
}

impl Children {
    /// No children of a VMAR from `start` to `end`.
    pub fn new(start: u64, end: u64) -> Self {
        Children { root: None, start, end }
    }

    /// Inserts a child, in a node from [`Nodes::make`]. Its range must be free.
    pub fn insert(&mut self, mut new: Box<Node>) {
        let (base, rank) = (new.base, new.rank);
        let mut bounds = (self.start, self.end);
        let mut link = &mut self.root;
        while link.as_ref().is_some_and(|node| node.rank >= rank) {
            let Some(node) = link else { return };
            link = node.side(base, &mut bounds);
        }
        // It replaces the first node of lower rank, whose subtree is split into the parts on either side.
        let mut rest = link.take();
        let above = rest.as_ref().map_or(0, |node| node.widest);
        let (mut low, mut high) = (&mut new.left, &mut new.right);
        while let Some(mut node) = rest {
            if base < node.base {
                bounds.1 = node.base;
                rest = node.left.take();
                let Some(node) = put(high, node) else { return };
                high = &mut node.left;
            } else {
                bounds.0 = node.end;
                rest = node.right.take();
                let Some(node) = put(low, node) else { return };
                low = &mut node.right;
            }
        }
        debug_assert!(bounds.0 <= base && new.end <= bounds.1, "two children of a VMAR overlap");
        new.widest = above.max(base.saturating_sub(bounds.0)).max(bounds.1.saturating_sub(new.end));
        put(link, new);
    }

    /// Removes the child that begins at an address.
    pub fn remove(&mut self, nodes: &mut Nodes, base: u64) -> Option<Child> {
        self.remove_if(nodes, base, |_| true)
    }

    /// Removes the child that begins at an address, if it satisfies a condition.
    #[inline]
    pub fn remove_if(&mut self, nodes: &mut Nodes, base: u64, is: impl FnOnce(&Child) -> bool) -> Option<Child> {
        let around = self.around(base);
        around.child.filter(|child| child.base() == base && is(child))?;
        let gap = around.room.1.saturating_sub(around.room.0);
        self.take_out(nodes, base, gap)
    }

    /// Removes the child that begins at an address, which leaves a gap of width `gap`.
    fn take_out(&mut self, nodes: &mut Nodes, base: u64, gap: u64) -> Option<Child> {
        let mut link = &mut self.root;
        loop {
            let node = link.as_mut()?;
            node.widest = node.widest.max(gap);
            if node.base == base {
                break;
            }
            link = if base < node.base { &mut link.as_mut()?.left } else { &mut link.as_mut()?.right };
        }
        let mut gone = link.take()?;
        let (mut left, mut right, child) = (gone.left.take(), gone.right.take(), gone.child);
        nodes.keep(gone);
        // Merges its two subtrees: the root of higher rank goes on top, with the other subtree's gaps below it.
        while let (Some(low), Some(high)) = (&mut left, &mut right) {
            let widest = low.widest.max(high.widest).max(gap);
            if low.rank >= high.rank {
                low.widest = widest;
                let rest = low.right.take();
                let low = core::mem::replace(&mut left, rest)?;
                link = &mut put(link, low)?.right;
            } else {
                high.widest = widest;
                let rest = high.left.take();
                let high = core::mem::replace(&mut right, rest)?;
                link = &mut put(link, high)?.left;
            }
        }
        // The gap is at the inner edge of the remaining subtree.
        let from_left = left.is_some();
        if let Some(rest) = left.or(right) {
            put(link, rest);
        }
        while let Some(node) = link {
            node.widest = node.widest.max(gap);
            link = if from_left { &mut node.right } else { &mut node.left };
        }
        Some(child)
    }

    /// Removes any child.
    pub fn pop(&mut self, nodes: &mut Nodes) -> Option<Child> {
        let base = self.root.as_ref()?.base;
        self.remove(nodes, base)
    }

    /// The child that an address is in.
    #[inline]
    pub fn at(&self, address: u64) -> Option<&Child> {
        let mut link = &self.root;
        while let Some(node) = link {
            if address < node.base {
                link = &node.left;
            } else if address < node.end {
                return Some(&node.child);
            } else {
                link = &node.right;
            }
        }
        None
    }

    /// The mapping that an address is in, mutable; its range must not change.
    pub fn mapping_mut(&mut self, address: u64) -> Option<&mut Mapping> {
        let mut link = &mut self.root;
        while let Some(node) = link {
            if address < node.base {
                link = &mut node.left;
            } else if address >= node.end {
                link = &mut node.right;
            } else if let Child::Mapping(mapping) = &mut node.child {
                return Some(mapping);
            } else {
                return None;
            }
        }
        None
    }

    /// The child at an address, and the room around it.
    pub fn around(&self, address: u64) -> Surroundings<'_> {
        let (mut low, mut high) = (self.start, self.end);
        let mut link = &self.root;
        while let Some(node) = link {
            if address < node.base {
                high = node.base;
                link = &node.left;
            } else if address >= node.end {
                low = node.end;
                link = &node.right;
            } else {
                let mut side = &node.left;
                while let Some(near) = side {
                    low = near.end;
                    side = &near.right;
                }
                let mut side = &node.right;
                while let Some(near) = side {
                    high = near.base;
                    side = &near.left;
                }
                return Surroundings { child: Some(&node.child), room: (low, high) };
            }
        }
        Surroundings { child: None, room: (low, high) }
    }

    /// The first child that begins at or above an address.
    pub fn from(&self, address: u64) -> Option<&Child> {
        let (mut link, mut best) = (&self.root, None);
        while let Some(node) = link {
            if node.base >= address {
                best = Some(&node.child);
                link = &node.left;
            } else {
                link = &node.right;
            }
        }
        best
    }

    /// All children, by address.
    #[cfg(any(test, feature = "fake"))]
    pub fn all(&self) -> impl Iterator<Item = Child> + '_ {
        core::iter::successors(self.from(0), |child| self.from(child.base() + 1)).copied()
    }

    /// Whether a range is free.
    pub fn is_free(&self, base: u64, len: u64) -> bool {
        let around = self.around(base);
        around.child.is_none() && around.room.1.saturating_sub(base) >= len
    }

    /// The lowest fitting address for a request, and the end of its gap.
    pub fn first_fit(&mut self, room: &FreeRangeSearch) -> Option<(u64, u64)> {
        // All addresses are page-aligned. A gap that is wider by the rest of the alignment fits for sure, so the first
        // search never backtracks. Only if there is none, the second search tries every gap that may fit.
        let sure = room.len.checked_add(room.align - room.align.min(PAGE))?;
        let found = room.search(&mut self.root, self.start, self.end, sure);
        found.or_else(|| room.search(&mut self.root, self.start, self.end, room.len))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use crate::core::object::ObjectId;
    use proptest::prelude::*;

    const END: u64 = 1010;

    fn child(base: u64, len: u64) -> Child {
        Child::Vmar(Id::new(ObjectId::FIRST), base * PAGE, (base + len) * PAGE)
    }

    fn node(base: u64, len: u64, rank: u32) -> Box<Node> {
        let (child, end) = (child(base, len), (base + len) * PAGE);
        Box::new(Node { base: base * PAGE, end, left: None, right: None, widest: 0, rank, child })
    }

    fn pages(child: &Child) -> (u64, u64) {
        (child.base() / PAGE, (child.end() - child.base()) / PAGE)
    }

    /// Checks a subtree's invariants; returns its widest gap and its height.
    fn check(link: &Link, start: u64, end: u64, rank: u32) -> (u64, u32) {
        let Some(node) = link else { return (end - start, 0) };
        assert!(node.rank <= rank && start <= node.base && node.base < node.end && node.end <= end);
        assert_eq!((node.base, node.end), (node.child.base(), node.child.end()));
        let left = check(&node.left, start, node.base, node.rank);
        let right = check(&node.right, node.end, end, node.rank);
        let widest = left.0.max(right.0);
        assert!(node.widest >= widest && node.widest <= END * PAGE);
        (widest, left.1.max(right.1) + 1)
    }

    fn gaps(model: &BTreeMap<u64, u64>, start: u64, end: u64) -> Vec<(u64, u64)> {
        let ends = core::iter::once(start).chain(model.iter().map(|(at, len)| at + len));
        ends.zip(model.keys().copied().chain([end])).collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(
            ops in proptest::collection::vec((0..1000_u64, 1..9_u64, 0..4_u32, 0..1000_u64, any::<u32>()), 0..300),
        ) {
            let (mut tree, mut model) = (Children::new(0, END * PAGE), BTreeMap::new());
            let mut nodes = Nodes::default();
            for (base, len, power, bound, rank) in ops {
                let near = model.range(..base + len).next_back().map(|(&at, &len)| (at, len));
                let free = near.is_none_or(|(at, len)| at + len <= base);
                prop_assert_eq!(tree.is_free(base * PAGE, len * PAGE), free);
                if free {
                    tree.insert(node(base, len, rank));
                    model.insert(base, len);
                } else if len > 4 {
                    let (at, len) = near.unwrap();
                    prop_assert_eq!(tree.remove(&mut nodes, at * PAGE), Some(child(at, len)));
                    model.remove(&at);
                    prop_assert_eq!(tree.remove(&mut nodes, at * PAGE), None);
                }
                check(&tree.root, 0, END * PAGE, u32::MAX);
                let from = model.range(base..).next().map(|(&at, &len)| (at, len));
                prop_assert_eq!(tree.from(base * PAGE).map(pages), from);
                let low = model.range(..=base).next_back().map(|(&at, &len)| (at, len));
                let at = low.filter(|(at, len)| base < at + len);
                prop_assert_eq!(tree.at(base * PAGE).map(pages), at);
                let around = tree.around(base * PAGE);
                prop_assert_eq!(around.child.map(pages), at);
                let before = model.range(..at.map_or(base, |(at, _)| at)).next_back().map_or(0, |(at, len)| at + len);
                let after = model.range(base + 1..).next().map_or(END, |(&at, _)| at);
                prop_assert_eq!(around.room, (before * PAGE, after * PAGE));
                prop_assert!(tree.all().map(|child| pages(&child)).eq(model.iter().map(|(&at, &len)| (at, len))));
                let room = FreeRangeSearch {
                    len: len * PAGE,
                    align: PAGE << power,
                    from: base.min(bound) * PAGE,
                    limit: base.max(bound) * PAGE,
                };
                let expected = gaps(&model, 0, END).into_iter().find_map(|(s, e)| room.lowest_in(s * PAGE, e * PAGE));
                // The lowest of the gaps that fit for sure, or else of all.
                let found = tree.first_fit(&room);
                check(&tree.root, 0, END * PAGE, u32::MAX);
                prop_assert_eq!(found.map(drop), expected.map(drop));
                if let Some((at, end)) = found {
                    prop_assert!(at % room.align == 0 && at >= room.from && at + room.len <= room.limit.min(end));
                    prop_assert!(tree.is_free(at, end - at));
                    prop_assert!(power > 0 || Some(at) == expected);
                }
            }
            while let Some(child) = tree.pop(&mut nodes) {
                prop_assert!(child.end() > child.base());
                check(&tree.root, 0, END * PAGE, u32::MAX);
            }
        }
    }

    /// A search that looked everywhere and found nothing does not repeat that.
    #[test]
    fn bounds_are_set_right_by_the_search() {
        let mut tree = Children::new(0, END * PAGE);
        let ranks = || (0..500_u32).map(|n| n.wrapping_mul(0x9e37_79b9));
        ranks().zip(0..).for_each(|(rank, n)| tree.insert(node(2 * n, 1, rank)));
        tree.insert(node(1000, 10, 5));
        let (widest, height) = check(&tree.root, 0, END * PAGE, u32::MAX);
        assert_eq!(widest, PAGE);
        assert!(height < 40);
        let room = FreeRangeSearch { len: 2 * PAGE, align: PAGE, from: 0, limit: END * PAGE };
        assert_eq!(tree.first_fit(&room), None);
        assert_eq!(tree.root.as_ref().map(|node| node.widest), Some(PAGE));
        tree.remove(&mut Nodes::default(), 500 * PAGE);
        assert_eq!(tree.first_fit(&room), Some((499 * PAGE, 502 * PAGE)));
    }
}
