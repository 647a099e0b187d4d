//! Where directories lie: the way up, which `..` and a directory's own path take.
//!
//! A directory is reached by its name before anything else is done with it, so its place is learnt then. Places that nobody needs any
//! more are forgotten when there are many: those that are neither held nor above one that is.

use std::collections::{HashMap, HashSet};

use file_protocol::{Error, Result};

use crate::system::Node;

/// Places that are kept before some are forgotten.
const MANY: usize = 4096;

#[derive(Default)]
pub struct Names {
    places: HashMap<Node, (Node, Vec<u8>)>,
    /// How many places there may be before some are forgotten: what is held may be more than [`MANY`].
    most: usize,
}

impl Names {
    /// A directory was found or made.
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

    /// The directory above one.
    ///
    /// # Errors
    /// `NotFound`: it has been removed.
    pub fn above(&self, node: Node) -> Result<Node> {
        self.places.get(&node).map(|(above, _)| *above).ok_or(Error::NotFound)
    }

    /// A directory's name in the one above it.
    ///
    /// # Errors
    /// `NotFound`: it has been removed.
    pub fn name(&self, node: Node) -> Result<Vec<u8>> {
        self.places.get(&node).map(|(_, name)| name.clone()).ok_or(Error::NotFound)
    }

    /// What was renamed, if it is a directory.
    pub fn moved(&mut self, node: Node, above: Node, name: &[u8]) {
        if let Some(place) = self.places.get_mut(&node) {
            *place = (above, name.to_vec());
        }
    }

    /// What was removed.
    pub fn forget(&mut self, node: Node) {
        self.places.remove(&node);
    }

    fn prune<T>(&mut self, held: &HashMap<Node, T>, also: Node) {
        let mut needed = HashSet::new();
        for node in held.keys().copied().chain([also]) {
            let mut at = node;
            // Each step goes to a place that was not needed so far, so this ends also where a damaged tree leads in circles.
            while let Some((above, _)) = self.places.get(&at)
                && needed.insert(at)
            {
                at = *above;
            }
        }
        self.places.retain(|node, _| needed.contains(node));
    }
}
