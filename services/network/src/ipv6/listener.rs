//! What routers are told about the IPv6 groups that this machine hears (MLDv2, RFC 3810): those in which others ask for
//! its addresses, and those that programs have joined.
//!
//! A report says what is new, at once and a second later. A query is answered at a random time up to the one that it
//! names, with all groups, also if it is for one.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::ops::Bound;

use smoltcp::time::{Duration, Instant};

use super::messages::Record;

/// Time after which a change is told again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often a change is told.
const TIMES: u8 = 2;
/// The longest time after which a query is answered.
const LONGEST: Duration = Duration::from_secs(10);

/// Changes that are kept at most: more than programs can be members of groups.
const MOST_CHANGES: usize = 2048;
/// Groups that one report is about at most.
const MOST: usize = 60;

/// A change that is still to be told.
#[derive(Clone, Copy, Debug)]
struct Change {
    record: Record,
    group: Ipv6Addr,
    /// How often, and when next.
    times: u8,
    at: Instant,
}

/// The groups, and what is still to be told.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    groups: BTreeSet<Ipv6Addr>,
    changes: Vec<Change>,
    answer_at: Option<Instant>,
    /// The last group that the answer to a query has told, while others remain.
    answered: Option<Ipv6Addr>,
}

impl Listener {
    /// Sets the groups.
    pub(crate) fn set(&mut self, groups: BTreeSet<Ipv6Addr>, now: Instant) {
        let left = self.groups.difference(&groups).map(|group| (Record::Leaves, *group));
        let new: Vec<_> = left.chain(groups.difference(&self.groups).map(|group| (Record::Joins, *group))).collect();
        for (record, group) in new {
            self.changes.retain(|change| change.group != group);
            self.changes.push(Change { record, group, times: TIMES, at: now });
        }
        // A program can join and leave more groups than are told, while there is no link. The groups that were left first
        // are forgotten: routers find that out by their queries.
        let mut beyond = self.changes.len().saturating_sub(MOST_CHANGES);
        self.changes.retain(|change| {
            let goes = beyond > 0 && change.record == Record::Leaves;
            beyond -= usize::from(goes);
            !goes
        });
        self.groups = groups;
    }

    /// The link has come again, perhaps to another switch: all groups are told again.
    pub(crate) fn tell_again(&mut self, now: Instant) {
        let change = |group: &Ipv6Addr| Change { record: Record::Joins, group: *group, times: TIMES, at: now };
        self.changes = self.groups.iter().map(change).collect();
    }

    /// A router asks for the members of a group, or of all. `random` determines when it gets an answer.
    pub(crate) fn asked(&mut self, group: Option<Ipv6Addr>, within: Duration, random: u64, now: Instant) {
        if group.is_some_and(|group| !self.groups.contains(&group)) || self.groups.is_empty() {
            return;
        }
        let within = within.min(LONGEST);
        // Another query hastens the answer only if it leaves less time.
        if self.answer_at.is_none_or(|at| at > now + within) {
            self.answer_at = Some(now + Duration::from_micros(random % within.total_micros().max(1)));
        }
    }

    /// When [`Listener::due`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.changes.iter().map(|change| change.at).chain(self.answer_at).min()
    }

    /// The reports that are due, two at most. If there are more, the next call returns them.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Vec<(Record, Ipv6Addr)>> {
        let mut reports = Vec::new();
        let mut told = Vec::new();
        for change in self.changes.iter_mut().filter(|change| change.at <= now).take(MOST) {
            told.push((change.record, change.group));
            (change.times, change.at) = (change.times - 1, now + AGAIN);
        }
        self.changes.retain(|change| change.times > 0);
        if !told.is_empty() {
            reports.push(told);
        }
        if self.answer_at.is_some_and(|at| at <= now) {
            let rest = self.answered.map_or(Bound::Unbounded, Bound::Excluded);
            let told: Vec<_> = self.groups.range((rest, Bound::Unbounded)).take(MOST).copied().collect();
            self.answered = told.last().copied().filter(|_| told.len() == MOST);
            if self.answered.is_none() {
                self.answer_at = None;
            }
            if !told.is_empty() {
                reports.push(told.into_iter().map(|group| (Record::Is, group)).collect());
            }
        }
        reports
    }
}
