//! A set of ranges that may overlap, with a search for those that overlap a range.
//!
//! Ranges are sorted by start. A range cannot reach further than the longest one is long, so a search looks only at
//! ranges that start near; it costs O(log n) plus the number of results, as long as the lengths are similar.

use alloc::collections::BTreeMap;

use crate::containers::slab::Key;

/// Distinguishes ranges with the same start.
pub(crate) trait Mark: Copy + Ord {
    /// The lowest value in the order.
    const LEAST: Self;
}

impl Mark for u64 {
    const LEAST: Self = 0;
}

impl Mark for (Key, u64) {
    const LEAST: Self = (Key::FIRST, 0);
}

/// See the module's description. Usually there is only one range, which needs no allocation.
pub(crate) struct IntervalMap<K> {
    /// The only range: start, mark, length.
    only: Option<(u64, K, u64)>,
    /// All ranges, if there are several or recently were.
    lens: BTreeMap<(u64, K), u64>,
    longest: u64,
}

impl<K> Default for IntervalMap<K> {
    fn default() -> Self {
        IntervalMap { only: None, lens: BTreeMap::new(), longest: 0 }
    }
}

impl<K: Mark> IntervalMap<K> {
    /// Adds `[start, start + len)`.
    pub fn insert(&mut self, start: u64, len: u64, mark: K) {
        if self.is_empty() {
            self.only = Some((start, mark, len));
            return;
        }
        for (start, mark, len) in self.only.take().into_iter().chain([(start, mark, len)]) {
            self.lens.insert((start, mark), len);
            self.longest = self.longest.max(len);
        }
    }

    /// Removes the range with this start and mark; says whether it existed.
    pub fn remove(&mut self, start: u64, mark: K) -> bool {
        if let Some(only) = &self.only {
            let is = (only.0, only.1) == (start, mark);
            if is {
                self.only = None;
            }
            return is;
        }
        let was = self.lens.remove(&(start, mark)).is_some();
        if self.lens.is_empty() {
            self.longest = 0;
        }
        was
    }

    /// Whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.only.is_none() && self.lens.is_empty()
    }

    /// The ranges that overlap `[from, to)`: start, length and mark.
    pub fn meeting(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, K)> + '_ {
        let low = from.saturating_sub(self.longest);
        let near = self.lens.range((low, K::LEAST)..(to.max(low), K::LEAST));
        let near = near.map(|(&(start, mark), &len)| (start, len, mark));
        let only = self.only.filter(|&(start, ..)| start < to).map(|(start, mark, len)| (start, len, mark));
        only.into_iter().chain(near).filter(move |(start, len, _)| start.saturating_add(*len) > from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn behaves_as_a_list(
            ops in proptest::collection::vec((any::<bool>(), 0..60u64, 1..20u64, 0..4u64), 0..100),
            ask in (0..90u64, 0..30u64),
        ) {
            let mut spans = IntervalMap::default();
            let mut model = BTreeMap::new();
            for (insert, start, len, mark) in ops {
                if insert {
                    spans.insert(start, len, mark);
                    model.insert((start, mark), len);
                } else {
                    prop_assert_eq!(spans.remove(start, mark), model.remove(&(start, mark)).is_some());
                }
                let (from, to) = (ask.0, ask.0 + ask.1);
                let meets = |(&(start, mark), &len): (&(u64, u64), &u64)| {
                    (start < to && start + len > from).then_some((start, len, mark))
                };
                let expected: Vec<_> = model.iter().filter_map(meets).collect();
                prop_assert_eq!(spans.meeting(from, to).collect::<Vec<_>>(), expected);
                prop_assert_eq!(spans.is_empty(), model.is_empty());
            }
        }
    }
}
