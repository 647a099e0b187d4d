// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts of kernel code, by upcalls (docs/virtual-processors.md), and preemption. What the page calls `enabled` is
 * what Linux calls `signals_enabled`: whoever changes both lets the page's be 1 only while the other is 1.
 *
 * An interrupt of code that has interrupts enabled:
 * U1. The server has put the registers into the save area, has disabled events, and starts upcall_entry. It goes to the
 *     stack of the interrupted code, below what that may use there, and pushes the save area: all tasks of Linux' have a
 *     stack, and the next upcall overwrites the save area.
 * U2. upcall() handles the interrupts, with interrupts disabled. Handlers that enable them are interrupted by U1 again.
 * U3. If another task should run and the code may be preempted, that task runs (hafnon_preempt). It takes up here later.
 * U4. The frame is put back into the save area, and the code resumed by the steps R1 to R5.
 *
 * What must not be interrupted runs with events disabled:
 * - calls of the launcher's functions, which use vector registers, four words of the IPC buffer, and locks of their own;
 * - user code, from the load of its registers until it has stopped: an event stops it (space.c);
 * - runs of pages, and the record of what is shown (space.c).
 *
 * User-mode Linux was not written for preemption at any instruction, so:
 * P1. Code that copies from or to user memory looks up a page in the page tables and uses it without a reference. It is
 *     not preempted (the functions __wrap_…, for which the linker replaces Linux' own).
 * P2. um_tlb_mark_sync() extends the range that um_tlb_sync() will look at, by several instructions. If the code is
 *     preempted there, it can undo what another task has marked meanwhile. So all that is marked is looked at before a
 *     preempted task continues. What it has read before then makes its own range too large, or is about pages that were
 *     looked at.
 */

#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/stringify.h>
#include <linux/thread_info.h>
#include <asm/tlbflush.h>
#include <kern_util.h>
#include <os.h>

#include "interrupt.h"
#include "space.h"
#include "table.h"
#include "upcall.h"

/* Of struct vproc_page, in bytes. */
#define ENABLED 256
#define PENDING 264
#define ENTRY_IP 272
#define ENTRY_SP 280
#define SAVED 320
/* Of struct vproc_state, in words; SAVED_WORDS without the bases of FS and GS. */
#define SAVED_WORDS 18
/* The bytes that a function may use below its stack pointer: Linux' have none, the launcher's are not interrupted. */
#define RED_ZONE 128
/* R1: and two words. */
#define BELOW 144

static_assert(offsetof(struct vproc_page, enabled) == ENABLED);
static_assert(offsetof(struct vproc_page, pending) == PENDING);
static_assert(offsetof(struct vproc_page, entry_ip) == ENTRY_IP);
static_assert(offsetof(struct vproc_page, entry_sp) == ENTRY_SP);
static_assert(offsetof(struct vproc_page, saved) == SAVED);
static_assert(offsetof(struct vproc_state, fs_base) == 8 * SAVED_WORDS);

extern char upcall_entry[], upcall_resume_from[], upcall_resume_to[];

/* Where the entry finds the page. */
static struct vproc_page *entry_stack[2] __aligned(16);

#define REGISTER(name, index) "mov SAVED + 8 * " #index "(%rdi), %" #name "\n"

asm(".text\n"
    ".set UPCALL_ENABLED, " __stringify(ENABLED) "\n"
    ".set SAVED, " __stringify(SAVED) "\n"
    ".globl upcall_entry, upcall_resume_from, upcall_resume_to\n"
    /* U1 */
    "upcall_entry:\n"
    "mov (%rsp), %rbx\n"
    "mov SAVED + 8 * 16(%rbx), %rsp\n"
    "sub $" __stringify(RED_ZONE) ", %rsp\n"
    "and $-16, %rsp\n"
    ".irp word, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0\n"
    "pushq SAVED + 8 * \\word(%rbx)\n"
    ".endr\n"
    /* U2, U3 */
    "call upcall\n"
    /* U4 */
    ".irp word, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17\n"
    "popq SAVED + 8 * \\word(%rbx)\n"
    ".endr\n"
    /* R1 */
    "mov %rbx, %rdi\n"
    "mov SAVED + 8 * 16(%rdi), %rax\n"
    "mov SAVED + 8 * 17(%rdi), %rcx\n"
    "mov SAVED + 8 * 15(%rdi), %rdx\n"
    "mov %rcx, -" __stringify(BELOW) "(%rax)\n"
    "mov %rdx, -" __stringify(BELOW) " + 8(%rax)\n"
    /* R2 */
    REGISTER(rax, 0) REGISTER(rbx, 1) REGISTER(rcx, 2) REGISTER(rdx, 3) REGISTER(rsi, 4) REGISTER(rbp, 6)
    REGISTER(r8, 7) REGISTER(r9, 8) REGISTER(r10, 9) REGISTER(r11, 10) REGISTER(r12, 11) REGISTER(r13, 12)
    REGISTER(r14, 13) REGISTER(r15, 14) REGISTER(rsp, 16)
    "lea -" __stringify(BELOW) "(%rsp), %rsp\n"
    /* R3 */
    "movq $1, UPCALL_ENABLED(%rdi)\n"
    "upcall_resume_from:\n"
    /* R4 */
    "cmpq $0, " __stringify(PENDING) "(%rdi)\n"
    "jne 1f\n"
    /* R5 */
    REGISTER(rdi, 5)
    "popfq\n"
    "ret $" __stringify(RED_ZONE) "\n"
    "1: movq $0, UPCALL_ENABLED(%rdi)\n"
    "mov " __stringify(ENTRY_SP) "(%rdi), %rsp\n"
    "jmp *" __stringify(ENTRY_IP) "(%rdi)\n"
    "upcall_resume_to:\n");

void hafnon_upcalls_start(void)
{
	struct vproc_page *page = hafnon->page;

	entry_stack[0] = page;
	page->entry_ip = (u64)upcall_entry;
	page->entry_sp = (u64)entry_stack;
	page->resume_from = (u64)upcall_resume_from;
	page->resume_to = (u64)upcall_resume_to;
}

/* In /sys/module/upcall/parameters: how often kernel code was interrupted, and how often it was preempted then. */
static ulong interrupted, preempted;
module_param(interrupted, ulong, 0444);
module_param(preempted, ulong, 0444);

void upcall(void);
void upcall(void)
{
	signals_enabled = 0;
	barrier();
	interrupted++;
	hafnon_interrupts(&hafnon_no_user);
	hafnon_preempt();
	barrier();
	signals_enabled = 1;
}

/* P1: a bit of the thread's flags that Linux does not use. */
#define TIF_USES_USER_PAGE 30

void hafnon_preempt(void)
{
	if (preempt_count() || !need_resched() || test_thread_flag(TIF_USES_USER_PAGE))
		return;
	preempted++;
	preempt_schedule_irq();
	/* P2 */
	hafnon_sync_marked();
}

/* P1. Calls do not nest: a page fault on the way uses no user memory. */
#define NOT_PREEMPTED(type, name, parameters, arguments)	\
	type __real_##name parameters;				\
	type __wrap_##name parameters;				\
	type __wrap_##name parameters				\
	{							\
		type result;					\
								\
		set_thread_flag(TIF_USES_USER_PAGE);		\
		result = __real_##name arguments;		\
		clear_thread_flag(TIF_USES_USER_PAGE);		\
		preempt_check_resched();			\
		return result;					\
	}
NOT_PREEMPTED(unsigned long, raw_copy_from_user, (void *to, const void __user *from, unsigned long n), (to, from, n))
NOT_PREEMPTED(unsigned long, raw_copy_to_user, (void __user *to, const void *from, unsigned long n), (to, from, n))
NOT_PREEMPTED(unsigned long, __clear_user, (void __user *to, unsigned long n), (to, n))
NOT_PREEMPTED(long, strncpy_from_user, (char *to, const char __user *from, long n), (to, from, n))
NOT_PREEMPTED(long, strnlen_user, (const char __user *text, long n), (text, n))
