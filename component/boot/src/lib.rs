//! The contract between the root task and a native component.
//!
//! A component is a program with one thread. The root task builds everything from the component's resource pool:
//!
//! 1. an **address space** ([`layout`]): the image, a stack, an IPC buffer, a page of facts ([`Facts`]), and its
//!    memory;
//! 2. a **capability space** of a few slots ([`cspace`]). It contains no capability to itself, so a component can
//!    neither make capabilities nor receive any: it has only what the root task put there;
//! 3. an **endpoint** to the root task ([`service`]).
#![no_std]
#![forbid(unsafe_code)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The layout of a component's address space. Addresses in bytes.
pub mod layout {
    /// The first address above the image's range.
    pub const IMAGE_END: u64 = STACK_GUARD;
    /// The guard page below the stack. It stays unmapped, so a stack overflow faults.
    pub const STACK_GUARD: u64 = 0x1000_0000;
    /// Bytes of stack above the guard.
    pub const STACK_SIZE: u64 = 64 << 10;
    /// The end of the stack.
    pub const STACK_TOP: u64 = STACK_GUARD + 4096 + STACK_SIZE;
    /// The IPC buffer.
    pub const IPC_BUFFER: u64 = 0x1010_0000;
    /// The page of facts, read-only.
    pub const FACTS: u64 = 0x1010_1000;
    /// The memory that the description gives it, initially zero.
    pub const MEMORY: u64 = 0x2000_0000;
    /// The window: the range where the server whose client it is maps pages that it shares with programs. Nothing else
    /// is mapped there, and no other range uses the same top-level page-table entries.
    pub const WINDOW: u64 = 0x80_0000_0000;
    /// The end of the window. The page there belongs to the server as well: arguments 5 to 8 of a call are at the same
    /// offsets as in the IPC buffer of a program's thread.
    pub const CALLS: u64 = 0x7ff0_0000_0000;
    /// The end of that page.
    pub const CALLS_END: u64 = CALLS + 4096;
}

/// The layout of a component's capability space.
pub mod cspace {
    /// Binary logarithm of the number of slots.
    pub const BITS: u8 = 4;
    /// The root task's endpoint, for requests.
    pub const ROOT: u64 = 1;
    /// The same endpoint, for faults.
    pub const FAULT: u64 = 2;
    /// The component's own endpoint, for receiving. Capabilities to the endpoints that it offers lead there.
    pub const ENDPOINT: u64 = 3;
    /// The endpoint of the server whose client it is, while it is one.
    pub const SERVER: u64 = 4;
}

/// Added to the labels of answers. Lower labels are the kernel's own errors, by which a caller notices that its
/// endpoint is gone.
pub const ANSWERS: u64 = 16;

/// Requests to the root task: calls on [`cspace::ROOT`]. The reply's label is the status.
pub mod service {
    /// Request: write a line of text. Word 0 holds its length in bytes, the following words the bytes.
    pub const LOG: u64 = 1;
    /// Request: become a client of the instance that the description names, for the first time or again. Words 0 and 1
    /// hold two addresses of the program: if an instruction from the first up to the second has a page fault in the
    /// window, the component continues at the second. The server answers, when it has time: word 0 holds the address of
    /// a [`super::Connection`], or a negative status.
    pub const CONNECT: u64 = 2;
    /// Done.
    pub const OK: u64 = 0;
    /// The request is undefined.
    pub const BAD_REQUEST: u64 = 1;
    /// There is no such instance, or it will not run again.
    pub const UNAVAILABLE: u64 = 2;
    /// The instance has not enough memory.
    pub const NO_MEMORY: u64 = 3;
}

/// The sender of a message, as encoded in the badge of a component's endpoint.
///
/// The root task makes the badge of every capability to such an endpoint: the upper bits tell the instance that it is
/// for and the offered name under which it was found. A server, or a program that deceives a server, can choose only
/// the other bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Badge {
    /// The number of the instance, in the order of the description.
    pub instance: u8,
    /// The index of the offered name.
    pub offer: u8,
    /// The value that the program chose which handed out the capability, below 2^[`Badge::BITS`].
    pub chosen: u32,
}

impl Badge {
    /// Bits that a program can choose.
    pub const BITS: u32 = 20;
    /// Bits for the offer. 4 more bits are for the instance.
    const OFFER_BITS: u32 = 4;

    /// Encodes it as a badge; never 0.
    pub const fn encode(self) -> u64 {
        let who = (self.instance as u64 + 1) << Self::OFFER_BITS | self.offer as u64 & 0xf;
        who << Self::BITS | self.chosen as u64 & ((1 << Self::BITS) - 1)
    }

    /// Decodes a received badge.
    pub const fn decode(word: u64) -> Badge {
        let who = word >> Self::BITS;
        Badge {
            instance: ((who >> Self::OFFER_BITS) as u8).wrapping_sub(1),
            offer: who as u8 & 0xf,
            chosen: word as u32 & ((1 << Self::BITS) - 1),
        }
    }
}

/// Identifies a page of facts of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hafnat\0\x01");

/// The page of facts.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Facts {
    /// [`MAGIC`].
    pub magic: u64,
    /// Bytes of memory at [`layout::MEMORY`].
    pub memory: u64,
    /// Counts of the processor's time-stamp counter per microsecond.
    pub megahertz: u64,
    /// The number of the component's current life; the first is 1.
    pub life: u64,
}

/// What a component finds when it has become a client of an instance: the handles of its process, and the conversion of
/// time. Behind it is memory for what calls read and write.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Connection {
    /// Its process.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// The window, as its process's root VMAR.
    pub vmar: u32,
    /// A channel that delivers the channel ends that programs have sent to the component.
    pub clients: u32,
    /// Bytes that are mapped from this structure on.
    pub room: u64,
    /// Nanoseconds are `(counter + offset) * numerator / denominator`. This is the offset.
    pub offset: u64,
    /// The numerator; see [`Connection::offset`].
    pub numerator: u32,
    /// The denominator; see [`Connection::offset`].
    pub denominator: u32,
    /// Counts per second.
    pub per_second: u64,
}
