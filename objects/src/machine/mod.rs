//! The machine below the objects, as they see it.
//!
//! Objects use pages, address spaces, threads and time through a [`Machine`], which implements them: on seL4 in the
//! server, in plain memory for tests on the host ([`crate::fake::FakeMachine`]). All identifiers are small numbers that
//! the machine assigns. The objects never invent one, and return each exactly once.
//!
//! A machine is the sum of its roles. Each role is a trait of its own, in a file of its own:
//!
//! | role | trait |
//! |---|---|
//! | pages, and memory for small allocations | [`Memory`] |
//! | address spaces | [`AddressSpaces`] |
//! | threads | [`Threads`] |
//! | the clock and the alarm | [`Time`] |
//! | random numbers | [`Random`] |
//! | console, and the link to the host | [`Console`] |
//! | power | [`PowerSwitch`] |
//! | memory of devices | [`Devices`] |
//! | interrupts | [`Interrupts`] |
//! | optional: interrupts by message | [`MessageInterrupts`] |
//! | optional: I/O ports | [`PortIo`] |
//! | optional: endpoints of the kernel below | [`Endpoints`] |
//! | optional: runners, doorbells and upcalls of virtual processors | [`VirtualProcessors`] |
//! | optional: native components as clients | [`NativeComponents`] |
//!
//! The methods of an optional role have bodies that say that there is no such thing. A machine without it implements
//! the trait with an empty block, and the system calls that need it return `ZX_ERR_NOT_SUPPORTED`.
//!
//! No method blocks and none may panic on any argument that the objects can pass.

mod address_spaces;
mod components;
mod console;
mod devices;
mod endpoints;
mod interrupts;
mod memory;
mod message_interrupts;
pub(crate) mod port_grants;
mod port_io;
mod power;
mod random;
mod threads;
mod time;
mod virtual_processors;

pub use crate::arch::{DebugRegisters, FpuRegisters, PortWidth, Registers};
pub use address_spaces::*;
pub use components::*;
pub use console::*;
pub use devices::*;
pub use endpoints::*;
pub use interrupts::*;
pub use memory::*;
pub use message_interrupts::*;
pub use port_io::*;
pub use power::*;
pub use random::*;
pub use threads::*;
pub use time::*;
pub use virtual_processors::*;

/// All roles together: the bound of everything that uses a machine. A type has it by implementing the roles.
pub trait Machine:
    Memory
    + AddressSpaces
    + Threads
    + Time
    + Random
    + Console
    + PowerSwitch
    + Devices
    + Interrupts
    + MessageInterrupts
    + PortIo
    + Endpoints
    + VirtualProcessors
    + NativeComponents
{
}

impl<M> Machine for M where
    M: Memory
        + AddressSpaces
        + Threads
        + Time
        + Random
        + Console
        + PowerSwitch
        + Devices
        + Interrupts
        + MessageInterrupts
        + PortIo
        + Endpoints
        + VirtualProcessors
        + NativeComponents
{
}

#[cfg(test)]
mod tests {
    use abi::Status;

    use super::*;
    use crate::containers::growth::OutOfMemory;
    use crate::containers::name::Name;
    use crate::fake::FakeMachine;
    use crate::kernel::Kernel;

    struct Bare;
    impl MessageInterrupts for Bare {}
    impl PortIo for Bare {}
    impl Endpoints for Bare {}
    impl VirtualProcessors for Bare {}
    impl NativeComponents for Bare {}

    #[test]
    fn an_empty_block_says_that_there_is_nothing() {
        let mut bare = Bare;
        assert!(!bare.has_message_interrupts() && !bare.has_ports() && !bare.has_endpoints());
        assert!(!bare.has_virtual_processors() && !bare.runs_foreign());
        assert_eq!(bare.msi_alloc(1), Err(DeviceError::Denied));
        assert_eq!((bare.ports_usable(0, 1), bare.port_read(0, PortWidth::Word)), (false, 0xffff));
        assert_eq!(bare.endpoint_create(), Err(OutOfMemory));
        assert_eq!(bare.runner_create(Aspace(0), MachineEndpoint::Own(0), Priority::DEFAULT), Err(OutOfMemory));
        assert_eq!(bare.doorbell_create(MachineThread(0)), Err(OutOfMemory));
        assert!(bare.component_take(0).is_err());
    }

    #[test]
    fn calls_that_need_an_optional_role_are_not_supported() {
        let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
        kernel.machine.is_bare = true;
        let job = kernel.root_job().unwrap();
        let (process, _) = kernel.process_create(job, Name::new(b"p")).unwrap();
        let thread = kernel.thread_create(process, Name::new(b"t")).unwrap();
        kernel.process_begin(process, None).unwrap();
        kernel.thread_start(thread, &Registers::default()).unwrap();
        let vmo = kernel.vmo_create(PAGE, false).unwrap();
        assert_eq!(kernel.msi_allocate(1).err(), Some(Status::NOT_SUPPORTED));
        assert_eq!(kernel.ioports_set(process, 0x100, 1, true), Err(Status::NOT_SUPPORTED));
        assert_eq!(kernel.endpoint_create().err(), Some(Status::NOT_SUPPORTED));
        assert_eq!(kernel.endpoint_find(b"x").err(), Some(Status::NOT_SUPPORTED));
        assert_eq!(kernel.vproc_create(thread, false).err(), Some(Status::NOT_SUPPORTED));
        assert_eq!(kernel.restricted_bind(thread, vmo), Err(Status::NOT_SUPPORTED));
    }
}
