// SPDX-License-Identifier: GPL-2.0
/*
 * Address spaces. An address space of Linux' is a sub-domain of the virtual processor: a process that is never started.
 * All its pages are pages of physmem, at the offsets that are Linux' physical addresses, in one page table.
 *
 * A sub-domain is filled like a TLB; Linux' page tables are the truth:
 * 1. Where user code faults, what the tables allow at that page is mapped (hafnon_show), after Linux has handled the
 *    fault if need be.
 * 2. Which pages are mapped is recorded (shown_set), and their entries are marked as being up to date.
 * 3. Linux marks each entry that it changes, and tells the range. Before user code of a space runs again, those pages of
 *    the range are unmapped that are mapped and have such an entry, or none (hafnon_sync).
 *
 * Interrupts are disabled for all of it.
 */

#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <asm/pgtable.h>
#include <asm/tlbflush.h>
#include <as-layout.h>
#include <kern_util.h>
#include <os.h>
#include <skas.h>
#include <mm_id.h>

#include "shown.h"
#include "space.h"
#include "table.h"
#include "user.h"

/* The system has at most this many address spaces. */
#define SPACES 2048
/* Linux takes numbers below 2 for no process. */
#define FIRST 2
/* One call of zx_vproc_map takes runs of at most this many bytes. */
#define RUN_MAX (1ul << 20)
#define RUNS 128
/* The lowest address of a sub-domain. */
#define LOWEST 0x200000ul
/* A fault maps pages of the same group of this many only: within a word of the record and a table of Linux'. */
#define AROUND 16ul
static_assert(64 % AROUND == 0 && LEAF_PAGES == PTRS_PER_PTE);

