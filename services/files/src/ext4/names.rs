//! The position of directories in the tree, for `..` and for a directory's own path.
//!
//! A directory is looked up by name before any other use, so its position is learnt then. When there are many
//! positions, those that are neither held nor above a held one are dropped.

use std::collections::{HashMap, HashSet};

use file_protocol::{Error, Result};

use crate::system::Node;

/// Number of positions above which some are dropped.
const MANY: usize = 4096;

#[derive(Default)]
pub struct Names {
    places: HashMap<Node, (Node, Vec<u8>)>,
    /// Current number of positions above which some are dropped. It exceeds [`MANY`] if more are held.
    most: usize,
}

impl Names {
    /// Records the position of a directory that was looked up or created.
    pub fn learn<T>(&mut self, node: Node, above: Node, name: &[u8], held: &HashMap<Node, T>) {
        if let Some((known, as_name)) = self.places.get(&node)
            && *known == above
            && as_name == name
        {
            return;
        }
        if self.places.len() >= self.most.max(MANY) {
            self.prune(held, above);
            self.most = 2 * self.places.len();
        }
        self.places.insert(node, (above, name.to_vec()));
    }

    /// The parent of a directory.
    ///
    /// # Errors
    /// `NotFound`: the directory has been removed.
    pub fn above(&self, node: Node) -> Result<Node> {
        self.places.get(&node).map(|(above, _)| *above).ok_or(Error::NotFound)
    }

    /// The name of a directory in its parent.
    ///
    /// # Errors
    /// `NotFound`: the directory has been removed.
    pub fn name(&self, node: Node) -> Result<Vec<u8>> {
        self.places.get(&node).map(|(_, name)| name.clone()).ok_or(Error::NotFound)
    }

    /// Records a rename, if the node is a directory.
    pub fn moved(&mut self, node: Node, above: Node, name: &[u8]) {
        if let Some(place) = self.places.get_mut(&node) {
            *place = (above, name.to_vec());
        }
    }

    /// Records a removal.
    pub fn forget(&mut self, node: Node) {
        self.places.remove(&node);
    }

    fn prune<T>(&mut self, held: &HashMap<Node, T>, also: Node) {
        let mut needed = HashSet::new();
        for node in held.keys().copied().chain([also]) {
            let mut at = node;
            // Each step reaches a position that was not marked before, so the loop ends even if a damaged tree has
            // cycles.
            while let Some((above, _)) = self.places.get(&at)
                && needed.insert(at)
            {
                at = *above;
            }
        }
        self.places.retain(|node, _| needed.contains(node));
    }
}
