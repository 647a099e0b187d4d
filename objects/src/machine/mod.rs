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
mod registers;
mod threads;
mod time;
pub mod user_registers;
mod virtual_processors;

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
pub use registers::*;
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
