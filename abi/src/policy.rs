//! Job policies: what the processes of a job may do.

use crate::zx_duration_t;

consts! { TABLE;
    [u32]
        /// `zx_job_set_policy`: settings of the parent take precedence.
        ZX_JOB_POL_RELATIVE = 0;
        /// `zx_job_set_policy`: all entries are set, or none.
        ZX_JOB_POL_ABSOLUTE = 1;
        /// Topic: an array of [`zx_policy_basic_v1_t`].
        ZX_JOB_POL_BASIC_V1 = 0;
        /// Topic: an array of [`zx_policy_basic_v2_t`].
        ZX_JOB_POL_BASIC_V2 = 0x0100_0000;
        /// Another name of `ZX_JOB_POL_BASIC_V1`.
        ZX_JOB_POL_BASIC = 0;
        /// Topic: a [`zx_policy_timer_slack_t`].
        ZX_JOB_POL_TIMER_SLACK = 1;
        /// A value is used that is no valid handle.
        ZX_POL_BAD_HANDLE = 0;
        /// A handle of the wrong type is used.
        ZX_POL_WRONG_OBJECT = 1;
        /// Memory is mapped writable and executable.
        ZX_POL_VMAR_WX = 2;
        /// An object of any type is created: stands for all `ZX_POL_NEW_*`.
        ZX_POL_NEW_ANY = 3;
        /// A VMO is created.
        ZX_POL_NEW_VMO = 4;
        /// A channel is created.
        ZX_POL_NEW_CHANNEL = 5;
        /// An event is created.
        ZX_POL_NEW_EVENT = 6;
        /// An event pair is created.
        ZX_POL_NEW_EVENTPAIR = 7;
        /// A port is created.
        ZX_POL_NEW_PORT = 8;
        /// A socket is created.
        ZX_POL_NEW_SOCKET = 9;
        /// A FIFO is created.
        ZX_POL_NEW_FIFO = 10;
        /// A timer is created.
        ZX_POL_NEW_TIMER = 11;
        /// A process is created.
        ZX_POL_NEW_PROCESS = 12;
        /// A profile is created.
        ZX_POL_NEW_PROFILE = 13;
        /// A pager is created.
        ZX_POL_NEW_PAGER = 14;
        /// A VMO is made executable without a resource.
        ZX_POL_AMBIENT_MARK_VMO_EXEC = 15;
        /// An IOBuffer is created.
        ZX_POL_NEW_IOB = 16;
        /// A sampler is created.
        ZX_POL_NEW_SAMPLER = 17;
        /// All conditions are lower than this.
        ZX_POL_MAX = 18;
        /// The call continues.
        ZX_POL_ACTION_ALLOW = 0;
        /// The call fails.
        ZX_POL_ACTION_DENY = 1;
        /// The thread gets an exception, then the call continues.
        ZX_POL_ACTION_ALLOW_EXCEPTION = 2;
        /// The thread gets an exception, then the call fails.
        ZX_POL_ACTION_DENY_EXCEPTION = 3;
        /// The process is killed.
        ZX_POL_ACTION_KILL = 4;
        /// All actions are lower than this.
        ZX_POL_ACTION_MAX = 5;
        /// Child jobs may override this condition.
        ZX_POL_OVERRIDE_ALLOW = 0;
        /// Child jobs may not override this condition.
        ZX_POL_OVERRIDE_DENY = 1;
        /// Timers may fire earlier or later.
        ZX_TIMER_SLACK_CENTER = 0;
        /// Timers may fire earlier.
        ZX_TIMER_SLACK_EARLY = 1;
        /// Timers may fire later.
        ZX_TIMER_SLACK_LATE = 2;
        /// `zx_job_set_critical`: only if the process's return code is not 0.
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
