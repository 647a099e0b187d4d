// SPDX-License-Identifier: GPL-2.0
/*
 * Address spaces and user code. An address space of Linux' is a sub-domain of the virtual processor: a process that is
 * never started. All its pages are pages of physmem, at the offsets that are Linux' physical addresses.
 *
 * A sub-domain is filled like a TLB; Linux' page tables are the truth:
 * 1. Where user code faults, what the tables allow at that page is mapped (map_from_tables), or what the fault's
 *    handler puts there (map).
 * 2. Which pages are mapped is recorded (shown_set).
 * 3. Before user code of a space runs again, Linux tells each page whose entry has changed (current_mm_sync). Those
 *    that are mapped are unmapped.
 *
 * The registers of code that has faulted stay in the machine as long as nobody needs them:
 * F1. A fault says its address and instruction only; `unfetched` remembers whose registers are missing.
 * F2. They are fetched before a signal or another kind of work for the task, before code of another task runs, and
 *     where the fault's handler looks at the stack pointer: for an access that no mapping allows.
 * F3. Otherwise the code repeats its instruction with the registers that it has.
 */

#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/signal.h>
#include <linux/string.h>
#include <linux/xarray.h>
#include <asm/pgtable.h>
#include <as-layout.h>
#include <kern.h>
#include <kern_util.h>
#include <os.h>
#include <skas.h>
#include <sysdep/ptrace.h>
#include <mm_id.h>

#include "interrupt.h"
#include "table.h"
#include "vectors.h"

/* The system has at most this many address spaces. */
#define SPACES 2048
/* Linux takes numbers below 2 for no process. */
#define FIRST 2
/* One call of zx_vproc_map takes runs of at most this many bytes. */
#define RUN_MAX (1ul << 20)
#define RUNS 128
/* The lowest address of a sub-domain. */
#define LOWEST 0x200000ul
/* Flags that a program may not change: interrupts are enabled. */
#define FLAGS_SET 0x202ul
#define FLAG_TRAP 0x100ul
#define PAGE_FAULT 14

/* `shown` has a word for each group of pages, with a bit for each page that may be mapped. */
#define GROUP_SHIFT 5
#define GROUP (1ul << GROUP_SHIFT)

struct space {
	u32 process, vmar;
	struct xarray shown;
	/* There was no memory to record a page: any page may be mapped. */
	bool unknown;
	/* A page could not be unmapped, or not be mapped: no code may run here any more. */
	bool broken;
};

static struct space spaces[SPACES];
int userspace_pid[NR_CPUS];

/* Runs that were not handed to the system yet, all of one space. */
static struct vproc_run runs[RUNS];
static int run_count;
static struct space *runs_space;

/*
 * What was entered last; it can be resumed if it has not been left, with other general registers after a system call
 * only.
 */
static struct {
	struct space *space;
	u64 fs_base, gs_base;
	bool stopped;
} last;

/* F1: whose registers are missing. */
static struct uml_pt_regs *unfetched;
/* The page at which user code has faulted, while Linux handles that; 0: none. */
static unsigned long fault_page;

void hafnon_left(void)
{
	last.stopped = false;
}

static struct space *space_of(int pid)
{
	return pid >= FIRST && pid < FIRST + SPACES ? &spaces[pid - FIRST] : NULL;
}

static int runs_flush(void)
{
	int count = run_count;

	run_count = 0;
	if (!count)
		return 0;
	if (hafnon->vproc_map(runs_space->vmar, hafnon->physmem, runs, count) == ZX_OK)
		return 0;
	runs_space->broken = true;
	return -ENOMEM;
}

/* Without options, unmaps. */
static int runs_add(struct space *space, u64 address, u64 len, u64 offset, u32 options)
{
	int err = 0;

	if (!space || !space->process)
		return -EINVAL;
	if (runs_space != space) {
		err = runs_flush();
		runs_space = space;
	}
	while (len && !err) {
		u64 part = min_t(u64, len, RUN_MAX);

		if (run_count == RUNS)
			err = runs_flush();
		runs[run_count++] = (struct vproc_run){ address, offset, part, options, 0 };
		address += part;
		offset += part;
		len -= part;
	}
	return err;
}

/* Execute and write permission need read permission; without it nothing is shown, and the access faults. */
static u32 options_of(int prot)
{
	if (!(prot & UM_PROT_READ))
		return 0;
	return ZX_VM_PERM_READ | (prot & UM_PROT_WRITE ? ZX_VM_PERM_WRITE : 0) |
	       (prot & UM_PROT_EXEC ? ZX_VM_PERM_EXECUTE : 0);
}

