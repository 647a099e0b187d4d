// SPDX-License-Identifier: GPL-2.0
/*
 * The transport between Linux' virtio drivers and the launcher's devices:
 * 1. A driver puts requests into a ring in Linux' memory.
 * 2. It kicks: a function of the table wakes the device's thread in the launcher, and Linux goes on.
 * 3. That thread does what is asked for, and puts the answers into the ring.
 * 4. It interrupts: a packet comes at the port, which is one interrupt for all devices.
 * 5. The drivers of the devices that wanted it take their answers.
 */

#include <linux/err.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <irq_kern.h>
#include <irq_user.h>

#include "interrupt.h"
#include "outside.h"
#include "table.h"
#include "virtio.h"

/* The set of devices that want to interrupt has a bit for each. */
#define DEVICES 32

struct device_of_launcher {
	struct virtio_device vdev;
	u32 number;
};

/* -1: there is none yet. */
int hafnon_virtio_irq = -1;

/* Guards which queues there are against the interrupt. */
static DEFINE_SPINLOCK(guard);
static struct device_of_launcher *devices[DEVICES];

static u32 number_of(struct virtio_device *vdev)
{
	return container_of(vdev, struct device_of_launcher, vdev)->number;
}

static void transport_get(struct virtio_device *vdev, unsigned int offset, void *bytes, unsigned int len)
{
	u8 *next = bytes;

	while (len--)
		*next++ = (u8)hafnon_outside(hafnon->virtio->config, number_of(vdev), offset++, 0);
}

/* No device has a configuration that a driver could change. */
static void transport_set(struct virtio_device *vdev, unsigned int offset, const void *bytes, unsigned int len)
{
}

static u8 transport_get_status(struct virtio_device *vdev)
{
	return (u8)hafnon_outside(hafnon->virtio->status, number_of(vdev), 0, 0);
}

static void transport_set_status(struct virtio_device *vdev, u8 status)
{
	hafnon_outside(hafnon->virtio->set_status, number_of(vdev), status, 0);
}

static void transport_reset(struct virtio_device *vdev)
{
	hafnon_outside(hafnon->virtio->set_status, number_of(vdev), 0, 0);
}

static u64 transport_get_features(struct virtio_device *vdev)
{
	return hafnon_outside(hafnon->virtio->features, number_of(vdev), 0, 0);
}

static int transport_finalize_features(struct virtio_device *vdev)
{
	vring_transport_features(vdev);
	return (u8)hafnon_outside(hafnon->virtio->accept, number_of(vdev), vdev->features, 0) ? 0 : -EINVAL;
}

static bool transport_kick(struct virtqueue *vq)
{
	hafnon_outside(hafnon->virtio->kick, number_of(vq->vdev), 0, 0);
	return true;
}

static void transport_del_vqs(struct virtio_device *vdev)
{
	struct virtqueue *vq, *next;
	unsigned long flags;
	LIST_HEAD(old);

	spin_lock_irqsave(&guard, flags);
	list_splice_init(&vdev->vqs, &old);
	spin_unlock_irqrestore(&guard, flags);
	list_for_each_entry_safe(vq, next, &old, list)
		vring_del_virtqueue(vq);
}

static struct virtqueue *transport_queue(struct virtio_device *vdev, u32 index, struct virtqueue_info *info)
{
	u32 number = number_of(vdev), size = hafnon_outside(hafnon->virtio->queue_size, number, index, 0);
	struct virtio_rings rings;
	struct virtqueue *vq;

	if (!size)
		return ERR_PTR(-ENOENT);
	vq = vring_create_virtqueue(index, size, PAGE_SIZE, vdev, true, true, info->ctx, transport_kick,
				    info->callback, info->name);
	if (!vq)
		return ERR_PTR(-ENOMEM);
	vq->num_max = size;
	rings.size = virtqueue_get_vring_size(vq);
	rings.descriptors = virtqueue_get_desc_addr(vq);
	rings.available = virtqueue_get_avail_addr(vq);
	rings.used = virtqueue_get_used_addr(vq);
	if ((u8)hafnon_outside(hafnon->virtio->queue_start, number, index, (u64)&rings))
		return vq;
	vring_del_virtqueue(vq);
	return ERR_PTR(-EINVAL);
}

static int transport_find_vqs(struct virtio_device *vdev, unsigned int count, struct virtqueue *vqs[],
			      struct virtqueue_info infos[], struct irq_affinity *affinity)
{
	u32 i, index = 0;

	for (i = 0; i < count; i++) {
		vqs[i] = infos[i].name ? transport_queue(vdev, index++, &infos[i]) : NULL;
		if (IS_ERR(vqs[i])) {
			int err = PTR_ERR(vqs[i]);

			/* The device uses the rings of those before it no more. */
			transport_reset(vdev);
			transport_del_vqs(vdev);
			return err;
		}
	}
	return 0;
}

static const char *transport_bus_name(struct virtio_device *vdev)
{
	return "launcher";
}

static const struct virtio_config_ops transport_ops = {
	.get = transport_get,
	.set = transport_set,
	.get_status = transport_get_status,
	.set_status = transport_set_status,
	.reset = transport_reset,
	.find_vqs = transport_find_vqs,
	.del_vqs = transport_del_vqs,
	.get_features = transport_get_features,
	.finalize_features = transport_finalize_features,
	.bus_name = transport_bus_name,
};

/* Step 5. */
static irqreturn_t transport_interrupt(int irq, void *unused)
{
	unsigned long wanting = (u32)hafnon_outside(hafnon->virtio->interrupts, 0, 0, 0), flags;
	struct virtqueue *vq;
	unsigned int i;

	spin_lock_irqsave(&guard, flags);
	for_each_set_bit(i, &wanting, DEVICES) {
		if (!devices[i])
			continue;
		list_for_each_entry(vq, &devices[i]->vdev.vqs, list)
			vring_interrupt(irq, vq);
	}
	spin_unlock_irqrestore(&guard, flags);
	return IRQ_HANDLED;
}

static void transport_release(struct device *device)
{
}

static int __init transport_start(void)
{
	u32 i;
	int irq;

	if (!hafnon->virtio->count)
		return 0;
	irq = um_request_irq(UM_IRQ_ALLOC, -1, IRQ_READ, transport_interrupt, 0, "virtio", devices);
	if (irq < 0)
		return irq;
	hafnon_virtio_irq = irq;
	for (i = 0; i < min_t(u32, hafnon->virtio->count, DEVICES); i++) {
		struct device_of_launcher *device = kzalloc(sizeof(*device), GFP_KERNEL);
		int err;

		if (!device)
			return -ENOMEM;
		device->number = i;
		device->vdev.id.device = (u32)hafnon_outside(hafnon->virtio->id, i, 0, 0);
		device->vdev.id.vendor = 0;
		device->vdev.config = &transport_ops;
		device->vdev.dev.release = transport_release;
		devices[i] = device;
		/* The devices are there as long as Linux is. */
		err = register_virtio_device(&device->vdev);
		if (err)
			return err;
	}
	return 0;
}
device_initcall(transport_start);
