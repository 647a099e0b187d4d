/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the launcher gives the kernel: handles, places, and functions. The launcher has the same definition
 * (guests/linux/launcher/src/fuchsia/table.rs).
 */
#ifndef HAFNON_TABLE_H
#define HAFNON_TABLE_H

#include <linux/types.h>

/* Zircon's statuses and constants that this OS layer uses. */
#define ZX_OK 0
#define ZX_ERR_NOT_FOUND (-25)
#define ZX_VM_PERM_READ 1
#define ZX_VM_PERM_WRITE 2
#define ZX_VM_PERM_EXECUTE 4
#define ZX_VM_SPECIFIC (1 << 4)
#define ZX_VM_SPECIFIC_OVERWRITE (1 << 5)
#define HAFNON_VM_PAGE_TABLE (1 << 23)
#define ZX_TIMER_SIGNALED (1 << 3)
#define ZX_TIME_INFINITE 0x7fffffffffffffffll

/* The registers of a virtual processor, in the order of its page. */
struct vproc_state {
	u64 rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
	u64 ip, rsp, flags, fs_base, gs_base;
};

enum vproc_reason {
	REASON_NONE,
	REASON_SYSCALL,
	REASON_PAGE_FAULT,
	REASON_EXCEPTION,
	REASON_FOREIGN_CALL,
	REASON_KICK,
};

/* The page that the virtual processor shares with its owner (docs/virtual-processors.md). */
struct vproc_page {
	u64 reason, vector, code, address, ip, slot, reserved[2];
	struct vproc_state state;
	u64 unused[4];
	u64 enabled, pending, entry_ip, entry_sp, resume_from, resume_to, vectors, interrupted;
	struct vproc_state saved;
};

/* A run of pages for zx_vproc_map; without options they are unmapped. */
struct vproc_run {
	u64 address, offset, len;
	u32 options, reserved;
};

struct vhost_table;
struct virtio_table;

struct table {
	/* Where the initial file system is in memory, and its size in bytes; 0 if there is none. */
	const char *initrd;
	u64 initrd_len;
	/* Nanoseconds since 1970 when the monotonic clock was 0. */
	s64 boot_time;
	struct vproc_page *page;
	u32 vproc, physmem, port, timer, job, vmar;
	/* Writes bytes to the launcher's standard output, 1, or error, 2. */
	void (*write)(u32 fd, const char *bytes, u64 len);
	/* Takes bytes of the launcher's standard input that have come; returns how many, or -1 at its end. */
	s64 (*input)(u8 *bytes, u64 len);
	void (*exit)(s64 code) __attribute__((noreturn));
	s32 (*vproc_enter)(u32 vproc, u32 process, struct vproc_page *page);
	s32 (*vproc_resume)(u32 vproc, struct vproc_page *page);
	s32 (*vproc_state)(u32 vproc, struct vproc_page *page);
	s32 (*vproc_wait)(struct vproc_page *page);
	s32 (*vproc_map)(u32 vmar, u32 vmo, const struct vproc_run *runs, u64 count);
	s32 (*process_create)(u32 job, const char *name, u64 len, u32 options, u32 *process, u32 *vmar);
	s32 (*task_kill)(u32 task);
	s32 (*handle_close)(u32 handle);
	s32 (*vmar_map)(u32 vmar, u32 options, u64 offset, u32 vmo, u64 vmo_offset, u64 len, u64 *address);
	s32 (*vmar_unmap)(u32 vmar, u64 address, u64 len);
	s32 (*vmar_protect)(u32 vmar, u32 options, u64 address, u64 len);
	s32 (*timer_set)(u32 timer, s64 deadline, s64 slack);
	s32 (*timer_cancel)(u32 timer);
	s32 (*wait_async)(u32 object, u32 port, u64 key, u32 signals, u32 options);
	/* Takes a packet without waiting and returns its key; 0: there is none. */
	u64 (*packet)(u32 port);
	s64 (*now)(void);
	void (*random)(void *buffer, u64 len);
	/* Its devices (virtio.h). */
	const struct virtio_table *virtio;
	/* Ports of the system's switch (vhost.h). */
	const struct vhost_table *vhost;
};

/* The reserved range, which is all of `vmar`: physmem begins where the kernel is linked. */
#define RANGE 0x60000000ul
#define RANGE_LEN (8ul << 30)

enum { OUTPUT = 1, ERROR = 2 };

extern const struct table *hafnon;

#endif
