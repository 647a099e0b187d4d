// SPDX-License-Identifier: GPL-2.0
/*
 * The x87 and vector registers of user code.
 * 1. The virtual processor shares those of its owner, the thread that this kernel is. The kernel itself uses none, but
 *    the launcher's functions do.
 * 2. As soon as user code has stopped, they go to `area`.
 * 3. From there they go to its task's regs->fp, where Linux has them, if they are needed there: before a task switch,
 *    signals, and the system calls that use them (hafnon_vectors_flush). So the area belongs to the current task only.
 * 4. Just before user code runs, they are loaded, from the area if they are there still.
 * A program can put any bytes into regs->fp with a signal frame, so what XRSTOR refuses is taken out first.
 */

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#include <sysdep/ptrace.h>

#include "vectors.h"

/* x87, SSE and AVX: what fits into a signal frame. */
#define COMPONENTS 7u
/* What XSAVE writes for them (Intel SDM, volume 1, chapter 13). */
struct area {
	u16 control, status;
	u8 unused[20];
	u32 mxcsr, mxcsr_mask;
	u8 registers[480];
	u64 components, compacted, reserved[6];
	u8 avx[256];
};

static struct area area __aligned(64);
/* Whose registers are in the area and not there; NULL: nobody's. */
static unsigned long *owner;
static u32 components, mxcsr_mask;

/* The values that the launcher's code expects in the control words. */
static const u32 initial_mxcsr = 0x1f80;

/* Linux' memcpy takes four times as long on a processor without fast short copies. */
static void copy(void *to, const void *from)
{
	unsigned long words = sizeof(area) / 8;

	asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}

void hafnon_vectors_start(void)
{
	u32 eax, ebx, ecx, edx, high;

	asm volatile("cpuid" : "=a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx) : "a"(1), "c"(0));
	if (!(ecx & (1u << 27)))
		panic("the system does not save vector registers with XSAVE");
	asm volatile("xgetbv" : "=a"(components), "=d"(high) : "c"(0));
	components &= COMPONENTS;
	asm volatile("fxsave64 %0" : "=m"(area));
	/* 0 means this value. */
	mxcsr_mask = area.mxcsr_mask ? area.mxcsr_mask : 0xffbf;
	memset(&area, 0, sizeof(area));
}

void hafnon_vectors_save(unsigned long *fp)
{
	asm volatile("xsave64 %0" : "+m"(area) : "a"(components), "d"(0));
	asm volatile("fninit; ldmxcsr %0" : : "m"(initial_mxcsr));
	owner = fp;
}

void hafnon_vectors_flush(void)
{
	if (owner)
		copy(owner, &area);
	owner = NULL;
}

void hafnon_vectors_load(unsigned long *fp)
{
	if (owner != fp) {
		hafnon_vectors_flush();
		copy(&area, fp);
		area.mxcsr &= mxcsr_mask;
		area.components &= components;
		area.compacted = 0;
		memset(area.reserved, 0, sizeof(area.reserved));
	}
	asm volatile("xrstor64 %0" : : "m"(area), "a"(components), "d"(0));
}

void get_safe_registers(unsigned long *gp, unsigned long *fp);
void get_safe_registers(unsigned long *gp, unsigned long *fp)
{
	struct area *initial = (struct area *)fp;

	if (owner == fp)
		owner = NULL;
	memset(gp, 0, MAX_REG_NR * sizeof(long));
	gp[HOST_CS] = 0x33;
	gp[HOST_SS] = 0x2b;
	gp[HOST_EFLAGS] = 0x202;
	memset(fp, 0, MAX_FP_NR * sizeof(long));
	initial->control = 0x37f;
	initial->mxcsr = initial_mxcsr;
}

/*
 * For ptrace and core dumps. Linux does not say of which task, only which address space is the current one: nothing
 * rather than another task's registers.
 */
int save_i387_registers(int pid, unsigned long *fp);
int save_i387_registers(int pid, unsigned long *fp)
{
	return -EIO;
}

int restore_i387_registers(int pid, unsigned long *fp);
int restore_i387_registers(int pid, unsigned long *fp)
{
	return -EIO;
}
