//! The sockets that wait until the card takes frames again, in the order in which they came.
//!
//! A socket that finds no room although it was its turn keeps its place. So none waits for ever behind others that
//! come again and again.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;

use crate::ports::Id;

#[derive(Debug, Default)]
pub(crate) struct InLine {
    line: BTreeMap<u64, Id>,
    /// The places of those in line, and of those whose turn it is.
    places: HashMap<Id, u64, FxBuildHasher>,
    last: u64,
}

impl InLine {
    /// There is no room for this socket: it goes to its place, or to the end.
    pub(crate) fn wait(&mut self, id: Id) {
        let place = *self.places.entry(id).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        self.line.insert(place, id);
    }

    /// A socket has sent something, has nothing to send, or is gone.
    pub(crate) fn leave(&mut self, id: Id) {
        if let Some(place) = self.places.remove(&id) {
            self.line.remove(&place);
        }
    }

    /// All in line.
    pub(crate) fn all(&self) -> impl Iterator<Item = Id> {
        self.line.values().copied()
    }

    /// Takes the first. It keeps its place until it leaves.
    pub(crate) fn next(&mut self) -> Option<Id> {
        self.line.pop_first().map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_no_room_keeps_the_place() {
        let mut line = InLine::default();
        [1, 2, 3].into_iter().for_each(|id| line.wait(id));
        assert_eq!((line.next(), line.next()), (Some(1), Some(2)));
        // 1 sends and waits again; 2 finds no room.
        line.leave(1);
        line.wait(1);
        line.wait(2);
        line.wait(2);
        assert_eq!([line.next(), line.next(), line.next(), line.next()], [Some(2), Some(3), Some(1), None]);
        line.leave(3);
        line.wait(1);
        line.leave(1);
        assert_eq!(line.next(), None);
    }
}
