// POSIX threads, the part that only handles data: clean-up handlers, and attributes that have only one value.
//
// The only values are: not shared between processes, no priority inheritance, not robust. They can be read and set;
// other values fail with ENOTSUP.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include <zircon/syscalls.h>
#include "pthread_impl.h"

void _pthread_cleanup_push(struct __ptcb *handler, void (*function)(void *), void *argument)
{
	struct pthread *self = __pthread_self();
	*handler = (struct __ptcb){ function, argument, self->cleanup };
	self->cleanup = handler;
}

void _pthread_cleanup_pop(struct __ptcb *handler, int run)
{
	__pthread_self()->cleanup = handler->__next;
	if (run)
		handler->__f(handler->__x);
}

// Runs at a thread's end, before the destructors of its keys.
hidden void __c_thread_cleanup(void)
{
	struct pthread *self = __pthread_self();
	while (self->cleanup) {
		struct __ptcb *handler = self->cleanup;
		self->cleanup = handler->__next;
		handler->__f(handler->__x);
	}
}

// An attribute with one value can be read, and set to that value.
static int only(int wanted, int there) { return wanted == there ? 0 : ENOTSUP; }

#define ATTRIBUTE(object, name, value)                                             \
	int pthread_##object##_get##name(const pthread_##object##_t *of, int *out) \
	{                                                                          \
		*out = value;                                                      \
		return 0;                                                          \
	}                                                                          \
	int pthread_##object##_set##name(pthread_##object##_t *of, int wanted)     \
	{                                                                          \
		return only(wanted, value);                                        \
	}

ATTRIBUTE(attr, inheritsched, PTHREAD_INHERIT_SCHED)
ATTRIBUTE(attr, schedpolicy, SCHED_OTHER)
ATTRIBUTE(attr, scope, PTHREAD_SCOPE_SYSTEM)
ATTRIBUTE(barrierattr, pshared, PTHREAD_PROCESS_PRIVATE)
ATTRIBUTE(condattr, pshared, PTHREAD_PROCESS_PRIVATE)
ATTRIBUTE(mutexattr, pshared, PTHREAD_PROCESS_PRIVATE)
ATTRIBUTE(mutexattr, robust, PTHREAD_MUTEX_STALLED)
ATTRIBUTE(rwlockattr, pshared, PTHREAD_PROCESS_PRIVATE)

// No mutex becomes inconsistent when its owner ends, because none is robust.
int pthread_mutex_consistent(pthread_mutex_t *mutex)
{
	return EINVAL;
}

// No mutex has a priority ceiling.
int pthread_mutex_getprioceiling(const pthread_mutex_t *restrict mutex, int *restrict out)
{
	return EINVAL;
}

int pthread_mutex_setprioceiling(pthread_mutex_t *restrict mutex, int wanted, int *restrict old)
{
	return EINVAL;
}

int pthread_mutexattr_getprioceiling(const pthread_mutexattr_t *restrict attributes, int *restrict out)
{
	return ENOTSUP;
}

int pthread_mutexattr_setprioceiling(pthread_mutexattr_t *attributes, int wanted)
{
	return ENOTSUP;
}

// Only the thread itself can read its CPU-time clock (CLOCK_THREAD_CPUTIME_ID).
int pthread_getcpuclockid(pthread_t thread, clockid_t *out)
{
	return ENOSYS;
}

int pthread_rwlockattr_init(pthread_rwlockattr_t *attributes)
{
	*attributes = (pthread_rwlockattr_t){ 0 };
	return 0;
}

int pthread_rwlockattr_destroy(pthread_rwlockattr_t *attributes)
{
	return 0;
}

int pthread_attr_getschedparam(const pthread_attr_t *restrict of, struct sched_param *restrict out)
{
	memset(out, 0, sizeof *out);
	return 0;
}

int pthread_attr_setschedparam(pthread_attr_t *restrict of, const struct sched_param *restrict wanted)
{
	return only(wanted->sched_priority, 0);
}

int pthread_getschedparam(pthread_t thread, int *restrict policy, struct sched_param *restrict out)
{
	*policy = SCHED_OTHER;
	memset(out, 0, sizeof *out);
	return 0;
}

// Priorities are set by profiles (zx_object_set_profile), which require a resource.
int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *wanted)
{
	return policy == SCHED_OTHER ? only(wanted->sched_priority, 0) : EPERM;
}

int pthread_setschedprio(pthread_t thread, int priority)
{
	return only(priority, 0);
}

int pthread_getconcurrency(void)
{
	return 0;
}

int pthread_setconcurrency(int level)
{
	return level < 0 ? EINVAL : level ? EAGAIN : 0;
}

int sched_get_priority_max(int policy)
{
	return 0;
}

int sched_get_priority_min(int policy)
{
	return 0;
}

int sched_getcpu(void)
{
	errno = ENOSYS;
	return -1;
}

hidden _Bool __c_kill_child(int pid, _Bool really);

// The functions below know this process and its children, by their pid.
static int known(pid_t pid)
{
	if (!pid || pid == getpid() || pid == gettid() || __c_kill_child(pid, 0))
		return 1;
	errno = pid < 0 ? EINVAL : ESRCH;
	return 0;
}

// All processors: affinity is not restricted.
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *out)
{
	if (!known(pid))
		return -1;
	uint32_t count = zx_system_get_num_cpus();
	if (size * 8 < count) {
		errno = EINVAL;
		return -1;
	}
	memset(out, 0, size);
	for (uint32_t cpu = 0; cpu < count; cpu++)
		((unsigned char *)out)[cpu / 8] |= 1 << cpu % 8;
	return 0;
}

int sched_getscheduler(pid_t pid)
{
	return known(pid) ? SCHED_OTHER : -1;
}

int sched_getparam(pid_t pid, struct sched_param *out)
{
	if (!known(pid))
		return -1;
	memset(out, 0, sizeof *out);
	return 0;
}

// Like pthread_setschedparam.
int sched_setscheduler(pid_t pid, int policy, const struct sched_param *wanted)
{
	if (!known(pid))
		return -1;
	int error = pthread_setschedparam(0, policy, wanted);
	if (!error)
		return 0;
	errno = error;
	return -1;
}

int sched_setparam(pid_t pid, const struct sched_param *wanted)
{
	return sched_setscheduler(pid, SCHED_OTHER, wanted);
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *out)
{
	return sched_getaffinity(0, size, out) ? errno : 0;
}
