// SPDX-License-Identifier: GPL-2.0
/*
 * The launcher's standard input, output and error as devices that are no terminal: /dev/launcher-in, -out, -err. Input
 * goes to hvc0 instead while that is open and nobody reads here.
 */

#include <linux/fs.h>
#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "interrupt.h"
#include "outside.h"
#include "table.h"

#define PIECE 4096ul

static DECLARE_WAIT_QUEUE_HEAD(readers);
static DEFINE_MUTEX(taking);
/* Input that was taken and not read yet. */
static u8 taken[PIECE];
static size_t taken_from, taken_len;
static bool ended;

void hafnon_input_came(void)
{
	wake_up_interruptible(&readers);
}

/* Whether there is something to read, or the end. */
static bool take(void)
{
	s64 len;

	if (taken_len || ended)
		return true;
	len = hafnon_input(taken, sizeof(taken));
	taken_from = 0;
	taken_len = max(len, 0ll);
	ended = len < 0;
	return taken_len || ended;
}

static ssize_t streams_read(struct file *file, char __user *buf, size_t count, loff_t *at)
{
	ssize_t done;

	if (file->f_flags & O_NONBLOCK) {
		if (!mutex_trylock(&taking))
			return -EAGAIN;
		if (!take()) {
			done = -EAGAIN;
			goto out;
		}
	} else if (mutex_lock_interruptible(&taking)) {
		return -ERESTARTSYS;
	}
	done = wait_event_interruptible(readers, take());
	if (done)
		goto out;
	done = min(count, taken_len);
	if (copy_to_user(buf, taken + taken_from, done)) {
		done = -EFAULT;
		goto out;
	}
	taken_from += done;
	taken_len -= done;
out:
	mutex_unlock(&taking);
	return done;
}

static __poll_t streams_poll(struct file *file, poll_table *wait)
{
	__poll_t mask = EPOLLOUT | EPOLLWRNORM;

	poll_wait(file, &readers, wait);
	if (mutex_trylock(&taking)) {
		if (take())
			mask |= EPOLLIN | EPOLLRDNORM;
		mutex_unlock(&taking);
	}
	return mask;
}

static ssize_t put(int fd, const char __user *buf, size_t count)
{
	size_t done, len = min(count, PIECE);
	char *piece = kmalloc(len, GFP_KERNEL);

	if (!piece)
		return -ENOMEM;
	for (done = 0; done < count; done += len) {
		len = min(count - done, PIECE);
		if (copy_from_user(piece, buf + done, len))
			break;
		hafnon_write(fd, piece, len);
	}
	kfree(piece);
	return done || !count ? done : -EFAULT;
}

static ssize_t streams_write_output(struct file *file, const char __user *buf, size_t count, loff_t *at)
{
	return put(OUTPUT, buf, count);
}

static ssize_t streams_write_error(struct file *file, const char __user *buf, size_t count, loff_t *at)
{
	return put(ERROR, buf, count);
}

static const struct file_operations input_operations = { .read = streams_read, .poll = streams_poll };
static const struct file_operations output_operations = { .write = streams_write_output };
static const struct file_operations error_operations = { .write = streams_write_error };

static struct miscdevice devices[] = {
	{ .minor = MISC_DYNAMIC_MINOR, .name = "launcher-in", .fops = &input_operations, .mode = 0444 },
	{ .minor = MISC_DYNAMIC_MINOR, .name = "launcher-out", .fops = &output_operations, .mode = 0222 },
	{ .minor = MISC_DYNAMIC_MINOR, .name = "launcher-err", .fops = &error_operations, .mode = 0222 },
};

static int __init streams_start(void)
{
	int i, err = 0;

	for (i = 0; i < ARRAY_SIZE(devices) && !err; i++)
		err = misc_register(&devices[i]);
	return err;
}
device_initcall(streams_start);
