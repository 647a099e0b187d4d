//! Policies: which operations a job's processes may use, and what happens on a violation.
//!
//! Each *condition* (`ZX_POL_*`: a bad handle is used, an event is created, ...) has an *action* (`ZX_POL_ACTION_*`)
//! and a flag that says whether jobs below may change it. A new job has its parent's policy, which can be changed
//! before it has children. A process gets a copy when it is created, so a check does not walk up the tree.

use abi::{
    Status, ZX_JOB_POL_ABSOLUTE, ZX_POL_ACTION_ALLOW, ZX_POL_ACTION_MAX, ZX_POL_MAX, ZX_POL_NEW_ANY,
    ZX_POL_NEW_CHANNEL, ZX_POL_NEW_EVENT, ZX_POL_NEW_EVENTPAIR, ZX_POL_NEW_FIFO, ZX_POL_NEW_IOB, ZX_POL_NEW_PAGER,
    ZX_POL_NEW_PORT, ZX_POL_NEW_PROCESS, ZX_POL_NEW_PROFILE, ZX_POL_NEW_SAMPLER, ZX_POL_NEW_SOCKET, ZX_POL_NEW_TIMER,
    ZX_POL_NEW_VMO, ZX_POL_OVERRIDE_ALLOW, ZX_POL_OVERRIDE_DENY, ZX_TIMER_SLACK_CENTER, ZX_TIMER_SLACK_EARLY,
    ZX_TIMER_SLACK_LATE, zx_policy_basic_v2_t,
};

/// Number of bits per action.
const ACTION_BITS: u32 = 3;
const _: () = assert!(ZX_POL_ACTION_MAX <= 1 << ACTION_BITS && ZX_POL_MAX * ACTION_BITS <= u64::BITS);

/// The conditions covered by `ZX_POL_NEW_ANY`.
const NEW_ANY: [u32; 13] = [
    ZX_POL_NEW_VMO,
    ZX_POL_NEW_CHANNEL,
    ZX_POL_NEW_EVENT,
    ZX_POL_NEW_EVENTPAIR,
    ZX_POL_NEW_PORT,
    ZX_POL_NEW_SOCKET,
    ZX_POL_NEW_FIFO,
    ZX_POL_NEW_TIMER,
    ZX_POL_NEW_PROCESS,
    ZX_POL_NEW_PROFILE,
    ZX_POL_NEW_PAGER,
    ZX_POL_NEW_IOB,
    ZX_POL_NEW_SAMPLER,
];

/// A policy. The default one allows everything, and every job may change it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// [`ACTION_BITS`] for each condition.
    actions: u64,
    /// Bitmap of the conditions that jobs below may not change.
    fixed: u32,
    /// `ZX_TIMER_SLACK_*` for calls without their own mode.
    pub slack_mode: u32,
    /// Minimum timer slack, in nanoseconds. It only permits deadlines to be late; this kernel does not make use of it.
    pub min_slack: i64,
}

impl Policy {
    /// `ZX_POL_ACTION_*` of a condition.
    #[inline]
    pub fn action(&self, condition: u32) -> u32 {
        if condition >= ZX_POL_MAX {
            return ZX_POL_ACTION_ALLOW;
        }
        (self.actions >> (condition * ACTION_BITS)) as u32 & ((1 << ACTION_BITS) - 1)
    }

    fn is_fixed(&self, condition: u32) -> bool {
        self.fixed & 1 << condition != 0
    }

    fn set(&mut self, condition: u32, action: u32, fixed: bool) {
        let shift = condition * ACTION_BITS;
        self.actions = self.actions & !(((1 << ACTION_BITS) - 1) << shift) | u64::from(action) << shift;
        self.fixed = self.fixed & !(1 << condition) | u32::from(fixed) << condition;
    }

