//! Faults: the kernel's messages to a thread's fault endpoint, and the replies to them.
//!
//! A thread that holds its own fault endpoint can send a message that looks like a fault, so a decoded fault is only as
//! trustworthy as its sender. A reply resumes the thread; without a reply it stays stopped.

use crate::error::LookupFailure;
use crate::ipc;
use crate::message::{Message, MessageInfo, Received};

/// A fault of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields say it
pub enum Fault {
    /// A system call named a capability that does not exist.
    Cap { ip: u64, address: u64, receiving: bool, failure: LookupFailure },
    /// A `syscall` instruction with a number that the kernel does not know.
    UnknownSyscall(SyscallRegisters),
    /// A processor exception, such as 6, an invalid instruction, or 13, a protection fault (which I/O instructions also
    /// raise).
    Exception { ip: u64, sp: u64, flags: u64, number: u64, code: u64 },
    /// A page fault. `code` is the processor's error code: bit 0 set if the page is present, bit 1 for a write, bit 4
    /// for an instruction fetch.
    Page { ip: u64, address: u64, fetch: bool, code: u64 },
    /// A message of another kind, or too short for its kind.
    Other(MessageInfo),
}

/// The registers of a thread at an unknown system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct SyscallRegisters {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    /// The address of the `syscall` instruction, which is 2 bytes long.
    pub ip: u64,
    /// Only our patched 5.0.0 preserves it across `syscall`; other kernels resume the thread with 0 in it.
    pub sp: u64,
    pub flags: u64,
}

/// The labels of fault messages; the same in all supported kernels.
mod label {
    pub const CAP: u64 = 1;
    pub const UNKNOWN_SYSCALL: u64 = 2;
    pub const EXCEPTION: u64 = 3;
    pub const PAGE: u64 = 5;
}

const SYSCALL_REGISTERS: usize = 18;

impl Fault {
    /// Decodes a message from a fault endpoint. Must be called before the IPC buffer is used again.
    pub fn decode(received: &Received) -> Fault {
        let word = |i: usize| received.mr.get(i).copied().unwrap_or_else(|| ipc::message_word(i));
        match (received.info.label(), received.info.length()) {
            (label::CAP, 4..) => Fault::Cap {
                ip: word(0),
                address: word(1),
                receiving: word(2) != 0,
                failure: LookupFailure::decode(word(3), word(4), word(5)),
            },
            (label::UNKNOWN_SYSCALL, SYSCALL_REGISTERS..) => {
                Fault::UnknownSyscall(SyscallRegisters::from_words(core::array::from_fn(word)))
            }
            (label::EXCEPTION, 5..) => {
                Fault::Exception { ip: word(0), sp: word(1), flags: word(2), number: word(3), code: word(4) }
            }
            (label::PAGE, 4..) => Fault::Page { ip: word(0), address: word(1), fetch: word(2) != 0, code: word(3) },
            _ => Fault::Other(received.info),
        }
    }

    /// The reply that lets a thread repeat the faulting instruction.
    pub const RETRY: Message = Message::empty(0);

    /// The reply to an exception that resumes the thread with these registers.
    pub const fn resume_at(ip: u64, sp: u64, flags: u64) -> Message {
        Message { info: MessageInfo::new(0, 3), mr: [ip, sp, flags, 0] }
    }
}

impl SyscallRegisters {
    fn from_words(words: [u64; SYSCALL_REGISTERS]) -> Self {
        let [rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, ip, sp, flags] = words;
        Self { rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, ip, sp, flags }
    }

    /// The reply that resumes the thread with these registers. It fills the IPC buffer, so it must be sent next.
    pub fn reply(&self) -> Message {
        let Self { rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, ip, sp, flags } = *self;
        let rest = [rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, ip, sp, flags];
        for (word, value) in (4..).zip(rest) {
            ipc::set_message_word(word, value);
        }
        Message { info: MessageInfo::new(0, SYSCALL_REGISTERS), mr: [rax, rbx, rcx, rdx] }
    }
}
