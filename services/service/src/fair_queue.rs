//! Fair scheduling of the work of several programs.
//!
//! A service reads all packets from its port, but works on them in turns: one step for each program with waiting steps.
//! So a program waits for one step of each other program, however many steps these have queued.

use std::collections::{BTreeMap, VecDeque};

use crate::Program;

/// Number of a program's requests that run before its own long work gets a step.
const BEFORE: u32 = 4;

/// Number of steps for which an empty queue keeps memory.
const KEPT: usize = 64;

/// Waiting steps, in order for each program.
#[derive(Debug)]
pub struct FairQueue<T> {
    steps: BTreeMap<Program, Steps<T>>,
    /// Those of the last program that had none left, for the next one.
    spare: Option<Steps<T>>,
    /// Programs with steps, each once; the first is next.
    order: VecDeque<Program>,
    len: usize,
}

/// The steps of a program.
#[derive(Debug)]
struct Steps<T> {
    requests: VecDeque<T>,
    /// Steps of long work.
    long: VecDeque<T>,
    /// Requests since the last step of long work.
    since: u32,
}

impl<T> Steps<T> {
    fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.long.is_empty()
    }

    /// Itself as new, without the memory of a long queue.
    fn emptied(mut self) -> Steps<T> {
        self.requests.shrink_to(KEPT);
        self.long.shrink_to(KEPT);
        self.since = 0;
        self
    }

    fn pop(&mut self) -> Option<T> {
        let long = self.requests.is_empty() || self.since >= BEFORE && !self.long.is_empty();
        self.since = if long { 0 } else { self.since + 1 };
        if long { self.long.pop_front() } else { self.requests.pop_front() }
    }
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue { steps: BTreeMap::new(), spare: None, order: VecDeque::new(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Adds a step. It comes after the program's waiting requests and before its long work.
    pub fn push(&mut self, program: Program, step: T) {
        self.steps(program).requests.push_back(step);
    }

    /// Adds a step of long work: requests of the same program run before it, a bounded number at a time.
    pub fn push_long(&mut self, program: Program, step: T) {
        self.steps(program).long.push_back(step);
    }

    fn steps(&mut self, program: Program) -> &mut Steps<T> {
        let spare = &mut self.spare;
        let none = || spare.take().unwrap_or(Steps { requests: VecDeque::new(), long: VecDeque::new(), since: 0 });
        let steps = self.steps.entry(program).or_insert_with(none);
        if steps.is_empty() {
            self.order.push_back(program);
        }
        self.len += 1;
        steps
    }

    /// Takes the first step of the program whose turn it is.
    pub fn pop(&mut self) -> Option<(Program, T)> {
        let program = self.order.pop_front()?;
        let steps = self.steps.get_mut(&program)?;
        let step = steps.pop()?;
        self.len -= 1;
        if steps.is_empty() {
            self.spare = self.steps.remove(&program).map(Steps::emptied);
        } else {
            self.order.push_back(program);
        }
        Some((program, step))
    }

    /// Whether no step waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Number of waiting steps.
    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::{FairQueue, Program};

    #[test]
    fn programs_take_turns_and_each_keeps_its_order() {
        let mut fair_queue = FairQueue::default();
        for step in 0..1000 {
            fair_queue.push(Program(1), step);
        }
        fair_queue.push(Program(2), 0);
        fair_queue.push(Program(2), 1);
        let first: Vec<(u64, u32)> =
            std::iter::from_fn(|| fair_queue.pop()).take(5).map(|(program, step)| (program.0, step)).collect();
        assert_eq!(first, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
        // A program that comes later waits for one step.
        fair_queue.push(Program(3), 7);
        assert_eq!(
            [fair_queue.pop(), fair_queue.pop()].map(|step| step.map(|(program, _)| program.0)),
            [Some(1), Some(3)]
        );
        assert_eq!(fair_queue.len(), 996);
        assert_eq!(std::iter::from_fn(|| fair_queue.pop()).count(), 996);
        assert!(fair_queue.is_empty() && fair_queue.steps.is_empty());
    }

    #[test]
    fn long_work_lets_requests_pass() {
        let mut fair_queue = FairQueue::default();
        for step in 0..50 {
            fair_queue.push_long(Program(1), step);
        }
        for step in 100..106 {
            fair_queue.push(Program(1), step);
        }
        let steps: Vec<u32> = std::iter::from_fn(|| fair_queue.pop()).take(9).map(|(_, step)| step).collect();
        assert_eq!(steps, [100, 101, 102, 103, 0, 104, 105, 1, 2]);
    }
}
