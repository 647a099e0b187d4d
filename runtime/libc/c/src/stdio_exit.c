// The end of streams when the process ends: what they keep is written.
//
// Another thread may be in a stream for ever, waiting for input that nobody sends. So a stream that is taken is waited for only a
// moment: long enough for whoever is writing to it.
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
	// Also gives back what was read ahead, to whoever shares the descriptor.
	fflush(file);
}

void __stdio_exit(void)
{
	FILE *standard[] = { __stdin_used, __stdout_used, __stderr_used };
	for (int i = 0; i < 3; i++)
		close_file(standard[i]);
	// The list stays locked: nothing is opened any more.
	FILE *next = *__ofl_lock();
	while (next) {
		close_file(next);
		next = next->next;
	}
}

// What streams that are used at all refer to, so that this is linked.
void __stdio_exit_needed(void) __attribute__((alias("__stdio_exit")));
