// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own memory: the launcher has mapped physmem where the kernel is linked. Interrupts are disabled for the
 * system's calls (upcall.c).
 */

#include <linux/errno.h>
#include <linux/kernel.h>
#include <mem_user.h>
#include <os.h>

#include "table.h"

enum { PHYSMEM = 3 };

int create_mem_file(unsigned long long len)
{
	return PHYSMEM;
}

extern unsigned long uml_physmem;

int os_map_memory(void *virt, int fd, unsigned long long off, unsigned long len, int r, int w, int x)
{
	u64 address = (u64)virt, at;
	u32 options = ZX_VM_PERM_READ | (w ? ZX_VM_PERM_WRITE : 0) | ZX_VM_SPECIFIC_OVERWRITE;
	int enabled, status;

	/* Physmem itself is there. */
	if (address - uml_physmem == off)
		return 0;
	if (fd != PHYSMEM)
		return -EINVAL;
	enabled = um_set_signals(0);
	status = hafnon->vmar_map(hafnon->vmar, options, address - RANGE, hafnon->physmem, off, len, &at);
	um_set_signals(enabled);
	return status ? -ENOMEM : 0;
}

int os_unmap_memory(void *addr, int len)
{
	int enabled = um_set_signals(0);
	int status = hafnon->vmar_unmap(hafnon->vmar, (u64)addr, (unsigned int)len);

	um_set_signals(enabled);
	switch (status) {
	case ZX_OK:
	case ZX_ERR_NOT_FOUND:
		return 0;
	default:
		return -ENOMEM;
	}
}

int os_protect_memory(void *addr, unsigned long len, int r, int w, int x)
{
	u32 options = ZX_VM_PERM_READ | (w ? ZX_VM_PERM_WRITE : 0);
	int enabled = um_set_signals(0);
	int status = hafnon->vmar_protect(hafnon->vmar, options, (u64)addr, len);

	um_set_signals(enabled);
	return status ? -ENOMEM : 0;
}
