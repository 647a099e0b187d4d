//! What the root task and a native component agree on.
//!
//! A component is a program with one thread. The root task makes of its estate all that it is:
//!
//! 1. an **address space** ([`layout`]): the image, a stack, an IPC buffer, a page of facts ([`Facts`]), and its memory;
//! 2. a **capability space** of a few slots ([`cspace`]). It holds no capability to that space itself, so it can neither
//!    make capabilities nor be sent any: what it has is what the root task put there;
//! 3. an **endpoint** to the root task ([`service`]).
#![no_std]
#![forbid(unsafe_code)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where things stand in a component's address space. Addresses in bytes.
pub mod layout {
    /// The first address above what the image can take.
    pub const IMAGE_END: u64 = STACK_GUARD;
    /// The page below the stack; it stays unmapped, so that an overflow faults.
    pub const STACK_GUARD: u64 = 0x1000_0000;
    /// Bytes of stack above the guard.
    pub const STACK_SIZE: u64 = 64 << 10;
    /// The end of the stack.
    pub const STACK_TOP: u64 = STACK_GUARD + 4096 + STACK_SIZE;
    /// The IPC buffer.
    pub const IPC_BUFFER: u64 = 0x1010_0000;
    /// The page of facts, read-only.
    pub const FACTS: u64 = 0x1010_1000;
    /// The memory that the description gives it, all zero at its start.
    pub const MEMORY: u64 = 0x2000_0000;
    /// The window: where the server that it is a client of maps what it shares with programs, and nothing else. It has the
    /// tables of the processor's first level to itself.
    pub const WINDOW: u64 = 0x80_0000_0000;
    /// The end of the window. The page there is the server's as well: arguments 5 to 8 of a call stand where they would in the
    /// IPC buffer of a program's thread.
    pub const CALLS: u64 = 0x7ff0_0000_0000;
    /// The end of that page.
    pub const CALLS_END: u64 = CALLS + 4096;
}

/// Where capabilities stand.
pub mod cspace {
    /// Binary logarithm of the slots.
    pub const BITS: u8 = 4;
    /// The root task's endpoint, for requests.
    pub const ROOT: u64 = 1;
    /// The same endpoint, for faults.
    pub const FAULT: u64 = 2;
    /// The component's own endpoint, to receive from: what it offers leads there.
    pub const ENDPOINT: u64 = 3;
    /// The endpoint of the server that it is a client of, while it is one.
    pub const SERVER: u64 = 4;
}

/// What is added to the labels of answers: those below are the kernel's own errors, by which a caller sees that its endpoint
/// is gone.
pub const ANSWERS: u64 = 16;

/// Requests to the root task: calls on [`cspace::ROOT`]; the reply's label is the status.
pub mod service {
    /// Request: write a line of text. Word 0 holds its length in bytes, the words behind it the bytes.
    pub const LOG: u64 = 1;
    /// Request: become a client of the instance that the description names, or become it anew. Words 0 and 1 hold two
    /// addresses of the program: a page fault in the window at an instruction from the first on and before the second makes it go
    /// on at the second. The answer is the server's, and comes when it has time for it: word 0 holds the address of a
    /// [`super::Connection`], or a negative status.
    pub const CONNECT: u64 = 2;
    /// Done.
    pub const OK: u64 = 0;
    /// The request means nothing.
    pub const BAD_REQUEST: u64 = 1;
    /// There is no such instance, or it does not come back.
    pub const UNAVAILABLE: u64 = 2;
    /// The instance has no memory for what it takes.
    pub const NO_MEMORY: u64 = 3;
}

/// Who sent a message, as the badge of an endpoint of a component says it.
///
/// The badge of every capability to such an endpoint is made by the root task: the highest bits say which instance it is
/// for and which of the offered names it was found by. A server, and whoever deceives one, can choose the rest alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Badge {
    /// The number of the instance, in the order of the description.
    pub instance: u8,
    /// The number of the offered name.
    pub offer: u8,
    /// What the program that handed out the capability chose, below 2^[`Badge::BITS`].
    pub chosen: u32,
}

impl Badge {
    /// Bits that a program can choose.
    pub const BITS: u32 = 20;
    /// Bits for the offer. Another 4 are the instance's.
    const OFFER_BITS: u32 = 4;

    /// As the kernel has it; no badge of these is 0.
    pub const fn encode(self) -> u64 {
        let who = (self.instance as u64 + 1) << Self::OFFER_BITS | self.offer as u64 & 0xf;
        who << Self::BITS | self.chosen as u64 & ((1 << Self::BITS) - 1)
    }

    /// What the kernel delivered.
    pub const fn decode(word: u64) -> Badge {
        let who = word >> Self::BITS;
        Badge {
            instance: ((who >> Self::OFFER_BITS) as u8).wrapping_sub(1),
            offer: who as u8 & 0xf,
            chosen: word as u32 & ((1 << Self::BITS) - 1),
        }
    }
}

/// Marks a page of facts of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hafnat\0\x01");

/// The page of facts.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Facts {
    /// [`MAGIC`].
    pub magic: u64,
    /// Bytes of memory at [`layout::MEMORY`].
    pub memory: u64,
    /// How often the processor's counter counts in a microsecond.
    pub megahertz: u64,
    /// Which of its lives this is; the first is 1.
    pub life: u64,
}

/// What a component finds when it has become a client of an instance: the handles of its process, and how to tell the time.
/// Behind this there is memory for what calls read and write.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Connection {
    /// Its process.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// The window, as its process's root VMAR.
    pub vmar: u32,
    /// A channel from which come the ends of channels that programs have sent it.
    pub clients: u32,
    /// Bytes that are mapped from here on.
    pub room: u64,
    /// Nanoseconds are `(counter + offset) * numerator / denominator`.
    pub offset: u64,
    /// See above.
    pub numerator: u32,
    /// See above.
    pub denominator: u32,
    /// Counts in a second.
    pub per_second: u64,
}
