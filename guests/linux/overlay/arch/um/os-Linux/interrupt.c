// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts and time. An interrupt is a packet at the port that is bound to the virtual processor: an event
 * (docs/virtual-processors.md). It stops code in a sub-domain and interrupts kernel code that has interrupts enabled
 * (upcall.c). Otherwise it is pending, and the kernel looks for it when it enables interrupts and when it is idle.
 */

#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <irq_kern.h>
#include <kern_util.h>
#include <os.h>
#include <sysdep/ptrace.h>

#include "interrupt.h"
#include "table.h"
#include "upcall.h"
#include "user.h"
#include "vhost.h"

enum { KEY_TIMER = 1, KEY_INPUT = 2, KEY_VIRTIO = 3 };

/* Whether interrupts are enabled, as Linux looks at it; the page says it to the system. */
int signals_enabled;

struct uml_pt_regs hafnon_no_user;

/* Whether the port will get a packet when the timer fires. */
static bool armed;
/* When Linux wants its next interrupt of the timer, in nanoseconds of the monotonic clock. */
static s64 deadline = ZX_TIME_INFINITE;
/* Nanoseconds between two ticks of a periodic timer; 0: it fires once. */
static u64 interval;

/*
 * For tests: with a number in /sys/module/interrupt/parameters/storm the timer fires at most so many nanoseconds after
 * each interrupt, too, and each interrupt asks for the next task.
 */
static uint storm;
module_param(storm, uint, 0644);

static u32 storm_random(void)
{
	static u32 state = 1;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static void arm(void)
{
	s64 at = deadline;
	uint within = READ_ONCE(storm);

	if (within)
		at = min_t(s64, at, hafnon->now() + storm_random() % within);
	if (at == ZX_TIME_INFINITE) {
		hafnon->timer_cancel(hafnon->timer);
		return;
	}
	if (!armed && hafnon->wait_async(hafnon->timer, hafnon->port, KEY_TIMER, ZX_TIMER_SIGNALED, 0))
		panic("the timer cannot be waited for");
	armed = true;
	hafnon->timer_set(hafnon->timer, at, 0);
}

/* The timer has fired: for Linux, unless Linux has set it anew meanwhile. */
static void timer(struct uml_pt_regs *regs)
{
	bool due = hafnon->now() >= deadline;

	armed = false;
	if (due)
		deadline = interval ? hafnon->now() + interval : ZX_TIME_INFINITE;
	if (storm)
		set_tsk_need_resched(current);
	arm();
	if (due)
		timer_handler(0, NULL, regs);
}

static void take_event(void)
{
	u64 was = 0;

	asm volatile("xchg %0, %1" : "+m"(hafnon->page->pending), "+r"(was) : : "memory");
}

/* Handles all interrupts that have come. Interrupts are disabled. */
void hafnon_interrupts(struct uml_pt_regs *regs)
{
	u64 key;

	take_event();
	while ((key = hafnon->packet(hafnon->port)) != 0) {
		switch (key) {
		case KEY_TIMER:
			timer(regs);
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
		default:
			if (key >= VHOST_KEY)
				hafnon_vhost_came(key, regs);
		}
	}
}

void block_signals(void)
{
	WRITE_ONCE(hafnon->page->enabled, 0);
	barrier();
	signals_enabled = 0;
	barrier();
}

void unblock_signals(void)
{
	if (signals_enabled)
		return;
	for (;;) {
		signals_enabled = 1;
		barrier();
		WRITE_ONCE(hafnon->page->enabled, 1);
		barrier();
		if (!READ_ONCE(hafnon->page->pending))
			return;
		block_signals();
		hafnon_interrupts(&hafnon_no_user);
		hafnon_preempt();
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
	deadline = hafnon->now() + nsecs;
	arm();
	return 0;
}

int os_timer_set_interval(unsigned long long nsecs)
{
	interval = nsecs;
	deadline = hafnon->now() + nsecs;
	arm();
	return 0;
}

void os_timer_disable(void)
{
	interval = 0;
	deadline = ZX_TIME_INFINITE;
	arm();
}

/* Vector registers that the launcher's functions use must not be in use when an upcall comes. */
long long os_nsecs(void)
{
	int enabled = um_set_signals(0);
	long long now = hafnon->now();

	um_set_signals(enabled);
	return now;
}

long long os_persistent_clock_emulation(void)
{
	return hafnon->boot_time + os_nsecs();
}