    /// This policy changed by `entries`; `options` (`ZX_JOB_POL_*`) says how to treat entries that it does not allow.
    /// Each entry is checked against the original policy, so a later one for the same condition wins.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: an unknown action. `INVALID_ARGS`: an unknown flag or condition. `ALREADY_EXISTS`: an entry is
    /// not allowed and `options` is absolute.
    pub fn with(&self, options: u32, entries: &[zx_policy_basic_v2_t]) -> Result<Policy, Status> {
        let mut new = *self;
        for entry in entries {
            if entry.action >= ZX_POL_ACTION_MAX {
                return Err(Status::NOT_SUPPORTED);
            }
            let known = matches!(entry.flags, ZX_POL_OVERRIDE_ALLOW | ZX_POL_OVERRIDE_DENY);
            if !known || entry.condition >= ZX_POL_MAX {
                return Err(Status::INVALID_ARGS);
            }
            let fixed = entry.flags == ZX_POL_OVERRIDE_DENY;
            let one = [entry.condition];
            let conditions = if entry.condition == ZX_POL_NEW_ANY { NEW_ANY.as_slice() } else { &one };
            for &condition in conditions {
                let same = fixed && self.action(condition) == entry.action;
                if !self.is_fixed(condition) {
                    new.set(condition, entry.action, fixed);
                } else if !same && options == ZX_JOB_POL_ABSOLUTE {
                    return Err(Status::ALREADY_EXISTS);
                }
            }
        }
        Ok(new)
    }

