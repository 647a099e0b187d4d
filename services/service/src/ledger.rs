//! Quotas of programs in a service.

use std::collections::HashMap;

/// A program that `init` started, with everything that it started itself: the koid of the job that `init` created for
/// it.
///
/// To the services that it uses, a service is a program, too. Each of its runs is a different program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Program(pub u64);

impl Program {
    /// `init` itself. It ends with the system, and only the total limits it.
    pub const INIT: Program = Program(0);
}

/// How much of one resource each program uses, and the total.
///
/// Two rules bound a program: it may have no more than `each`, and no more than what is still free afterwards. By the
/// second rule, the first program that allocates without end gets half, and half stays for others; the next one gets a
/// quarter, and so on. Only the total bounds `init`.
#[derive(Debug)]
pub struct Ledger {
    all: u64,
    each: u64,
    total: u64,
    used: HashMap<Program, u64>,
}

impl Ledger {
    /// Nothing is used. There is `all` of it, and a program may use at most `each`.
    pub fn new(all: u64, each: u64) -> Ledger {
        Ledger { all, each, total: 0, used: HashMap::new() }
    }

    /// Charges an amount to a program; returns whether it may have it. If not, nothing is charged.
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

    /// Returns an amount of a program, which never falls below zero.
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

    /// Clears the use of a program that has ended. Returns what it had.
    pub fn ended(&mut self, program: Program) -> u64 {
        let had = self.used.remove(&program).unwrap_or_default();
        self.total -= had;
        had
    }

    /// The use of a program.
    pub fn used(&self, program: Program) -> u64 {
        self.used.get(&program).copied().unwrap_or_default()
    }

    /// The total use.
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
    fn half_of_the_free_memory_stays_for_others() {
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
