//! What some programs are started with beside what every program is: start handles of the kind `PA_USER0`, by their
//! arguments.

/// Kind of these handles.
pub const KIND: u32 = 0xf0;
/// The job of all programs and services, with the rights to look at them and to end them.
pub const TASKS: u16 = 0;
/// A resource for endpoints of the kernel beneath, for programs that the system description names.
pub const ENDPOINTS: u16 = 2;
/// An event on which `ZX_USER_SIGNAL_0` says that the user wants what runs in the foreground to end.
pub const INTERRUPT: u16 = 1;
