//! Jobs.

use abi::{
    Rights, Status, ZX_DEFAULT_JOB_RIGHTS, ZX_JOB_CRITICAL_PROCESS_RETCODE_NONZERO, ZX_JOB_POL_ABSOLUTE,
    ZX_JOB_POL_BASIC_V1, ZX_JOB_POL_BASIC_V2, ZX_JOB_POL_RELATIVE, ZX_JOB_POL_TIMER_SLACK, ZX_POL_MAX,
    ZX_POL_OVERRIDE_DENY, zx_policy_basic_v1_t, zx_policy_basic_v2_t, zx_policy_timer_slack_t,
};
use alloc::vec::Vec;
use objects::core::handle::HandleValue;
use objects::machine::Machine;
use objects::task::job::Job;
use objects::task::process::Process;

use crate::cx::Cx;
use crate::user::{In, Out};

/// Creates a job below a job.
pub fn job_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    parent: HandleValue,
    options: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let parent = cx.get::<Job>(parent, Rights::MANAGE_JOB)?;
    let job = cx.kernel.job_create(parent)?;
    cx.hand_out(job, ZX_DEFAULT_JOB_RIGHTS, out)
}

/// Sets a policy of a job without children: what its processes may do, or the slack of their timers.
pub fn job_set_policy<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    options: u32,
    topic: u32,
    policy: In<u8>,
    count: u32,
) -> Result<(), Status> {
    match topic {
        ZX_JOB_POL_BASIC_V1 | ZX_JOB_POL_BASIC_V2 => {
            if options != ZX_JOB_POL_RELATIVE && options != ZX_JOB_POL_ABSOLUTE || count == 0 {
                return Err(Status::INVALID_ARGS);
            }
            if count > ZX_POL_MAX {
                return Err(Status::OUT_OF_RANGE);
            }
            let entries = read_entries(cx, topic, policy, count as usize)?;
            let job = cx.get::<Job>(value, Rights::SET_POLICY)?;
            cx.kernel.job_set_policy(job, options, &entries)
        }
        ZX_JOB_POL_TIMER_SLACK => {
            if options != ZX_JOB_POL_RELATIVE || count != 1 {
                return Err(Status::INVALID_ARGS);
            }
            let slack = cx.read(In::<zx_policy_timer_slack_t>::new(policy.0))?;
            let job = cx.get::<Job>(value, Rights::SET_POLICY)?;
            cx.kernel.job_set_timer_slack(job, slack.min_slack, slack.default_mode)
        }
        _ => Err(Status::INVALID_ARGS),
    }
}

/// Reads policy entries in either version. The older version does not mention child jobs: they may not override it.
fn read_entries<M: Machine>(
    cx: &mut Cx<'_, M>,
    topic: u32,
    from: In<u8>,
    count: usize,
) -> Result<Vec<zx_policy_basic_v2_t>, Status> {
    if topic == ZX_JOB_POL_BASIC_V2 {
        return cx.read_array(In::new(from.0), count);
    }
    let old = cx.read_array(In::<zx_policy_basic_v1_t>::new(from.0), count)?;
    let new = |old: zx_policy_basic_v1_t| zx_policy_basic_v2_t {
        condition: old.condition,
        action: old.policy,
        flags: ZX_POL_OVERRIDE_DENY,
    };
    Ok(old.into_iter().map(new).collect())
}

/// Makes a process critical to a job: the job ends with it.
pub fn job_set_critical<M: Machine>(
    cx: &mut Cx<'_, M>,
    job: HandleValue,
    options: u32,
    process: HandleValue,
) -> Result<(), Status> {
    if options & !ZX_JOB_CRITICAL_PROCESS_RETCODE_NONZERO != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let job = cx.get::<Job>(job, Rights::DESTROY)?;
    let process = cx.get::<Process>(process, Rights::WAIT)?;
    cx.kernel.job_set_critical(job, process, options != 0)
}
