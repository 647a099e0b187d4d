//! The children of a VMAR by address, and the room between them.
//!
//! A balanced tree (AVL) in which each node also knows the reach of its subtree and the widest gap within it. So a child is
//! found, put in and taken out in O(log n), and so is the lowest gap that is wide enough. The recursion is as deep as the
//! tree, which is at most 1.44 times the logarithm of the number of children.

use alloc::boxed::Box;

use super::Vmar;
use crate::machine::PAGE;
use crate::object::Id;

/// A part of a VMAR that is taken, with its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child {
    Vmar(Id<Vmar>, u64),
    Mapping(u64),
}

impl Child {
    pub fn len(self) -> u64 {
        match self {
            Child::Vmar(_, len) | Child::Mapping(len) => len,
        }
    }
}

type Link = Option<Box<Node>>;

struct Node {
    base: u64,
    child: Child,
    left: Link,
    right: Link,
    height: u8,
    /// Start and end of the subtree.
    first: u64,
    last: u64,
    /// The widest gap between two neighbours in the subtree.
    gap: u64,
}

fn height(link: &Link) -> u8 {
    link.as_ref().map_or(0, |node| node.height)
}

impl Node {
    fn end(&self) -> u64 {
        self.base.saturating_add(self.child.len())
    }

    /// What the node knows of its subtree, when that has changed.
    fn sum_up(&mut self) {
        let end = self.end();
        (self.first, self.last, self.gap) = (self.base, end, 0);
        if let Some(left) = &self.left {
            self.first = left.first;
            self.gap = left.gap.max(self.base.saturating_sub(left.last));
        }
        if let Some(right) = &self.right {
            self.last = right.last;
            self.gap = self.gap.max(right.gap).max(right.first.saturating_sub(end));
        }
        self.height = height(&self.left).max(height(&self.right)).saturating_add(1);
    }

    /// How much higher the left side is.
    fn slant(&self) -> i16 {
        i16::from(height(&self.left)) - i16::from(height(&self.right))
    }

    fn rotate_right(mut self: Box<Self>) -> Box<Self> {
        let Some(mut top) = self.left.take() else { return self };
        self.left = top.right.take();
        self.sum_up();
        top.right = Some(self);
        top.sum_up();
        top
    }

    fn rotate_left(mut self: Box<Self>) -> Box<Self> {
        let Some(mut top) = self.right.take() else { return self };
        self.right = top.left.take();
        self.sum_up();
        top.left = Some(self);
        top.sum_up();
        top
    }

    /// The subtree, balanced again after one of its sides has changed by one in height.
    fn balanced(mut self: Box<Self>) -> Box<Self> {
        match self.slant() {
            2.. => {
                self.left = self.left.take().map(|left| if left.slant() < 0 { left.rotate_left() } else { left });
                self.rotate_right()
            }
            ..=-2 => {
                self.right =
                    self.right.take().map(|right| if right.slant() > 0 { right.rotate_right() } else { right });
                self.rotate_left()
            }
            _ => {
                self.sum_up();
                self
            }
        }
    }

    fn inserted(link: Link, new: Box<Self>) -> Box<Self> {
        let Some(mut node) = link else { return new };
        if new.base < node.base {
            node.left = Some(Self::inserted(node.left.take(), new));
        } else {
            node.right = Some(Self::inserted(node.right.take(), new));
        }
        node.balanced()
    }

    /// The subtree without the child at `base`, and that child.
    fn removed(mut self: Box<Self>, base: u64) -> (Link, Option<Child>) {
        let child = if base < self.base {
            let Some(left) = self.left.take() else { return (Some(self), None) };
            let (left, child) = left.removed(base);
            self.left = left;
            child
        } else if base > self.base {
            let Some(right) = self.right.take() else { return (Some(self), None) };
            let (right, child) = right.removed(base);
            self.right = right;
            child
        } else {
            let child = Some(self.child);
            return match (self.left.take(), self.right.take()) {
                (side, None) | (None, side) => (side, child),
                (left, Some(right)) => {
                    let (rest, mut top) = right.without_first();
                    (top.left, top.right) = (left, rest);
                    (Some(top.balanced()), child)
                }
            };
        };
        (Some(self.balanced()), child)
    }

    /// The subtree without its first node, and that node.
    fn without_first(mut self: Box<Self>) -> (Link, Box<Self>) {
        let Some(left) = self.left.take() else {
            let right = self.right.take();
            return (right, self);
        };
        let (left, first) = left.without_first();
        self.left = left;
        (Some(self.balanced()), first)
    }
}

/// The children of a VMAR; see the module's description.
#[derive(Default)]
pub(crate) struct Children {
    root: Link,
}

/// What room is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Bytes, whole pages.
    pub len: u64,
    /// A power of two, at least a page.
    pub align: u64,
    /// It begins here or above.
    pub from: u64,
    /// It ends here or below.
    pub limit: u64,
}

impl Room {
    /// The lowest fitting address in a gap.
    fn lowest_in(&self, start: u64, end: u64) -> Option<u64> {
        let at = start.max(self.from).checked_next_multiple_of(self.align)?;
        (at.checked_add(self.len)? <= end.min(self.limit)).then_some(at)
    }

    /// The lowest fitting address and the end of its gap, among the gaps of a subtree that are at least `wide`. The
    /// subtree's neighbours end at `start` and begin at `end`.
    fn search(&self, link: &Link, start: u64, end: u64, wide: u64) -> Option<(u64, u64)> {
        let Some(node) = link else { return self.lowest_in(start, end).map(|at| (at, end)) };
        if end <= self.from || start >= self.limit {
            return None;
        }
        let widest = node.gap.max(node.first.saturating_sub(start)).max(end.saturating_sub(node.last));
        if widest < wide {
            return None;
        }
        let left = self.search(&node.left, start, node.base, wide);
        left.or_else(|| self.search(&node.right, node.end(), end, wide))
    }
}

