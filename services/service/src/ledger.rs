//! Programs, and what each of them has.

use std::collections::HashMap;

/// A program that `init` started, with all that it started itself: the koid of the job that `init` made for it.
///
/// A service that uses others is a program for them, too; each run of it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Program(pub u64);

impl Program {
    /// `init` itself. It ends with the system, and no share of others is its limit.
    pub const INIT: Program = Program(0);
}

/// How much of one thing each program has, and all together.
///
/// Two rules bound a program: it may have no more than `each`, and no more than what is still free afterwards. By the
/// second the first one that takes without end gets half, and half stays for others; the next one gets a quarter, and
/// so on. `init` is bound by what there is alone.
#[derive(Debug)]
pub struct Ledger {
    all: u64,
    each: u64,
    total: u64,
    used: HashMap<Program, u64>,
}

impl Ledger {
    /// Nobody has anything. There is `all` of it, and a program may have `each` at most.
    pub fn new(all: u64, each: u64) -> Ledger {
        Ledger { all, each, total: 0, used: HashMap::new() }
    }

    /// Counts so much more for a program; says whether it may have it. If not, nothing is counted.
    #[must_use = "what is refused is not counted"]
    pub fn take(&mut self, program: Program, amount: u64) -> bool {
        let (Some(has), Some(total)) = (self.used(program).checked_add(amount), self.total.checked_add(amount)) else {
            return false;
        };
        let Some(free) = self.all.checked_sub(total) else { return false };
        if program != Program::INIT && (has > self.each || has > free) {
            return false;
        }
        self.total = total;
        if has > 0 {
            self.used.insert(program, has);
        }
        true
    }

    /// Counts so much less for a program; never less than nothing.
    pub fn give(&mut self, program: Program, amount: u64) {
        let has = self.used(program);
        let amount = amount.min(has);
        self.total -= amount;
        if has == amount {
            self.used.remove(&program);
        } else {
            self.used.insert(program, has - amount);
        }
    }

    /// A program has nothing any more. Gives what it had.
    pub fn ended(&mut self, program: Program) -> u64 {
        let had = self.used.remove(&program).unwrap_or_default();
        self.total -= had;
        had
    }

    /// What a program has.
    pub fn used(&self, program: Program) -> u64 {
        self.used.get(&program).copied().unwrap_or_default()
    }

    /// What all have together.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_program_gets_its_limit_and_no_more() {
        let mut ledger = Ledger::new(100, 10);
        assert!(ledger.take(Program(1), 10));
        assert!(!ledger.take(Program(1), 1));
        assert!(ledger.take(Program(2), 3));
        ledger.give(Program(1), 1);
        assert!(ledger.take(Program(1), 1));
        assert_eq!(ledger.ended(Program(1)), 10);
        assert_eq!((ledger.used(Program(1)), ledger.total()), (0, 3));
    }

    #[test]
    fn half_of_what_is_free_stays_for_others() {
        let mut ledger = Ledger::new(1000, 1000);
        for (program, expected) in [(1, 500), (2, 250), (3, 125)] {
            while ledger.take(Program(program), 1) {}
            assert_eq!(ledger.used(Program(program)), expected);
        }
        assert!(ledger.take(Program(4), 1));
    }

    #[test]
    fn init_may_have_all_there_is() {
        let mut ledger = Ledger::new(8, 2);
        assert!(ledger.take(Program::INIT, 8));
        assert!(!ledger.take(Program::INIT, 1));
    }

    #[test]
    fn extreme_amounts_are_refused() {
        let mut ledger = Ledger::new(u64::MAX, u64::MAX);
        assert!(ledger.take(Program(1), 1));
        assert!(!ledger.take(Program(1), u64::MAX));
        assert!(!ledger.take(Program::INIT, u64::MAX));
        ledger.give(Program(1), u64::MAX);
        assert_eq!(ledger.total(), 0);
    }

    proptest! {
        #[test]
        fn sums_are_right_and_limits_hold(steps in proptest::collection::vec((0u64..5, 0u64..40, 0u8..3), 0..200)) {
            let mut ledger = Ledger::new(100, 30);
            for (program, amount, what) in steps {
                let program = Program(program);
                match what {
                    0 => {
                        let before = ledger.used(program);
                        let taken = ledger.take(program, amount);
                        prop_assert_eq!(ledger.used(program), before + if taken { amount } else { 0 });
                    }
                    1 => ledger.give(program, amount),
                    _ => drop(ledger.ended(program)),
                }
                let sum: u64 = (0..5).map(|program| ledger.used(Program(program))).sum();
                prop_assert_eq!(sum, ledger.total());
                prop_assert!(ledger.total() <= 100);
                prop_assert!((1..5).all(|program| ledger.used(Program(program)) <= 30));
            }
        }
    }
}
