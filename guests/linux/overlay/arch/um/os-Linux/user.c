// SPDX-License-Identifier: GPL-2.0
/*
 * User code: the virtual processor runs it in the sub-domain of its address space (space.c) until it stops, and Linux
 * handles what it stopped for.
 *
 * The registers of code that has faulted stay in the machine as long as nobody needs them:
 * F1. A fault says its address and instruction only; `unfetched` remembers whose registers are missing.
 * F2. They are fetched before a signal or another kind of work for the task, before code of another task runs, before
 *     their sub-domain is taken away, and where the fault's handler looks at the stack pointer: for an access that no
 *     mapping allows.
 * F3. Otherwise the code repeats its instruction with the registers that it has.
 *
 * Interrupts are disabled, except while Linux handles a system call, a fault or a signal.
 */

#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <asm/unistd.h>
#include <as-layout.h>
#include <kern.h>
#include <kern_util.h>
#include <os.h>
#include <skas.h>
#include <sysdep/ptrace.h>

#include "interrupt.h"
#include "space.h"
#include "table.h"
#include "user.h"
#include "vectors.h"

/* Flags that a program may not change: interrupts are enabled. */
#define FLAGS_SET 0x202ul
#define FLAG_TRAP 0x100ul
#define PAGE_FAULT 14

/*
 * What was entered last; it can be resumed if it has not been left, with other general registers after a system call
 * only.
 */
static struct {
	u32 process;
	u64 fs_base, gs_base;
	bool stopped;
} last;

/* F1: whose registers are missing. */
static struct uml_pt_regs *unfetched;

void hafnon_left(void)
{
	last.stopped = false;
}

static void state_to_regs(struct uml_pt_regs *regs, const struct vproc_state *s)
{
	unsigned long *gp = regs->gp;

	gp[HOST_R15] = s->r15; gp[HOST_R14] = s->r14; gp[HOST_R13] = s->r13; gp[HOST_R12] = s->r12;
	gp[HOST_BP] = s->rbp; gp[HOST_BX] = s->rbx; gp[HOST_R11] = s->r11; gp[HOST_R10] = s->r10;
	gp[HOST_R9] = s->r9; gp[HOST_R8] = s->r8; gp[HOST_AX] = s->rax; gp[HOST_CX] = s->rcx;
	gp[HOST_DX] = s->rdx; gp[HOST_SI] = s->rsi; gp[HOST_DI] = s->rdi;
	gp[HOST_IP] = s->ip; gp[HOST_SP] = s->rsp; gp[HOST_EFLAGS] = s->flags;
}

static void regs_to_state(struct vproc_state *s, const struct uml_pt_regs *regs)
{
	const unsigned long *gp = regs->gp;

	*s = (struct vproc_state){
		gp[HOST_AX], gp[HOST_BX], gp[HOST_CX], gp[HOST_DX], gp[HOST_SI], gp[HOST_DI], gp[HOST_BP],
		gp[HOST_R8], gp[HOST_R9], gp[HOST_R10], gp[HOST_R11], gp[HOST_R12], gp[HOST_R13], gp[HOST_R14],
		gp[HOST_R15], gp[HOST_IP], gp[HOST_SP], gp[HOST_EFLAGS] | FLAGS_SET, gp[HOST_FS_BASE],
		gp[HOST_GS_BASE],
	};
	if (singlestepping())
		s->flags |= FLAG_TRAP;
}

/* F2: gets the registers of code that has stopped; the code can only be entered then. */
static void fetch(struct uml_pt_regs *regs)
{
	last.stopped = false;
	unfetched = NULL;
	if (hafnon->vproc_state(hafnon->vproc, hafnon->page))
		panic("the registers of user code are lost");
	state_to_regs(regs, &hafnon->page->state);
}

void hafnon_user_leaves(u32 process)
{
	if (last.process != process)
		return;
	if (unfetched)
		fetch(unfetched);
	last.stopped = false;
}

/* Runs user code until it stops; true if it has stopped. Interrupts are disabled. */
static bool run(struct uml_pt_regs *regs)
{
	struct vproc_page *page = hafnon->page;
	u32 process = hafnon_domain(current->mm);
	struct vproc_state *s = &page->state;
	bool same, repeats;
	s32 status;

	if (!process) {
		/* The task ends. */
		if (unfetched == regs)
			unfetched = NULL;
		report_enomem();
		return false;
	}
	if (unfetched && unfetched != regs)
		fetch(unfetched);
	same = last.stopped && last.process == process && last.fs_base == regs->gp[HOST_FS_BASE] &&
	       last.gs_base == regs->gp[HOST_GS_BASE];
	repeats = unfetched && same;
	if (unfetched && !repeats)
		fetch(regs);
	unfetched = NULL;
	if (!repeats)
		regs_to_state(s, regs);
	same = same && (repeats || (page->reason == REASON_SYSCALL && s->rcx == s->ip && s->r11 == s->flags));
	last.stopped = false;
	hafnon_vectors_load(regs->fp);
	if (same)
		status = hafnon->vproc_resume(hafnon->vproc, page);
	else
		status = hafnon->vproc_enter(hafnon->vproc, process, page);
	hafnon_vectors_save(regs->fp);
	if (status)
		return false;
	last.process = process;
	last.fs_base = regs->gp[HOST_FS_BASE];
	last.gs_base = regs->gp[HOST_GS_BASE];
	last.stopped = true;
	return true;
}

