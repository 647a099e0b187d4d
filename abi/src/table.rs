//! The calls as a table, for whatever wants to know them when it runs: traces, logs, tests.

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallInfo {
    /// Its name without `zx_`.
    pub name: &'static str,
    /// What it is about.
    pub noun: &'static str,
    /// Its number.
    pub nr: u32,
    /// Who answers it.
    pub via: Via,
    /// Whether it may wait for something.
    pub blocking: bool,
    /// Whether it never comes back.
    pub noreturn: bool,
    /// The type of its result, as the definitions name it.
    pub returns: &'static str,
    /// How far it is built.
    pub support: Support,
    /// What it does to memory.
    pub memory: Memory,
    /// Its arguments in order.
    pub args: &'static [ArgInfo],
    /// What its handles must be.
    pub rights: &'static [RightInfo],
    /// What it may answer where it does not do what is asked.
    pub errors: &'static [crate::Status],
}

/// What a handle that is an argument must be.
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
    /// Its type, or that of what it points to, as the definitions name it.
    pub ty: &'static str,
    /// For a pointer: which way data goes.
    pub dir: Option<Dir>,
    /// For an array: the argument that counts it.
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
    /// It keeps nothing that was not there before. It is made while the rest of the heap lasts.
    None,
    /// It gives memory back: it is always made.
    Frees,
}

/// Which way data goes through a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// The system reads it.
    In,
    /// The system writes it.
    Out,
    /// The system reads it, then writes it.
    InOut,
}

/// Who answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The server.
    Server,
    /// The vDSO.
    Vdso,
}

/// How far a call is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// As Zircon has it.
    Supported,
    /// With what is said missing.
    Partial(&'static str),
    /// Not: it answers `ZX_ERR_NOT_SUPPORTED`.
    Unsupported(&'static str),
}

/// The call with that number.
pub fn syscall(nr: u32) -> Option<&'static SyscallInfo> {
    SYSCALLS.binary_search_by_key(&nr, |call| call.nr).ok().map(|index| &SYSCALLS[index])
}

include!(concat!(env!("OUT_DIR"), "/syscalls.rs"));