impl Children {
    /// Puts a child in. Nothing else is there.
    pub fn insert(&mut self, base: u64, child: Child) {
        let last = base.saturating_add(child.len());
        let new = Box::new(Node { base, child, left: None, right: None, height: 1, first: base, last, gap: 0 });
        self.root = Some(Node::inserted(self.root.take(), new));
    }

    /// Takes the child out that begins at an address.
    pub fn remove(&mut self, base: u64) -> Option<Child> {
        let (root, child) = self.root.take()?.removed(base);
        self.root = root;
        child
    }

    /// Takes any child out.
    pub fn pop(&mut self) -> Option<Child> {
        let base = self.root.as_ref()?.base;
        self.remove(base)
    }

    /// The first child that begins at an address or above.
    pub fn from(&self, address: u64) -> Option<(u64, Child)> {
        let (mut link, mut best) = (&self.root, None);
        while let Some(node) = link {
            if node.base >= address {
                best = Some((node.base, node.child));
                link = &node.left;
            } else {
                link = &node.right;
            }
        }
        best
    }

    /// The last child that begins below an address.
    pub fn before(&self, address: u64) -> Option<(u64, Child)> {
        let (mut link, mut best) = (&self.root, None);
        while let Some(node) = link {
            if node.base < address {
                best = Some((node.base, node.child));
                link = &node.right;
            } else {
                link = &node.left;
            }
        }
        best
    }

    /// The children that lie in a range, in part at least, in order.
    pub fn overlapping(&self, base: u64, end: u64) -> impl Iterator<Item = (u64, Child)> {
        let first = self.before(base).filter(|(at, child)| at.saturating_add(child.len()) > base);
        let rest = core::iter::successors(self.from(base), |(at, _)| self.from(at.saturating_add(1)));
        first.into_iter().chain(rest.take_while(move |(at, _)| *at < end))
    }

    /// Whether nothing is in a range.
    pub fn is_free(&self, base: u64, len: u64) -> bool {
        let end = base.saturating_add(len);
        self.before(end).is_none_or(|(at, child)| at.saturating_add(child.len()) <= base)
    }

    /// The lowest address for a room in a VMAR from `start` to `end`, and the end of its gap.
    pub fn first_fit(&self, start: u64, end: u64, room: &Room) -> Option<(u64, u64)> {
        // All addresses are pages'; a gap wider by the rest of the alignment fits for sure, so that the first search never
        // turns back. Only where there is none it pays to try every gap that may fit.
        let sure = room.len.checked_add(room.align - room.align.min(PAGE))?;
        let found = room.search(&self.root, start, end, sure);
        found.or_else(|| room.search(&self.root, start, end, room.len))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    /// Height of a subtree in which everything holds that a node knows.
    fn check(link: &Link) -> u8 {
        let Some(node) = link else { return 0 };
        let (left, right) = (check(&node.left), check(&node.right));
        assert!(left.abs_diff(right) <= 1);
        assert_eq!(node.height, left.max(right) + 1);
        node.height
    }

    fn gaps(model: &BTreeMap<u64, u64>, start: u64, end: u64) -> Vec<(u64, u64)> {
        let ends = core::iter::once(start).chain(model.iter().map(|(at, len)| at + len));
        ends.zip(model.keys().copied().chain([end])).collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0..1000_u64, 1..9_u64, 0..4_u32, 0..1000_u64), 0..300)) {
            let (mut tree, mut model) = (Children::default(), BTreeMap::new());
            for (base, len, power, bound) in ops {
                let free = model.range(..base + len).next_back().is_none_or(|(at, len)| at + len <= base);
                prop_assert_eq!(tree.is_free(base * PAGE, len * PAGE), free);
                if free {
                    tree.insert(base * PAGE, Child::Mapping(len * PAGE));
                    model.insert(base, len);
                } else if len > 4 {
                    let at = *model.range(..base + len).next_back().unwrap().0;
                    prop_assert_eq!(tree.remove(at * PAGE).map(Child::len), model.remove(&at).map(|len| len * PAGE));
                    prop_assert_eq!(tree.remove(at * PAGE), None);
                }
                check(&tree.root);
                let from = model.range(base..).next().map(|(at, len)| (at * PAGE, Child::Mapping(len * PAGE)));
                prop_assert_eq!(tree.from(base * PAGE), from);
                let room = Room {
                    len: len * PAGE,
                    align: PAGE << power,
                    from: base.min(bound) * PAGE,
                    limit: base.max(bound) * PAGE,
                };
                let expected = gaps(&model, 0, 1010).into_iter().find_map(|(s, e)| room.lowest_in(s * PAGE, e * PAGE));
                // The lowest of those that fit for sure, or else of all.
                let found = tree.first_fit(0, 1010 * PAGE, &room);
                prop_assert_eq!(found.map(drop), expected.map(drop));
                if let Some((at, end)) = found {
                    prop_assert!(at % room.align == 0 && at >= room.from && at + room.len <= room.limit.min(end));
                    prop_assert!(tree.is_free(at, end - at));
                    prop_assert!(power > 0 || Some(at) == expected);
                }
            }
            while let Some(child) = tree.pop() {
                prop_assert!(child.len() > 0);
                check(&tree.root);
            }
        }
    }
}
