//! What routers are told about the IPv6 groups that this machine hears (MLDv2, RFC 3810): those in which others ask for
//! its addresses.
//!
//! A report says what is new, at once and a second later. A query is answered at a random time up to the one that it
//! names, with all groups, also if it is for one.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use smoltcp::time::{Duration, Instant};

use super::messages::Record;

/// Time after which a change is told again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often a change is told.
const TIMES: u8 = 2;
/// The longest time after which a query is answered.
const LONGEST: Duration = Duration::from_secs(10);

/// The groups, and what is still to be told.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    groups: BTreeSet<Ipv6Addr>,
    /// Changes, and how often they are still told.
    changes: Vec<(Record, Ipv6Addr, u8)>,
    change_at: Option<Instant>,
    answer_at: Option<Instant>,
}

impl Listener {
    /// Sets the groups.
    pub(crate) fn set(&mut self, groups: impl Iterator<Item = Ipv6Addr>, now: Instant) {
        let groups: BTreeSet<Ipv6Addr> = groups.collect();
        let left = self.groups.difference(&groups).map(|group| (Record::Leaves, *group));
        let new: Vec<_> = left.chain(groups.difference(&self.groups).map(|group| (Record::Joins, *group))).collect();
        for (record, group) in new {
            self.changes.retain(|change| change.1 != group);
            self.changes.push((record, group, TIMES));
            self.change_at = Some(now);
        }
        self.groups = groups;
    }

    /// The link has come again, perhaps to another switch: all groups are told again.
    pub(crate) fn tell_again(&mut self, now: Instant) {
        self.changes = self.groups.iter().map(|group| (Record::Joins, *group, TIMES)).collect();
        self.change_at = (!self.changes.is_empty()).then_some(now);
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
        self.change_at.into_iter().chain(self.answer_at).min()
    }

    /// The reports that are due.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Vec<(Record, Ipv6Addr)>> {
        let mut reports = Vec::new();
        if self.change_at.is_some_and(|at| at <= now) {
            reports.push(self.changes.iter().map(|(record, group, _)| (*record, *group)).collect());
            self.changes.retain_mut(|change| {
                change.2 -= 1;
                change.2 > 0
            });
            self.change_at = (!self.changes.is_empty()).then_some(now + AGAIN);
        }
        if self.answer_at.is_some_and(|at| at <= now) {
            self.answer_at = None;
            reports.push(self.groups.iter().map(|group| (Record::Is, *group)).collect());
        }
        reports
    }
}
