// Replaces musl's header of this name: the part of a thread that musl's sources can see.
//
// `struct __pthread` is the beginning of `Thread` in ../../src/thread/mod.rs, field by field.
#ifndef _PTHREAD_IMPL_H
#define _PTHREAD_IMPL_H

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include "atomic.h"
#include "libc.h"
#include "syscall.h"

#define pthread __pthread

struct pthread {
	struct pthread *self;
	uintptr_t reserved;
	uintptr_t canary;
	uintptr_t unsafe_stack;
	int errno_val;
	uint32_t handle;
	int tid;
	int h_errno_val;
	locale_t locale;
	void *stdio_locks;
	struct __ptcb *cleanup;
};

static inline struct pthread *__pthread_self(void)
{
	struct pthread *self;
	__asm__("mov %%fs:0, %0" : "=r"(self));
	return self;
}

hidden void __futexwait(volatile void *word, int value, int priv);
hidden unsigned __cancel_off(void);
hidden void __cancel_on(unsigned);
int __libc_wait(uintptr_t call, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
hidden void __wake(volatile void *word, int count, int priv);

#endif
