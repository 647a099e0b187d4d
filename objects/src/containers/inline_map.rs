//! A map that usually holds no entry or one: the first one needs no allocation and no search. Further entries are found
//! in O(log n).

use alloc::collections::BTreeMap;

/// See the module's description.
#[derive(Clone)]
pub(crate) struct InlineMap<K, V> {
    /// Any one of the entries.
    one: Option<(K, V)>,
    /// The others.
    more: BTreeMap<K, V>,
}

impl<K, V> Default for InlineMap<K, V> {
    fn default() -> Self {
        InlineMap { one: None, more: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, V> InlineMap<K, V> {
    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.one.is_none() && self.more.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        usize::from(self.one.is_some()) + self.more.len()
    }

    /// The value of a key, mutable.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.one {
            Some((one, value)) if one == key => Some(value),
            _ if self.more.is_empty() => None,
            _ => self.more.get_mut(key),
        }
    }

    /// Whether a key has a value.
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.one.as_ref().is_some_and(|(one, _)| one == key) || !self.more.is_empty() && self.more.contains_key(key)
    }

    /// Inserts a key that is not in the map.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) {
        debug_assert!(!self.contains_key(&key));
        match self.one {
            None => self.one = Some((key, value)),
            Some(_) => drop(self.more.insert(key, value)),
        }
    }

    /// Removes a key.
    #[inline]
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match &self.one {
            Some((one, _)) if one == key => self.one.take().map(|(_, value)| value),
            _ if self.more.is_empty() => None,
            _ => self.more.remove(key),
        }
    }

    /// All values, in any order.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.one.into_iter().map(|(_, value)| value).chain(self.more.into_values())
    }
}

/// A multiset: how often each key was added.
pub(crate) struct Counts<K> {
    counts: InlineMap<K, usize>,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Counts { counts: InlineMap::default() }
    }
}

impl<K: Copy + Ord> Counts<K> {
    /// Adds one to a key's count.
    #[inline]
    pub fn add(&mut self, key: K) {
        match self.counts.get_mut(&key) {
            Some(count) => *count += 1,
            None => self.counts.insert(key, 1),
        }
    }

    /// Subtracts one from a key's count.
    #[inline]
    pub fn subtract(&mut self, key: K) {
        let Some(count) = self.counts.get_mut(&key) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&key);
        }
    }

    /// Number of keys with a count above 0.
    pub fn len(&self) -> usize {
        self.counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0..3u8, 0..6u64, any::<u16>()), 0..100)) {
            let (mut few, mut model) = (InlineMap::default(), BTreeMap::new());
            for (op, key, value) in ops {
                match op {
                    0 if !few.contains_key(&key) => {
                        few.insert(key, value);
                        model.insert(key, value);
                    }
                    0 | 1 => prop_assert_eq!(few.get_mut(&key), model.get_mut(&key)),
                    _ => prop_assert_eq!(few.remove(&key), model.remove(&key)),
                }
                prop_assert_eq!(few.contains_key(&key), model.contains_key(&key));
                prop_assert_eq!((few.len(), few.is_empty()), (model.len(), model.is_empty()));
                let mut values: Vec<u16> = few.clone().into_values().collect();
                let mut expected: Vec<u16> = model.values().copied().collect();
                values.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(values, expected);
            }
        }

        #[test]
        fn counts(ops in proptest::collection::vec((any::<bool>(), 0..5u64), 0..100)) {
            let (mut counts, mut model) = (Counts::default(), BTreeMap::new());
            for (add, key) in ops {
                if add {
                    counts.add(key);
                    *model.entry(key).or_insert(0) += 1;
                } else {
                    counts.subtract(key);
                    if let Some(count) = model.get_mut(&key) {
                        *count -= 1;
                    }
                    model.retain(|_, count| *count > 0);
                }
                prop_assert_eq!(counts.len(), model.len());
                let mut left = counts.counts.clone();
                prop_assert!(model.iter().all(|(key, count)| left.remove(key) == Some(*count)));
            }
        }
    }
}
