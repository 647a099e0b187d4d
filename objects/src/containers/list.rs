//! Intrusive lists of slab entries: appending an entry and removing one from anywhere take O(1) steps and no memory.
//!
//! An entry can be in several lists at a time, one for each [`Link`] that it has; a [`Chain`] selects the link that a
//! list uses. The links form a ring, so a list stores only its first entry, whose predecessor is the last one.

use core::marker::PhantomData;

use crate::containers::slab::{Key, Slab};

/// An entry's links in a list: its predecessor and successor; none if it is in no list.
#[derive(Clone, Copy, Default, Debug)]
pub struct Link(Option<(Key, Key)>);

impl Link {
    /// Whether the entry is in a list.
    pub fn is_linked(&self) -> bool {
        self.0.is_some()
    }
}

/// A kind of list.
pub trait Chain {
    /// The slab's entry type.
    type Entry;
    /// The link that the list uses; none if the entry cannot be in such a list.
    fn link(entry: &Self::Entry) -> Option<&Link>;
    /// Like [`Chain::link`], mutable.
    fn link_mut(entry: &mut Self::Entry) -> Option<&mut Link>;
}

/// See the module's description.
pub struct List<C> {
    first: Option<Key>,
    chain: PhantomData<fn(C)>,
}

impl<C> Clone for List<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for List<C> {}
impl<C> Default for List<C> {
    fn default() -> Self {
        List { first: None, chain: PhantomData }
    }
}

impl<C: Chain> List<C> {
    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The first entry.
    #[inline]
    pub fn first(&self) -> Option<Key> {
        self.first
    }

    /// The last entry.
    pub fn last(&self, slab: &Slab<C::Entry>) -> Option<Key> {
        Some(Self::neighbours(slab, self.first?)?.0)
    }

    /// The entry after another one of the list, or the first one.
    pub fn after(&self, slab: &Slab<C::Entry>, entry: Option<Key>) -> Option<Key> {
        match entry {
            None => self.first,
            Some(entry) => Some(Self::neighbours(slab, entry)?.1).filter(|&next| Some(next) != self.first),
        }
    }

    /// All entries, from the first to the last.
    pub fn iter(self, slab: &Slab<C::Entry>) -> impl Iterator<Item = Key> + '_
    where
        C: 'static,
    {
        core::iter::successors(self.first, move |&key| self.after(slab, Some(key)))
    }

    /// Appends an entry that is in no list of this kind.
    pub fn push(&mut self, slab: &mut Slab<C::Entry>, key: Key) {
        let (before, after) = match self.first {
            None => (key, key),
            Some(first) => {
                let Some((last, _)) = Self::neighbours(slab, first) else { return };
                Self::set_next(slab, last, key);
                Self::set_previous(slab, first, key);
                (last, first)
            }
        };
        if let Some(link) = Self::link_of(slab, key) {
            link.0 = Some((before, after));
        }
        self.first.get_or_insert(key);
    }

    /// Prepends an entry that is in no list of this kind.
    pub fn push_first(&mut self, slab: &mut Slab<C::Entry>, key: Key) {
        self.push(slab, key);
        self.first = Some(key);
    }

    /// Appends all entries of another list in O(1).
    pub fn append(&mut self, slab: &mut Slab<C::Entry>, other: List<C>) {
        let (Some(first), Some(second)) = (self.first, other.first) else {
            self.first = self.first.or(other.first);
            return;
        };
        let (Some(middle), Some(last)) = (self.last(slab), other.last(slab)) else { return };
        Self::set_next(slab, middle, second);
        Self::set_previous(slab, second, middle);
        Self::set_next(slab, last, first);
        Self::set_previous(slab, first, last);
    }

    /// Removes an entry of this list; no effect if it is in no list.
    pub fn remove(&mut self, slab: &mut Slab<C::Entry>, key: Key) {
        let Some((before, after)) = Self::link_of(slab, key).and_then(|link| link.0.take()) else { return };
        if after == key {
            self.first = None;
            return;
        }
        Self::set_next(slab, before, after);
        Self::set_previous(slab, after, before);
        if self.first == Some(key) {
            self.first = Some(after);
        }
    }

    /// Removes the first entry.
    pub fn pop(&mut self, slab: &mut Slab<C::Entry>) -> Option<Key> {
        let first = self.first?;
        self.remove(slab, first);
        Some(first)
    }

    fn neighbours(slab: &Slab<C::Entry>, key: Key) -> Option<(Key, Key)> {
        C::link(slab.get(key)?)?.0
    }

    fn link_of(slab: &mut Slab<C::Entry>, key: Key) -> Option<&mut Link> {
        C::link_mut(slab.get_mut(key)?)
    }

    fn set_next(slab: &mut Slab<C::Entry>, key: Key, next: Key) {
        if let Some(Link(Some(neighbours))) = Self::link_of(slab, key) {
            neighbours.1 = next;
        }
    }

    fn set_previous(slab: &mut Slab<C::Entry>, key: Key, previous: Key) {
        if let Some(Link(Some(neighbours))) = Self::link_of(slab, key) {
            neighbours.0 = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    struct Plain;
    impl Chain for Plain {
        type Entry = Link;
        fn link(entry: &Link) -> Option<&Link> {
            Some(entry)
        }
        fn link_mut(entry: &mut Link) -> Option<&mut Link> {
            Some(entry)
        }
    }

    proptest! {
        #[test]
        fn behaves_as_vectors(ops in proptest::collection::vec((0..4u8, any::<bool>(), any::<usize>()), 0..200)) {
            let mut slab = Slab::default();
            let mut lists = [List::<Plain>::default(); 2];
            let mut model = [Vec::new(), Vec::new()];
            for (op, which, n) in ops {
                let (list, model) = (&mut lists[usize::from(which)], &mut model[usize::from(which)]);
                match op {
                    0 => {
                        let key = slab.insert(Link::default()).unwrap();
                        list.push(&mut slab, key);
                        model.push(key);
                    }
                    1 => {
                        let key = slab.insert(Link::default()).unwrap();
                        list.push_first(&mut slab, key);
                        model.insert(0, key);
                    }
                    2 if !model.is_empty() => {
                        let key = model.remove(n % model.len());
                        list.remove(&mut slab, key);
                        prop_assert!(!slab.get(key).unwrap().is_linked());
                        list.remove(&mut slab, key);
                    }
                    _ => {
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(list.pop(&mut slab), expected);
                    }
                }
                prop_assert!(list.iter(&slab).eq(model.iter().copied()));
                prop_assert_eq!(list.last(&slab), model.last().copied());
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
    }
}
