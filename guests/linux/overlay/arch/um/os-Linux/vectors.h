/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAFNON_VECTORS_H
#define HAFNON_VECTORS_H

/* Once, before user code runs. */
void hafnon_vectors_start(void);

/* Step 2: from the processor to a task's registers. */
void hafnon_vectors_save(unsigned long *fp);

/* Step 3: from a task's registers to the processor. */
void hafnon_vectors_load(const unsigned long *fp);

#endif
