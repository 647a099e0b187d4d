/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The descriptors of Linux' driver virtio_uml, which speaks vhost-user with the system's switch. The launcher has the same
 * definition (guests/linux/launcher/src/fuchsia/vhost.rs). Functions return 0 or more, or an error of Linux' as a negative
 * number.
 */
#ifndef HAFNON_VHOST_H
#define HAFNON_VHOST_H

#include <linux/types.h>

/* The first descriptor, and how many there can be. */
#define VHOST_FIRST 16
#define VHOST_DESCRIPTORS 64
/* Keys of packets from here on are those of descriptors. */
#define VHOST_KEY 16

/* A message, with descriptors whose objects are sent. */
struct vhost_message {
	const void *bytes;
	u64 len;
	const s32 *descriptors;
	u64 count;
};

struct vhost_table {
	/* Connects to a port of the switch, and returns a descriptor. */
	s64 (*connect)(const char *name, u64 len);
	/* Makes an event, which kicks when it is written, and returns its descriptor. */
	s64 (*event)(void);
	/* Makes a pipe: the end to read, and the one that is sent with a message, which says what the pipe is for. */
	s64 (*pipe)(s32 *descriptors);
	s64 (*send)(s32 descriptor, const struct vhost_message *message);
	/* Returns how many bytes were read, 0 at the end. Waits for bytes of a connection; of a pipe, it does not. */
	s64 (*read)(s32 descriptor, void *bytes, u64 len);
	s64 (*write)(s32 descriptor);
	/* From now on, a packet comes when there is something to read, once until it was read to its end. */
	s64 (*listen)(s32 descriptor);
	/* Says that a packet with this key was taken; returns the descriptor. */
	s64 (*came)(u64 key);
	void (*close)(s32 descriptor);
};

struct uml_pt_regs;

/* Whether a descriptor is one of these. */
static inline bool vhost_has(int fd)
{
	return fd >= VHOST_FIRST && fd < VHOST_FIRST + VHOST_DESCRIPTORS;
}

int hafnon_vhost_pipe(int *fds);
int hafnon_vhost_read(int fd, void *buf, int len);
int hafnon_vhost_write(int fd, int len);
void hafnon_vhost_close(int fd);
/* Handles a packet with this key. Interrupts are disabled. */
void hafnon_vhost_came(u64 key, struct uml_pt_regs *regs);

#endif
