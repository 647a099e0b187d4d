//! Counts events of a run, so that a test can check that the run has exercised what it should.

/// The names and values of the counters.
#[derive(Debug, Default)]
pub struct Counts {
    /// System calls.
    pub calls: u64,
    /// Page faults that were resolved with a page.
    pub faults: u64,
    /// Pages that were copied on write because they were shared.
    pub copies: u64,
    /// Kicks that interrupted a running program.
    pub kicks: u64,
    /// Switches to another process at the end of a time slice.
    pub switches: u64,
    /// Signal handlers that were entered.
    pub signals: u64,
    /// Processes that fork created.
    pub forks: u64,
    /// System calls that the guest does not implement.
    pub unknown: u64,
}

impl Counts {
    /// A counter by name.
    pub fn get(&self, name: &str) -> Option<u64> {
        Some(match name {
            "calls" => self.calls,
            "faults" => self.faults,
            "copies" => self.copies,
            "kicks" => self.kicks,
            "switches" => self.switches,
            "signals" => self.signals,
            "forks" => self.forks,
            "unknown" => self.unknown,
            _ => return None,
        })
    }
}
