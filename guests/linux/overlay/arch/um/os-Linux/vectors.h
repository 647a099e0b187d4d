/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAFNON_VECTORS_H
#define HAFNON_VECTORS_H

/* Once, before user code runs. */
void hafnon_vectors_start(void);

/* Step 2: from the processor, for the current task, whose registers have their place at `fp`. */
void hafnon_vectors_save(unsigned long *fp);

/* Step 3. */
void hafnon_vectors_flush(void);

/* Step 4. */
void hafnon_vectors_load(unsigned long *fp);

#endif
