// SPDX-License-Identifier: GPL-2.0
/*
 * Copies and fills of many bytes by the processor's string instructions, which Linux for x86 uses, too, but user-mode
 * Linux never: it applies no alternatives. The linker replaces Linux' memcpy and memset by these.
 */

#include <linux/stringify.h>

/* From this many bytes on; what is shorter takes less time in a loop. */
#define MANY 256

asm(".text\n"
    ".globl __wrap_memcpy, __wrap_memset\n"
    "__wrap_memcpy:\n"
    "cmp $" __stringify(MANY) ", %rdx\n"
    "jb __real_memcpy\n"
    "mov %rdi, %rax\n"
    "mov %rdx, %rcx\n"
    "shr $3, %rcx\n"
    "rep movsq\n"
    "mov %edx, %ecx\n"
    "and $7, %ecx\n"
    "rep movsb\n"
    "ret\n"
    "__wrap_memset:\n"
    "cmp $" __stringify(MANY) ", %rdx\n"
    "jb __real_memset\n"
    "mov %rdi, %r8\n"
    "movzbl %sil, %esi\n"
    "movabs $0x0101010101010101, %rax\n"
    "imul %rsi, %rax\n"
    "mov %rdx, %rcx\n"
    "shr $3, %rcx\n"
    "rep stosq\n"
    "mov %edx, %ecx\n"
    "and $7, %ecx\n"
    "rep stosb\n"
    "mov %r8, %rax\n"
    "ret\n");
