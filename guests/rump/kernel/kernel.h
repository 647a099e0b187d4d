/*
 * A kernel for tests. It has rump CPUs, threads and upcalls as a rump kernel does, and checks in each upcall that the
 * library does what the interface says.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "rumpuser.h"

/* The cases: tests/ctests/headers. */
#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A thread of the kernel. */
struct lwp {
	/* It has a rump CPU. */
	atomic_bool runs;
	/* How often it has released one in a hypercall. */
	atomic_int releases;
	/* How often it holds the big lock. */
	int locks;
	/* What it was told of the big lock when it released the CPU, and what it released the CPU for. */
	int told;
	void *interlock;
	/* It held the mutex that it waits with when it asked for a CPU last. */
	bool had_mutex;
};

extern const struct upcalls upcalls;
/* A mutex of the kernel's scheduler: it is taken and given back with the CPU if a wait names it. */
extern struct rumpuser_mtx *scheduler_mutex;
/* The number of upcalls that no hypercall should make. */
extern atomic_int wrong_upcalls;

void start_cpus(int count);
/* Changes the number of rump CPUs. */
void set_cpus(int count);
struct lwp *me(void);
/* Makes the calling thread one of the kernel's, and gives it a CPU. */
void enter_kernel(void);
void leave_kernel(void);
/* A thread that runs in the kernel; `join` waits for its end and keeps the CPU out of use meanwhile. */
void *begin(void (*run)(void *), void *arg);
void join(void *thread);
/* Waits without the CPU until the condition holds; a thread that waits for very long has failed. */
#define UNTIL(condition)                                                          \
	do {                                                                      \
		for (int tries_ = 0; !(condition); tries_++) {                    \
			if (tries_ == 20000) {                                    \
				fail(__FILE__, __LINE__, "never: %s", #condition); \
				break;                                            \
			}                                                         \
			pause_outside();                                          \
		}                                                                 \
	} while (0)
/* Lets others have the CPU for a millisecond. */
void pause_outside(void);
/* The same while the caller keeps it, or has none. */
void pause_inside(void);

/* The call releases the CPU, as often as said, and has it again after. */
#define RELEASES(count, call)                                                \
	do {                                                                 \
		int before_ = me()->releases;                                \
		call;                                                        \
		CHECK_INT(me()->releases - before_, count);                  \
		CHECK(me()->runs);                                           \
	} while (0)

/* How many rounds the long cases take. */
extern int rounds;
/* This program's path. */
extern const char *program;
/* The part of the other process of a case with two. */
void answer_on_bus(void);

#endif
