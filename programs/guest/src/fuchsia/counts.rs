//! What has happened in a run, so that a test can tell whether it tested what it should.

/// Names and numbers.
#[derive(Debug, Default)]
pub struct Counts {
    /// System calls.
    pub calls: u64,
    /// Page faults that were answered with a page.
    pub faults: u64,
    /// Pages that were copied because they were written and others had them, too.
    pub copies: u64,
    /// Kicks that found a program running.
    pub kicks: u64,
    /// Times that another process came to run because one's time was over.
    pub switches: u64,
    /// Handlers that were entered.
    pub signals: u64,
    /// Processes that were made by fork.
    pub forks: u64,
    /// Calls that are not answered here.
    pub unknown: u64,
}

impl Counts {
    /// One by its name.
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
