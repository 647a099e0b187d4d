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
	if (file->wpos != file->wbase)
		file->write(file, 0, 0);
	// What was read ahead is given back to whoever shares the descriptor.
	if (file->rpos != file->rend)
		file->seek(file, file->rpos - file->rend, SEEK_CUR);
}

void __stdio_exit(void)
{
	for (FILE *file = *__ofl_lock(); file; file = file->next)
		close_file(file);
	close_file(__stdin_used);
	close_file(__stdout_used);
	close_file(__stderr_used);
}

// What streams that are used at all refer to, so that this is linked.
void __stdio_exit_needed(void) __attribute__((alias("__stdio_exit")));
