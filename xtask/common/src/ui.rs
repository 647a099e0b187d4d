//! Progress output for the user.
//!
//! A step that has nothing to do prints nothing: the first activity announces it. On a terminal it is one line that
//! changes and then disappears; otherwise it is one plain line at the beginning.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::words;

/// How to print messages.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    /// Show the full output of tools.
    pub verbose: bool,
    terminal: bool,
}

impl Ui {
    /// For this process' standard error.
    pub fn new(verbose: bool) -> Ui {
        Ui { verbose, terminal: stderr().is_terminal() }
    }

    /// Plain lines only, even on a terminal.
    pub fn plain() -> Ui {
        Ui { verbose: false, terminal: false }
    }

    /// A step; nothing is shown yet.
    pub fn step(&self, title: &str) -> Step {
        Step { ui: *self, title: title.to_string(), begun: None, bar: None }
    }

    /// Prints a line of ours on standard error.
    pub fn note(&self, text: &str) {
        words::say(&format!("hafnon: {text}"));
    }
}

/// An operation that may take long.
#[derive(Debug)]
pub struct Step {
    ui: Ui,
    title: String,
    begun: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Step {
    /// Shows `what` as the current activity of the step.
    pub fn activity(&mut self, what: &str) {
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            if self.ui.terminal && !self.ui.verbose {
                let bar = ProgressBar::new_spinner().with_style(
                    ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg}")
                        .unwrap_or_else(|_| ProgressStyle::default_spinner()),
                );
                bar.set_prefix(self.title.clone());
                bar.enable_steady_tick(Duration::from_millis(120));
                self.bar = Some(bar);
            } else {
                words::say(&format!("hafnon: {}", self.title));
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_string());
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let (Some(bar), Some(begun)) = (self.bar.take(), self.begun) else { return };
        bar.finish_and_clear();
        if begun.elapsed() > Duration::from_secs(2) {
            words::say(&format!("hafnon: {} ({} s)", self.title, begun.elapsed().as_secs()));
        }
    }
}
