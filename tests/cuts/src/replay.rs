//! All the states that a cut can leave, out of a log, and what is found in them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Lot;
use crate::image::Image;
use crate::judge::{Promise, judge};
use crate::log::Act;
use crate::plan::{Model, Tree};

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;
/// Sentences that are kept of bad states.
const TOLD: usize = 20;

/// A file system that images are read by.
pub trait System {
    /// What is in an image as it would be read after a start.
    ///
    /// # Errors
    /// A sentence: it cannot be read.
    fn read(&self, image: &Image) -> Result<Tree, String>;

    /// Starts with an image: gives what that writes.
    ///
    /// # Errors
    /// A sentence: it does not start, or there is something left to mend.
    fn start(&self, image: &Image) -> Result<Vec<Act>, String>;
}

/// How many states of each kind were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// After a write.
    pub cuts: usize,
    /// With a write torn.
    pub torn: usize,
    /// With some of what was not flushed, or nothing of it.
    pub subsets: usize,
    /// With a second cut, while the system starts after the first.
    pub starts: usize,
}

/// Sectors of a write in which it is torn once.
const PIECE: usize = 8;

/// What a cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// All up to a write.
    Cut,
    /// And that write torn.
    Torn,
    /// Some of what was not flushed, or nothing of it.
    Subset,
}

/// A state that a cut leaves.
struct State<'a> {
    image: &'a Image,
    left: Left,
    /// Which of the acts is the last.
    index: usize,
    /// The number of the mark, if it is one.
    mark: Option<u64>,
}

/// A log that is replayed.
pub struct Replay<'a> {
    system: &'a dyn System,
    trees: &'a [Model],
    promise: Promise,
    lot: Lot,
    /// In one of so many states the system starts and is cut again.
    every: usize,
    /// How many states were judged.
    pub counts: Counts,
    /// How many of them are bad.
    pub bad: usize,
    /// The first of these, in words.
    pub told: Vec<String>,
    /// Some of the states, drawn by lot.
    pub samples: Vec<Image>,
    most_samples: usize,
    /// Which trees are allowed.
    allowed: (usize, usize),
}

