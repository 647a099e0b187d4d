// pthread.h: cancellation, where it meets the end of a thread, of a wait or of the process.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zircon/process.h>
#include <zircon/syscalls.h>
#include <zircon/syscalls/object.h>
#include <zircon/threads.h>
#include "cancel.h"
#include "check.h"

extern char **environ;
extern const char *program;

static int ends[2], others[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static atomic_int stage;

static void await(int wanted)
{
	while (atomic_load(&stage) < wanted)
		sched_yield();
}

static void *gets_one(void *stream)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	getc(stream);
	return 0;
}

static void *cancels(void *thread)
{
	pthread_cancel(thread);
	return 0;
}

static void *innocent(void *unused)
{
	char byte;
	return read(others[0], &byte, 1) == 1 ? 0 : (void *)(long)errno;
}

// The target ends by itself and is joined while another thread still cancels it. A new thread may get its memory.
static int another_joins(FILE *stream, size_t stack_size)
{
	pthread_t target, canceller, next;
	pthread_attr_t attributes;
	void *result = 0;
	pthread_attr_init(&attributes);
	if (stack_size)
		pthread_attr_setstacksize(&attributes, stack_size);
	if (pthread_create(&target, &attributes, gets_one, stream))
		return 0;
	usleep(5000);
	if (pthread_create(&canceller, 0, cancels, target))
		return 0;
	usleep(5000);
	if (write(ends[1], "x", 1) != 1 || pthread_join(target, 0) || pthread_create(&next, 0, innocent, 0))
		return 0;
	usleep(5000);
	if (write(others[1], "y", 1) != 1 || pthread_join(next, &result) || pthread_join(canceller, 0))
		return 0;
	return !result;
}

TEST(cancel_while_another_joins)
{
	CHECK(!pipe(ends) && !pipe(others));
	FILE *stream = fdopen(ends[0], "r");
	setvbuf(stream, 0, _IONBF, 0);
	int right = 1;
	for (int i = 0; i < 20 && right; i++)
		right = another_joins(stream, 0);
	CHECK(right);
	// Memory of another size is unmapped at once.
	for (int i = 0; i < 20 && right; i++)
		right = another_joins(stream, 3 << 20);
	CHECK(right);
	fclose(stream);
	close(ends[1]);
	close(others[0]);
	close(others[1]);
}

static void writes_a_line(void)
{
	write(1, "bye\n", 4);
}

static void *exits(void *code)
{
	pthread_cancel(pthread_self());
	exit((long)code);
}

// Runs in a process of its own: exit is not cancelled, even if what it calls would be.
int cancelled_exit(int code)
{
	pthread_t thread;
	atexit(writes_a_line);
	pthread_create(&thread, 0, exits, (void *)(long)code);
	pthread_join(thread, 0);
	return 0;
}

static struct {
	pthread_cond_t condition;
	char more[16];
} *element;
static int gone;

static void unlocks(void *unused)
{
	pthread_mutex_unlock(&mutex);
}

static void *waits_for_end(void *unused)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlocks, 0);
	while (!gone)
		pthread_cond_wait(&element->condition, &mutex);
	pthread_cleanup_pop(1);
	return 0;
}

static zx_handle_t hold(pthread_t thread)
{
	zx_handle_t token = ZX_HANDLE_INVALID;
	CHECK(zx_task_suspend(thrd_get_zx_handle((thrd_t)thread), &token) == ZX_OK);
	return token;
}

// A condition can be destroyed as soon as all waiters are woken. The waiter is woken while "a debugger" holds it.
TEST(cancel_touches_no_destroyed_condition)
{
	pthread_t waiter;
	gone = 0;
	element = calloc(1, sizeof *element);
	CHECK(!pthread_create(&waiter, 0, waits_for_end, 0));
	until_it_waits(waiter);
	zx_handle_t token = hold(waiter);
	pthread_mutex_lock(&mutex);
	gone = 1;
	pthread_cond_broadcast(&element->condition);
	pthread_mutex_unlock(&mutex);
	pthread_cond_destroy(&element->condition);
	memset(element, 0, sizeof *element);
	CHECK(!pthread_cancel(waiter));
	zx_handle_close(token);
	CHECK(!pthread_join(waiter, 0));
	int same = 1;
	for (size_t i = 0; i < sizeof *element; i++)
		same &= ((char *)element)[i] == 0;
	CHECK(same);
	free(element);
}

