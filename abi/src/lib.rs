//! Zircon's system-call interface as data: numbers, constants, structures, support table.
//!
//! A *system call* here is a row of `syscalls/<noun>.toml`. The numbers ([`nr`]), the table [`SYSCALLS`], the vDSO's
//! entry points, the server's dispatch table, the C headers and the reference pages are generated from these rows. What
//! many calls share is in the modules of this crate: values in arguments (statuses, rights, signals, options) and
//! structures in memory.
//!
//! Constants and structures have Zircon's names, so Zircon's documentation applies to them literally. Each group is
//! also available as a table ([`CONSTANTS`], [`STRUCTS`]) for code that lists, checks or translates them.
#![no_std]
#![forbid(unsafe_code)]
// The names are Zircon's.
#![allow(non_camel_case_types)]

#[macro_use]
mod reflect;

mod arch;
mod clock;
mod exception;
mod info;
mod ipc;
mod limits;
mod object;
mod policy;
mod port;
mod processargs;
mod property;
mod regs;
mod resource;
mod rights;
mod signals;
mod status;
mod system;
mod table;
mod test_info;
mod topics;
mod types;
mod vdso;
mod vm;
mod vproc;

pub use arch::*;
pub use clock::*;
pub use exception::*;
pub use info::*;
pub use ipc::*;
pub use limits::*;
pub use object::*;
pub use policy::*;
pub use port::*;
pub use processargs::*;
pub use property::*;
pub use reflect::{Constant, Field, Struct};
pub use regs::*;
pub use resource::*;
pub use rights::*;
pub use signals::*;
pub use status::*;
pub use system::*;
pub use table::*;
pub use test_info::*;
pub use topics::*;
pub use types::*;
pub use vdso::*;
pub use vm::*;
pub use vproc::*;

/// Every constant of the interface, in groups.
pub const CONSTANTS: &[&[Constant]] = &[
    types::TABLE,
    limits::TABLE,
    object::TABLE,
    rights::TABLE,
    signals::TABLE,
    ipc::TABLE,
    port::TABLE,
    clock::TABLE,
    vm::TABLE,
    topics::TABLE,
    property::TABLE,
    policy::TABLE,
    exception::TABLE,
    regs::TABLE,
    vproc::TABLE,
    resource::TABLE,
    system::TABLE,
    processargs::TABLE,
];

/// Every structure of the interface, in groups. Within a group, a structure comes after those that it contains.
pub const STRUCTS: &[&[Struct]] = &[
    object::STRUCTS,
    ipc::STRUCTS,
    port::STRUCTS,
    clock::STRUCTS,
    vm::STRUCTS,
    info::STRUCTS,
    policy::STRUCTS,
    arch::STRUCTS,
    exception::STRUCTS,
    regs::STRUCTS,
    vproc::STRUCTS,
    system::STRUCTS,
    processargs::STRUCTS,
    vdso::STRUCTS,
];
