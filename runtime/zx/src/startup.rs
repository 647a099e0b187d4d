//! The handles that a program was started with. The C library keeps them; a handle can be taken once.

use crate::{Channel, Handle, HandleRef, Job, Process, Resource, Thread, Unowned, Vmar, sys};

unsafe extern "C" {
    safe fn zx_take_startup_handle(info: u32) -> sys::zx_handle_t;
    safe fn hafnon_startup_handle(info: u32) -> sys::zx_handle_t;
    safe fn zx_thread_self() -> sys::zx_handle_t;
    safe fn zx_process_self() -> sys::zx_handle_t;
    safe fn zx_vmar_root_self() -> sys::zx_handle_t;
    safe fn zx_job_default() -> sys::zx_handle_t;
    safe fn dl_set_loader_service(service: sys::zx_handle_t) -> sys::zx_handle_t;
}

/// Takes the startup handle of this type (`PA_*`) and argument.
pub fn take(kind: u32, arg: u16) -> Option<Handle> {
    Handle::from_raw(zx_take_startup_handle(kind | u32::from(arg) << 16))
}

/// What the root resource is called among startup handles (`PA_RESOURCE`).
const RESOURCE: u32 = 0x3f;

/// Takes the root resource, which only the first programs have.
pub fn take_resource() -> Option<Resource> {
    take(RESOURCE, 0).map(Resource::from)
}

/// The root resource, where it has not been taken. As long as nobody takes it, programs that this one starts get it too.
pub fn resource() -> Option<Unowned<'static, Resource>> {
    Unowned::from_raw(hafnon_startup_handle(RESOURCE))
}

/// A borrowed handle that the C library keeps; every program has these.
fn kept<T: From<Handle>>(raw: sys::zx_handle_t) -> Unowned<'static, T> {
    Unowned::from_raw(raw).expect("a program is started with handles to itself")
}

/// This process.
pub fn process_self() -> Unowned<'static, Process> {
    kept(zx_process_self())
}

/// The calling thread.
pub fn thread_self() -> Unowned<'static, Thread> {
    kept(zx_thread_self())
}

/// The whole address space of this process.
pub fn vmar_root_self() -> Unowned<'static, Vmar> {
    kept(zx_vmar_root_self())
}

/// The job for new processes, when there is one.
pub fn job_default() -> Option<Unowned<'static, Job>> {
    Unowned::from_raw(zx_job_default())
}

/// The calling thread's handle for calls that take any.
pub fn thread_self_ref() -> HandleRef<'static> {
    HandleRef::from_raw(zx_thread_self())
}

/// Makes `service` the one that gives this process its libraries, and the processes that it starts theirs. Gives the
/// one that did so before.
pub fn set_loader_service(service: Channel) -> Option<Channel> {
    Handle::from_raw(dl_set_loader_service(service.into_handle().into_raw())).map(Channel::from)
}
