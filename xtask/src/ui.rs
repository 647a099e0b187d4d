//! What a person sees while something takes long.
//!
//! A step that has nothing to do says nothing: a step is announced by its first activity. On a terminal it is one line
//! that changes and then goes away; elsewhere it is one plain line when it begins.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::words;

/// How to speak to the person.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    /// Show everything that tools say.
    pub verbose: bool,
    terminal: bool,
}

impl Ui {
    /// For this process' standard error.
    pub fn new(verbose: bool) -> Ui {
        Ui { verbose, terminal: stderr().is_terminal() }
    }

    /// Lines only, on a terminal too.
    pub fn plain() -> Ui {
        Ui { verbose: false, terminal: false }
    }

    /// A step; nothing is shown yet.
    pub fn step(&self, title: &str) -> Step {
        Step { ui: *self, title: title.to_string(), begun: None, bar: None }
    }

    /// A line of ours, on standard error.
    pub fn note(&self, text: &str) {
        words::say(&format!("hafnon: {text}"));
    }
}

/// Something that may take long.
#[derive(Debug)]
pub struct Step {
    ui: Ui,
    title: String,
    begun: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Step {
    /// Says that the step is at `what`.
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
