/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAFNON_SPACE_H
#define HAFNON_SPACE_H

#include <linux/types.h>

struct mm_struct;

/* The sub-domain of a space; 0 if no code may run in it any more. */
u32 hafnon_domain(struct mm_struct *mm);

/* Step 1: maps what Linux' tables have at an address of the current space; false if they do not allow the access. */
bool hafnon_show(u64 address, u64 code);

/*
 * Step 3. What has to be unmapped may wait for hafnon_runs_flush(). Where a page could not be unmapped, no code runs in
 * the space any more (hafnon_domain).
 */
void hafnon_sync(struct mm_struct *mm);

/* Step 3 for all spaces, and the kernel's own. */
void hafnon_sync_marked(void);

/* Before user code runs. A space whose pages could not be changed has no sub-domain any more (hafnon_domain). */
void hafnon_runs_flush(void);

#endif
