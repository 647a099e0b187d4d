// pthread.h: cancellation of threads.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cancel.h"
#include "check.h"

static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static pthread_t never_ends;

static void *reads(void *unused)
{
	char byte;
	read(ends[0], &byte, 1);
	return 0;
}

static void *receives(void *unused)
{
	char byte;
	recv(ends[0], &byte, 1, 0);
	return 0;
}

static void *writes(void *unused)
{
	static char much[1 << 20];
	for (;;)
		write(ends[0], much, sizeof much);
}

static void *polls(void *unused)
{
	poll(&(struct pollfd){ ends[0], POLLIN }, 1, -1);
	return 0;
}

static void *polls_nothing(void *unused)
{
	poll(0, 0, -1);
	return 0;
}

static void *selects(void *unused)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	select(ends[0] + 1, &set, 0, 0, 0);
	return 0;
}

static void *accepts(void *listener)
{
	accept(*(int *)listener, 0, 0);
	return 0;
}

static void *sleeps(void *unused)
{
	sleep(1000);
	return 0;
}

static void *sleeps_until(void *unused)
{
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){ 1000000 }, 0);
	return 0;
}

static void *waits_for_post(void *unused)
{
	sem_wait(&semaphore);
	return 0;
}

static void *joins(void *unused)
{
	pthread_join(never_ends, 0);
	return 0;
}

static void unlocks(void *unused)
{
	pthread_mutex_unlock(&mutex);
}

static void *waits_for_signal(void *unused)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlocks, 0);
	for (;;)
		pthread_cond_wait(&condition, &mutex);
	pthread_cleanup_pop(1);
	return 0;
}

static int in_both_ways(void *(*function)(void *))
{
	return is_cancelled(function, 0, 1) && is_cancelled(function, 0, 0);
}

TEST(cancel_waits)
{
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	CHECK(in_both_ways(reads));
	CHECK(in_both_ways(receives));
	CHECK(in_both_ways(polls));
	CHECK(in_both_ways(polls_nothing));
	CHECK(in_both_ways(selects));
	CHECK(in_both_ways(sleeps));
	CHECK(in_both_ways(sleeps_until));
	CHECK(!sem_init(&semaphore, 0, 0));
	CHECK(in_both_ways(waits_for_post));
	CHECK(in_both_ways(waits_for_signal));
	// Clean-up handlers run with the mutex held: it is free afterwards.
	CHECK(!pthread_mutex_trylock(&mutex));
	pthread_mutex_unlock(&mutex);
	// Nothing has been lost: what comes later is there.
	CHECK(write(ends[1], "x", 1) == 1);
	char byte = 0;
	CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
	CHECK(in_both_ways(writes));
	close(ends[0]);
	close(ends[1]);
}

// A cancelled wait keeps nothing: the other end sees the close.
TEST(cancel_keeps_no_descriptor)
{
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	CHECK(is_cancelled(reads, 0, 1));
	CHECK(is_cancelled(polls, 0, 1));
	close(ends[0]);
	char byte;
	CHECK(read(ends[1], &byte, 1) == 0);
	close(ends[1]);
}

TEST(cancel_of_joins)
{
	CHECK(!pthread_create(&never_ends, 0, sleeps, 0));
	CHECK(in_both_ways(joins));
	// It can be joined again.
	CHECK(!pthread_cancel(never_ends) && !pthread_join(never_ends, 0));
}

TEST(cancel_of_accepts)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0 && !listen(listener, 1));
	CHECK(is_cancelled(accepts, &listener, 1) && is_cancelled(accepts, &listener, 0));
	close(listener);
}

static atomic_int stage;

static void await(int wanted)
{
	while (atomic_load(&stage) < wanted)
		sched_yield();
}

static void *is_disabled(void *unused)
{
	int old = -1;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	if (old != PTHREAD_CANCEL_ENABLE)
		return "old state";
	atomic_store(&stage, 1);
	await(2);
	usleep(1000);
	pthread_testcancel();
	atomic_store(&stage, 3);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	if (old != PTHREAD_CANCEL_DISABLE)
		return "old state, then";
	atomic_store(&stage, 4);
	pthread_testcancel();
	return "not cancelled";
}

TEST(cancel_state)
{
	pthread_t thread;
	void *result = 0;
	atomic_store(&stage, 0);
	CHECK(!pthread_create(&thread, 0, is_disabled, 0));
	await(1);
	CHECK(!pthread_cancel(thread));
	atomic_store(&stage, 2);
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED && atomic_load(&stage) == 4);
	CHECK(pthread_setcancelstate(7, 0) == EINVAL && pthread_setcanceltype(7, 0) == EINVAL);
}

static char order[8];

static void notes(void *letter)
{
	strcat(order, letter);
}

static pthread_key_t key;

static void *with_handlers(void *unused)
{
	pthread_setspecific(key, "k");
	pthread_cleanup_push(notes, "a");
	pthread_cleanup_push(notes, "b");
	sleep(1000);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return 0;
}

TEST(cancel_runs_handlers)
{
	CHECK(!pthread_key_create(&key, notes));
	CHECK(is_cancelled(with_handlers, 0, 1));
	CHECK(!strcmp(order, "bak"));
	pthread_key_delete(key);
}

static void *computes(void *unused)
{
	int old = -1;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	atomic_store(&stage, old == PTHREAD_CANCEL_DEFERRED ? 1 : 2);
	for (volatile unsigned long i = 0;; i++)
		;
}

static void *allocates(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	atomic_store(&stage, 1);
	for (;;) {
		void *memory = malloc(100);
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
		free(memory);
	}
}

TEST(cancel_asynchronously)
{
	pthread_t thread;
	void *result = 0;
	atomic_store(&stage, 0);
	CHECK(!pthread_create(&thread, 0, computes, 0));
	await(1);
	CHECK(atomic_load(&stage) == 1);
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	// A thread that allocates all the time keeps no lock of the allocator's.
	for (int i = 0; i < 20; i++) {
		atomic_store(&stage, 0);
		CHECK(!pthread_create(&thread, 0, allocates, 0));
		await(1);
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
		free(malloc(100));
	}
	CHECK(is_cancelled(sleeps, 0, 1));
}

static void *cancels_itself(void *unused)
{
	pthread_cancel(pthread_self());
	stage = 1;
	pthread_testcancel();
	return 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int times;

static void once_only(void)
{
	if (!times++)
		sleep(1000);
}

static void *begins(void *unused)
{
	pthread_once(&once, once_only);
	return 0;
}

TEST(cancel_self_and_once)
{
	pthread_t thread;
	void *result = 0;
	stage = 0;
	CHECK(!pthread_create(&thread, 0, cancels_itself, 0));
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED && stage == 1);
	CHECK(is_cancelled(begins, 0, 1));
	CHECK(!pthread_once(&once, once_only) && times == 2);
}

// What a stream locks is free after the end of a thread that was cancelled while it used the stream.
static void *uses_stream(void *stream)
{
	char byte;
	fread(&byte, 1, 1, stream);
	pthread_testcancel();
	return 0;
}

TEST(cancel_leaves_streams)
{
	CHECK(!pipe(ends));
	FILE *stream = fdopen(ends[0], "r");
	pthread_t thread;
	void *result = 0;
	CHECK(stream && !pthread_create(&thread, 0, uses_stream, stream));
	usleep(20000);
	CHECK(!pthread_cancel(thread));
	CHECK(write(ends[1], "xy", 2) == 2);
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	CHECK(fgetc(stream) == 'y');
	fclose(stream);
	close(ends[1]);
}
