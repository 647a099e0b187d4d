/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAFNON_USER_H
#define HAFNON_USER_H

#include <linux/types.h>

/* The code that stopped last can only be entered again, not resumed. */
void hafnon_left(void);

/* Before a sub-domain is taken away. */
void hafnon_user_leaves(u32 process);

#endif
