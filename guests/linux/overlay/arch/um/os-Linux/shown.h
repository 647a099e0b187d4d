/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAFNON_SHOWN_H
#define HAFNON_SHOWN_H

#include <linux/types.h>

/* Pages of one leaf: what one page table has. */
#define LEAF_PAGES 512ul
#define LEAF_WORDS (LEAF_PAGES / 64)

/* Which of these pages may be mapped: a bit each. */
struct shown_leaf {
	struct shown_leaf *next;
	unsigned long first;
	unsigned long words[LEAF_WORDS];
};

/*
 * Which pages of a space may be mapped: two levels of tables with 512 entries, as Linux' page tables have, above the
 * leaves, and a list of all leaves. Interrupts are disabled for all of it.
 */
struct shown {
	/* A page that is all zero at first. */
	struct shown_leaf ***root;
	struct shown_leaf *leaves;
	/* Which entries of the root there are. */
	unsigned long used[8];
	/* How many pages may be mapped. */
	unsigned long pages;
};

/* The word with a page, in which it is bit `page % 64`; NULL: no page of its leaf may be mapped. */
static inline unsigned long *shown_word(const struct shown *shown, unsigned long page)
{
	struct shown_leaf **table = shown->root[page >> 18];
	struct shown_leaf *leaf = table ? table[page >> 9 & 511] : NULL;

	return leaf ? &leaf->words[page % LEAF_PAGES / 64] : NULL;
}

/* The same; makes the leaf. NULL: there is no memory. */
unsigned long *shown_make(struct shown *shown, unsigned long page);

/* Frees everything but the root, which is all zero then. */
void shown_clear(struct shown *shown);

#endif
