//! The processargs message: the start message on a new process's bootstrap channel.
//!
//! The creator of a process sends it one channel message with its initial state: handles, each with a word that says
//! its purpose ([`HandleInfo`]), arguments, environment, and names. The message begins with nine little-endian words
//! (protocol, version, then offsets and counts of the parts). Strings end with a NUL.
//!
//! [`Message::parse`] checks a received message once and returns its parts; `Builder` (feature `alloc`) builds one.
//! [`ldsvc`] is the protocol of the loader service; a dynamically linked program receives a channel to it in its first
//! message.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(feature = "alloc")]
mod builder;
pub mod ldsvc;
mod message;

#[cfg(feature = "alloc")]
pub use builder::{BuildError, Builder};
pub use message::{Error, Message, Strings};

/// First word of a message.
pub const PROTOCOL: u32 = 0x4150_585d;
/// Second word of a message.
pub const VERSION: u32 = 0x0000_1000;
/// Size of the header in bytes: nine words.
pub const HEADER_SIZE: usize = 36;
/// Limit on the bytes of a channel message.
pub const MAX_BYTES: usize = 65536;
/// Limit on the handles of a channel message.
pub const MAX_HANDLES: usize = 64;

/// Purpose of a handle in the message: a type and an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleInfo {
    /// One of the `PA_*` types.
    pub kind: u8,
    /// Distinguishes handles of the same type: a file descriptor or an index.
    pub arg: u16,
}

impl HandleInfo {
    /// A type without argument.
    pub const fn new(kind: u8) -> HandleInfo {
        HandleInfo { kind, arg: 0 }
    }

    /// A type with its argument.
    pub const fn with_arg(kind: u8, arg: u16) -> HandleInfo {
        HandleInfo { kind, arg }
    }

    /// Decodes the form in the message and in C programs: `type | arg << 16`. The byte in between has no meaning and is
    /// ignored.
    pub const fn from_word(word: u32) -> HandleInfo {
        HandleInfo { kind: word as u8, arg: (word >> 16) as u16 }
    }

    /// Encodes the form in the message and in C programs.
    pub const fn to_word(self) -> u32 {
        self.kind as u32 | (self.arg as u32) << 16
    }
}

/// The process itself.
pub const PA_PROC_SELF: u8 = 0x01;
/// The process's first thread.
pub const PA_THREAD_SELF: u8 = 0x02;
/// The job in which the process creates new processes.
pub const PA_JOB_DEFAULT: u8 = 0x03;
/// The root VMAR of the process.
pub const PA_VMAR_ROOT: u8 = 0x04;
/// The VMAR that holds the loaded image.
pub const PA_VMAR_LOADED: u8 = 0x05;
/// Channel to the loader service.
pub const PA_LDSVC_LOADER: u8 = 0x10;
/// The vDSO's VMO.
pub const PA_VMO_VDSO: u8 = 0x11;
/// VMO of the first thread's stack.
pub const PA_VMO_STACK: u8 = 0x13;
/// VMO of the program's file, for the dynamic linker.
pub const PA_VMO_EXECUTABLE: u8 = 0x14;
/// VMO of the BOOTFS image.
pub const PA_VMO_BOOTFS: u8 = 0x1b;
/// A directory of the name space; the argument is an index into the names.
pub const PA_NS_DIR: u8 = 0x20;
/// A file descriptor; the argument is its number.
pub const PA_FD: u8 = 0x30;
/// Life-cycle channel.
pub const PA_LIFECYCLE: u8 = 0x3a;
/// Server end of the directory that the program serves.
pub const PA_DIRECTORY_REQUEST: u8 = 0x3b;
/// A resource.
pub const PA_RESOURCE: u8 = 0x3f;
/// The UTC clock.
pub const PA_CLOCK_UTC: u8 = 0x40;
/// For the program's own use.
pub const PA_USER0: u8 = 0xf0;
/// For the program's own use.
pub const PA_USER1: u8 = 0xf1;
/// For the program's own use.
pub const PA_USER2: u8 = 0xf2;