    /// This policy with another timer slack, which is never reduced.
    ///
    /// # Errors
    /// `INVALID_ARGS`: an unknown mode, or a negative slack.
    pub fn with_slack(&self, min_slack: i64, mode: u32) -> Result<Policy, Status> {
        if min_slack < 0 || !matches!(mode, ZX_TIMER_SLACK_CENTER | ZX_TIMER_SLACK_EARLY | ZX_TIMER_SLACK_LATE) {
            return Err(Status::INVALID_ARGS);
        }
        Ok(Policy { min_slack: self.min_slack.max(min_slack), slack_mode: mode, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::{ZX_JOB_POL_RELATIVE, ZX_POL_ACTION_DENY, ZX_POL_ACTION_KILL, ZX_POL_BAD_HANDLE, ZX_POL_VMAR_WX};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn entry(condition: u32, action: u32, flags: u32) -> zx_policy_basic_v2_t {
        zx_policy_basic_v2_t { condition, action, flags }
    }

    #[test]
    fn any_object_with_an_exception() {
        let entries = [
            entry(ZX_POL_NEW_ANY, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_DENY),
            entry(ZX_POL_NEW_CHANNEL, ZX_POL_ACTION_ALLOW, ZX_POL_OVERRIDE_DENY),
        ];
        let policy = Policy::default().with(ZX_JOB_POL_ABSOLUTE, &entries).unwrap();
        assert_eq!(policy.action(ZX_POL_NEW_CHANNEL), ZX_POL_ACTION_ALLOW);
        assert_eq!(policy.action(ZX_POL_NEW_SAMPLER), ZX_POL_ACTION_DENY);
        assert_eq!(policy.action(ZX_POL_VMAR_WX), ZX_POL_ACTION_ALLOW);
        assert_eq!(policy.action(u32::MAX), ZX_POL_ACTION_ALLOW);
    }

    #[test]
    fn fixed_policies_stay() {
        let fixed = [entry(ZX_POL_BAD_HANDLE, ZX_POL_ACTION_KILL, ZX_POL_OVERRIDE_DENY)];
        let policy = Policy::default().with(ZX_JOB_POL_ABSOLUTE, &fixed).unwrap();
        let other = [
            entry(ZX_POL_BAD_HANDLE, ZX_POL_ACTION_ALLOW, ZX_POL_OVERRIDE_DENY),
            entry(ZX_POL_VMAR_WX, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_ALLOW),
        ];
        assert_eq!(policy.with(ZX_JOB_POL_ABSOLUTE, &other), Err(Status::ALREADY_EXISTS));
        let relative = policy.with(ZX_JOB_POL_RELATIVE, &other).unwrap();
        assert_eq!(relative.action(ZX_POL_BAD_HANDLE), ZX_POL_ACTION_KILL);
        assert_eq!(relative.action(ZX_POL_VMAR_WX), ZX_POL_ACTION_DENY);
        // Repeating the same entry is no conflict; the same action with the override flag is one.
        assert_eq!(policy.with(ZX_JOB_POL_ABSOLUTE, &fixed), Ok(policy));
        let open = [entry(ZX_POL_BAD_HANDLE, ZX_POL_ACTION_KILL, ZX_POL_OVERRIDE_ALLOW)];
        assert_eq!(policy.with(ZX_JOB_POL_ABSOLUTE, &open), Err(Status::ALREADY_EXISTS));
    }

    #[test]
    fn slack_only_grows() {
        let policy = Policy::default().with_slack(100, ZX_TIMER_SLACK_LATE).unwrap();
        let less = policy.with_slack(10, ZX_TIMER_SLACK_EARLY).unwrap();
        assert_eq!((less.min_slack, less.slack_mode), (100, ZX_TIMER_SLACK_EARLY));
        assert_eq!(policy.with_slack(101, ZX_TIMER_SLACK_CENTER).unwrap().min_slack, 101);
        assert_eq!(policy.with_slack(-1, ZX_TIMER_SLACK_CENTER), Err(Status::INVALID_ARGS));
        assert_eq!(policy.with_slack(0, 3), Err(Status::INVALID_ARGS));
    }

    /// The model: a map from condition to action and flag.
    type Model = BTreeMap<u32, (u32, bool)>;

    fn apply(model: &Model, options: u32, entries: &[zx_policy_basic_v2_t]) -> Result<Model, Status> {
        let mut new = model.clone();
        for e in entries {
            if e.action >= ZX_POL_ACTION_MAX {
                return Err(Status::NOT_SUPPORTED);
            }
            if e.flags > 1 || e.condition >= ZX_POL_MAX {
                return Err(Status::INVALID_ARGS);
            }
            let all = |c: u32| c == e.condition || e.condition == 3 && (4..=14).chain(16..=17).any(|n| n == c);
            for c in (0..ZX_POL_MAX).filter(|&c| c != 3 || e.condition != 3).filter(|&c| all(c)) {
                match model.get(&c) {
                    Some((action, true)) => {
                        let agrees = *action == e.action && e.flags == 1;
                        if !agrees && options == ZX_JOB_POL_ABSOLUTE {
                            return Err(Status::ALREADY_EXISTS);
                        }
                    }
                    _ => {
                        new.insert(c, (e.action, e.flags == 1));
                    }
                }
            }
        }
        Ok(new)
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(
            calls in proptest::collection::vec(
                (0..2u32, proptest::collection::vec((0..=ZX_POL_MAX, 0..=ZX_POL_ACTION_MAX, 0..3u32), 0..6)),
                0..8,
            ),
        ) {
            let (mut policy, mut model) = (Policy::default(), Model::new());
            for (options, entries) in calls {
                // Most values are valid, so that most calls succeed in part.
                let tame = |(c, a, f): &(u32, u32, u32)| entry(*c, *a, if *f == 2 && c % 5 != 0 { 1 } else { *f });
                let entries: Vec<_> = entries.iter().map(tame).collect();
                let (real, expected) = (policy.with(options, &entries), apply(&model, options, &entries));
                prop_assert_eq!(real.err(), expected.as_ref().err().copied());
                if let (Ok(real), Ok(expected)) = (real, expected) {
                    (policy, model) = (real, expected);
                }
                for c in 0..ZX_POL_MAX {
                    let (action, fixed) = model.get(&c).copied().unwrap_or((0, false));
                    prop_assert_eq!((policy.action(c), policy.is_fixed(c)), (action, fixed));
                }
            }
        }
    }
}
