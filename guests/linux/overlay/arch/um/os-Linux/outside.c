// SPDX-License-Identifier: GPL-2.0
/* Calls of the launcher's functions on its own stack: Linux' stacks are small. */

#include <linux/kernel.h>
#include <os.h>

#include "outside.h"
#include "table.h"

/* What start_idle_thread() itself uses below the place that it tells. */
#define MARGIN 4096ul

/* The top of the part of the launcher's stack that functions use; NULL: the kernel still runs there itself. */
static void *stack;

void hafnon_outside_start(void)
{
	stack = (void *)(((unsigned long)__builtin_frame_address(0) - MARGIN) & ~15ul);
}

/* Calls a function with three arguments on another stack. */
long hafnon_on_stack(void *function, u64 a, u64 b, u64 c, void *stack);
asm(".text\n"
    ".globl hafnon_on_stack\n"
    "hafnon_on_stack:\n"
    "push %rbp\n"
    "mov %rsp, %rbp\n"
    "mov %r8, %rsp\n"
    "mov %rdi, %rax\n"
    "mov %rsi, %rdi\n"
    "mov %rdx, %rsi\n"
    "mov %rcx, %rdx\n"
    "call *%rax\n"
    "mov %rbp, %rsp\n"
    "pop %rbp\n"
    "ret\n");

long hafnon_outside(void *function, u64 a, u64 b, u64 c)
{
	int enabled = um_set_signals(0);
	/* The kernel is on the launcher's stack at its start and its end. */
	bool there = !stack || (unsigned long)__builtin_frame_address(0) - RANGE >= RANGE_LEN;
	long result = there ? ((long (*)(u64, u64, u64))function)(a, b, c) : hafnon_on_stack(function, a, b, c, stack);

	um_set_signals(enabled);
	return result;
}

void hafnon_write(u32 fd, const char *bytes, u64 len)
{
	hafnon_outside(hafnon->write, fd, (u64)bytes, len);
}

s64 hafnon_input(u8 *bytes, u64 len)
{
	return hafnon_outside(hafnon->input, (u64)bytes, len, 0);
}

void hafnon_random(void *buffer, u64 len)
{
	hafnon_outside(hafnon->random, (u64)buffer, len, 0);
}

void hafnon_exit(s64 code)
{
	hafnon_outside(hafnon->exit, code, 0, 0);
	unreachable();
}
