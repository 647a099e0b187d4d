/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The launcher's virtio devices: what of a device a driver sees beside its rings, which are in Linux' memory. The
 * launcher has the same definition (guests/linux/launcher/src/fuchsia/virtio.rs).
 */
#ifndef HAFNON_VIRTIO_H
#define HAFNON_VIRTIO_H

#include <linux/types.h>

/* A queue's number of entries, and the physical addresses of its rings. */
struct virtio_rings {
	u64 size, descriptors, available, used;
};

struct virtio_table {
	/* Devices are numbered from 0. */
	u32 count;
	/* The kind of a device (VIRTIO_ID_*), and the features that it offers. */
	u32 (*id)(u32 device);
	u64 (*features)(u32 device);
	/* Says which of them the driver uses; false: it offers not all of these. */
	bool (*accept)(u32 device, u64 features);
	u8 (*status)(u32 device);
	/* 0 resets: then the device uses its rings no more. */
	void (*set_status)(u32 device, u8 status);
	/* A byte of the configuration space; beyond its end there are zeroes. */
	u8 (*config)(u32 device, u32 offset);
	/* The number of entries that a queue can have; 0: there is no such queue. */
	u32 (*queue_size)(u32 device, u32 queue);
	/* Starts a queue with these rings; false: it cannot be like that. */
	bool (*queue_start)(u32 device, u32 queue, const struct virtio_rings *rings);
	/* Says that there are requests. */
	void (*kick)(u32 device);
	/* Takes the set of devices that want to interrupt. A packet has come if it was not empty. */
	u32 (*interrupts)(void);
};

#endif