static atomic_int signals;

static void *waits_for_one(void *unused)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlocks, 0);
	atomic_fetch_add(&stage, 1);
	pthread_cond_wait(&condition, &mutex);
	atomic_fetch_add(&signals, 1);
	pthread_cleanup_pop(1);
	return 0;
}

// Of two waiters the one that waits first is cancelled, before or after a signal: the signal is not lost.
TEST(cancel_consumes_no_signal)
{
	for (int before = 0; before < 2; before++) {
		pthread_t first, second;
		void *result = 0;
		stage = signals = 0;
		CHECK(!pthread_create(&first, 0, waits_for_one, 0));
		await(1);
		until_it_waits(first);
		CHECK(!pthread_create(&second, 0, waits_for_one, 0));
		await(2);
		until_it_waits(second);
		zx_handle_t token = hold(first);
		if (before)
			pthread_cond_signal(&condition);
		CHECK(!pthread_cancel(first));
		if (!before)
			pthread_cond_signal(&condition);
		zx_handle_close(token);
		CHECK(!pthread_join(first, &result));
		// The first thread has got the signal and ended, or was cancelled, and the second one has the signal.
		if (result == PTHREAD_CANCELED) {
			CHECK(!pthread_join(second, 0) && signals == 1);
		} else {
			CHECK(before && signals == 1);
			pthread_cond_signal(&condition);
			CHECK(!pthread_join(second, 0) && signals == 2);
		}
	}
}

static sem_t semaphore;

static void *waits_for_post(void *unused)
{
	sem_wait(&semaphore);
	return 0;
}

// A post is taken, or stays.
TEST(cancel_loses_no_post)
{
	for (int before = 0; before < 2; before++) {
		pthread_t waiter;
		void *result = 0;
		int value = -1;
		CHECK(!sem_init(&semaphore, 0, 0) && !pthread_create(&waiter, 0, waits_for_post, 0));
		until_it_waits(waiter);
		zx_handle_t token = hold(waiter);
		if (before)
			sem_post(&semaphore);
		CHECK(!pthread_cancel(waiter));
		if (!before)
			sem_post(&semaphore);
		zx_handle_close(token);
		CHECK(!pthread_join(waiter, &result) && !sem_getvalue(&semaphore, &value));
		CHECK(value == (result == PTHREAD_CANCELED));
	}
}

static pthread_mutex_t locked = PTHREAD_MUTEX_INITIALIZER;

static void *locks_then_computes(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	pthread_mutex_lock(&locked);
	for (volatile unsigned long i = 0;; i++)
		;
}

static void *gets_then_computes(void *stream)
{
	gets_one(stream);
	for (volatile unsigned long i = 0;; i++)
		;
}

static void *calls_then_computes(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	zx_nanosleep(zx_clock_get_monotonic() + ZX_MSEC(200));
	for (volatile unsigned long i = 0;; i++)
		;
}

// An asynchronous target that is in the library for long ends behind it; the canceller does not wait for that.
TEST(cancel_asynchronously_behind_the_library)
{
	pthread_t thread;
	void *result = 0;
	pthread_mutex_lock(&locked);
	CHECK(!pthread_create(&thread, 0, locks_then_computes, 0));
	usleep(20000);
	CHECK(!pthread_cancel(thread) && !pthread_cancel(thread));
	pthread_mutex_unlock(&locked);
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);

	CHECK(!pipe(ends));
	FILE *stream = fdopen(ends[0], "r");
	CHECK(!pthread_create(&thread, 0, gets_then_computes, stream));
	usleep(20000);
	CHECK(!pthread_cancel(thread));
	CHECK(write(ends[1], "xy", 2) == 2);
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	// The stream has read both bytes, and keeps no lock.
	CHECK(getc(stream) == 'y');
	fclose(stream);
	close(ends[1]);

	CHECK(is_cancelled(calls_then_computes, 0, 1));
}

static ssize_t reads_cookie(void *unused, char *to, size_t size)
{
	return read(ends[0], to, size);
}

static void *gets_cookie(void *stream)
{
	getc(stream);
	pthread_testcancel();
	return 0;
}

