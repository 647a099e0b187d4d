// SPDX-License-Identifier: GPL-2.0
/*
 * Address spaces and user code. An address space of Linux' is a sub-domain of the virtual processor: a process that is
 * never started. All its pages are pages of physmem, at the offsets that are Linux' physical addresses.
 *
 * A sub-domain is filled like a TLB; Linux' page tables are the truth:
 * 1. Where user code faults, what the tables allow at that page is mapped (show), after Linux has handled the fault if
 *    need be.
 * 2. Which pages are mapped is recorded (shown_set), and their entries are marked as being up to date.
 * 3. Linux marks each entry that it changes, and tells the range. Before user code of a space runs again, those pages of
 *    the range are unmapped that are mapped and have such an entry, or none (sync).
 *
 * The registers of code that has faulted stay in the machine as long as nobody needs them:
 * F1. A fault says its address and instruction only; `unfetched` remembers whose registers are missing.
 * F2. They are fetched before a signal or another kind of work for the task, before code of another task runs, and
 *     where the fault's handler looks at the stack pointer: for an access that no mapping allows.
 * F3. Otherwise the code repeats its instruction with the registers that it has.
 *
 * All this runs with interrupts disabled, except what Linux does for a system call, a fault or a signal.
 */

#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/signal.h>
#include <linux/string.h>
#include <linux/xarray.h>
#include <asm/pgtable.h>
#include <asm/unistd.h>
#include <asm/tlbflush.h>
#include <as-layout.h>
#include <kern.h>
#include <kern_util.h>
#include <os.h>
#include <skas.h>
#include <sysdep/ptrace.h>
#include <mm_id.h>

#include "interrupt.h"
#include "space.h"
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
/* A fault maps pages of the same group of this many only. */
#define AROUND 16ul
static_assert(AROUND <= GROUP && PTRS_PER_PTE % GROUP == 0);

struct space {
	u32 process, vmar;
	/* NULL until Linux has told it. */
	struct mm_struct *mm;
	struct xarray shown;
	/* There was no memory to record a page: any page may be mapped. */
	bool unknown;
	/* A page could not be unmapped, or not be mapped: no code may run here any more. */
	bool broken;
};

static struct space spaces[SPACES];
/* Behind the last one that is used. */
static int spaces_end;
/* For Linux, which passes it on to functions that do not look at it. */
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

void hafnon_left(void)
{
	last.stopped = false;
}

static struct space *space_of(int pid)
{
	return pid >= FIRST && pid < FIRST + SPACES ? &spaces[pid - FIRST] : NULL;
}

