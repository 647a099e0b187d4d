// SPDX-License-Identifier: GPL-2.0
/*
 * The terminal, hvc0, is the launcher's standard input and output. Input comes as an interrupt; the launcher keeps it
 * until it is taken. The kernel's messages go to hvc0, too, with the option console=hvc0, or to the launcher's standard
 * error, with console=err0.
 */

#include <linux/console.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <irq_kern.h>
#include <irq_user.h>
#include <hvc_console.h>

#include "interrupt.h"
#include "outside.h"
#include "table.h"

#define TERMINAL 0
/* What a terminal sends for it: Ctrl-D. */
#define END_OF_INPUT 4
/* Linux asks for output in pieces of this many bytes. */
#define OUTPUT_SIZE 1024

/* -1: there is none yet. */
int hafnon_console_irq = -1;

static ssize_t console_get(uint32_t terminal, u8 *buf, size_t count)
{
	static bool ended;
	s64 len = hafnon_input(buf, count);

	if (len >= 0)
		return len;
	if (ended || !count)
		return 0;
	ended = true;
	*buf = END_OF_INPUT;
	return 1;
}

static ssize_t console_put(uint32_t terminal, const u8 *buf, size_t count)
{
	hafnon_write(OUTPUT, buf, count);
	return count;
}

static irqreturn_t console_interrupt(int irq, void *console)
{
	if (hvc_poll(console))
		hvc_kick();
	return IRQ_HANDLED;
}

/* The driver polls a console that has not said that its interrupt is there. */
static int console_open(struct hvc_struct *console, int irq)
{
	console->irq_requested = 1;
	return 0;
}

static void console_close(struct hvc_struct *console, int irq)
{
	console->irq_requested = 0;
}

static const struct hv_ops console_ops = {
	.get_chars = console_get,
	.put_chars = console_put,
	.notifier_add = console_open,
	.notifier_del = console_close,
	.notifier_hangup = console_close,
};

static int __init console_first(void)
{
	return hvc_instantiate(TERMINAL, 0, &console_ops);
}
console_initcall(console_first);

static int __init console_terminal(void)
{
	struct hvc_struct *console = hvc_alloc(TERMINAL, 0, &console_ops, OUTPUT_SIZE);
	int irq;

	if (IS_ERR(console))
		return PTR_ERR(console);
	irq = um_request_irq(UM_IRQ_ALLOC, -1, IRQ_READ, console_interrupt, 0, "console", console);
	if (irq < 0)
		return irq;
	hafnon_console_irq = irq;
	return 0;
}
device_initcall(console_terminal);

static void error_write(struct console *console, const char *text, unsigned int len)
{
	/* Linux says this as loudly as a panic. It is no news: everybody sees that the program ends. */
	if (system_state == SYSTEM_POWER_OFF && console_loglevel <= CONSOLE_LOGLEVEL_QUIET &&
	    strnstr(text, "reboot: Power down", len))
		return;
	hafnon_write(ERROR, text, len);
}

static struct console error_console = {
	.name = "err",
	.write = error_write,
	.flags = CON_PRINTBUFFER,
	.index = 0,
};

static int __init error_first(void)
{
	register_console(&error_console);
	return 0;
}
console_initcall(error_first);
