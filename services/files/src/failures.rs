//! Reports write errors that occur after the request was answered.
//!
//! A write is answered before it is on the disk; the next sync makes it durable. If the disk fails in between, every
//! writer must learn of it, as POSIX has required since 2018. Each open description of each changed file that may be
//! lost gets exactly one error, at its next write or sync. Later writes are not affected.
//!
//! 1. A request's changes are recorded here, if the node is open.
//! 2. When all changes are on the disk, the records are dropped.
//! 3. When the disk has failed, the failure count of each recorded node rises by one.
//! 4. A description knows how many failures of its node were reported to it. If there are more, it gets an error. A
//!    description that is opened later gets the last failure only if no other description got it.

use std::cell::Cell;
use std::collections::HashMap;

use file_protocol::{Error, Result};

use crate::system::{FileSystem, Node};

/// State of an open node.
#[derive(Debug, Default)]
struct State {
    descriptions: u64,
    /// The node has changes that may not be on the disk.
    changed: bool,
    failures: u64,
    /// The last failure was reported to a description.
    reported: bool,
}

/// State of the open nodes of a tree.
#[derive(Debug, Default)]
pub struct Failures {
    open: HashMap<Node, State>,
    /// The nodes with changes.
    changed: Vec<Node>,
}

impl Failures {
    /// Registers a new description; returns the number of failures that it counts as reported.
    pub fn opened(&mut self, node: Node) -> Cell<u64> {
        let state = self.open.entry(node).or_default();
        state.descriptions += 1;
        let unreported = state.failures > 0 && !state.reported;
        Cell::new(state.failures - u64::from(unreported))
    }

    /// Unregisters a description.
    pub fn closed(&mut self, node: Node) {
        if let Some(state) = self.open.get_mut(&node) {
            state.descriptions -= 1;
            if state.descriptions == 0 {
                self.open.remove(&node);
            }
        }
    }

    /// Step 1: records a change.
    pub fn changes(&mut self, node: Node) {
        if let Some(state) = self.open.get_mut(&node)
            && !std::mem::replace(&mut state.changed, true)
        {
            self.changed.push(node);
        }
    }

    /// Steps 2 and 3, after each request.
    pub fn note(&mut self, system: &mut impl FileSystem) {
        let lost = system.take_lost();
        if !lost && (self.changed.is_empty() || system.is_pending()) {
            return;
        }
        for node in self.changed.drain(..) {
            if let Some(state) = self.open.get_mut(&node) {
                state.changed = false;
                if lost {
                    state.failures += 1;
                    state.reported = false;
                }
            }
        }
    }

    /// Step 4.
    ///
    /// # Errors
    /// `Damaged`: earlier writes may be lost.
    pub fn check(&mut self, node: Node, known: &Cell<u64>) -> Result<()> {
        if self.report(node, known) { Err(Error::Damaged) } else { Ok(()) }
    }

    /// Whether all failures were reported to a description.
    pub fn is_reported(&self, node: Node, known: &Cell<u64>) -> bool {
        self.open.get(&node).is_none_or(|state| state.failures == known.get())
    }

    /// Marks all failures as reported to a description, by whatever error it gets; returns whether there was a failure
    /// to report.
    pub fn report(&mut self, node: Node, known: &Cell<u64>) -> bool {
        match self.open.get_mut(&node) {
            Some(state) if state.failures > known.get() => {
                known.set(state.failures);
                state.reported = true;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
