// SPDX-License-Identifier: GPL-2.0
/* Start, end, messages, and what else of a host Linux has that there is none of here. */

#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <asm/page.h>
#include <init.h>
#include <kern.h>
#include <kern_util.h>
#include <os.h>
#include <skas.h>

#include "outside.h"
#include "table.h"
#include "upcall.h"
#include "vectors.h"

const struct table *hafnon;

extern char _end[];
extern int __init linux_main(int argc, char **argv);
extern int uml_exitcode;

/* The kernel's own ways of printing are not there yet when this is used first. */
static void say(const char *format, va_list args)
{
	static char line[512];
	int len = vscnprintf(line, sizeof(line), format, args);

	hafnon_write(ERROR, line, len);
}

#define SAY(name)					\
	void name(const char *format, ...)		\
	{						\
		va_list args;				\
		va_start(args, format);			\
		say(format, args);			\
		va_end(args);				\
	}
SAY(os_info)
SAY(os_warn)

int printf(const char *format, ...);
int printf(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return 0;
}

void um_early_printk(const char *s, unsigned int n)
{
	hafnon_write(ERROR, s, n);
}

void os_flush_stdout(void)
{
}

/* The launcher calls this on its own stack, and ends with what it returns. */
long _start(const struct table *table, int argc, char **argv);
long __ref _start(const struct table *table, int argc, char **argv)
{
	hafnon = table;
	linux_main(argc, argv);
	return uml_exitcode;
}

void os_dump_core(void)
{
	hafnon_exit(uml_exitcode ? uml_exitcode : 1);
}

void exit(int code);
void exit(int code)
{
	hafnon_exit(code);
}

unsigned long os_get_top_address(void)
{
	return 0x7fc0002000ul;
}

void os_early_checks(void)
{
	hafnon_vectors_start();
	hafnon_upcalls_start();
}

void os_check_bugs(void)
{
}

void get_host_cpu_features(void (*flags)(char *line), void (*cache)(char *line))
{
	static char words[] = "flags : fpu tsc cx8 cmov mmx fxsr sse sse2";
	static char line[] = "cache_alignment : 64";

	flags(words);
	cache(line);
}

int parse_iomem(char *str, int *add);
int parse_iomem(char *str, int *add)
{
	os_warn("iomem= is not supported\n");
	return 1;
}

void setup_machinename(char *machine)
{
	strcpy(machine, "x86_64");
}

void setup_hostinfo(char *buf, int len)
{
	strscpy(buf, "Hafnon", len);
}

void stack_protections(unsigned long address)
{
}

int os_getpid(void)
{
	return 1;
}

ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)
{
	hafnon_random(buf, len);
	return len;
}

int set_umid(char *name)
{
	return -EINVAL;
}

char *get_umid(void)
{
	return "";
}

long elf_aux_hwcap = 0x078bfbfd;

/* There is no heap behind the image. */
void *sbrk(int increment)
{
	return (void *)PAGE_ALIGN((unsigned long)_end);
}

void os_fix_helper_signals(void)
{
}

int os_is_signal_stack(void)
{
	return 0;
}

void register_pm_wake_signal(void)
{
}

void os_set_pdeathsig(void)
{
}

void os_alarm_process(int pid)
{
}

void os_kill_process(int pid, int reap_child)
{
}
