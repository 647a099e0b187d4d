//! Job policies: what processes below a job may do.

use crate::zx_duration_t;

consts! { TABLE;
    [u32]
        /// `zx_job_set_policy`: what the parent has set stays.
        ZX_JOB_POL_RELATIVE = 0;
        /// `zx_job_set_policy`: all or nothing.
        ZX_JOB_POL_ABSOLUTE = 1;
        /// Topic: an array of [`zx_policy_basic_v1_t`].
        ZX_JOB_POL_BASIC_V1 = 0;
        /// Topic: an array of [`zx_policy_basic_v2_t`].
        ZX_JOB_POL_BASIC_V2 = 0x0100_0000;
        /// The same as `ZX_JOB_POL_BASIC_V1`.
        ZX_JOB_POL_BASIC = 0;
        /// Topic: a [`zx_policy_timer_slack_t`].
        ZX_JOB_POL_TIMER_SLACK = 1;
        /// A value that names no handle is used.
        ZX_POL_BAD_HANDLE = 0;
        /// A handle of the wrong type is used.
        ZX_POL_WRONG_OBJECT = 1;
        /// Memory is mapped writable and executable.
        ZX_POL_VMAR_WX = 2;
        /// Any object is made: stands for all `ZX_POL_NEW_*`.
        ZX_POL_NEW_ANY = 3;
        /// A VMO is made.
        ZX_POL_NEW_VMO = 4;
        /// A channel is made.
        ZX_POL_NEW_CHANNEL = 5;
        /// An event is made.
        ZX_POL_NEW_EVENT = 6;
        /// An event pair is made.
        ZX_POL_NEW_EVENTPAIR = 7;
        /// A port is made.
        ZX_POL_NEW_PORT = 8;
        /// A socket is made.
        ZX_POL_NEW_SOCKET = 9;
        /// A FIFO is made.
        ZX_POL_NEW_FIFO = 10;
        /// A timer is made.
        ZX_POL_NEW_TIMER = 11;
        /// A process is made.
        ZX_POL_NEW_PROCESS = 12;
        /// A profile is made.
        ZX_POL_NEW_PROFILE = 13;
        /// A pager is made.
        ZX_POL_NEW_PAGER = 14;
        /// A VMO is made executable without a resource.
        ZX_POL_AMBIENT_MARK_VMO_EXEC = 15;
        /// An IOBuffer is made.
        ZX_POL_NEW_IOB = 16;
        /// A sampler is made.
        ZX_POL_NEW_SAMPLER = 17;
        /// Conditions are numbered below this.
        ZX_POL_MAX = 18;
        /// The call goes on.
        ZX_POL_ACTION_ALLOW = 0;
        /// The call fails.
        ZX_POL_ACTION_DENY = 1;
        /// An exception, then the call goes on.
        ZX_POL_ACTION_ALLOW_EXCEPTION = 2;
        /// An exception, then the call fails.
        ZX_POL_ACTION_DENY_EXCEPTION = 3;
        /// The process is killed.
        ZX_POL_ACTION_KILL = 4;
        /// Actions are numbered below this.
        ZX_POL_ACTION_MAX = 5;
        /// Jobs below may set this condition.
        ZX_POL_OVERRIDE_ALLOW = 0;
        /// Jobs below may not set this condition.
        ZX_POL_OVERRIDE_DENY = 1;
        /// Timers may fire earlier or later.
        ZX_TIMER_SLACK_CENTER = 0;
        /// Timers may fire earlier.
        ZX_TIMER_SLACK_EARLY = 1;
        /// Timers may fire later.
        ZX_TIMER_SLACK_LATE = 2;
        /// `zx_job_set_critical`: only if the process returns something else than zero.
        ZX_JOB_CRITICAL_PROCESS_RETCODE_NONZERO = 1;
}

structs! { STRUCTS;
    #[doc = "A condition and what shall happen."]
    struct zx_policy_basic_v1_t {
        /// `ZX_POL_*`
        condition: u32,
        /// `ZX_POL_ACTION_*`
        policy: u32,
    }
    #[doc = "A condition, what shall happen, and whether jobs below may change it."]
    struct zx_policy_basic_v2_t {
        /// `ZX_POL_*`
        condition: u32,
        /// `ZX_POL_ACTION_*`
        action: u32,
        /// `ZX_POL_OVERRIDE_*`
        flags: u32,
    }
    #[doc = "How exact timers of the job's processes are."]
    struct zx_policy_timer_slack_t {
        /// Nanoseconds.
        min_slack: zx_duration_t,
        /// `ZX_TIMER_SLACK_*`
        default_mode: u32,
        /// Zero.
        padding1: [u8; 4],
    }
}
