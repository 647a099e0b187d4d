//! Threads that write to a given address, and enter the kernel in between: they continue while memory is taken away
//! from them. Their code is one separate page, in an address space to which the driver has all capabilities.

use core::arch::global_asm;

use sel4::UserContext;

use crate::world::{FIELD, PAGE, POISON};

/// The address of the code in their address space.
pub const CODE: u64 = FIELD + 0x10_0000;

/// Numbers of system calls: Call, ReplyRecv, Send, NBSend, Recv, Reply, Yield, NBRecv, one that answers first, and an
/// invalid one.
pub const NUMBERS: [i64; 12] = [-1, -2, -2, -3, -4, -5, -5, -6, -7, -7, -66, 99];

// r12: address to write to, r13: value; rbx: the capability, rbp: the system call. A Yield follows, otherwise one poker
// would keep the others from running.
global_asm!(
    ".pushsection .text.pokers, \"ax\"",
    ".balign 16",
    "poker_begins:",
    "2: mov [r12], r13",
    "mov rdi, rbx",
    "mov esi, 1",
    "mov rdx, rbp",
    "syscall",
    "mov [r12], r13",
    "mov rdx, -7",
    "syscall",
    "jmp 2b",
    "poker_ends:",
    ".popsection",
);

unsafe extern "C" {
    static poker_begins: u8;
    static poker_ends: u8;
}

/// The code.
pub fn code() -> &'static [u8] {
    let (begin, end) = (&raw const poker_begins, &raw const poker_ends);
    // SAFETY: the code is between the two labels, in memory that is never written.
    unsafe { core::slice::from_raw_parts(begin, end.addr() - begin.addr()) }
}

/// The registers of a poker that writes to this address, and enters the kernel with this capability and system call.
pub fn registers(address: u64, cptr: u64, number: i64) -> UserContext {
    UserContext {
        rip: CODE,
        rsp: CODE + PAGE,
        rflags: 0x202,
        r12: address + 8 * (address >> 12 & 0xff),
        r13: POISON,
        rbx: cptr,
        rbp: number as u64,
        ..UserContext::default()
    }
}
