// SPDX-License-Identifier: GPL-2.0
/*
 * Files and descriptors: standard output, the initial file system, whose name is "initrd", and those of virtio_uml
 * (vhost.c). What a C library has beside them is refused.
 */

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <os.h>

#include "outside.h"
#include "table.h"
#include "vhost.h"

#define INITRD 4

static u64 initrd_at;

int os_file_size(const char *file, unsigned long long *size)
{
	if (strcmp(file, "initrd") || !hafnon->initrd_len)
		return -ENOENT;
	*size = hafnon->initrd_len;
	return 0;
}

int os_open_file(const char *file, struct openflags flags, int mode)
{
	if (strcmp(file, "initrd") || !hafnon->initrd_len)
		return -ENOENT;
	initrd_at = 0;
	return INITRD;
}

int os_read_file(int fd, void *buf, int len)
{
	u64 part;

	if (vhost_has(fd))
		return hafnon_vhost_read(fd, buf, len);
	if (fd != INITRD)
		return -EBADF;
	part = min_t(u64, len, hafnon->initrd_len - initrd_at);
	memcpy(buf, hafnon->initrd + initrd_at, part);
	initrd_at += part;
	return part;
}

static long put(int fd, const void *buf, long count)
{
	if (fd != OUTPUT && fd != ERROR)
		return -EBADF;
	hafnon_write(fd, buf, count);
	return count;
}

/* Also called for physmem, whose pages are written in place. */
int os_write_file(int fd, const void *buf, int count)
{
	if (vhost_has(fd))
		return hafnon_vhost_write(fd, count);
	return put(fd, buf, count);
}

void os_close_file(int fd)
{
	if (vhost_has(fd))
		hafnon_vhost_close(fd);
}

int os_pipe(int *fd, int stream, int close_on_exec)
{
	return hafnon_vhost_pipe(fd);
}

int os_set_fd_block(int fd, int blocking)
{
	return 0;
}

int raw(int fd)
{
	return -ENOTTY;
}

int is_skas_winch(int pid, int fd, void *data)
{
	return 0;
}

int run_helper_thread(int (*proc)(void *), void *arg, unsigned int flags, unsigned long *stack_out)
{
	return -ENOSYS;
}

int os_seek_file(int fd, unsigned long long offset)
{
	return 0;
}

int os_fsync_file(int fd)
{
	return 0;
}

/* What user code of Linux' drivers calls in a C library: the error number is a variable of ours. */
static int number;
int *__errno_location(void);
int *__errno_location(void)
{
	return &number;
}

ssize_t write(int fd, const void *buf, size_t count);
ssize_t write(int fd, const void *buf, size_t count)
{
	long done = put(fd, buf, count);

	if (done >= 0)
		return done;
	number = -done;
	return -1;
}

/* Input is the console's (console.c). */
ssize_t read(int fd, void *buf, size_t count);
ssize_t read(int fd, void *buf, size_t count)
{
	number = EAGAIN;
	return -1;
}

int open64(const char *file, int flags, ...);
int open64(const char *file, int flags, ...)
{
	number = ENOENT;
	return -1;
}

int isatty(int fd);
int isatty(int fd)
{
	return 0;
}

int close(int fd);
int close(int fd)
{
	return 0;
}

unsigned long strtoul(const char *text, char **end, int base);
unsigned long strtoul(const char *text, char **end, int base)
{
	return simple_strtoul(text, end, base);
}