struct space {
	/* Linux has it. */
	bool used;
	/* 0: there is none, because there was no memory for it. */
	u32 process, vmar;
	/* NULL until Linux has told it. */
	struct mm_struct *mm;
	struct shown shown;
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

/* Sub-domains without pages, for the next spaces, so that not every fork makes one and every exit ends one. */
#define IDLE 8
static struct {
	u32 process, vmar;
} idle[IDLE];
static int idle_count;

/*
 * A space is emptied where that should take less time than to unmap pages: at so many runs of pages, and so many pages
 * for each of them that would have to be mapped again. Both are estimates from what the calls cost.
 */
#define RUNS_TO_DROP 24
#define PAGES_TO_KEEP 8

/* Runs that were not handed to the system yet, all of one space. */
static struct vproc_run runs[RUNS];
static int run_count;
static struct space *runs_space;

static struct space *space_of(int pid)
{
	return pid >= FIRST && pid < FIRST + SPACES ? &spaces[pid - FIRST] : NULL;
}

static struct space *space_of_mm(struct mm_struct *mm)
{
	return space_of(mm->context.id.pid);
}

void hafnon_runs_flush(void)
{
	int count = run_count;

	run_count = 0;
	if (count && hafnon->vproc_map(runs_space->vmar, hafnon->physmem, runs, count) != ZX_OK)
		runs_space->broken = true;
}

u32 hafnon_domain(struct mm_struct *mm)
{
	struct space *space = space_of_mm(mm);

	return space->broken ? 0 : space->process;
}

/* Without options, unmaps. */
static void runs_add(struct space *space, u64 address, u64 len, u64 offset, u32 options)
{
	if (runs_space != space) {
		hafnon_runs_flush();
		runs_space = space;
	}
	while (len) {
		u64 part = min_t(u64, len, RUN_MAX);

		if (run_count == RUNS)
			hafnon_runs_flush();
		runs[run_count++] = (struct vproc_run){ address, offset, part, options, 0 };
		address += part;
		offset += part;
		len -= part;
	}
}

/* Step 2, for pages of one group. */
static void shown_set(struct space *space, unsigned long page, unsigned int count)
{
	unsigned long *word = shown_make(&space->shown, page);
	unsigned long more = ((1ul << count) - 1) << page % 64;

	if (!word) {
		space->unknown = true;
		return;
	}
	space->shown.pages += hweight64(more & ~*word);
	*word |= more;
}

/* Step 3: those of 64 pages that have to be unmapped; `bits` may be mapped. */
static unsigned long changed(struct mm_struct *mm, unsigned long page, unsigned long bits)
{
	pte_t *pte = virt_to_pte(mm, page << PAGE_SHIFT);
	unsigned long left, found = 0;

	if (!pte)
		return bits;
	for (left = bits; left; left &= left - 1) {
		int i = __ffs(left);

		if (!pte_present(pte[i]) || pte_newpage(pte[i]) || pte_newprot(pte[i]))
			found |= 1ul << i;
	}
	return found;
}

static bool empty(u32 vmar)
{
	struct vproc_run all = { .address = LOWEST, .len = TASK_SIZE - LOWEST };

	return hafnon->vproc_map(vmar, hafnon->physmem, &all, 1) == ZX_OK;
}

static void domain_close(u32 process, u32 vmar)
{
	hafnon->task_kill(process);
	hafnon->handle_close(vmar);
	hafnon->handle_close(process);
}

/* Makes a sub-domain without pages. */
static int domain_make(struct space *space)
{
	u64 address;

	if (idle_count) {
		idle_count--;
		space->process = idle[idle_count].process;
		space->vmar = idle[idle_count].vmar;
		return 0;
	}
	if (hafnon->process_create(hafnon->job, "linux", 5, 0, &space->process, &space->vmar) == ZX_OK) {
		if (hafnon->vmar_map(space->vmar, HAFNON_VM_PAGE_TABLE | ZX_VM_SPECIFIC, 0, hafnon->physmem, 0,
				     TASK_SIZE - LOWEST, &address) == ZX_OK)
			return 0;
		domain_close(space->process, space->vmar);
	}
	space->process = 0;
	return -ENOMEM;
}

/* Takes the sub-domain of a space away. */
static void domain_end(struct space *space)
{
	if (runs_space == space) {
		run_count = 0;
		runs_space = NULL;
	}
	hafnon_user_leaves(space->process);
	shown_clear(&space->shown);
	if (idle_count < IDLE && !space->broken && empty(space->vmar)) {
		idle[idle_count].process = space->process;
		idle[idle_count].vmar = space->vmar;
		idle_count++;
	} else {
		domain_close(space->process, space->vmar);
	}
	space->process = 0;
}

static void unmap_all(struct space *space)
{
	/* What waits may map pages there. */
	hafnon_runs_flush();
	if (!empty(space->vmar))
		space->broken = true;
	shown_clear(&space->shown);
	space->unknown = false;
}

/* Whether a space is emptied instead of what waits: all of that unmaps pages. */
static bool drop(struct space *space)
{
	if (run_count < RUNS_TO_DROP || run_count * PAGES_TO_KEEP < space->shown.pages)
		return false;
	run_count = 0;
	unmap_all(space);
	return true;
}

/* Step 3, for a word of the record. */
static void sync_word(struct mm_struct *mm, struct space *space, unsigned long page, unsigned long *word)
{
	unsigned long part = *word ? changed(mm, page, *word) : 0;

	*word &= ~part;
	space->shown.pages -= hweight64(part);
	while (part) {
		unsigned long from = __ffs(part), rest = part >> from, len = rest == ~0ul ? 64 : ffz(rest);

		runs_add(space, (page + from) << PAGE_SHIFT, len << PAGE_SHIFT, 0, 0);
		part &= len == 64 ? 0 : ~(((1ul << len) - 1) << from);
	}
}

/* Step 3. */
void hafnon_sync(struct mm_struct *mm)
{
	struct space *space = space_of_mm(mm);
	unsigned long from = mm->context.sync_tlb_range_from >> PAGE_SHIFT;
	unsigned long to = mm->context.sync_tlb_range_to >> PAGE_SHIFT;
	struct shown_leaf *leaf;
	int i;

	if (!to || !space || !space->process)
		return;
	mm->context.sync_tlb_range_from = 0;
	mm->context.sync_tlb_range_to = 0;
	if (space->unknown) {
		unmap_all(space);
		return;
	}
	/* Usually it is the page of a fault. */
	if (from / 64 == (to - 1) / 64) {
		unsigned long *word = shown_word(&space->shown, from);

		if (word)
			sync_word(mm, space, from & ~63ul, word);
		return;
	}
	for (leaf = space->shown.leaves; leaf; leaf = leaf->next) {
		if (leaf->first >= to || leaf->first + LEAF_PAGES <= from)
			continue;
		for (i = 0; i < LEAF_WORDS; i++)
			sync_word(mm, space, leaf->first + 64 * i, &leaf->words[i]);
		if (runs_space == space && drop(space))
			break;
	}
}

void hafnon_sync_marked(void)
{
	int i;

	for (i = 0; i < spaces_end; i++) {
		struct space *space = &spaces[i];

		/* The last of a space's users takes its tables away. */
		if (space->process && space->mm && atomic_read(&space->mm->mm_users))
			hafnon_sync(space->mm);
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
		if (space->used)
			continue;
		if (domain_make(space))
			return -ENOMEM;
		space->used = true;
		space->shown = (struct shown){ .root = (struct shown_leaf ***)stub_stack };
		spaces_end = max_t(int, spaces_end, space - spaces + 1);
		return space - spaces + FIRST;
	}
	return -ENOMEM;
}

void os_kill_ptraced_process(int pid, int reap_child)
{
	struct space *space = space_of(pid);
	int enabled;

	if (!space || !space->used)
		return;
	enabled = um_set_signals(0);
	if (space->process)
		domain_end(space);
	*space = (struct space){};
	while (spaces_end && !spaces[spaces_end - 1].used)
		spaces_end--;
	um_set_signals(enabled);
}

/* What may be done with a page; 0: nothing, and an access faults. */
static u32 options_of(pte_t pte)
{
	if (!pte_present(pte) || !pte_read(pte) || !pte_young(pte))
		return 0;
	return ZX_VM_PERM_READ | (pte_write(pte) && pte_dirty(pte) ? ZX_VM_PERM_WRITE : 0) |
	       (pte_exec(pte) ? ZX_VM_PERM_EXECUTE : 0);
}

/* Whether an entry maps a page of physmem with these options. */
static bool fits(pte_t pte, unsigned long physical, u32 options)
{
	return (pte_val(pte) & PAGE_MASK) == physical && options_of(pte) == options;
}

/*
 * Step 1: maps what Linux' tables have at an address, if they allow the access. Pages beside it that are beside it in
 * physmem, too, come with it: they cost a tenth of a fault each.
 */
bool hafnon_show(u64 address, u64 code)
{
	struct space *space = space_of_mm(current->mm);
	pte_t *pte = address < TASK_SIZE ? virt_to_pte(current->mm, address) : NULL;
	u32 options = pte ? options_of(*pte) : 0;
	unsigned long page = address >> PAGE_SHIFT, physical, *word, shown;
	int before = 0, behind = 1, i;

	/* There may be no sub-domain: run() says so. */
	if (!options || !space->process || ((code & 2) && !(options & ZX_VM_PERM_WRITE)) || ((code & 16) && !(options & ZX_VM_PERM_EXECUTE)))
		return false;
	physical = pte_val(*pte) & PAGE_MASK;
	word = shown_word(&space->shown, page);
	shown = word ? *word : 0;
	while ((page - before) % AROUND && !(shown >> (page - before - 1) % 64 & 1) &&
	       fits(pte[-before - 1], physical - (before + 1) * PAGE_SIZE, options))
		before++;
	while ((page + behind) % AROUND && !(shown >> (page + behind) % 64 & 1) &&
	       fits(pte[behind], physical + behind * PAGE_SIZE, options))
		behind++;
	shown_set(space, page - before, before + behind);
	runs_add(space, (page - before) << PAGE_SHIFT, (before + behind) << PAGE_SHIFT, physical - before * PAGE_SIZE,
		 options);
	hafnon_runs_flush();
	for (i = -before; i < behind; i++)
		pte[i] = pte_mkuptodate(pte[i]);
	return true;
}
