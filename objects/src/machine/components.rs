//! Optional: native components as clients.

use super::Aspace;
use crate::containers::growth::OutOfMemory;

/// Programs on the bare kernel that become clients of this system.
pub trait NativeComponents {
    /// Takes over the address space, and with it the thread, of a component that waits to become a client; returns the
    /// component's name, padded with zeroes. The first [`super::Threads::thread_create`] in that address space returns the
    /// waiting thread. When it is started, it receives the first argument of its start. If the thread or the address space is
    /// destroyed before that, it receives an error. Afterwards its calls fail.
    fn component_take(&mut self, _component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory> {
        Err(OutOfMemory)
    }
    /// Answers such a component that there is no memory for it.
    fn component_refuse(&mut self, _component: u8) {}
}
