//! The system as a whole.

use abi::{
    Rights, Status, ZX_RSRC_KIND_ROOT, ZX_RSRC_KIND_SYSTEM, ZX_SYSTEM_POWERCTL_REBOOT, ZX_SYSTEM_POWERCTL_SHUTDOWN,
};
use objects::handle::HandleValue;
use objects::machine::{Machine, Power};
use objects::resource::Resource;

use crate::cx::Cx;
use crate::user::In;

/// Stops the machine.
pub fn system_powerctl<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    command: u32,
    _arg: In<abi::zx_system_powerctl_arg_t>,
) -> Result<(), Status> {
    let resource = cx.get::<Resource>(value, Rights::NONE)?;
    let kind = cx.kernel.objects.get(resource)?.kind;
    if kind != ZX_RSRC_KIND_ROOT && kind != ZX_RSRC_KIND_SYSTEM {
        return Err(Status::WRONG_TYPE);
    }
    let how = match command {
        ZX_SYSTEM_POWERCTL_SHUTDOWN => Power::Off,
        ZX_SYSTEM_POWERCTL_REBOOT => Power::Reboot,
        _ => return Err(Status::NOT_SUPPORTED),
    };
    cx.kernel.machine.power(how);
    Err(Status::INTERNAL)
}
