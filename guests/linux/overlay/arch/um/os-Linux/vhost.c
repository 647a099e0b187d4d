// SPDX-License-Identifier: GPL-2.0
/*
 * What Linux' driver virtio_uml needs of a host: a socket to a device, events, pipes, and interrupts by descriptors. The
 * launcher has them (vhost.h). A descriptor's packet is an interrupt: the driver reads until there is nothing left, and
 * then the next packet is asked for.
 */

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <irq_user.h>
#include <os.h>
#include <sysdep/ptrace.h>

#include "outside.h"
#include "table.h"
#include "vhost.h"

/* Who listens to each descriptor. */
static void *listeners[VHOST_DESCRIPTORS];
/* That of the descriptor whose packet was taken, until it is told. */
static void *told;

static void **listener(int fd)
{
	return vhost_has(fd) ? &listeners[fd - VHOST_FIRST] : NULL;
}

int os_connect_socket(const char *name)
{
	return hafnon_outside(hafnon->vhost->connect, (u64)name, strlen(name), 0);
}

int os_eventfd(unsigned int initval, int flags)
{
	if (initval || flags)
		return -EINVAL;
	return hafnon_outside(hafnon->vhost->event, 0, 0, 0);
}

int os_sendmsg_fds(int fd, const void *buf, unsigned int len, const int *fds, unsigned int fds_num)
{
	struct vhost_message message = { .bytes = buf, .len = len, .descriptors = fds, .count = fds_num };

	if (!vhost_has(fd))
		return -EBADF;
	return hafnon_outside(hafnon->vhost->send, fd, (u64)&message, 0);
}

int hafnon_vhost_pipe(int *fds)
{
	return hafnon_outside(hafnon->vhost->pipe, (u64)fds, 0, 0);
}

int hafnon_vhost_read(int fd, void *buf, int len)
{
	return len < 0 ? -EINVAL : hafnon_outside(hafnon->vhost->read, fd, (u64)buf, len);
}

int hafnon_vhost_write(int fd, int len)
{
	return len == sizeof(u64) ? hafnon_outside(hafnon->vhost->write, fd, 0, 0) : -EINVAL;
}

void hafnon_vhost_close(int fd)
{
	*listener(fd) = NULL;
	hafnon_outside(hafnon->vhost->close, fd, 0, 0);
}

void hafnon_vhost_came(u64 key, struct uml_pt_regs *regs)
{
	void **who = listener(hafnon_outside(hafnon->vhost->came, key, 0, 0));

	if (!who || !*who)
		return;
	told = *who;
	/* It asks the functions below which descriptors have something to read. */
	sigio_handler(0, NULL, regs);
}

int os_setup_epoll(void)
{
	return 0;
}

/* One at a time: the handler of an interrupt can be interrupted. */
int os_waiting_for_events_epoll(void)
{
	return told ? 1 : 0;
}

void *os_epoll_get_data_pointer(int index)
{
	void *who = told;

	told = NULL;
	return who;
}

int os_epoll_triggered(int index, int events)
{
	return events;
}

/* Nothing but reading is waited for. */
int os_event_mask(enum um_irq_type irq_type)
{
	return 1;
}

int os_add_epoll_fd(int events, int fd, void *data)
{
	void **who = listener(fd);
	int err;

	if (!who)
		return -EBADF;
	*who = data;
	err = hafnon_outside(hafnon->vhost->listen, fd, 0, 0);
	if (err)
		*who = NULL;
	return err;
}

int os_del_epoll_fd(int fd)
{
	void **who = listener(fd);

	if (who)
		*who = NULL;
	return 0;
}

void os_set_ioignore(void)
{
}

void os_close_epoll_fd(void)
{
	memset(listeners, 0, sizeof(listeners));
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
