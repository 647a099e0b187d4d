//! Accesses to memory that may not be there. This is the named fault-tolerant copy: [`crate::Region`] uses it, and nothing
//! else.

use core::arch::global_asm;

use crate::CopyFault;

// From `begin` to `end`, each routine keeps the return address at RSP and changes no register that a caller keeps. So a
// thread that faults there can be made to continue at `fault`, which returns to the routine's caller. Before, RAX gets
// `READ_FAULT` or `WRITE_FAULT`.
global_asm!(
    ".pushsection .text.hafnon_tolerant,\"ax\",@progbits",
    ".hidden hafnon_tolerant_begin",
    ".hidden hafnon_tolerant_end",
    ".hidden hafnon_tolerant_fault",
    ".hidden hafnon_tolerant_copy",
    ".hidden hafnon_tolerant_copy_words",
    ".hidden hafnon_tolerant_load",
    ".hidden hafnon_tolerant_store",
    ".globl hafnon_tolerant_begin, hafnon_tolerant_end, hafnon_tolerant_fault",
    ".globl hafnon_tolerant_copy, hafnon_tolerant_copy_words, hafnon_tolerant_load, hafnon_tolerant_store",
    ".p2align 4",
    "hafnon_tolerant_begin:",
    // copy(to: rdi, from: rsi, len: rdx) -> eax
    "hafnon_tolerant_copy:",
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep movsq",
    "mov ecx, edx",
    "and ecx, 7",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // The same, word by word: what a compiler makes of a simple loop.
    "hafnon_tolerant_copy_words:",
    "mov rcx, rdx",
    "shr rcx, 3",
    "jz 3f",
    "2:",
    "mov rax, [rsi]",
    "mov [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "sub rcx, 1",
    "jnz 2b",
    "3:",
    "mov ecx, edx",
    "and ecx, 7",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // load(from: rdi) -> eax
    "hafnon_tolerant_load:",
    "movzx eax, word ptr [rdi]",
    "ret",
    // store(to: rdi, value: si) -> eax
    "hafnon_tolerant_store:",
    "mov word ptr [rdi], si",
    "xor eax, eax",
    "ret",
    "hafnon_tolerant_end:",
    "hafnon_tolerant_fault:",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    static hafnon_tolerant_begin: u8;
    static hafnon_tolerant_end: u8;
    static hafnon_tolerant_fault: u8;
    fn hafnon_tolerant_copy(to: *mut u8, from: *const u8, len: usize) -> u32;
    fn hafnon_tolerant_copy_words(to: *mut u8, from: *const u8, len: usize) -> u32;
    fn hafnon_tolerant_load(from: *const u16) -> u32;
    fn hafnon_tolerant_store(to: *mut u16, value: u16) -> u32;
}

/// What a routine returns after a fault on the side that it reads, and on the side that it writes.
const READ_FAULT: u32 = u32::MAX;
const WRITE_FAULT: u32 = u32::MAX - 1;
/// In the error code of a page fault: the access was a write.
const WRITE: u64 = 2;

/// What a copy has returned.
fn copied(result: u32) -> Result<(), CopyFault> {
    match result {
        0 => Ok(()),
        WRITE_FAULT => Err(CopyFault::To),
        _ => Err(CopyFault::From),
    }
}

/// Copies bytes.
///
/// # Errors
/// Which side could not be accessed. Part of the bytes may have been copied.
///
/// # Safety
/// Nothing else in this program may access the bytes at `to`, or write those at `from`, except by these functions. Each side
/// is this program's memory, or a range of addresses that is only accessed by these functions.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> Result<(), CopyFault> {
    // SAFETY: the routine obeys the C ABI, and changes only the bytes that the caller has passed.
    copied(unsafe { hafnon_tolerant_copy(to, from, len) })
}

/// The same, word by word, for measurements.
///
/// # Errors
/// As [`copy`].
///
/// # Safety
/// As for [`copy`].
#[inline]
pub unsafe fn copy_words(to: *mut u8, from: *const u8, len: usize) -> Result<(), CopyFault> {
    // SAFETY: as above.
    copied(unsafe { hafnon_tolerant_copy_words(to, from, len) })
}

/// Reads a number at once. `None`: there was a fault.
///
/// # Safety
/// The range of addresses is only accessed by these functions.
#[inline]
pub unsafe fn load(from: *const u16) -> Option<u16> {
    // SAFETY: the routine obeys the C ABI, and reads two bytes. The compiler moves no access across the call.
    let value = unsafe { hafnon_tolerant_load(from) };
    u16::try_from(value).ok()
}

/// Writes a number at once. Returns false if there was a fault.
///
/// # Safety
/// The range of addresses is only accessed by these functions.
#[inline]
pub unsafe fn store(to: *mut u16, value: u16) -> bool {
    // SAFETY: the routine obeys the C ABI, and writes two bytes.
    unsafe { hafnon_tolerant_store(to, value) == 0 }
}

/// Makes a thread that has faulted in one of these functions return from it. The processor's error code says which side it
/// was: by then, another thread may have changed what is mapped. Returns false if the thread was somewhere else; the
/// registers are as they were.
pub fn return_after_fault(
    registers: &mut abi::zx_thread_state_general_regs_t,
    fault: &abi::zx_x86_64_exc_data_t,
) -> bool {
    let address = |symbol: *const u8| symbol.addr() as u64;
    let range = address(&raw const hafnon_tolerant_begin)..address(&raw const hafnon_tolerant_end);
    let is_here = range.contains(&registers.rip);
    if is_here {
        registers.rip = address(&raw const hafnon_tolerant_fault);
        registers.rax = u64::from(if fault.err_code & WRITE != 0 { WRITE_FAULT } else { READ_FAULT });
    }
    is_here
}
