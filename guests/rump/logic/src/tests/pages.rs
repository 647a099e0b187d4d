//! The page allocator against a simple one.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use crate::{Pages, WrongFree};

proptest! {
    /// Runs do not overlap, are aligned, are the lowest that fit, and all memory comes back.
    #[test]
    fn runs_are_right(
        count in 1..300_usize,
        base in 0..70_usize,
        steps in prop::collection::vec((any::<bool>(), 1..40_usize, 0..6_u32, any::<prop::sample::Index>()), 1..120),
    ) {
        let mut map = vec![u64::MAX; Pages::words(count)];
        let mut pages = Pages::new(&mut map, count, base);
        let mut used = vec![false; count];
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (frees, len, align, which) in steps {
            if frees && !runs.is_empty() {
                let (start, len) = runs.swap_remove(which.index(runs.len()));
                prop_assert_eq!(pages.give(start, len), Ok(()));
                used[start..start + len].fill(false);
                prop_assert_eq!(pages.give(start, len), Err(WrongFree));
            } else {
                let align = 1 << align;
                let fits = |start: &usize| {
                    (base + start).is_multiple_of(align)
                        && used.get(*start..*start + len).is_some_and(|run| !run.contains(&true))
                };
                let expected = (0..count).find(fits);
                prop_assert_eq!(pages.take(len, align), expected);
                if let Some(start) = expected {
                    used[start..start + len].fill(true);
                    runs.push((start, len));
                }
            }
            prop_assert_eq!(pages.used(), used.iter().filter(|used| **used).count());
        }
        for (start, len) in runs {
            prop_assert_eq!(pages.give(start, len), Ok(()));
        }
        prop_assert_eq!(pages.used(), 0);
    }

    /// No argument makes it panic.
    #[test]
    fn any_arguments(count: usize, align: usize, start: usize, len: usize, base: usize) {
        let mut map = [0; 2];
        let mut pages = Pages::new(&mut map, 100, base);
        let taken = pages.take(count, align);
        prop_assert!(taken.is_none_or(|page| page + count <= 100));
        let _ = pages.give(start, len);
    }
}

#[test]
fn nothing_is_no_run() {
    let mut map = [0];
    let mut pages = Pages::new(&mut map, 64, 0);
    assert_eq!(pages.take(0, 1), None);
    assert_eq!(pages.take(1, 0), None);
    assert_eq!(pages.take(65, 1), None);
    assert_eq!(pages.take(64, 1), Some(0));
    assert_eq!(pages.take(1, 1), None);
    assert_eq!(pages.give(0, 0), Err(WrongFree));
    assert_eq!(pages.give(63, 2), Err(WrongFree));
    assert_eq!(pages.give(0, 64), Ok(()));
}
