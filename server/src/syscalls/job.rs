//! Jobs.

use abi::{Rights, Status, ZX_DEFAULT_JOB_RIGHTS};
use objects::handle::HandleValue;
use objects::job::Job;
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::Out;

/// Creates a job in a job.
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
