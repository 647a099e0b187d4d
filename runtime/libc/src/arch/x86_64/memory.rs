//! Memory functions: `memcpy`, `memmove`, `memset`, `memcmp`, `memchr`, `strlen`.
//!
//! They are in assembly, because the compiler turns such loops in Rust into calls of these same functions, and because
//! they are the library's hottest code. They process 16 bytes per step (SSE2) and need no alignment; short copies use
//! two overlapping loads. Nothing here needs relocation or thread-local storage: the dynamic linker uses these
//! functions from its first instruction.

use core::arch::naked_asm;

/// The body of `memcpy` and `memmove`. Up to 64 bytes, it loads everything before it stores anything. Beyond that, it
/// first loads the end that a forward copy would overwrite (or the start that a backward copy would overwrite); the
/// overlap determines the direction.
macro_rules! copy_body {
    () => {
        naked_asm!(
            "mov rax, rdi",
            "cmp rdx, 16",
            "jae 20f",
            "cmp edx, 8",
            "jae 12f",
            "cmp edx, 4",
            "jae 11f",
            "test edx, edx",
            "je 10f",
            // 1 to 3 bytes: first, middle and last byte, which may be the same.
            "mov r9, rdx",
            "shr r9d, 1",
            "movzx ecx, byte ptr [rsi]",
            "movzx r8d, byte ptr [rsi + rdx - 1]",
            "movzx r10d, byte ptr [rsi + r9]",
            "mov byte ptr [rdi], cl",
            "mov byte ptr [rdi + r9], r10b",
            "mov byte ptr [rdi + rdx - 1], r8b",
            "10: ret",
            "11: mov ecx, dword ptr [rsi]",
            "mov r8d, dword ptr [rsi + rdx - 4]",
            "mov dword ptr [rdi], ecx",
            "mov dword ptr [rdi + rdx - 4], r8d",
            "ret",
            "12: mov rcx, qword ptr [rsi]",
            "mov r8, qword ptr [rsi + rdx - 8]",
            "mov qword ptr [rdi], rcx",
            "mov qword ptr [rdi + rdx - 8], r8",
            "ret",
            "20: movups xmm0, [rsi]",
            "movups xmm1, [rsi + rdx - 16]",
            "cmp rdx, 32",
            "ja 21f",
            "movups [rdi], xmm0",
            "movups [rdi + rdx - 16], xmm1",
            "ret",
            "21: cmp rdx, 64",
            "ja 30f",
            "movups xmm2, [rsi + 16]",
            "movups xmm3, [rsi + rdx - 32]",
            "movups [rdi], xmm0",
            "movups [rdi + 16], xmm2",
            "movups [rdi + rdx - 32], xmm3",
            "movups [rdi + rdx - 16], xmm1",
            "ret",
            // Backward if the destination starts inside of the source (0 < dst - src < n), else forward.
            "30: mov rcx, rdi",
            "sub rcx, rsi",
            "je 33f",
            "cmp rcx, rdx",
            "jb 40f",
            "lea r8, [rdi + rdx - 64]",
            "movups xmm4, [rsi + rdx - 64]",
            "movups xmm5, [rsi + rdx - 48]",
            "movups xmm6, [rsi + rdx - 32]",
            "movups xmm7, [rsi + rdx - 16]",
            ".balign 16",
            "32: movups xmm0, [rsi]",
            "movups xmm1, [rsi + 16]",
            "movups xmm2, [rsi + 32]",
            "movups xmm3, [rsi + 48]",
            "movups [rdi], xmm0",
            "movups [rdi + 16], xmm1",
            "movups [rdi + 32], xmm2",
            "movups [rdi + 48], xmm3",
            "add rsi, 64",
            "add rdi, 64",
            "sub rdx, 64",
            "cmp rdx, 64",
            "ja 32b",
            "movups [r8], xmm4",
            "movups [r8 + 16], xmm5",
            "movups [r8 + 32], xmm6",
            "movups [r8 + 48], xmm7",
            "33: ret",
            "40: movups xmm4, [rsi]",
            "movups xmm5, [rsi + 16]",
            "movups xmm6, [rsi + 32]",
            "movups xmm7, [rsi + 48]",
            ".balign 16",
            "42: movups xmm0, [rsi + rdx - 64]",
            "movups xmm1, [rsi + rdx - 48]",
            "movups xmm2, [rsi + rdx - 32]",
            "movups xmm3, [rsi + rdx - 16]",
            "movups [rdi + rdx - 64], xmm0",
            "movups [rdi + rdx - 48], xmm1",
            "movups [rdi + rdx - 32], xmm2",
            "movups [rdi + rdx - 16], xmm3",
            "sub rdx, 64",
            "cmp rdx, 64",
            "ja 42b",
            "movups [rdi], xmm4",
            "movups [rdi + 16], xmm5",
            "movups [rdi + 32], xmm6",
            "movups [rdi + 48], xmm7",
            "ret",
        )
    };
}

/// The body of `memcmp` and `bcmp`.
macro_rules! compare_body {
    () => {
        naked_asm!(
            "xor ecx, ecx",
            "cmp rdx, 16",
            "jb 13f",
            "lea r8, [rdx - 16]",
            ".balign 16",
            // 16 bytes per step; the last step starts at n - 16 and may overlap the previous one.
            "11: movups xmm0, [rdi + rcx]",
            "movups xmm1, [rsi + rcx]",
            "pcmpeqb xmm0, xmm1",
            "pmovmskb eax, xmm0",
            "xor eax, 0xffff",
            "jne 12f",
            "cmp rcx, r8",
            "je 15f",
            "add rcx, 16",
            "cmp rcx, r8",
            "cmova rcx, r8",
            "jmp 11b",
            "12: bsf eax, eax",
            "add rcx, rax",
            "movzx eax, byte ptr [rdi + rcx]",
            "movzx edx, byte ptr [rsi + rcx]",
            "sub eax, edx",
            "ret",
            "13: cmp rcx, rdx",
            "je 15f",
            "movzx eax, byte ptr [rdi + rcx]",
            "movzx r8d, byte ptr [rsi + rcx]",
            "inc rcx",
            "sub eax, r8d",
            "je 13b",
            "ret",
            "15: xor eax, eax",
            "ret",
        )
    };
}

