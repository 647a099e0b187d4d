// What musl's stdio and locales keep by thread, for the threads that are ours.
#include <netdb.h>
#include "locale_impl.h"
#include "pthread_impl.h"
#include "stdio_impl.h"

// What a thread begins with: the locale of the whole program.
hidden void __c_thread_init(struct pthread *thread)
{
	thread->locale = &libc.global_locale;
}

static void make_lockable(FILE *file)
{
	if (file && file->lock < 0)
		file->lock = 0;
}

// Before there is a second thread: streams that were opened without locks get them.
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