// The functions of such a stream run with its lock held.
TEST(cancel_leaves_cookies)
{
	CHECK(!pipe(ends));
	FILE *stream = fopencookie(0, "r", (cookie_io_functions_t){ .read = reads_cookie });
	pthread_t thread;
	void *result = 0;
	CHECK(stream && !pthread_create(&thread, 0, gets_cookie, stream));
	usleep(20000);
	CHECK(!pthread_cancel(thread));
	CHECK(write(ends[1], "xy", 2) == 2);
	close(ends[1]);
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	int locked = ftrylockfile(stream);
	CHECK(!locked);
	if (!locked) {
		CHECK(getc(stream) == 'y' && getc(stream) == EOF);
		funlockfile(stream);
		fclose(stream);
	}
	close(ends[0]);
}

static pid_t started;

static void *spawns(void *unused)
{
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 9, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_addopen(&actions, 10, "/dev/null", O_RDWR, 0);
	char *const argv[] = { (char *)program, "--child", "exit", "7", 0 };
	pthread_cancel(pthread_self());
	pid_t pid;
	if (!posix_spawn(&pid, program, &actions, 0, argv, environ))
		started = pid;
	posix_spawn_file_actions_destroy(&actions);
	pthread_testcancel();
	return 0;
}

static void *runs_a_shell(void *command)
{
	system(command);
	return 0;
}

TEST(cancel_loses_no_child)
{
	pthread_t thread;
	void *result = 0;
	int status, before = dup(0);
	close(before);
	started = 0;
	CHECK(!pthread_create(&thread, 0, spawns, 0) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	CHECK(started && waitpid(started, &status, 0) == started && WEXITSTATUS(status) == 7);
	int after = dup(0);
	close(after);
	CHECK(before > 0 && after == before);
	// system kills the program that it has started, and waits for it.
	while (waitpid(-1, &status, 0) > 0)
		;
	char command[200];
	snprintf(command, sizeof command, "%s --child sleep 2", program);
	CHECK(is_cancelled(runs_a_shell, command, 1));
	errno = 0;
	CHECK(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
}

static pthread_t both[2];

static void *cancels_the_other(void *index)
{
	atomic_fetch_add(&stage, 1);
	await(2);
	pthread_cancel(both[!index]);
	usleep(1000000000);
	return 0;
}

static void *changes_its_state(void *unused)
{
	atomic_store(&stage, 1);
	for (;;) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0);
		usleep(1);
	}
}

TEST(cancel_by_several)
{
	void *result[2] = { 0 };
	for (int i = 0; i < 50; i++) {
		stage = 0;
		CHECK(!pthread_create(&both[0], 0, cancels_the_other, 0));
		CHECK(!pthread_create(&both[1], 0, cancels_the_other, (void *)1));
		CHECK(!pthread_join(both[0], &result[0]) && !pthread_join(both[1], &result[1]));
		CHECK(result[0] == PTHREAD_CANCELED && result[1] == PTHREAD_CANCELED);
		stage = 0;
		CHECK(!pthread_create(&both[0], 0, changes_its_state, 0));
		await(1);
		CHECK(!pthread_cancel(both[0]) && !pthread_cancel(both[0]));
		CHECK(!pthread_join(both[0], &result[0]) && result[0] == PTHREAD_CANCELED);
	}
}

static void *reads(void *unused)
{
	char byte;
	read(ends[0], &byte, 1);
	return 0;
}

static size_t handles(void)
{
	zx_info_process_handle_stats_t stats;
	size_t all = 0;
	if (zx_object_get_info(zx_process_self(), ZX_INFO_PROCESS_HANDLE_STATS, &stats, sizeof stats, 0, 0) != ZX_OK)
		return 0;
	for (int i = 0; i < ZX_OBJ_TYPE_UPPER_BOUND; i++)
		all += stats.handle_count[i];
	return all;
}

TEST(cancel_keeps_no_handle)
{
	CHECK(!pipe(ends) && is_cancelled(reads, 0, 1));
	size_t before = handles();
	int right = 1;
	for (int i = 0; i < 100 && right; i++) {
		pthread_t thread;
		void *result = 0;
		right = !pthread_create(&thread, 0, reads, 0);
		if (i & 1)
			usleep(1000);
		right = right && !pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED;
	}
	CHECK(right && before);
	CHECK_INT(handles(), before);
	close(ends[0]);
	close(ends[1]);
}