/// Copies `len` bytes between ranges that do not overlap; returns `dst`.
#[cfg_attr(target_os = "fuchsia", unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn memcpy(dst: *mut u8, src: *const u8, len: usize) -> *mut u8 {
    copy_body!()
}

/// Copies `len` bytes between ranges that may overlap; returns `dst`.
#[cfg_attr(target_os = "fuchsia", unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn memmove(dst: *mut u8, src: *const u8, len: usize) -> *mut u8 {
    copy_body!()
}

/// Fills `len` bytes with the low byte of `byte`; returns `dst`.
#[cfg_attr(target_os = "fuchsia", unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn memset(dst: *mut u8, byte: i32, len: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "movzx esi, sil",
        "mov rcx, 0x0101010101010101",
        "imul rsi, rcx",
        "cmp rdx, 16",
        "jae 20f",
        "cmp edx, 8",
        "jae 12f",
        "cmp edx, 4",
        "jae 11f",
        "test edx, edx",
        "je 10f",
        "mov byte ptr [rdi], sil",
        "mov byte ptr [rdi + rdx - 1], sil",
        "shr edx, 1",
        "mov byte ptr [rdi + rdx], sil",
        "10: ret",
        "11: mov dword ptr [rdi], esi",
        "mov dword ptr [rdi + rdx - 4], esi",
        "ret",
        "12: mov qword ptr [rdi], rsi",
        "mov qword ptr [rdi + rdx - 8], rsi",
        "ret",
        "20: movq xmm0, rsi",
        "punpcklqdq xmm0, xmm0",
        "lea r8, [rdi + rdx - 16]",
        "cmp rdx, 64",
        "jb 22f",
        ".balign 16",
        "21: movups [rdi], xmm0",
        "movups [rdi + 16], xmm0",
        "movups [rdi + 32], xmm0",
        "movups [rdi + 48], xmm0",
        "add rdi, 64",
        "sub rdx, 64",
        "cmp rdx, 64",
        "jae 21b",
        "22: cmp rdx, 16",
        "jb 23f",
        "movups [rdi], xmm0",
        "add rdi, 16",
        "sub rdx, 16",
        "jmp 22b",
        "23: movups [r8], xmm0",
        "ret",
    )
}

/// Less than, equal to or greater than 0, by the first bytes that differ (unsigned).
#[cfg_attr(target_os = "fuchsia", unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    compare_body!()
}

/// 0 if the ranges are equal.
#[cfg_attr(target_os = "fuchsia", unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    compare_body!()
}

// `strlen` and `memchr` read whole aligned 16-byte blocks. Such a block never crosses a page boundary, so they touch
// nothing beyond the page of the last byte that they need.

/// Number of bytes before the first NUL.
#[cfg_attr(target_os = "fuchsia", unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn strlen(string: *const u8) -> usize {
    naked_asm!(
        "mov rcx, rdi",
        "mov rdx, rdi",
        "and rdx, -16",
        "and ecx, 15",
        "pxor xmm0, xmm0",
        "movdqa xmm1, [rdx]",
        "pcmpeqb xmm1, xmm0",
        "pmovmskb eax, xmm1",
        "shr eax, cl",
        "test eax, eax",
        "jne 12f",
        "11: add rdx, 16",
        "movdqa xmm1, [rdx]",
        "pcmpeqb xmm1, xmm0",
        "pmovmskb eax, xmm1",
        "test eax, eax",
        "je 11b",
        "bsf eax, eax",
        "add rax, rdx",
        "sub rax, rdi",
        "ret",
        "12: bsf eax, eax",
        "ret",
    )
}

/// The first of `len` bytes that equals the low byte of `byte`, or null.
#[cfg_attr(target_os = "fuchsia", unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn memchr(bytes: *const u8, byte: i32, len: usize) -> *mut u8 {
    naked_asm!(
        "test rdx, rdx",
        "je 24f",
        "movzx esi, sil",
        "movd xmm0, esi",
        "punpcklbw xmm0, xmm0",
        "pshuflw xmm0, xmm0, 0",
        "punpcklqdq xmm0, xmm0",
        "mov rcx, rdi",
        "mov r8, rdi",
        "and r8, -16",
        "and ecx, 15",
        // r9 = address after the last byte; a wrap-around means "to the end of memory".
        "mov r9, rdi",
        "add r9, rdx",
        "jnc 21f",
        "mov r9, -1",
        "21: movdqa xmm1, [r8]",
        "pcmpeqb xmm1, xmm0",
        "pmovmskb eax, xmm1",
        "shr eax, cl",
        "shl eax, cl",
        "test eax, eax",
        "jne 23f",
        "22: add r8, 16",
        "cmp r8, r9",
        "jae 24f",
        "movdqa xmm1, [r8]",
        "pcmpeqb xmm1, xmm0",
        "pmovmskb eax, xmm1",
        "test eax, eax",
        "je 22b",
        "23: bsf eax, eax",
        "add rax, r8",
        "cmp rax, r9",
        "jae 24f",
        "ret",
        "24: xor eax, eax",
        "ret",
    )
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
