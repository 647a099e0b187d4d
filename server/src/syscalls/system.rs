//! The system as a whole.

use abi::{
    Rights, Status, ZX_DEFAULT_SYSTEM_EVENT_LOW_MEMORY_RIGHTS, ZX_RSRC_SYSTEM_POWER_BASE, ZX_SYSTEM_POWERCTL_REBOOT,
    ZX_SYSTEM_POWERCTL_SHUTDOWN,
};
use objects::core::handle::HandleValue;
use objects::machine::{Machine, Power};
use objects::memory::pressure::Level;
use objects::task::job::Job;

use crate::cx::Cx;
use crate::syscalls::resource::need_system;
use crate::user::{In, Out};

/// Switches off or reboots the machine.
pub fn system_powerctl<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    command: u32,
    _arg: In<abi::zx_system_powerctl_arg_t>,
) -> Result<(), Status> {
    need_system(cx, value, ZX_RSRC_SYSTEM_POWER_BASE)?;
    let how = match command {
        ZX_SYSTEM_POWERCTL_SHUTDOWN => Power::Off,
        ZX_SYSTEM_POWERCTL_REBOOT => Power::Reboot,
        _ => return Err(Status::NOT_SUPPORTED),
    };
    cx.kernel.machine.power(how);
    Err(Status::INTERNAL)
}

/// Returns the event that is signalled while memory pressure is at the level `kind`.
pub fn system_get_event<M: Machine>(
    cx: &mut Cx<'_, M>,
    job: HandleValue,
    kind: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    let job = cx.get::<Job>(job, Rights::MANAGE_PROCESS)?;
    if cx.kernel.root_job() != Ok(job) {
        return Err(Status::ACCESS_DENIED);
    }
    let level = Level::of_event(kind).ok_or(Status::INVALID_ARGS)?;
    let event = cx.kernel.pressure_event(level)?;
    let new = cx.kernel.give(cx.process, event.object(), ZX_DEFAULT_SYSTEM_EVENT_LOW_MEMORY_RIGHTS)?;
    cx.write(out, new).inspect_err(|_| cx.discard(new))
}