static int signal_of(u64 vector)
{
	switch (vector) {
	case 0: case 16: case 19:
		return SIGFPE;
	case 1: case 3:
		return SIGTRAP;
	case 6:
		return SIGILL;
	case 11: case 12: case 17:
		return SIGBUS;
	default:
		return SIGSEGV;
	}
}

static void exception(struct uml_pt_regs *regs)
{
	struct vproc_page *page = hafnon->page;
	u64 vector = page->vector, code = page->code;
	struct kernel_siginfo info = {};
	int signal = signal_of(vector);

	fetch(regs);
	if (singlestepping())
		regs->gp[HOST_EFLAGS] &= ~FLAG_TRAP;
	regs->faultinfo = (struct faultinfo){ code, 0, vector };
	info.si_signo = signal;
	info.si_code = signal == SIGTRAP ? TRAP_TRACE : 1;
	if (signal == SIGSEGV)
		segv_handler(SIGSEGV, (struct siginfo *)&info, regs);
	else if (vector == 3)
		/* Debuggers know a breakpoint by the code SI_KERNEL. */
		force_sig(SIGTRAP);
	else
		relay_signal(signal, (struct siginfo *)&info, regs);
}

/*
 * Whether there is a mapping that allows an access. The answer may be out of date: if it is, Linux' message about the
 * signal has an old stack pointer.
 */
static bool allowed(u64 address, u64 code)
{
	static struct {
		struct mm_struct *mm;
		unsigned long start, end, flags;
	} found;
	struct vm_area_struct *vma;

	if (found.mm != current->mm || address < found.start || address >= found.end) {
		mmap_read_lock(current->mm);
		vma = vma_lookup(current->mm, address);
		found.mm = current->mm;
		found.start = vma ? vma->vm_start : 0;
		found.end = vma ? vma->vm_end : 0;
		found.flags = vma ? vma->vm_flags : 0;
		mmap_read_unlock(current->mm);
	}
	return address >= found.start && address < found.end && (found.flags & (code & 2 ? VM_WRITE : VM_READ | VM_EXEC));
}

/* Whether the page is shown. */
static bool page_fault(struct uml_pt_regs *regs, u64 address, u64 code)
{
	unfetched = regs;
	regs->gp[HOST_IP] = hafnon->page->ip;
	if (hafnon_show(address, code))
		return true;
	unblock_signals();
	if (!allowed(address, code)) {
		block_signals();
		if (unfetched == regs)
			fetch(regs);
		unblock_signals();
	}
	regs->faultinfo = (struct faultinfo){ code, address, PAGE_FAULT };
	segv_handler(SIGSEGV, NULL, regs);
	return false;
}

/* The system calls for which Linux reads or writes regs->fp; others that do make the task work (_TIF_WORK_MASK). */
static bool uses_vectors(u64 number)
{
	switch (number) {
	case __NR_rt_sigreturn:
	case __NR_clone:
	case __NR_fork:
	case __NR_vfork:
	case __NR_clone3:
		return true;
	default:
		return false;
	}
}

/* Whether the page of a fault has to be shown now. */
static bool stopped(struct uml_pt_regs *regs)
{
	struct vproc_page *page = hafnon->page;

	UPT_SYSCALL_NR(regs) = -1;
	switch (page->reason) {
	case REASON_SYSCALL:
		state_to_regs(regs, &page->state);
		regs->gp[HOST_CX] = regs->gp[HOST_IP];
		regs->gp[HOST_R11] = regs->gp[HOST_EFLAGS];
		PT_SYSCALL_NR(regs->gp) = page->state.rax;
		if (uses_vectors(page->state.rax))
			hafnon_vectors_flush();
		unblock_signals();
		handle_syscall(regs);
		break;
	case REASON_PAGE_FAULT:
		return !page_fault(regs, page->address, page->code);
	case REASON_EXCEPTION:
		exception(regs);
		break;
	case REASON_KICK:
		state_to_regs(regs, &page->state);
		hafnon_left();
		hafnon_interrupts(regs);
		break;
	default:
		fetch(regs);
		force_sig(SIGSYS);
	}
	return false;
}

void userspace(struct uml_pt_regs *regs, unsigned long *aux_fp_regs)
{
	bool faulted = false;

	for (;;) {
		block_signals();
		while (read_thread_flags() & _TIF_WORK_MASK) {
			if (unfetched == regs)
				fetch(regs);
			hafnon_vectors_flush();
			unblock_signals();
			interrupt_end();
			block_signals();
		}
		hafnon_sync(current->mm);
		/* Otherwise the code faults again. */
		if (faulted)
			hafnon_show(regs->faultinfo.cr2, regs->faultinfo.error_code);
		hafnon_runs_flush();
		regs->is_user = 1;
		if (!run(regs)) {
			unblock_signals();
			fatal_sigsegv();
		}
		faulted = stopped(regs);
		PT_SYSCALL_NR(regs->gp) = -1;
	}
}
