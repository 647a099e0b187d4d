//! Additional start handles of some programs: handles of type `PA_USER0`, distinguished by their arguments.

/// Type of these handles.
pub const KIND: u32 = 0xf0;
/// The job of all programs and services, with the rights to inspect and kill them.
pub const TASKS: u16 = 0;
/// A resource for seL4 endpoints, for programs that the system description names.
pub const ENDPOINTS: u16 = 2;
/// A resource for the statistics of the system, for the same programs as [`TASKS`].
pub const STATISTICS: u16 = 3;
/// An event on which `ZX_USER_SIGNAL_0` means that the user wants the foreground program to end.
pub const INTERRUPT: u16 = 1;
