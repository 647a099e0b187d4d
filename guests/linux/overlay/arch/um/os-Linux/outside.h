/* SPDX-License-Identifier: GPL-2.0 */
/* The launcher's functions that need a stack: called on its own, with interrupts disabled (upcall.c). */
#ifndef HAFNON_OUTSIDE_H
#define HAFNON_OUTSIDE_H

#include <linux/types.h>

/* Once, on the launcher's stack: functions use what is below here. */
void hafnon_outside_start(void);

/* Calls a function of the launcher; what it returns beyond its own type is undefined. */
long hafnon_outside(void *function, u64 a, u64 b, u64 c);

void hafnon_write(u32 fd, const char *bytes, u64 len);
s64 hafnon_input(u8 *bytes, u64 len);
void hafnon_random(void *buffer, u64 len);
void hafnon_exit(s64 code) __attribute__((noreturn));

#endif
