//! Derives all states that a cut can leave from a log, and judges what is found in them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Random;
use crate::image::Image;
use crate::judge::{RenameGuarantee, judge};
use crate::log::Act;
use crate::plan::{Model, Tree};

/// Bytes that a disk writes as a whole or not at all.
const SECTOR: usize = 512;
/// Most messages about bad states that are kept.
const TOLD: usize = 20;

/// A file system that reads images.
pub trait System {
    /// The tree in an image, as it would be read after a start.
    ///
    /// # Errors A sentence: the image cannot be read.
    fn read(&self, image: &Image) -> Result<Tree, String>;

    /// Starts with an image; returns the writes of that start.
    ///
    /// # Errors A sentence: it does not start, or damage remains.
    fn start(&self, image: &Image) -> Result<Vec<Act>, String>;
}

/// The number of judged states of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// After a write.
    pub cuts: usize,
    /// With a torn write.
    pub torn: usize,
    /// With a subset, which may be empty, of the writes that were not flushed.
    pub subsets: usize,
    /// With a second cut, during the start after the first.
    pub starts: usize,
}

/// A long write is torn once in each piece of this many sectors.
const PIECE: usize = 8;

/// The kinds of states that a cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutState {
    /// All requests up to a write.
    Cut,
    /// The same, and the write itself is torn.
    Torn,
    /// A subset, which may be empty, of the writes that were not flushed.
    Subset,
}

/// A state that a cut leaves.
struct State<'a> {
    image: &'a Image,
    left: CutState,
    /// The index of the last request.
    index: usize,
    /// The number of the mark, if the last request is one.
    mark: Option<u64>,
}

/// The replay of a log.
pub struct Replay<'a> {
    system: &'a dyn System,
    trees: &'a [Model],
    promise: RenameGuarantee,
    lot: Random,
    /// The system starts, and is cut again, in one of this many states.
    every: usize,
    /// Number of judged states.
    pub counts: Counts,
    /// Number of bad states.
    pub bad: usize,
    /// Messages about the first of them.
    pub told: Vec<String>,
    /// A random sample of the states.
    pub samples: Vec<Image>,
    most_samples: usize,
    /// The range of trees that are allowed.
    allowed: (usize, usize),
}

impl<'a> Replay<'a> {
    /// A replay for a log that operations with these trees before and after each have written.
    pub fn new(system: &'a dyn System, trees: &'a [Model], promise: RenameGuarantee, seed: u64) -> Replay<'a> {
        Replay {
            system,
            trees,
            promise,
            lot: Random::new(seed),
            every: 1,
            counts: Counts::default(),
            bad: 0,
            told: Vec::new(),
            samples: Vec::new(),
            most_samples: 0,
            allowed: (0, 0),
        }
    }

    /// Starts the system only in one of `every` states.
    #[must_use]
    pub fn starting_in_one_of(self, every: usize) -> Replay<'a> {
        Replay { every, ..self }
    }

    /// Keeps a sample of this many states.
    #[must_use]
    pub fn keeping(self, most_samples: usize) -> Replay<'a> {
        Replay { most_samples, ..self }
    }

    /// The number of all states.
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

    /// Every state has the same chance of being kept.
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
            CutState::Cut => &mut self.counts.cuts,
            CutState::Torn => &mut self.counts.torn,
            CutState::Subset => &mut self.counts.subsets,
        };
        *count += 1;
        let what = format!("{:?} at {}", state.left, state.index);
        self.read(&what, state.image);
        self.keep(state.image);
        if self.every == 1 || self.lot.below(self.every) == 0 {
            self.start(&what, state.image);
        }
    }

    /// Starts the system in a state, with a second cut at each write of that start.
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

    /// Replays a log on top of the image that was there before it. Returns the image after the whole log.
    pub fn run(&mut self, base: &Image, acts: &[Act]) -> Image {
        let last = self.trees.len() - 1;
        let number = |act: &Act| if let Act::Mark(number) = act { Some((*number as usize).min(last)) } else { None };
        let mut marks = acts.iter().filter_map(number).collect::<Vec<_>>().into_iter();
        // Until the first mark, any operation before it may have been done.
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

/// Visits all states that a cut can leave. Returns the last.
fn walk(base: &Image, acts: &[Act], lot: &mut Random, each: &mut dyn FnMut(State<'_>)) -> Image {
    let (mut image, mut flushed, mut since) = (base.clone(), base.clone(), Vec::new());
    for (index, act) in acts.iter().enumerate() {
        match act {
            Act::Write(at, bytes) => {
                let sectors = bytes.len() / SECTOR;
                // Once in each piece of a long write.
                for first in (0..sectors.saturating_sub(1)).step_by(PIECE) {
                    let mut torn = image.clone();
                    let there = first + 1 + lot.below(PIECE.min(sectors - 1 - first));
                    torn.write(*at, &bytes[..there * SECTOR]);
                    each(State { image: &torn, left: CutState::Torn, index, mark: None });
                }
                image.write(*at, bytes);
                since.push((*at, bytes));
                each(State { image: &image, left: CutState::Cut, index, mark: None });
            }
            Act::Flush => {
                flushed.clone_from(&image);
                since.clear();
            }
            // A mark follows an answered sync, so everything that was flushed must be there.
            Act::Mark(number) => {
                each(State { image: &flushed, left: CutState::Subset, index, mark: Some(*number) });
            }
        }
        if since.len() > 1 {
            let mut some = flushed.clone();
            for (at, bytes) in &since {
                if lot.below(2) == 0 {
                    some.write(*at, bytes);
                }
            }
            each(State { image: &some, left: CutState::Subset, index, mark: None });
        }
    }
    image
}
