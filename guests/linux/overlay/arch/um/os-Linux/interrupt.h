/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAFNON_INTERRUPT_H
#define HAFNON_INTERRUPT_H

struct uml_pt_regs;

/* Handles all interrupts that have come; `regs` are those of the interrupted code. Interrupts are disabled. */
void hafnon_interrupts(struct uml_pt_regs *regs);

/* The console's interrupt; negative before there is one. */
extern int hafnon_console_irq;

/* That of all virtio devices; negative before there is one. */
extern int hafnon_virtio_irq;

/* Wakes who waits for the launcher's standard input. */
void hafnon_input_came(void);

#endif
