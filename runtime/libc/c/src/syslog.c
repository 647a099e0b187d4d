// syslog, which writes to the kernel's debug log.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>
#include <zircon/syscalls.h>
#include "lock.h"

static volatile int lock[1];
static zx_handle_t log_handle;
static char ident[32];
static int options, mask = 0xff;

static void open_log(void)
{
	if (!log_handle)
		zx_debuglog_create(ZX_HANDLE_INVALID, 0, &log_handle);
}

void openlog(const char *name, int how, int facility)
{
	LOCK(lock);
	snprintf(ident, sizeof ident, "%s", name ? name : "");
	options = how;
	if (how & LOG_NDELAY)
		open_log();
	UNLOCK(lock);
}

void closelog(void)
{
	LOCK(lock);
	zx_handle_close(log_handle);
	log_handle = 0;
	UNLOCK(lock);
}

int setlogmask(int wanted)
{
	LOCK(lock);
	int old = mask;
	if (wanted)
		mask = wanted;
	UNLOCK(lock);
	return old;
}

void vsyslog(int priority, const char *format, va_list more)
{
	// Longest line that the log accepts.
	char line[200];
	int error = errno;
	LOCK(lock);
	if (mask & LOG_MASK(LOG_PRI(priority))) {
		int head = snprintf(line, sizeof line, "%s%s", ident, ident[0] ? ": " : "");
		if (options & LOG_PID)
			head = snprintf(line, sizeof line, "%s[%d]: ", ident, getpid());
		errno = error;
		vsnprintf(line + head, sizeof line - head, format, more);
		open_log();
		zx_debuglog_write(log_handle, 0, line, strlen(line));
		if (options & LOG_PERROR)
			dprintf(2, "%s\n", line);
	}
	UNLOCK(lock);
}

void syslog(int priority, const char *format, ...)
{
	va_list more;
	va_start(more, format);
	vsyslog(priority, format, more);
	va_end(more);
}
