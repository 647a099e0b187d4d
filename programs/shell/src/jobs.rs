//! Background jobs.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::group::{self, Group};
use crate::state::{Run, Shell};

/// How often a waiting thread checks whether its group was killed.
const LOOK: Duration = Duration::from_millis(20);

/// A background job.
pub struct Background {
    /// The number that `jobs` shows and `%NUMBER` names.
    pub number: usize,
    /// The command line.
    pub text: String,
    /// Its processes.
    pub group: Arc<Group>,
    status: Mutex<Option<i64>>,
    over: Condvar,
}

impl Background {
    /// Creates a job with the number after the shell's existing ones.
    pub fn new(shell: &Shell, text: String, group: Arc<Group>) -> Arc<Background> {
        let number = shell.jobs.iter().map(|job| job.number).max().unwrap_or(0) + 1;
        Arc::new(Background { number, text, group, status: Mutex::new(None), over: Condvar::new() })
    }

    /// Records its end.
    pub fn finish(&self, status: i64) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.over.notify_all();
    }

    /// Its status, if it has ended.
    pub fn status(&self) -> Option<i64> {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its end, or for the end of the waiting group.
    fn wait(&self, waiter: &Group) -> Option<i64> {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        while status.is_none() && !waiter.ended() {
            status = self.over.wait_timeout(status, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *status
    }
}

impl Shell {
    /// The job of a `%NUMBER` or an id; without either, the last one.
    pub fn job(&self, which: Option<&str>) -> Option<Arc<Background>> {
        match which {
            None | Some("%" | "%%" | "%+") => self.jobs.last(),
            Some(which) => match which.strip_prefix('%') {
                Some(number) => self.jobs.iter().find(|job| Some(job.number) == number.parse().ok()),
                None => self.jobs.iter().find(|job| Some(job.group.id()) == which.parse().ok()),
            },
        }
        .cloned()
    }

    /// `jobs`
    pub fn list_jobs(&mut self) -> Run {
        let lines: String = self.jobs.iter().map(|job| line(job)).collect();
        self.jobs.retain(|job| job.status().is_none());
        self.say(lines)
    }

    /// Reports jobs that have ended to the user, and forgets them.
    pub fn report_jobs(&mut self) {
        for job in self.jobs.iter().filter(|job| job.status().is_some()) {
            self.error_line(line(job).trim_end());
        }
        self.jobs.retain(|job| job.status().is_none());
    }

    /// `wait`: for all jobs, or for some.
    pub fn wait_for(&mut self, which: &[String]) -> Run {
        let mut status = 0;
        if which.is_empty() {
            for job in std::mem::take(&mut self.jobs) {
                if job.wait(&self.group).is_none() {
                    self.jobs.push(job);
                }
            }
            return Ok(if self.group.ended() { INTERRUPTED } else { 0 });
        }
        for which in which {
            let Some(job) = self.job(Some(which)) else {
                self.complain("wait", &format!("{which}: there is no such job"));
                status = 127;
                continue;
            };
            status = job.wait(&self.group).unwrap_or(INTERRUPTED);
            self.jobs.retain(|other| !Arc::ptr_eq(&job, other) || other.status().is_none());
        }
        Ok(status)
    }

    /// `fg`: waits for a job, which Ctrl-C then kills.
    pub fn to_foreground(&mut self, which: Option<&str>) -> Run {
        let Some(job) = self.job(which) else { return self.fail("fg", "there is no such job") };
        self.error_line(&job.text);
        let before = group::set_foreground(Some(job.group.clone()));
        let status = job.wait(&self.group);
        group::set_foreground(before);
        self.jobs.retain(|other| !Arc::ptr_eq(&job, other));
        Ok(status.unwrap_or(INTERRUPTED))
    }
}

/// The status of commands that the user interrupted.
pub const INTERRUPTED: i64 = 130;

fn line(job: &Background) -> String {
    let state = match job.status() {
        None => "running".to_owned(),
        Some(0) => "done".to_owned(),
        Some(status) => format!("ended with {status}"),
    };
    format!("[{}] {:<8} {state:<16} {}\n", job.number, job.group.id(), job.text)
}
