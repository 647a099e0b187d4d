//! The calls as a table, for use at run time: traces, logs, tests.

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallInfo {
    /// Its name without `zx_`.
    pub name: &'static str,
    /// Its noun.
    pub noun: &'static str,
    /// Its number.
    pub nr: u32,
    /// What answers it.
    pub via: Via,
    /// Whether it may block.
    pub blocking: bool,
    /// Whether it never returns.
    pub noreturn: bool,
    /// The type of its result, as in the definitions.
    pub returns: &'static str,
    /// How far it is implemented.
    pub support: Support,
    /// What it does to memory.
    pub memory: Memory,
    /// Its arguments in order.
    pub args: &'static [ArgInfo],
    /// The types and rights that its handles need.
    pub rights: &'static [RightInfo],
    /// The errors that it may return.
    pub errors: &'static [crate::Status],
}

/// The type and rights that a handle argument needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RightInfo {
    /// The argument.
    pub arg: &'static str,
    /// The type of object: a noun, `task` for jobs, processes and threads, or `any`.
    pub object: &'static str,
    /// The rights that it needs.
    pub needs: crate::Rights,
    /// Whether other arguments may ask for more.
    pub more: bool,
}

/// An argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgInfo {
    /// Its name.
    pub name: &'static str,
    /// Its type, or the type that it points to, as in the definitions.
    pub ty: &'static str,
    /// For a pointer: the direction of data.
    pub dir: Option<Dir>,
    /// For an array: the argument that holds the number of elements.
    pub len: Option<&'static str>,
    /// Whether the pointer may be null.
    pub optional: bool,
    /// Whether the handle, or the handles in the memory that it points to, leave the caller whatever the result is.
    pub consumed: bool,
}

/// What a call does to memory, which decides whether the server makes it when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It may keep memory: it is made only while there is a reserve.
    Keeps,
    /// It keeps no new memory. It is made while the rest of the heap lasts.
    None,
    /// It gives memory back: it is always made.
    Frees,
}

/// The direction of data through a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// The system reads it.
    In,
    /// The system writes it.
    Out,
    /// The system reads it, then writes it.
    InOut,
}

/// What answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The server.
    Server,
    /// The vDSO.
    Vdso,
}

/// How far a call is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// As in Zircon.
    Supported,
    /// With the described parts missing.
    Partial(&'static str),
    /// Not implemented: it returns `ZX_ERR_NOT_SUPPORTED`.
    Unsupported(&'static str),
}

/// The call with this number.
pub fn syscall(nr: u32) -> Option<&'static SyscallInfo> {
    SYSCALLS.binary_search_by_key(&nr, |call| call.nr).ok().map(|index| &SYSCALLS[index])
}

include!(concat!(env!("OUT_DIR"), "/syscalls.rs"));
