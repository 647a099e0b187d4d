// Per-thread state of musl's stdio and locales, for our threads.
#include <netdb.h>
#include "locale_impl.h"
#include "pthread_impl.h"
#include "stdio_impl.h"

// A new thread starts with the program's global locale.
hidden void __c_thread_init(struct pthread *thread)
{
	thread->locale = &libc.global_locale;
}

static void make_lockable(FILE *file)
{
	if (file && file->lock < 0)
		file->lock = 0;
}

// Called before the second thread starts: gives locks to streams that were opened without.
hidden void __c_threads_begin(void)
{
	if (libc.threaded)
		return;
	for (FILE *file = *__ofl_lock(); file; file = file->next)
		make_lockable(file);
	__ofl_unlock();
	make_lockable(__stdin_used);
	make_lockable(__stdout_used);
	make_lockable(__stderr_used);
	libc.threaded = 1;
}

pid_t gettid(void)
{
	return __pthread_self()->tid;
}

int *__h_errno_location(void)
{
	return &__pthread_self()->h_errno_val;
}
