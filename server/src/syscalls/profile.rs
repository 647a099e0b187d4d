//! Profiles.

use abi::{
    Rights, Status, ZX_DEFAULT_PROFILE_RIGHTS, ZX_POL_NEW_PROFILE, ZX_RSRC_SYSTEM_PROFILE_BASE, zx_profile_info_t,
};
use objects::core::handle::HandleValue;
use objects::machine::Machine;
use objects::memory::vmar::Vmar;
use objects::task::profile::Profile;
use objects::task::thread::Thread;

use crate::cx::Cx;
use crate::syscalls::resource::need_system;
use crate::user::{In, Out};

/// Creates a profile.
pub fn profile_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    resource: HandleValue,
    options: u32,
    info: In<zx_profile_info_t>,
    out: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    cx.may(ZX_POL_NEW_PROFILE)?;
    // A handle for another facility of the system gives `ACCESS_DENIED`, as Zircon's own tests require.
    need_system(cx, resource, ZX_RSRC_SYSTEM_PROFILE_BASE).map_err(|status| match status {
        Status::OUT_OF_RANGE => Status::ACCESS_DENIED,
        other => other,
    })?;
    let profile = Profile::new(&cx.read(info)?)?;
    let profile = cx.kernel.profile_create(profile)?;
    cx.hand_out(profile, ZX_DEFAULT_PROFILE_RIGHTS, out)
}

/// Assigns a profile to a thread or a VMAR.
pub fn object_set_profile<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    profile: HandleValue,
    options: u32,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let profile = cx.get::<Profile>(profile, Rights::APPLY_PROFILE)?;
    let target = cx.get_any(value, Rights::NONE)?;
    let thread = cx.kernel.objects.typed::<Thread>(target.object).ok();
    if thread.is_none() {
        cx.kernel.objects.typed::<Vmar>(target.object)?;
    }
    let needed = if thread.is_some() { Rights::MANAGE_THREAD } else { Rights::OP_CHILDREN };
    if !target.rights.contains(needed) {
        return Err(Status::ACCESS_DENIED);
    }
    if let Some(thread) = thread {
        return cx.kernel.thread_set_profile(thread, profile);
    }
    // The server never evicts memory, whatever the priority of its VMAR.
    match cx.kernel.objects.get(profile)? {
        Profile::Memory => Ok(()),
        Profile::Thread { .. } => Err(Status::WRONG_TYPE),
    }
}
