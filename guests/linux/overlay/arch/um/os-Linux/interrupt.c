// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts and time. An interrupt is a packet at the port that is bound to the virtual processor: it stops code in a
 * sub-domain, and is pending while the kernel runs, which looks for it when it enables interrupts and when it is idle.
 */

#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <irq_kern.h>
#include <kern_util.h>
#include <os.h>
#include <sysdep/ptrace.h>

#include "interrupt.h"
#include "table.h"

enum { KEY_TIMER = 1, KEY_INPUT = 2, KEY_VIRTIO = 3 };

int signals_enabled;

/* Whether the port will get a packet when the timer fires. */
static bool armed;
/* Nanoseconds between two ticks of a periodic timer; 0: it fires once. */
static u64 interval;

static void arm(u64 nsecs)
{
	if (!armed && hafnon->wait_async(hafnon->timer, hafnon->port, KEY_TIMER, ZX_TIMER_SIGNALED, 0))
		panic("the timer cannot be waited for");
	armed = true;
	hafnon->timer_set(hafnon->timer, hafnon->now() + nsecs, 0);
}

static bool take_event(void)
{
	u64 was = 0;

	asm volatile("xchg %0, %1" : "+m"(hafnon->page->pending), "+r"(was) : : "memory");
	return was;
}

/* Handles all interrupts that have come. Interrupts are disabled. */
void hafnon_interrupts(struct uml_pt_regs *regs)
{
	u64 key;

	take_event();
	while ((key = hafnon->packet(hafnon->port)) != 0) {
		switch (key) {
		case KEY_TIMER:
			armed = false;
			if (interval)
				arm(interval);
			timer_handler(0, NULL, regs);
			break;
		case KEY_INPUT:
			hafnon_input_came();
			if (hafnon_console_irq >= 0)
				do_IRQ(hafnon_console_irq, regs);
			break;
		case KEY_VIRTIO:
			if (hafnon_virtio_irq >= 0)
				do_IRQ(hafnon_virtio_irq, regs);
			break;
		}
	}
}

void block_signals(void)
{
	signals_enabled = 0;
	barrier();
}

void unblock_signals(void)
{
	/* The kernel itself: no user registers. */
	static struct uml_pt_regs none;

	if (signals_enabled)
		return;
	for (;;) {
		signals_enabled = 1;
		barrier();
		if (!READ_ONCE(hafnon->page->pending))
			return;
		signals_enabled = 0;
		barrier();
		hafnon_interrupts(&none);
	}
}

int um_set_signals(int enable)
{
	int was = signals_enabled;

	if (enable)
		unblock_signals();
	else
		block_signals();
	return was;
}

int um_set_signals_trace(int enable)
{
	int was = signals_enabled;

	if (was == enable)
		return was;
	if (enable)
		unblock_signals_trace();
	else
		block_signals_trace();
	return was;
}

void timer_set_signal_handler(void)
{
}

void send_sigio_to_self(void)
{
}

/* With interrupts disabled, until one has come; it is handled when they are enabled. */
void os_idle_sleep(void)
{
	hafnon_left();
	hafnon->vproc_wait(hafnon->page);
}

int os_timer_create(void)
{
	return 0;
}

int os_timer_one_shot(unsigned long long nsecs)
{
	interval = 0;
	arm(nsecs);
	return 0;
}

int os_timer_set_interval(unsigned long long nsecs)
{
	interval = nsecs;
	arm(nsecs);
	return 0;
}

void os_timer_disable(void)
{
	interval = 0;
	hafnon->timer_cancel(hafnon->timer);
}

long long os_nsecs(void)
{
	return hafnon->now();
}

long long os_persistent_clock_emulation(void)
{
	return hafnon->boot_time + hafnon->now();
}

/* No interrupt comes from a file descriptor. */
int os_setup_epoll(void)
{
	return 0;
}

int os_waiting_for_events_epoll(void)
{
	return 0;
}

void *os_epoll_get_data_pointer(int index)
{
	return NULL;
}

int os_epoll_triggered(int index, int events)
{
	return 0;
}

int os_event_mask(enum um_irq_type irq_type)
{
	return 1;
}

int os_add_epoll_fd(int events, int fd, void *data)
{
	return 0;
}

int os_del_epoll_fd(int fd)
{
	return 0;
}

void os_set_ioignore(void)
{
}

void os_close_epoll_fd(void)
{
}

int os_set_fd_async(int fd)
{
	return 0;
}

void maybe_sigio_broken(int fd)
{
}

int ignore_sigio_fd(int fd)
{
	return 0;
}
