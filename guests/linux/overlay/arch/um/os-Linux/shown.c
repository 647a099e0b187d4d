// SPDX-License-Identifier: GPL-2.0
/* The record of the pages that may be mapped in a space (space.c). */

#include <linux/bitops.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "shown.h"

unsigned long *shown_make(struct shown *shown, unsigned long page)
{
	unsigned long at = page >> 18;
	struct shown_leaf ***table = &shown->root[at], **leaf;

	if (!*table) {
		*table = (void *)get_zeroed_page(GFP_ATOMIC);
		if (!*table)
			return NULL;
		shown->used[at / 64] |= 1ul << at % 64;
	}
	leaf = &(*table)[page >> 9 & 511];
	if (!*leaf) {
		*leaf = kzalloc(sizeof(**leaf), GFP_ATOMIC);
		if (!*leaf)
			return NULL;
		(*leaf)->first = page & ~(LEAF_PAGES - 1);
		(*leaf)->next = shown->leaves;
		shown->leaves = *leaf;
	}
	return &(*leaf)->words[page % LEAF_PAGES / 64];
}

void shown_clear(struct shown *shown)
{
	int i;

	shown->pages = 0;
	while (shown->leaves) {
		struct shown_leaf *leaf = shown->leaves;

		shown->leaves = leaf->next;
		kfree(leaf);
	}
	for (i = 0; i < ARRAY_SIZE(shown->used); i++) {
		for (; shown->used[i]; shown->used[i] &= shown->used[i] - 1) {
			unsigned long at = i * 64 + __ffs(shown->used[i]);

			free_page((unsigned long)shown->root[at]);
			shown->root[at] = NULL;
		}
	}
}