/* Step 2. */
static void shown_set(struct space *space, unsigned long page)
{
	unsigned long group = page >> GROUP_SHIFT;
	void *entry = xa_load(&space->shown, group);
	unsigned long bits = entry ? xa_to_value(entry) : 0, more = bits | 1ul << (page & (GROUP - 1));

	if (bits != more && xa_is_err(xa_store(&space->shown, group, xa_mk_value(more), GFP_ATOMIC)))
		space->unknown = true;
}

/* Step 3: unmaps what may be mapped of some pages. */
static int shown_unmap(struct space *space, unsigned long first, unsigned long end)
{
	unsigned long group;
	void *entry;
	int err = 0;

	xa_for_each_range(&space->shown, group, entry, first >> GROUP_SHIFT, (end - 1) >> GROUP_SHIFT) {
		unsigned long start = group << GROUP_SHIFT, bits = xa_to_value(entry), part = bits;

		if (start < first)
			part &= ~0ul << (first - start);
		if (start + GROUP > end)
			part &= (1ul << (end - start)) - 1;
		if (!part)
			continue;
		bits &= ~part;
		/* An entry that exists takes another value without memory. */
		if (bits)
			xa_store(&space->shown, group, xa_mk_value(bits), GFP_ATOMIC);
		else
			xa_erase(&space->shown, group);
		while (part && !err) {
			unsigned long from = __ffs(part), len = ffz(part >> from);

			err = runs_add(space, (start + from) << PAGE_SHIFT, len << PAGE_SHIFT, 0, 0);
			part &= ~(((1ul << len) - 1) << from);
		}
		if (err)
			break;
	}
	return err;
}

/* Maps the page of a fault; elsewhere the first access does that. */
int map(struct mm_id *id, unsigned long virt, unsigned long len, int prot, int fd, unsigned long long offset)
{
	struct space *space = space_of(id->pid);
	u32 options = options_of(prot);

	if (virt != fault_page || len != PAGE_SIZE || !options || id->pid != userspace_pid[0])
		return unmap(id, virt, len);
	shown_set(space, virt >> PAGE_SHIFT);
	return runs_add(space, virt, len, offset, options);
}

int unmap(struct mm_id *id, unsigned long addr, unsigned long len)
{
	struct space *space = space_of(id->pid);
	unsigned long start = max(addr, LOWEST), end = addr + len;
	int err;

	if (!space || !space->process)
		return -EINVAL;
	if (start >= end)
		return 0;
	err = shown_unmap(space, start >> PAGE_SHIFT, end >> PAGE_SHIFT);
	if (err || !space->unknown)
		return err;
	if (end - start <= 64 * RUN_MAX)
		return runs_add(space, start, end - start, 0, 0);
	/* What waits may map pages in this range. */
	err = runs_flush();
	if (err)
		return err;
	switch (hafnon->vmar_unmap(space->vmar, start, end - start)) {
	case ZX_OK:
	case ZX_ERR_NOT_FOUND:
		return 0;
	default:
		space->broken = true;
		return -ENOMEM;
	}
}

/* The next access looks into Linux' tables. */
int protect(struct mm_id *id, unsigned long addr, unsigned long len, unsigned int prot)
{
	return unmap(id, addr, len);
}

int syscall_stub_flush(struct mm_id *id)
{
	return runs_flush();
}

void __switch_mm(struct mm_id *id)
{
	userspace_pid[0] = id->pid;
}

int start_userspace(unsigned long stub_stack)
{
	static int next;
	int i;

	for (i = 0; i < SPACES; i++) {
		struct space *space = &spaces[(next + i) % SPACES];

		if (space->process)
			continue;
		if (hafnon->process_create(hafnon->job, "linux", 5, 0, &space->process, &space->vmar)) {
			space->process = 0;
			return -ENOMEM;
		}
		xa_init(&space->shown);
		next = (next + i + 1) % SPACES;
		return space - spaces + FIRST;
	}
	return -ENOMEM;
}

