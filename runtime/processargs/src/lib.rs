//! The processargs message: what a new process finds on its bootstrap channel.
//!
//! The creator of a process sends it one channel message with everything that it starts with: handles, each with a
//! word that says what it is for ([`HandleInfo`]), arguments, environment, names. The message begins with nine
//! little-endian words (protocol, version, then offsets and counts of the parts); strings end with a NUL.
//!
//! [`Message::parse`] checks a received message once and gives its parts; `Builder` (feature `alloc`) makes one.
//! [`ldsvc`] is the protocol of the loader service, which the first handles of a dynamically linked program lead to.
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
/// Bytes of the nine words.
pub const HEADER_SIZE: usize = 36;
/// The most bytes that a channel message holds.
pub const MAX_BYTES: usize = 65536;
/// The most handles that a channel message holds.
pub const MAX_HANDLES: usize = 64;

/// What a handle in the message is for: a type and an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleInfo {
    /// One of the `PA_*` types.
    pub kind: u8,
    /// Which of several: a file descriptor, an index.
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

    /// As the message and C programs hold it: `type | arg << 16`. The byte between has no meaning and is dropped.
    pub const fn from_word(word: u32) -> HandleInfo {
        HandleInfo { kind: word as u8, arg: (word >> 16) as u16 }
    }

    /// As the message and C programs hold it.
    pub const fn to_word(self) -> u32 {
        self.kind as u32 | (self.arg as u32) << 16
    }
}

/// The process itself.
pub const PA_PROC_SELF: u8 = 0x01;
/// The process's first thread.
pub const PA_THREAD_SELF: u8 = 0x02;
/// The job for new processes.
pub const PA_JOB_DEFAULT: u8 = 0x03;
/// The process's whole address space.
pub const PA_VMAR_ROOT: u8 = 0x04;
/// The region that the loaded image lies in.
pub const PA_VMAR_LOADED: u8 = 0x05;
/// Channel to the loader service.
pub const PA_LDSVC_LOADER: u8 = 0x10;
/// The vDSO's image.
pub const PA_VMO_VDSO: u8 = 0x11;
/// The first thread's stack.
pub const PA_VMO_STACK: u8 = 0x13;
/// The program's file, for the dynamic linker.
pub const PA_VMO_EXECUTABLE: u8 = 0x14;
/// The boot file system's image.
pub const PA_VMO_BOOTFS: u8 = 0x1b;
/// A directory of the name space; the argument is an index into the names.
pub const PA_NS_DIR: u8 = 0x20;
/// A file descriptor; the argument is its number.
pub const PA_FD: u8 = 0x30;
/// Life-cycle channel.
pub const PA_LIFECYCLE: u8 = 0x3a;
/// Request for the directory that the program serves.
pub const PA_DIRECTORY_REQUEST: u8 = 0x3b;
/// A resource.
pub const PA_RESOURCE: u8 = 0x3f;
/// The clock of universal time.
pub const PA_CLOCK_UTC: u8 = 0x40;
/// For programs' own use.
pub const PA_USER0: u8 = 0xf0;
/// For programs' own use.
pub const PA_USER1: u8 = 0xf1;
/// For programs' own use.
pub const PA_USER2: u8 = 0xf2;
