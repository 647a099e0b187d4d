/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAFNON_UPCALL_H
#define HAFNON_UPCALL_H

struct uml_pt_regs;

/* The registers for interrupts of the kernel: there is no user code behind them. */
extern struct uml_pt_regs hafnon_no_user;

/* Once, before interrupts are enabled. */
void hafnon_upcalls_start(void);

/*
 * Lets another task run if one should, and if the code that was interrupted, or enables interrupts, may be preempted.
 * Interrupts are disabled.
 */
void hafnon_preempt(void);

#endif
