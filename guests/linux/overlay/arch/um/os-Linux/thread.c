// SPDX-License-Identifier: GPL-2.0
/* Kernel threads: all are one Zircon thread, the owner of the virtual processor. */

#include <linux/kernel.h>
#include <linux/printk.h>
#include <init.h>
#include <kern.h>
#include <kern_util.h>
#include <longjmp.h>
#include <as-layout.h>
#include <os.h>
#include <skas.h>

#include "outside.h"
#include "table.h"
#include "vectors.h"

/* Why the initial stack runs again. */
enum { JUMP_FIRST, JUMP_CALL, JUMP_HALT, JUMP_REBOOT };

extern int kmalloc_ok;
extern void uml_finishsetup(void);

static jmp_buf initial;
static void (*call)(void *arg);
static void *call_arg;
static jmp_buf *caller;

void new_thread(void *stack, jmp_buf *buf, void (*handler)(void))
{
	(*buf)[0].JB_IP = (unsigned long)handler;
	(*buf)[0].JB_SP = (unsigned long)stack + UM_THREAD_SIZE - sizeof(void *);
}

void switch_threads(jmp_buf *me, jmp_buf *you)
{
	hafnon_vectors_flush();
	if (UML_SETJMP(me) == 0)
		UML_LONGJMP(you, 1);
}

/* Interrupts are disabled at each jump to here, and this code enables none: it is on no stack of Linux'. */
int start_idle_thread(void *stack, jmp_buf *first)
{
	switch (setjmp(initial)) {
	case JUMP_FIRST:
		hafnon_outside_start();
		new_thread(stack, first, uml_finishsetup);
		longjmp(*first, 1);
	case JUMP_CALL:
		call(call_arg);
		longjmp(*caller, 1);
	case JUMP_HALT:
		kmalloc_ok = 0;
		return 0;
	default:
		kmalloc_ok = 0;
		return 1;
	}
}

void initial_thread_cb_skas(void (*proc)(void *), void *arg)
{
	jmp_buf here;

	call = proc;
	call_arg = arg;
	caller = &here;
	block_signals_trace();
	if (UML_SETJMP(&here) == 0)
		UML_LONGJMP(&initial, JUMP_CALL);
	unblock_signals_trace();
}

/*
 * Linux calls this before it takes all sub-domains away, to halt or to restart. No task may run after that: its code
 * could not, so it would be killed, and killing init is a panic.
 */
static void tasks_end(void)
{
	block_signals_trace();
}
__uml_exitcall(tasks_end);

void halt_skas(void)
{
	block_signals_trace();
	UML_LONGJMP(&initial, JUMP_HALT);
}

void reboot_skas(void)
{
	block_signals_trace();
	UML_LONGJMP(&initial, JUMP_REBOOT);
}

unsigned long get_thread_reg(int reg, jmp_buf *buf)
{
	switch (reg) {
	case HOST_IP:
		return buf[0]->__rip;
	case HOST_SP:
		return buf[0]->__rsp;
	case HOST_BP:
		return buf[0]->__rbp;
	default:
		return 0;
	}
}

/* Upcalls do not run on a stack of their own. */
void set_sigstack(void *stack, int size)
{
}

void init_new_thread_signals(void)
{
}
