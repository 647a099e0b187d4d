//! The system calls themselves: the only place where the kernel is entered.
//!
//! Register convention (all supported kernels without MCS): rdx = number, rdi = capability, then badge; rsi = message
//! info; r10, r8, r9, r15 = the first four words. `syscall` overwrites rcx and r11. All other registers are preserved
//! except rsp, which 5.0.0 restores only with our patch; so it is saved in r14 (libsel4 uses rbx, which the compiler
//! reserves for itself).

use core::arch::asm;

use crate::CPtr;
use crate::generated::syscall as nr;
use crate::message::{Message, MessageInfo, Received};

/// Sends and then receives, in one kernel entry. `number` selects the operation; a number that first answers a thread
/// is not preserved in its register.
#[inline(always)]
pub(crate) fn exchange(number: i64, dest: u64, message: Message) -> Received {
    let (badge, info): (u64, u64);
    let [mut m0, mut m1, mut m2, mut m3] = message.mr;
    // SAFETY: follows the kernel's convention above; all registers that change are listed, and the IPC buffer, the only
    // memory that the kernel writes here, is accessed only by volatile or asm accesses.
    unsafe {
        asm!(
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            inlateout("rdx") number => _,
            inlateout("rdi") dest => badge,
            inlateout("rsi") message.info.0 => info,
            inlateout("r10") m0,
            inlateout("r8") m1,
            inlateout("r9") m2,
            inlateout("r15") m3,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
        );
    }
    Received { badge, info: MessageInfo(info), mr: [m0, m1, m2, m3] }
}

/// Only receives: the previous contents of the message registers do not matter.
#[inline(always)]
fn receive(number: i64, src: u64) -> Received {
    let (badge, info, m0, m1, m2, m3): (u64, u64, u64, u64, u64, u64);
    // SAFETY: as in `exchange`.
    unsafe {
        asm!(
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            in("rdx") number,
            inlateout("rdi") src => badge,
            lateout("rsi") info,
            lateout("r10") m0,
            lateout("r8") m1,
            lateout("r9") m2,
            lateout("r15") m3,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
        );
    }
    Received { badge, info: MessageInfo(info), mr: [m0, m1, m2, m3] }
}

/// Only sends. The registers are declared clobbered because the kernel answers an invocation in them even if no answer
/// was requested.
#[inline(always)]
fn submit(number: i64, dest: u64, message: Message) {
    let [m0, m1, m2, m3] = message.mr;
    // SAFETY: as in `exchange`.
    unsafe {
        asm!(
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            in("rdx") number,
            inlateout("rdi") dest => _,
            inlateout("rsi") message.info.0 => _,
            inlateout("r10") m0 => _,
            inlateout("r8") m1 => _,
            inlateout("r9") m2 => _,
            inlateout("r15") m3 => _,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
        );
    }
}

/// Only sends an empty message.
#[inline(always)]
fn poke(number: i64, dest: u64) {
    // SAFETY: as in `submit`.
    unsafe {
        asm!(
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            in("rdx") number,
            inlateout("rdi") dest => _,
            inlateout("rsi") 0_u64 => _,
            lateout("r10") _,
            lateout("r8") _,
            lateout("r9") _,
            lateout("r15") _,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
        );
    }
}

#[inline(always)]
pub(crate) fn call(dest: CPtr, message: Message) -> Message {
    exchange(nr::CALL, dest.0, message).message()
}

#[inline(always)]
pub(crate) fn reply_recv(src: CPtr, message: Message) -> Received {
    exchange(nr::REPLY_RECV, src.0, message)
}

#[inline(always)]
pub(crate) fn recv(src: CPtr) -> Received {
    receive(nr::RECV, src.0)
}

#[inline(always)]
pub(crate) fn nbrecv(src: CPtr) -> Received {
    receive(nr::NBRECV, src.0)
}

#[inline(always)]
pub(crate) fn send(dest: CPtr, message: Message) {
    submit(nr::SEND, dest.0, message);
}

#[inline(always)]
pub(crate) fn signal(dest: CPtr) {
    poke(nr::SEND, dest.0);
}

#[inline(always)]
pub(crate) fn nbsend(dest: CPtr, message: Message) {
    submit(nr::NBSEND, dest.0, message);
}

#[inline(always)]
pub(crate) fn reply(message: Message) {
    submit(nr::REPLY, 0, message);
}

#[inline(always)]
pub(crate) fn yield_now() {
    poke(nr::YIELD, 0);
}

/// A debugging call with one argument; returns the result.
#[cfg(any(sel4_debug, sel4_printing))]
pub(crate) fn debug(number: i64, argument: u64) -> u64 {
    exchange(number, argument, Message::default()).badge
}
