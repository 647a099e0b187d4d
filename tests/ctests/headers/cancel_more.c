// pthread.h: cancellation at further points, with the processor's state, and without resources.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <lib/fdio/spawn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>
#include <zircon/process.h>
#include <zircon/syscalls.h>
#include <zircon/syscalls/object.h>
#include "cancel.h"
#include "check.h"

extern const char *program;

static mtx_t plain_mutex;
static cnd_t plain_condition;

static void *waits_as_c11(void *timed)
{
	mtx_lock(&plain_mutex);
	if (timed)
		cnd_timedwait(&plain_condition, &plain_mutex, &(struct timespec){ 4000000000 });
	else
		cnd_wait(&plain_condition, &plain_mutex);
	mtx_unlock(&plain_mutex);
	return 0;
}

// The thread ends with the mutex held, and has no handler that releases it.
TEST(cancel_of_c11_conditions)
{
	for (long timed = 0; timed < 2; timed++) {
		CHECK(mtx_init(&plain_mutex, mtx_plain) == thrd_success && cnd_init(&plain_condition) == thrd_success);
		CHECK(is_cancelled(waits_as_c11, (void *)timed, 1));
		CHECK(mtx_trylock(&plain_mutex) == thrd_busy);
	}
}

static void *locks_a_file(void *unused)
{
	struct flock lock = { .l_type = F_WRLCK };
	pthread_cancel(pthread_self());
	fcntl(-1, F_SETLKW, &lock);
	return 0;
}

static void *tries_a_file(void *unused)
{
	struct flock lock = { .l_type = F_WRLCK };
	pthread_cancel(pthread_self());
	fcntl(-1, F_SETLK, &lock);
	return 0;
}

TEST(cancel_of_file_locks)
{
	pthread_t thread;
	void *result = 0;
	CHECK(!pthread_create(&thread, 0, locks_a_file, 0));
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	CHECK(!pthread_create(&thread, 0, tries_a_file, 0));
	CHECK(!pthread_join(thread, &result) && !result);
}

static unsigned long flags;
static unsigned control;

static void notes_state(void *unused)
{
	flags = __builtin_ia32_readeflags_u64();
	control = __builtin_ia32_stmxcsr();
}

static void *backwards(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	pthread_cleanup_push(notes_state, 0);
	unsigned up = 0x5f80;
	// Fills the x87 stack, rounds upwards, and copies strings backwards.
	__asm__ volatile("fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1; ldmxcsr %0; std; 1: jmp 1b" ::"m"(up));
	pthread_cleanup_pop(0);
	return 0;
}

// Handlers start like functions: with the direction, and the floating-point state, that the ABI says.
TEST(cancel_clears_the_direction)
{
	flags = ~0ul;
	CHECK(is_cancelled(backwards, 0, 1));
	CHECK(!(flags & 0x400));
	CHECK_INT(control, 0x1f80);
}

static atomic_int handled;

static void enables(void *unused)
{
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0);
	pthread_testcancel();
	usleep(1000);
	atomic_fetch_add(&handled, 1);
}

static void *with_enabling_handlers(void *unused)
{
	pthread_cleanup_push(enables, 0);
	pthread_cleanup_push(enables, 0);
	usleep(1000000000);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return 0;
}

// A thread that ends is not cancelled again.
TEST(cancel_of_handlers)
{
	handled = 0;
	CHECK(is_cancelled(with_enabling_handlers, 0, 1));
	CHECK_INT(handled, 2);
}

static int ends[2];

static void *reads(void *unused)
{
	char byte;
	read(ends[0], &byte, 1);
	return 0;
}

// Runs in a process whose job has few slots for handles. Without one, a thread cannot be stopped.
int cancel_without_handles(void)
{
	static zx_handle_t all[1024];
	pthread_t thread;
	void *result = 0;
	int count = 0;
	if (pipe(ends) || pthread_create(&thread, 0, reads, 0))
		return 1;
	usleep(20000);
	while (count < 1024 && zx_event_create(0, &all[count]) == ZX_OK)
		count++;
	int error = pthread_cancel(thread);
	int all_used = count < 1024;
	while (count)
		zx_handle_close(all[--count]);
	if (!all_used || error != EAGAIN)
		return 2;
	if (pthread_cancel(thread) || pthread_join(thread, &result) || result != PTHREAD_CANCELED)
		return 3;
	return 7;
}

TEST(cancel_says_that_there_is_no_handle)
{
	zx_handle_t job, process = ZX_HANDLE_INVALID;
	uint64_t limit = 256;
	const char *argv[] = { program, "--child", "cancel-without-handles", 0 };
	zx_info_process_t info = { 0 };
	CHECK(zx_job_create(zx_job_default(), 0, &job) == ZX_OK);
	CHECK(zx_object_set_property(job, HAFNON_PROP_JOB_HANDLE_LIMIT, &limit, sizeof limit) == ZX_OK);
	CHECK(fdio_spawn(job, FDIO_SPAWN_CLONE_ALL, program, argv, &process) == ZX_OK);
	CHECK(zx_object_wait_one(process, ZX_TASK_TERMINATED, ZX_TIME_INFINITE, 0) == ZX_OK);
	CHECK(zx_object_get_info(process, ZX_INFO_PROCESS, &info, sizeof info, 0, 0) == ZX_OK);
	CHECK_INT(info.return_code, 7);
	zx_handle_close(process);
	zx_handle_close(job);
}
