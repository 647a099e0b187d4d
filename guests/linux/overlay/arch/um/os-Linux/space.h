/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAFNON_SPACE_H
#define HAFNON_SPACE_H

/* Takes from the sub-domains, and the kernel's own space, what has changed in page tables. Interrupts are disabled. */
void hafnon_sync_marked(void);

#endif