static struct space *space_of_mm(struct mm_struct *mm)
{
	return space_of(mm->context.id.pid);
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

/* Step 2, for pages of one group. */
static void shown_set(struct space *space, unsigned long page, unsigned int count)
{
	unsigned long group = page >> GROUP_SHIFT;
	void *entry = xa_load(&space->shown, group);
	unsigned long bits = entry ? xa_to_value(entry) : 0;
	unsigned long more = bits | ((1ul << count) - 1) << (page & (GROUP - 1));

	if (bits != more && xa_is_err(xa_store(&space->shown, group, xa_mk_value(more), GFP_ATOMIC)))
		space->unknown = true;
}

/* Step 3: which pages of a group have to be unmapped. */
static unsigned long changed(struct mm_struct *mm, unsigned long page, unsigned long bits)
{
	pte_t *pte = virt_to_pte(mm, page << PAGE_SHIFT);
	unsigned long left, found = 0;

	/* A group is within one table. */
	if (!pte)
		return bits;
	for (left = bits; left; left &= left - 1) {
		int i = __ffs(left);

		if (!pte_present(pte[i]) || pte_newpage(pte[i]) || pte_newprot(pte[i]))
			found |= 1ul << i;
	}
	return found;
}

static int unmap_all(struct space *space)
{
	/* What waits may map pages there. */
	int err = runs_flush();

	if (err)
		return err;
	switch (hafnon->vmar_unmap(space->vmar, LOWEST, TASK_SIZE - LOWEST)) {
	case ZX_OK:
	case ZX_ERR_NOT_FOUND:
		xa_destroy(&space->shown);
		space->unknown = false;
		return 0;
	default:
		space->broken = true;
		return -ENOMEM;
	}
}

/* Step 3. */
static int sync(struct mm_struct *mm)
{
	struct space *space = space_of_mm(mm);
	unsigned long first = mm->context.sync_tlb_range_from >> PAGE_SHIFT;
	unsigned long end = mm->context.sync_tlb_range_to >> PAGE_SHIFT, group;
	void *entry;
	int err = 0;

	if (!end || !space || !space->process)
		return 0;
	mm->context.sync_tlb_range_from = 0;
	mm->context.sync_tlb_range_to = 0;
	if (space->unknown)
		return unmap_all(space);
	xa_for_each_range(&space->shown, group, entry, first >> GROUP_SHIFT, (end - 1) >> GROUP_SHIFT) {
		unsigned long start = group << GROUP_SHIFT, bits = xa_to_value(entry);
		unsigned long part = changed(mm, start, bits);

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

void hafnon_sync_marked(void)
{
	int i;

	for (i = 0; i < spaces_end; i++) {
		struct space *space = &spaces[i];

		/* The last of a space's users takes its tables away. */
		if (space->process && space->mm && atomic_read(&space->mm->mm_users))
			sync(space->mm);
	}
	um_tlb_sync(&init_mm);
}

/* Linux calls this once for each new space, in which nothing is mapped; otherwise its um_tlb_sync() would call these. */
int unmap(struct mm_id *id, unsigned long addr, unsigned long len)
{
	space_of(id->pid)->mm = container_of(id, struct mm_struct, context.id);
	return 0;
}

int map(struct mm_id *id, unsigned long virt, unsigned long len, int prot, int fd, unsigned long long offset)
{
	return -EINVAL;
}

int protect(struct mm_id *id, unsigned long addr, unsigned long len, unsigned int prot)
{
	return -EINVAL;
}

int syscall_stub_flush(struct mm_id *id)
{
	return 0;
}

void __switch_mm(struct mm_id *id)
{
	userspace_pid[0] = id->pid;
}

/* Interrupts are disabled. */
int start_userspace(unsigned long stub_stack)
{
	struct space *space;

	for (space = spaces; space < spaces + SPACES; space++) {
		if (space->process)
			continue;
		if (hafnon->process_create(hafnon->job, "linux", 5, 0, &space->process, &space->vmar)) {
			space->process = 0;
			return -ENOMEM;
		}
		xa_init(&space->shown);
		spaces_end = max_t(int, spaces_end, space - spaces + 1);
		return space - spaces + FIRST;
	}
	return -ENOMEM;
}

void os_kill_ptraced_process(int pid, int reap_child)
{
	struct space *space = space_of(pid);
	int enabled;

	if (!space || !space->process)
		return;
	enabled = um_set_signals(0);
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
	while (spaces_end && !spaces[spaces_end - 1].process)
		spaces_end--;
	um_set_signals(enabled);
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
	struct space *space = space_of_mm(current->mm);
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

/* What may be done with a page; 0: nothing, and an access faults. */
static u32 options_of(pte_t pte)
{
	if (!pte_present(pte) || !pte_read(pte) || !pte_young(pte))
		return 0;
	return ZX_VM_PERM_READ | (pte_write(pte) && pte_dirty(pte) ? ZX_VM_PERM_WRITE : 0) |
	       (pte_exec(pte) ? ZX_VM_PERM_EXECUTE : 0);
}

/* Whether an entry is not mapped and maps a page of physmem with these options. */
static bool fits(pte_t pte, unsigned long physical, u32 options)
{
	return (pte_newpage(pte) || pte_newprot(pte)) && (pte_val(pte) & PAGE_MASK) == physical && options_of(pte) == options;
}

/*
 * Step 1: maps what Linux' tables have at an address, if they allow the access. Pages beside it that are beside it in
 * physmem, too, come with it: they cost a tenth of a fault each.
 */
static bool show(u64 address, u64 code)
{
	struct space *space = space_of_mm(current->mm);
	pte_t *pte = address < TASK_SIZE ? virt_to_pte(current->mm, address) : NULL;
	u32 options = pte ? options_of(*pte) : 0;
	unsigned long page = address >> PAGE_SHIFT, physical;
	int before = 0, behind = 1, i;

	if (!options || ((code & 2) && !(options & ZX_VM_PERM_WRITE)) || ((code & 16) && !(options & ZX_VM_PERM_EXECUTE)))
		return false;
	physical = pte_val(*pte) & PAGE_MASK;
	while ((page - before) % AROUND && fits(pte[-before - 1], physical - (before + 1) * PAGE_SIZE, options))
		before++;
	while ((page + behind) % AROUND && fits(pte[behind], physical + behind * PAGE_SIZE, options))
		behind++;
	shown_set(space, page - before, before + behind);
	if (runs_add(space, (page - before) << PAGE_SHIFT, (before + behind) << PAGE_SHIFT, physical - before * PAGE_SIZE,
		     options) || runs_flush())
		return false;
	for (i = -before; i < behind; i++)
		pte[i] = pte_mkuptodate(pte[i]);
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
	info.si_code = signal == SIGTRAP ? (vector == 1 ? TRAP_TRACE : TRAP_BRKPT) : 1;
	if (signal == SIGSEGV)
		segv_handler(SIGSEGV, (struct siginfo *)&info, regs);
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

/* Whether the page is shown. */
static bool page_fault(struct uml_pt_regs *regs, u64 address, u64 code)
{
	unfetched = regs;
	regs->gp[HOST_IP] = hafnon->page->ip;
	if (show(address, code))
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
		sync(current->mm);
		/* Otherwise the code faults again. */
		if (faulted)
			show(regs->faultinfo.cr2, regs->faultinfo.error_code);
		runs_flush();
		regs->is_user = 1;
		if (!run(regs)) {
			unblock_signals();
			fatal_sigsegv();
		}
		faulted = stopped(regs);
		PT_SYSCALL_NR(regs->gp) = -1;
	}
}
