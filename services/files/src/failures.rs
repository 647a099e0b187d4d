//! Errors that come after the answer, and who is told of them.
//!
//! What is written is answered before it is on the disk: it stays with the next sync. Where the disk fails in between, whoever wrote
//! must hear of it, as POSIX has had it since 2018: each open description of each file that was changed and may be lost gets one
//! error, from its next write or sync, and only one. What was written afterwards is another matter.
//!
//! 1. What a request changes is noted here, where somebody has it open.
//! 2. When all is on the disk, the notes are forgotten.
//! 3. When the disk has failed, each noted node has one failure more.
//! 4. A description knows how many failures of its node it was told of. With more it gets an error. One that is opened
//!    later is told of the last failure only if nobody was.

use std::cell::Cell;
use std::collections::HashMap;

use file_protocol::{Error, Result};

use crate::system::{FileSystem, Node};

/// A node that is open.
#[derive(Debug, Default)]
struct State {
    descriptions: u64,
    /// It was changed since all was on the disk.
    changed: bool,
    failures: u64,
    /// Somebody was told of the last one.
    told: bool,
}

/// What is known of the nodes of a tree.
#[derive(Debug, Default)]
pub struct Failures {
    open: HashMap<Node, State>,
    /// Those that were changed.
    changed: Vec<Node>,
}

impl Failures {
    /// A description begins; gives the number of failures that it knows of.
    pub fn opened(&mut self, node: Node) -> Cell<u64> {
        let state = self.open.entry(node).or_default();
        state.descriptions += 1;
        let untold = state.failures > 0 && !state.told;
        Cell::new(state.failures - u64::from(untold))
    }

    /// A description ends.
    pub fn closed(&mut self, node: Node) {
        if let Some(state) = self.open.get_mut(&node) {
            state.descriptions -= 1;
            if state.descriptions == 0 {
                self.open.remove(&node);
            }
        }
    }

    /// Step 1.
    pub fn changes(&mut self, node: Node) {
        if let Some(state) = self.open.get_mut(&node)
            && !std::mem::replace(&mut state.changed, true)
        {
            self.changed.push(node);
        }
    }

    /// Steps 2 and 3, behind each request.
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
                    state.told = false;
                }
            }
        }
    }

    /// Step 4.
    ///
    /// # Errors
    /// `Damaged`: what was written earlier may be lost.
    pub fn check(&mut self, node: Node, known: &Cell<u64>) -> Result<()> {
        if self.tell(node, known) { Err(Error::Damaged) } else { Ok(()) }
    }

    /// Whether a description was told of all that is known.
    pub fn is_told(&self, node: Node, known: &Cell<u64>) -> bool {
        self.open.get(&node).is_none_or(|state| state.failures == known.get())
    }

    /// A description is told, by whatever error it gets; says whether there was something to tell.
    pub fn tell(&mut self, node: Node, known: &Cell<u64>) -> bool {
        match self.open.get_mut(&node) {
            Some(state) if state.failures > known.get() => {
                known.set(state.failures);
                state.told = true;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
