// What the cases of cancellation have in common.
#ifndef CANCEL_H
#define CANCEL_H

#include <pthread.h>
#include <unistd.h>
#include <zircon/syscalls.h>
#include <zircon/syscalls/object.h>
#include <zircon/threads.h>

// Returns when the thread waits for a futex.
static inline void until_it_waits(pthread_t thread)
{
	zx_info_thread_t info = { 0 };
	zx_handle_t handle = thrd_get_zx_handle((thrd_t)thread);
	while (!zx_object_get_info(handle, ZX_INFO_THREAD, &info, sizeof info, 0, 0) &&
	       info.state != ZX_THREAD_STATE_BLOCKED_FUTEX)
		usleep(1000);
}

// Whether a thread in this function is cancelled; after some time, in which it comes to its wait, or at once.
static inline int is_cancelled(void *(*function)(void *), void *argument, int wait)
{
	pthread_t thread;
	void *result = 0;
	if (pthread_create(&thread, 0, function, argument))
		return 0;
	if (wait)
		usleep(20000);
	return !pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED;
}

#endif