void os_kill_ptraced_process(int pid, int reap_child)
{
	struct space *space = space_of(pid);

	if (!space || !space->process)
		return;
	if (runs_space == space) {
		run_count = 0;
		runs_space = NULL;
	}
	if (last.space == space)
		last.space = NULL;
	hafnon->task_kill(space->process);
	hafnon->handle_close(space->vmar);
	hafnon->handle_close(space->process);
	xa_destroy(&space->shown);
	*space = (struct space){};
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

/* Runs user code until it stops; true if it has stopped. Interrupts are disabled. */
static bool run(struct uml_pt_regs *regs)
{
	struct vproc_page *page = hafnon->page;
	struct space *space = space_of(userspace_pid[0]);
	struct vproc_state *s = &page->state;
	bool same, repeats;
	s32 status;

	if (space->broken) {
		report_enomem();
		return false;
	}
	if (unfetched && unfetched != regs)
		fetch(unfetched);
	same = last.stopped && last.space == space && last.fs_base == regs->gp[HOST_FS_BASE] &&
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
		status = hafnon->vproc_enter(hafnon->vproc, space->process, page);
	hafnon_vectors_save(regs->fp);
	if (status)
		return false;
	last.space = space;
	last.fs_base = regs->gp[HOST_FS_BASE];
	last.gs_base = regs->gp[HOST_GS_BASE];
	last.stopped = true;
	return true;
}

/* Maps what Linux' tables have at an address, if they allow the access. */
static bool map_from_tables(u64 address, u64 code)
{
	pte_t *pte = address < TASK_SIZE ? virt_to_pte(current->mm, address) : NULL;
	int prot;

	if (!pte || !pte_present(*pte) || !pte_read(*pte) || !pte_young(*pte))
		return false;
	prot = UM_PROT_READ | (pte_exec(*pte) ? UM_PROT_EXEC : 0);
	if (pte_write(*pte) && pte_dirty(*pte))
		prot |= UM_PROT_WRITE;
	if (((code & 2) && !(prot & UM_PROT_WRITE)) || ((code & 16) && !(prot & UM_PROT_EXEC)))
		return false;
	shown_set(space_of(userspace_pid[0]), address >> PAGE_SHIFT);
	return !runs_add(space_of(userspace_pid[0]), address & PAGE_MASK, PAGE_SIZE, pte_val(*pte) & PAGE_MASK,
			 options_of(prot)) && !runs_flush();
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

/* Whether there is a mapping that allows an access. */
static bool allowed(u64 address, u64 code)
{
	struct vm_area_struct *vma;
	unsigned long need = code & 2 ? VM_WRITE : VM_READ | VM_EXEC;
	bool is;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, address);
	is = vma && (vma->vm_flags & need);
	mmap_read_unlock(current->mm);
	return is;
}

static void page_fault(struct uml_pt_regs *regs, u64 address, u64 code)
{
	unfetched = regs;
	regs->gp[HOST_IP] = hafnon->page->ip;
	if (map_from_tables(address, code))
		return;
	unblock_signals();
	if (!allowed(address, code)) {
		block_signals();
		if (unfetched == regs)
			fetch(regs);
		unblock_signals();
	}
	regs->faultinfo = (struct faultinfo){ code, address, PAGE_FAULT };
	segv_handler(SIGSEGV, NULL, regs);
	fault_page = address & PAGE_MASK;
}

static void stopped(struct uml_pt_regs *regs)
{
	struct vproc_page *page = hafnon->page;

	UPT_SYSCALL_NR(regs) = -1;
	switch (page->reason) {
	case REASON_SYSCALL:
		state_to_regs(regs, &page->state);
		regs->gp[HOST_CX] = regs->gp[HOST_IP];
		regs->gp[HOST_R11] = regs->gp[HOST_EFLAGS];
		PT_SYSCALL_NR(regs->gp) = page->state.rax;
		unblock_signals();
		handle_syscall(regs);
		break;
	case REASON_PAGE_FAULT:
		page_fault(regs, page->address, page->code);
		break;
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
}

void userspace(struct uml_pt_regs *regs, unsigned long *aux_fp_regs)
{
	for (;;) {
		block_signals();
		while (read_thread_flags() & _TIF_WORK_MASK) {
			if (unfetched == regs)
				fetch(regs);
			unblock_signals();
			interrupt_end();
			block_signals();
		}
		current_mm_sync();
		fault_page = 0;
		runs_flush();
		regs->is_user = 1;
		if (!run(regs)) {
			unblock_signals();
			fatal_sigsegv();
		}
		stopped(regs);
		PT_SYSCALL_NR(regs->gp) = -1;
	}
}
