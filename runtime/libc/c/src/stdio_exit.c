// Flushes the streams when the process ends.
//
// Another thread may hold a stream's lock for ever, in a read whose input never comes. So this waits for a locked
// stream only for a short time, which is long enough for a thread that writes to it.
#include <time.h>
#include "stdio_impl.h"

static void close_file(FILE *file)
{
	if (!file)
		return;
	for (int tries = 0; ftrylockfile(file); tries++) {
		if (tries == 100)
			return;
		nanosleep(&(struct timespec){ 0, 1000000 }, 0);
	}
	// This also gives back data that was read ahead, for other users of the descriptor.
	fflush(file);
}

void __stdio_exit(void)
{
	FILE *standard[] = { __stdin_used, __stdout_used, __stderr_used };
	for (int i = 0; i < 3; i++)
		close_file(standard[i]);
	// The list stays locked, so no stream is opened any more.
	FILE *next = *__ofl_lock();
	while (next) {
		close_file(next);
		next = next->next;
	}
}

// Streams refer to this symbol, so this file is linked if any stream is used.
void __stdio_exit_needed(void) __attribute__((alias("__stdio_exit")));
