//! A map from page numbers to small values, stored as runs of equal values.

use alloc::collections::BTreeMap;
use core::ops::Range;

/// See the module's description. Runs do not overlap, none is empty, and neighbours that touch differ.
pub(crate) struct RunMap<T> {
    /// By first page: the page after the last one, and the value.
    runs: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for RunMap<T> {
    fn default() -> Self {
        RunMap { runs: BTreeMap::new() }
    }
}

impl<T: Copy + PartialEq> RunMap<T> {
    /// Number of runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Of the runs that begin in a range, the first page of the one that has `count` before it.
    pub fn nth(&self, range: Range<u64>, count: usize) -> Option<u64> {
        if range.is_empty() { None } else { self.runs.range(range).nth(count).map(|(&start, _)| start) }
    }

    /// Of the runs that begin in a range, the page after the one that has `count` after it.
    pub fn nth_back(&self, range: Range<u64>, count: usize) -> Option<u64> {
        let nth = if range.is_empty() { None } else { self.runs.range(range.clone()).nth_back(count) };
        nth.map(|(_, &(end, _))| end.min(range.end))
    }

    /// Whether a range begins or ends in the middle of a run.
    pub fn cuts(&self, range: &Range<u64>) -> bool {
        let within = |page| self.runs.range(..page).next_back().is_some_and(|(_, &(end, _))| page < end);
        within(range.start) || within(range.end)
    }

    /// Removes up to `count` runs. Says whether there was one.
    pub fn forget_some(&mut self, count: usize) -> bool {
        (0..count).map_while(|_| self.runs.pop_last()).count() != 0
    }

    /// The value of a page.
    pub fn get(&self, page: u64) -> Option<T> {
        let (_, &(end, value)) = self.runs.range(..=page).next_back()?;
        (page < end).then_some(value)
    }

    /// The first run, or part of one, within a range.
    pub fn first(&self, range: Range<u64>) -> Option<(Range<u64>, T)> {
        if range.is_empty() {
            return None;
        }
        if let Some((_, &(end, value))) = self.runs.range(..=range.start).next_back()
            && range.start < end
        {
            return Some((range.start..end.min(range.end), value));
        }
        let (&start, &(end, value)) = self.runs.range(range.clone()).next()?;
        Some((start..end.min(range.end), value))
    }

    /// The values of `count` pages from `from` up, renumbered from 0.
    pub fn part(&self, from: u64, count: u64) -> RunMap<T> {
        let mut part = RunMap::default();
        let (mut at, end) = (from, from.saturating_add(count));
        while let Some((run, value)) = self.first(at..end) {
            at = run.end;
            part.runs.insert(run.start - from, (run.end - from, value));
        }
        part
    }

    /// Sets all pages of a range to a value, or clears them.
    pub fn set(&mut self, range: Range<u64>, value: Option<T>) {
        if range.is_empty() {
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        while let Some((&start, _)) = self.runs.range(range.clone()).next() {
            self.runs.remove(&start);
        }
        let Some(value) = value else { return };
        let Range { mut start, mut end } = range;
        if let Some((&before, &(touching, same))) = self.runs.range(..start).next_back()
            && touching == start
            && same == value
        {
            start = before;
        }
        if let Some(&(after, same)) = self.runs.get(&end)
            && same == value
        {
            self.runs.remove(&end);
            end = after;
        }
        self.runs.insert(start, (end, value));
    }

    /// Maps the existing values of a range through `to`; `None` clears a value.
    pub fn change(&mut self, range: Range<u64>, to: impl Fn(T) -> Option<T>) {
        let mut at = range.start;
        while let Some((part, value)) = self.first(at..range.end) {
            at = part.end;
            let new = to(value);
            if new != Some(value) {
                self.set(part, new);
            }
        }
    }

    /// Splits the run that a page is in the middle of.
    fn cut(&mut self, page: u64) {
        if let Some((_, run)) = self.runs.range_mut(..page).next_back()
            && page < run.0
        {
            let (end, value) = core::mem::replace(run, (page, run.1));
            self.runs.insert(page, (end, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0u8..4, 0u64..40, 0u64..12), 0..60)) {
            let mut runs = RunMap::default();
            let mut model = BTreeMap::<u64, u8>::new();
            for (value, start, len) in ops {
                let range = start..start + len;
                if value == 3 {
                    runs.change(range.clone(), |old| (old != 1).then_some(1));
                    for page in range.clone() {
                        match model.get(&page) {
                            Some(1) => drop(model.remove(&page)),
                            Some(_) => drop(model.insert(page, 1)),
                            None => {}
                        }
                    }
                } else {
                    runs.set(range.clone(), (value > 0).then_some(value));
                    for page in range.clone() {
                        if value > 0 { model.insert(page, value) } else { model.remove(&page) };
                    }
                }
                for page in 0..60 {
                    prop_assert_eq!(runs.get(page), model.get(&page).copied());
                }
                let first = model.range(range.clone()).next().map(|(&page, &value)| (page, value));
                prop_assert_eq!(runs.first(range).map(|(part, value)| (part.start, value)), first);
                let mut last: Option<(u64, u8)> = None;
                for (&start, &(end, value)) in &runs.runs {
                    prop_assert!(start < end);
                    prop_assert!(last.is_none_or(|(before, same)| before < start || before == start && same != value));
                    last = Some((end, value));
                }
            }
        }
    }
}
