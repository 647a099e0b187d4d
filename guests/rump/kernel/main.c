/*
 * The kernel's cases: `kernel [ROUNDS]` runs all of them. `kernel exit`, `kernel panic`, `kernel free` and `kernel flags`
 * end by the library's hand; `kernel job` says how much memory there is; `kernel bus` is the other process of a case.
 */
#include "kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rounds = 100;
const char *program;
static struct test *tests, **last = &tests;
static atomic_bool has_failed;

void add_test(struct test *test)
{
	*last = test;
	last = &test->next;
}

void fail(const char *file, int line, const char *format, ...)
{
	char text[300];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (!has_failed)
		printf("%s:%d: %s\n", file, line, text);
	has_failed = true;
}

/* A program that starts a kernel which is not of this revision, or with a wrong limit, goes on without one. */
static void refusals(void)
{
	CHECK(rumpuser_init(REVISION - 1, &upcalls) != 0);
	CHECK(rumpuser_init(-REVISION, &upcalls) != 0);
	setenv("RUMP_MEMLIMIT", "3mb", 1);
	CHECK(rumpuser_init(REVISION, &upcalls) != 0);
	setenv("RUMP_MEMLIMIT", "10k", 1);
	CHECK(rumpuser_init(REVISION, &upcalls) != 0);
}

static void start(void)
{
	if (rumpuser_init(REVISION, &upcalls)) {
		puts("rumpuser_init failed");
		exit(1);
	}
	start_cpus(1);
	enter_kernel();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	program = argv[0];
	if (!strcmp(what, "job")) {
		char limit[32] = "none";
		void *memory;
		start();
		int error = rumpuser_getparam("RUMP_MEMLIMIT", limit, sizeof limit);
		/* All of it can be had; one page more cannot. */
		size_t bytes = error ? 0 : strtoull(limit, NULL, 10) / 4096 * 4096;
		int all = bytes ? rumpuser_malloc(bytes, 0, &memory) : -1;
		int more = bytes ? rumpuser_malloc(4096, 0, &memory) : -1;
		printf("error %d, limit %s, all %d, more %d\n", error, limit, all, more);
		return 0;
	}
	if (!strcmp(what, "exit") || !strcmp(what, "panic") || !strcmp(what, "free") || !strcmp(what, "flags")) {
		struct rumpuser_mtx *mutex;
		start();
		rumpuser_dprintf("the last words");
		if (!strcmp(what, "free"))
			rumpuser_free(&what, 4096);
		if (!strcmp(what, "flags"))
			rumpuser_mutex_init(&mutex, 0);
		rumpuser_exit(!strcmp(what, "exit") ? 7 : -1);
	}
	if (!strcmp(what, "bus")) {
		start();
		answer_on_bus();
		return has_failed;
	}
	if (*what)
		rounds = atoi(what);
	refusals();
	setenv("RUMP_MEMLIMIT", "3m", 1);
	start();
	CHECK(rumpuser_init(REVISION, &upcalls) != 0);
	printf("test refusals ... %s\n", has_failed ? "FAILED" : "ok");
	int failed = has_failed;
	for (struct test *test = tests; test; test = test->next) {
		has_failed = false;
		test->run();
		CHECK(me()->runs);
		CHECK_INT(wrong_upcalls, 0);
		printf("test %s ... %s\n", test->name, has_failed ? "FAILED" : "ok");
		failed += has_failed;
	}
	return failed != 0;
}
