/*
 * How late timers are. Usage: timer SECONDS kernel|user|fault|nothing
 *
 * A thread with real-time priority sleeps for 5 ms again and again, while the first thread keeps the processor busy: in
 * one long system call after the other, in a loop, or with page faults. Prints how often it slept, and how late it was
 * at most, in microseconds. With 0 seconds it measures one sleep of a second instead.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

enum { PERIOD = 5 * 1000 * 1000, MEMORY = 8 << 20, PAGE = 4096 };

static atomic_bool ended;
static int64_t latest, end;
static int slept;

static int64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000l + at.tv_nsec;
}

static void *sleeper(void *unused)
{
	struct sched_param priority = { .sched_priority = 10 };

	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority))
		abort();
	while (now() < end) {
		int64_t at = now() + PERIOD, late;
		struct timespec until = { at / 1000000000, at % 1000000000 };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		late = now() - at;
		latest = late > latest ? late : latest;
		slept++;
	}
	atomic_store(&ended, 1);
	return unused;
}

int main(int argc, char **argv)
{
	int64_t seconds = argc == 3 ? atoi(argv[1]) : 0, began = now();
	char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	if (!seconds) {
		nanosleep(&(struct timespec){ 1, 0 }, NULL);
		printf("slept %ld us\n", (long)((now() - began) / 1000));
		return 0;
	}
	memset(memory, 1, MEMORY);
	end = now() + seconds * 1000000000l;
	if (pthread_create(&thread, NULL, sleeper, NULL))
		return 1;
	while (!atomic_load(&ended)) {
		if (!strcmp(argv[2], "kernel")) {
			/* Some 100 ms in one call, in which Linux enables no interrupts. */
			getrandom(memory, MEMORY, 0);
		} else if (!strcmp(argv[2], "fault")) {
			madvise(memory, MEMORY, MADV_DONTNEED);
			for (int at = 0; at < MEMORY; at += PAGE)
				memory[at] = 1;
		} else if (!strcmp(argv[2], "nothing")) {
			sched_yield();
		}
	}
	pthread_join(thread, NULL);
	printf("slept %d times, late %ld us\n", slept, (long)(latest / 1000));
	return 0;
}