impl<'a> Replay<'a> {
    /// Of a log that was written by operations with these trees before and after each.
    pub fn new(system: &'a dyn System, trees: &'a [Model], promise: Promise, seed: u64) -> Replay<'a> {
        Replay {
            system,
            trees,
            promise,
            lot: Lot::new(seed),
            every: 1,
            counts: Counts::default(),
            bad: 0,
            told: Vec::new(),
            samples: Vec::new(),
            most_samples: 0,
            allowed: (0, 0),
        }
    }

    /// Starts the system in one of so many states only.
    #[must_use]
    pub fn starting_in_one_of(self, every: usize) -> Replay<'a> {
        Replay { every, ..self }
    }

    /// Keeps so many of the states.
    #[must_use]
    pub fn keeping(self, most_samples: usize) -> Replay<'a> {
        Replay { most_samples, ..self }
    }

    /// All states.
    pub fn states(&self) -> usize {
        self.counts.cuts + self.counts.torn + self.counts.subsets + self.counts.starts
    }

    fn judge(&mut self, what: &str, found: Result<Tree, String>) {
        let trees = &self.trees[self.allowed.0..=self.allowed.1];
        let judged = found.and_then(|mut found| judge(&mut found, trees, self.promise));
        if let Err(why) = judged {
            self.bad += 1;
            if self.told.len() < TOLD {
                self.told.push(format!("operation {} to {}, {what}: {why}", self.allowed.0, self.allowed.1));
            }
        }
    }

    fn read(&mut self, what: &str, image: &Image) {
        let found = catch_unwind(AssertUnwindSafe(|| self.system.read(image)));
        self.judge(what, found.unwrap_or_else(|_| Err("it makes its reader panic".to_owned())));
    }

    /// Each state is kept with the same chance.
    fn keep(&mut self, image: &Image) {
        if self.samples.len() < self.most_samples {
            self.samples.push(image.clone());
        } else if self.most_samples > 0 {
            let place = self.lot.below(self.states());
            if let Some(sample) = self.samples.get_mut(place) {
                sample.clone_from(image);
            }
        }
    }

    fn look(&mut self, state: &State<'_>) {
        let count = match state.left {
            Left::Cut => &mut self.counts.cuts,
            Left::Torn => &mut self.counts.torn,
            Left::Subset => &mut self.counts.subsets,
        };
        *count += 1;
        let what = format!("{:?} at {}", state.left, state.index);
        self.read(&what, state.image);
        self.keep(state.image);
        if self.every == 1 || self.lot.below(self.every) == 0 {
            self.start(&what, state.image);
        }
    }

    /// Starts the system in a state, with a second cut at each write of that.
    fn start(&mut self, what: &str, image: &Image) {
        let started = catch_unwind(AssertUnwindSafe(|| self.system.start(image)));
        match started.unwrap_or_else(|_| Err("it makes the system panic".to_owned())) {
            Ok(acts) => {
                let mut lot = self.lot.clone();
                let end = walk(image, &acts, &mut lot, &mut |again| {
                    self.counts.starts += 1;
                    self.read(&format!("{what}, then {:?} at {} of the start", again.left, again.index), again.image);
                });
                self.lot = lot;
                self.counts.starts += 1;
                self.read(&format!("{what}, then started"), &end);
            }
            Err(why) => {
                self.counts.starts += 1;
                self.judge(&format!("{what}, then started"), Err(why));
            }
        }
    }

    /// Replays a log over the image that was there before it. Gives what is there after all of it.
    pub fn run(&mut self, base: &Image, acts: &[Act]) -> Image {
        let last = self.trees.len() - 1;
        let number = |act: &Act| if let Act::Mark(number) = act { Some((*number as usize).min(last)) } else { None };
        let mut marks = acts.iter().filter_map(number).collect::<Vec<_>>().into_iter();
        // Up to a mark, all that comes before it may have been done.
        self.allowed = (0, marks.next().unwrap_or(last));
        let mut lot = self.lot.clone();
        walk(base, acts, &mut lot, &mut |state| {
            if let Some(number) = state.mark {
                self.allowed = ((number as usize).min(last), marks.next().unwrap_or(last));
            }
            self.look(&state);
        })
    }
}

/// Goes through all states that a cut can leave. Gives the last.
fn walk(base: &Image, acts: &[Act], lot: &mut Lot, each: &mut dyn FnMut(State<'_>)) -> Image {
    let (mut image, mut flushed, mut since) = (base.clone(), base.clone(), Vec::new());
    for (index, act) in acts.iter().enumerate() {
        match act {
            Act::Write(at, bytes) => {
                let sectors = bytes.len() / SECTOR;
                // Within each piece of a long one.
                for first in (0..sectors.saturating_sub(1)).step_by(PIECE) {
                    let mut torn = image.clone();
                    let there = first + 1 + lot.below(PIECE.min(sectors - 1 - first));
                    torn.write(*at, &bytes[..there * SECTOR]);
                    each(State { image: &torn, left: Left::Torn, index, mark: None });
                }
                image.write(*at, bytes);
                since.push((*at, bytes));
                each(State { image: &image, left: Left::Cut, index, mark: None });
            }
            Act::Flush => {
                flushed.clone_from(&image);
                since.clear();
            }
            // All that was flushed has to be there.
            Act::Mark(number) => {
                each(State { image: &flushed, left: Left::Subset, index, mark: Some(*number) });
            }
        }
        if since.len() > 1 {
            let mut some = flushed.clone();
            for (at, bytes) in &since {
                if lot.below(2) == 0 {
                    some.write(*at, bytes);
                }
            }
            each(State { image: &some, left: Left::Subset, index, mark: None });
        }
    }
    image
}
